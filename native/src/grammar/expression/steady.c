/* Whether texts can go on after any characters of some classes, up to this many.
 *
 * A pattern within a length has as many derivatives as there are places for its parts, and most of them
 * need not be told apart. After any n characters X, a match of X{low,high}Y may go on as X{low-n,high-n}Y;
 * so may an intersection of such members, and a union of which one alternative may. And if what is left
 * after n characters matches anything, then so does what is left after fewer. */
#include "grammar/base/characters.h"
#include "grammar/expression/make.h"

enum {
    MOST_ALTERNATIVES = 8, /* of one expression that are examined */
    MOST_MEMBERS = 64,     /* of a union among which they are chosen */
    NONE = -2,             /* instead of a place in `steadies` */
    IDLE_STEPS = 4096      /* limit when testing the characters that begin with one byte */
};

/* --- single characters --- */

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

uint64_t eg_expression_unchanged_after(eg_expressions *x, int32_t e) {
    if (x->nodes.at[e].unchanged == UINT64_MAX) {
        const uint64_t idle = classes_to(x, e, e);
        x->nodes.at[e].unchanged = idle;
    }
    return x->nodes.at[e].unchanged;
}

uint64_t eg_expression_single_characters(eg_expressions *x, int32_t e) {
    int32_t at = eg_map_get(&x->single, (uint64_t)e, -1);
    if (at < 0) {
        const uint64_t classes = classes_to(x, e, EG_EPSILON);
        at = x->singles.count;
        EG_PUSH(x->pool, x->singles, classes);
        eg_map_put(x->pool, &x->single, (uint64_t)e, at);
    }
    return x->singles.at[at];
}

/* --- several --- */

/* The repetition with which `e` begins, or -1; `rest` receives what follows it. */
static int32_t first_repeat(const eg_expressions *x, int32_t e, int32_t *rest) {
    const eg_expression *n = &x->nodes.at[e];
    const int32_t head = n->kind == EG_CONCAT ? n->head : e;
    *rest = n->kind == EG_CONCAT ? n->tail : EG_EPSILON;
    return x->nodes.at[head].kind == EG_REPEAT && !n->guards ? head : -1;
}

/* With how many X it may begin: EG_FAR for any number, -1 if it does not begin with something repeated. */
static int32_t most_repeats_first(const eg_expressions *x, int32_t e) {
    int32_t rest;
    const int32_t repeat = first_repeat(x, e, &rest);
    if (repeat < 0) return -1;
    return x->nodes.at[repeat].high < 0 ? EG_FAR : x->nodes.at[repeat].high;
}

/* What is left of a member, which begins with something repeated, after `count` of these. */
static int32_t after_repeats(eg_expressions *x, int32_t e, int32_t count) {
    int32_t rest;
    const eg_expression n = x->nodes.at[first_repeat(x, e, &rest)];
    const int32_t low = n.low > count ? n.low - count : 0;
    return eg_make_concat(x, eg_make_repeat(x, n.of, low, n.high < 0 ? -1 : n.high - count), rest);
}

static int32_t member_count(const eg_expressions *x, int32_t e, eg_kind_number kind) {
    return x->nodes.at[e].kind == kind ? x->nodes.at[e].count : 1;
}

/* The member `i` of a union or intersection, or `e` itself if it is none. */
static int32_t member_of(const eg_expressions *x, int32_t e, eg_kind_number kind, int32_t i) {
    return x->nodes.at[e].kind == kind ? eg_member(x, eg_node(x, e), i) : e;
}

/* The member of the union `e`, or `e` itself, that begins with the most characters, but at most `most`; -1
 * if there is none. */
static int32_t longest_first(eg_expressions *x, int32_t e, int32_t most) {
    int32_t out = -1, best = 0;
    const int32_t count = member_count(x, e, EG_UNION);
    eg_work(x->pool->fault, 1 + count / 2);
    for (int32_t i = 0; i < count && i < MOST_MEMBERS; i++) {
        const int32_t member = member_of(x, e, EG_UNION, i), first = most_repeats_first(x, member);
        if (first > best && first <= most) out = member, best = first;
    }
    return out;
}

