/* Threads: how each reading of a text begins and goes on. */
#include "grammar/parser/state.h"

/* eg_can_go_on, at once where some text begins with a byte with which `guard` forbids nothing. */
static inline bool can_go_on(eg_expressions *x, int32_t e, int32_t guard) {
    if (guard == EG_EMPTY) return true;
    if (!eg_node(x, e)->logical && !eg_bytes_within(eg_first(x, e), eg_first(x, guard))) return true;
    return eg_can_go_on(x, e, guard);
}

/* Whether anything that `guard` allows can come where no terminal is in progress. */
static bool can_begin(eg_states *s, const eg_core *core, int32_t guard) {
    eg_expressions *x = s->rows.expressions;
    if (core->special) return true;
    for (int32_t i = 0; i < core->expected_count; i++) {
        const int32_t e = s->rows.rules->terminals[core->expected[i]].expression;
        eg_work(s->rows.pool->fault, 2);
        if (e > EG_EMPTY && can_go_on(x, e, guard)) return true;
    }
    return false;
}

enum { MAX_LOOKS = 32 };

/* The arguments of begin_thread(), and its caller's. */
typedef struct eg_frame {
    int32_t row, guard;
    int depth;
    const struct eg_frame *from;
} eg_frame;

static void begin_thread(eg_states *s, int32_t row, int32_t guard, const eg_frame *from);

/* Begin after terminals of `row` that match the empty string under a look-ahead. */
static void begin_after_empty(eg_states *s, int32_t row, int32_t guard, const eg_frame *from) {
    eg_rows *r = &s->rows;
    eg_expressions *x = r->expressions;
    const int32_t core = r->rows.at[row].core;
    const eg_frame here = {row, guard, from ? from->depth + 1 : 0, from};
    for (const eg_frame *p = from; p; p = p->from)
        if (p->row == row && p->guard == guard) return; /* a cycle adds nothing */
    eg_work(r->pool->fault, 4 + r->cores.at[core].expected_count);
    if (here.depth > MAX_LOOKS)
        eg_fail(r->pool->fault, ES_GRAMMAR_LIMIT, "more than %d look-aheads at one position", MAX_LOOKS);
    for (int32_t i = 0; i < r->cores.at[core].expected_count; i++) {
        const int32_t terminal = r->cores.at[core].expected[i];
        if (!r->rules->terminals[terminal].looks || r->rules->terminals[terminal].ignored) continue;
        const int32_t next = eg_row_advance(r, row, terminal);
        int32_t endings[EG_MAX_ENDINGS];
        const int count = eg_expression_endings(x, r->rules->terminals[terminal].expression, endings);
        for (int k = 0; k < count && next >= 0; k++)
            begin_thread(s, next, eg_union(x, endings[k], guard), &here);
    }
}

/* The same with a lexer, which decides whether anything can come. */
static void begin_lexing(eg_states *s, int32_t row, int32_t guard) {
    eg_rows *r = &s->rows;
    eg_expressions *x = r->expressions;
    const eg_core *core = eg_core_of(r, row);
    const bool may_stop = core->special || r->rows.at[row].accepting;
    const bool stops = may_stop && !eg_guard_bars_end(x, guard);
    if (!may_stop && !core->begins) return;
    if (stops == may_stop && !eg_bytes_meet(&core->first, eg_first(x, guard))) guard = EG_EMPTY;
    if (!stops && !eg_lexer_can_go_on(x, core->lexer, guard)) return;
    if (s->filtering && !(eg_bytes_fold(&core->first) & s->wanted)) s->filtered_out = true;
    else EG_PUSH(r->pool, s->work, (eg_thread){row, EG_ANY, -1, guard});
}

static void begin_thread(eg_states *s, int32_t row, int32_t guard, const eg_frame *from) {
    eg_rows *r = &s->rows;
    if (r->rules->lalr) {
        begin_lexing(s, row, guard);
        return;
    }
    if (eg_core_of(r, row)->looks) begin_after_empty(s, row, guard, from);
    const eg_core *core = eg_core_of(r, row);
    if (guard != EG_EMPTY && !eg_bytes_meet(&core->first, eg_first(r->expressions, guard))) guard = EG_EMPTY;
    const bool alive = eg_core_can_continue(core) && (guard == EG_EMPTY || can_begin(s, core, guard));
    if (!alive && !r->rows.at[row].accepting) return;
    if (s->filtering && !(eg_bytes_fold(&core->first) & s->wanted)) s->filtered_out = true;
    else EG_PUSH(r->pool, s->work, (eg_thread){row, EG_ANY, -1, guard});
}

void eg_thread_begin(eg_states *s, int32_t row, int32_t guard) { begin_thread(s, row, guard, NULL); }

/* Push the thread with a lexer in progress, and what begins where the lexer can end. */
static void push_lexing(eg_states *s, int32_t row, int32_t e, int32_t guard) {
    eg_rows *r = &s->rows;
    eg_expressions *x = r->expressions;
    eg_reading readings[EG_MAX_READINGS];
    const int count = eg_node(x, e)->nullable ? eg_expression_readings(x, e, readings) : 0;
    for (int i = 0; i < count; i++) {
        const int32_t next = eg_row_after(r, row, readings[i].entry);
        if (next >= 0) eg_thread_begin(s, next, eg_guard_join(x, readings[i].guard, guard));
    }
    if (!eg_bytes_meet(eg_first(x, e), eg_first(x, guard))) guard = EG_EMPTY;
    if (!eg_lexer_can_go_on(x, e, guard)) return;
    if (s->filtering && !(eg_bytes_fold(eg_first(x, e)) & s->wanted)) s->filtered_out = true;
    else EG_PUSH(r->pool, s->work, (eg_thread){row, EG_LEXING, e, guard});
}

