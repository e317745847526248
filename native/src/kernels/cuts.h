/* Cutting a long list after its first tokens without sorting it: keep the first in (key, position) order
 * whose running measure stays within a limit, found by bisecting the range of keys. */
#pragma once

#include "kernels/view.h"

struct es_state;

/* What is summed along the order, and its limit. Weighted sums are exact integers, so the order of addition
 * does not matter. */
typedef struct es_measure {
    enum { ES_BY_COUNT, ES_BY_WEIGHT, ES_BY_ENTROPY } kind;
    int64_t limit;      /* count or weight: inside while the sum is at most this */
    int64_t doubt;      /* weight: the limit may be greater, by at most this */
    int64_t (*exact)(struct es_state *st); /* with a doubt: the limit, of the row before it is cut */
    double level, most; /* entropy: inside while level * weight + information <= most */
} es_measure;

/* The elements to be ordered; arrays that the measure does not use may be NULL. */
typedef struct es_ranked {
    const uint32_t *keys; /* `descending_key` of floats; ascending order */
    const int32_t *weights;
    const int32_t *information;
    int64_t n;
} es_ranked;

/* The first `count` elements. */
ES_INLINE es_measure by_count(int64_t count) { return (es_measure){.kind = ES_BY_COUNT, .limit = count}; }

ES_INLINE int inside(const es_measure *m, const es_tally *t) {
    if (m->kind == ES_BY_COUNT) return t->count <= m->limit;
    if (m->kind == ES_BY_WEIGHT) return t->weight <= m->limit;
    return m->level * (double)t->weight + (double)t->information <= m->most;
}

ES_INLINE void tally(es_tally *t, const es_measure *m, const es_ranked *r, int64_t i) {
    t->count++;
    if (m->kind != ES_BY_COUNT) t->weight += r->weights[i];
    if (m->kind == ES_BY_ENTROPY) t->information += r->information[i];
}

/* Keys of logits, in descending order of the logit; the sign of zero is ignored. */
ES_INLINE uint32_t descending_key(float x) {
    const int32_t bits = es_float_bits(x + 0.0f);
    return ~((uint32_t)bits ^ ((uint32_t)(bits >> 31) | 0x80000000u));
}

ES_INLINE float logit_of_key(uint32_t key) {
    const uint32_t bits = ~key;
    return es_float_of((int32_t)(bits & 0x80000000u ? bits ^ 0x80000000u : ~bits));
}

/* The key in [low, high) of the value halfway between the values of two keys. */
ES_INLINE uint32_t middle_value(uint32_t low, uint32_t high) {
    const uint32_t key = descending_key(logit_of_key(low) * 0.5f + logit_of_key(high) * 0.5f);
    return key < low ? low : key >= high ? high - 1 : key;
}

typedef struct es_cut {
    uint32_t key;    /* the key of the first element that is not inside */
    int none;        /* all elements are inside */
    es_tally before; /* sums over all elements with smaller keys */
} es_cut;

/* Which of the elements from i on, as many as a vector has, have keys at most `span` above `first`. Lists may be read
 * to the end of the last vector. */
ES_INLINE uint32_t keys_within(const es_ranked *r, int64_t i, uint32_t first, uint32_t span) {
    const uint32_t within = vi_within(vi_load((const int32_t *)r->keys + i), first, span);
    return r->n - i < W ? within & ((1u << (r->n - i)) - 1) : within;
}

/* The sums over the elements with keys in [first, last], added to `start`. */
static es_tally tally_between(const es_ranked *r, const es_measure *m, es_tally start, uint32_t first,
                              uint32_t last) {
    const int weighed = m->kind != ES_BY_COUNT, informed = m->kind == ES_BY_ENTROPY;
    const uint32_t span = last - first;
    es_tally sum = start;
    vl weight = vl_zero(), information = vl_zero();
    int64_t i = 0;
    for (; i + W <= r->n; i += W) {
        const vi keys = vi_load((const int32_t *)r->keys + i);
        sum.count += __builtin_popcount(vi_within(keys, first, span));
        if (weighed) weight = vl_add(weight, vi_where(keys, first, span, vi_load(r->weights + i)));
        if (informed)
            information = vl_add(information, vi_where(keys, first, span, vi_load(r->information + i)));
    }
    if (weighed) sum.weight += vl_total(weight);
    if (informed) sum.information += vl_total(information);
    for (; i < r->n; i++)
        if (r->keys[i] - first <= span) tally(&sum, m, r, i);
    return sum;
}

/* Restrict the search to the elements whose keys are in [first, last]. In place, nothing is overwritten that has not
 * been read: what stays is written at or before where it was. */
