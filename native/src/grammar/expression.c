/* expression.c: making and stepping expressions; see expression.h. */
#include "grammar/expression_make.h"

void es_enter(es_expressions *x)
{
    es_work(x->pool->fault, 1);
    if (++x->depth > MAX_DEPTH)
        es_fail(x->pool->fault, ES_GRAMMAR_LIMIT, "an expression is nested more than %d deep", MAX_DEPTH);
}

/* --- sets of bytes and nodes, each once --------------------------------------------------------------- */

int32_t es_make_intern_set(es_expressions *x, const es_bytes *set)
{
    uint64_t hash = 7;
    for (int i = 0; i < 4; ++i) hash = es_mix(hash ^ set->words[i]);
    int32_t id;
    for (es_probe p = es_probe_at(&x->sets_by_content, hash); (id = es_probe_next(&p)) >= 0;)
        if (!memcmp(&x->sets.at[id], set, sizeof *set)) return id;
    ES_PUSH(x->pool, x->sets, *set);
    id = x->sets.count - 1;
    es_set_add(x->pool, &x->sets_by_content, hash, id);
    return id;
}

static bool same_node(const es_expression *n, int kind, int32_t a, int32_t b, int32_t c)
{
    return n->kind == kind && n->a == a && n->b == b && n->c == c;
}

static void describe(es_expressions *x, es_expression *n);

static int32_t add_node(es_expressions *x, uint64_t hash, int kind, int32_t a, int32_t b, int32_t c)
{
    es_expression node = {.kind = (uint8_t)kind, .a = a, .b = b, .c = c, .bounded = -1, .loose = -1, .idle = UINT64_MAX};
    describe(x, &node);
    ES_PUSH(x->pool, x->nodes, node);
    es_set_add(x->pool, &x->by_content, hash, x->nodes.count - 1);
    return x->nodes.count - 1;
}

int32_t es_make_intern(es_expressions *x, int kind, int32_t a, int32_t b, int32_t c)
{
    const int32_t key[4] = {kind, a, b, c};
    const uint64_t hash = es_hash_ints(key, 4, 1);
    int32_t id;
    for (es_probe p = es_probe_at(&x->by_content, hash); (id = es_probe_next(&p)) >= 0;)
        if (same_node(&x->nodes.at[id], kind, a, b, c)) return id;
    return add_node(x, hash, kind, a, b, c);
}

int32_t es_make_intern_list(es_expressions *x, int kind, const int32_t *members, int32_t count)
{
    const uint64_t hash = es_hash_ints(members, count, (uint64_t)kind << 32);
    int32_t id;
    for (es_probe p = es_probe_at(&x->by_content, hash); (id = es_probe_next(&p)) >= 0;) {
        const es_expression *n = &x->nodes.at[id];
        if (n->kind == kind && n->b == count &&
            es_same(x->lists.at + n->a, members, (size_t)count * sizeof *members))
            return id;
    }
    ES_RESERVE(x->pool, x->lists, count);
    const int32_t at = x->lists.count;
    es_copy(x->lists.at + at, members, (size_t)count * sizeof *members);
    x->lists.count += count;
    return add_node(x, hash, kind, at, count, 0);
}

int32_t es_make_single(es_expressions *x, int byte)
{
    es_bytes set = {{0}};
    set.words[byte >> 6] |= (uint64_t)1 << (byte & 63);
    return es_make_intern(x, CLASS, es_make_intern_set(x, &set), 0, 0);
}

/* The literal of `length` bytes that lie at `at` in `text`. */
int32_t es_make_literal(es_expressions *x, int32_t at, int32_t length)
{
    if (length == 0) return ES_EPSILON;
    if (length == 1) return es_make_single(x, x->text.at[at]);
    uint64_t hash = 3;
    for (int32_t i = 0; i < length; ++i) hash = (hash ^ x->text.at[at + i]) * 0x100000001b3u;
    hash = es_mix(hash);
    int32_t id;
    for (es_probe p = es_probe_at(&x->literals_by_content, hash); (id = es_probe_next(&p)) >= 0;) {
        const es_expression *n = &x->nodes.at[id];
        if (n->b == length && !memcmp(x->text.at + n->a, x->text.at + at, (size_t)length)) return id;
    }
    id = es_make_intern(x, LITERAL, at, length, 0);
    es_set_add(x->pool, &x->literals_by_content, hash, id);
    return id;
}

