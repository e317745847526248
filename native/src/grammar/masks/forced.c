/* What may come next in a text, and what must. */
#include "grammar/masks/matcher.h"

/* The bytes that may follow `state`. */
static eg_bytes bytes_after(eg_states *s, int32_t state) {
    eg_bytes out = {{0}};
    for (int byte = 0; byte < 256; byte++)
        if (eg_state_step(s, state, byte) >= 0) eg_bytes_add(&out, byte);
    return out;
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
static int64_t force_bytes(eg_states *s, int32_t *state, uint8_t *out, int64_t room) {
    int64_t length = 0;
    while (length < room && *state != EG_ENDED && !s->states.at[*state].accepting &&
           !special_follows(s, *state)) {
        const eg_bytes next = bytes_after(s, *state);
        if (eg_bytes_count(&next) != 1) break;
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

static int64_t forced_bytes(es_matcher *m, void *arguments) {
    const eg_forced *f = arguments;
    int32_t state = eg_matcher_state(m);
    return force_bytes(&m->grammar->states, &state, f->out, f->room);
}

int64_t es_matcher_forced(es_matcher *m, uint8_t *out, int64_t room, es_grammar_work *work) {
    eg_forced f = {out, room};
    return eg_matcher_call(m, forced_bytes, &f, work);
}

/* The child of `node` by `byte` in the vocabulary's trie, or -1. */
static int32_t child_of(const eg_tries *t, int32_t node, int byte) {
    for (int32_t c = node + 1; c < t->end.at[node]; c = t->end.at[c])
        if (t->byte.at[c] == byte) return c;
    return -1;
}

/* The longest token that the bytes begin with, its length in `length`; -1 if there is none, or if all bytes
 * are a proper prefix of a longer token that may follow. `after` is the state after the bytes. */
static int32_t longest_token(es_matcher *m, const uint8_t *bytes, int64_t count, int32_t after,
                             int64_t *length) {
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
    int32_t after = eg_matcher_state(m), *out = f->out;
    const int64_t count = force_bytes(&m->grammar->states, &after, bytes, FORCED_BYTES);
    int64_t written = 0, length = 0;
    for (int64_t at = 0; at < count && written < f->room; at += length) {
        const int32_t token = longest_token(m, bytes + at, count - at, after, &length);
        if (token < 0) break;
        out[written++] = token;
    }
    return written;
}

int64_t es_matcher_forced_tokens(es_matcher *m, int32_t *out, int64_t room, es_grammar_work *work) {
    eg_forced f = {out, room};
    return eg_matcher_call(m, forced_tokens, &f, work);
}

static int64_t next_bytes(es_matcher *m, void *arguments) {
    uint8_t *out = arguments;
    const eg_bytes next = bytes_after(&m->grammar->states, eg_matcher_state(m));
    for (int byte = 0; byte < 256; byte++) out[byte] = eg_bytes_has(&next, byte);
    return ES_GRAMMAR_OK;
}

int32_t es_matcher_next_bytes(es_matcher *m, uint8_t *out, es_grammar_work *work) {
    return (int32_t)-eg_matcher_call(m, next_bytes, out, work);
}

/* Terminals that are ignored have numbers of their own, behind those of the program. */
static int64_t open_terminals(es_matcher *m, void *arguments) {
    uint8_t *out = arguments;
    const eg_states *s = &m->grammar->states;
    const int32_t state = eg_matcher_state(m), terminals = s->rows.rules->terminal_count;
    for (int32_t t = 0; t < terminals; t++) out[t] = 0;
    if (state == EG_ENDED) return ES_GRAMMAR_OK;
    for (int32_t i = 0; i < s->states.at[state].count; i++) {
        const eg_thread *t = &s->states.at[state].threads[i];
        if (t->terminal >= 0 && t->terminal < terminals) {
            out[t->terminal] = 1;
            continue;
        }
        const eg_core *core = eg_core_of(&s->rows, t->row);
        eg_work(s->rows.pool->fault, core->expected_count);
        for (int32_t k = 0; k < core->expected_count; k++)
            if (core->expected[k] < terminals) out[core->expected[k]] = 1;
    }
    return ES_GRAMMAR_OK;
}

int32_t es_matcher_terminals(es_matcher *m, uint8_t *out) {
    return (int32_t)-eg_matcher_call(m, open_terminals, out, NULL);
}
