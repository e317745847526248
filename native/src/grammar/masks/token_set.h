/* Sets of tokens under construction: a few tokens, or many that other sets share, with a few changes. */
#pragma once

#include "grammar/base/memory.h"

/* The tokens of `bits`, which belong to a summary or to the set itself, without `removed`, and `tokens`. */
typedef struct eg_token_set {
    const uint32_t *bits; /* or NULL */
    EG_VECTOR(int32_t) removed;
    EG_VECTOR(int32_t) tokens;
    uint32_t *own;        /* room for its own bits */
} eg_token_set;

enum { EG_SETS = 6 }; /* the nesting depth of looser expressions */

typedef struct eg_token_sets {
    eg_pool *pool;
    int32_t words;   /* of all bits of a set */
    uint32_t *marks; /* [words] all 0 between calls */
    int depth;       /* how many of `at` are in use */
    eg_token_set at[EG_SETS];
} eg_token_sets;

/* An empty set; NULL if all are in use. */
eg_token_set *eg_token_set_take(eg_token_sets *all);

void eg_token_set_add(eg_token_sets *all, eg_token_set *set, const int32_t *tokens, int32_t count);

/* Add the tokens of `bits` without `removed`. */
void eg_token_set_add_bits(eg_token_sets *all, eg_token_set *set, const uint32_t *bits,
                           const int32_t *removed, int32_t count);

void eg_token_set_add_set(eg_token_sets *all, eg_token_set *set, const eg_token_set *more);

void eg_token_set_remove(eg_token_sets *all, eg_token_set *set, const int32_t *tokens, int32_t count);

/* Give `set` its own copy of its bits. */
void eg_token_set_unshare(eg_token_sets *all, eg_token_set *set);

/* Keep each of its `tokens` once. */
void eg_token_set_unite(eg_token_sets *all, eg_token_set *set);
