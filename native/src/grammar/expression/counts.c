/* Counts: members of a union that differ in one only, and intersections without them. */
#include "grammar/expression/make.h"

/* --- unions --- */

/* X{2,5}Y|X{4,9}Y is X{2,9}Y. Without this, a text under counts within counts could be split into so many
 * parts in so many ways that each byte adds members. */

enum {
    FEW_COUNTED = 8, /* so many members stay as they are */
    PLACES = 4       /* parts of a member in which a count is looked for */
};

/* A member on the stack of integers. */
typedef struct counted {
    int32_t hash; /* of all but the count */
    int32_t low, high;
    int32_t member;
} counted;

enum { COUNTED_INTS = sizeof(counted) / sizeof(int32_t) };

/* The part of `e` at a place, or -1; `tail` receives what follows it. */
static int32_t part_at(const eg_expressions *x, int32_t e, int place, int32_t *tail) {
    for (;; place--) {
        const eg_expression *n = &x->nodes.at[e];
        const bool last = n->kind != EG_CONCAT;
        *tail = last ? EG_EPSILON : n->tail;
        if (!place) return last ? e : n->head;
        if (last) return -1;
        e = n->tail;
    }
}

/* The part of `e` at `place` if it is repeated up to some number of times, else -1. */
static int32_t count_at(const eg_expressions *x, int32_t e, int place, int32_t *tail) {
    const int32_t part = part_at(x, e, place, tail);
    const eg_expression *n = part < 0 ? NULL : &x->nodes.at[part];
    return n && n->kind == EG_REPEAT && n->high >= 0 && !x->nodes.at[e].guards ? part : -1;
}

static bool has_count(const eg_expressions *x, int32_t e) {
    int32_t tail;
    for (int place = 0; place < PLACES; place++)
        if (count_at(x, e, place, &tail) >= 0) return true;
    return false;
}

/* Whether `a` and `b` differ at most in the count at `place`, which both have. */
static bool same_but_count(const eg_expressions *x, int32_t a, int32_t b, int place) {
    int32_t tail, other;
    for (int i = 0; i < place; i++)
        if (part_at(x, a, i, &tail) != part_at(x, b, i, &other)) return false;
    const int32_t one = part_at(x, a, place, &tail), two = part_at(x, b, place, &other);
    return x->nodes.at[one].of == x->nodes.at[two].of && tail == other;
}

/* `e` with another count at `place`. */
static int32_t with_count(eg_expressions *x, int32_t e, int place, int32_t low, int32_t high) {
    const eg_expression n = x->nodes.at[e];
    if (place) return eg_make_concat(x, n.head, with_count(x, n.tail, place - 1, low, high));
    const int32_t of = x->nodes.at[n.kind == EG_CONCAT ? n.head : e].of,
                  repeat = eg_make_repeat(x, of, low, high);
    return n.kind == EG_CONCAT ? eg_make_concat(x, repeat, n.tail) : repeat;
}

static counted counted_at(const eg_expressions *x, int32_t e, int place) {
    int32_t key[PLACES + 2], tail, count = 0;
    for (int i = 0; i < place; i++) key[count++] = part_at(x, e, i, &tail);
    const eg_expression *n = &x->nodes.at[part_at(x, e, place, &tail)];
    key[count++] = n->of;
    key[count++] = tail;
    return (counted){(int32_t)eg_hash_ints(key, count, 31), n->low, n->high, e};
}

static int compare_counted(const void *a, const void *b) {
    const counted *x = a, *y = b;
    if (x->hash != y->hash) return x->hash < y->hash ? -1 : 1;
    if (x->low != y->low) return x->low < y->low ? -1 : 1;
    return (x->member > y->member) - (x->member < y->member);
}

/* Merge the members from `base` to `end` on the stack whose counts at `place` overlap or meet. Returns the
 * new end: fewer members are left. */
