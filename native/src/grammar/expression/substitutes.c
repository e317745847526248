/* Expressions that stand in for another one. */
#include "grammar/expression/make.h"

enum { LONG = 12 }; /* repetitions that a looser expression does not count */

/* The intersection `n` with every upper bound on repetitions above `most` dropped, and with lower bounds
 * above `high` reduced to that. */
static int32_t without_counts(eg_expressions *x, const eg_expression *n, int32_t most, int32_t high) {
    const int32_t base = x->scratch.count;
    for (int32_t i = 0; i < n->count; i++) {
        const int32_t member = eg_widen_count(x, eg_member(x, n, i), most, high);
        eg_push_member(x, EG_BOTH, member);
    }
    return eg_make_both(x, base);
}

/* eg_expression_bounded for an intersection `e`. Upper bounds may be dropped if whatever follows within
 * `bytes` can be completed before any of them is reached. Lower bounds may be reduced as well if it can then
 * always be extended. */
static int32_t bounded_both(eg_expressions *x, int32_t e, int32_t bytes) {
    const eg_expression n = x->nodes.at[e];
    eg_counts counts;
    if (n.guards) return e;
    const int32_t open = eg_drop_counts(x, &n, &counts);
    if (!counts.number || x->nodes.at[open].kind != EG_BOTH) return e;
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
    if (n.kind == EG_REPEAT && (n.low > most || n.high > most)) {
        out = eg_make_repeat(x, n.of, n.low > most ? most : n.low, n.high > most ? -1 : n.high);
    } else if (n.kind == EG_CONCAT) {
        const int32_t head = eg_expression_bounded(x, n.head, bytes);
        out = head == n.head ? e : eg_make_concat(x, head, n.tail);
    } else if (n.kind == EG_UNION) {
        const int32_t base = x->scratch.count;
        for (int32_t i = 0; i < n.count; i++) {
            const int32_t member = eg_expression_bounded(x, eg_member(x, &n, i), bytes);
            eg_push_member(x, EG_UNION, member);
        }
        out = eg_make_union(x, base);
    } else if (n.kind == EG_BOTH) {
        out = bounded_both(x, e, bytes);
    }
    if (bytes >= x->longest_token) x->nodes.at[e].bounded = out;
    return out;
}

/* The intersection `n` without its complements. */
static int32_t without_complements(eg_expressions *x, const eg_expression *n) {
    const int32_t base = x->scratch.count;
    for (int32_t i = 0; i < n->count; i++) {
        const int32_t member = eg_member(x, n, i);
        if (x->nodes.at[member].kind != EG_NOT) EG_PUSH(x->pool, x->scratch, member);
    }
    return eg_make_both(x, base);
}

/* The lexer `n` as if the parser accepted everything it tries. */
static int32_t with_all_open(eg_expressions *x, const eg_expression *n) {
    const int32_t base = x->scratch.count;
    for (int32_t i = 0; i < n->count; i += 2) {
        const int32_t entry = eg_member(x, n, i), left = eg_member(x, n, i + 1);
        EG_PUSH(x->pool, x->scratch, entry == EG_TAKEN ? entry : entry & ~EG_CLOSED);
        EG_PUSH(x->pool, x->scratch, left);
    }
    return eg_make_lexer(x, base);
}

/* Whether an entry of the lexer `n` looks ahead: a text can then be read in several ways at once, and a
 * token that the parser cannot accept in one of them may be right in another. */
static bool lexer_looks_ahead(const eg_expressions *x, const eg_expression *n) {
    for (int32_t i = n->members; i < n->members + n->count; i += 2)
        if (x->lists.at[i] == EG_TAKEN || x->nodes.at[x->lists.at[i + 1]].guards) return true;
    return false;
}

int32_t eg_expression_looser(eg_expressions *x, int32_t e) {
    const eg_expression n = x->nodes.at[e];
    if (n.looser >= 0) return n.looser;
    int32_t out = e;
    if (n.kind == EG_BOTH) {
        out = without_complements(x, &n);
        if (out == e && !n.guards) out = without_counts(x, &n, LONG, INT32_MAX);
    } else if (n.kind == EG_REPEAT && n.high > LONG) {
        out = eg_make_repeat(x, n.of, n.low, -1);
    } else if (n.kind == EG_CONCAT) {
        const int32_t head = eg_expression_looser(x, n.head);
        out = head == n.head ? e : eg_make_concat(x, head, n.tail);
    } else if (n.kind == EG_LEXER && !lexer_looks_ahead(x, &n)) {
        out = with_all_open(x, &n);
    }
    if (out == EG_ANYTHING) out = e;
    x->nodes.at[e].looser = out;
    return out;
}

int32_t eg_expression_without_minimum(eg_expressions *x, int32_t e) {
    const eg_expression n = x->nodes.at[e];
    if (n.kind != EG_CONCAT || x->nodes.at[n.tail].kind != EG_CLASS || x->nodes.at[n.head].kind != EG_REPEAT)
        return e;
    const eg_expression r = x->nodes.at[n.head];
    if (r.low == 0 || r.high >= 0 || eg_bytes_meet(eg_first(x, r.of), eg_first(x, n.tail))) return e;
    return eg_make_concat(x, eg_make_repeat(x, r.of, 0, -1), n.tail);
}

/* The first bytes of the entries that `whole` tries and `n` does not try alike. Both are in the same
 * order. */
static eg_bytes lexers_differing(const eg_expressions *x, const eg_expression *n,
                                 const eg_expression *whole) {
    const int32_t *tried = x->lists.at + n->members, *all = x->lists.at + whole->members;
    eg_bytes out = {{0}};
    int32_t i = 0;
    for (int32_t k = 0; k < whole->count; k += 2) {
        if (i < n->count && tried[i] == all[k] && tried[i + 1] == all[k + 1]) {
            i += 2;
            continue;
        }
        eg_bytes_unite(&out, eg_first(x, all[k + 1]));
        if (i < n->count && tried[i + 1] == all[k + 1] && tried[i] == (all[k] | EG_CLOSED)) i += 2;
    }
    return i < n->count ? EG_ALL_BYTES : out;
}

eg_bytes eg_expression_differing_bytes(eg_expressions *x, int32_t e, int32_t whole) {
    const eg_expression n = x->nodes.at[e], w = x->nodes.at[whole];
    eg_bytes out = {{0}};
    if (e == whole) return out;
    if (n.kind == EG_CONCAT && w.kind == EG_CONCAT && n.tail == w.tail) {
        out = eg_expression_differing_bytes(x, n.head, w.head);
        if (x->nodes.at[n.head].nullable != x->nodes.at[w.head].nullable)
            eg_bytes_unite(&out, eg_first(x, n.tail));
    } else if (n.kind == EG_BOTH && without_complements(x, &n) == whole) {
        for (int32_t i = 0; i < n.count; i++) {
            const eg_expression *member = eg_node(x, eg_member(x, &n, i));
            if (member->kind == EG_NOT) eg_bytes_unite(&out, eg_first(x, member->of));
        }
    } else if (n.kind == EG_LEXER && w.kind == EG_LEXER) {
        out = lexers_differing(x, &n, &w);
    } else {
        out = EG_ALL_BYTES;
    }
    return out;
}
