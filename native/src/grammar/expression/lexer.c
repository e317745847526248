/* The lexer of an LALR parser, and the guards of what it has read.
 *
 * A lexer is a list of entries with their derivatives. An entry without look-ahead that matches has won
 * against those after it, which are dropped. Whether an entry with look-ahead wins depends on what follows:
 * the entries after it stay, under EG_TAKEN, the futures in which it wins.
 */
#include "grammar/expression/make.h"

/* --- guards --- */

/* The texts of `e` that are not empty. */
static int32_t nonempty(eg_expressions *x, int32_t e) {
    if (!x->nodes.at[e].nullable) return e;
    return eg_intersection(x, e, eg_make_concat(x, x->nodes.at[EG_ANYTHING].of, EG_ANYTHING));
}

/* The futures in which `e` matches some nonempty prefix. */
static int32_t futures_with_more(eg_expressions *x, int32_t e) { return eg_make_future(x, nonempty(x, e)); }

/* The futures that `guard` forbids. */
static int32_t forbidden_futures(eg_expressions *x, int32_t guard) {
    return x->nodes.at[guard].kind == EG_WHOLE ? x->nodes.at[guard].of : futures_with_more(x, guard);
}

int32_t eg_guard_join(eg_expressions *x, int32_t a, int32_t b) {
    if (a == b || b == EG_EMPTY) return a;
    if (a == EG_EMPTY) return b;
    if (x->nodes.at[a].kind != EG_WHOLE && x->nodes.at[b].kind != EG_WHOLE) return eg_union(x, a, b);
    const int32_t first = forbidden_futures(x, a);
    return eg_make_whole(x, eg_union(x, first, forbidden_futures(x, b)));
}

bool eg_guard_bars_end(const eg_expressions *x, int32_t guard) {
    return x->nodes.at[guard].kind == EG_WHOLE && x->nodes.at[x->nodes.at[guard].of].nullable;
}

/* --- what can still match --- */

/* Whether a nonempty match of `e` can be completed in a future that `guard` allows. */
static bool can_match(eg_expressions *x, int32_t e, int32_t guard) {
    const eg_bytes first = *eg_first(x, e);
    bool any = false;
    eg_work(x->pool->fault, 64);
    for (int byte = 0; byte < 256; byte++) {
        if (!eg_bytes_has(&first, byte) || eg_step(x, e, byte) == EG_EMPTY) continue;
        const int32_t next = eg_guard_step(x, guard, byte);
        if (next == EG_EMPTY) return true;
        any |= next >= 0;
    }
    if (!any) return false;
    const int32_t allowed = eg_make_negation(x, forbidden_futures(x, guard));
    return !eg_expression_is_empty(x, eg_intersection(x, futures_with_more(x, e), allowed));
}

/* What the entries of `scratch` from `begin` to `end` match, joined to `before`. */
static int32_t join_texts(eg_expressions *x, int32_t before, int32_t begin, int32_t end) {
    const int32_t base = x->scratch.count;
    eg_push_member(x, EG_UNION, before);
    for (int32_t i = begin; i < end; i += 2) eg_push_member(x, EG_UNION, x->scratch.at[i + 1]);
    return eg_make_union(x, base);
}

/* How many entries of `scratch` from `begin` to that at `own` are not closed. */
static int32_t count_open(const eg_expressions *x, int32_t begin, int32_t own) {
    int32_t count = 0;
    for (int32_t i = begin; i <= own; i += 2) count += !(x->scratch.at[i] & EG_CLOSED);
    return count;
}

/* Whether anything can be read as the entry at `own` on `scratch`, whose keywords begin at `begin`. */
static bool entry_can_be_read(eg_expressions *x, int32_t begin, int32_t own, int32_t guard) {
    const int32_t e = x->scratch.at[own + 1];
    if (count_open(x, begin, own) == (own - begin) / 2 + 1) return can_match(x, e, guard);
    if (guard != EG_EMPTY && !can_match(x, e, guard)) return false; /* nor is any keyword */
    int32_t before = EG_EMPTY, joined = begin; /* what is read as a keyword tried earlier, up to `joined` */
    for (int32_t i = begin; i <= own; i += 2) {
        if (x->scratch.at[i] & EG_CLOSED) continue;
        const int32_t here = i < own ? eg_intersection(x, e, x->scratch.at[i + 1]) : e;
        if (joined < i) before = join_texts(x, before, joined, i);
        joined = i;
        if (can_match(x, eg_intersection(x, here, eg_make_negation(x, before)), guard)) return true;
    }
    return false;
}

/* `guard` joined with those under which what comes after the entries of `scratch` from `begin` to `end` is
 * tried. */