/* Record the alternative of the intersection `e`, or of `e` itself, whose members begin with the most
 * characters, the one at `place` with at most `most`. Returns with how many that one begins, -1 if there is
 * none. */
static int32_t add_alternative(eg_expressions *x, int32_t e, int32_t place, int32_t most, bool over) {
    const int32_t base = x->scratch.count, count = member_count(x, e, EG_BOTH);
    eg_steady out = {.classes = UINT64_MAX, .most = EG_FAR, .proven = -1, .refuted = EG_FAR, .over = over};
    int32_t first = -1;
    for (int32_t i = 0; i < count; i++) {
        const int32_t member = longest_first(x, member_of(x, e, EG_BOTH, i), i == place ? most : EG_FAR);
        if (member < 0) {
            x->scratch.count = base;
            return -1;
        }
        int32_t rest;
        const int32_t of_member = most_repeats_first(x, member);
        if (i == place) first = of_member;
        if (of_member < out.most) out.most = of_member;
        out.classes &= eg_expression_single_characters(x, x->nodes.at[first_repeat(x, member, &rest)].of);
        eg_push_member(x, EG_BOTH, member);
    }
    out.alternative = eg_make_both(x, base);
    if (out.classes && out.alternative != EG_EMPTY) EG_PUSH(x->pool, x->steadies, out);
    return first;
}

/* Record the alternatives of `e` by the members of its first union, and where they begin in `steadies`. */
static void find_steadies(eg_expressions *x, int32_t e) {
    const eg_expression n = x->nodes.at[e];
    const int32_t begin = x->steadies.count;
    const bool whole = n.kind != EG_CONCAT || x->nodes.at[n.head].kind == EG_REPEAT;
    const int32_t core = whole ? e : n.head, count = member_count(x, core, EG_BOTH);
    x->nodes.at[e].steady = NONE;
    if (n.guards || (!whole && x->nodes.at[n.tail].logical)) return;
    int32_t place = 0, most = EG_FAR;
    while (place < count - 1 && x->nodes.at[member_of(x, core, EG_BOTH, place)].kind != EG_UNION) place++;
    for (int i = 0; i < MOST_ALTERNATIVES && most >= 0; i++)
        most = add_alternative(x, core, place, most, whole || x->nodes.at[n.tail].nullable) - 1;
    if (x->steadies.count == begin) return;
    x->steadies.at[x->steadies.count - 1].last = true;
    x->nodes.at[e].steady = begin;
}

/* Whether anything is left of the alternative after `count` characters. */
static bool leaves_anything(eg_expressions *x, int32_t alternative, int32_t count) {
    const int32_t base = x->scratch.count, members = member_count(x, alternative, EG_BOTH);
    for (int32_t i = 0; i < members; i++) {
        const int32_t left = after_repeats(x, member_of(x, alternative, EG_BOTH, i), count);
        eg_push_member(x, EG_BOTH, left);
    }
    return !eg_expression_is_empty(x, eg_make_both(x, base));
}

bool eg_expression_outlasts(eg_expressions *x, int32_t e, uint64_t classes, int32_t count) {
    if (x->nodes.at[e].steady == -1) find_steadies(x, e);
    for (int32_t i = x->nodes.at[e].steady; i >= 0; i++) {
        const eg_steady s = x->steadies.at[i];
        const int32_t needed = count + s.over;
        if (!(classes & ~s.classes) && needed <= s.most && needed < s.refuted) {
            const bool steady = needed <= s.proven || leaves_anything(x, s.alternative, needed);
            if (steady) return x->steadies.at[i].proven = needed > s.proven ? needed : s.proven, true;
            x->steadies.at[i].refuted = needed;
        }
        if (s.last) break;
    }
    return false;
}

bool eg_expression_counts_characters(eg_expressions *x, int32_t e) {
    if (x->nodes.at[e].steady == -1) find_steadies(x, e);
    const int32_t at = x->nodes.at[e].steady;
    return at >= 0 && x->steadies.at[at].most < EG_FAR;
}
