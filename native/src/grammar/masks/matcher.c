/* Matchers and the calls on them (engine_sampler_grammar.h). */
#include "grammar/masks/grammar.h"

#include <stdio.h>

typedef struct eg_accept {
    int32_t place; /* after it */
    int32_t token; /* -1 for bytes */
    int64_t end;   /* of its bytes, in `bytes` */
} eg_accept;

struct es_matcher {
    es_grammar *grammar;
    int64_t built;  /* which tables the states belong to */
    eg_accept *accepts;
    int64_t count, room;
    uint8_t *bytes; /* of accepts that are not tokens */
    int64_t bytes_room;
    int64_t carried; /* the work of its unfinished calls so far */
    int emptied;     /* how often memory has run out since its last call that finished */
    bool exceeded;   /* a budget has been exceeded */
    bool waits;      /* the last call stopped since the memory is another's */
    char error[256];
};

static int32_t place_of(const es_matcher *m) { return m->count ? m->accepts[m->count - 1].place : EG_START; }

static int32_t state_of(const es_matcher *m) { return eg_place_state(&m->grammar->places, place_of(m)); }

/* --- tables --- */

/* Find the matcher's places again in tables that were built since. */
static void replay(es_matcher *m) {
    es_grammar *g = m->grammar;
    int32_t place = EG_START;
    if (m->built == g->built) return;
    for (int64_t i = 0; i < m->count; i++) {
        eg_accept *a = &m->accepts[i];
        const int64_t begin = i ? m->accepts[i - 1].end : 0;
        if (a->token < 0) place = eg_place_bytes(&g->places, place, m->bytes + begin, a->end - begin);
        else if (g->vocabulary->tokens.kinds[a->token] & ES_TOKEN_EOS) place = EG_ENDED;
        else place = eg_place_token(&g->places, place, a->token);
        a->place = place;
    }
    m->built = g->built;
}

/* --- calls --- */

typedef int64_t eg_task(es_matcher *matcher, void *arguments);

/* How much a call that may do `work` can use. */
static int64_t allowed(const es_matcher *m, const es_grammar_work *work) {
    int64_t most = m->grammar->limits.max_work;
    if (!work) return most;
    if (work->each < most) most = work->each;
    if (work->all < most) most = work->all;
    return most < 0 ? 0 : most;
}

/* Subtract what a call has used of `most` from `work`. Unfinished calls add up, to a limit; returns the code
 * of the call. */
static int64_t settle(es_matcher *m, es_grammar_work *work, int64_t most, int64_t code) {
    const int64_t left = m->grammar->vocabulary->fault.work, used = most - (left < 0 ? 0 : left);
    if (!work) return code;
    work->all -= used;
    if (code != -(int64_t)ES_GRAMMAR_UNFINISHED || m->waits) return code;
    m->carried += used;
    if (m->carried <= m->grammar->limits.max_carried) return code;
    snprintf(m->error, sizeof m->error,
             "the limit of work in all steps of a text (Limits.carried) is reached");
    return -(int64_t)ES_GRAMMAR_LIMIT;
}

enum {
    EMPTIES = 8,  /* how often memory may run out before a call finishes */
    PATIENCE = 64 /* calls of others that wait for a matcher which is not called any more */
};

/* Two texts whose tables do not fit into memory together could destroy each other's unfinished work for ever. So the
 * first that does not finish claims the memory: until it does, the others wait. */
static void claim(es_matcher *m, bool unfinished) {
    es_vocabulary *v = m->grammar->vocabulary;
    if (!unfinished) m->emptied = 0;
    if (v->claimant && v->claimant != m) return;
    v->claimant = unfinished ? m : NULL;
    v->claimed = unfinished ? m->grammar : NULL;
    v->patience = PATIENCE;
}

