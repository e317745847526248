/* How far a match is away.
 *
 * An intersection with a count has as many derivatives as the count is high, times those of the rest. Most
 * of its questions are answered by the same intersection without the count. A count X{low,high} of texts
 * none of which begins another (a code) is reached where the rest can be completed within `high` bytes and
 * can then be extended by one X at a time.
 */
#include "grammar/expression/search.h"

/* Alternatives that are visited to learn how far a match is away. */
enum { MOST_ALTERNATIVES = 1 << 14 };

/* The derivatives of what is at `base` and their edges, from `edges` on. */
typedef struct exploration {
    int32_t base, edges;
    int32_t at;        /* the place that is being explored */
    bool alternatives; /* of the derivatives, not the derivatives themselves */
    bool alone;        /* counts_alone() of it */
    bool exact;        /* ... and of all before it */
} exploration;

static const eg_reach FAR_AWAY = {EG_FAR, EG_FAR, EG_FAR, EG_FAR, false};

static void add_unseen(eg_expressions *x, int32_t next, void *exploration_) {
    const exploration *s = exploration_;
    if (x->nodes.at[next].reach < 0 && eg_visited_place(x, s->base, next) < 0) eg_add_visited(x, next, -1);
}

/* The last part of a sequence, or `e` itself. */
static int32_t last_part(const eg_expressions *x, int32_t e) {
    while (x->nodes.at[e].kind == EG_CONCAT) e = x->nodes.at[e].tail;
    return e;
}

/* Whether `e`, or something that it is the union of, ends with something that is repeated without bounds. */
static bool repeats_at_end(eg_expressions *x, int32_t e) {
    const eg_expression n = x->nodes.at[last_part(x, e)];
    bool repeats = n.kind == EG_REPEAT && n.high < 0;
    eg_enter(x);
    for (int32_t i = 0; n.kind == EG_UNION && i < n.count && !repeats; i++)
        repeats = repeats_at_end(x, eg_member(x, &n, i));
    eg_leave(x);
    return repeats;
}

/* Whether exactly one member of the intersection `e` ends with something repeated, and that is a code: then
 * `between` receives whether one of these has ended here and no other one has begun. */
static bool counts_alone(eg_expressions *x, int32_t e, bool *between) {
    const eg_expression n = x->nodes.at[e];
    int32_t counted = -1;
    for (int32_t i = 0; i < (n.kind == EG_BOTH ? n.count : 1); i++) {
        const int32_t member = n.kind == EG_BOTH ? eg_member(x, &n, i) : e;
        if (!repeats_at_end(x, member)) continue;
        if (counted >= 0) return false;
        counted = member;
    }
    if (counted < 0) return false;
    *between = x->nodes.at[counted].kind == EG_REPEAT;
    for (; x->nodes.at[counted].kind == EG_CONCAT; counted = x->nodes.at[counted].tail)
        if (!eg_is_code(x, x->nodes.at[counted].head)) return false;
    const eg_expression last = x->nodes.at[counted];
    return last.kind == EG_REPEAT && last.low == 0 && eg_is_code(x, last.of);
}

static void note_edge(eg_expressions *x, int32_t next, void *exploration_) {
    const exploration *s = exploration_;
    eg_visited *state = &x->visited.at[s->at];
    state->loops |= next == state->expression && (s->alone ? state->cost > 0 : state->end == 0);
    EG_PUSH(x->pool, x->edges, next);
    add_unseen(x, next, exploration_);
}

static void note_edges(eg_expressions *x, int32_t next, void *exploration_) {
    const exploration *s = exploration_;
    if (s->alternatives) eg_visit_alternatives(x, next, note_edge, exploration_);
    else note_edge(x, next, exploration_);
}

/* Record the derivatives of what is at place `at`, and how far it is away by itself. */
static void explore_place(eg_expressions *x, exploration *s, int32_t at) {
    bool between = true;
    s->at = at;
    s->alone = counts_alone(x, x->visited.at[at].expression, &between);
    s->exact &= s->alone;
    eg_visited *state = &x->visited.at[at];
    state->from = x->edges.count;
    state->cost = !s->alone || between ? 1 : 0;
    if (x->nodes.at[state->expression].nullable) state->end = 0;
    eg_visit_derivatives(x, state->expression, note_edges, s);
}

/* The distances of `next`, a derivative of something visited. */
static eg_reach distances_of(const eg_expressions *x, const exploration *s, int32_t next) {
    const int32_t at = eg_visited_place(x, s->base, next);
    if (at < 0) return x->reaches.at[x->nodes.at[next].reach];
    return (eg_reach){x->visited.at[at].end, x->visited.at[at].loop, 0, 0, true};
}

/* Shorten the distances of what is at place `at`, whose edges end at `end`. Returns whether any changed. */
static bool shorten_distances(eg_expressions *x, const exploration *s, int32_t at, int32_t end) {
    eg_visited *state = &x->visited.at[at];
    bool changed = false;
    for (int32_t k = state->from; k < end; k++) {
        const eg_reach next = distances_of(x, s, x->edges.at[k]);
        const int32_t end = next.end + state->cost;
        int32_t loop = next.loop + state->cost;
        if (state->loops && end < loop) loop = end < state->end ? end : state->end;
        changed |= end < state->end || loop < state->loop;
        if (end < state->end) state->end = end;
        if (loop < state->loop) state->loop = loop;
    }
    return changed;
}

