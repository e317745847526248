/* Construction and derivatives of expressions. */
#include "grammar/expression/make.h"

void eg_enter(eg_expressions *x) {
    eg_work(x->pool->fault, 4);
    if (++x->depth > MAX_DEPTH)
        eg_fail(x->pool->fault, ES_GRAMMAR_LIMIT, "an expression is nested more than %d deep", MAX_DEPTH);
}

/* --- interning byte sets and nodes --- */

int32_t eg_make_intern_set(eg_expressions *x, const eg_bytes *set) {
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

static bool same_node(const eg_expression *n, int kind, int32_t a, int32_t b, int32_t c) {
    return n->kind == kind && n->a == a && n->b == b && n->c == c;
}

static void describe(eg_expressions *x, eg_expression *n);

/* A node of which nothing but its operands is known. */
static eg_expression unknown(int kind, int32_t a, int32_t b, int32_t c) {
    eg_expression out = {.kind = (uint8_t)kind, .a = a, .b = b, .c = c, .idle = UINT64_MAX};
    out.bounded = out.loose = out.classes = out.reach = out.steady = -1;
    return out;
}

static int32_t add_node(eg_expressions *x, uint64_t hash, int kind, int32_t a, int32_t b, int32_t c) {
    eg_expression node = unknown(kind, a, b, c);
    eg_work(x->pool->fault, kind == UNION || kind == BOTH ? 8 + b : 8);
    describe(x, &node);
    EG_PUSH(x->pool, x->nodes, node);
    eg_set_add(x->pool, &x->by_content, hash, x->nodes.count - 1);
    return x->nodes.count - 1;
}

int32_t eg_make_intern(eg_expressions *x, int kind, int32_t a, int32_t b, int32_t c) {
    const int32_t key[4] = {kind, a, b, c};
    const uint64_t hash = eg_hash_ints(key, 4, 1);
    int32_t id;
    for (eg_probe p = eg_probe_at(&x->by_content, hash); (id = eg_probe_next(&p)) >= 0;)
        if (same_node(&x->nodes.at[id], kind, a, b, c)) return id;
    return add_node(x, hash, kind, a, b, c);
}

int32_t eg_make_intern_list(eg_expressions *x, int kind, const int32_t *members, int32_t count) {
    const uint64_t hash = eg_hash_ints(members, count, (uint64_t)kind << 32);
    int32_t id;
    for (eg_probe p = eg_probe_at(&x->by_content, hash); (id = eg_probe_next(&p)) >= 0;) {
        const eg_expression *n = &x->nodes.at[id];
        if (n->kind == kind && n->b == count &&
            eg_same(x->lists.at + n->a, members, (size_t)count * sizeof *members))
            return id;
    }
    EG_RESERVE(x->pool, x->lists, count);
    const int32_t at = x->lists.count;
    eg_copy(x->lists.at + at, members, (size_t)count * sizeof *members);
    x->lists.count += count;
    return add_node(x, hash, kind, at, count, 0);
}

int32_t eg_make_single(eg_expressions *x, int byte) {
    eg_bytes set = {{0}};
    set.words[byte >> 6] |= (uint64_t)1 << (byte & 63);
    return eg_make_intern(x, CLASS, eg_make_intern_set(x, &set), 0, 0);
}

/* The literal of `length` bytes at `at` in `text`. */
int32_t eg_make_literal(eg_expressions *x, int32_t at, int32_t length) {
    if (length == 0) return EG_EPSILON;
    if (length == 1) return eg_make_single(x, x->text.at[at]);
    uint64_t hash = 3;
    eg_work(x->pool->fault, length / 8);
    for (int32_t i = 0; i < length; i++) hash = (hash ^ x->text.at[at + i]) * 0x100000001b3u;
    hash = eg_mix(hash);
    int32_t id;
    for (eg_probe p = eg_probe_at(&x->literals_by_content, hash); (id = eg_probe_next(&p)) >= 0;) {
        const eg_expression *n = &x->nodes.at[id];
        if (n->b == length && !memcmp(x->text.at + n->a, x->text.at + at, (size_t)length)) return id;
    }
    id = eg_make_intern(x, LITERAL, at, length, 0);
    eg_set_add(x->pool, &x->literals_by_content, hash, id);
    return id;
}

/* --- properties of a new node --- */

static void first_of(eg_expressions *x, const eg_expression *n, eg_bytes *out) {
    const eg_expression *nodes = x->nodes.at;
    memset(out, 0, sizeof *out);
    switch (n->kind) {
    case LITERAL:
        if (n->b) out->words[x->text.at[n->a] >> 6] |= (uint64_t)1 << (x->text.at[n->a] & 63);
        break;
    case CLASS: *out = x->sets.at[n->a]; break;
    case CONCAT:
        *out = x->sets.at[nodes[n->a].first];
        if (nodes[n->a].nullable) eg_bytes_unite(out, &x->sets.at[nodes[n->b].first]);
        break;
    case UNION:
        for (int32_t i = 0; i < n->b; i++)
            eg_bytes_unite(out, &x->sets.at[nodes[x->lists.at[n->a + i]].first]);
        break;
    case BOTH:
        memset(out, 0xff, sizeof *out);
        for (int32_t i = 0; i < n->b; i++)
            for (int w = 0; w < 4; w++)
                out->words[w] &= x->sets.at[nodes[x->lists.at[n->a + i]].first].words[w];
        break;
    case NOT: memset(out, 0xff, sizeof *out); break;
    case REPEAT:
    case GUARD:
    case LONGEST: *out = x->sets.at[nodes[n->a].first]; break;
    case LEXER:
        for (int32_t i = 0; i < n->b; i += 2)
            if (x->lists.at[n->a + i] != EG_TAKEN)
                eg_bytes_unite(out, &x->sets.at[nodes[x->lists.at[n->a + i + 1]].first]);
        break;
    case LEXED: break;
    case WHOLE: *out = x->sets.at[nodes[n->a].first]; break;
    case FUTURE:
        if (nodes[n->a].nullable) memset(out, 0xff, sizeof *out);
        else *out = x->sets.at[nodes[n->a].first];
        break;
    default: {
        const int32_t *steps = x->automata.at[n->a].steps + (int64_t)n->b * 256;
        for (int byte = 0; byte < 256; byte++)
            if (steps[byte] >= 0) out->words[byte >> 6] |= (uint64_t)1 << (byte & 63);
    }
    }
}

static bool is_nullable(const eg_expressions *x, const eg_expression *n) {
    const eg_expression *nodes = x->nodes.at;
    switch (n->kind) {
    case LITERAL: return n->b == 0;
    case CLASS: return false;
    case CONCAT: return nodes[n->a].nullable && nodes[n->b].nullable;
    case UNION:
        for (int32_t i = 0; i < n->b; i++)
            if (nodes[x->lists.at[n->a + i]].nullable) return true;
        return false;
    case BOTH:
        for (int32_t i = 0; i < n->b; i++)
            if (!nodes[x->lists.at[n->a + i]].nullable) return false;
        return true;
    case NOT: return !nodes[n->a].nullable;
    case REPEAT: return n->b == 0 || nodes[n->a].nullable;
    case GUARD:
    case LONGEST:
    case FUTURE: return nodes[n->a].nullable;
    case LEXER:
    case LEXED:
        for (int32_t i = 0; i < n->b; i += 2)
            if (eg_is_own(x->lists.at[n->a + i]) && nodes[x->lists.at[n->a + i + 1]].nullable) return true;
        return false;
    case WHOLE: return n->a == EG_ANYTHING;
    default: return x->automata.at[n->a].accepts[n->b];
    }
}

static int count_bytes(const eg_bytes *set) {
    int count = 0;
    for (int i = 0; i < 4; i++)
        for (uint64_t rest = set->words[i]; rest; rest &= rest - 1) count++;
    return count;
}

static bool is_wide(const eg_expressions *x, const eg_expression *n, const eg_bytes *first) {
    const eg_expression *nodes = x->nodes.at;
    switch (n->kind) {
    case LITERAL: return false;
    case CLASS: return count_bytes(first) > WIDE_CLASS;
    case CONCAT: return nodes[n->a].wide || (nodes[n->a].nullable && nodes[n->b].wide);
    case REPEAT:
        return n->c == 1 ? nodes[n->a].wide : count_bytes(&x->sets.at[nodes[n->a].first]) > WIDE_LOOP;
    case GUARD:
    case LONGEST: return nodes[n->a].wide;
    case LEXER:
    case LEXED: return true;
    case UNION:
        for (int32_t i = 0; i < n->b; i++)
            if (nodes[x->lists.at[n->a + i]].wide) return true;
        return false;
    default: return count_bytes(first) > WIDE_LOOP;
    }
}

static void describe(eg_expressions *x, eg_expression *n) {
    eg_bytes first;
    first_of(x, n, &first);
    n->first = eg_make_intern_set(x, &first);
    n->over = !(first.words[0] | first.words[1] | first.words[2] | first.words[3]);
    n->nullable = is_nullable(x, n);
    n->wide = is_wide(x, n, &first);
    n->logical = n->kind == BOTH || n->kind == NOT || n->kind == GUARD;
    n->guarded = n->guards = n->kind == GUARD || n->kind == LONGEST || n->kind == LEXER || n->kind == LEXED;
    const int32_t pair[2] = {n->a, n->b};
    const int32_t *children = pair;
    int32_t count = 0;
    if (n->kind == UNION || n->kind == BOTH) children = x->lists.at + n->a, count = n->b;
    else if (n->kind == CONCAT || n->kind == GUARD) count = 2;
    else if (n->kind == NOT || n->kind == REPEAT || n->kind == LONGEST || n->kind == FUTURE) count = 1;
    for (int32_t i = 0; i < count; i++) {
        const eg_expression *child = &x->nodes.at[children[i]];
        n->logical |= child->logical;
        n->guards |= child->guards && n->kind != FUTURE;
        n->guarded |= n->kind == UNION && child->guarded;
    }
}

/* --- construction --- */

static int compare_ids(const void *a, const void *b) {
    const int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

void eg_make_sort_members(eg_expressions *x, int32_t base) {
    int32_t *m = x->scratch.at + base, count = x->scratch.count - base, kept = 0;
    int32_t sorted = 1;
    while (sorted < count && m[sorted - 1] < m[sorted]) sorted++;
    eg_work(x->pool->fault, sorted < count ? eg_sorting(count) : count);
    if (sorted < count) eg_sort(m, count, sizeof *m, compare_ids);
    for (int32_t i = 0; i < count; i++)
        if (!i || m[i] != m[i - 1]) m[kept++] = m[i];
    x->scratch.count = base + kept;
}

void eg_push_member(eg_expressions *x, int kind, int32_t e) {
    const eg_expression n = x->nodes.at[e];
    if (n.kind != kind) {
        EG_PUSH(x->pool, x->scratch, e);
        return;
    }
    eg_work(x->pool->fault, n.b / 8);
    EG_RESERVE(x->pool, x->scratch, n.b);
    eg_copy(x->scratch.at + x->scratch.count, x->lists.at + n.a, (size_t)n.b * sizeof(int32_t));
    x->scratch.count += n.b;
}

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
        } else if (n->kind == CLASS) {
            eg_bytes_unite(&all, &x->sets.at[n->a]);
            classes++;
        } else {
            nullable |= n->nullable && !n->guarded;
            x->scratch.at[kept++] = e;
        }
    }
    x->scratch.count = kept;
    if (classes) EG_PUSH(x->pool, x->scratch, eg_make_intern(x, CLASS, eg_make_intern_set(x, &all), 0, 0));
    if (epsilon && !nullable) EG_PUSH(x->pool, x->scratch, EG_EPSILON);
    eg_make_sort_members(x, base);
    eg_make_merge_counts(x, base);
}

