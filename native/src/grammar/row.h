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

enum { ES_SELF = -1 };  /* the origin of an item that begins in its own row */

typedef struct es_item {
    int32_t state, registers, origin;
} es_item;

typedef struct es_wait {  /* an item that goes on over `symbol`, and what it is then */
    int32_t symbol;
    es_item next;
} es_wait;

/* What follows from the states and registers of a row's items alone, origins apart. */
typedef struct es_core {
    int32_t *key;             /* [2 * key_count] state and registers, ascending */
    int32_t key_count;
    es_wait *rules;           /* predicted items that wait for a rule, by symbol; origin ES_SELF */
    es_wait *terminals;       /* ... for a terminal */
    int32_t rule_count, terminal_count;
    int32_t *expected;        /* the terminals that may come next, ignored ones included */
    int32_t expected_count;
    bool special;             /* some of them are special tokens */
    bool looks;               /* some of them can be empty under a look-ahead */
    bool begins;              /* of an LALR parser: something can come that is not ignored */
    int32_t lexer;            /* of an LALR parser: the expression of what its lexer tries; else -1 */
    es_bytes first;           /* the bytes that they can begin with */
    es_bytes narrow;          /* ... those of them that are not wide */
} es_core;

typedef struct es_row {
    int32_t core;
    int32_t count;
    es_item *items;           /* ascending; predicted ones are in the core */
    bool accepting;           /* the text may end here */
    int32_t open;             /* of an LALR parser: which terminals it can take; -1: not known yet */
    int32_t mark;             /* its place in `pending`, if it is there */
} es_row;

typedef struct es_rows {
    es_pool *pool;
    es_vocabulary *vocabulary;
    es_rules *rules;
    ES_VECTOR(es_row) rows;   /* 0: the beginning of a text */
    ES_VECTOR(es_core) cores;
    ES_VECTOR(int32_t) words; /* of registers, one after the other */
    ES_VECTOR(int32_t) register_at;  /* [registers + 1] */
    ES_VECTOR(es_item) work;  /* items of the row in the making */
    ES_VECTOR(es_wait) rule_work, terminal_work;
    ES_VECTOR(int32_t) values;
    es_set rows_by_content, cores_by_content, registers_by_content;
    struct es_ways **lalr_ways;      /* of the states of an LALR parser, NULL: not found yet */
    es_map lalr_cores;        /* (state of an LALR parser, es_row.open) to core */
    ES_VECTOR(uint32_t) opens;       /* sets of terminals that es_row.open numbers */
    es_set opens_by_content;
    ES_VECTOR(int32_t) pending;      /* rows whose `open` is being found; their sets are behind `opens` */
    es_map next;              /* (row, terminal) to row, -1: none */
    es_map joined;            /* two rows, the lesser first, to the row of both */
    es_map tops;              /* (row, rule) to an entry of `short_cuts` */
    ES_VECTOR(es_item) short_cuts;   /* state: a rule; origin: where it is complete as well */
    int32_t *slots;           /* of a table of `work`: an index, valid where stamps[] == stamp */
    uint32_t *stamps;
    uint32_t stamp;
    int32_t slot_count;
    uint32_t *predicted;      /* [rules] the stamp of their last prediction */
    bool accepting;           /* of the row in the making */
} es_rows;

/* Begin with the rows of `rules`; also finds out which rules can be empty. */
void es_rows_open(es_rows *r, es_pool *pool, es_vocabulary *vocabulary, es_rules *rules);
void es_rows_close(es_rows *r);

/* The row behind `terminal` in row `row`, -1 if there is none. */
int32_t es_row_advance(es_rows *r, int32_t row, int32_t terminal);

/* The same of an LALR parser, found anew; and its first row. */
int32_t es_lalr_advance(es_rows *r, int32_t row, int32_t terminal);
void es_lalr_open(es_rows *r);

/* Whether anything but the end may follow `row`. */
static inline bool es_core_goes_on(const es_core *core)
{
    return core->special || es_bytes_fold(&core->first);
}

/* The row of the items of both. */
int32_t es_row_join(es_rows *r, int32_t a, int32_t b);

static inline const es_core *es_core_of(const es_rows *r, int32_t row)
{
    return &r->cores.at[r->rows.at[row].core];
}

#endif