/* Whether the caller only needs to know that something can follow a terminal with derivative `e`, and
 * something can: the row after it need not be computed. */
static bool is_answered(const eg_states *s, int32_t e, int32_t guard) {
    return s->filtering && !s->wanted && s->rows.rules->always_continues && guard == EG_EMPTY &&
           !eg_node(s->rows.expressions, e)->guards;
}

/* The guard in a terminal whose derivative is `e`: none if it cannot exclude anything. */
static inline int32_t guard_within(const eg_expressions *x, int32_t e, int32_t guard) {
    return guard != EG_EMPTY && !eg_bytes_meet(eg_first(x, e), eg_first(x, guard)) ? EG_EMPTY : guard;
}

/* Push the thread with a terminal in progress whose derivative is `e`, and what begins where it can end. */
static void push_thread(eg_states *s, int32_t row, int32_t terminal, int32_t e, int32_t guard) {
    eg_rows *r = &s->rows;
    eg_expressions *x = r->expressions;
    if (terminal == EG_LEXING) {
        push_lexing(s, row, e, guard);
        return;
    }
    if (eg_node(x, e)->nullable && is_answered(s, e, guard)) {
        s->filtered_out = true;
        return;
    }
    if (eg_node(x, e)->nullable) {
        int32_t endings[EG_MAX_ENDINGS];
        const int count = eg_expression_endings(x, e, endings);
        const int32_t next = eg_row_advance(r, row, terminal);
        for (int i = 0; i < count && next >= 0; i++) eg_thread_begin(s, next, eg_union(x, endings[i], guard));
        if (eg_node(x, e)->over) return;
    }
    guard = guard_within(x, e, guard);
    if (!can_go_on(x, e, guard)) return;
    if (s->filtering && !(eg_bytes_fold(eg_first(x, e)) & s->wanted)) s->filtered_out = true;
    else EG_PUSH(r->pool, s->work, (eg_thread){row, terminal, e, guard});
}

void eg_thread_read(eg_states *s, int32_t row, int32_t terminal, int32_t guard, int byte) {
    eg_rows *r = &s->rows;
    const int32_t begin = r->rules->terminals[terminal].expression;
    if (begin < 0) return;
    const int32_t e = eg_step(r->expressions, begin, byte);
    if (e != EG_EMPTY) push_thread(s, row, terminal, e, guard);
}

/* The thread; if nothing is in progress and its row has a lexer, that lexer. */
static eg_thread with_lexer(const eg_rows *r, eg_thread t) {
    const int32_t lexer = eg_core_of(r, t.row)->lexer;
    if (t.terminal != EG_ANY || lexer < 0) return t;
    return (eg_thread){t.row, EG_LEXING, lexer, t.guard};
}

/* The terminals of a core that can begin with `byte`, all or only those that are not wide, and their
 * derivatives: an offset in `begun`. */
static int32_t terminals_begun_by(eg_states *s, int32_t core, int byte, bool narrow) {
    eg_rows *r = &s->rows;
    const uint64_t key = eg_pair(core, byte | narrow << 8);
    int32_t at = eg_map_get(&s->begun_by_byte, key, -1);
    if (at >= 0) return at;
    at = s->begun.count;
    eg_work(r->pool->fault, 2 * (int64_t)r->cores.at[core].expected_count);
    EG_PUSH(r->pool, s->begun, 0);
    for (int32_t i = 0; i < r->cores.at[core].expected_count; i++) {
        const int32_t terminal = r->cores.at[core].expected[i],
                      begin = r->rules->terminals[terminal].expression;
        if (begin < 0 || (narrow && eg_node(r->expressions, begin)->wide)) continue;
        const int32_t e = eg_step(r->expressions, begin, byte);
        if (e == EG_EMPTY) continue;
        EG_PUSH(r->pool, s->begun, terminal);
        EG_PUSH(r->pool, s->begun, e);
        s->begun.at[at]++;
    }
    eg_map_put(r->pool, &s->begun_by_byte, key, at);
    return at;
}

void eg_thread_step(eg_states *s, eg_thread t, int byte) {
    eg_rows *r = &s->rows;
    eg_expressions *x = r->expressions;
    eg_work(r->pool->fault, 4);
    const int32_t guard = eg_guard_step(x, t.guard, byte);
    if (guard < 0) return;
    t = with_lexer(r, t);
    if (t.expression >= 0) {
        const int32_t e = eg_step(x, t.expression, byte);
        if (e != EG_EMPTY) push_thread(s, t.row, t.terminal, e, guard);
        return;
    }
    const int32_t core = r->rows.at[t.row].core;
    if (!eg_bytes_has(&r->cores.at[core].first, byte)) return;
    const int32_t at = terminals_begun_by(s, core, byte, t.terminal == EG_NARROW), count = s->begun.at[at];
    eg_work(r->pool->fault, 4 * (int64_t)count);
    for (int32_t i = at + 1; i < at + 1 + 2 * count; i += 2)
        push_thread(s, t.row, s->begun.at[i], s->begun.at[i + 1], guard);
}
