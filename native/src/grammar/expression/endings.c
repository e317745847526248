/* The ways in which an expression can end: each is a guard of what follows. */
#include "grammar/expression/make.h"

/* Add a guard to `count` others; one that allows everything replaces all of them. */
static int add_ending(eg_expressions *x, int32_t *out, int count, int32_t guard) {
    if (guard == EG_EMPTY) return out[0] = guard, 1;
    for (int i = 0; i < count; i++)
        if (out[i] == guard || out[i] == EG_EMPTY) return count;
    if (count == EG_MAX_ENDINGS)
        eg_fail(x->pool->fault, ES_GRAMMAR_LIMIT, "a terminal ends under more than %d look-aheads at once",
                count);
    out[count] = guard;
    return count + 1;
}

/* Combine each ending in `out` with each ending of `e` at the same position. */
static int join_endings(eg_expressions *x, int32_t *out, int count, int32_t e) {
    int32_t more[EG_MAX_ENDINGS], before[EG_MAX_ENDINGS];
    const int other = eg_expression_endings(x, e, more), have = count;
    eg_copy(before, out, (size_t)have * sizeof *before);
    count = 0;
    for (int i = 0; i < have; i++)
        for (int k = 0; k < other; k++) count = add_ending(x, out, count, eg_union(x, before[i], more[k]));
    return count;
}

int eg_expression_endings(eg_expressions *x, int32_t e, int32_t *out) {
    const eg_expression n = x->nodes.at[e];
    if (!n.nullable) return 0;
    out[0] = n.kind == EG_LONGEST ? n.of : EG_EMPTY;
    if (!n.guards || n.kind == EG_LONGEST || n.kind == EG_REPEAT) return 1;
    int count = 1;
    eg_enter(x);
    if (n.kind == EG_GUARD) {
        out[0] = n.forbidden;
        count = join_endings(x, out, count, n.of);
    } else if (n.kind == EG_CONCAT) {
        count = join_endings(x, out, count, n.head);
        count = join_endings(x, out, count, n.tail);
    } else {
        if (n.kind == EG_UNION) count = 0;
        for (int32_t i = 0; i < n.count; i++) {
            const int32_t member = eg_member(x, &n, i);
            if (n.kind == EG_BOTH) {
                count = join_endings(x, out, count, member);
                continue;
            }
            int32_t some[EG_MAX_ENDINGS];
            const int more = eg_expression_endings(x, member, some);
            for (int k = 0; k < more; k++) count = add_ending(x, out, count, some[k]);
        }
    }
    eg_leave(x);
    return count;
}