static void measure_distances(eg_expressions *x, const exploration *s) {
    for (bool changed = true; changed;) {
        changed = false;
        eg_work(x->pool->fault, x->edges.count - s->edges);
        for (int32_t i = x->visited.count - 1, end = x->edges.count; i >= s->base;
             end = x->visited.at[i--].from)
            changed |= shorten_distances(x, s, i, end);
    }
}

/* The greatest distances of what was visited, and of what that leads to. */
static eg_reach greatest_distances(const eg_expressions *x, const exploration *s) {
    eg_reach out = {.exact = s->exact};
    for (int32_t i = s->base; i < x->visited.count; i++) {
        const eg_visited *state = &x->visited.at[i];
        if (state->end == EG_FAR) continue;
        if (out.far_end < state->end) out.far_end = state->end;
        if (out.far_loop < state->loop) out.far_loop = state->loop;
    }
    for (int32_t k = s->edges; k < x->edges.count; k++) {
        const eg_reach next = distances_of(x, s, x->edges.at[k]);
        if (out.far_end < next.far_end) out.far_end = next.far_end;
        if (out.far_loop < next.far_loop) out.far_loop = next.far_loop;
        out.exact &= next.exact;
    }
    return out;
}

/* Give what was visited the distances that are known now; EG_FAR: none are. */
static void keep_reaches(eg_expressions *x, const exploration *s, bool known) {
    const eg_reach far = known ? greatest_distances(x, s) : FAR_AWAY;
    EG_RESERVE(x->pool, x->reaches, x->visited.count - s->base);
    for (int32_t i = s->base; i < x->visited.count; i++) {
        const eg_visited *state = &x->visited.at[i];
        x->nodes.at[state->expression].reach = x->reaches.count;
        eg_reach reach = far;
        if (known) reach.end = state->end, reach.loop = state->loop;
        x->reaches.at[x->reaches.count++] = reach;
    }
}

/* Explore what `e` leads to, or its alternatives, and keep their distances. Returns whether that was less
 * than `most`; otherwise nothing is kept unless the distances are given `up`. */
static bool explore(eg_expressions *x, int32_t e, bool alternatives, int32_t most, bool up) {
    exploration s = {
        .base = x->visited.count, .edges = x->edges.count, .alternatives = alternatives, .exact = true};
    const int64_t left = x->pool->fault->work - EG_MOST_WORK;
    bool all = true;
    if (alternatives) eg_visit_alternatives(x, e, add_unseen, &s);
    else eg_add_visited(x, e, -1);
    for (int32_t i = s.base; i < x->visited.count && all; i++) {
        explore_place(x, &s, i);
        all = x->visited.count - s.base <= most && (alternatives || x->pool->fault->work > left);
    }
    if (all) measure_distances(x, &s);
    if (all || up) keep_reaches(x, &s, all);
    x->visited.count = s.base;
    x->edges.count = s.edges;
    return all;
}

static void take_shorter(eg_expressions *x, int32_t alternative, void *reach_) {
    eg_reach *out = reach_;
    const int32_t at = x->nodes.at[alternative].reach;
    const eg_reach reach = at < 0 ? FAR_AWAY : x->reaches.at[at];
    if (reach.end < out->end) out->end = reach.end;
    if (reach.loop < out->loop) out->loop = reach.loop;
    if (reach.far_end > out->far_end) out->far_end = reach.far_end;
    if (reach.far_loop > out->far_loop) out->far_loop = reach.far_loop;
    out->exact &= reach.exact;
}

/* Keep the distances of `e` that those of its alternatives imply. Returns whether they are known. */
static bool keep_reach_of_alternatives(eg_expressions *x, int32_t e) {
    eg_reach out = {EG_FAR, EG_FAR, 0, 0, true};
    eg_visit_alternatives(x, e, take_shorter, &out);
    if (out.far_end == EG_FAR) return false;
    EG_PUSH(x->pool, x->reaches, out);
    x->nodes.at[e].reach = x->reaches.count - 1;
    return true;
}

/* Find out how far a match of `e` is away. */
static void find_reach(eg_expressions *x, int32_t e) {
    const bool splits = eg_has_alternatives(x, e), before = splits && x->vain_explorations;
    if (before && keep_reach_of_alternatives(x, e)) return;
    if (!before) {
        const bool all = explore(x, e, false, eg_most_states(x->vain_explorations), false);
        eg_count_vain(&x->vain_explorations, all);
        if (all) return;
    }
    explore(x, e, true, MOST_ALTERNATIVES, true);
    if (!splits || keep_reach_of_alternatives(x, e)) return;
    EG_PUSH(x->pool, x->reaches, FAR_AWAY);
    x->nodes.at[e].reach = x->reaches.count - 1;
}

eg_reach eg_reach_of(eg_expressions *x, int32_t e) {
    if (x->nodes.at[e].reach < 0) find_reach(x, e);
    return x->reaches.at[x->nodes.at[e].reach];
}
