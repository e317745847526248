/* A grammar's rules as the engine stores them. */
#pragma once

#include "engine_sampler_grammar.h"
#include "grammar/base/tokens.h"
#include "grammar/expression/workshop.h"

/* The symbol of an edge on which a rule ends; other negative symbols are rules, -1 - rule. */
#define EG_ACCEPT INT32_MIN

/* Operations of edges, as in engine_sampler.grammar.rules. */
enum { EG_CLEAR, EG_SET, EG_COUNT, EG_SATURATE, EG_AT_LEAST, EG_RESET, EG_CLAUSE };

typedef struct eg_edge {
    int32_t symbol;
    int32_t target;
    int32_t begin, end; /* in operations */
} eg_edge;

typedef struct eg_rule {
    int32_t first;    /* its first state */
    int32_t words;    /* words of 32 bits in its registers: the bits, then the counters */
    int32_t counters; /* offset of the counters */
    bool nullable;    /* see eg_rows_open */
} eg_rule;

typedef struct eg_terminal {
    int32_t expression; /* -1: special tokens */
    bool ignored;
    bool nullable;      /* matches the empty string */
    bool looks;         /* matches the empty string where its look-ahead allows it */
    bool known;         /* it was linked before: whether it is EG_EMPTY ... */
    bool empty;         /* ... need not be found out again */
} eg_terminal;

typedef struct eg_pairs {
    const int32_t *at; /* [2 * count] */
    int32_t count;
} eg_pairs;

typedef struct eg_lalr_state {
    eg_pairs actions; /* a terminal, and the action: shift to a state, or reduce -1 - rule */
    eg_pairs gotos;   /* the left side of a rule, and a state */
    eg_pairs entries; /* a terminal that the lexer tries, in order, and EG_KEYWORD, EG_IGNORED */
    int32_t end;      /* at the end of the text: EG_LALR_ACCEPT, reduce -1 - rule, or nothing */
    int32_t lexer;    /* the number of `entries` */
} eg_lalr_state;

/* The tables of an LALR parser, with a lexer for each of its states. */
typedef struct eg_lalr {
    int32_t state_count, rule_count, first;
    const int32_t *rules; /* the left side and the length of each */
    eg_lalr_state *states;
} eg_lalr;

enum { EG_LALR_ACCEPT = 1 << 30 };

typedef struct eg_rules {
    eg_rule *rules;
    eg_terminal *terminals;  /* [terminal_count + ignore_count] */
    int32_t *rule_of;        /* of each state */
    int32_t *first_edge;     /* [states + 1] */
    eg_edge *edges;
    int32_t *operations;
    int32_t *special_starts;
    int32_t *special_ids;
    int32_t *ignore;         /* terminals of their own, after the others */
    int32_t *budgets;        /* [terminals][budget_levels], as in es_grammar_program; or NULL */
    int32_t *code;           /* of the expressions, to read them again */
    int32_t *terminal_nodes; /* of each terminal, its node in `code` */
    int64_t code_length;
    eg_lalr *lalr;           /* in place of the rules, or NULL */
    bool names_ordinary;     /* `special_ids` contains tokens that are not special */
    bool always_continues;   /* something follows every expected terminal: see eg_rules_prune */
    int32_t rule_count, terminal_count, state_count, edge_count, ignore_count;
    int32_t start;
    int32_t budget_levels;
    bool has_parts;          /* some budgets are of parts of several terminals */
} eg_rules;

enum { EG_MAX_LEVELS = 5 }; /* of budgets: the most parts within each other, and a terminal */

/* The budget of a terminal at a level: see es_grammar_program.budgets. */
static inline int32_t eg_budget(const eg_rules *r, int32_t terminal, int32_t level) {
    return r->budgets[(int64_t)terminal * r->budget_levels + level];
}

/* Copy `program` into `pool`; faults with ES_GRAMMAR_INVALID if its numbers are inconsistent. */
void eg_rules_copy(eg_pool *pool, eg_rules *rules, const es_grammar_program *program, int32_t vocabulary);

/* Read the expressions into a table, which begins with those of `begun` unless that is NULL, and give each
 * terminal its own. */
void eg_rules_link(eg_rules *rules, eg_expressions *x, const eg_beginning *begun, const eg_tokens *tokens);

/* Drop edges over symbols that match no finite text. After what is left something always follows, unless
 * registers, tables or look-aheads can interfere. Faults with ES_GRAMMAR_EMPTY if nothing is left of the
 * start rule. */
void eg_rules_prune(eg_pool *pool, eg_rules *rules);