/* Whether `m`, for which there is no memory, must leave the shared tables as they are. */
static bool must_wait(const es_matcher *m) {
    es_vocabulary *v = m->grammar->vocabulary;
    if (!v->claimant || v->claimant == m) return false;
    if (v->patience-- > 0) return true;
    v->claimant = NULL;
    v->claimed = NULL;
    return false;
}

/* Perform `task`, which may do `most`, under the vocabulary's lock. If memory runs out, all tables are emptied
 * and the task is tried once more. Tables that have to be built first are never left unfinished: that takes no
 * longer than the grammar is long. For this, the call borrows the work that it may not do otherwise. */
static int64_t attempt(es_matcher *m, eg_task *task, void *arguments, int64_t most) {
    es_vocabulary *v = m->grammar->vocabulary;
    const int64_t more = m->grammar->limits.max_work - most;
    volatile int64_t borrowed = 0;
    volatile int tries = 0;
    if (setjmp(v->fault.out)) {
        v->fault.work -= borrowed;
        borrowed = 0;
        const bool full = v->fault.code == ES_GRAMMAR_MEMORY;
        m->waits = full && more > 0 && v->fault.full != &m->grammar->tables && must_wait(m);
        if (!full || m->waits || tries++ || m->emptied++ >= EMPTIES) {
            eg_copy(m->error, v->fault.text, sizeof m->error);
            eg_states_reset(&m->grammar->states);
            eg_tries_tidy(&v->tries);
            return -(int64_t)(m->waits ? ES_GRAMMAR_UNFINISHED : v->fault.code);
        }
    }
    eg_expressions_reset(&v->expressions);
    eg_tries_tidy(&v->tries);
    v->fault.partial = false;
    v->fault.work += borrowed = more;
    eg_grammar_build(m->grammar, tries > 0);
    v->fault.work -= more;
    borrowed = 0;
    v->fault.partial = more > 0;
    eg_states_reset(&m->grammar->states);
    replay(m);
    return task(m, arguments);
}

/* Perform `task` for a matcher. What an unfinished call has added to the tables stays there, so the next one
 * gets further. Returns what the task returns, or a negated es_grammar_code. */
static int64_t call(es_matcher *m, eg_task *task, void *arguments, es_grammar_work *work) {
    es_grammar *g = m->grammar;
    es_vocabulary *v = g->vocabulary;
    const int64_t most = allowed(m, work);
    eg_vocabulary_enter(v, most);
    m->waits = m->waits && most < g->limits.max_work && must_wait(m);
    if (m->waits) {
        eg_vocabulary_leave(v);
        return -(int64_t)ES_GRAMMAR_UNFINISHED;
    }
    const int64_t generation = v->generation, before = (int64_t)v->pool.used;
    const int64_t out = settle(m, work, most, attempt(m, task, arguments, most));
    if (generation != v->generation || generation != g->shared_generation) g->shared = 0;
    if (generation == v->generation) g->shared += (int64_t)v->pool.used - before;
    g->shared_generation = v->generation;
    if (!m->waits) claim(m, out == -(int64_t)ES_GRAMMAR_UNFINISHED);
    eg_grammar_weigh(g);
    eg_vocabulary_leave(v);
    return out;
}

/* Record an accept; false if there is no memory. */
static bool push_accept(es_matcher *m, int32_t place, int32_t token, const uint8_t *bytes, int64_t length) {
    const int64_t end = (m->count ? m->accepts[m->count - 1].end : 0) + length;
    if (m->count == m->room) {
        const int64_t room = m->room ? 2 * m->room : 32;
        eg_accept *accepts = realloc(m->accepts, (size_t)room * sizeof *accepts);
        if (!accepts) return false;
        m->accepts = accepts;
        m->room = room;
    }
    if (end > m->bytes_room) {
        uint8_t *kept = realloc(m->bytes, 2 * (size_t)end);
        if (!kept) return false;
        m->bytes = kept;
        m->bytes_room = 2 * end;
    }
    eg_copy(m->bytes + end - length, bytes, (size_t)length);
    m->accepts[m->count++] = (eg_accept){place, token, end};
    return true;
}

