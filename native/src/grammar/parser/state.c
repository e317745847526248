/* States: sets of threads by content, and their steps. */
#include "grammar/parser/state.h"

static int compare_threads(const void *a, const void *b) {
    const eg_thread *x = a, *y = b;
    if (x->terminal != y->terminal) return x->terminal < y->terminal ? -1 : 1;
    if (x->guard != y->guard) return x->guard < y->guard ? -1 : 1;
    if (x->row != y->row) return x->row < y->row ? -1 : 1;
    return (x->expression > y->expression) - (x->expression < y->expression);
}

/* Whether two threads are both at a beginning and may be joined. The row of the empty text is the root of
 * all others and stays separate; so do rows in parts with budgets, each with what it has spent. */
static bool can_join(const eg_states *s, const eg_thread *a, const eg_thread *b) {
    return a->terminal == EG_ANY && b->terminal == EG_ANY && a->guard == b->guard && a->row && b->row &&
           !s->rows.rules->lalr && !s->rows.rules->has_parts;
}

enum { MAX_APART = 4 };

/* If anything may begin in many rows, they become one, so that many readings continue as one. A few stay
 * separate, since a joined row is seldom already known. */
static int32_t join_beginnings(eg_states *s, eg_thread *t, int32_t count) {
    int32_t kept = 0;
    for (int32_t i = 0; i < count;) {
        int32_t end = i + 1;
        while (end < count && can_join(s, &t[i], &t[end])) end++;
        const bool many = end - i > MAX_APART;
        t[kept++] = t[i++];
        for (; i < end; i++)
            if (many) t[kept - 1].row = eg_row_join(&s->rows, t[kept - 1].row, t[i].row);
            else t[kept++] = t[i];
    }
    return kept;
}

void eg_threads_sort(eg_states *s, int32_t base) {
    eg_thread *t = s->work.at + base;
    const int32_t count = s->work.count - base;
    int32_t kept = 0;
    if (count < 2) return;
    eg_work(s->rows.pool->fault, eg_sorting(count));
    eg_sort(t, count, sizeof *t, compare_threads);
    for (int32_t i = 0; i < count; i++) {
        if (kept && !compare_threads(&t[i], &t[kept - 1])) continue;
        t[kept++] = t[i];
    }
    s->work.count = base + join_beginnings(s, t, kept);
}

int32_t eg_state_find(const eg_states *s, int32_t state, const eg_thread *thread) {
    const eg_thread *threads = s->states.at[state].threads;
    int32_t low = 0, high = s->states.at[state].count;
    while (low < high) {
        const int32_t middle = low + (high - low) / 2, order = compare_threads(&threads[middle], thread);
        if (!order) return middle;
        if (order < 0) low = middle + 1;
        else high = middle;
    }
    return -1;
}

static uint64_t hash_threads(const eg_thread *threads, int32_t count) {
    return eg_hash_ints(&threads->row, 4 * (int64_t)count, 17);
}

void eg_states_renumber(eg_states *s) {
    /* There is room for all, so nothing can fault. */
    eg_set_clear(&s->by_content);
    for (int32_t i = 0; i < s->states.count; i++) {
        const eg_state *state = &s->states.at[i];
        eg_sort(state->threads, state->count, sizeof *state->threads, compare_threads);
        if (state->count)
            eg_set_add(s->rows.pool, &s->by_content, hash_threads(state->threads, state->count), i);
    }
}

int32_t eg_state_intern(eg_states *s, int32_t base) {
    eg_threads_sort(s, base);
    const int32_t count = s->work.count - base;
    const eg_thread *threads = s->work.at + base;
    s->work.count = base;
    if (!count) return EG_DEAD;
    eg_work(s->rows.pool->fault, 4 + 2 * (int64_t)count);
    const uint64_t hash = hash_threads(threads, count);
    int32_t id;
    for (eg_probe p = eg_probe_at(&s->by_content, hash); (id = eg_probe_next(&p)) >= 0;)
        if (s->states.at[id].count == count &&
            !memcmp(s->states.at[id].threads, threads, (size_t)count * sizeof *threads))
            return id;
    eg_pool *pool = s->rows.pool;
    eg_state state = {.count = count};
    state.threads = eg_keep(pool, threads, (size_t)count * sizeof *threads);
    for (int32_t i = 0; i < count; i++)
        state.accepting |= eg_thread_stops(s, &threads[i]) && s->rows.rows.at[threads[i].row].accepting;
    EG_PUSH(pool, s->states, state);
    eg_set_add(pool, &s->by_content, hash, s->states.count - 1);
    return s->states.count - 1;
}