/* --- what a new node is -------------------------------------------------------------------------------- */

static void first_of(es_expressions *x, const es_expression *n, es_bytes *out)
{
    const es_expression *nodes = x->nodes.at;
    memset(out, 0, sizeof *out);
    switch (n->kind) {
    case LITERAL:
        if (n->b) out->words[x->text.at[n->a] >> 6] |= (uint64_t)1 << (x->text.at[n->a] & 63);
        break;
    case CLASS: *out = x->sets.at[n->a]; break;
    case CONCAT:
        *out = x->sets.at[nodes[n->a].first];
        if (nodes[n->a].nullable) es_bytes_unite(out, &x->sets.at[nodes[n->b].first]);
        break;
    case UNION:
        for (int32_t i = 0; i < n->b; ++i)
            es_bytes_unite(out, &x->sets.at[nodes[x->lists.at[n->a + i]].first]);
        break;
    case BOTH:
        memset(out, 0xff, sizeof *out);
        for (int32_t i = 0; i < n->b; ++i)
            for (int w = 0; w < 4; ++w)
                out->words[w] &= x->sets.at[nodes[x->lists.at[n->a + i]].first].words[w];
        break;
    case NOT: memset(out, 0xff, sizeof *out); break;
    case REPEAT: case GUARD: case LONGEST: *out = x->sets.at[nodes[n->a].first]; break;
    case LEXER:
        for (int32_t i = 0; i < n->b; i += 2)
            if (x->lists.at[n->a + i] != ES_TAKEN)
                es_bytes_unite(out, &x->sets.at[nodes[x->lists.at[n->a + i + 1]].first]);
        break;
    case LEXED: break;
    case WHOLE: *out = x->sets.at[nodes[n->a].first]; break;
    case FUTURE:
        if (nodes[n->a].nullable) memset(out, 0xff, sizeof *out);
        else *out = x->sets.at[nodes[n->a].first];
        break;
    default: {
        const int32_t *steps = x->automata.at[n->a].steps + (int64_t)n->b * 256;
        for (int byte = 0; byte < 256; ++byte)
            if (steps[byte] >= 0) out->words[byte >> 6] |= (uint64_t)1 << (byte & 63);
    }
    }
}

static bool is_nullable(const es_expressions *x, const es_expression *n)
{
    const es_expression *nodes = x->nodes.at;
    switch (n->kind) {
    case LITERAL: return n->b == 0;
    case CLASS: return false;
    case CONCAT: return nodes[n->a].nullable && nodes[n->b].nullable;
    case UNION:
        for (int32_t i = 0; i < n->b; ++i)
            if (nodes[x->lists.at[n->a + i]].nullable) return true;
        return false;
    case BOTH:
        for (int32_t i = 0; i < n->b; ++i)
            if (!nodes[x->lists.at[n->a + i]].nullable) return false;
        return true;
    case NOT: return !nodes[n->a].nullable;
    case REPEAT: return n->b == 0 || nodes[n->a].nullable;
    case GUARD: case LONGEST: case FUTURE: return nodes[n->a].nullable;
    case LEXER: case LEXED:
        for (int32_t i = 0; i < n->b; i += 2)
            if (es_is_own(x->lists.at[n->a + i]) && nodes[x->lists.at[n->a + i + 1]].nullable) return true;
        return false;
    case WHOLE: return n->a == ES_ANYTHING;
    default: return x->automata.at[n->a].accepts[n->b];
    }
}

