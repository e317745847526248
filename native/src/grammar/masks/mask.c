/* Sets of tokens, and the masks of states. */
#include "grammar/masks/mask.h"

#include "grammar/base/bits.h"
#include "grammar/masks/follow.h"

enum {
    FEW = 512,           /* tokens that are kept as a list ... */
    FEWER = 64,          /* ... or as changes to bits */
    FIRST_NODES = 2000,   /* nodes walked before a mask is tried byte by byte ... */
    LEXER_NODES = 30000,  /* ... with a lexer, under which a text has fewer readings ... */
    FIRST_STEPS = 4000,   /* ... with up to this many new steps between states */
    NODE_BUDGET = 100000, /* nodes walked before a mask is made byte by byte, with any number of steps */
    MAX_ATTEMPTS = 4,     /* unfinished ones before the same */
    MAX_FAILURES = 4      /* masks in a row that needed too many steps, after which no more are tried */
};

/* --- sets of tokens --- */

void eg_out_add(eg_masks *m, eg_out *out, const int32_t *tokens, int32_t count) {
    if (!count) return;
    eg_work(eg_pool_of(m)->fault, 1 + count / 16);
    EG_RESERVE(eg_pool_of(m), out->tokens, count);
    eg_copy(out->tokens.at + out->tokens.count, tokens, (size_t)count * sizeof *tokens);
    out->tokens.count += count;
}

void eg_out_unshare(eg_masks *m, eg_out *out) {
    const size_t size = (size_t)eg_vocabulary_of(m)->words * sizeof *out->own;
    eg_work(eg_pool_of(m)->fault, (int64_t)size / 128 + out->removed.count);
    if (!out->own) out->own = eg_take(eg_pool_of(m), size);
    if (!out->bits) memset(out->own, 0, size);
    else if (out->bits != out->own) eg_copy(out->own, out->bits, size);
    eg_clear_bits(out->own, out->removed.at, out->removed.count);
    out->removed.count = 0;
    out->bits = out->own;
}

void eg_out_add_bits(eg_masks *m, eg_out *out, const uint32_t *bits, const int32_t *removed, int32_t count) {
    if (!out->bits) {
        out->bits = bits;
        EG_RESERVE(eg_pool_of(m), out->removed, count);
        eg_copy(out->removed.at, removed, (size_t)count * sizeof *removed);
        out->removed.count = count;
        return;
    }
    if (out->bits == bits && !out->removed.count) return;
    eg_out_unshare(m, out);
    const es_vocabulary *v = eg_vocabulary_of(m);
    eg_work(eg_pool_of(m)->fault, v->words / 16 + count);
    eg_set_bits(v->marks, removed, count);
    for (int32_t i = 0; i < v->words; i++) out->own[i] |= bits[i] & ~v->marks[i];
    eg_clear_bits(v->marks, removed, count);
}

eg_out *eg_out_take(eg_masks *m) {
    if (m->depth == EG_OUTS) return NULL;
    eg_out *out = &m->outs[m->depth++];
    out->bits = NULL;
    out->removed.count = out->tokens.count = 0;
    return out;
}

/* --- masks --- */

static int32_t *keep_tokens(eg_pool *pool, const int32_t *tokens, int32_t count) {
    int32_t *out = eg_take(pool, (size_t)count * sizeof *out);
    eg_copy(out, tokens, (size_t)count * sizeof *out);
    return out;
}

/* Keep every token once. */
static void sort_out(eg_masks *m, eg_out *out) {
    uint32_t *marks = eg_vocabulary_of(m)->marks;
    int32_t kept = 0;
    for (int32_t i = 0; i < out->tokens.count; i++) {
        const int32_t token = out->tokens.at[i];
        if (eg_has_bit(marks, token)) continue;
        eg_set_bit(marks, token);
        out->tokens.at[kept++] = token;
    }
    eg_clear_bits(marks, out->tokens.at, kept);
    out->tokens.count = kept;
}