static void narrow(es_ranked *r, const es_measure *m, uint32_t first, uint32_t last, es_scratch *s) {
    int64_t n = 0;
    for (int64_t i = 0; i < r->n; i += W) {
        const uint32_t near = keys_within(r, i, first, last - first);
        vi_pack((int32_t *)s->near_keys + n, vi_load((const int32_t *)r->keys + i), near);
        if (m->kind != ES_BY_COUNT) vi_pack(s->near_weights + n, vi_load(r->weights + i), near);
        if (m->kind == ES_BY_ENTROPY) vi_pack(s->near_information + n, vi_load(r->information + i), near);
        n += __builtin_popcount(near);
    }
    *r = (es_ranked){s->near_keys, s->near_weights, s->near_information, n};
}

/* Where to cut a list. `start` sums elements that precede all of these, and is inside. */
static es_cut find_cut(const es_ranked *all, const es_measure *m, es_tally start, es_scratch *s) {
    es_ranked r = *all;
    uint32_t low = UINT32_MAX, high = 0;
    for (int64_t i = 0; i < r.n; i++) {
        low = r.keys[i] < low ? r.keys[i] : low;
        high = r.keys[i] > high ? r.keys[i] : high;
    }
    es_cut cut = {high, 0, start};
    es_tally up_to_high = tally_between(&r, m, start, low, high);
    if (!r.n || inside(m, &up_to_high)) {
        cut.none = 1;
        return cut;
    }
    /* Keys below `low` are inside and summed in `before`; keys up to `high`, taken together, are not
     * inside. */
    for (int turn = 0; low < high; turn++) {
        if ((up_to_high.count - cut.before.count) * 3 < r.n) narrow(&r, m, low, high, s);
        /* Bisecting values usually converges sooner; bisecting keys always converges. */
        const uint32_t middle = turn % 4 == 3 ? low + (high - low) / 2 : middle_value(low, high);
        const es_tally sum = tally_between(&r, m, cut.before, low, middle);
        if (inside(m, &sum)) {
            cut.before = sum;
            low = middle + 1;
        } else {
            up_to_high = sum;
            high = middle;
        }
    }
    cut.key = high;
    return cut;
}

enum { ES_SORT_BITS = 11, ES_SORT_DIGITS = 1 << ES_SORT_BITS };

/* Sort keys in ascending order. Both arrays are overwritten; returns the one with the result. */
static uint32_t *sort_keys(uint32_t *keys, uint32_t *spare, int64_t n) {
    uint32_t differing = 0; /* bits */
    for (int64_t i = 0; i < n; i++) differing |= keys[i] ^ keys[0];
    for (int shift = 0; shift < 32; shift += ES_SORT_BITS) {
        if (!(differing >> shift & (ES_SORT_DIGITS - 1))) continue;
        uint32_t starts[ES_SORT_DIGITS] = {0}, at = 0;
        for (int64_t i = 0; i < n; i++) starts[keys[i] >> shift & (ES_SORT_DIGITS - 1)]++;
        for (int digit = 0; digit < ES_SORT_DIGITS; digit++) {
            const uint32_t count = starts[digit];
            starts[digit] = at;
            at += count;
        }
        for (int64_t i = 0; i < n; i++) spare[starts[keys[i] >> shift & (ES_SORT_DIGITS - 1)]++] = keys[i];
        uint32_t *const swapped = keys;
        keys = spare;
        spare = swapped;
    }
    return keys;
}

/* Sort (key, index) pairs by ascending key, stably. The result is in `keys` and `order`; the other two arrays
 * are overwritten. */
static void sort_pairs(uint32_t *keys, int32_t *order, uint32_t *other_keys, int32_t *other_order,
                       int64_t n) {
    for (int shift = 0; shift < 32; shift += 8) {
        int64_t starts[256] = {0}, at = 0;
        for (int64_t i = 0; i < n; i++) starts[keys[i] >> shift & 255]++;
        for (int b = 0; b < 256; b++) {
            const int64_t count = starts[b];
            starts[b] = at;
            at += count;
        }
        for (int64_t i = 0; i < n; i++) {
            const int64_t to = starts[keys[i] >> shift & 255]++;
            other_keys[to] = keys[i];
            other_order[to] = order[i];
        }
        uint32_t *const swapped_keys = keys;
        keys = other_keys;
        other_keys = swapped_keys;
        int32_t *const swapped_order = order;
        order = other_order;
        other_order = swapped_order;
    } /* after four passes the result is back in the first pair of arrays */
}
