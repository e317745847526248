/* Whether an expression matches anything, and how far a match is away.
 *
 * An intersection with a count has as many derivatives as the count is high, times those of the rest. Most of
 * its questions are answered by the same intersection without the count. A count X{low,high} of texts none of
 * which begins another (a code) is reached where the rest can be completed within `high` bytes and can then be
 * extended by one X at a time.
 *
 * A union matches something if one of its members does. So where too many derivatives would have to be visited,
 * those of the alternatives (alternatives.c) are visited instead: one at a time, as in an automaton
 * that is not deterministic and has far fewer states. */
#include "grammar/expression/make.h"

/* Derivatives that are visited before their alternatives are, to learn how far a match is away or whether there
 * is one: half as many after each time that this was in vain, and twice as many after one that was not. */
enum { MOST_STATES = 1024, LEAST_STATES = 16 };

/* ... and the work that this may take. */
enum { MOST_WORK = 1 << 20 };

/* Alternatives that are visited to learn how far a match is away. */
enum { MOST_ALTERNATIVES = 1 << 14 };

/* How many derivatives to visit, after as many attempts in vain. */
static int32_t most_states(int in_vain) {
    const int32_t most = MOST_STATES >> in_vain;
    return most > LEAST_STATES ? most : LEAST_STATES;
}

static void learn(int *in_vain, bool success) {
    if (!success && MOST_STATES >> *in_vain > LEAST_STATES) ++*in_vain;
    else if (success && *in_vain) --*in_vain;
}

/* --- searches --- */

/* What a search has found is on the stack `found` from `base` on; it may begin another search. */

/* The place of `e` in a search, -1 if it has not been found. */
static int32_t place_of(const eg_expressions *x, int32_t base, int32_t e) {
    const int32_t at = x->nodes.at[e].visit;
    return at >= base && at < x->found.count && x->found.at[at].expression == e ? at : -1;
}

static void add_found(eg_expressions *x, int32_t e, int32_t from) {
    x->nodes.at[e].visit = x->found.count;
    EG_PUSH(x->pool, x->found, (eg_found){.expression = e, .from = from, .end = EG_FAR, .loop = EG_FAR});
}

/* Call `visit` with each derivative of `e`. */
static void visit_derivatives(eg_expressions *x, int32_t e, eg_visit *visit, void *to) {
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
    int32_t at;        /* the place that is being explored */
    bool alternatives; /* of the derivatives, not the derivatives themselves */
    bool alone;        /* counts_alone() of it */
    bool exact;        /* ... and of all before it */
} exploration;

static const eg_reach FAR_AWAY = {EG_FAR, EG_FAR, EG_FAR, EG_FAR, false};

static void find_place(eg_expressions *x, int32_t next, void *exploration_) {
    const exploration *s = exploration_;
    if (x->nodes.at[next].reach < 0 && place_of(x, s->base, next) < 0) add_found(x, next, -1);
}

/* The last part of a sequence, or `e` itself. */
static int32_t last_part(const eg_expressions *x, int32_t e) {
    while (x->nodes.at[e].kind == CONCAT) e = x->nodes.at[e].b;
    return e;
}

/* Whether `e`, or something that it is the union of, ends with something that is repeated without bounds. */
static bool repeats_at_end(eg_expressions *x, int32_t e) {
    const eg_expression n = x->nodes.at[last_part(x, e)];
    bool repeats = n.kind == REPEAT && n.c < 0;
    eg_enter(x);
    for (int32_t i = 0; n.kind == UNION && i < n.b && !repeats; i++)
        repeats = repeats_at_end(x, x->lists.at[n.a + i]);
    x->depth--;
    return repeats;
}

/* Whether exactly one member of the intersection `e` ends with something repeated, and that is a code: then
 * `between` receives whether one of these has ended here and no other one has begun. */
static bool counts_alone(eg_expressions *x, int32_t e, bool *between) {
    const eg_expression n = x->nodes.at[e];
    int32_t counted = -1;
    for (int32_t i = 0; i < (n.kind == BOTH ? n.b : 1); i++) {
        const int32_t member = n.kind == BOTH ? x->lists.at[n.a + i] : e;
        if (!repeats_at_end(x, member)) continue;
        if (counted >= 0) return false;
        counted = member;
    }
    if (counted < 0) return false;
    *between = x->nodes.at[counted].kind == REPEAT;
    for (; x->nodes.at[counted].kind == CONCAT; counted = x->nodes.at[counted].b)
        if (!eg_is_code(x, x->nodes.at[counted].a)) return false;
    const eg_expression last = x->nodes.at[counted];
    return last.kind == REPEAT && last.b == 0 && eg_is_code(x, last.a);
}