/* The union of the members on the stack from `base` on, which are popped. */
int32_t eg_make_union(eg_expressions *x, int32_t base) {
    eg_make_sort_members(x, base);
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
    else out = eg_make_intern_list(x, UNION, x->scratch.at + base, x->scratch.count - base);
    x->scratch.count = base;
    return out;
}

int32_t eg_union(eg_expressions *x, int32_t a, int32_t b) {
    if (a == b || b == EG_EMPTY) return a;
    if (a == EG_EMPTY) return b;
    const int32_t base = x->scratch.count;
    eg_push_member(x, UNION, a);
    eg_push_member(x, UNION, b);
    return eg_make_union(x, base);
}

/* The union of make(member, other) over the members of `e`, a union of guarded members. */
static int32_t distribute(eg_expressions *x, int32_t e, int32_t other,
                          int32_t (*make)(eg_expressions *, int32_t, int32_t)) {
    const eg_expression n = x->nodes.at[e];
    int32_t out = EG_EMPTY;
    for (int32_t i = 0; i < n.b; i++) out = eg_union(x, out, make(x, x->lists.at[n.a + i], other));
    return out;
}

int32_t eg_make_concat(eg_expressions *x, int32_t a, int32_t b) {
    if (a == EG_EMPTY || b == EG_EMPTY) return EG_EMPTY;
    if (a == EG_EPSILON) return b;
    if (b == EG_EPSILON) return a;
    const eg_expression n = x->nodes.at[a];
    int32_t out;
    eg_enter(x);
    if (n.kind == CONCAT) out = eg_make_concat(x, n.a, eg_make_concat(x, n.b, b));
    else if (n.kind == GUARD) out = eg_make_guard(x, eg_make_concat(x, n.a, b), n.b);
    else if (n.guarded && n.kind == UNION) out = distribute(x, a, b, eg_make_concat);
    else if (a == EG_ANYTHING && x->nodes.at[b].kind == CONCAT && x->nodes.at[b].a == EG_ANYTHING) out = b;
    else if (b == EG_ANYTHING && n.nullable && !n.guards) out = b;
    else out = eg_make_intern(x, CONCAT, a, b, 0);
    x->depth--;
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
    return x->nodes.at[e].kind == NOT ? x->nodes.at[e].a : eg_make_intern(x, NOT, e, 0, 0);
}

