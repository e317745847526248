/* mask.h: which tokens may follow a state.
 *
 * Most of a mask depends on one terminal alone: the tokens that end before the terminal does. They are
 * found once for an expression, by walking the trie of all tokens (a summary, shared by all grammars),
 * together with the places where the terminal can be over inside a token. Only there the parser is
 * asked, for what is left of those tokens, grouped by what it begins with.
 */
#ifndef ES_GRAMMAR_MASK_H
#define ES_GRAMMAR_MASK_H

#include "grammar/state.h"
#include "grammar/summary.h"

/* A set of tokens: those of `bits`, which belongs to a summary or to the mask itself, without `removed`,
 * and with `tokens`. Most masks are few tokens, or many that others have as well. */
typedef struct es_mask {
    const uint32_t *bits; /* or NULL */
    int32_t *removed, *tokens;
    int32_t removed_count, count;
} es_mask;

/* A set of tokens in the making. */
typedef struct es_out {
    const uint32_t *bits;
    ES_VECTOR(int32_t) removed;
    ES_VECTOR(int32_t) tokens;
    uint32_t *own;        /* room for bits of its own */
} es_out;

enum { ES_OUTS = 6 };     /* as deep as expressions are loosened within each other */

typedef struct es_masks {
    es_states states;
    es_map by_state;      /* to a mask */
    ES_VECTOR(es_mask) list;
    es_out outs[ES_OUTS];
    int32_t *path;        /* nodes of a way through a trie */
    ES_VECTOR(int32_t) wrong;  /* tokens to take out of sets in the making, as a stack */
    int depth;            /* of `outs`: how many are in use */
    int64_t mending;      /* nodes at which a looser expression may still be compared */
    int64_t patience;     /* nodes to walk before `tired` */
    bool tired;
    uint32_t *marks;      /* [words] 0 but for the tokens that are being sorted out */
} es_masks;

static inline es_pool *es_pool_of(const es_masks *m)
{
    return m->states.rows.pool;
}

static inline es_vocabulary *es_vocabulary_of(const es_masks *m)
{
    return m->states.rows.vocabulary;
}

/* A set that is empty; NULL where all are in use. */
es_out *es_out_take(es_masks *m);

void es_out_add(es_masks *m, es_out *out, const int32_t *tokens, int32_t count);

/* Add the tokens of `bits` without `removed`. */
void es_out_add_bits(es_masks *m, es_out *out, const uint32_t *bits, const int32_t *removed, int32_t count);

/* Let `out` hold bits of its own. */
void es_out_unshare(es_masks *m, es_out *out);

void es_masks_open(es_masks *m, es_pool *pool, es_vocabulary *vocabulary, es_rules *rules);
void es_masks_close(es_masks *m);

/* The number of the mask of `state`. */
int32_t es_mask_of(es_masks *m, int32_t state);

/* Whether some token that begins with the bytes of `node` of the vocabulary's trie, and is longer, can go
 * on from `state`. */
bool es_mask_any_below(es_masks *m, int32_t state, int32_t node);

/* Write a mask of `words` words, no fewer than the vocabulary needs; what lies beyond it is 0. */
void es_mask_write(const es_masks *m, int32_t mask, uint32_t *bits, int64_t words);

#endif