static int32_t join_guards(eg_expressions *x, int32_t guard, int32_t begin, int32_t end) {
    const int32_t base = x->scratch.count;
    int32_t whole = EG_EMPTY;
    for (int32_t i = begin; i < end; i += 2) {
        const int32_t entry = x->scratch.at[i], left = x->scratch.at[i + 1];
        if (x->nodes.at[left].kind == EG_WHOLE) whole = eg_guard_join(x, whole, left);
        else if (entry == EG_TAKEN || !(entry & EG_KEYWORD || x->nodes.at[left].guards))
            eg_push_member(x, EG_UNION, left);
    }
    return eg_guard_join(x, eg_guard_join(x, guard, eg_make_union(x, base)), whole);
}

/* Whether any entry of `scratch` from `base` to `end` can be read under `guard`; with `shown`, ignored ones
 * do not count. */
static bool any_can_be_read(eg_expressions *x, int32_t base, int32_t end, int32_t guard, bool shown) {
    int32_t begin = base, joined = base; /* `guard` contains those of the entries up to `joined` */
    for (int32_t i = base; i < end; i += 2) {
        const int32_t entry = x->scratch.at[i];
        if (entry != EG_TAKEN && entry & EG_KEYWORD) continue;
        if (entry != EG_TAKEN && !(shown && entry & EG_IGNORED) && count_open(x, begin, i)) {
            if (joined < begin) guard = join_guards(x, guard, joined, begin);
            joined = begin;
            if (entry_can_be_read(x, begin, i, guard)) return true;
        }
        begin = i + 2;
    }
    return false;
}

/* any_can_be_read of the lexer `e`. */
static bool lexer_can_read(eg_expressions *x, int32_t e, int32_t guard, bool shown) {
    const eg_expression n = x->nodes.at[e];
    if (n.kind != EG_LEXER) return false;
    const int32_t base = x->scratch.count;
    EG_APPEND(x->pool, x->scratch, x->lists.at + n.members, n.count);
    const bool out = any_can_be_read(x, base, base + n.count, guard, shown);
    x->scratch.count = base;
    return out;
}

bool eg_can_go_on(eg_expressions *x, int32_t e, int32_t guard) {
    if (guard == EG_EMPTY) return true;
    const uint64_t key = eg_pair(e, guard);
    const int32_t known = eg_map_get(&x->goes_on, key, -1);
    if (known >= 0) return known;
    const bool out = x->nodes.at[e].kind == EG_LEXER ? lexer_can_read(x, e, guard, false)
                                                     : can_match(x, e, guard);
    eg_map_put(x->pool, &x->goes_on, key, out);
    return out;
}

bool eg_lexer_can_go_on(eg_expressions *x, int32_t e, int32_t guard) {
    return x->nodes.at[e].kind == EG_LEXER && eg_can_go_on(x, e, guard);
}

bool eg_lexer_can_read(eg_expressions *x, int32_t e) { return lexer_can_read(x, e, EG_EMPTY, true); }

/* --- construction and derivatives of lexers --- */

int32_t eg_make_lexer(eg_expressions *x, int32_t base) {
    const int32_t count = x->scratch.count - base;
    bool nullable = false;
    for (int32_t i = base; i < x->scratch.count && !nullable; i += 2)
        nullable = eg_is_own(x->scratch.at[i]) && x->nodes.at[x->scratch.at[i + 1]].nullable;
    const bool lives = any_can_be_read(x, base, base + count, EG_EMPTY, false);
    int32_t out = EG_EMPTY;
    if (lives || nullable) out = eg_intern_list(x, lives ? EG_LEXER : EG_LEXED, x->scratch.at + base, count);
    x->scratch.count = base;
    return out;
}

static void push_pair(eg_expressions *x, int32_t entry, int32_t e) {
    EG_PUSH(x->pool, x->scratch, entry);
    EG_PUSH(x->pool, x->scratch, e);
}

int32_t eg_lexer_of(eg_expressions *x, const int32_t *pairs, int32_t count) {
    const int32_t base = x->scratch.count;
    int32_t kept = base; /* from here on, keywords whose terminal is still to come */
    for (int32_t i = 0; i < 2 * count; i += 2) {
        const int32_t e = pairs[i + 1];
        push_pair(x, pairs[i], e);
        if (pairs[i] & EG_KEYWORD) continue;
        if (e == EG_EMPTY) x->scratch.count = kept;
        else if (x->nodes.at[e].guards) push_pair(x, EG_TAKEN, eg_make_whole(x, eg_make_future(x, e)));
        kept = x->scratch.count;
    }
    x->scratch.count = kept;
    return eg_make_lexer(x, base);
}

