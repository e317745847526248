/* Expressions that stand in for another one, and the ways in which one can end. */
#include "grammar/base/characters.h"
#include "grammar/expression/make.h"

enum {
    IDLE_STEPS = 4096 /* limit when testing the characters that begin with one byte */
};

/* The intersection `n` with every upper bound on repetitions above `most` dropped, and with lower bounds above
 * `high` reduced to that. */
static int32_t without_counts(eg_expressions *x, const eg_expression *n, int32_t most, int32_t high) {
    const int32_t base = x->scratch.count;
    for (int32_t i = 0; i < n->b; i++) {
        const int32_t member = eg_make_widened(x, x->lists.at[n->a + i], most, high);
        eg_push_member(x, BOTH, member);
    }
    return eg_make_both(x, base);
}

/* eg_expression_bounded for an intersection `e`. Upper bounds may be dropped if whatever follows within `bytes`
 * can be completed before any of them is reached. Lower bounds may be reduced as well if it can then always be
 * extended. */
static int32_t bounded_both(eg_expressions *x, int32_t e, int32_t bytes) {
    const eg_expression n = x->nodes.at[e];
    eg_counts counts;
    if (n.guards) return e;
    const int32_t open = eg_make_uncounted(x, &n, &counts);
    if (!counts.number || x->nodes.at[open].kind != BOTH) return e;
    if (counts.least <= bytes && counts.low <= bytes + 1) return e;
    const eg_reach reach = eg_reach_of(x, open);
    const bool extends = counts.exact && reach.far_loop < EG_FAR;
    if (counts.low && !extends) return e;
    const int32_t far = counts.low ? reach.far_loop + (counts.number > 1 ? counts.low : 0) : reach.far_end;
    if (counts.least < EG_FAR && counts.least - bytes <= far) return e;
    return far < EG_FAR ? without_counts(x, &n, 0, bytes + 1) : e;
}

int32_t eg_expression_bounded(eg_expressions *x, int32_t e, int32_t bytes) {
    const eg_expression n = x->nodes.at[e];
    if (n.bounded >= 0 && bytes >= x->longest_token) return n.bounded;
    const int32_t most = bytes + 1;
    int32_t out = e;
    if (n.kind == REPEAT && (n.b > most || n.c > most)) {
        out = eg_make_repeat(x, n.a, n.b > most ? most : n.b, n.c > most ? -1 : n.c);
    } else if (n.kind == CONCAT) {
        const int32_t head = eg_expression_bounded(x, n.a, bytes);
        out = head == n.a ? e : eg_make_concat(x, head, n.b);
    } else if (n.kind == UNION) {
        const int32_t base = x->scratch.count;
        for (int32_t i = 0; i < n.b; i++) {
            const int32_t member = eg_expression_bounded(x, x->lists.at[n.a + i], bytes);
            eg_push_member(x, UNION, member);
        }
        out = eg_make_union(x, base);
    } else if (n.kind == BOTH) {
        out = bounded_both(x, e, bytes);
    }
    if (bytes >= x->longest_token) x->nodes.at[e].bounded = out;
    return out;
}

/* The intersection `n` without its complements. */
static int32_t without_complements(eg_expressions *x, const eg_expression *n) {
    const int32_t base = x->scratch.count;
    for (int32_t i = 0; i < n->b; i++) {
        const int32_t member = x->lists.at[n->a + i];
        if (x->nodes.at[member].kind != NOT) EG_PUSH(x->pool, x->scratch, member);
    }
    return eg_make_both(x, base);
}

/* The lexer `n` as if the parser accepted everything it tries. */
static int32_t without_closed(eg_expressions *x, const eg_expression *n) {
    const int32_t base = x->scratch.count;
    for (int32_t i = 0; i < n->b; i += 2) {
        const int32_t entry = x->lists.at[n->a + i], left = x->lists.at[n->a + i + 1];
        EG_PUSH(x->pool, x->scratch, entry == EG_TAKEN ? entry : entry & ~EG_CLOSED);
        EG_PUSH(x->pool, x->scratch, left);
    }
    return eg_make_lexer(x, base);
}

/* Whether an entry of the lexer `n` looks ahead: a text can then be read in several ways at once, and a token
 * that the parser cannot accept in one of them may be right in another. */