static int64_t no_memory(es_matcher *m) {
    snprintf(m->error, sizeof m->error, "out of memory");
    return -(int64_t)ES_GRAMMAR_MEMORY;
}

typedef struct eg_fill {
    uint32_t *bits;
    int64_t words;
} eg_fill;

static int64_t fill(es_matcher *m, void *arguments) {
    const eg_fill *f = arguments;
    eg_masks *masks = &m->grammar->masks;
    eg_mask_write(masks, eg_mask_of(masks, state_of(m)), f->bits, f->words);
    return ES_GRAMMAR_OK;
}

static int32_t fill_within(es_matcher *m, int32_t *bits, int64_t words, es_grammar_work *work) {
    if (words < m->grammar->vocabulary->tokens.words) {
        snprintf(m->error, sizeof m->error, "a mask has %d words, not %lld",
                 m->grammar->vocabulary->tokens.words, (long long)words);
        return ES_GRAMMAR_INVALID;
    }
    eg_fill f = {(uint32_t *)bits, words};
    const int32_t code = (int32_t)-call(m, fill, &f, work);
    if (code) memset(bits, 0, (size_t)words * sizeof *bits);
    return code;
}

int32_t es_matcher_fill(es_matcher *m, int32_t *bits, int64_t words) {
    return fill_within(m, bits, words, NULL);
}

int64_t es_matchers_fill(es_matcher *const *matchers, int64_t count, int32_t *bits, const int64_t *rows,
                         int64_t words, es_grammar_work *work, int32_t *codes) {
    int64_t faulty = 0;
    for (int64_t i = 0; i < count; i++) {
        codes[i] = fill_within(matchers[i], bits + rows[i] * words, words, work);
        faulty += codes[i] != ES_GRAMMAR_OK;
    }
    return faulty;
}

/* The place after `token`, EG_DEAD if it cannot follow. */
static int32_t place_after(es_matcher *m, int32_t place, int32_t token) {
    es_grammar *g = m->grammar;
    const eg_tokens *t = &g->vocabulary->tokens;
    if (token < 0 || token >= t->count || place == EG_ENDED) return EG_DEAD;
    if (!(t->kinds[token] & ES_TOKEN_EOS)) return eg_place_token(&g->places, place, token);
    return g->states.states.at[eg_place_state(&g->places, place)].accepting ? EG_ENDED : EG_DEAD;
}

/* Whether a budget is exceeded at `place`, for the first time in the text. */
static bool exceeds_first(es_matcher *m, int32_t place) {
    const eg_places *p = &m->grammar->places;
    if (m->exceeded || !p->list.count || !p->list.at[place].exceeded) return false;
    m->exceeded = true;
    return true;
}

static int64_t accept(es_matcher *m, void *arguments) {
    const int32_t token = *(const int32_t *)arguments, next = place_after(m, place_of(m), token);
    if (next < 0) return 0;
    if (!push_accept(m, next, token, NULL, 0)) return no_memory(m);
    return exceeds_first(m, next) ? 2 : 1;
}

int32_t es_matcher_accept(es_matcher *m, int32_t token, es_grammar_work *work) {
    return (int32_t)call(m, accept, &token, work);
}

typedef struct eg_text {
    const uint8_t *bytes;
    int64_t length;
} eg_text;

static int64_t accept_bytes(es_matcher *m, void *arguments) {
    const eg_text *text = arguments;
    const int32_t next = eg_place_bytes(&m->grammar->places, place_of(m), text->bytes, text->length);
    if (next < 0) return 0;
    return push_accept(m, next, -1, text->bytes, text->length) ? 1 : no_memory(m);
}

int32_t es_matcher_accept_bytes(es_matcher *m, const uint8_t *bytes, int64_t length) {
    eg_text text = {bytes, length};
    return (int32_t)call(m, accept_bytes, &text, NULL);
}

