/* Constructors: what can be simplified is, so that equal languages are one expression more often. */
#include "grammar/expression/make.h"

/* All classes among the members become one. The empty string is dropped if another member matches it. */
static void merge_members(eg_expressions *x, int32_t base) {
    eg_bytes all = {{0}};
    int32_t kept = base, classes = 0;
    bool nullable = false, epsilon = false;
    for (int32_t i = base; i < x->scratch.count; i++) {
        const int32_t e = x->scratch.at[i];
        const eg_expression *n = &x->nodes.at[e];
        if (e == EG_EPSILON) {
            epsilon = true;
        } else if (n->kind == EG_CLASS) {
            eg_bytes_unite(&all, &x->sets.at[n->set]);
            classes++;
        } else {
            nullable |= n->nullable && !n->guarded;
            x->scratch.at[kept++] = e;
        }
    }
    x->scratch.count = kept;
    if (classes) EG_PUSH(x->pool, x->scratch, eg_intern(x, EG_CLASS, eg_intern_set(x, &all), 0, 0));
    if (epsilon && !nullable) EG_PUSH(x->pool, x->scratch, EG_EPSILON);
    eg_sort_members(x, base);
    eg_merge_counts(x, base);
}

/* The union of the members on the stack from `base` on, which are popped. */
int32_t eg_make_union(eg_expressions *x, int32_t base) {
    eg_sort_members(x, base);
    int32_t kept = base, out;
    for (int32_t i = base; i < x->scratch.count; i++) {
        if (x->scratch.at[i] == EG_ANYTHING) {
            x->scratch.count = base;
            return EG_ANYTHING;
        }
        if (x->scratch.at[i] != EG_EMPTY) x->scratch.at[kept++] = x->scratch.at[i];
    }
    x->scratch.count = kept;
    if (kept - base > 1) merge_members(x, base);
    eg_work(x->pool->fault, x->scratch.count - base);
    if (x->scratch.count == base) out = EG_EMPTY;
    else if (x->scratch.count == base + 1) out = x->scratch.at[base];
    else out = eg_intern_list(x, EG_UNION, x->scratch.at + base, x->scratch.count - base);
    x->scratch.count = base;
    return out;
}

int32_t eg_union(eg_expressions *x, int32_t a, int32_t b) {
    if (a == b || b == EG_EMPTY) return a;
    if (a == EG_EMPTY) return b;
    const int32_t base = x->scratch.count;
    eg_push_member(x, EG_UNION, a);
    eg_push_member(x, EG_UNION, b);
    return eg_make_union(x, base);
}

/* The union of make(member, other) over the members of `e`, a union of guarded members. */
static int32_t distribute(eg_expressions *x, int32_t e, int32_t other,
                          int32_t (*make)(eg_expressions *, int32_t, int32_t)) {
    const eg_expression n = x->nodes.at[e];
    int32_t out = EG_EMPTY;
    for (int32_t i = 0; i < n.count; i++) out = eg_union(x, out, make(x, eg_member(x, &n, i), other));
    return out;
}

int32_t eg_make_concat(eg_expressions *x, int32_t a, int32_t b) {
    if (a == EG_EMPTY || b == EG_EMPTY) return EG_EMPTY;
    if (a == EG_EPSILON) return b;
    if (b == EG_EPSILON) return a;
    const eg_expression n = x->nodes.at[a];
    int32_t out;
    eg_enter(x);
    if (n.kind == EG_CONCAT) out = eg_make_concat(x, n.head, eg_make_concat(x, n.tail, b));
    else if (n.kind == EG_GUARD) out = eg_make_guard(x, eg_make_concat(x, n.of, b), n.forbidden);
    else if (n.guarded && n.kind == EG_UNION) out = distribute(x, a, b, eg_make_concat);
    else if (a == EG_ANYTHING && x->nodes.at[b].kind == EG_CONCAT && x->nodes.at[b].head == EG_ANYTHING)
        out = b;
    else if (b == EG_ANYTHING && n.nullable && !n.guards) out = b;
    else out = eg_intern(x, EG_CONCAT, a, b, 0);
    eg_leave(x);
    return out;
}

static void check_excluded(eg_expressions *x, int32_t e) {
    if (x->nodes.at[e].guards)
        eg_fail(x->pool->fault, ES_GRAMMAR_UNSUPPORTED, "an excluded expression cannot contain a look-ahead");
}

int32_t eg_make_negation(eg_expressions *x, int32_t e) {
    if (e == EG_EMPTY) return EG_ANYTHING;
    if (e == EG_ANYTHING) return EG_EMPTY;
    check_excluded(x, e);
    return x->nodes.at[e].kind == EG_NOT ? x->nodes.at[e].of : eg_intern(x, EG_NOT, e, 0, 0);
}

