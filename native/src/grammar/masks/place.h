/* Where a text is, under a grammar in which terminals have budgets: the most tokens that may begin in them, or
 * in parts that they are the terminals of. Parts may be within each other, each at a level of its own.
 *
 * Budgets do not change how a token is read: states, masks and forced bytes are those of the grammar without
 * them. Only between tokens, the threads in terminals whose budgets are spent are dropped, and of threads
 * between terminals what goes on with their parts, if the text can go on without these threads. A place is a
 * state and what its threads have spent: for each thread of the state a number for each level in `spent`, or
 * none at all if no thread has a budget.
 */
#pragma once

#include "grammar/masks/mask.h"

typedef struct eg_place {
    int32_t state;
    int32_t begin, count; /* of the numbers */
    int32_t least; /* what each thread has spent; the numbers are what it has spent besides */
    bool exceeded; /* budgets are spent, but the text cannot go on without these threads */
} eg_place;

enum { EG_NO_BUDGET = INT32_MAX }; /* the number of a thread without a budget */

/* A thread of a state, and the number of the one that it is left of. */
typedef struct eg_left {
    eg_thread thread;
    int32_t from;
} eg_left;

/* `list` begins with EG_START and EG_ENDED. Without budgets it is empty, and a place is a state. */
typedef struct eg_places {
    eg_states *states;
    eg_masks *masks;
    EG_VECTOR(eg_place) list;
    EG_VECTOR(int32_t) spent;
    EG_VECTOR(int32_t) before, after; /* numbers of the place under construction */
    EG_VECTOR(eg_left) left; /* of its state */
    eg_set by_content;
    eg_map by_byte; /* (place, byte), plus 256 for the first byte of a token, to place */
    eg_map by_token; /* (place, token) to place */
} eg_places;

void eg_places_open(eg_places *p, eg_states *states, eg_masks *masks);

/* The state of a place. */
static inline int32_t eg_place_state(const eg_places *p, int32_t place) {
    return p->list.count ? p->list.at[place].state : place;
}

/* The place after a token of any kind but EOS; EG_DEAD if it cannot follow. */
int32_t eg_place_token(eg_places *p, int32_t place, int32_t token);

/* The place after bytes, which spend nothing; EG_DEAD if they cannot follow. */
int32_t eg_place_bytes(eg_places *p, int32_t place, const uint8_t *bytes, int64_t length);