static int count_bytes(const es_bytes *set)
{
    int count = 0;
    for (int i = 0; i < 4; ++i)
        for (uint64_t rest = set->words[i]; rest; rest &= rest - 1) ++count;
    return count;
}

static bool is_wide(const es_expressions *x, const es_expression *n, const es_bytes *first)
{
    const es_expression *nodes = x->nodes.at;
    switch (n->kind) {
    case LITERAL: return false;
    case CLASS: return count_bytes(first) > WIDE_CLASS;
    case CONCAT: return nodes[n->a].wide || (nodes[n->a].nullable && nodes[n->b].wide);
    case REPEAT:
        return n->c == 1 ? nodes[n->a].wide : count_bytes(&x->sets.at[nodes[n->a].first]) > WIDE_LOOP;
    case GUARD: case LONGEST: return nodes[n->a].wide;
    case LEXER: case LEXED: return true;
    case UNION:
        for (int32_t i = 0; i < n->b; ++i)
            if (nodes[x->lists.at[n->a + i]].wide) return true;
        return false;
    default: return count_bytes(first) > WIDE_LOOP;
    }
}

static void describe(es_expressions *x, es_expression *n)
{
    es_bytes first;
    first_of(x, n, &first);
    n->first = es_make_intern_set(x, &first);
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
    for (int32_t i = 0; i < count; ++i) {
        const es_expression *child = &x->nodes.at[children[i]];
        n->logical |= child->logical;
        n->guards |= child->guards && n->kind != FUTURE;
        n->guarded |= n->kind == UNION && child->guarded;
    }
}

/* --- making expressions --------------------------------------------------------------------------------- */

