/* Derivatives, and how they are remembered. */
#include "grammar/expression/kinds.h"
#include "grammar/expression/make.h"

int32_t eg_derive_once(eg_expressions *x, int32_t e, int byte) {
    const uint64_t key = eg_pair(e, byte);
    int32_t next = eg_map_get(&x->derived, key, -1);
    if (next >= 0) return next;
    next = eg_derive(x, e, byte);
    eg_map_put(x->pool, &x->derived, key, next);
    return next;
}

int32_t eg_derive_by_class(eg_expressions *x, int32_t e, int byte) {
    const int32_t classes = eg_classes_of(x, e);
    return eg_derive_once(x, e, x->classes.at[classes].of[byte]);
}

int32_t eg_derive(eg_expressions *x, int32_t e, int byte) {
    const eg_expression n = x->nodes.at[e];
    if (!eg_bytes_has(&x->sets.at[n.first], byte)) return EG_EMPTY;
    eg_enter(x);
    const int32_t out = eg_kinds[n.kind].derive(x, &n, byte);
    eg_leave(x);
    return out;
}

/* Whether `n` is a literal, or begins with one of several parts: it has one derivative, quickly computed. */
static bool is_long_literal(const eg_expressions *x, const eg_expression *n) {
    if (n->kind != EG_CONCAT) return n->kind == EG_LITERAL;
    const eg_expression *rest = &x->nodes.at[n->tail];
    if (rest->kind == EG_CONCAT) rest = &x->nodes.at[rest->head];
    return x->nodes.at[n->head].kind == EG_LITERAL && rest->kind == EG_LITERAL;
}

/* Remember that `next` follows `e` after `byte`, and after every byte that `e` does not distinguish from it
 * if derivatives of `e` take long. */
static void keep_step(eg_expressions *x, int32_t e, int byte, int32_t next) {
    const int32_t classes = x->nodes.at[e].logical ? eg_classes_of(x, e) : EG_ALL_CLASSES;
    if (!x->nodes.at[e].steps) {
        int32_t *steps = eg_take(x->pool, 256 * sizeof *steps);
        eg_work(x->pool->fault, 64);
        for (int i = 0; i < 256; i++) steps[i] = eg_bytes_has(eg_first(x, e), i) ? -1 : EG_EMPTY;
        x->nodes.at[e].steps = steps;
    }
    int32_t *steps = x->nodes.at[e].steps;
    const uint8_t *of = x->classes.at[classes].of;
    if (classes == EG_ALL_CLASSES) steps[byte] = next;
    else
        for (int i = 0; i < 256; i++) steps[i] = steps[i] < 0 && of[i] == of[byte] ? next : steps[i];
    x->known_steps++;
}

int32_t eg_expression_step(eg_expressions *x, int32_t e, int byte) {
    int32_t next = eg_derive(x, e, byte);
    if (x->nodes.at[next].logical && eg_expression_is_empty(x, next)) next = EG_EMPTY;
    if (!is_long_literal(x, &x->nodes.at[e])) keep_step(x, e, byte, next);
    return next;
}