static bool lexer_looks(const eg_expressions *x, const eg_expression *n) {
    for (int32_t i = n->a; i < n->a + n->b; i += 2)
        if (x->lists.at[i] == EG_TAKEN || x->nodes.at[x->lists.at[i + 1]].guards) return true;
    return false;
}

int32_t eg_expression_loose(eg_expressions *x, int32_t e) {
    const eg_expression n = x->nodes.at[e];
    if (n.loose >= 0) return n.loose;
    int32_t out = e;
    if (n.kind == BOTH) {
        out = without_complements(x, &n);
        if (out == e && !n.guards) out = without_counts(x, &n, LONG, INT32_MAX);
    } else if (n.kind == REPEAT && n.c > LONG) {
        out = eg_make_repeat(x, n.a, n.b, -1);
    } else if (n.kind == CONCAT) {
        const int32_t head = eg_expression_loose(x, n.a);
        out = head == n.a ? e : eg_make_concat(x, head, n.b);
    } else if (n.kind == LEXER && !lexer_looks(x, &n)) {
        out = without_closed(x, &n);
    }
    if (out == EG_ANYTHING) out = e;
    x->nodes.at[e].loose = out;
    return out;
}

int32_t eg_expression_open(eg_expressions *x, int32_t e) {
    const eg_expression n = x->nodes.at[e];
    if (n.kind != CONCAT || x->nodes.at[n.b].kind != CLASS || x->nodes.at[n.a].kind != REPEAT) return e;
    const eg_expression r = x->nodes.at[n.a];
    if (r.b == 0 || r.c >= 0 || eg_bytes_meet(eg_first(x, r.a), eg_first(x, n.b))) return e;
    return eg_make_concat(x, eg_make_repeat(x, r.a, 0, -1), n.b);
}

/* The first bytes of the entries that `whole` tries and `n` does not try alike. Both are in the same
 * order. */
static eg_bytes lexers_differing(const eg_expressions *x, const eg_expression *n,
                                 const eg_expression *whole) {
    const int32_t *tried = x->lists.at + n->a, *all = x->lists.at + whole->a;
    eg_bytes out = {{0}};
    int32_t i = 0;
    for (int32_t k = 0; k < whole->b; k += 2) {
        if (i < n->b && tried[i] == all[k] && tried[i + 1] == all[k + 1]) {
            i += 2;
            continue;
        }
        eg_bytes_unite(&out, eg_first(x, all[k + 1]));
        if (i < n->b && tried[i + 1] == all[k + 1] && tried[i] == (all[k] | EG_CLOSED)) i += 2;
    }
    if (i < n->b) memset(&out, 0xff, sizeof out);
    return out;
}

eg_bytes eg_expression_differing(eg_expressions *x, int32_t e, int32_t whole) {
    const eg_expression n = x->nodes.at[e], w = x->nodes.at[whole];
    eg_bytes out = {{0}};
    if (e == whole) return out;
    if (n.kind == CONCAT && w.kind == CONCAT && n.b == w.b) {
        out = eg_expression_differing(x, n.a, w.a);
        if (x->nodes.at[n.a].nullable != x->nodes.at[w.a].nullable) eg_bytes_unite(&out, eg_first(x, n.b));
    } else if (n.kind == BOTH && without_complements(x, &n) == whole) {
        for (int32_t i = 0; i < n.b; i++) {
            const eg_expression *member = eg_node(x, x->lists.at[n.a + i]);
            if (member->kind == NOT) eg_bytes_unite(&out, eg_first(x, member->a));
        }
    } else if (n.kind == LEXER && w.kind == LEXER) {
        out = lexers_differing(x, &n, &w);
    } else {
        memset(&out, 0xff, sizeof out);
    }
    return out;
}

/* Whether every completion of the current character leads from `at` to `start`. */
static bool returns_to(eg_expressions *x, int32_t start, int32_t at, eg_utf8 utf8, int *steps) {
    int32_t before = EG_EMPTY;
    for (int byte = utf8.low; byte <= utf8.high; byte++) {
        const int32_t next = eg_step(x, at, byte);
        if (next == EG_EMPTY || --*steps < 0) return false;
        if (utf8.left == 1 && next != start) return false;
        const eg_utf8 rest = {(uint8_t)(utf8.left - 1), 0x80, 0xbf};
        if (utf8.left > 1 && next != before && !returns_to(x, start, next, rest, steps)) return false;
        before = next;
    }
    return true;
}