/* The intersection of the members on the stack from `base` on, which are popped. */
int32_t eg_make_both(eg_expressions *x, int32_t base) {
    eg_make_sort_members(x, base);
    int32_t kept = base, out = -1;
    for (int32_t i = base; i < x->scratch.count && out < 0; i++) {
        const int32_t e = x->scratch.at[i];
        const eg_expression n = x->nodes.at[e];
        if (e == EG_EMPTY) out = EG_EMPTY;
        else if (n.guarded && (n.kind == GUARD || n.kind == UNION)) {
            x->scratch.at[i] = EG_ANYTHING;
            const int32_t rest = eg_make_both(x, base);
            return n.kind == GUARD ? eg_make_guard(x, eg_intersection(x, n.a, rest), n.b)
                                   : distribute(x, e, rest, eg_intersection);
        } else if (e != EG_ANYTHING) x->scratch.at[kept++] = e;
    }
    if (out < 0) {
        x->scratch.count = kept;
        eg_work(x->pool->fault, kept - base);
        if (kept == base) out = EG_ANYTHING;
        else if (kept == base + 1) out = x->scratch.at[base];
        else out = eg_make_intern_list(x, BOTH, x->scratch.at + base, kept - base);
    }
    x->scratch.count = base;
    return out;
}

int32_t eg_intersection(eg_expressions *x, int32_t a, int32_t b) {
    const int32_t base = x->scratch.count;
    eg_push_member(x, BOTH, a);
    eg_push_member(x, BOTH, b);
    return eg_make_both(x, base);
}

