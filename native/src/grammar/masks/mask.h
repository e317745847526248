/* The masks of states: which tokens may follow. */
#pragma once

#include "grammar/masks/follow.h"

/* The tokens of `bits`, which belong to a summary or to the mask itself, without `removed`, and `tokens`.
 * Most masks are a few tokens, or many that other masks share. */
typedef struct eg_mask {
    const uint32_t *bits; /* or NULL */
    int32_t *removed, *tokens;
    int32_t removed_count, count;
} eg_mask;

typedef struct eg_masks {
    eg_follower *follower;
    eg_map by_state;  /* to a mask; -1 - n: none after n attempts */
    EG_VECTOR(eg_mask) list;
    int64_t known;    /* what the tables held before the last attempt */
    int32_t failures; /* masks in a row whose states had too many unknown steps */
} eg_masks;

/* The number of the mask of `state`. */
int32_t eg_mask_of(eg_masks *m, int32_t state);

bool eg_mask_is_empty(const eg_masks *m, int32_t mask);

/* Whether some longer token that begins with the bytes of `node` of the vocabulary's trie can continue from
 * `state`. */
bool eg_mask_any_below(eg_masks *m, int32_t state, int32_t node);

/* Write a mask of `words` words, at least as many as the vocabulary needs; the bits beyond those are 0. */
void eg_mask_write(const eg_masks *m, int32_t mask, uint32_t *bits, int64_t words);
