/* Whether an expression matches anything, and how far a match is away.
 *
 * An intersection with a count has as many derivatives as the count is high, times those of the rest. Most of
 * its questions are answered by the same intersection without the count. A count X{low,high} of texts none of
 * which begins another (a code) is reached where the rest can be completed within `high` bytes and can then be
 * extended by one X at a time. */
#include "grammar/expression_make.h"

/* Derivatives that are explored to learn how far a match is away: half as many after each exploration that was
 * in vain, and twice as many after one that was not. */
enum { MOST_STATES = 1024, LEAST_STATES = 16 };

/* --- searches --- */

/* What a search has found is on the stack `found` from `base` on; it may begin another search. */

/* The place of `e` in a search, -1 if it has not been found. */
static int32_t place_of(const eg_expressions *x, int32_t base, int32_t e) {
    const int32_t at = x->nodes.at[e].visit;
    return at >= base && at < x->found.count && x->found.at[at].expression == e ? at : -1;
}

static void add_found(eg_expressions *x, int32_t e, int32_t from) {
    x->nodes.at[e].visit = x->found.count;
    EG_PUSH(x->pool, x->found, (eg_found){e, from, EG_FAR, EG_FAR});
}

/* Call `visit` with each derivative of `e`. */
static void visit_derivatives(eg_expressions *x, int32_t e, void (*visit)(eg_expressions *, int32_t, void *),
                              void *to) {
    const int32_t number = eg_make_classes(x, e);
    const eg_classes classes = x->classes.at[number];
    const eg_bytes first = *eg_first(x, e);
    eg_work(x->pool->fault, 16);
    for (int byte = 0; byte < 256; byte++) {
        if (classes.of[byte] != byte || !eg_bytes_has(&first, byte)) continue;
        const int32_t next = eg_make_derivative(x, e, byte);
        eg_work(x->pool->fault, 4);
        if (next != EG_EMPTY) visit(x, next, to);
    }
}

/* --- codes --- */

enum { NOT_KNOWN, YES, NO };

static void find_proper(eg_expressions *x, int32_t next, void *base) {
    if (next != EG_EPSILON && place_of(x, *(int32_t *)base, next) < 0) add_found(x, next, -1);
}

bool eg_is_code(eg_expressions *x, int32_t e) {
    if (x->nodes.at[e].code) return x->nodes.at[e].code == YES;
    int32_t base = x->found.count;
    add_found(x, e, -1);
    bool code = true;
    for (int32_t i = base; i < x->found.count && code; i++) {
        code = !x->nodes.at[x->found.at[i].expression].nullable && i - base < MOST_STATES;
        if (code) visit_derivatives(x, x->found.at[i].expression, find_proper, &base);
    }
    if (!code) x->nodes.at[e].code = NO;
    for (int32_t i = base; i < x->found.count && code; i++) x->nodes.at[x->found.at[i].expression].code = YES;
    x->found.count = base;
    return code;
}

/* --- counts --- */

/* The member `e` of an intersection without the count at its end, if there is one. */
static int32_t without_count(eg_expressions *x, int32_t e, eg_counts *counts) {
    const eg_expression n = x->nodes.at[e];
    if (n.kind == CONCAT) {
        const int32_t rest = without_count(x, n.b, counts);
        if (rest == n.b) return e;
        counts->exact &= eg_is_code(x, n.a);
        return eg_make_concat(x, n.a, rest);
    }
    if (n.kind != REPEAT || (n.b == 0 && n.c < 0)) return e;
    counts->number++;
    if (n.c >= 0 && n.c < counts->least) counts->least = n.c;
    if (n.b > counts->low) counts->low = n.b;
    if (n.b) counts->exact &= eg_is_code(x, n.a);
    return eg_make_repeat(x, n.a, 0, -1);
}

int32_t eg_make_widened(eg_expressions *x, int32_t e, int32_t most, int32_t least) {
    const eg_expression n = x->nodes.at[e];
    if (n.kind == CONCAT) {
        const int32_t rest = eg_make_widened(x, n.b, most, least);
        return rest == n.b ? e : eg_make_concat(x, n.a, rest);
    }
    if (n.kind != REPEAT || (n.b <= least && n.c <= most)) return e;
    return eg_make_repeat(x, n.a, n.b < least ? n.b : least, n.c > most ? -1 : n.c);
}