/* An expression that is empty only under a look-ahead is written out as often as it must occur: every
 * occurrence is checked. */
static int32_t repeat_looks(eg_expressions *x, int32_t e, int32_t low, int32_t high) {
    if (low > MAX_LOOKS)
        eg_fail(x->pool->fault, ES_GRAMMAR_UNSUPPORTED, "a look-ahead is repeated more than %d times",
                MAX_LOOKS);
    int32_t out = eg_make_repeat(x, e, 0, high < 0 ? -1 : high - low);
    while (low--) out = eg_make_concat(x, e, out);
    return out;
}

int32_t eg_make_repeat(eg_expressions *x, int32_t e, int32_t low, int32_t high) {
    if (x->nodes.at[e].nullable) {
        if (low && x->nodes.at[e].guards) return repeat_looks(x, e, low, high);
        low = 0;
    }
    if (high == 0 || e == EG_EPSILON) return EG_EPSILON;
    if (e == EG_EMPTY) return low ? EG_EMPTY : EG_EPSILON;
    if (low == 1 && high == 1) return e;
    const eg_expression n = x->nodes.at[e];
    if (n.kind == REPEAT && n.b == 0 && n.c < 0)
        return low == 0 && high < 0 ? e : eg_make_intern(x, REPEAT, e, low, high);
    return eg_make_intern(x, REPEAT, e, low, high);
}

