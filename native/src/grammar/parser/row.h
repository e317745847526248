/* Rows: what a parser knows of a text between two terminals.
 *
 * Earley's algorithm (1970) with rows (item sets) that are interned by content. An item is a state of a
 * rule's automaton, the rule's registers, and the row in which the rule began. Rows with the same items are
 * one row, wherever they occur in a text, so that what follows a row is computed once. Leo's optimization
 * (1991) keeps right recursion linear. The rows of an LALR parser are its stacks, likewise interned.
 */
#pragma once

#include "grammar/parser/rules.h"

enum { EG_SELF = -1 }; /* the origin of an item that begins in its own row */

typedef struct eg_item {
    int32_t state, registers, origin;
} eg_item;

/* An advance over `symbol`, and the resulting item. */
typedef struct eg_transition {
    int32_t symbol;
    eg_item next;
} eg_transition;

/* What follows from the states and registers of a row's items alone, regardless of origins. */
typedef struct eg_core {
    int32_t *key;             /* [2 * key_count] state and registers, ascending */
    int32_t key_count;
    eg_transition *rules;     /* transitions of predicted items over rules, by symbol; origin EG_SELF */
    eg_transition *terminals; /* ... and over terminals */
    int32_t rule_count, terminal_count;
    int32_t *expected;        /* the terminals that may come next, including ignored ones */
    int32_t expected_count;
    bool special;             /* some of them are special tokens */
    bool looks;               /* some of them match the empty string under a look-ahead */
    bool begins;              /* of an LALR parser: a terminal that is not ignored may come */
    int32_t lexer;            /* of an LALR parser: the lexer's expression; else -1 */
    int32_t *parts;           /* [budget_levels] budgets of the parts it is within, 0: none; or NULL */
    eg_bytes first;           /* the bytes that the expected terminals can begin with */
    eg_bytes narrow;          /* ... counting only those that are not wide */
} eg_core;

typedef struct eg_row {
    int32_t core;
    int32_t count;
    eg_item *items; /* ascending; predicted items are in the core */
    bool accepting; /* the text may end here */
    int32_t open;   /* of an LALR parser: the set of terminals it can accept; -1: not known yet */
    int32_t mark;   /* its index in `pending`, if it is there */
} eg_row;

/* A row that stands for others as the origin of a rule, since completing it there results in the same
 * items. */
typedef struct eg_origin {
    int32_t row;
    int32_t begin, count; /* the rule and those items, in `origin_items` */
} eg_origin;

typedef struct eg_rows {
    eg_pool *pool;
    eg_expressions *expressions;
    eg_rules *rules;
    EG_VECTOR(eg_row) rows;            /* 0: the beginning of a text */
    EG_VECTOR(eg_core) cores;
    EG_VECTOR(int32_t) words;          /* of registers, one after the other */
    EG_VECTOR(int32_t) register_at;    /* [registers + 1] */
    EG_VECTOR(eg_item) work;           /* items of the row under construction */
    EG_VECTOR(eg_transition) rule_work, terminal_work;
    EG_VECTOR(int32_t) values;
    eg_set rows_by_content, cores_by_content, registers_by_content;
    struct eg_action_sets **lalr_sets; /* of the states of an LALR parser, NULL: not computed yet */
    eg_map lalr_cores;                 /* (eg_lalr_state.lexer, eg_row.open) to core */
    EG_VECTOR(uint32_t) opens;         /* the sets of terminals that eg_row.open numbers */
    eg_set opens_by_content;
    EG_VECTOR(int32_t) pending;        /* rows whose `open` is being computed; their sets follow `opens` */
    eg_map next;                       /* (row, terminal) to row, -1: none */
    eg_map joined;                     /* two rows, the lesser first, to the row of both */
    eg_map without;                    /* (row, levels) to the row without the rest of the parts of these */
    eg_map leo_by_rule;                /* (row, rule) to an index in `leo_items` */
    EG_VECTOR(eg_item) leo_items;      /* state: a rule; origin: where it is completed as well */
    eg_map origins;                    /* (row, rule) to the row that stands for it */
    EG_VECTOR(eg_origin) origin_list;
    EG_VECTOR(eg_item) origin_items;
    eg_set origins_by_content;
    EG_VECTOR(eg_item) completed;      /* a stack: the items of origins under construction */
    int32_t *slots;                    /* a hash table of `work`: an index, valid where stamps[] == stamp */
    uint32_t *stamps;
    uint32_t stamp;
    int32_t slot_count;
    uint32_t *predicted;               /* [rules] the stamp of their last prediction */
    bool accepting;                    /* of the row under construction */
} eg_rows;

/* Whether anything except the end of the text may follow `row`. */
static inline bool eg_core_can_continue(const eg_core *core) {
    return core->special || eg_bytes_fold(&core->first);
}

static inline const eg_core *eg_core_of(const eg_rows *r, int32_t row) {
    return &r->cores.at[r->rows.at[row].core];
}