static int32_t keep_mask(eg_masks *m, eg_out *out, int32_t state) {
    eg_pool *pool = eg_pool_of(m);
    const size_t size = (size_t)eg_vocabulary_of(m)->words * sizeof *out->own;
    eg_work(pool->fault, out->tokens.count / 4 + (int64_t)size / 64);
    sort_out(m, out);
    if (out->tokens.count + out->removed.count > (out->bits ? FEWER : FEW)) {
        eg_out_unshare(m, out);
        eg_set_bits(out->own, out->tokens.at, out->tokens.count);
        out->tokens.count = 0;
    }
    eg_mask mask = {.bits = out->bits, .removed_count = out->removed.count, .count = out->tokens.count};
    if (out->bits && out->bits == out->own) {
        uint32_t *bits = eg_take(pool, size);
        eg_copy(bits, out->own, size);
        mask.bits = bits;
    }
    mask.removed = keep_tokens(pool, out->removed.at, out->removed.count);
    mask.tokens = keep_tokens(pool, out->tokens.at, out->tokens.count);
    EG_PUSH(pool, m->list, mask);
    eg_map_put(pool, &m->by_state, eg_pair(state, 0), m->list.count - 1);
    return m->list.count - 1;
}

/* The tokens that begin with the bytes of `node` and continue from `state`. */
static eg_out *find_tokens(eg_masks *m, int32_t state, int32_t node, int64_t budget) {
    eg_states *s = &m->states;
    m->depth = m->wrong.count = 0;
    eg_states_reset(s);
    eg_out *out = eg_out_take(m);
    for (int32_t i = 0; i < s->states.at[state].count; i++)
        EG_PUSH(s->rows.pool, s->work, s->states.at[state].threads[i]);
    m->budget = budget;
    m->exhausted = false;
    eg_follow(m, out, 0, node);
    return out;
}

bool eg_mask_any_below(eg_masks *m, int32_t state, int32_t node) {
    eg_out *out = find_tokens(m, state, node, NODE_BUDGET);
    uint32_t any = out->tokens.count > 0;
    if (out->bits) eg_out_unshare(m, out);
    for (int32_t i = 0; i < eg_vocabulary_of(m)->words && out->bits; i++) any |= out->bits[i];
    return any;
}

/* How much of what walks build and keep is there. */
static int64_t size_of_tables(const eg_masks *m) {
    const eg_states *s = &m->states;
    const es_vocabulary *v = eg_vocabulary_of(m);
    return (int64_t)v->expressions.nodes.count + v->expressions.known_steps + v->expressions.derived.count +
           v->summaries->list.count + v->tries.byte.count + s->rows.next.count + s->rows.joined.count +
           s->begun.count;
}

/* Whether the mask of `state` is to be made byte by byte. Walks that do not finish are repeated, which is
 * faster each time as long as they add to the tables. */
static bool is_bytewise(eg_masks *m, int32_t state) {
    const int32_t attempts = -1 - eg_map_get(&m->by_state, eg_pair(state, 0), -1);
    const int64_t known = size_of_tables(m);
    if (attempts >= MAX_ATTEMPTS || (attempts && known == m->known)) return true;
    m->known = known;
    eg_map_put(eg_pool_of(m), &m->by_state, eg_pair(state, 0), -2 - attempts);
    return false;
}

/* Make the mask of `state` byte by byte from now on. */
static void give_up_walks(eg_masks *m, int32_t state) {
    eg_map_put(eg_pool_of(m), &m->by_state, eg_pair(state, 0), -1 - MAX_ATTEMPTS);
}

/* The tokens that continue from `state`, byte by byte; NULL if more than `max_steps` steps are not known. */
static eg_out *find_bytewise(eg_masks *m, int32_t state, int64_t max_steps) {
    m->depth = 0;
    eg_states_reset(&m->states);
    eg_out *out = eg_out_take(m);
    return eg_follow_bytewise(m, out, state, max_steps) ? out : NULL;
}

