/* state.c: see state.h. */
#include "grammar/state.h"

/* Whether some terminal of `row` can begin with a byte that `guard` lets pass. */
static bool can_begin(es_states *s, const es_core *core, int32_t guard)
{
    es_expressions *x = &s->rows.vocabulary->expressions;
    for (int byte = 0; byte < 256; ++byte)
        if (es_bytes_has(&core->first, byte) && es_guard_step(x, guard, byte) >= 0) return true;
    return core->special;
}

enum { MAX_LOOKS = 32, APART = 4 };

typedef struct es_place {  /* where begin() is, and how it came there */
    int32_t row, guard;
    int depth;
    const struct es_place *from;
} es_place;

static void begin(es_states *s, int32_t row, int32_t guard, const es_place *from);

/* Begin behind terminals of `row` that are empty under a look-ahead. */
static void begin_behind(es_states *s, int32_t row, int32_t guard, const es_place *from)
{
    es_rows *r = &s->rows;
    es_expressions *x = &r->vocabulary->expressions;
    const int32_t core = r->rows.at[row].core;
    const es_place here = {row, guard, from ? from->depth + 1 : 0, from};
    for (const es_place *p = from; p; p = p->from)
        if (p->row == row && p->guard == guard) return;  /* a circle adds nothing */
    if (here.depth > MAX_LOOKS)
        es_fail(r->pool->fault, ES_GRAMMAR_LIMIT, "more than %d look-aheads stand in one place", MAX_LOOKS);
    for (int32_t i = 0; i < r->cores.at[core].expected_count; ++i) {
        const int32_t terminal = r->cores.at[core].expected[i];
        if (!r->rules->terminals[terminal].looks || r->rules->terminals[terminal].ignored) continue;
        const int32_t next = es_row_advance(r, row, terminal);
        int32_t endings[ES_MAX_ENDINGS];
        const int count = es_expression_endings(x, r->rules->terminals[terminal].expression, endings);
        for (int k = 0; k < count && next >= 0; ++k) begin(s, next, es_union(x, endings[k], guard), &here);
    }
}

/* The same with a lexer, which tells whether anything can come. */
static void begin_lexing(es_states *s, int32_t row, int32_t guard)
{
    es_rows *r = &s->rows;
    es_expressions *x = &r->vocabulary->expressions;
    const es_core *core = es_core_of(r, row);
    const bool may_stop = core->special || r->rows.at[row].accepting;
    const bool stops = may_stop && !es_guard_bars_end(x, guard);
    if (!may_stop && !core->begins) return;
    if (stops == may_stop && !es_bytes_meet(&core->first, es_first(x, guard))) guard = ES_EMPTY;
    if (!stops && !es_lexer_lives(x, core->lexer, guard)) return;
    if (s->picky && !(es_bytes_fold(&core->first) & s->wanted)) s->left_out = true;
    else ES_PUSH(r->pool, s->work, (es_thread){row, ES_ANY, -1, guard});
}

static void begin(es_states *s, int32_t row, int32_t guard, const es_place *from)
{
    es_rows *r = &s->rows;
    if (r->rules->lalr) {
        begin_lexing(s, row, guard);
        return;
    }
    if (es_core_of(r, row)->looks) begin_behind(s, row, guard, from);
    const es_core *core = es_core_of(r, row);
    if (guard != ES_EMPTY && !es_bytes_meet(&core->first, es_first(&r->vocabulary->expressions, guard)))
        guard = ES_EMPTY;
    const bool alive = es_core_goes_on(core) && (guard == ES_EMPTY || can_begin(s, core, guard));
    if (!alive && !r->rows.at[row].accepting) return;
    if (s->picky && !(es_bytes_fold(&core->first) & s->wanted)) s->left_out = true;
    else ES_PUSH(r->pool, s->work, (es_thread){row, ES_ANY, -1, guard});
}

void es_thread_begin(es_states *s, int32_t row, int32_t guard)
{
    begin(s, row, guard, NULL);
}

