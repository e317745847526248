/* expression_views.c: other expressions that stand for one, and how one can be over; see expression.h. */
#include "grammar/characters.h"
#include "grammar/expression_make.h"

enum {
    IDLE_STEPS = 4096, /* that are taken to find out about the characters that begin with one byte */
    MAX_SIZE = 100     /* of size_of */
};

/* How many expressions `e` can become, itself too; INT32_MAX where they are many. */
static int32_t size_of(es_expressions *x, int32_t e)
{
    if (x->nodes.at[e].size) return x->nodes.at[e].size;
    const int32_t base = x->scratch.count;
    int64_t steps = 0;
    ES_PUSH(x->pool, x->scratch, e);
    for (int32_t i = base; i < x->scratch.count && x->scratch.count - base <= MAX_SIZE; ++i) {
        const int32_t at = x->scratch.at[i];
        const es_bytes first = *es_first(x, at);
        int32_t before = ES_EMPTY;
        for (int byte = 0; byte < 256 && x->scratch.count - base <= MAX_SIZE; ++byte) {
            if (!es_bytes_has(&first, byte)) continue;
            const int32_t next = es_step(x, at, byte);
            ++steps;
            int32_t k = base;
            while (next != before && next != ES_EMPTY && k < x->scratch.count && x->scratch.at[k] != next) ++k;
            if (k == x->scratch.count) ES_PUSH(x->pool, x->scratch, next);
            before = next;
        }
    }
    es_work(x->pool->fault, steps);
    const int32_t count = x->scratch.count - base;
    x->scratch.count = base;
    return x->nodes.at[e].size = count > MAX_SIZE ? INT32_MAX : count;
}

/* The intersection `n` where what is repeated at most more than `most` times is repeated any number of times;
 * the least of those numbers goes to `least`. */
static int32_t without_counts(es_expressions *x, const es_expression *n, int32_t most, int32_t *least)
{
    const int32_t base = x->scratch.count;
    *least = INT32_MAX;
    for (int32_t i = 0; i < n->b; ++i) {
        int32_t member = x->lists.at[n->a + i];
        const es_expression m = x->nodes.at[member];
        if (m.kind == REPEAT && m.c > most) {
            member = es_make_repeat(x, m.a, m.b, -1);
            if (m.c < *least) *least = m.c;
        }
        es_push_member(x, BOTH, member);
    }
    return es_make_both(x, base);
}

/* es_expression_bounded of an intersection `e`. Where a count is dropped, what may follow a text can still be
 * ended in fewer bytes than there are expressions that follow, so without ever reaching the count. */
static int32_t bounded_both(es_expressions *x, int32_t e, int32_t bytes)
{
    const es_expression n = x->nodes.at[e];
    int32_t least;
    if (n.guards) return e;
    const int32_t open = without_counts(x, &n, bytes, &least);
    return open != e && size_of(x, open) <= least - bytes ? open : e;
}

int32_t es_expression_bounded(es_expressions *x, int32_t e, int32_t bytes)
{
    const es_expression n = x->nodes.at[e];
    if (n.bounded >= 0 && bytes >= x->longest_token) return n.bounded;
    const int32_t most = bytes + 1;
    int32_t out = e;
    if (n.kind == REPEAT && (n.b > most || n.c > most)) {
        out = es_make_repeat(x, n.a, n.b > most ? most : n.b, n.c > most ? -1 : n.c);
    } else if (n.kind == CONCAT) {
        const int32_t head = es_expression_bounded(x, n.a, bytes);
        out = head == n.a ? e : es_make_concat(x, head, n.b);
    } else if (n.kind == UNION) {
        const int32_t base = x->scratch.count;
        for (int32_t i = 0; i < n.b; ++i) {
            const int32_t member = es_expression_bounded(x, x->lists.at[n.a + i], bytes);
            es_push_member(x, UNION, member);
        }
        out = es_make_union(x, base);
    } else if (n.kind == BOTH) {
        out = bounded_both(x, e, bytes);
    }
    if (bytes >= x->longest_token) x->nodes.at[e].bounded = out;
    return out;
}

