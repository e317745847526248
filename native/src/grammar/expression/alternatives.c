/* The alternatives of an expression (Antimirov 1996, "Partial derivatives of regular expressions"). */
#include "grammar/expression/make.h"

enum { FEW_TIMES = 8 };

/* Whether `e` has few repetitions, like a character or a word: unions of these stay together. */
static bool is_plain(eg_expressions *x, int32_t e) {
    const eg_expression n = x->nodes.at[e];
    if (n.kind == REPEAT) return n.c >= 0 && n.c <= FEW_TIMES && is_plain(x, n.a);
    if (n.kind != UNION && n.kind != CONCAT) return n.kind == CLASS || n.kind == LITERAL;
    bool plain = true;
    eg_enter(x);
    if (n.kind == CONCAT) plain = is_plain(x, n.a) && is_plain(x, n.b);
    for (int32_t i = 0; n.kind == UNION && i < n.b && plain; i++) plain = is_plain(x, x->lists.at[n.a + i]);
    x->depth--;
    return plain;
}

bool eg_has_alternatives(eg_expressions *x, int32_t e) {
    const eg_expression n = x->nodes.at[e];
    if (n.guards) return false;
    if (n.kind == CONCAT) return eg_has_alternatives(x, n.a);
    if (n.kind == UNION) return !is_plain(x, e);
    for (int32_t i = 0; n.kind == BOTH && i < n.b; i++)
        if (eg_has_alternatives(x, x->lists.at[n.a + i])) return true;
    return false;
}

/* What surrounds an alternative, and where the result goes. */
typedef struct around {
    int32_t of;    /* the sequence whose first part it is one of, or the intersection ... */
    int32_t place; /* ... and of which member */
    eg_visit *visit;
    void *to;
} around;

static void before_rest(eg_expressions *x, int32_t e, void *around_) {
    const around *a = around_;
    eg_visit_alternatives(x, eg_make_concat(x, e, x->nodes.at[a->of].b), a->visit, a->to);
}

static void within_both(eg_expressions *x, int32_t e, void *around_) {
    const around *a = around_;
    const eg_expression n = x->nodes.at[a->of];
    const int32_t base = x->scratch.count;
    for (int32_t i = 0; i < n.b; i++) eg_push_member(x, BOTH, i == a->place ? e : x->lists.at[n.a + i]);
    eg_visit_alternatives(x, eg_make_both(x, base), a->visit, a->to);
}

void eg_visit_alternatives(eg_expressions *x, int32_t e, eg_visit *visit, void *to) {
    const eg_expression n = x->nodes.at[e];
    if (!eg_has_alternatives(x, e)) {
        if (e != EG_EMPTY) visit(x, e, to);
        return;
    }
    eg_enter(x);
    around a = {e, 0, visit, to};
    if (n.kind == UNION) {
        for (int32_t i = 0; i < n.b; i++) eg_visit_alternatives(x, x->lists.at[n.a + i], visit, to);
    } else if (n.kind == CONCAT) {
        eg_visit_alternatives(x, n.a, before_rest, &a);
    } else {
        while (!eg_has_alternatives(x, x->lists.at[n.a + a.place])) a.place++;
        eg_visit_alternatives(x, x->lists.at[n.a + a.place], within_both, &a);
    }
    x->depth--;
}
