/* row.h: the parser: what a text between two terminals may go on with.
 *
 * Earley's algorithm (1970) with rows that are kept by content: an item is a state of a rule's
 * automaton, the rule's registers, and the row in which the rule began. Rows with the same items are one
 * row, wherever they turn up in a text, so that what follows a row is worked out once. Leo's
 * short cuts (1991) keep right recursion linear. The rows of an LALR parser are its stacks, each once.
 */
#ifndef ES_GRAMMAR_ROW_H
#define ES_GRAMMAR_ROW_H

#include "grammar/program.h"

enum { EG_SELF = -1 }; /* the origin of an item that begins in its own row */

typedef struct eg_item {
    int32_t state, registers, origin;
} eg_item;

typedef struct eg_transition { /* an item that goes on over `symbol`, and what it is then */
    int32_t symbol;
    eg_item next;
} eg_transition;

/* What follows from the states and registers of a row's items alone, origins apart. */
typedef struct eg_core {
    int32_t *key;             /* [2 * key_count] state and registers, ascending */
    int32_t key_count;
    eg_transition *rules;     /* predicted items that wait for a rule, by symbol; origin EG_SELF */
    eg_transition *terminals; /* ... for a terminal */
    int32_t rule_count, terminal_count;
    int32_t *expected;        /* the terminals that may come next, ignored ones included */
    int32_t expected_count;
    bool special;             /* some of them are special tokens */
    bool looks;               /* some of them can be empty under a look-ahead */
    bool begins;              /* of an LALR parser: something can come that is not ignored */
    int32_t lexer;            /* of an LALR parser: the expression of what its lexer tries; else -1 */
    eg_bytes first;           /* the bytes that they can begin with */
    eg_bytes narrow;          /* ... those of them that are not wide */
} eg_core;

typedef struct eg_row {
    int32_t core;
    int32_t count;
    eg_item *items; /* ascending; predicted ones are in the core */
    bool accepting; /* the text may end here */
    int32_t open;   /* of an LALR parser: which terminals it can take; -1: not known yet */
    int32_t mark;   /* its place in `pending`, if it is there */
} eg_row;

typedef struct eg_rows {
    eg_pool *pool;
    es_vocabulary *vocabulary;
    eg_rules *rules;
    EG_VECTOR(eg_row) rows;            /* 0: the beginning of a text */
    EG_VECTOR(eg_core) cores;
    EG_VECTOR(int32_t) words;          /* of registers, one after the other */
    EG_VECTOR(int32_t) register_at;    /* [registers + 1] */
    EG_VECTOR(eg_item) work;           /* items of the row in the making */
    EG_VECTOR(eg_transition) rule_work, terminal_work;
    EG_VECTOR(int32_t) values;
    eg_set rows_by_content, cores_by_content, registers_by_content;
    struct eg_action_sets **lalr_sets; /* of the states of an LALR parser, NULL: not found yet */
    eg_map lalr_cores;                 /* (state of an LALR parser, eg_row.open) to core */
    EG_VECTOR(uint32_t) opens;         /* sets of terminals that eg_row.open numbers */
    eg_set opens_by_content;
    EG_VECTOR(int32_t) pending;        /* rows whose `open` is being found; their sets are behind `opens` */
    eg_map next;                       /* (row, terminal) to row, -1: none */
    eg_map joined;                     /* two rows, the lesser first, to the row of both */
    eg_map leo_by_rule;                /* (row, rule) to an entry of `short_cuts` */
    EG_VECTOR(eg_item) leo_items;      /* state: a rule; origin: where it is complete as well */
    int32_t *slots;                    /* of a table of `work`: an index, valid where stamps[] == stamp */
    uint32_t *stamps;
    uint32_t stamp;
    int32_t slot_count;
    uint32_t *predicted;               /* [rules] the stamp of their last prediction */
    bool accepting;                    /* of the row in the making */
} eg_rows;

/* Begin with the rows of `rules`; also finds out which rules can be empty. */
void eg_rows_open(eg_rows *r, eg_pool *pool, es_vocabulary *vocabulary, eg_rules *rules);
void eg_rows_close(eg_rows *r);

/* The row behind `terminal` in row `row`, -1 if there is none. */
int32_t eg_row_advance(eg_rows *r, int32_t row, int32_t terminal);

/* The same of an LALR parser, found anew; and its first row. */
int32_t eg_lalr_advance(eg_rows *r, int32_t row, int32_t terminal);
void eg_lalr_open(eg_rows *r);

/* Whether anything but the end may follow `row`. */
static inline bool eg_core_goes_on(const eg_core *core) {
    return core->special || eg_bytes_fold(&core->first);
}

/* The row of the items of both. */
int32_t eg_row_join(eg_rows *r, int32_t a, int32_t b);

static inline const eg_core *eg_core_of(const eg_rows *r, int32_t row) {
    return &r->cores.at[r->rows.at[row].core];
}

#endif
