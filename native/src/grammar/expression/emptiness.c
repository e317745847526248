/* Whether an expression matches anything.
 *
 * A union matches something if one of its members does. So where too many derivatives would have to be
 * visited, those of the alternatives (alternatives.c) are visited instead: one at a time, as in an
 * automaton that is not deterministic and has far fewer states. */
#include "grammar/expression/search.h"

enum { UNKNOWN, SOMETHING, NOTHING };

/* Whether an intersection matches anything, if that can be told without its counts. */
static int judge_both(eg_expressions *x, const eg_expression *n) {
    if (n->guards) return UNKNOWN;
    eg_counts counts;
    const int32_t open = eg_drop_counts(x, n, &counts);
    if (!counts.number || x->nodes.at[open].kind != EG_BOTH) return UNKNOWN;
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
    if (x->nodes.at[n->head].guards) return UNKNOWN;
    const int head = judge(x, n->head);
    if (head == NOTHING) return NOTHING;
    const int rest = judge(x, n->tail);
    return rest == SOMETHING ? head : rest;
}

static int judge_union(eg_expressions *x, const eg_expression *n) {
    int out = NOTHING;
    for (int32_t i = 0; i < n->count && out != SOMETHING; i++) {
        const int verdict = judge(x, eg_member(x, n, i));
        if (verdict != NOTHING) out = verdict;
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
    if (n.kind == EG_BOTH) out = judge_both(x, &n);
    else if (n.kind == EG_CONCAT) out = judge_concat(x, &n);
    else if (n.kind == EG_UNION) out = judge_union(x, &n);
    eg_leave(x);
    if (out != UNKNOWN) x->nodes.at[e].emptiness = (uint8_t)out;
    return out;
}

/* A breadth-first search from what is at `base` for something that can end. */
typedef struct pursuit {
    int32_t base;
    int32_t at;        /* the place whose derivatives are visited; -1: the beginning */
    int32_t match;     /* the place of something that matches; -1: there is none yet */
    bool alternatives; /* visit those of the derivatives */
} pursuit;

static void consider(eg_expressions *x, int32_t next, void *pursuit_) {
    pursuit *p = pursuit_;
    if (p->match >= 0 || eg_visited_place(x, p->base, next) >= 0) return;
    const int verdict = judge(x, next);
    if (verdict == NOTHING) return;
    eg_add_visited(x, next, p->at);
    if (verdict == SOMETHING) p->match = x->visited.count - 1;
}

static void consider_each(eg_expressions *x, int32_t next, void *pursuit_) {
    const pursuit *p = pursuit_;
    if (p->alternatives) eg_visit_alternatives(x, next, consider, pursuit_);
    else consider(x, next, pursuit_);
}

/* Decide whether `e` matches anything, if that takes at most `most` derivatives. If there is a match,
 * everything on the path to it matches something; else nothing that was visited does. */
static int search(eg_expressions *x, int32_t e, bool alternatives, int32_t most) {
    pursuit p = {x->visited.count, -1, -1, alternatives};
    const int64_t left = x->pool->fault->work - EG_MOST_WORK;
    if (alternatives) eg_visit_alternatives(x, e, consider, &p);
    else eg_add_visited(x, e, -1);
    for (p.at = p.base; p.at < x->visited.count && p.match < 0; p.at++) {
        if (p.at - p.base >= most || (!alternatives && x->pool->fault->work < left)) break;
        eg_visit_derivatives(x, x->visited.at[p.at].expression, consider_each, &p);
    }
    const int verdict = p.match >= 0 ? SOMETHING : p.at < x->visited.count ? UNKNOWN : NOTHING;
    for (int32_t i = p.match; i >= 0; i = x->visited.at[i].from)
        x->nodes.at[x->visited.at[i].expression].emptiness = SOMETHING;
    for (int32_t i = p.base; i < x->visited.count && verdict == NOTHING; i++)
        x->nodes.at[x->visited.at[i].expression].emptiness = NOTHING;
    x->visited.count = p.base;
    if (verdict != UNKNOWN) x->nodes.at[e].emptiness = (uint8_t)verdict;
    return verdict;
}

bool eg_expression_is_empty(eg_expressions *x, int32_t e) {
    int verdict = judge(x, e);
    if (verdict == UNKNOWN && !(x->vain_searches && eg_has_alternatives(x, e))) {
        verdict = search(x, e, false, eg_most_states(x->vain_searches));
        eg_count_vain(&x->vain_searches, verdict != UNKNOWN);
    }
    if (verdict == UNKNOWN) verdict = search(x, e, true, INT32_MAX);
    return verdict == NOTHING;
}