/* The thread with a lexer under way, and what begins where it can be over. */
static void push_lexing(es_states *s, int32_t row, int32_t e, int32_t guard)
{
    es_rows *r = &s->rows;
    es_expressions *x = &r->vocabulary->expressions;
    es_reading readings[ES_MAX_READINGS];
    const int count = es_node(x, e)->nullable ? es_expression_readings(x, e, readings) : 0;
    for (int i = 0; i < count; ++i) {
        const int32_t next = es_row_behind(r, row, readings[i].entry);
        if (next >= 0) es_thread_begin(s, next, es_guard_join(x, readings[i].guard, guard));
    }
    if (!es_bytes_meet(es_first(x, e), es_first(x, guard))) guard = ES_EMPTY;
    if (!es_lexer_lives(x, e, guard)) return;
    if (s->picky && !(es_bytes_fold(es_first(x, e)) & s->wanted)) s->left_out = true;
    else ES_PUSH(r->pool, s->work, (es_thread){row, ES_LEXER, e, guard});
}

/* Whether all that is asked is if anything can follow a terminal of which `e` is left, and something can: the row
 * behind it need not be made. */
static bool is_enough(const es_states *s, int32_t e, int32_t guard)
{
    return s->picky && !s->wanted && s->rows.rules->open && guard == ES_EMPTY &&
           !es_node(&s->rows.vocabulary->expressions, e)->guards;
}

/* The thread with a terminal under way that is `e` from here on, and what begins where it can be over. */
static void push_thread(es_states *s, int32_t row, int32_t terminal, int32_t e, int32_t guard)
{
    es_rows *r = &s->rows;
    es_expressions *x = &r->vocabulary->expressions;
    if (terminal == ES_LEXER) {
        push_lexing(s, row, e, guard);
        return;
    }
    if (es_node(x, e)->nullable && is_enough(s, e, guard)) {
        s->left_out = true;
        return;
    }
    if (es_node(x, e)->nullable) {
        int32_t endings[ES_MAX_ENDINGS];
        const int count = es_expression_endings(x, e, endings);
        const int32_t next = es_row_advance(r, row, terminal);
        for (int i = 0; i < count && next >= 0; ++i) es_thread_begin(s, next, es_union(x, endings[i], guard));
        if (es_node(x, e)->over) return;
    }
    if (guard != ES_EMPTY && !es_bytes_meet(es_first(x, e), es_first(x, guard))) guard = ES_EMPTY;
    if (s->picky && !(es_bytes_fold(es_first(x, e)) & s->wanted)) s->left_out = true;
    else ES_PUSH(r->pool, s->work, (es_thread){row, terminal, e, guard});
}

void es_thread_read(es_states *s, int32_t row, int32_t terminal, int32_t guard, int byte)
{
    es_rows *r = &s->rows;
    const int32_t begin = r->rules->terminals[terminal].expression;
    if (begin < 0) return;
    const int32_t e = es_step(&r->vocabulary->expressions, begin, byte);
    if (e != ES_EMPTY) push_thread(s, row, terminal, e, guard);
}

/* The thread, with its row's lexer under way where it has one and nothing else is. */
static es_thread with_lexer(const es_rows *r, es_thread t)
{
    const int32_t lexer = es_core_of(r, t.row)->lexer;
    if (t.terminal != ES_ANY || lexer < 0) return t;
    return (es_thread){t.row, ES_LEXER, lexer, t.guard};
}

/* The terminals of a core that `byte` can begin, all or those that are not wide, and what is left of them: their
 * place in `begun`. */