int32_t eg_make_uncounted(eg_expressions *x, const eg_expression *n, eg_counts *counts) {
    const int32_t base = x->scratch.count;
    *counts = (eg_counts){.least = EG_FAR, .exact = true};
    for (int32_t i = 0; i < n->b; i++) {
        const int32_t member = without_count(x, x->lists.at[n->a + i], counts);
        eg_push_member(x, BOTH, member);
    }
    return eg_make_both(x, base);
}

/* --- how far a match is away --- */

/* The derivatives of what is at `base` and their edges, from `edges` on. */
typedef struct exploration {
    int32_t base, edges;
    int32_t at; /* the place that is being explored */
} exploration;

static void note_edge(eg_expressions *x, int32_t next, void *exploration_) {
    const exploration *s = exploration_;
    eg_found *one = &x->found.at[s->at];
    if (next == one->expression && one->end == 0) one->loop = 0;
    EG_PUSH(x->pool, x->edges, next);
    if (x->nodes.at[next].reach < 0 && place_of(x, s->base, next) < 0) add_found(x, next, -1);
}

/* Record the derivatives of what is at place `at`, and how far it is away by itself. */
static void explore_one(eg_expressions *x, exploration *s, int32_t at) {
    eg_found *one = &x->found.at[at];
    s->at = at;
    one->from = x->edges.count;
    if (x->nodes.at[one->expression].nullable) one->end = 0;
    visit_derivatives(x, one->expression, note_edge, s);
}

/* The distances of `next`, a derivative of something found. */
static eg_reach distances(const eg_expressions *x, const exploration *s, int32_t next) {
    const int32_t at = place_of(x, s->base, next);
    if (at < 0) return x->reaches.at[x->nodes.at[next].reach];
    return (eg_reach){x->found.at[at].end, x->found.at[at].loop, 0, 0};
}

/* Shorten the distances of what is at place `at`, whose edges end at `end`. Returns whether any changed. */
static bool shorten(eg_expressions *x, const exploration *s, int32_t at, int32_t end) {
    eg_found *one = &x->found.at[at];
    bool changed = false;
    for (int32_t k = one->from; k < end; k++) {
        const eg_reach next = distances(x, s, x->edges.at[k]);
        changed |= next.end + 1 < one->end || next.loop + 1 < one->loop;
        if (next.end + 1 < one->end) one->end = next.end + 1;
        if (next.loop + 1 < one->loop) one->loop = next.loop + 1;
    }
    return changed;
}

static void measure(eg_expressions *x, const exploration *s) {
    for (bool changed = true; changed;) {
        changed = false;
        eg_work(x->pool->fault, x->edges.count - s->edges);
        for (int32_t i = x->found.count - 1, end = x->edges.count; i >= s->base; end = x->found.at[i--].from)
            changed |= shorten(x, s, i, end);
    }
}

/* The greatest distances of what was found, and of what that leads to. */
static eg_reach greatest(const eg_expressions *x, const exploration *s) {
    eg_reach out = {0};
    for (int32_t i = s->base; i < x->found.count; i++) {
        const eg_found *one = &x->found.at[i];
        if (one->end == EG_FAR) continue;
        if (out.far_end < one->end) out.far_end = one->end;
        if (out.far_loop < one->loop) out.far_loop = one->loop;
    }
    for (int32_t k = s->edges; k < x->edges.count; k++) {
        const eg_reach next = distances(x, s, x->edges.at[k]);
        if (out.far_end < next.far_end) out.far_end = next.far_end;
        if (out.far_loop < next.far_loop) out.far_loop = next.far_loop;
    }
    return out;
}

eg_reach eg_reach_of(eg_expressions *x, int32_t e) {
    if (x->nodes.at[e].reach >= 0) return x->reaches.at[x->nodes.at[e].reach];
    exploration s = {x->found.count, x->edges.count, 0};
    const eg_reach unknown = {EG_FAR, EG_FAR, EG_FAR, EG_FAR};
    add_found(x, e, -1);
    const int32_t most = MOST_STATES >> x->in_vain;
    for (int32_t i = s.base; i < x->found.count && x->found.count - s.base <= most; i++)
        explore_one(x, &s, i);
    const bool all = x->found.count - s.base <= most;
    if (!all && most > LEAST_STATES) x->in_vain++;
    else if (all && x->in_vain) x->in_vain--;
    if (all) measure(x, &s);
    const eg_reach far = all ? greatest(x, &s) : unknown;
    EG_RESERVE(x->pool, x->reaches, x->found.count - s.base);
    for (int32_t i = s.base; i < x->found.count; i++) {
        const eg_found *one = &x->found.at[i];
        x->nodes.at[one->expression].reach = x->reaches.count;
        x->reaches.at[x->reaches.count++] = all ? (eg_reach){one->end, one->loop, far.far_end, far.far_loop}
                                                : unknown;
    }
    x->found.count = s.base;
    x->edges.count = s.edges;
    return x->reaches.at[x->nodes.at[e].reach];
}