static int32_t merge_counts_at(eg_expressions *x, int32_t base, int32_t end, int place) {
    int32_t kept = base;
    for (int32_t i = base; i < end; i++) {
        const int32_t e = x->scratch.at[i];
        int32_t tail;
        if (count_at(x, e, place, &tail) < 0) {
            x->scratch.at[kept++] = e;
            continue;
        }
        const counted one = counted_at(x, e, place);
        EG_RESERVE(x->pool, x->scratch, COUNTED_INTS);
        memcpy(x->scratch.at + x->scratch.count, &one, sizeof one);
        x->scratch.count += COUNTED_INTS;
    }
    const int32_t count = (x->scratch.count - end) / COUNTED_INTS;
    eg_work(x->pool->fault, 4 * (end - base) + eg_sorting(count));
    eg_sort(x->scratch.at + end, count, sizeof(counted), compare_counted);
    for (int32_t i = 0; i < count;) {
        counted one, next;
        memcpy(&one, x->scratch.at + end + i * COUNTED_INTS, sizeof one);
        const int32_t low = one.low, high = one.high; /* of the first */
        while (++i < count) {
            memcpy(&next, x->scratch.at + end + i * COUNTED_INTS, sizeof next);
            if (next.low > one.high + 1 || !same_but_count(x, one.member, next.member, place)) break;
            if (next.high > one.high) one.high = next.high;
        }
        const bool same = low == one.low && high == one.high;
        const int32_t merged = same ? one.member : with_count(x, one.member, place, low, one.high);
        x->scratch.at[kept++] = merged;
    }
    x->scratch.count = end;
    return kept;
}

void eg_merge_counts(eg_expressions *x, int32_t base) {
    int32_t end = x->scratch.count, have = 0;
    for (int32_t i = base; i < end && have < FEW_COUNTED; i++) have += has_count(x, x->scratch.at[i]);
    if (have < FEW_COUNTED) return;
    for (int place = 0; place < PLACES; place++) {
        end = merge_counts_at(x, base, end, place);
        x->scratch.count = end;
    }
    eg_sort_members(x, base);
}

/* --- intersections --- */

/* The member `e` of an intersection without the count at its end, if there is one. */
static int32_t without_count(eg_expressions *x, int32_t e, eg_counts *counts) {
    const eg_expression n = x->nodes.at[e];
    if (n.kind == EG_CONCAT) {
        const int32_t rest = without_count(x, n.tail, counts);
        if (rest == n.tail) return e;
        counts->exact &= eg_is_code(x, n.head);
        return eg_make_concat(x, n.head, rest);
    }
    if (n.kind != EG_REPEAT || (n.low == 0 && n.high < 0)) return e;
    counts->number++;
    if (n.high >= 0 && n.high < counts->least) counts->least = n.high;
    if (n.low > counts->low) counts->low = n.low;
    if (n.low) counts->exact &= eg_is_code(x, n.of);
    return eg_make_repeat(x, n.of, 0, -1);
}

int32_t eg_widen_count(eg_expressions *x, int32_t e, int32_t most, int32_t least) {
    const eg_expression n = x->nodes.at[e];
    if (n.kind == EG_CONCAT) {
        const int32_t rest = eg_widen_count(x, n.tail, most, least);
        return rest == n.tail ? e : eg_make_concat(x, n.head, rest);
    }
    if (n.kind != EG_REPEAT || (n.low <= least && n.high <= most)) return e;
    return eg_make_repeat(x, n.of, n.low < least ? n.low : least, n.high > most ? -1 : n.high);
}

int32_t eg_drop_counts(eg_expressions *x, const eg_expression *n, eg_counts *counts) {
    const int32_t base = x->scratch.count;
    *counts = (eg_counts){.least = EG_FAR, .exact = true};
    for (int32_t i = 0; i < n->count; i++) {
        const int32_t member = without_count(x, eg_member(x, n, i), counts);
        eg_push_member(x, EG_BOTH, member);
    }
    return eg_make_both(x, base);
}