/* Push the derivative of EG_TAKEN by a byte. The derivative of the entry before may already imply it, and
 * two in a row are joined. */
static void push_taken(eg_expressions *x, int32_t base, int32_t guard) {
    const int32_t last = x->scratch.count - 2;
    if (guard == EG_EMPTY) return;
    if (last >= base && x->scratch.at[last] == EG_TAKEN) {
        guard = eg_guard_join(x, x->scratch.at[last + 1], guard);
        x->scratch.at[last + 1] = guard;
        return;
    }
    if (last >= base && !x->nodes.at[x->scratch.at[last + 1]].guards &&
        eg_make_whole(x, eg_make_future(x, x->scratch.at[last + 1])) == guard)
        return;
    push_pair(x, EG_TAKEN, guard);
}

/* Drops entries that can no longer match, with the keywords of such a terminal; everything after a terminal
 * that has won; and everything after the last entry that can be read. */
int32_t eg_derive_lexer(eg_expressions *x, const eg_expression *n, int byte) {
    const int32_t base = x->scratch.count;
    int32_t begin = base;  /* from here on, keywords whose terminal is still to come */
    int32_t kept = base;   /* up to here, entries that are kept */
    bool open = false, won = false;
    eg_work(x->pool->fault, n->count);
    for (int32_t i = 0; i < n->count && !won; i += 2) {
        const int32_t entry = eg_member(x, n, i);
        const int32_t next = eg_step(x, eg_member(x, n, i + 1), byte);
        if (entry == EG_TAKEN) {
            push_taken(x, base, next);
            won = x->nodes.at[next].nullable;
            begin = x->scratch.count;
            continue;
        }
        if (next != EG_EMPTY) {
            push_pair(x, entry, next);
            open |= !(entry & EG_CLOSED);
        }
        if (entry & EG_KEYWORD) continue;
        if (next == EG_EMPTY || (!open && x->nodes.at[next].guards)) x->scratch.count = begin;
        else if (open) kept = x->scratch.count;
        won = next != EG_EMPTY && x->nodes.at[next].nullable && !x->nodes.at[next].guards;
        begin = x->scratch.count;
        open = false;
    }
    x->scratch.count = kept;
    return eg_make_lexer(x, base);
}

/* --- how a lexer ends --- */

static int add_reading(eg_expressions *x, eg_reading *out, int count, eg_reading reading) {
    if (reading.entry & EG_CLOSED) return count;
    if (count == EG_MAX_READINGS)
        eg_fail(x->pool->fault, ES_GRAMMAR_LIMIT, "a text can be read in more than %d ways at once", count);
    out[count] = reading;
    return count + 1;
}

/* Add the ways in which `left`, which looks ahead, can end: `reading` holds the guard without its own. */
static int add_readings(eg_expressions *x, eg_reading *out, int count, eg_reading reading, int32_t left) {
    int32_t endings[EG_MAX_ENDINGS];
    const int ways = eg_expression_endings(x, left, endings);
    const int32_t guard = eg_guard_join(x, reading.guard, eg_make_whole(x, futures_with_more(x, left)));
    for (int i = 0; i < ways; i++) {
        reading.guard = eg_guard_join(x, guard, endings[i]);
        count = add_reading(x, out, count, reading);
    }
    return count;
}

static int lexer_readings(eg_expressions *x, const eg_expression n, eg_reading *out) {
    int32_t guard = EG_EMPTY, keyword = -1;
    int count = 0;
    for (int32_t i = 0; i < n.count; i += 2) {
        const int32_t entry = eg_member(x, &n, i), left = eg_member(x, &n, i + 1);
        const bool nullable = x->nodes.at[left].nullable, looks = x->nodes.at[left].guards;
        if (entry != EG_TAKEN && entry & EG_KEYWORD) {
            if (nullable && keyword < 0) keyword = entry;
            continue;
        }
        if (entry == EG_TAKEN || !looks) guard = eg_guard_join(x, guard, left);
        if (entry != EG_TAKEN && nullable) {
            const int32_t read = keyword < 0 ? entry : keyword;
            if (!looks) return add_reading(x, out, count, (eg_reading){read, guard});
            count = add_readings(x, out, count, (eg_reading){read, guard}, left);
        }
        keyword = -1;
    }
    return count;
}

int eg_expression_readings(eg_expressions *x, int32_t e, eg_reading *out) {
    const eg_expression n = x->nodes.at[e];
    if (n.kind == EG_LEXER || n.kind == EG_LEXED) return lexer_readings(x, n, out);
    int32_t endings[EG_MAX_ENDINGS];
    const int count = eg_expression_endings(x, e, endings);
    for (int i = 0; i < count; i++) out[i] = (eg_reading){-1, endings[i]};
    return count;
}
