/* program.h: a grammar's rules as the engine keeps them. */
#ifndef ES_GRAMMAR_PROGRAM_H
#define ES_GRAMMAR_PROGRAM_H

#include "grammar/vocabulary.h"

/* The symbol of an edge on which a rule ends; other symbols below 0 are rules, -1 - rule. */
#define ES_ACCEPT INT32_MIN

/* Operations of edges, as in engine_sampler.grammar.rules. */
enum { ES_CLEAR, ES_SET, ES_COUNT, ES_SATURATE, ES_AT_LEAST, ES_RESET, ES_CLAUSE };

typedef struct es_edge {
    int32_t symbol;
    int32_t target;
    int32_t begin, end;  /* in operations */
} es_edge;

typedef struct es_rule {
    int32_t first;       /* its first state */
    int32_t words;       /* of 32 bits in its registers: the bits, then the counters */
    int32_t counters;    /* where they begin */
    bool nullable;       /* see es_rows_open */
} es_rule;

typedef struct es_terminal {
    int32_t expression;  /* -1: special tokens */
    bool ignored;
    bool nullable;       /* it can be empty */
    bool looks;          /* it can be empty where its look-ahead allows */
} es_terminal;

typedef struct es_pairs {
    const int32_t *at;   /* [2 * count] */
    int32_t count;
} es_pairs;

typedef struct es_lalr_state {
    es_pairs actions;    /* a terminal, and what to do: shift to a state, or reduce -1 - rule */
    es_pairs gotos;      /* the left side of a rule, and a state */
    es_pairs entries;    /* a terminal that the lexer tries, in order, and ES_KEYWORD, ES_IGNORED */
    int32_t end;         /* at the end of the text: ES_LALR_ACCEPT, reduce -1 - rule, or nothing */
} es_lalr_state;

/* The tables of an LALR parser, with a lexer for each of its states. */
typedef struct es_lalr {
    int32_t state_count, rule_count, first;
    const int32_t *rules;  /* of each its left side and its length */
    es_lalr_state *states;
} es_lalr;

enum { ES_LALR_ACCEPT = 1 << 30 };

typedef struct es_rules {
    es_rule *rules;
    es_terminal *terminals;  /* [terminal_count + ignore_count] */
    int32_t *rule_of;        /* of each state */
    int32_t *first_edge;     /* [states + 1] */
    es_edge *edges;
    int32_t *operations;
    int32_t *special_starts;
    int32_t *special_ids;
    int32_t *ignore;         /* terminals of their own, behind the others */
    int32_t *code;           /* of the expressions, to read them anew */
    int32_t *terminal_nodes; /* of each terminal, its node in `code` */
    int64_t code_length;
    es_lalr *lalr;           /* in place of the rules, or NULL */
    bool open;               /* something follows every terminal that is expected: see es_rules_prune */
    int32_t rule_count, terminal_count, state_count, edge_count, ignore_count;
    int32_t start;
} es_rules;

/* Copy `program` into `pool`; faults ES_GRAMMAR_INVALID where its numbers do not fit together. */
void es_rules_copy(es_pool *pool, es_rules *rules, const es_grammar_program *program, int32_t vocabulary);

/* Read the expressions into the vocabulary's, and give each terminal its own. */
void es_rules_link(es_rules *rules, es_vocabulary *v);

/* Drop edges over what no finite text matches; what is left is always open, but for where registers, tables or
 * look-aheads can get in the way. Faults ES_GRAMMAR_EMPTY where nothing is left of the
 * start rule. */
void es_rules_prune(es_pool *pool, es_rules *rules);

#endif