/* The intersection `n` without its complements. */
static int32_t without_complements(es_expressions *x, const es_expression *n)
{
    const int32_t base = x->scratch.count;
    for (int32_t i = 0; i < n->b; ++i) {
        const int32_t member = x->lists.at[n->a + i];
        if (x->nodes.at[member].kind != NOT) ES_PUSH(x->pool, x->scratch, member);
    }
    return es_make_both(x, base);
}

/* The lexer `n` of a parser that could take all that it tries. */
static int32_t without_closed(es_expressions *x, const es_expression *n)
{
    const int32_t base = x->scratch.count;
    for (int32_t i = 0; i < n->b; i += 2) {
        const int32_t entry = x->lists.at[n->a + i], left = x->lists.at[n->a + i + 1];
        ES_PUSH(x->pool, x->scratch, entry == ES_TAKEN ? entry : entry & ~ES_CLOSED);
        ES_PUSH(x->pool, x->scratch, left);
    }
    return es_make_lexer(x, base);
}

int32_t es_expression_loose(es_expressions *x, int32_t e)
{
    const es_expression n = x->nodes.at[e];
    if (n.loose >= 0) return n.loose;
    int32_t out = e;
    if (n.kind == BOTH) {
        int32_t least;
        out = without_complements(x, &n);
        if (out == e && !n.guards) out = without_counts(x, &n, LONG, &least);
    } else if (n.kind == REPEAT && n.c > LONG) {
        out = es_make_repeat(x, n.a, n.b, -1);
    } else if (n.kind == CONCAT) {
        const int32_t head = es_expression_loose(x, n.a);
        out = head == n.a ? e : es_make_concat(x, head, n.b);
    } else if (n.kind == LEXER) {
        out = without_closed(x, &n);
    }
    if (out == ES_ANYTHING) out = e;
    x->nodes.at[e].loose = out;
    return out;
}

int32_t es_expression_open(es_expressions *x, int32_t e)
{
    const es_expression n = x->nodes.at[e];
    if (n.kind != CONCAT || x->nodes.at[n.b].kind != CLASS || x->nodes.at[n.a].kind != REPEAT) return e;
    const es_expression r = x->nodes.at[n.a];
    if (r.b == 0 || r.c >= 0 || es_bytes_meet(es_first(x, r.a), es_first(x, n.b))) return e;
    return es_make_concat(x, es_make_repeat(x, r.a, 0, -1), n.b);
}

/* The bytes with which what is tried by `whole`, and not alike by `n`, begins: both in the same order. */
static es_bytes lexers_differing(const es_expressions *x, const es_expression *n, const es_expression *whole)
{
    const int32_t *tried = x->lists.at + n->a, *all = x->lists.at + whole->a;
    es_bytes out = {{0}};
    int32_t i = 0;
    for (int32_t k = 0; k < whole->b; k += 2) {
        if (i < n->b && tried[i] == all[k] && tried[i + 1] == all[k + 1]) {
            i += 2;
            continue;
        }
        es_bytes_unite(&out, es_first(x, all[k + 1]));
        if (i < n->b && tried[i + 1] == all[k + 1] && tried[i] == (all[k] | ES_CLOSED)) i += 2;
    }
    if (i < n->b) memset(&out, 0xff, sizeof out);
    return out;
}

es_bytes es_expression_differing(es_expressions *x, int32_t e, int32_t whole)
{
    const es_expression n = x->nodes.at[e], w = x->nodes.at[whole];
    es_bytes out = {{0}};
    if (e == whole) return out;
    if (n.kind == CONCAT && w.kind == CONCAT && n.b == w.b) {
        out = es_expression_differing(x, n.a, w.a);
        if (x->nodes.at[n.a].nullable != x->nodes.at[w.a].nullable) es_bytes_unite(&out, es_first(x, n.b));
    } else if (n.kind == BOTH && without_complements(x, &n) == whole) {
        for (int32_t i = 0; i < n.b; ++i) {
            const es_expression *member = es_node(x, x->lists.at[n.a + i]);
            if (member->kind == NOT) es_bytes_unite(&out, es_first(x, member->a));
        }
    } else if (n.kind == LEXER && w.kind == LEXER) {
        out = lexers_differing(x, &n, &w);
    } else {
        memset(&out, 0xff, sizeof out);
    }
    return out;
}