static void note_edge(eg_expressions *x, int32_t next, void *exploration_) {
    const exploration *s = exploration_;
    eg_found *one = &x->found.at[s->at];
    one->loops |= next == one->expression && (s->alone ? one->cost > 0 : one->end == 0);
    EG_PUSH(x->pool, x->edges, next);
    find_place(x, next, exploration_);
}

static void note_edges(eg_expressions *x, int32_t next, void *exploration_) {
    const exploration *s = exploration_;
    if (s->alternatives) eg_visit_alternatives(x, next, note_edge, exploration_);
    else note_edge(x, next, exploration_);
}

/* Record the derivatives of what is at place `at`, and how far it is away by itself. */
static void explore_one(eg_expressions *x, exploration *s, int32_t at) {
    bool between = true;
    s->at = at;
    s->alone = counts_alone(x, x->found.at[at].expression, &between);
    s->exact &= s->alone;
    eg_found *one = &x->found.at[at];
    one->from = x->edges.count;
    one->cost = !s->alone || between ? 1 : 0;
    if (x->nodes.at[one->expression].nullable) one->end = 0;
    visit_derivatives(x, one->expression, note_edges, s);
}

/* The distances of `next`, a derivative of something found. */
static eg_reach distances(const eg_expressions *x, const exploration *s, int32_t next) {
    const int32_t at = place_of(x, s->base, next);
    if (at < 0) return x->reaches.at[x->nodes.at[next].reach];
    return (eg_reach){x->found.at[at].end, x->found.at[at].loop, 0, 0, true};
}

/* Shorten the distances of what is at place `at`, whose edges end at `end`. Returns whether any changed. */
static bool shorten(eg_expressions *x, const exploration *s, int32_t at, int32_t end) {
    eg_found *one = &x->found.at[at];
    bool changed = false;
    for (int32_t k = one->from; k < end; k++) {
        const eg_reach next = distances(x, s, x->edges.at[k]);
        const int32_t end = next.end + one->cost;
        int32_t loop = next.loop + one->cost;
        if (one->loops && end < loop) loop = end < one->end ? end : one->end;
        changed |= end < one->end || loop < one->loop;
        if (end < one->end) one->end = end;
        if (loop < one->loop) one->loop = loop;
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
    eg_reach out = {.exact = s->exact};
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
        out.exact &= next.exact;
    }
    return out;
}

/* Give what was found the distances that are known now; EG_FAR: none are. */
static void keep_reaches(eg_expressions *x, const exploration *s, bool known) {
    const eg_reach far = known ? greatest(x, s) : FAR_AWAY;
    EG_RESERVE(x->pool, x->reaches, x->found.count - s->base);
    for (int32_t i = s->base; i < x->found.count; i++) {
        const eg_found *one = &x->found.at[i];
        x->nodes.at[one->expression].reach = x->reaches.count;
        eg_reach reach = far;
        if (known) reach.end = one->end, reach.loop = one->loop;
        x->reaches.at[x->reaches.count++] = reach;
    }
}

/* Explore what `e` leads to, or its alternatives, and keep their distances. Returns whether that was less than
 * `most`; otherwise nothing is kept unless the distances are given `up`. */
static bool explore(eg_expressions *x, int32_t e, bool alternatives, int32_t most, bool up) {
    exploration s = {
        .base = x->found.count, .edges = x->edges.count, .alternatives = alternatives, .exact = true};
    const int64_t left = x->pool->fault->work - MOST_WORK;
    bool all = true;
    if (alternatives) eg_visit_alternatives(x, e, find_place, &s);
    else add_found(x, e, -1);
    for (int32_t i = s.base; i < x->found.count && all; i++) {
        explore_one(x, &s, i);
        all = x->found.count - s.base <= most && (alternatives || x->pool->fault->work > left);
    }
    if (all) measure(x, &s);
    if (all || up) keep_reaches(x, &s, all);
    x->found.count = s.base;
    x->edges.count = s.edges;
    return all;
}