/* --- emptiness --- */

enum { UNKNOWN, SOMETHING, NOTHING };

/* Whether an intersection matches anything, if that can be told without its counts. */
static int judge_both(eg_expressions *x, const eg_expression *n) {
    if (n->guards) return UNKNOWN;
    eg_counts counts;
    const int32_t open = eg_make_uncounted(x, n, &counts);
    if (!counts.number || x->nodes.at[open].kind != BOTH) return UNKNOWN;
    const eg_reach reach = eg_reach_of(x, open);
    if (reach.end == EG_FAR && reach.far_end < EG_FAR) return NOTHING;
    if (!counts.low) return reach.end <= counts.least && reach.end < EG_FAR ? SOMETHING : UNKNOWN;
    if (!counts.exact || reach.loop == EG_FAR) return UNKNOWN;
    return reach.loop + (counts.number > 1 ? counts.low : 0) <= counts.least ? SOMETHING : UNKNOWN;
}

static int judge(eg_expressions *x, int32_t e);

/* The same for the parts of a sequence, which are all needed. */
static int judge_concat(eg_expressions *x, const eg_expression *n) {
    if (x->nodes.at[n->a].guards) return UNKNOWN;
    const int head = judge(x, n->a);
    if (head == NOTHING) return NOTHING;
    const int rest = judge(x, n->b);
    return rest == SOMETHING ? head : rest;
}

static int judge_union(eg_expressions *x, const eg_expression *n) {
    int out = NOTHING;
    for (int32_t i = 0; i < n->b && out != SOMETHING; i++) {
        const int one = judge(x, x->lists.at[n->a + i]);
        if (one != NOTHING) out = one;
    }
    return out;
}

/* Whether `e` matches anything, if that can be told without a search. */
static int judge(eg_expressions *x, int32_t e) {
    const eg_expression n = x->nodes.at[e];
    if (e == EG_EMPTY) return NOTHING;
    if (!n.logical || n.nullable) return SOMETHING;
    if (n.emptiness) return n.emptiness;
    int out = UNKNOWN;
    eg_enter(x);
    if (n.kind == BOTH) out = judge_both(x, &n);
    else if (n.kind == CONCAT) out = judge_concat(x, &n);
    else if (n.kind == UNION) out = judge_union(x, &n);
    x->depth--;
    if (out != UNKNOWN) x->nodes.at[e].emptiness = (uint8_t)out;
    return out;
}

/* A breadth-first search from what is at `base` for something that can end. */
typedef struct quest {
    int32_t base;
    int32_t at;    /* the place whose derivatives are visited */
    int32_t found; /* the place of something that matches; -1: there is none yet */
} quest;

static void look_at(eg_expressions *x, int32_t next, void *quest_) {
    quest *q = quest_;
    if (q->found >= 0 || place_of(x, q->base, next) >= 0) return;
    const int verdict = judge(x, next);
    if (verdict == NOTHING) return;
    add_found(x, next, q->at);
    if (verdict == SOMETHING) q->found = x->found.count - 1;
}

/* If there is a match, everything on the path to it matches something; else nothing that was found does. */
static bool search(eg_expressions *x, int32_t e) {
    quest q = {x->found.count, x->found.count, -1};
    add_found(x, e, -1);
    for (; q.at < x->found.count && q.found < 0; q.at++)
        visit_derivatives(x, x->found.at[q.at].expression, look_at, &q);
    for (int32_t i = q.found; i >= 0; i = x->found.at[i].from)
        x->nodes.at[x->found.at[i].expression].emptiness = SOMETHING;
    for (int32_t i = q.base; i < x->found.count && q.found < 0; i++)
        x->nodes.at[x->found.at[i].expression].emptiness = NOTHING;
    x->found.count = q.base;
    return q.found < 0;
}

bool eg_expression_is_empty(eg_expressions *x, int32_t e) {
    const int verdict = judge(x, e);
    return verdict == UNKNOWN ? search(x, e) : verdict == NOTHING;
}