static int compare_ids(const void *a, const void *b)
{
    const int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

/* Sort the members on the stack from `base` on, and drop doubles. */
static void sort_members(es_expressions *x, int32_t base)
{
    int32_t *m = x->scratch.at + base, count = x->scratch.count - base, kept = 0;
    int32_t sorted = 1;
    while (sorted < count && m[sorted - 1] < m[sorted]) ++sorted;
    if (sorted < count) es_sort(m, count, sizeof *m, compare_ids);
    for (int32_t i = 0; i < count; ++i)
        if (!i || m[i] != m[i - 1]) m[kept++] = m[i];
    x->scratch.count = base + kept;
}

void es_push_member(es_expressions *x, int kind, int32_t e)
{
    const es_expression n = x->nodes.at[e];
    if (n.kind != kind) {
        ES_PUSH(x->pool, x->scratch, e);
        return;
    }
    ES_RESERVE(x->pool, x->scratch, n.b);
    es_copy(x->scratch.at + x->scratch.count, x->lists.at + n.a, (size_t)n.b * sizeof(int32_t));
    x->scratch.count += n.b;
}

/* All classes among the members become one; the empty string goes where another member has it. */
static void merge_members(es_expressions *x, int32_t base)
{
    es_bytes all = {{0}};
    int32_t kept = base, classes = 0;
    bool nullable = false, epsilon = false;
    for (int32_t i = base; i < x->scratch.count; ++i) {
        const int32_t e = x->scratch.at[i];
        const es_expression *n = &x->nodes.at[e];
        if (e == ES_EPSILON) {
            epsilon = true;
        } else if (n->kind == CLASS) {
            es_bytes_unite(&all, &x->sets.at[n->a]);
            ++classes;
        } else {
            nullable |= n->nullable && !n->guarded;
            x->scratch.at[kept++] = e;
        }
    }
    x->scratch.count = kept;
    if (classes) ES_PUSH(x->pool, x->scratch, es_make_intern(x, CLASS, es_make_intern_set(x, &all), 0, 0));
    if (epsilon && !nullable) ES_PUSH(x->pool, x->scratch, ES_EPSILON);
    sort_members(x, base);
}

/* The union of the members on the stack from `base` on, which are taken off. */
int32_t es_make_union(es_expressions *x, int32_t base)
{
    sort_members(x, base);
    int32_t kept = base, out;
    for (int32_t i = base; i < x->scratch.count; ++i) {
        if (x->scratch.at[i] == ES_ANYTHING) {
            x->scratch.count = base;
            return ES_ANYTHING;
        }
        if (x->scratch.at[i] != ES_EMPTY) x->scratch.at[kept++] = x->scratch.at[i];
    }
    x->scratch.count = kept;
    if (kept - base > 1) merge_members(x, base);
    es_work(x->pool->fault, x->scratch.count - base);
    if (x->scratch.count == base) out = ES_EMPTY;
    else if (x->scratch.count == base + 1) out = x->scratch.at[base];
    else out = es_make_intern_list(x, UNION, x->scratch.at + base, x->scratch.count - base);
    x->scratch.count = base;
    return out;
}

int32_t es_union(es_expressions *x, int32_t a, int32_t b)
{
    if (a == b || b == ES_EMPTY) return a;
    if (a == ES_EMPTY) return b;
    const int32_t base = x->scratch.count;
    es_push_member(x, UNION, a);
    es_push_member(x, UNION, b);
    return es_make_union(x, base);
}

/* `e` where it is no union of guarded members; else the union of make(member, other) over its members. */
static int32_t distribute(es_expressions *x, int32_t e, int32_t other,
                          int32_t (*make)(es_expressions *, int32_t, int32_t))
{
    const es_expression n = x->nodes.at[e];
    int32_t out = ES_EMPTY;
    for (int32_t i = 0; i < n.b; ++i) out = es_union(x, out, make(x, x->lists.at[n.a + i], other));
    return out;
}

int32_t es_make_concat(es_expressions *x, int32_t a, int32_t b)
{
    if (a == ES_EMPTY || b == ES_EMPTY) return ES_EMPTY;
    if (a == ES_EPSILON) return b;
    if (b == ES_EPSILON) return a;
    const es_expression n = x->nodes.at[a];
    int32_t out;
    es_enter(x);
    if (n.kind == CONCAT) out = es_make_concat(x, n.a, es_make_concat(x, n.b, b));
    else if (n.kind == GUARD) out = es_make_guard(x, es_make_concat(x, n.a, b), n.b);
    else if (n.guarded && n.kind == UNION) out = distribute(x, a, b, es_make_concat);
    else if (a == ES_ANYTHING && x->nodes.at[b].kind == CONCAT && x->nodes.at[b].a == ES_ANYTHING) out = b;
    else if (b == ES_ANYTHING && n.nullable && !n.guards) out = b;
    else out = es_make_intern(x, CONCAT, a, b, 0);
    --x->depth;
    return out;
}

static void check_excluded(es_expressions *x, int32_t e)
{
    if (x->nodes.at[e].guards)
        es_fail(x->pool->fault, ES_GRAMMAR_UNSUPPORTED, "a look-ahead cannot stand in what is excluded");
}

int32_t es_make_negation(es_expressions *x, int32_t e)
{
    if (e == ES_EMPTY) return ES_ANYTHING;
    if (e == ES_ANYTHING) return ES_EMPTY;
    check_excluded(x, e);
    return x->nodes.at[e].kind == NOT ? x->nodes.at[e].a : es_make_intern(x, NOT, e, 0, 0);
}

/* The intersection of the members on the stack from `base` on, which are taken off. */
int32_t es_make_both(es_expressions *x, int32_t base)
{
    sort_members(x, base);
    int32_t kept = base, out = -1;
    for (int32_t i = base; i < x->scratch.count && out < 0; ++i) {
        const int32_t e = x->scratch.at[i];
        const es_expression n = x->nodes.at[e];
        if (e == ES_EMPTY) out = ES_EMPTY;
        else if (n.guarded && (n.kind == GUARD || n.kind == UNION)) {
            x->scratch.at[i] = ES_ANYTHING;
            const int32_t rest = es_make_both(x, base);
            return n.kind == GUARD ? es_make_guard(x, es_intersection(x, n.a, rest), n.b) : distribute(x, e, rest, es_intersection);
        } else if (e != ES_ANYTHING) x->scratch.at[kept++] = e;
    }
    if (out < 0) {
        x->scratch.count = kept;
        es_work(x->pool->fault, kept - base);
        if (kept == base) out = ES_ANYTHING;
        else if (kept == base + 1) out = x->scratch.at[base];
        else out = es_make_intern_list(x, BOTH, x->scratch.at + base, kept - base);
    }
    x->scratch.count = base;
    return out;
}

int32_t es_intersection(es_expressions *x, int32_t a, int32_t b)
{
    const int32_t base = x->scratch.count;
    es_push_member(x, BOTH, a);
    es_push_member(x, BOTH, b);
    return es_make_both(x, base);
}

/* What can be empty under a look-ahead only is written out as often as it has to come: each time asks. */
static int32_t repeat_looks(es_expressions *x, int32_t e, int32_t low, int32_t high)
{
    if (low > MAX_LOOKS)
        es_fail(x->pool->fault, ES_GRAMMAR_UNSUPPORTED, "a look-ahead is repeated more than %d times", MAX_LOOKS);
    int32_t out = es_make_repeat(x, e, 0, high < 0 ? -1 : high - low);
    while (low--) out = es_make_concat(x, e, out);
    return out;
}

int32_t es_make_repeat(es_expressions *x, int32_t e, int32_t low, int32_t high)
{
    if (x->nodes.at[e].nullable) {
        if (low && x->nodes.at[e].guards) return repeat_looks(x, e, low, high);
        low = 0;
    }
    if (high == 0 || e == ES_EPSILON) return ES_EPSILON;
    if (e == ES_EMPTY) return low ? ES_EMPTY : ES_EPSILON;
    if (low == 1 && high == 1) return e;
    const es_expression n = x->nodes.at[e];
    if (n.kind == REPEAT && n.b == 0 && n.c < 0) return low == 0 && high < 0 ? e : es_make_intern(x, REPEAT, e, low, high);
    return es_make_intern(x, REPEAT, e, low, high);
}

int32_t es_make_guard(es_expressions *x, int32_t e, int32_t forbidden)
{
    if (e == ES_EMPTY || x->nodes.at[forbidden].nullable) return ES_EMPTY;
    if (forbidden == ES_EMPTY) return e;
    check_excluded(x, forbidden);
    const es_expression n = x->nodes.at[e];
    if (n.kind == GUARD) return es_make_guard(x, n.a, es_union(x, n.b, forbidden));
    return es_make_intern(x, GUARD, e, forbidden, 0);
}

int32_t es_make_future(es_expressions *x, int32_t e)
{
    const es_expression n = x->nodes.at[e];
    if (!n.guards) return es_make_concat(x, e, ES_ANYTHING);
    int32_t out = ES_EMPTY, endings[ES_MAX_ENDINGS];
    if (es_expression_endings(x, e, endings) && endings[0] == ES_EMPTY) return ES_ANYTHING;
    if (n.kind != UNION) return es_make_intern(x, FUTURE, e, 0, 0);
    for (int32_t i = 0; i < n.b; ++i) out = es_union(x, out, es_make_future(x, x->lists.at[n.a + i]));
    return out;
}

int32_t es_make_whole(es_expressions *x, int32_t e)
{
    return e == ES_EMPTY ? e : es_make_intern(x, WHOLE, e, 0, 0);
}

int32_t es_longest(es_expressions *x, int32_t e)
{
    if (e == ES_EMPTY) return e;
    if (x->nodes.at[e].guards)
        es_fail(x->pool->fault, ES_GRAMMAR_UNSUPPORTED, "a look-ahead cannot stand in what is ignored");
    return es_make_intern(x, LONGEST, e, 0, 0);
}

/* --- steps ------------------------------------------------------------------------------------------------ */

static int32_t derive(es_expressions *x, int32_t e, int byte);

static int32_t derive_list(es_expressions *x, const es_expression *n, int byte)
{
    const int32_t base = x->scratch.count;
    for (int32_t i = 0; i < n->b; ++i) {
        const int32_t e = x->lists.at[n->a + i];
        if (n->kind == UNION && !es_bytes_has(es_first(x, e), byte)) continue;
        const int32_t next = derive(x, e, byte);
        es_push_member(x, n->kind, next);
    }
    return n->kind == UNION ? es_make_union(x, base) : es_make_both(x, base);
}

static int32_t derive_repeat(es_expressions *x, const es_expression *n, int byte)
{
    const int32_t next = derive(x, n->a, byte);
    if (next == ES_EMPTY) return ES_EMPTY;
    const int32_t low = n->b > 0 ? n->b - 1 : 0, high = n->c < 0 ? -1 : n->c - 1;
    return es_make_concat(x, next, es_make_repeat(x, n->a, low, high));
}

/* The futures behind `byte` that `guard` lets pass. */
static int32_t futures_beyond(es_expressions *x, int32_t guard, int byte)
{
    if (guard == ES_EMPTY) return ES_ANYTHING;
    const int32_t forbidden = derive(x, guard, byte);
    if (x->nodes.at[forbidden].nullable) return ES_EMPTY;
    return es_make_negation(x, es_make_concat(x, forbidden, ES_ANYTHING));
}

/* A match that was over before `byte` was one if its look-ahead lets what follows pass. */
static int32_t derive_future(es_expressions *x, const es_expression *n, int byte)
{
    int32_t endings[ES_MAX_ENDINGS];
    int32_t out = es_make_future(x, derive(x, n->a, byte));
    const int count = es_expression_endings(x, n->a, endings);
    for (int i = 0; i < count; ++i) out = es_union(x, out, futures_beyond(x, endings[i], byte));
    return out;
}

/* What may follow `byte`; what is empty without showing it is left as it is. */
static int32_t derive(es_expressions *x, int32_t e, int byte)
{
    const es_expression n = x->nodes.at[e];
    if (!es_bytes_has(&x->sets.at[n.first], byte)) return ES_EMPTY;
    int32_t out;
    es_enter(x);
    switch (n.kind) {
    case LITERAL: out = es_make_literal(x, n.a + 1, n.b - 1); break;
    case CLASS: out = ES_EPSILON; break;
    case CONCAT:
        out = es_make_concat(x, derive(x, n.a, byte), n.b);
        if (x->nodes.at[n.a].nullable) out = es_union(x, out, derive(x, n.b, byte));
        break;
    case NOT: out = es_make_negation(x, derive(x, n.a, byte)); break;
    case REPEAT: out = derive_repeat(x, &n, byte); break;
    case GUARD: {
        const int32_t forbidden = derive(x, n.b, byte);
        out = x->nodes.at[forbidden].nullable ? ES_EMPTY : es_make_guard(x, derive(x, n.a, byte), forbidden);
        break;
    }
    case LONGEST: out = es_longest(x, derive(x, n.a, byte)); break;
    case LEXER: out = es_make_lexer_step(x, &n, byte); break;
    case FUTURE: out = derive_future(x, &n, byte); break;
    case WHOLE: out = es_make_whole(x, es_step(x, n.a, byte)); break;
    case AUTOMATON: {
        const int32_t next = x->automata.at[n.a].steps[(int64_t)n.b * 256 + byte];
        out = next < 0 ? ES_EMPTY : es_make_intern(x, AUTOMATON, n.a, next, 0);
        break;
    }
    default: out = derive_list(x, &n, byte);
    }
    --x->depth;
    return out;
}

int32_t es_expression_step(es_expressions *x, int32_t e, int byte)
{
    int32_t next = derive(x, e, byte);
    if (x->nodes.at[next].logical && es_expression_is_empty(x, next)) next = ES_EMPTY;
    if (x->nodes.at[e].kind == LITERAL) return next;
    if (!x->nodes.at[e].steps) {
        int32_t *steps = es_take(x->pool, 256 * sizeof *steps);
        for (int i = 0; i < 256; ++i) steps[i] = es_bytes_has(es_first(x, e), i) ? -1 : ES_EMPTY;
        x->nodes.at[e].steps = steps;
    }
    x->nodes.at[e].steps[byte] = next;
    return next;
}

/* --- emptiness -------------------------------------------------------------------------------------------- */

enum { UNKNOWN, SOMETHING, NOTHING };

/* Look among what can follow `e`, nearest first, for what is over. Whatever was seen on the way to
 * nothing is nothing too. */
bool es_expression_is_empty(es_expressions *x, int32_t e)
{
    if (e == ES_EMPTY) return true;
    if (!x->nodes.at[e].logical || x->nodes.at[e].nullable) return false;
    if (x->nodes.at[e].emptiness) return x->nodes.at[e].emptiness == NOTHING;
    const int32_t base = x->scratch.count;
    es_map_free(x->pool, &x->seen);
    es_map_put(x->pool, &x->seen, es_pair(e, 0), 1);
    ES_PUSH(x->pool, x->scratch, e);
    bool found = false;
    for (int32_t i = base; i < x->scratch.count && !found; ++i) {
        const int32_t at = x->scratch.at[i];
        for (int byte = 0; byte < 256 && !found; ++byte) {
            if (!es_bytes_has(es_first(x, at), byte)) continue;
            const int32_t next = derive(x, at, byte);
            const es_expression *n = &x->nodes.at[next];
            if (next == ES_EMPTY || n->emptiness == NOTHING) continue;
            if (n->nullable || !n->logical || n->emptiness == SOMETHING) {
                found = true;
            } else {
                if (es_map_get(&x->seen, es_pair(next, 0), 0)) continue;
                es_map_put(x->pool, &x->seen, es_pair(next, 0), 1);
                ES_PUSH(x->pool, x->scratch, next);
            }
        }
    }
    if (found) x->nodes.at[e].emptiness = SOMETHING;
    else
        for (int32_t i = base; i < x->scratch.count; ++i) x->nodes.at[x->scratch.at[i]].emptiness = NOTHING;
    x->scratch.count = base;
    return !found;
}

/* --- opening and closing ------------------------------------------------------------------------------------- */

void es_expressions_open(es_expressions *x, es_pool *pool, int32_t longest_token)
{
    memset(x, 0, sizeof *x);
    x->pool = pool;
    x->longest_token = longest_token;
    es_make_intern_list(x, UNION, NULL, 0);  /* ES_EMPTY */
    es_make_intern(x, LITERAL, 0, 0, 0);     /* ES_EPSILON */
    const int32_t place = x->nodes.count;
    es_bytes all;
    memset(&all, 0xff, sizeof all);
    ES_PUSH(pool, x->nodes, (es_expression){0});  /* ES_ANYTHING comes before what it repeats */
    const int32_t any = es_make_intern(x, CLASS, es_make_intern_set(x, &all), 0, 0);
    es_expression anything = {.kind = REPEAT, .a = any, .b = 0, .c = -1, .bounded = place, .loose = place, .idle = UINT64_MAX};
    describe(x, &anything);
    x->nodes.at[place] = anything;
    const int32_t key[4] = {REPEAT, any, 0, -1};
    es_set_add(pool, &x->by_content, es_hash_ints(key, 4, 1), place);
}

void es_expressions_close(es_expressions *x)
{
    es_pool *pool = x->pool;
    ES_FREE(pool, x->nodes);
    ES_FREE(pool, x->sets);
    ES_FREE(pool, x->lists);
    ES_FREE(pool, x->text);
    ES_FREE(pool, x->automata);
    ES_FREE(pool, x->scratch);
    es_map_free(pool, &x->seen);
    es_map_free(pool, &x->lives);
    es_set_free(pool, &x->by_content);
    es_set_free(pool, &x->sets_by_content);
    es_set_free(pool, &x->literals_by_content);
}