static int32_t begun_by(es_states *s, int32_t core, int byte, bool narrow)
{
    es_rows *r = &s->rows;
    const uint64_t key = es_pair(core, byte | narrow << 8);
    int32_t at = es_map_get(&s->begun_by_byte, key, -1);
    if (at >= 0) return at;
    at = s->begun.count;
    ES_PUSH(r->pool, s->begun, 0);
    for (int32_t i = 0; i < r->cores.at[core].expected_count; ++i) {
        const int32_t terminal = r->cores.at[core].expected[i], begin = r->rules->terminals[terminal].expression;
        if (begin < 0 || (narrow && es_node(&r->vocabulary->expressions, begin)->wide)) continue;
        const int32_t e = es_step(&r->vocabulary->expressions, begin, byte);
        if (e == ES_EMPTY) continue;
        ES_PUSH(r->pool, s->begun, terminal);
        ES_PUSH(r->pool, s->begun, e);
        ++s->begun.at[at];
    }
    es_map_put(r->pool, &s->begun_by_byte, key, at);
    return at;
}

void es_thread_step(es_states *s, es_thread t, int byte)
{
    es_rows *r = &s->rows;
    es_expressions *x = &r->vocabulary->expressions;
    es_work(r->pool->fault, 1);
    const int32_t guard = es_guard_step(x, t.guard, byte);
    if (guard < 0) return;
    t = with_lexer(r, t);
    if (t.expression >= 0) {
        const int32_t e = es_step(x, t.expression, byte);
        if (e != ES_EMPTY) push_thread(s, t.row, t.terminal, e, guard);
        return;
    }
    const int32_t core = r->rows.at[t.row].core;
    if (!es_bytes_has(&r->cores.at[core].first, byte)) return;
    const int32_t at = begun_by(s, core, byte, t.terminal == ES_NARROW), count = s->begun.at[at];
    for (int32_t i = at + 1; i < at + 1 + 2 * count; i += 2)
        push_thread(s, t.row, s->begun.at[i], s->begun.at[i + 1], guard);
}

static int compare_threads(const void *a, const void *b)
{
    const es_thread *x = a, *y = b;
    if (x->terminal != y->terminal) return x->terminal < y->terminal ? -1 : 1;
    if (x->guard != y->guard) return x->guard < y->guard ? -1 : 1;
    if (x->row != y->row) return x->row < y->row ? -1 : 1;
    return (x->expression > y->expression) - (x->expression < y->expression);
}

/* Whether two threads only begin, and can be one. The row of an empty text is the root of all and stays by itself. */
static bool can_join(const es_states *s, const es_thread *a, const es_thread *b)
{
    return a->terminal == ES_ANY && b->terminal == ES_ANY && a->guard == b->guard && a->row && b->row &&
           !s->rows.rules->lalr;
}

/* Where many rows are such that anything may begin, they become one: what many readings come to goes on as one.
 * Few stay apart, since a row of several is seldom one that is known. */
static int32_t join(es_states *s, es_thread *t, int32_t count)
{
    int32_t kept = 0;
    for (int32_t i = 0; i < count;) {
        int32_t end = i + 1;
        while (end < count && can_join(s, &t[i], &t[end])) ++end;
        const bool many = end - i > APART;
        t[kept++] = t[i++];
        for (; i < end; ++i)
            if (many) t[kept - 1].row = es_row_join(&s->rows, t[kept - 1].row, t[i].row);
            else t[kept++] = t[i];
    }
    return kept;
}

void es_threads_sort(es_states *s, int32_t base)
{
    es_thread *t = s->work.at + base;
    const int32_t count = s->work.count - base;
    int32_t kept = 0;
    if (count < 2) return;
    es_sort(t, count, sizeof *t, compare_threads);
    for (int32_t i = 0; i < count; ++i) {
        if (kept && !compare_threads(&t[i], &t[kept - 1])) continue;
        t[kept++] = t[i];
    }
    s->work.count = base + join(s, t, kept);
}

