/* Searches through derivatives, and what is a code. */
#include "grammar/expression/search.h"

int32_t eg_most_states(int vain) {
    const int32_t most = EG_MOST_STATES >> vain;
    return most > EG_LEAST_STATES ? most : EG_LEAST_STATES;
}

void eg_count_vain(int *vain, bool success) {
    if (!success && EG_MOST_STATES >> *vain > EG_LEAST_STATES) ++*vain;
    else if (success && *vain) --*vain;
}

int32_t eg_visited_place(const eg_expressions *x, int32_t base, int32_t e) {
    const int32_t at = x->nodes.at[e].visit;
    return at >= base && at < x->visited.count && x->visited.at[at].expression == e ? at : -1;
}

void eg_add_visited(eg_expressions *x, int32_t e, int32_t from) {
    x->nodes.at[e].visit = x->visited.count;
    EG_PUSH(x->pool, x->visited, (eg_visited){.expression = e, .from = from, .end = EG_FAR, .loop = EG_FAR});
}

void eg_visit_derivatives(eg_expressions *x, int32_t e, eg_visit *visit, void *to) {
    const int32_t number = eg_classes_of(x, e);
    const eg_classes classes = x->classes.at[number];
    const eg_bytes first = *eg_first(x, e);
    eg_work(x->pool->fault, 16);
    for (int byte = 0; byte < 256; byte++) {
        if (classes.of[byte] != byte || !eg_bytes_has(&first, byte)) continue;
        const int32_t next = eg_derive_by_class(x, e, byte);
        eg_work(x->pool->fault, 4);
        if (next != EG_EMPTY) visit(x, next, to);
    }
}

/* --- codes --- */

enum { NOT_KNOWN, YES, NO };

static void add_unvisited(eg_expressions *x, int32_t next, void *base) {
    if (next != EG_EPSILON && eg_visited_place(x, *(int32_t *)base, next) < 0) eg_add_visited(x, next, -1);
}

bool eg_is_code(eg_expressions *x, int32_t e) {
    if (x->nodes.at[e].code) return x->nodes.at[e].code == YES;
    int32_t base = x->visited.count;
    eg_add_visited(x, e, -1);
    bool code = true;
    for (int32_t i = base; i < x->visited.count && code; i++) {
        code = !x->nodes.at[x->visited.at[i].expression].nullable && i - base < EG_MOST_STATES;
        if (code) eg_visit_derivatives(x, x->visited.at[i].expression, add_unvisited, &base);
    }
    if (!code) x->nodes.at[e].code = NO;
    for (int32_t i = base; i < x->visited.count && code; i++)
        x->nodes.at[x->visited.at[i].expression].code = YES;
    x->visited.count = base;
    return code;
}