/* The tokens that continue from `state`. Few nodes are walked with summaries if the text has few readings.
 * Where it has many, the nodes of all tokens are walked, but states recur: in most grammars few are needed. */
static eg_out *find_all(eg_masks *m, int32_t state) {
    if (!is_bytewise(m, state)) {
        eg_out *out = find_tokens(m, state, 0, m->states.rows.rules->lalr ? LEXER_NODES : FIRST_NODES);
        if (!m->exhausted) return out;
        if (m->failures < MAX_FAILURES && (out = find_bytewise(m, state, FIRST_STEPS))) {
            m->failures = 0;
            return out;
        }
        m->failures++;
        out = find_tokens(m, state, 0, NODE_BUDGET);
        if (!m->exhausted) return out;
        give_up_walks(m, state);
    }
    return find_bytewise(m, state, INT64_MAX);
}

int32_t eg_mask_of(eg_masks *m, int32_t state) {
    const int32_t known = eg_map_get(&m->by_state, eg_pair(state, 0), -1);
    if (known >= 0) return known;
    const eg_states *s = &m->states;
    const es_vocabulary *v = eg_vocabulary_of(m);
    eg_out *out = find_all(m, state);
    for (int32_t i = 0; i < s->states.at[state].count; i++)
        if (eg_thread_stops(s, &s->states.at[state].threads[i]))
            eg_follow_special(m, out, s->states.at[state].threads[i]);
    if (state == EG_ENDED || s->states.at[state].accepting) eg_out_add(m, out, v->eos, v->eos_count);
    const int32_t number = keep_mask(m, out, state);
    eg_follow_done(m, state);
    return number;
}

bool eg_mask_is_empty(const eg_masks *m, int32_t number) {
    const eg_mask *mask = &m->list.at[number];
    const int32_t words = mask->bits ? eg_vocabulary_of(m)->words : 0;
    int64_t count = mask->count - mask->removed_count; /* what is removed is in `bits` */
    eg_work(eg_pool_of(m)->fault, words / 16);
    for (int32_t i = 0; i < words; i++) count += __builtin_popcount(mask->bits[i]);
    return !count;
}

void eg_mask_write(const eg_masks *m, int32_t number, uint32_t *bits, int64_t words) {
    const eg_mask *mask = &m->list.at[number];
    const int64_t known = eg_vocabulary_of(m)->words;
    if (mask->bits) {
        eg_copy(bits, mask->bits, (size_t)known * sizeof *bits);
        memset(bits + known, 0, (size_t)(words - known) * sizeof *bits);
        eg_clear_bits(bits, mask->removed, mask->removed_count);
    } else {
        memset(bits, 0, (size_t)words * sizeof *bits);
    }
    eg_set_bits(bits, mask->tokens, mask->count);
}

void eg_masks_open(eg_masks *m, eg_pool *pool, es_vocabulary *vocabulary, eg_rules *rules) {
    memset(m, 0, sizeof *m);
    eg_states_open(&m->states, pool, vocabulary, rules);
    m->path = eg_take(pool, EG_OUTS * ((size_t)vocabulary->longest + 1) * sizeof *m->path);
    eg_places_open(m);
}

void eg_masks_close(eg_masks *m) {
    eg_pool *pool = m->states.rows.pool;
    if (!pool) return;
    for (int i = 0; i < EG_OUTS; i++) {
        EG_FREE(pool, m->outs[i].removed);
        EG_FREE(pool, m->outs[i].tokens);
    }
    for (int i = 0; i <= EG_WALKS; i++) EG_FREE(pool, m->walks[i].tokens);
    EG_FREE(pool, m->list);
    EG_FREE(pool, m->wrong);
    eg_map_free(pool, &m->by_state);
    eg_places_close(m);
    eg_states_close(&m->states);
}
