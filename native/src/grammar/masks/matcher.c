/* Matchers and most calls on them (engine_sampler_grammar.h). */
#include "grammar/masks/matcher.h"

#include <stdio.h>

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
    eg_mask_write(masks, eg_mask_of(masks, eg_matcher_state(m)), f->bits, f->words);
    return ES_GRAMMAR_OK;
}

static int32_t fill_within(es_matcher *m, int32_t *bits, int64_t words, es_grammar_work *work) {
    if (words < m->grammar->vocabulary->tokens.words) {
        snprintf(m->error, sizeof m->error, "a mask has %d words, not %lld",
                 m->grammar->vocabulary->tokens.words, (long long)words);
        return ES_GRAMMAR_INVALID;
    }
    eg_fill f = {(uint32_t *)bits, words};
    const int32_t code = (int32_t)-eg_matcher_call(m, fill, &f, work);
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
    const int32_t token = *(const int32_t *)arguments, next = place_after(m, eg_matcher_place(m), token);
    if (next < 0) return 0;
    if (!push_accept(m, next, token, NULL, 0)) return no_memory(m);
    return exceeds_first(m, next) ? 2 : 1;
}

int32_t es_matcher_accept(es_matcher *m, int32_t token, es_grammar_work *work) {
    return (int32_t)eg_matcher_call(m, accept, &token, work);
}

/* The way of a matcher through a tree: it has accepted the tokens on the way to node `at`, -1 for none. */
typedef struct eg_way {
    es_matcher *matcher;
    const int32_t *tokens, *parents;
    es_grammar_work *work;
    int32_t at;
} eg_way;

/* Go to a node all of whose tokens were accepted before, or to one after such a node; returns what accepting the
 * last token did. */
static int32_t go_to(eg_way *w, int32_t node) {
    while (w->at > node) {
        w->at = w->parents[w->at];
        w->matcher->count--;
    }
    if (w->at == node) return 1;
    int32_t answer = go_to(w, w->parents[node]);
    if (answer > 0) answer = es_matcher_accept(w->matcher, w->tokens[node], w->work);
    if (answer > 0) w->at = node;
    return answer;
}

int64_t es_matcher_fill_tree(es_matcher *m, const int32_t *tokens, const int32_t *parents, int64_t count,
                             int32_t *bits, int64_t words, es_grammar_work *work, int32_t *codes) {
    const es_matcher before = *m;
    eg_way way = {m, tokens, parents, work, -1};
    codes[0] = fill_within(m, bits, words, work);
    int64_t faulty = codes[0] != ES_GRAMMAR_OK;
    for (int32_t i = 0; i < count; i++) {
        int32_t *row = bits + (i + 1) * words, *code = &codes[i + 1];
        const int32_t parent = parents[i];
        *code = parent < 0 ? ES_GRAMMAR_OK : codes[parent + 1];
        if (!*code) {
            const int32_t answer = go_to(&way, i);
            *code = answer > 0 ? fill_within(m, row, words, work) : answer ? -answer : -1;
        }
        if (*code) memset(row, 0, (size_t)words * sizeof *row);
        faulty += *code > 0;
    }
    /* The text is as it was, and so is what counts for it: how often it has been left unfinished. */
    m->count = before.count;
    m->carried = before.carried;
    m->emptied = before.emptied;
    m->exceeded = before.exceeded;
    if (faulty) eg_matcher_release(m);
    return faulty;
}

typedef struct eg_text {
    const uint8_t *bytes;
    int64_t length;
} eg_text;

static int64_t accept_bytes(es_matcher *m, void *arguments) {
    const eg_text *text = arguments;
    const int32_t next = eg_place_bytes(&m->grammar->places, eg_matcher_place(m), text->bytes, text->length);
    if (next < 0) return 0;
    return push_accept(m, next, -1, text->bytes, text->length) ? 1 : no_memory(m);
}

int32_t es_matcher_accept_bytes(es_matcher *m, const uint8_t *bytes, int64_t length) {
    eg_text text = {bytes, length};
    return (int32_t)eg_matcher_call(m, accept_bytes, &text, NULL);
}

typedef struct eg_token_list {
    const int32_t *tokens;
    int64_t count;
} eg_token_list;

static int64_t validate(es_matcher *m, void *arguments) {
    const eg_token_list *given = arguments;
    int32_t place = eg_matcher_place(m);
    int64_t good = 0;
    while (good < given->count && (place = place_after(m, place, given->tokens[good])) >= 0) good++;
    return good;
}

int64_t es_matcher_validate(es_matcher *m, const int32_t *tokens, int64_t count) {
    eg_token_list given = {tokens, count};
    return eg_matcher_call(m, validate, &given, NULL);
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
    const int32_t state = eg_matcher_state(m);
    (void)unused;
    return state == EG_ENDED || m->grammar->states.states.at[state].accepting;
}

int32_t es_matcher_is_accepting(es_matcher *m) {
    return (int32_t)eg_matcher_call(m, is_accepting, NULL, NULL);
}

int32_t es_matcher_is_terminated(const es_matcher *m) {
    if (!m->count) return 0;
    const int32_t last = m->accepts[m->count - 1].token;
    return last >= 0 && m->grammar->vocabulary->tokens.kinds[last] & ES_TOKEN_EOS;
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
    eg_matcher_release(m);
    free(m->accepts);
    free(m->bytes);
    eg_grammar_drop(m->grammar);
    free(m);
}
