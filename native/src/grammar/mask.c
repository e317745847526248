/* mask.c: see mask.h. */
#include "grammar/mask.h"

#include "grammar/bits.h"
#include "grammar/follow.h"

enum {
    FEW = 512,         /* tokens that are kept as a list ... */
    FEWER = 64,        /* ... or as changes to bits */
    PATIENCE = 100000  /* nodes that are walked before a mask is made byte by byte */
};

/* --- sets of tokens ------------------------------------------------------------------------------------------ */

void es_out_add(es_masks *m, es_out *out, const int32_t *tokens, int32_t count)
{
    if (!count) return;
    ES_RESERVE(es_pool_of(m), out->tokens, count);
    es_copy(out->tokens.at + out->tokens.count, tokens, (size_t)count * sizeof *tokens);
    out->tokens.count += count;
}

void es_out_unshare(es_masks *m, es_out *out)
{
    const size_t size = (size_t)es_vocabulary_of(m)->words * sizeof *out->own;
    if (!out->own) out->own = es_take(es_pool_of(m), size);
    if (!out->bits) memset(out->own, 0, size);
    else if (out->bits != out->own) es_copy(out->own, out->bits, size);
    es_clear_bits(out->own, out->removed.at, out->removed.count);
    out->removed.count = 0;
    out->bits = out->own;
}

void es_out_add_bits(es_masks *m, es_out *out, const uint32_t *bits, const int32_t *removed, int32_t count)
{
    if (!out->bits) {
        out->bits = bits;
        ES_RESERVE(es_pool_of(m), out->removed, count);
        es_copy(out->removed.at, removed, (size_t)count * sizeof *removed);
        out->removed.count = count;
        return;
    }
    if (out->bits == bits && !out->removed.count) return;
    es_out_unshare(m, out);
    es_set_bits(m->marks, removed, count);
    for (int32_t i = 0; i < es_vocabulary_of(m)->words; ++i) out->own[i] |= bits[i] & ~m->marks[i];
    es_clear_bits(m->marks, removed, count);
}

es_out *es_out_take(es_masks *m)
{
    if (m->depth == ES_OUTS) return NULL;
    es_out *out = &m->outs[m->depth++];
    out->bits = NULL;
    out->removed.count = out->tokens.count = 0;
    return out;
}

/* --- masks ---------------------------------------------------------------------------------------------------- */

static int32_t *keep_tokens(es_pool *pool, const int32_t *tokens, int32_t count)
{
    int32_t *out = es_take(pool, (size_t)count * sizeof *out);
    es_copy(out, tokens, (size_t)count * sizeof *out);
    return out;
}

/* Keep each token once. */
static void sort_out(es_masks *m, es_out *out)
{
    int32_t kept = 0;
    for (int32_t i = 0; i < out->tokens.count; ++i) {
        const int32_t token = out->tokens.at[i];
        if (es_has_bit(m->marks, token)) continue;
        es_set_bit(m->marks, token);
        out->tokens.at[kept++] = token;
    }
    es_clear_bits(m->marks, out->tokens.at, kept);
    out->tokens.count = kept;
}

static int32_t keep_mask(es_masks *m, es_out *out, int32_t state)
{
    es_pool *pool = es_pool_of(m);
    const size_t size = (size_t)es_vocabulary_of(m)->words * sizeof *out->own;
    sort_out(m, out);
    if (out->tokens.count + out->removed.count > (out->bits ? FEWER : FEW)) {
        es_out_unshare(m, out);
        es_set_bits(out->own, out->tokens.at, out->tokens.count);
        out->tokens.count = 0;
    }
    es_mask mask = {.bits = out->bits, .removed_count = out->removed.count, .count = out->tokens.count};
    if (out->bits && out->bits == out->own) {
        uint32_t *bits = es_take(pool, size);
        es_copy(bits, out->own, size);
        mask.bits = bits;
    }
    mask.removed = keep_tokens(pool, out->removed.at, out->removed.count);
    mask.tokens = keep_tokens(pool, out->tokens.at, out->tokens.count);
    ES_PUSH(pool, m->list, mask);
    es_map_put(pool, &m->by_state, es_pair(state, 0), m->list.count - 1);
    return m->list.count - 1;
}

/* The tokens that begin with the bytes of `node` and go on from `state`. */
static es_out *find_tokens(es_masks *m, int32_t state, int32_t node)
{
    es_states *s = &m->states;
    m->depth = m->wrong.count = 0;
    es_states_reset(s);
    es_out *out = es_out_take(m);
    for (int32_t i = 0; i < s->states.at[state].count; ++i)
        ES_PUSH(s->rows.pool, s->work, s->states.at[state].threads[i]);
    m->patience = PATIENCE;
    m->tired = false;
    es_follow(m, out, 0, node);
    return out;
}

bool es_mask_any_below(es_masks *m, int32_t state, int32_t node)
{
    es_out *out = find_tokens(m, state, node);
    uint32_t any = out->tokens.count > 0;
    if (out->bits) es_out_unshare(m, out);
    for (int32_t i = 0; i < es_vocabulary_of(m)->words && out->bits; ++i) any |= out->bits[i];
    return any;
}

int32_t es_mask_of(es_masks *m, int32_t state)
{
    const int32_t known = es_map_get(&m->by_state, es_pair(state, 0), -1);
    if (known >= 0) return known;
    const es_states *s = &m->states;
    const es_vocabulary *v = es_vocabulary_of(m);
    es_out *out = find_tokens(m, state, 0);
    if (m->tired) {
        m->depth = 0;
        out = es_out_take(m);
        es_follow_plainly(m, out, state);
    }
    for (int32_t i = 0; i < s->states.at[state].count; ++i)
        if (es_thread_stops(s, &s->states.at[state].threads[i])) es_follow_special(m, out, s->states.at[state].threads[i]);
    if (state == ES_OVER || s->states.at[state].accepting) es_out_add(m, out, v->eos, v->eos_count);
    return keep_mask(m, out, state);
}

void es_mask_write(const es_masks *m, int32_t number, uint32_t *bits, int64_t words)
{
    const es_mask *mask = &m->list.at[number];
    const int64_t known = es_vocabulary_of(m)->words;
    if (mask->bits) {
        es_copy(bits, mask->bits, (size_t)known * sizeof *bits);
        memset(bits + known, 0, (size_t)(words - known) * sizeof *bits);
        es_clear_bits(bits, mask->removed, mask->removed_count);
    } else {
        memset(bits, 0, (size_t)words * sizeof *bits);
    }
    es_set_bits(bits, mask->tokens, mask->count);
}

void es_masks_open(es_masks *m, es_pool *pool, es_vocabulary *vocabulary, es_rules *rules)
{
    memset(m, 0, sizeof *m);
    es_states_open(&m->states, pool, vocabulary, rules);
    m->path = es_take(pool, ES_OUTS * ((size_t)vocabulary->longest + 1) * sizeof *m->path);
    m->marks = es_take(pool, (size_t)vocabulary->words * sizeof *m->marks);
    memset(m->marks, 0, (size_t)vocabulary->words * sizeof *m->marks);
}

void es_masks_close(es_masks *m)
{
    es_pool *pool = m->states.rows.pool;
    if (!pool) return;
    for (int i = 0; i < ES_OUTS; ++i) {
        ES_FREE(pool, m->outs[i].removed);
        ES_FREE(pool, m->outs[i].tokens);
    }
    ES_FREE(pool, m->list);
    ES_FREE(pool, m->wrong);
    es_map_free(pool, &m->by_state);
    es_states_close(&m->states);
}