typedef struct eg_token_list {
    const int32_t *tokens;
    int64_t count;
} eg_token_list;

static int64_t validate(es_matcher *m, void *arguments) {
    const eg_token_list *given = arguments;
    int32_t place = place_of(m);
    int64_t good = 0;
    while (good < given->count && (place = place_after(m, place, given->tokens[good])) >= 0) good++;
    return good;
}

int64_t es_matcher_validate(es_matcher *m, const int32_t *tokens, int64_t count) {
    eg_token_list given = {tokens, count};
    return call(m, validate, &given, NULL);
}

int32_t es_matcher_rollback(es_matcher *m, int64_t count) {
    if (count < 0 || count > m->count) {
        snprintf(m->error, sizeof m->error, "cannot undo %lld accepts, there are %lld", (long long)count,
                 (long long)m->count);
        return ES_GRAMMAR_INVALID;
    }
    m->count -= count;
    return ES_GRAMMAR_OK;
}

int64_t es_matcher_length(const es_matcher *m) { return m->count; }

static int64_t is_accepting(es_matcher *m, void *unused) {
    const int32_t state = state_of(m);
    (void)unused;
    return state == EG_ENDED || m->grammar->states.states.at[state].accepting;
}

int32_t es_matcher_is_accepting(es_matcher *m) { return (int32_t)call(m, is_accepting, NULL, NULL); }

int32_t es_matcher_is_terminated(const es_matcher *m) {
    if (!m->count) return 0;
    const int32_t last = m->accepts[m->count - 1].token;
    return last >= 0 && m->grammar->vocabulary->tokens.kinds[last] & ES_TOKEN_EOS;
}

/* Collect in `out` the bytes that may follow `state`. */
static int64_t next_of(eg_states *s, int32_t state, eg_bytes *out) {
    int64_t count = 0;
    memset(out, 0, sizeof *out);
    for (int byte = 0; byte < 256; byte++)
        if (eg_state_step(s, state, byte) >= 0) {
            eg_bytes_add(out, byte);
            count++;
        }
    return count;
}

/* Whether a special token may follow `state`: then no byte is forced. */
static bool special_follows(const eg_states *s, int32_t state) {
    for (int32_t i = 0; i < s->states.at[state].count; i++) {
        const eg_thread t = s->states.at[state].threads[i];
        if (eg_thread_stops(s, &t) && eg_core_of(&s->rows, t.row)->special) return true;
    }
    return false;
}

/* Write the bytes that must follow `state` to `out`; returns how many, and advances `state` past them. */
static int64_t force(eg_states *s, int32_t *state, uint8_t *out, int64_t room) {
    int64_t length = 0;
    while (length < room && *state != EG_ENDED && !s->states.at[*state].accepting &&
           !special_follows(s, *state)) {
        eg_bytes next;
        if (next_of(s, *state, &next) != 1) break;
        int byte = 0;
        while (!eg_bytes_has(&next, byte)) byte++;
        out[length++] = (uint8_t)byte;
        *state = eg_state_step(s, *state, byte);
    }
    return length;
}

typedef struct eg_forced {
    void *out;
    int64_t room;
} eg_forced;

static int64_t forced(es_matcher *m, void *arguments) {
    const eg_forced *f = arguments;
    int32_t state = state_of(m);
    return force(&m->grammar->states, &state, f->out, f->room);
}

int64_t es_matcher_forced(es_matcher *m, uint8_t *out, int64_t room) {
    eg_forced f = {out, room};
    return call(m, forced, &f, NULL);
}

/* The child of `node` by `byte` in the vocabulary's trie, or -1. */
static int32_t child_of(const eg_tries *t, int32_t node, int byte) {
    for (int32_t c = node + 1; c < t->end.at[node]; c = t->end.at[c])
        if (t->byte.at[c] == byte) return c;
    return -1;
}