int32_t eg_make_guard(eg_expressions *x, int32_t e, int32_t forbidden) {
    if (e == EG_EMPTY || x->nodes.at[forbidden].nullable) return EG_EMPTY;
    if (forbidden == EG_EMPTY) return e;
    check_excluded(x, forbidden);
    const eg_expression n = x->nodes.at[e];
    if (n.kind == GUARD) return eg_make_guard(x, n.a, eg_union(x, n.b, forbidden));
    return eg_make_intern(x, GUARD, e, forbidden, 0);
}

int32_t eg_make_future(eg_expressions *x, int32_t e) {
    const eg_expression n = x->nodes.at[e];
    if (!n.guards) return eg_make_concat(x, e, EG_ANYTHING);
    int32_t out = EG_EMPTY, endings[EG_MAX_ENDINGS];
    if (eg_expression_endings(x, e, endings) && endings[0] == EG_EMPTY) return EG_ANYTHING;
    if (n.kind != UNION) return eg_make_intern(x, FUTURE, e, 0, 0);
    for (int32_t i = 0; i < n.b; i++) out = eg_union(x, out, eg_make_future(x, x->lists.at[n.a + i]));
    return out;
}

int32_t eg_make_whole(eg_expressions *x, int32_t e) {
    return e == EG_EMPTY ? e : eg_make_intern(x, WHOLE, e, 0, 0);
}

int32_t eg_longest(eg_expressions *x, int32_t e) {
    if (e == EG_EMPTY) return e;
    if (x->nodes.at[e].guards)
        eg_fail(x->pool->fault, ES_GRAMMAR_UNSUPPORTED, "an ignored terminal cannot contain a look-ahead");
    return eg_make_intern(x, LONGEST, e, 0, 0);
}

/* --- steps --- */

static int32_t derive(eg_expressions *x, int32_t e, int byte);

enum { FEW_MEMBERS = 8 };

/* derive(), remembered. The next list has many of the same members, and an unfinished call must find again
 * what it has done. */
static int32_t derive_member(eg_expressions *x, int32_t e, int byte) {
    const uint64_t key = eg_pair(e, byte);
    int32_t next = eg_map_get(&x->derived, key, -1);
    if (next >= 0) return next;
    next = derive(x, e, byte);
    eg_map_put(x->pool, &x->derived, key, next);
    return next;
}

/* derive() of what is repeated, or comes first: a class of characters is derived once, wherever it occurs. */
static int32_t derive_part(eg_expressions *x, int32_t e, int byte) {
    const eg_expression *n = &x->nodes.at[e];
    if (n->kind != UNION || n->b <= FEW_MEMBERS || !eg_bytes_has(eg_first(x, e), byte))
        return derive(x, e, byte);
    eg_work(x->pool->fault, 2);
    return derive_member(x, e, byte);
}

int32_t eg_make_derivative(eg_expressions *x, int32_t e, int byte) {
    const int32_t classes = eg_make_classes(x, e);
    return derive_member(x, e, x->classes.at[classes].of[byte]);
}

static int32_t derive_list(eg_expressions *x, const eg_expression *n, int byte) {
    const int32_t base = x->scratch.count;
    const bool many = n->b > FEW_MEMBERS;
    eg_work(x->pool->fault, many || n->kind == BOTH ? 4 * (int64_t)n->b : n->b);
    for (int32_t i = 0; i < n->b; i++) {
        const int32_t e = x->lists.at[n->a + i];
        if (n->kind == UNION && !eg_bytes_has(eg_first(x, e), byte)) continue;
        const int32_t next = n->kind == BOTH ? eg_make_derivative(x, e, byte)
                             : many          ? derive_member(x, e, byte)
                                             : derive(x, e, byte);
        eg_push_member(x, n->kind, next);
    }
    return n->kind == UNION ? eg_make_union(x, base) : eg_make_both(x, base);
}