/* Whether all that `at` becomes behind the rest of a character is `home`. */
static bool comes_home(es_expressions *x, int32_t home, int32_t at, es_within within, int *steps)
{
    int32_t before = ES_EMPTY;
    for (int byte = within.low; byte <= within.high; ++byte) {
        const int32_t next = es_step(x, at, byte);
        if (next == ES_EMPTY || --*steps < 0) return false;
        if (within.left == 1 && next != home) return false;
        const es_within rest = {(uint8_t)(within.left - 1), 0x80, 0xbf};
        if (within.left > 1 && next != before && !comes_home(x, home, next, rest, steps)) return false;
        before = next;
    }
    return true;
}

uint64_t es_expression_idle(es_expressions *x, int32_t e)
{
    if (x->nodes.at[e].idle != UINT64_MAX) return x->nodes.at[e].idle;
    uint64_t all = 0, busy = ES_BROKEN | ES_WITHIN;
    for (int byte = 0; byte < 256; ++byte) {
        es_within within = {0};
        const uint64_t class = es_class_of(byte, &within);
        all |= class;
        if (busy & class) continue;
        int steps = IDLE_STEPS;
        const int32_t next = es_step(x, e, byte);
        const bool idle = within.left ? next != ES_EMPTY && comes_home(x, e, next, within, &steps) : next == e;
        es_work(x->pool->fault, 1 + IDLE_STEPS - steps);
        if (!idle) busy |= class;
    }
    return x->nodes.at[e].idle = all & ~busy;
}

/* Add a guard to `count` others; one that lets all pass stands for all of them. */
static int add_ending(es_expressions *x, int32_t *out, int count, int32_t guard)
{
    if (guard == ES_EMPTY) return out[0] = guard, 1;
    for (int i = 0; i < count; ++i)
        if (out[i] == guard || out[i] == ES_EMPTY) return count;
    if (count == ES_MAX_ENDINGS)
        es_fail(x->pool->fault, ES_GRAMMAR_LIMIT, "a terminal ends under more than %d look-aheads at once", count);
    out[count] = guard;
    return count + 1;
}

/* What ends with one of `out` and with `e` at the same place. */
static int join_endings(es_expressions *x, int32_t *out, int count, int32_t e)
{
    int32_t more[ES_MAX_ENDINGS], before[ES_MAX_ENDINGS];
    const int other = es_expression_endings(x, e, more), have = count;
    es_copy(before, out, (size_t)have * sizeof *before);
    count = 0;
    for (int i = 0; i < have; ++i)
        for (int k = 0; k < other; ++k) count = add_ending(x, out, count, es_union(x, before[i], more[k]));
    return count;
}

int es_expression_endings(es_expressions *x, int32_t e, int32_t *out)
{
    const es_expression n = x->nodes.at[e];
    if (!n.nullable) return 0;
    out[0] = n.kind == LONGEST ? n.a : ES_EMPTY;
    if (!n.guards || n.kind == LONGEST || n.kind == REPEAT) return 1;
    int count = 1;
    es_enter(x);
    if (n.kind == GUARD) {
        out[0] = n.b;
        count = join_endings(x, out, count, n.a);
    } else if (n.kind == CONCAT) {
        count = join_endings(x, out, count, n.a);
        count = join_endings(x, out, count, n.b);
    } else {
        if (n.kind == UNION) count = 0;
        for (int32_t i = 0; i < n.b; ++i) {
            const int32_t member = x->lists.at[n.a + i];
            if (n.kind == BOTH) {
                count = join_endings(x, out, count, member);
                continue;
            }
            int32_t some[ES_MAX_ENDINGS];
            const int more = es_expression_endings(x, member, some);
            for (int k = 0; k < more; ++k) count = add_ending(x, out, count, some[k]);
        }
    }
    --x->depth;
    return count;
}