int32_t eg_state_step(eg_states *s, int32_t state, int byte) {
    int32_t *steps = s->states.at[state].steps;
    if (steps && steps[byte] != EG_UNKNOWN) return steps[byte];
    const uint64_t key = eg_pair(state, byte);
    int32_t next = eg_map_get(&s->by_byte, key, EG_UNKNOWN);
    if (next == EG_UNKNOWN) {
        const int32_t base = s->work.count;
        for (int32_t i = 0; i < s->states.at[state].count; i++)
            eg_thread_step(s, s->states.at[state].threads[i], byte);
        next = eg_state_intern(s, base);
        eg_map_put(s->rows.pool, &s->by_byte, key, next);
    }
    if (steps) steps[byte] = next;
    return next;
}

void eg_state_widen(eg_states *s, int32_t state) {
    if (s->states.at[state].steps) return;
    eg_work(s->rows.pool->fault, 16);
    int32_t *steps = eg_take(s->rows.pool, 256 * sizeof *steps);
    for (int i = 0; i < 256; i++) steps[i] = EG_UNKNOWN;
    s->states.at[state].steps = steps;
}

void eg_thread_special(eg_states *s, int32_t row, int32_t terminal, int32_t token) {
    eg_rows *r = &s->rows;
    const eg_rules *g = r->rules;
    if (g->terminals[terminal].expression >= 0) return;
    eg_work(r->pool->fault, (g->special_starts[terminal + 1] - g->special_starts[terminal]) / 64);
    for (int32_t n = g->special_starts[terminal]; n < g->special_starts[terminal + 1]; n++) {
        if (g->special_ids[n] != token) continue;
        const int32_t next = eg_row_advance(r, row, terminal);
        if (next >= 0) eg_thread_begin(s, next, EG_EMPTY);
    }
}

/* Push the threads after `token`, read as a whole. */
static void push_special(eg_states *s, int32_t state, int32_t token) {
    eg_rows *r = &s->rows;
    for (int32_t i = 0; i < s->states.at[state].count; i++) {
        const eg_thread t = s->states.at[state].threads[i];
        if (!eg_thread_stops(s, &t) || !eg_core_of(r, t.row)->special) continue;
        for (int32_t k = 0; k < eg_core_of(r, t.row)->expected_count; k++)
            eg_thread_special(s, t.row, eg_core_of(r, t.row)->expected[k], token);
    }
}

int32_t eg_state_special(eg_states *s, int32_t state, int32_t token) {
    const int32_t base = s->work.count;
    push_special(s, state, token);
    return eg_state_intern(s, base);
}

/* The state after an ordinary token: read as a whole, or byte by byte, which leads to `next`. */
static int32_t either_reading(eg_states *s, int32_t state, int32_t token, int32_t next) {
    const int32_t base = s->work.count;
    push_special(s, state, token);
    if (s->work.count == base) return next;
    for (int32_t i = 0; next >= 0 && i < s->states.at[next].count; i++)
        EG_PUSH(s->rows.pool, s->work, s->states.at[next].threads[i]);
    return eg_state_intern(s, base);
}

int32_t eg_state_token(eg_states *s, int32_t state, int32_t token) {
    const eg_tokens *tokens = s->tokens;
    const uint64_t key = eg_pair(state, token);
    int32_t next = eg_map_get(&s->by_token, key, -2);
    if (next != -2) return next;
    if (tokens->kinds[token]) {
        next = eg_state_special(s, state, token);
    } else {
        next = eg_token_length(tokens, token) ? state : EG_DEAD;
        for (int64_t i = tokens->offsets[token]; i < tokens->offsets[token + 1] && next >= 0; i++)
            next = eg_state_step(s, next, tokens->bytes[i]);
        if (s->rows.rules->names_ordinary) next = either_reading(s, state, token, next);
    }
    eg_map_put(s->rows.pool, &s->by_token, key, next);
    return next;
}

void eg_states_open(eg_states *s, eg_pool *pool, eg_expressions *expressions, const eg_tokens *tokens,
                    eg_rules *rules) {
    memset(s, 0, sizeof *s);
    s->tokens = tokens;
    eg_rows_open(&s->rows, pool, expressions, rules);
    eg_thread_begin(s, 0, EG_EMPTY);
    if (eg_state_intern(s, 0) != EG_START)
        eg_fail(pool->fault, ES_GRAMMAR_EMPTY, "no text at all matches the grammar");
    EG_PUSH(pool, s->states, (eg_state){0}); /* EG_ENDED: no thread, nothing follows */
}