static int32_t derive_repeat(eg_expressions *x, const eg_expression *n, int byte) {
    const int32_t next = derive_part(x, n->a, byte);
    if (next == EG_EMPTY) return EG_EMPTY;
    const int32_t low = n->b > 0 ? n->b - 1 : 0, high = n->c < 0 ? -1 : n->c - 1;
    return eg_make_concat(x, next, eg_make_repeat(x, n->a, low, high));
}

/* The futures after `byte` that `guard` allows. */
static int32_t futures_beyond(eg_expressions *x, int32_t guard, int byte) {
    if (guard == EG_EMPTY) return EG_ANYTHING;
    const int32_t forbidden = derive(x, guard, byte);
    if (x->nodes.at[forbidden].nullable) return EG_EMPTY;
    return eg_make_negation(x, eg_make_concat(x, forbidden, EG_ANYTHING));
}

/* A match that ended before `byte` counts if its look-ahead allows what follows. */
static int32_t derive_future(eg_expressions *x, const eg_expression *n, int byte) {
    int32_t endings[EG_MAX_ENDINGS];
    int32_t out = eg_make_future(x, derive(x, n->a, byte));
    const int count = eg_expression_endings(x, n->a, endings);
    for (int i = 0; i < count; i++) out = eg_union(x, out, futures_beyond(x, endings[i], byte));
    return out;
}

/* The derivative by `byte`. An expression that is empty but not recognized as such is left as it is. */
static int32_t derive(eg_expressions *x, int32_t e, int byte) {
    const eg_expression n = x->nodes.at[e];
    if (!eg_bytes_has(&x->sets.at[n.first], byte)) return EG_EMPTY;
    int32_t out;
    eg_enter(x);
    switch (n.kind) {
    case LITERAL: out = eg_make_literal(x, n.a + 1, n.b - 1); break;
    case CLASS: out = EG_EPSILON; break;
    case CONCAT:
        out = eg_make_concat(x, derive_part(x, n.a, byte), n.b);
        if (x->nodes.at[n.a].nullable) out = eg_union(x, out, derive(x, n.b, byte));
        break;
    case NOT: out = eg_make_negation(x, derive(x, n.a, byte)); break;
    case REPEAT: out = derive_repeat(x, &n, byte); break;
    case GUARD: {
        const int32_t forbidden = derive(x, n.b, byte);
        out = x->nodes.at[forbidden].nullable ? EG_EMPTY : eg_make_guard(x, derive(x, n.a, byte), forbidden);
        break;
    }
    case LONGEST: out = eg_longest(x, derive(x, n.a, byte)); break;
    case LEXER: out = eg_make_lexer_step(x, &n, byte); break;
    case FUTURE: out = derive_future(x, &n, byte); break;
    case WHOLE: out = eg_make_whole(x, eg_step(x, n.a, byte)); break;
    case AUTOMATON: {
        const int32_t next = x->automata.at[n.a].steps[(int64_t)n.b * 256 + byte];
        out = next < 0 ? EG_EMPTY : eg_make_intern(x, AUTOMATON, n.a, next, 0);
        break;
    }
    default: out = derive_list(x, &n, byte);
    }
    x->depth--;
    return out;
}

/* Whether `n` is a literal, or begins with one of several parts: it has one derivative, quickly computed. */
static bool is_long_literal(const eg_expressions *x, const eg_expression *n) {
    if (n->kind != CONCAT) return n->kind == LITERAL;
    const eg_expression *rest = &x->nodes.at[n->b];
    if (rest->kind == CONCAT) rest = &x->nodes.at[rest->a];
    return x->nodes.at[n->a].kind == LITERAL && rest->kind == LITERAL;
}

/* Remember that `next` follows `e` after `byte`, and after every byte that `e` does not distinguish from it if
 * derivatives of `e` take long. */
