/* A few tokens, sorted by (logit descending, id ascending). Most rows get this short after one truncation,
 * and then every rule can be implemented exactly as it is defined. */
#pragma once

#include "kernels/view.h"

typedef struct es_few {
    int32_t n;
    int32_t places;          /* how many there were when they were sorted */
    float logits[ES_SMALL + ES_SLACK];
    int32_t ids[ES_SMALL];
    int32_t place[ES_SMALL]; /* each token's index among those, by id */
    int32_t weights[ES_SMALL + ES_SLACK];
    int64_t total;           /* of the weights */
    int weighed;
} es_few;

/* order[r] = the index of the value of rank r, descending, equal values by index. values[n ..] is overwritten
 * up to a whole vector. */
static void rank_values(float *values, int32_t n, int32_t *order) {
    for (int i = 0; i < W; i++) values[n + i] = -__builtin_inff();
    for (int32_t i = 0; i < n; i++) {
        const vf own = vf_set(values[i]);
        int32_t rank = 0;
        int32_t j = 0;
        for (; j + W <= i; j += W) rank += __builtin_popcount(vf_ge(vf_load(values + j), own));
        const vf middle = vf_load(values + j);
        const uint32_t before = ((uint32_t)1 << (i - j)) - 1;
        rank += __builtin_popcount((vf_ge(middle, own) & before) | (vf_gt(middle, own) & ~before));
        for (j += W; j < n; j += W) rank += __builtin_popcount(vf_gt(vf_load(values + j), own));
        order[rank] = i;
    }
}

/* Take over a list of at most ES_SMALL tokens, ids ascending; its values are padded to a whole vector. */
static void few_from_list(es_few *f, float *values, const int32_t *ids, int32_t n) {
    int32_t order[ES_SMALL];
    rank_values(values, n, order);
    for (int32_t r = 0; r < n; r++) {
        f->logits[r] = values[order[r]];
        f->ids[r] = ids[order[r]];
        f->place[r] = order[r];
    }
    f->n = f->places = n;
    f->weighed = 0;
}

/* ranks[p] = the rank of the token whose place is p, -1 if it is gone; [f->places], ids ascending. */
static void few_by_place(const es_few *f, int32_t *ranks) {
    for (int32_t p = 0; p < f->places; p++) ranks[p] = -1;
    for (int32_t r = 0; r < f->n; r++) ranks[f->place[r]] = r;
}

/* Convert back into a list with ids ascending. */
static int32_t few_to_list(const es_few *f, float *values, int32_t *ids) {
    int32_t ranks[ES_SMALL];
    few_by_place(f, ranks);
    int32_t n = 0;
    for (int32_t p = 0; p < f->places; p++)
        if (ranks[p] >= 0) {
            values[n] = f->logits[ranks[p]];
            ids[n++] = f->ids[ranks[p]];
        }
    return n;
}

static void few_weigh(es_few *f) {
    if (f->weighed) return;
    f->total = list_weights(f->logits, f->n, f->logits[0], f->weights);
    f->weighed = 1;
}

/* The information of each token, and the sum. */
static int64_t few_information(es_few *f, int32_t *information) {
    few_weigh(f);
    return list_information(f->logits, f->n, f->logits[0], f->weights, information);
}

/* Keep the first `count`. The best token stays, so the weights do too. */
static void few_cut(es_few *f, int64_t count) {
    if (count >= f->n) return;
    for (int32_t i = (int32_t)count; f->weighed && i < f->n; i++) f->total -= f->weights[i];
    f->n = (int32_t)count;
}

/* Keep the marked tokens. */
static void few_keep(es_few *f, const uint8_t *kept) {
    int32_t n = 0;
    for (int32_t i = 0; i < f->n; i++)
        if (kept[i]) {
            f->logits[n] = f->logits[i];
            f->ids[n] = f->ids[i];
            f->place[n++] = f->place[i];
        }
    f->n = n;
    f->weighed = 0;
}

/* Restore the order after the values have changed; most tokens are still in position. */
static void few_resort(es_few *f) {
    for (int32_t i = 1; i < f->n; i++) {
        const float l = f->logits[i];
        const int32_t id = f->ids[i], place = f->place[i];
        int32_t j = i;
        for (; j && (f->logits[j - 1] < l || (f->logits[j - 1] == l && f->ids[j - 1] > id)); j--) {
            f->logits[j] = f->logits[j - 1];
            f->ids[j] = f->ids[j - 1];
            f->place[j] = f->place[j - 1];
        }
        f->logits[j] = l;
        f->ids[j] = id;
        f->place[j] = place;
    }
    f->weighed = 0;
}

/* The rank of the first token, ids ascending, whose cumulative weight exceeds `target`. */
static int32_t few_pick(const es_few *f, const int32_t *weights, int64_t target) {
    int32_t ranks[ES_SMALL];
    few_by_place(f, ranks);
    int64_t sum = 0;
    int32_t last = 0;
    for (int32_t p = 0; p < f->places; p++)
        if (ranks[p] >= 0) {
            last = ranks[p];
            sum += weights[last];
            if (sum > target) break;
        }
    return last;
}
