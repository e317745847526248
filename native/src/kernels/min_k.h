/* min_k: the cut at the steepest drop of the sorted logits. */
#pragma once

#include "kernels/row_state.h"

/* How many tokens are sorted at first, and how many times as many next. */
enum { ES_CLIFF_HEAD = 64, ES_CLIFF_GROWTH = 4 };

/* The least value of a chunk; below its floor if any has been removed, other than by the mask. */
ES_INLINE float least_in(es_chunk chunk, int32_t kind, int masked) {
    const vf none = vf_set(__builtin_inff());
    vf least[4] = {none, none, none, none};
    for (int i = 0; i < ES_CHUNK; i += 4 * W)
        for (int k = 0; k < 4; k++) {
            const vf x = load_kind(chunk.p, i + k * W, kind);
            least[k] = vf_min(masked ? vf_allowed(chunk.allowed, i + k * W, x, none) : x, least[k]);
        }
    const vf all = vf_min(vf_min(least[0], least[1]), vf_min(least[2], least[3]));
    return -vf_greatest(vf_sub(vf_set(0.0f), all));
}

/* The least logit of chunk c that is left, if that is below `least`. */
static float lower_of_chunk(const es_view *v, int64_t c, float least) {
    float buffer[ES_CHUNK], lowest;
    const es_chunk chunk = chunk_of(v, c, buffer);
    BY_FORM(chunk, lowest = least_in(chunk, KIND, MASKED));
    if (lowest >= chunk.floor) return lowest * chunk.scale < least ? lowest * chunk.scale : least;
    fill_chunk(v, c, buffer);
    for (int i = 0; i < ES_CHUNK; i++) least = buffer[i] >= -FLT_MAX && buffer[i] < least ? buffer[i] : least;
    return least;
}

/* The least logit that is left. */
static float least_logit(const es_state *st) {
    if (st->is_few) return st->few.logits[st->few.n - 1];
    float least = __builtin_inff();
    for (int64_t c = 0; c < chunks_of(st->v.n); c++) least = lower_of_chunk(&st->v, c, least);
    return least;
}

/* After how many of the n sorted logits of a head the steepest drop is; 0 if there may be a steeper one further down,
 * where a drop is at most what is left of the range, divided by n. */
static int64_t find_cliff(const float *logits, int64_t n, int whole, double lowest) {
    double steepest = -1.0;
    int64_t cliff = 1;
    for (int64_t i = 1; i < n; i++) {
        const double step = (double)logits[i - 1] - (double)logits[i];
        if (step < 0.999 * steepest * (double)i) continue; /* without a division */
        const double drop = step / (double)i;
        if (drop > steepest) {
            steepest = drop;
            cliff = i;
        }
    }
    return whole || ((double)logits[n - 1] - lowest) / (double)n <= steepest ? cliff : 0;
}

static int64_t cliff_of(es_state *st, double lowest) {
    if (st->is_few) return find_cliff(st->few.logits, st->few.n, 1, lowest);
    es_scratch *s = st->s;
    float *const values = s->values[spare_list(st)];
    for (int64_t k = ES_CLIFF_HEAD, cliff;; k *= ES_CLIFF_GROWTH) {
        const int64_t n = collect_leading(st, k);
        if (!n) return 1; /* only where logits change */
        fill_keys(values, n, s->keys);
        const uint32_t *const sorted = sort_keys(s->keys, s->more_keys, n);
        for (int64_t i = 0; i < n; i++) values[i] = logit_of_key(sorted[i]);
        if ((cliff = find_cliff(values, n, n < k, lowest))) return cliff;
    }
}

static int32_t apply_min_k(es_state *st) {
    if (!st->is_few) find_maxima(&st->v);
    const double peak = st->is_few ? st->few.logits[0] : st->v.peak, lowest = least_logit(st);
    const double floor = st->p->min_k_tau / ((peak - lowest) + 1e-8);
    const int64_t n = st->is_few ? st->few.n : st->v.n, least = floor < (double)n ? es_integer(floor) : n;
    keep_leading(st, greater(cliff_of(st, lowest), least));
    return ES_ROW_OK;
}