static void keep_step(eg_expressions *x, int32_t e, int byte, int32_t next) {
    const int32_t classes = x->nodes.at[e].logical ? eg_make_classes(x, e) : EG_ALL_CLASSES;
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
    int32_t next = derive(x, e, byte);
    if (x->nodes.at[next].logical && eg_expression_is_empty(x, next)) next = EG_EMPTY;
    if (!is_long_literal(x, &x->nodes.at[e])) keep_step(x, e, byte, next);
    return next;
}

/* --- opening and closing --- */

void eg_expressions_open(eg_expressions *x, eg_pool *pool, int32_t longest_token) {
    memset(x, 0, sizeof *x);
    x->pool = pool;
    x->longest_token = longest_token;
    eg_make_first_classes(x);
    eg_make_intern_list(x, UNION, NULL, 0);  /* EG_EMPTY */
    eg_make_intern(x, LITERAL, 0, 0, 0);     /* EG_EPSILON */
    const int32_t place = x->nodes.count;
    eg_bytes all;
    memset(&all, 0xff, sizeof all);
    EG_PUSH(pool, x->nodes, (eg_expression){0}); /* EG_ANYTHING comes before what it repeats */
    const int32_t any = eg_make_intern(x, CLASS, eg_make_intern_set(x, &all), 0, 0);
    eg_expression anything = unknown(REPEAT, any, 0, -1);
    anything.bounded = anything.loose = place;
    describe(x, &anything);
    x->nodes.at[place] = anything;
    const int32_t key[4] = {REPEAT, any, 0, -1};
    eg_set_add(pool, &x->by_content, eg_hash_ints(key, 4, 1), place);
}

#define COPY(pool, to, from)                                                        \
    ((to).count = 0, EG_RESERVE(pool, to, (from).count), (to).count = (from).count, \
     eg_copy((to).at, (from).at, (size_t)(from).count * sizeof *(to).at))

void eg_expressions_copy(eg_expressions *x, eg_pool *pool, const eg_expressions *from) {
    x->pool = pool;
    COPY(pool, x->nodes, from->nodes);
    COPY(pool, x->sets, from->sets);
    COPY(pool, x->lists, from->lists);
    COPY(pool, x->text, from->text);
    COPY(pool, x->automata, from->automata);
    COPY(pool, x->classes, from->classes);
    COPY(pool, x->reaches, from->reaches);
    COPY(pool, x->steadies, from->steadies);
    COPY(pool, x->singles, from->singles);
    eg_map_free(pool, &x->single);
    eg_map_free(pool, &x->class_meets);
    eg_map_free(pool, &x->lives);
    eg_map_free(pool, &x->derived);
    eg_set_copy(pool, &x->by_content, &from->by_content);
    eg_set_copy(pool, &x->sets_by_content, &from->sets_by_content);
    eg_set_copy(pool, &x->literals_by_content, &from->literals_by_content);
    eg_set_copy(pool, &x->classes_by_content, &from->classes_by_content);
    x->known_steps = from->known_steps;
    x->longest_token = from->longest_token;
    x->in_vain = x->lost = 0;
    eg_expressions_reset(x);
}

void eg_expressions_close(eg_expressions *x) {
    eg_pool *pool = x->pool;
    EG_FREE(pool, x->nodes);
    EG_FREE(pool, x->sets);
    EG_FREE(pool, x->lists);
    EG_FREE(pool, x->text);
    EG_FREE(pool, x->automata);
    EG_FREE(pool, x->scratch);
    EG_FREE(pool, x->found);
    EG_FREE(pool, x->edges);
    EG_FREE(pool, x->classes);
    EG_FREE(pool, x->reaches);
    EG_FREE(pool, x->steadies);
    EG_FREE(pool, x->singles);
    eg_map_free(pool, &x->single);
    eg_map_free(pool, &x->class_meets);
    eg_set_free(pool, &x->classes_by_content);
    eg_map_free(pool, &x->lives);
    eg_map_free(pool, &x->derived);
    eg_set_free(pool, &x->by_content);
    eg_set_free(pool, &x->sets_by_content);
    eg_set_free(pool, &x->literals_by_content);
}
