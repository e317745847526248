/* The alternatives of an expression (Antimirov 1996, "Partial derivatives of regular expressions"). */
#include "grammar/expression/make.h"

enum { FEW_TIMES = 8 };

/* Whether `e` has few repetitions, like a character or a word: unions of these stay together. */
static bool is_plain(eg_expressions *x, int32_t e) {
    const eg_expression n = x->nodes.at[e];
    if (n.kind == EG_REPEAT) return n.high >= 0 && n.high <= FEW_TIMES && is_plain(x, n.of);
    if (n.kind != EG_UNION && n.kind != EG_CONCAT) return n.kind == EG_CLASS || n.kind == EG_LITERAL;
    bool plain = true;
    eg_enter(x);
    if (n.kind == EG_CONCAT) plain = is_plain(x, n.head) && is_plain(x, n.tail);
    for (int32_t i = 0; n.kind == EG_UNION && i < n.count && plain; i++)
        plain = is_plain(x, eg_member(x, &n, i));
    eg_leave(x);
    return plain;
}

bool eg_has_alternatives(eg_expressions *x, int32_t e) {
    const eg_expression n = x->nodes.at[e];
    if (n.guards) return false;
    if (n.kind == EG_CONCAT) return eg_has_alternatives(x, n.head);
    if (n.kind == EG_UNION) return !is_plain(x, e);
    for (int32_t i = 0; n.kind == EG_BOTH && i < n.count; i++)
        if (eg_has_alternatives(x, eg_member(x, &n, i))) return true;
    return false;
}

/* What surrounds an alternative, and where the result goes. */
typedef struct surroundings {
    int32_t of;    /* the sequence whose first part it is one of, or the intersection ... */
    int32_t place; /* ... and of which member */
    eg_visit *visit;
    void *to;
} surroundings;

static void put_before_rest(eg_expressions *x, int32_t e, void *surroundings_) {
    const surroundings *a = surroundings_;
    eg_visit_alternatives(x, eg_make_concat(x, e, x->nodes.at[a->of].tail), a->visit, a->to);
}

static void put_among_members(eg_expressions *x, int32_t e, void *surroundings_) {
    const surroundings *a = surroundings_;
    const eg_expression n = x->nodes.at[a->of];
    const int32_t base = x->scratch.count;
    for (int32_t i = 0; i < n.count; i++) eg_push_member(x, EG_BOTH, i == a->place ? e : eg_member(x, &n, i));
    eg_visit_alternatives(x, eg_make_both(x, base), a->visit, a->to);
}

void eg_visit_alternatives(eg_expressions *x, int32_t e, eg_visit *visit, void *to) {
    const eg_expression n = x->nodes.at[e];
    if (!eg_has_alternatives(x, e)) {
        if (e != EG_EMPTY) visit(x, e, to);
        return;
    }
    eg_enter(x);
    surroundings a = {e, 0, visit, to};
    if (n.kind == EG_UNION) {
        for (int32_t i = 0; i < n.count; i++) eg_visit_alternatives(x, eg_member(x, &n, i), visit, to);
    } else if (n.kind == EG_CONCAT) {
        eg_visit_alternatives(x, n.head, put_before_rest, &a);
    } else {
        while (!eg_has_alternatives(x, eg_member(x, &n, a.place))) a.place++;
        eg_visit_alternatives(x, eg_member(x, &n, a.place), put_among_members, &a);
    }
    eg_leave(x);
}
