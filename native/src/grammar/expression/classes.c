/* Classes of bytes that an expression does not distinguish: its derivative is computed once for each. */
#include "grammar/expression/kinds.h"
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

void eg_open_classes(eg_expressions *x) {
    eg_classes made = {{0}};
    intern_classes(x, &made); /* EG_ONE_CLASS */
    for (int byte = 0; byte < 256; byte++) made.of[byte] = (uint8_t)byte;
    intern_classes(x, &made); /* EG_ALL_CLASSES */
}

int32_t eg_classes_by_value(eg_expressions *x, const int32_t *values) {
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

int32_t eg_classes_of_set(eg_expressions *x, const eg_bytes *set) {
    int32_t values[256];
    for (int byte = 0; byte < 256; byte++) values[byte] = eg_bytes_has(set, byte);
    return eg_classes_by_value(x, values);
}

int32_t eg_meet_classes(eg_expressions *x, int32_t a, int32_t b) {
    if (a == b || b == EG_ONE_CLASS || a == EG_ALL_CLASSES) return a;
    if (a == EG_ONE_CLASS || b == EG_ALL_CLASSES) return b;
    const uint64_t key = a < b ? eg_pair(a, b) : eg_pair(b, a);
    int32_t out = eg_map_get(&x->class_meets, key, -1);
    if (out >= 0) return out;
    int32_t values[256];
    const uint8_t *one = x->classes.at[a].of, *other = x->classes.at[b].of;
    for (int byte = 0; byte < 256; byte++) values[byte] = one[byte] << 8 | other[byte];
    out = eg_classes_by_value(x, values);
    eg_map_put(x->pool, &x->class_meets, key, out);
    return out;
}

int32_t eg_classes_of_members(eg_expressions *x, const eg_expression *n) {
    int32_t out = n->count > MOST_MEMBERS ? EG_ALL_CLASSES : EG_ONE_CLASS;
    for (int32_t i = 0; i < n->count && out != EG_ALL_CLASSES; i++)
        out = eg_meet_classes(x, out, eg_classes_of(x, eg_member(x, n, i)));
    return out;
}

int32_t eg_classes_of(eg_expressions *x, int32_t e) {
    if (x->nodes.at[e].classes >= 0) return x->nodes.at[e].classes;
    const eg_expression n = x->nodes.at[e];
    const eg_kind *kind = &eg_kinds[n.kind];
    eg_enter(x);
    const int32_t out = kind->classes ? kind->classes(x, &n) : EG_ALL_CLASSES;
    eg_leave(x);
    return x->nodes.at[e].classes = out;
}
