/* Classes of bytes that an expression does not distinguish: its derivative is computed once for each. */
#include "grammar/expression/make.h"

enum { MOST_MEMBERS = 128 }; /* longer lists tell all bytes apart */

static int32_t intern_classes(eg_expressions *x, const eg_classes *made) {
    uint64_t hash = 11, part;
    for (size_t i = 0; i < sizeof made->of; i += sizeof part) {
        memcpy(&part, made->of + i, sizeof part);
        hash = eg_mix(hash ^ part);
    }
    int32_t id;
    for (eg_probe p = eg_probe_at(&x->classes_by_content, hash); (id = eg_probe_next(&p)) >= 0;)
        if (!memcmp(&x->classes.at[id], made, sizeof *made)) return id;
    EG_PUSH(x->pool, x->classes, *made);
    id = x->classes.count - 1;
    eg_set_add(x->pool, &x->classes_by_content, hash, id);
    return id;
}

void eg_make_first_classes(eg_expressions *x) {
    eg_classes made = {{0}};
    intern_classes(x, &made); /* EG_ONE_CLASS */
    for (int byte = 0; byte < 256; byte++) made.of[byte] = (uint8_t)byte;
    intern_classes(x, &made); /* EG_ALL_CLASSES */
}

/* The classes of bytes that are equal in `values`. */
static int32_t classes_by_value(eg_expressions *x, const int32_t *values) {
    eg_classes made;
    int kinds[256], count = 0;
    for (int byte = 0; byte < 256; byte++) {
        int k = 0;
        while (k < count && values[kinds[k]] != values[byte]) k++;
        if (k == count) kinds[count++] = byte;
        made.of[byte] = (uint8_t)kinds[k];
    }
    eg_work(x->pool->fault, 16 + 8 * count);
    return intern_classes(x, &made);
}

/* The bytes of `set`, and all others. */
static int32_t classes_of_set(eg_expressions *x, const eg_bytes *set) {
    int32_t values[256];
    for (int byte = 0; byte < 256; byte++) values[byte] = eg_bytes_has(set, byte);
    return classes_by_value(x, values);
}

/* The classes that refine both `a` and `b`. */
static int32_t meet_classes(eg_expressions *x, int32_t a, int32_t b) {
    if (a == b || b == EG_ONE_CLASS || a == EG_ALL_CLASSES) return a;
    if (a == EG_ONE_CLASS || b == EG_ALL_CLASSES) return b;
    const uint64_t key = a < b ? eg_pair(a, b) : eg_pair(b, a);
    int32_t out = eg_map_get(&x->class_meets, key, -1);
    if (out >= 0) return out;
    int32_t values[256];
    const uint8_t *one = x->classes.at[a].of, *other = x->classes.at[b].of;
    for (int byte = 0; byte < 256; byte++) values[byte] = one[byte] << 8 | other[byte];
    out = classes_by_value(x, values);
    eg_map_put(x->pool, &x->class_meets, key, out);
    return out;
}

static int32_t classes_of_list(eg_expressions *x, const eg_expression *n) {
    int32_t out = n->b > MOST_MEMBERS ? EG_ALL_CLASSES : EG_ONE_CLASS;
    for (int32_t i = 0; i < n->b && out != EG_ALL_CLASSES; i++)
        out = meet_classes(x, out, eg_make_classes(x, x->lists.at[n->a + i]));
    return out;
}

int32_t eg_make_classes(eg_expressions *x, int32_t e) {
    if (x->nodes.at[e].classes >= 0) return x->nodes.at[e].classes;
    const eg_expression n = x->nodes.at[e];
    int32_t out = EG_ALL_CLASSES;
    eg_enter(x);
    switch (n.kind) {
    case LITERAL:
    case CLASS: out = classes_of_set(x, eg_first(x, e)); break;
    case CONCAT:
        out = eg_make_classes(x, n.a);
        if (x->nodes.at[n.a].nullable) out = meet_classes(x, out, eg_make_classes(x, n.b));
        break;
    case GUARD: out = meet_classes(x, eg_make_classes(x, n.a), eg_make_classes(x, n.b)); break;
    case UNION:
    case BOTH: out = classes_of_list(x, &n); break;
    case NOT:
    case REPEAT:
    case LONGEST:
    case WHOLE: out = eg_make_classes(x, n.a); break;
    case AUTOMATON: out = classes_by_value(x, x->automata.at[n.a].steps + (int64_t)n.b * 256); break;
    default: break;
    }
    x->depth--;
    return x->nodes.at[e].classes = out;
}