/* The intersection of the members on the stack from `base` on, which are popped. */
int32_t eg_make_both(eg_expressions *x, int32_t base) {
    eg_sort_members(x, base);
    int32_t kept = base, out = -1;
    for (int32_t i = base; i < x->scratch.count && out < 0; i++) {
        const int32_t e = x->scratch.at[i];
        const eg_expression n = x->nodes.at[e];
        if (e == EG_EMPTY) out = EG_EMPTY;
        else if (n.guarded && (n.kind == EG_GUARD || n.kind == EG_UNION)) {
            x->scratch.at[i] = EG_ANYTHING;
            const int32_t rest = eg_make_both(x, base);
            return n.kind == EG_GUARD ? eg_make_guard(x, eg_intersection(x, n.of, rest), n.forbidden)
                                      : distribute(x, e, rest, eg_intersection);
        } else if (e != EG_ANYTHING) x->scratch.at[kept++] = e;
    }
    if (out < 0) {
        x->scratch.count = kept;
        eg_work(x->pool->fault, kept - base);
        if (kept == base) out = EG_ANYTHING;
        else if (kept == base + 1) out = x->scratch.at[base];
        else out = eg_intern_list(x, EG_BOTH, x->scratch.at + base, kept - base);
    }
    x->scratch.count = base;
    return out;
}

int32_t eg_intersection(eg_expressions *x, int32_t a, int32_t b) {
    const int32_t base = x->scratch.count;
    eg_push_member(x, EG_BOTH, a);
    eg_push_member(x, EG_BOTH, b);
    return eg_make_both(x, base);
}

enum { MAX_LOOKS = 64 };

/* An expression that is empty only under a look-ahead is written out as often as it must occur: every
 * occurrence is checked. */
static int32_t repeat_look_ahead(eg_expressions *x, int32_t e, int32_t low, int32_t high) {
    if (low > MAX_LOOKS)
        eg_fail(x->pool->fault, ES_GRAMMAR_UNSUPPORTED, "a look-ahead is repeated more than %d times",
                MAX_LOOKS);
    int32_t out = eg_make_repeat(x, e, 0, high < 0 ? -1 : high - low);
    while (low--) out = eg_make_concat(x, e, out);
    return out;
}

int32_t eg_make_repeat(eg_expressions *x, int32_t e, int32_t low, int32_t high) {
    if (x->nodes.at[e].nullable) {
        if (low && x->nodes.at[e].guards) return repeat_look_ahead(x, e, low, high);
        low = 0;
    }
    if (high == 0 || e == EG_EPSILON) return EG_EPSILON;
    if (e == EG_EMPTY) return low ? EG_EMPTY : EG_EPSILON;
    if (low == 1 && high == 1) return e;
    const eg_expression n = x->nodes.at[e];
    if (n.kind == EG_REPEAT && n.low == 0 && n.high < 0)
        return low == 0 && high < 0 ? e : eg_intern(x, EG_REPEAT, e, low, high);
    return eg_intern(x, EG_REPEAT, e, low, high);
}

int32_t eg_make_guard(eg_expressions *x, int32_t e, int32_t forbidden) {
    if (e == EG_EMPTY || x->nodes.at[forbidden].nullable) return EG_EMPTY;
    if (forbidden == EG_EMPTY) return e;
    check_excluded(x, forbidden);
    const eg_expression n = x->nodes.at[e];
    if (n.kind == EG_GUARD) return eg_make_guard(x, n.of, eg_union(x, n.forbidden, forbidden));
    return eg_intern(x, EG_GUARD, e, forbidden, 0);
}

int32_t eg_make_future(eg_expressions *x, int32_t e) {
    const eg_expression n = x->nodes.at[e];
    if (!n.guards) return eg_make_concat(x, e, EG_ANYTHING);
    int32_t out = EG_EMPTY, endings[EG_MAX_ENDINGS];
    if (eg_expression_endings(x, e, endings) && endings[0] == EG_EMPTY) return EG_ANYTHING;
    if (n.kind != EG_UNION) return eg_intern(x, EG_FUTURE, e, 0, 0);
    for (int32_t i = 0; i < n.count; i++) out = eg_union(x, out, eg_make_future(x, eg_member(x, &n, i)));
    return out;
}

int32_t eg_make_whole(eg_expressions *x, int32_t e) {
    return e == EG_EMPTY ? e : eg_intern(x, EG_WHOLE, e, 0, 0);
}

int32_t eg_longest(eg_expressions *x, int32_t e) {
    if (e == EG_EMPTY) return e;
    if (x->nodes.at[e].guards)
        eg_fail(x->pool->fault, ES_GRAMMAR_UNSUPPORTED, "an ignored terminal cannot contain a look-ahead");
    return eg_intern(x, EG_LONGEST, e, 0, 0);
}
