/* Which tokens may follow a state.
 *
 * Most of a mask depends on one terminal alone: the tokens that end before the terminal does. They are found
 * once per expression by walking the trie of all tokens (a summary, shared by all grammars), together with
 * the positions inside tokens at which the terminal can end. Only there is the parser consulted, for the
 * remainders of those tokens, grouped by their first byte.
 */
#ifndef ES_GRAMMAR_MASK_H
#define ES_GRAMMAR_MASK_H

#include "grammar/masks/place.h"
#include "grammar/masks/summary.h"

/* A set of tokens: those of `bits`, which belongs to a summary or to the mask itself, without `removed`, plus
 * `tokens`. Most masks are a few tokens, or many that other masks share. */
typedef struct eg_mask {
    const uint32_t *bits; /* or NULL */
    int32_t *removed, *tokens;
    int32_t removed_count, count;
} eg_mask;

/* A set of tokens under construction. */
typedef struct eg_out {
    const uint32_t *bits;
    EG_VECTOR(int32_t) removed;
    EG_VECTOR(int32_t) tokens;
    uint32_t *own; /* room for its own bits */
} eg_out;

/* A walk through the vocabulary's trie that is continued by the next call. */
typedef struct eg_walk {
    int32_t state;            /* at the root */
    int32_t node;             /* the next one; 0: there is no walk */
    int32_t *path;            /* the states on the path to it, by depth */
    EG_VECTOR(int32_t) tokens; /* found so far */
    int64_t last;             /* when it was called for; 0: it is free */
} eg_walk;

enum {
    EG_OUTS = 6,  /* the nesting depth of loosened expressions */
    EG_WALKS = 16 /* how many are kept unfinished */
};

typedef struct eg_masks {
    eg_states states;
    eg_map by_state;          /* to a mask; -1 - n: none after n attempts */
    int64_t known;            /* what the tables held before the last attempt */
    EG_VECTOR(eg_mask) list;
    eg_out outs[EG_OUTS];
    int32_t *path;            /* nodes of a path through a trie */
    EG_VECTOR(int32_t) wrong; /* a stack of tokens to remove from sets under construction */
    int depth;                /* how many of `outs` are in use */
    eg_walk walks[EG_WALKS + 1]; /* the last one is not kept */
    int64_t walked;           /* how often any was called for */
    int64_t compare_budget;   /* nodes at which a looser expression may still be compared */
    int64_t budget;           /* nodes left to walk before `exhausted` */
    bool exhausted;
    int32_t failures;         /* masks in a row whose states had too many unknown steps */
    eg_places places;
} eg_masks;

static inline eg_pool *eg_pool_of(const eg_masks *m) { return m->states.rows.pool; }

static inline es_vocabulary *eg_vocabulary_of(const eg_masks *m) { return m->states.rows.vocabulary; }

/* The state of a place. */
static inline int32_t eg_place_state(const eg_masks *m, int32_t place) {
    return m->places.list.count ? m->places.list.at[place].state : place;
}

/* The place after a token of any kind but EOS; EG_DEAD if it cannot follow. */
static inline int32_t eg_place_token(eg_masks *m, int32_t place, int32_t token) {
    return m->places.list.count ? eg_place_counted(m, place, token)
                                : eg_state_token(&m->states, place, token);
}

/* An empty set; NULL if all are in use. */
eg_out *eg_out_take(eg_masks *m);

void eg_out_add(eg_masks *m, eg_out *out, const int32_t *tokens, int32_t count);

/* Add the tokens of `bits` without `removed`. */
void eg_out_add_bits(eg_masks *m, eg_out *out, const uint32_t *bits, const int32_t *removed, int32_t count);

/* Give `out` its own copy of its bits. */
void eg_out_unshare(eg_masks *m, eg_out *out);

void eg_masks_open(eg_masks *m, eg_pool *pool, es_vocabulary *vocabulary, eg_rules *rules);
void eg_masks_close(eg_masks *m);

/* The number of the mask of `state`. */
int32_t eg_mask_of(eg_masks *m, int32_t state);

bool eg_mask_is_empty(const eg_masks *m, int32_t mask);

/* Whether some longer token that begins with the bytes of `node` of the vocabulary's trie can continue from
 * `state`. */
bool eg_mask_any_below(eg_masks *m, int32_t state, int32_t node);

/* Write a mask of `words` words, at least as many as the vocabulary needs; the bits beyond those are 0. */
void eg_mask_write(const eg_masks *m, int32_t mask, uint32_t *bits, int64_t words);

#endif