static void least_reach(eg_expressions *x, int32_t alternative, void *reach_) {
    eg_reach *out = reach_;
    const int32_t at = x->nodes.at[alternative].reach;
    const eg_reach one = at < 0 ? FAR_AWAY : x->reaches.at[at];
    if (one.end < out->end) out->end = one.end;
    if (one.loop < out->loop) out->loop = one.loop;
    if (one.far_end > out->far_end) out->far_end = one.far_end;
    if (one.far_loop > out->far_loop) out->far_loop = one.far_loop;
    out->exact &= one.exact;
}

/* Keep the distances of `e` that those of its alternatives imply. Returns whether they are known. */
static bool keep_least_reach(eg_expressions *x, int32_t e) {
    eg_reach out = {EG_FAR, EG_FAR, 0, 0, true};
    eg_visit_alternatives(x, e, least_reach, &out);
    if (out.far_end == EG_FAR) return false;
    EG_PUSH(x->pool, x->reaches, out);
    x->nodes.at[e].reach = x->reaches.count - 1;
    return true;
}

/* Find out how far a match of `e` is away. */
static void find_reach(eg_expressions *x, int32_t e) {
    const bool splits = eg_has_alternatives(x, e), before = splits && x->in_vain;
    if (before && keep_least_reach(x, e)) return;
    if (!before) {
        const bool all = explore(x, e, false, most_states(x->in_vain), false);
        learn(&x->in_vain, all);
        if (all) return;
    }
    explore(x, e, true, MOST_ALTERNATIVES, true);
    if (!splits || keep_least_reach(x, e)) return;
    EG_PUSH(x->pool, x->reaches, FAR_AWAY);
    x->nodes.at[e].reach = x->reaches.count - 1;
}

eg_reach eg_reach_of(eg_expressions *x, int32_t e) {
    if (x->nodes.at[e].reach < 0) find_reach(x, e);
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
    if (reach.exact && counts.number == 1) {
        if (reach.end > counts.least) return NOTHING;
        if (reach.end >= counts.low && reach.end < EG_FAR) return SOMETHING;
    }
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
    int32_t at;        /* the place whose derivatives are visited; -1: the beginning */
    int32_t found;     /* the place of something that matches; -1: there is none yet */
    bool alternatives; /* visit those of the derivatives */
} quest;

static void look_at(eg_expressions *x, int32_t next, void *quest_) {
    quest *q = quest_;
    if (q->found >= 0 || place_of(x, q->base, next) >= 0) return;
    const int verdict = judge(x, next);
    if (verdict == NOTHING) return;
    add_found(x, next, q->at);
    if (verdict == SOMETHING) q->found = x->found.count - 1;
}

static void look_at_each(eg_expressions *x, int32_t next, void *quest_) {
    const quest *q = quest_;
    if (q->alternatives) eg_visit_alternatives(x, next, look_at, quest_);
    else look_at(x, next, quest_);
}

/* Decide whether `e` matches anything, if that takes at most `most` derivatives. If there is a match, everything
 * on the path to it matches something; else nothing that was found does. */
static int search(eg_expressions *x, int32_t e, bool alternatives, int32_t most) {
    quest q = {x->found.count, -1, -1, alternatives};
    const int64_t left = x->pool->fault->work - MOST_WORK;
    if (alternatives) eg_visit_alternatives(x, e, look_at, &q);
    else add_found(x, e, -1);
    for (q.at = q.base; q.at < x->found.count && q.found < 0; q.at++) {
        if (q.at - q.base >= most || (!alternatives && x->pool->fault->work < left)) break;
        visit_derivatives(x, x->found.at[q.at].expression, look_at_each, &q);
    }
    const int verdict = q.found >= 0 ? SOMETHING : q.at < x->found.count ? UNKNOWN : NOTHING;
    for (int32_t i = q.found; i >= 0; i = x->found.at[i].from)
        x->nodes.at[x->found.at[i].expression].emptiness = SOMETHING;
    for (int32_t i = q.base; i < x->found.count && verdict == NOTHING; i++)
        x->nodes.at[x->found.at[i].expression].emptiness = NOTHING;
    x->found.count = q.base;
    if (verdict != UNKNOWN) x->nodes.at[e].emptiness = (uint8_t)verdict;
    return verdict;
}

bool eg_expression_is_empty(eg_expressions *x, int32_t e) {
    int verdict = judge(x, e);
    if (verdict == UNKNOWN && !(x->lost && eg_has_alternatives(x, e))) {
        verdict = search(x, e, false, most_states(x->lost));
        learn(&x->lost, verdict != UNKNOWN);
    }
    if (verdict == UNKNOWN) verdict = search(x, e, true, INT32_MAX);
    return verdict == NOTHING;
}