/* The state of the threads on `work` from `base` on, which are taken off. */
static int32_t intern_state(es_states *s, int32_t base)
{
    es_threads_sort(s, base);
    const int32_t count = s->work.count - base;
    const es_thread *threads = s->work.at + base;
    s->work.count = base;
    if (!count) return ES_DEAD;
    const uint64_t hash = es_hash_ints(&threads->row, 4 * (int64_t)count, 17);
    int32_t id;
    for (es_probe p = es_probe_at(&s->by_content, hash); (id = es_probe_next(&p)) >= 0;)
        if (s->states.at[id].count == count &&
            !memcmp(s->states.at[id].threads, threads, (size_t)count * sizeof *threads))
            return id;
    es_pool *pool = s->rows.pool;
    es_state state = {.count = count};
    state.threads = es_take(pool, (size_t)count * sizeof *threads);
    es_copy(state.threads, threads, (size_t)count * sizeof *threads);
    for (int32_t i = 0; i < count; ++i)
        state.accepting |= es_thread_stops(s, &threads[i]) && s->rows.rows.at[threads[i].row].accepting;
    ES_PUSH(pool, s->states, state);
    es_set_add(pool, &s->by_content, hash, s->states.count - 1);
    return s->states.count - 1;
}

int32_t es_state_step(es_states *s, int32_t state, int byte)
{
    const uint64_t key = es_pair(state, byte);
    int32_t next = es_map_get(&s->by_byte, key, -2);
    if (next != -2) return next;
    const int32_t base = s->work.count;
    for (int32_t i = 0; i < s->states.at[state].count; ++i)
        es_thread_step(s, s->states.at[state].threads[i], byte);
    next = intern_state(s, base);
    es_map_put(s->rows.pool, &s->by_byte, key, next);
    return next;
}

int32_t es_state_special(es_states *s, int32_t state, int32_t token)
{
    es_rows *r = &s->rows;
    const es_rules *g = r->rules;
    const int32_t base = s->work.count;
    for (int32_t i = 0; i < s->states.at[state].count; ++i) {
        const es_thread t = s->states.at[state].threads[i];
        if (!es_thread_stops(s, &t) || !es_core_of(r, t.row)->special) continue;
        for (int32_t k = 0; k < es_core_of(r, t.row)->expected_count; ++k) {
            const int32_t terminal = es_core_of(r, t.row)->expected[k];
            if (g->terminals[terminal].expression >= 0) continue;
            for (int32_t n = g->special_starts[terminal]; n < g->special_starts[terminal + 1]; ++n) {
                if (g->special_ids[n] != token) continue;
                const int32_t next = es_row_advance(r, t.row, terminal);
                if (next >= 0) es_thread_begin(s, next, ES_EMPTY);
            }
        }
    }
    return intern_state(s, base);
}

int32_t es_state_token(es_states *s, int32_t state, int32_t token)
{
    const es_vocabulary *v = s->rows.vocabulary;
    const uint64_t key = es_pair(state, token);
    int32_t next = es_map_get(&s->by_token, key, -2);
    if (next != -2) return next;
    if (v->kinds[token]) {
        next = es_state_special(s, state, token);
    } else {
        next = v->offsets[token] < v->offsets[token + 1] ? state : ES_DEAD;
        for (int64_t i = v->offsets[token]; i < v->offsets[token + 1] && next >= 0; ++i)
            next = es_state_step(s, next, v->bytes[i]);
    }
    es_map_put(s->rows.pool, &s->by_token, key, next);
    return next;
}

void es_states_open(es_states *s, es_pool *pool, es_vocabulary *vocabulary, es_rules *rules)
{
    memset(s, 0, sizeof *s);
    es_rows_open(&s->rows, pool, vocabulary, rules);
    es_thread_begin(s, 0, ES_EMPTY);
    if (intern_state(s, 0) != ES_START)
        es_fail(pool->fault, ES_GRAMMAR_EMPTY, "no text at all matches the grammar");
    ES_PUSH(pool, s->states, (es_state){0});  /* ES_OVER: no thread, nothing follows */
}

void es_states_close(es_states *s)
{
    es_pool *pool = s->rows.pool;
    if (!pool) return;
    ES_FREE(pool, s->states);
    ES_FREE(pool, s->work);
    es_set_free(pool, &s->by_content);
    es_map_free(pool, &s->by_byte);
    es_map_free(pool, &s->by_token);
    ES_FREE(pool, s->begun);
    es_map_free(pool, &s->begun_by_byte);
    es_rows_close(&s->rows);
}
