/* Cutting a long list after its first tokens without sorting it: keep the first in (key, position) order
 * whose running measure stays within a limit, found by bisecting the range of keys. */
#pragma once

#include "kernels/view.h"

/* What is summed along the order, and its limit. Weighted sums are exact integers, so the order of addition
 * does not matter. */
typedef struct es_measure {
    enum { ES_BY_COUNT, ES_BY_WEIGHT, ES_BY_ENTROPY } kind;
    int64_t limit;      /* count or weight: inside while the sum is at most this */
    int64_t doubt;      /* weight: the limit may be greater, by at most this */
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

/* The sums over the elements with keys in [first, last], added to `start`. */
static es_tally tally_between(const es_ranked *r, const es_measure *m, es_tally start, uint32_t first,
                              uint32_t last) {
    const uint32_t span = last - first;
    int32_t count = 0; /* as narrow as the keys, so that the loop vectorizes */
    int64_t weight = 0, information = 0;
    for (int64_t i = 0; i < r->n; i++) count += r->keys[i] - first <= span;
    if (m->kind != ES_BY_COUNT)
        for (int64_t i = 0; i < r->n; i++) weight += r->keys[i] - first <= span ? r->weights[i] : 0;
    if (m->kind == ES_BY_ENTROPY)
        for (int64_t i = 0; i < r->n; i++) information += r->keys[i] - first <= span ? r->information[i] : 0;
    return (es_tally){start.count + count, start.weight + weight, start.information + information};
}

/* Restrict the search to the elements whose keys are in [first, last]. */
static void narrow(es_ranked *r, const es_measure *m, uint32_t first, uint32_t last, es_scratch *s) {
    int64_t n = 0;
    for (int64_t i = 0; i < r->n; i++) {
        s->near_keys[n] = r->keys[i];
        if (m->kind != ES_BY_COUNT) s->near_weights[n] = r->weights[i];
        if (m->kind == ES_BY_ENTROPY) s->near_information[n] = r->information[i];
        n += r->keys[i] - first <= last - first;
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
