/* The masks of states, and by which of two ways each is found. */
#include "grammar/masks/mask.h"

#include "grammar/base/bits.h"

enum {
    FEW = 512,            /* tokens that are kept as a list ... */
    FEWER = 256,          /* ... or as changes to bits: positions in objects have about a hundred */
    FIRST_NODES = 2000,   /* nodes walked before a mask is tried byte by byte ... */
    LEXER_NODES = 30000,  /* ... with a lexer, under which a text has fewer readings ... */
    FIRST_STEPS = 4000,   /* ... with up to this many new steps between states */
    NODE_BUDGET = 100000, /* nodes walked before a mask is made byte by byte, with any number of steps */
    MAX_ATTEMPTS = 4,     /* unfinished ones before the same */
    MAX_FAILURES = 4      /* masks in a row that needed too many steps, after which no more are tried */
};

static int32_t keep_mask(eg_masks *m, eg_token_set *set, int32_t state) {
    eg_token_sets *sets = &m->follower->sets;
    eg_pool *pool = sets->pool;
    const size_t size = (size_t)sets->words * sizeof *set->own;
    eg_work(pool->fault, set->tokens.count / 4 + (int64_t)size / 64);
    eg_token_set_unite(sets, set);
    if (set->tokens.count + set->removed.count > (set->bits ? FEWER : FEW)) {
        eg_token_set_unshare(sets, set);
        eg_set_bits(set->own, set->tokens.at, set->tokens.count);
        set->tokens.count = 0;
    }
    eg_mask mask = {.bits = set->bits, .removed_count = set->removed.count, .count = set->tokens.count};
    if (set->bits && set->bits == set->own) mask.bits = eg_keep(pool, set->own, size);
    mask.removed = eg_keep(pool, set->removed.at, (size_t)mask.removed_count * sizeof *mask.removed);
    mask.tokens = eg_keep(pool, set->tokens.at, (size_t)mask.count * sizeof *mask.tokens);
    EG_PUSH(pool, m->list, mask);
    eg_map_put(pool, &m->by_state, eg_pair(state, 0), m->list.count - 1);
    return m->list.count - 1;
}

/* The tokens that begin with the bytes of `node` and continue from `state`. */
static eg_token_set *find_tokens(eg_follower *f, int32_t state, int32_t node, int64_t budget) {
    eg_states *s = f->states;
    f->sets.depth = f->wrong.count = 0;
    eg_states_reset(s);
    eg_token_set *set = eg_token_set_take(&f->sets);
    for (int32_t i = 0; i < s->states.at[state].count; i++)
        EG_PUSH(s->rows.pool, s->work, s->states.at[state].threads[i]);
    f->budget = budget;
    f->exhausted = false;
    eg_follow(f, set, 0, node);
    return set;
}

bool eg_mask_any_below(eg_masks *m, int32_t state, int32_t node) {
    eg_token_sets *sets = &m->follower->sets;
    eg_token_set *set = find_tokens(m->follower, state, node, NODE_BUDGET);
    uint32_t any = set->tokens.count > 0;
    if (set->bits) eg_token_set_unshare(sets, set);
    for (int32_t i = 0; i < sets->words && set->bits; i++) any |= set->bits[i];
    return any;
}

/* The tokens that continue from `state`, byte by byte; NULL if more than `max_steps` steps are not known. */
static eg_token_set *find_bytewise(eg_follower *f, int32_t state, int64_t max_steps) {
    f->sets.depth = 0;
    eg_states_reset(f->states);
    eg_token_set *set = eg_token_set_take(&f->sets);
    return eg_follow_bytewise(f, set, state, max_steps) ? set : NULL;
}

/* How much of what walks build and keep is there. */
static int64_t size_of_tables(const eg_masks *m) {
    const eg_states *s = m->follower->states;
    const es_vocabulary *v = m->follower->vocabulary;
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
    eg_map_put(m->follower->sets.pool, &m->by_state, eg_pair(state, 0), -2 - attempts);
    return false;
}

/* Make the mask of `state` byte by byte from now on. */
static void give_up_walks(eg_masks *m, int32_t state) {
    eg_map_put(m->follower->sets.pool, &m->by_state, eg_pair(state, 0), -1 - MAX_ATTEMPTS);
}

/* The tokens that continue from `state`. Few nodes are walked with summaries if the text has few readings.
 * Where it has many, the nodes of all tokens are walked, but states recur: in most grammars few are needed.
 */
static eg_token_set *find_mask(eg_masks *m, int32_t state) {
    eg_follower *f = m->follower;
    if (!is_bytewise(m, state)) {
        eg_token_set *set = find_tokens(f, state, 0, f->states->rows.rules->lalr ? LEXER_NODES : FIRST_NODES);
        if (!f->exhausted) return set;
        if (m->failures < MAX_FAILURES && (set = find_bytewise(f, state, FIRST_STEPS))) {
            m->failures = 0;
            return set;
        }
        m->failures++;
        set = find_tokens(f, state, 0, NODE_BUDGET);
        if (!f->exhausted) return set;
        give_up_walks(m, state);
    }
    return find_bytewise(f, state, INT64_MAX);
}

int32_t eg_mask_of(eg_masks *m, int32_t state) {
    const int32_t known = eg_map_get(&m->by_state, eg_pair(state, 0), -1);
    if (known >= 0) return known;
    eg_follower *f = m->follower;
    const eg_states *s = f->states;
    const es_vocabulary *v = f->vocabulary;
    eg_token_set *set = find_mask(m, state);
    for (int32_t i = 0; i < s->states.at[state].count; i++)
        if (eg_thread_stops(s, &s->states.at[state].threads[i]))
            eg_follow_special(f, set, s->states.at[state].threads[i]);
    if (state == EG_ENDED || s->states.at[state].accepting)
        eg_token_set_add(&f->sets, set, v->eos, v->eos_count);
    const int32_t number = keep_mask(m, set, state);
    eg_follow_done(f, state);
    return number;
}

bool eg_mask_is_empty(const eg_masks *m, int32_t number) {
    const eg_mask *mask = &m->list.at[number];
    const int32_t words = mask->bits ? m->follower->sets.words : 0;
    int64_t count = mask->count - mask->removed_count; /* what is removed is in `bits` */
    eg_work(m->follower->sets.pool->fault, words / 16);
    for (int32_t i = 0; i < words; i++) count += __builtin_popcount(mask->bits[i]);
    return !count;
}

void eg_mask_write(const eg_masks *m, int32_t number, uint32_t *bits, int64_t words) {
    const eg_mask *mask = &m->list.at[number];
    const int64_t known = m->follower->sets.words;
    if (mask->bits) {
        eg_copy(bits, mask->bits, (size_t)known * sizeof *bits);
        memset(bits + known, 0, (size_t)(words - known) * sizeof *bits);
        eg_clear_bits(bits, mask->removed, mask->removed_count);
    } else {
        memset(bits, 0, (size_t)words * sizeof *bits);
    }
    eg_set_bits(bits, mask->tokens, mask->count);
}