/* The longest token that the bytes begin with, its length in `length`; -1 if there is none, or if all bytes
 * are a proper prefix of a longer token that may follow. `after` is the state after the bytes. */
static int32_t longest(es_matcher *m, const uint8_t *bytes, int64_t count, int32_t after, int64_t *length) {
    const eg_tries *t = &m->grammar->vocabulary->tries;
    int32_t node = 0, token = -1;
    for (int64_t i = 0; i < count; i++) {
        const int32_t below = child_of(t, node, bytes[i]);
        if (below < 0) return token;
        node = below;
        if (!t->own.at[node]) continue;
        token = t->tokens.at[t->first_token.at[node]];
        *length = i + 1;
    }
    return eg_mask_any_below(&m->grammar->masks, after, node) ? -1 : token;
}

enum { FORCED_BYTES = 4096 };

static int64_t forced_tokens(es_matcher *m, void *arguments) {
    const eg_forced *f = arguments;
    uint8_t bytes[FORCED_BYTES];
    int32_t after = state_of(m), *out = f->out;
    const int64_t count = force(&m->grammar->states, &after, bytes, FORCED_BYTES);
    int64_t found = 0, length = 0;
    for (int64_t at = 0; at < count && found < f->room; at += length) {
        const int32_t token = longest(m, bytes + at, count - at, after, &length);
        if (token < 0) break;
        out[found++] = token;
    }
    return found;
}

int64_t es_matcher_forced_tokens(es_matcher *m, int32_t *out, int64_t room, es_grammar_work *work) {
    eg_forced f = {out, room};
    return call(m, forced_tokens, &f, work);
}

static int64_t next_bytes(es_matcher *m, void *arguments) {
    uint8_t *out = arguments;
    eg_bytes next;
    next_of(&m->grammar->states, state_of(m), &next);
    for (int byte = 0; byte < 256; byte++) out[byte] = eg_bytes_has(&next, byte);
    return ES_GRAMMAR_OK;
}

int32_t es_matcher_next_bytes(es_matcher *m, uint8_t *out) {
    return (int32_t)-call(m, next_bytes, out, NULL);
}

const char *es_matcher_error(const es_matcher *m) { return m->error; }

/* --- matchers --- */

es_matcher *es_matcher_new(es_grammar *g) {
    es_matcher *m = calloc(1, sizeof *m);
    if (!m) return NULL;
    __atomic_add_fetch(&g->references, 1, __ATOMIC_RELAXED);
    m->grammar = g;
    return m;
}

es_matcher *es_matcher_fork(es_matcher *other) {
    es_matcher *m = es_matcher_new(other->grammar);
    if (!m) return NULL;
    const int64_t bytes = other->count ? other->accepts[other->count - 1].end : 0;
    m->accepts = malloc((size_t)(other->count + 1) * sizeof *m->accepts);
    m->bytes = malloc((size_t)bytes + 1);
    if (!m->accepts || !m->bytes) {
        es_matcher_free(m);
        return NULL;
    }
    eg_copy(m->accepts, other->accepts, (size_t)other->count * sizeof *m->accepts);
    eg_copy(m->bytes, other->bytes, (size_t)bytes);
    m->count = other->count;
    m->room = other->count + 1;
    m->bytes_room = bytes + 1;
    m->built = other->built;
    m->carried = other->carried;
    m->exceeded = other->exceeded;
    return m;
}

void es_matcher_free(es_matcher *m) {
    if (!m) return;
    es_vocabulary *v = m->grammar->vocabulary;
    if (__atomic_load_n(&v->claimant, __ATOMIC_RELAXED) == m) {
        eg_vocabulary_enter(v, 0);
        claim(m, false);
        eg_vocabulary_leave(v);
    }
    free(m->accepts);
    free(m->bytes);
    eg_grammar_drop(m->grammar);
    free(m);
}