/* The classes of characters after each of which `e` has become `to`. */
static uint64_t classes_to(eg_expressions *x, int32_t e, int32_t to) {
    uint64_t all = 0, others = EG_MALFORMED | EG_INSIDE;
    for (int byte = 0; byte < 256; byte++) {
        eg_utf8 utf8 = {0};
        const uint64_t class = eg_class_of(byte, &utf8);
        all |= class;
        if (others & class) continue;
        int steps = IDLE_STEPS;
        const int32_t next = eg_step(x, e, byte);
        const bool leads = utf8.left ? next != EG_EMPTY && returns_to(x, to, next, utf8, &steps) : next == to;
        eg_work(x->pool->fault, 1 + IDLE_STEPS - steps);
        if (!leads) others |= class;
    }
    return all & ~others;
}

uint64_t eg_expression_idle(eg_expressions *x, int32_t e) {
    if (x->nodes.at[e].idle == UINT64_MAX) {
        const uint64_t idle = classes_to(x, e, e);
        x->nodes.at[e].idle = idle;
    }
    return x->nodes.at[e].idle;
}

uint64_t eg_expression_single(eg_expressions *x, int32_t e) {
    int32_t at = eg_map_get(&x->single, (uint64_t)e, -1);
    if (at < 0) {
        const uint64_t classes = classes_to(x, e, EG_EPSILON);
        at = x->singles.count;
        EG_PUSH(x->pool, x->singles, classes);
        eg_map_put(x->pool, &x->single, (uint64_t)e, at);
    }
    return x->singles.at[at];
}

/* Add a guard to `count` others; one that allows everything replaces all of them. */
static int add_ending(eg_expressions *x, int32_t *out, int count, int32_t guard) {
    if (guard == EG_EMPTY) return out[0] = guard, 1;
    for (int i = 0; i < count; i++)
        if (out[i] == guard || out[i] == EG_EMPTY) return count;
    if (count == EG_MAX_ENDINGS)
        eg_fail(x->pool->fault, ES_GRAMMAR_LIMIT, "a terminal ends under more than %d look-aheads at once",
                count);
    out[count] = guard;
    return count + 1;
}

/* Combine each ending in `out` with each ending of `e` at the same position. */
static int join_endings(eg_expressions *x, int32_t *out, int count, int32_t e) {
    int32_t more[EG_MAX_ENDINGS], before[EG_MAX_ENDINGS];
    const int other = eg_expression_endings(x, e, more), have = count;
    eg_copy(before, out, (size_t)have * sizeof *before);
    count = 0;
    for (int i = 0; i < have; i++)
        for (int k = 0; k < other; k++) count = add_ending(x, out, count, eg_union(x, before[i], more[k]));
    return count;
}

int eg_expression_endings(eg_expressions *x, int32_t e, int32_t *out) {
    const eg_expression n = x->nodes.at[e];
    if (!n.nullable) return 0;
    out[0] = n.kind == LONGEST ? n.a : EG_EMPTY;
    if (!n.guards || n.kind == LONGEST || n.kind == REPEAT) return 1;
    int count = 1;
    eg_enter(x);
    if (n.kind == GUARD) {
        out[0] = n.b;
        count = join_endings(x, out, count, n.a);
    } else if (n.kind == CONCAT) {
        count = join_endings(x, out, count, n.a);
        count = join_endings(x, out, count, n.b);
    } else {
        if (n.kind == UNION) count = 0;
        for (int32_t i = 0; i < n.b; i++) {
            const int32_t member = x->lists.at[n.a + i];
            if (n.kind == BOTH) {
                count = join_endings(x, out, count, member);
                continue;
            }
            int32_t some[EG_MAX_ENDINGS];
            const int more = eg_expression_endings(x, member, some);
            for (int k = 0; k < more; k++) count = add_ending(x, out, count, some[k]);
        }
    }
    x->depth--;
    return count;
}
