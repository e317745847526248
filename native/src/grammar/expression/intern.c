/* Nodes by content: equal nodes are one, and so are equal sets of bytes. */
#include "grammar/expression/kinds.h"
#include "grammar/expression/make.h"

int32_t eg_intern_set(eg_expressions *x, const eg_bytes *set) {
    uint64_t hash = 7;
    for (int i = 0; i < 4; i++) hash = eg_mix(hash ^ set->words[i]);
    int32_t id;
    for (eg_probe p = eg_probe_at(&x->sets_by_content, hash); (id = eg_probe_next(&p)) >= 0;)
        if (!memcmp(&x->sets.at[id], set, sizeof *set)) return id;
    EG_PUSH(x->pool, x->sets, *set);
    id = x->sets.count - 1;
    eg_set_add(x->pool, &x->sets_by_content, hash, id);
    return id;
}

/* A node of which nothing but its operands is known. */
eg_expression eg_blank_node(eg_kind_number kind, int32_t a, int32_t b, int32_t c) {
    eg_expression out = {.kind = (uint8_t)kind, .operands = {a, b, c}, .unchanged = UINT64_MAX};
    out.bounded = out.looser = out.classes = out.reach = out.steady = -1;
    return out;
}

static bool same_node(const eg_expression *n, eg_kind_number kind, int32_t a, int32_t b, int32_t c) {
    return n->kind == kind && n->operands[0] == a && n->operands[1] == b && n->operands[2] == c;
}

static int32_t add_node(eg_expressions *x, uint64_t hash, eg_kind_number kind, int32_t a, int32_t b,
                        int32_t c) {
    eg_expression node = eg_blank_node(kind, a, b, c);
    eg_work(x->pool->fault, eg_kinds[kind].shape == EG_OF_MEMBERS ? 8 + b : 8);
    eg_describe(x, &node);
    EG_PUSH(x->pool, x->nodes, node);
    eg_set_add(x->pool, &x->by_content, hash, x->nodes.count - 1);
    return x->nodes.count - 1;
}

int32_t eg_intern(eg_expressions *x, eg_kind_number kind, int32_t a, int32_t b, int32_t c) {
    const int32_t key[4] = {(int32_t)kind, a, b, c};
    const uint64_t hash = eg_hash_ints(key, 4, 1);
    int32_t id;
    for (eg_probe p = eg_probe_at(&x->by_content, hash); (id = eg_probe_next(&p)) >= 0;)
        if (same_node(&x->nodes.at[id], kind, a, b, c)) return id;
    return add_node(x, hash, kind, a, b, c);
}

int32_t eg_intern_list(eg_expressions *x, eg_kind_number kind, const int32_t *members, int32_t count) {
    const uint64_t hash = eg_hash_ints(members, count, (uint64_t)kind << 32);
    int32_t id;
    for (eg_probe p = eg_probe_at(&x->by_content, hash); (id = eg_probe_next(&p)) >= 0;) {
        const eg_expression *n = &x->nodes.at[id];
        if (n->kind == kind && n->count == count &&
            eg_same(x->lists.at + n->members, members, (size_t)count * sizeof *members))
            return id;
    }
    const int32_t at = x->lists.count;
    EG_APPEND(x->pool, x->lists, members, count);
    return add_node(x, hash, kind, at, count, 0);
}

int32_t eg_make_byte(eg_expressions *x, int byte) {
    eg_bytes set = {{0}};
    eg_bytes_add(&set, byte);
    return eg_intern(x, EG_CLASS, eg_intern_set(x, &set), 0, 0);
}

int32_t eg_make_literal(eg_expressions *x, int32_t at, int32_t length) {
    if (length == 0) return EG_EPSILON;
    if (length == 1) return eg_make_byte(x, x->text.at[at]);
    uint64_t hash = 3;
    eg_work(x->pool->fault, length / 8);
    for (int32_t i = 0; i < length; i++) hash = (hash ^ x->text.at[at + i]) * 0x100000001b3u;
    hash = eg_mix(hash);
    int32_t id;
    for (eg_probe p = eg_probe_at(&x->literals_by_content, hash); (id = eg_probe_next(&p)) >= 0;) {
        const eg_expression *n = &x->nodes.at[id];
        if (n->length == length && !memcmp(x->text.at + n->text, x->text.at + at, (size_t)length)) return id;
    }
    id = eg_intern(x, EG_LITERAL, at, length, 0);
    eg_set_add(x->pool, &x->literals_by_content, hash, id);
    return id;
}

static int compare_ids(const void *a, const void *b) {
    const int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

void eg_sort_members(eg_expressions *x, int32_t base) {
    int32_t *m = x->scratch.at + base, count = x->scratch.count - base, kept = 0;
    int32_t sorted = 1;
    while (sorted < count && m[sorted - 1] < m[sorted]) sorted++;
    eg_work(x->pool->fault, sorted < count ? eg_sorting(count) : count);
    if (sorted < count) eg_sort(m, count, sizeof *m, compare_ids);
    for (int32_t i = 0; i < count; i++)
        if (!i || m[i] != m[i - 1]) m[kept++] = m[i];
    x->scratch.count = base + kept;
}

void eg_push_member(eg_expressions *x, eg_kind_number kind, int32_t e) {
    const eg_expression n = x->nodes.at[e];
    if (n.kind != kind) {
        EG_PUSH(x->pool, x->scratch, e);
        return;
    }
    eg_work(x->pool->fault, n.count / 8);
    EG_APPEND(x->pool, x->scratch, x->lists.at + n.members, n.count);
}
