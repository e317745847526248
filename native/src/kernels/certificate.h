/* What the shares of a row (shares.h) decide for certain, and where they do not: then the caller weighs the whole
 * row, and the result is the same. */
#pragma once

#include "kernels/row_state.h"

/* Several chunks together: their weight is `mass`, up to a relative doubt, and up to `rounding`. */
typedef struct es_estimate {
    double mass, rounding;
} es_estimate;

ES_INLINE void add_estimate(es_estimate *sum, double mass) {
    sum->mass += mass;
    sum->rounding += mass < ES_CHUNK / 2 ? mass : ES_CHUNK / 2;
}

#define ES_MOST_MASS 0x1p61 /* 2^31 tokens, each at its most */

/* (1) to (6) in shares.h, relative to the mass; 0 if that is too much for the analysis. */
static double relative_doubt(const es_view *v) {
    const double u = 0x1p-24, p = (v->peak < 0 ? -(double)v->peak : (double)v->peak) * (double)ES_LOG2_E;
    const int roundings = (v->share_scale != 1.0f ? 2 : 0) + !ES_FUSES;
    const double bits = u * (roundings * (p + 32) + 128);
    if (!(p <= ES_MOST_PEAK && bits <= ES_MOST_DOUBT)) return 0;
    return ES_BOUND_WIDTH * 1.02 * (bits * ES_LN_2 + 2 * 2.2e-7 + 2.8e-6 + u * (ES_ADDITIONS + 4) + 0x1p-22);
}

static es_bounds bounds_of(es_estimate e, double doubt) {
    const double most = doubt * (e.mass + 2 * e.rounding) + ES_BOUND_WIDTH * e.rounding + 2;
    return (es_bounds){greater(es_integer(e.mass - most), 0), es_integer(e.mass + most)};
}

/* The same for a row, whose best token has the greatest weight there is. */
static es_bounds bounds_of_row(es_estimate row, double doubt) {
    const es_bounds bounds = bounds_of(row, doubt);
    return (es_bounds){greater(bounds.least, ES_ONE_WEIGHT), greater(bounds.most, ES_ONE_WEIGHT)};
}

static int is_edited(const es_view *v, int64_t c) { return v->edit_starts[c] != v->edit_starts[c + 1]; }

/* Whether the share of a chunk says nothing of its mass: it has been edited, or it got none, because it was far below
 * a logit that has then been lowered. */
static int is_changed(const es_view *v, int64_t c) {
    return is_edited(v, c) || (v->shares[c] == 0 && es_distance(v->maxima[c], v->peak) >= -31.0f);
}

enum { ES_EDITED_SHARE = 8 }; /* with more than one changed chunk in this many, a row has no bounds */

/* Chunks that have changed since the scan, and a last one that is not whole, are weighed as the contract says, unless
 * they are so far below the peak that they weigh nothing. */
static int weigh_changed(const es_view *v, float *masses) {
    float buffer[ES_CHUNK];
    const int64_t chunks = chunks_of(v->n), whole = v->n / ES_CHUNK;
    int64_t changed = 0;
    for (int64_t c = 0; c < whole && v->n_edits; c++) changed += is_changed(v, c);
    if (changed > chunks / ES_EDITED_SHARE) return 0;
    for (int64_t c = v->n_edits ? 0 : whole; c < chunks; c++) {
        if (c != whole && !is_changed(v, c)) continue;
        masses[c] = 0;
        if (es_distance(v->maxima[c], v->peak) >= -31.0f)
            masses[c] = (float)chunk_mass_any(chunk_of(v, c, buffer), v->peak, 0, 0).weight;
    }
    return 1;
}

/* Whether the row has the shares of the scale that it is at. */
ES_INLINE int has_shares(const es_view *v) {
    return v->list < 0 && v->has_maxima && v->share_scale != 0 && v->share_scale == v->scale;
}

/* The mass of every chunk, in units of the contract's weights. Returns whether few enough have changed. */
static int chunk_masses(const es_view *v, float *masses) {
    const double peak_bits = (double)v->peak * (double)ES_LOG2_E;
    const float near = (float)peak_bits; /* and the difference as a factor */
    const vf factor = vf_set((float)es_exp2((double)near - peak_bits)), top = vf_set(near);
    for (int64_t c = 0; c < chunks_of(v->n); c += W_ABREAST * W) {
        vf y[W_ABREAST], place[W_ABREAST];
        EACH(k) y[k] = vf_sub(vf_load(v->maxima + c + k * W), vf_set(v->peak));
        EACH(k) y[k] = vf_mul(y[k], vf_set(ES_LOG2_E)); /* as `es_distance`: below -31 all weights are 0 */
        EACH(k) place[k] = vf_max(vf_sub(vf_load(v->bits + c + k * W), top), vf_set(-64.0f));
        vf_weights(place);
        EACH(k) place[k] = vf_mul(vf_mul(place[k], vf_load(v->shares + c + k * W)), factor);
        EACH(k) vf_store(masses + c + k * W, vf_select(vf_ge(y[k], vf_set(-31.0f)), place[k]));
    }
    return weigh_changed(v, masses);
}

/* In the fuzzer: compare bounds with the exact weights, chunk by chunk and for the whole row. */
static void check_bounds(const es_state *st, const es_estimate *row, double doubt) {
#ifdef ES_FUZZ_CHANGES
    if (!es_on_bound) return;
    const es_view *v = &st->v;
    float buffer[ES_CHUNK];
    int64_t total = 0;
    for (int64_t c = 0; c < chunks_of(v->n); c++) {
        es_estimate chunk = {0, 0};
        add_estimate(&chunk, st->s->masses[c]);
        const es_bounds bounds = bounds_of(chunk, doubt);
        const int64_t exact = chunk_mass_any(chunk_of(v, c, buffer), v->peak, 0, 0).weight;
        es_on_bound("a chunk", bounds.least, exact, bounds.most);
        total += exact;
    }
    const es_bounds bounds = bounds_of(*row, doubt);
    es_on_bound("a row", bounds.least, total, bounds.most);
#else
    (void)st;
    (void)row;
    (void)doubt;
#endif
}

/* In the fuzzer: `wrong` tokens are on the other side of a threshold that bounds have decided; there must be none. */
static void check_same_side(int32_t wrong) {
#ifdef ES_FUZZ_CHANGES
    if (es_on_bound) es_on_bound("a threshold", 0, wrong, 0);
#else
    (void)wrong;
#endif
}

/* Count whether bounds have decided. In the fuzzer, compare what they decided with `exact`. */
static void note_decision(const es_state *st, int is_certain, int64_t decided, int64_t exact) {
    es_counted *const counted = st->job->decisions;
    if (is_certain) counted->certain++;
    else counted->weighed++;
#ifdef ES_FUZZ_CHANGES
    if (is_certain && es_on_bound) es_on_bound("a decision", decided, exact, decided);
    if (es_on_decision) es_on_decision(is_certain);
#else
    (void)decided;
    (void)exact;
#endif
}

/* The estimate of a whole row, with that of each chunk in the scratch masses. Returns its relative doubt; 0 without
 * an estimate. */
static double estimate_row(const es_state *st, es_estimate *sum) {
    const es_view *v = &st->v;
    const double doubt = relative_doubt(v);
    float *const masses = st->s->masses;
    if (doubt == 0 || !chunk_masses(v, masses)) return 0;
    *sum = (es_estimate){0, 0};
    for (int64_t c = 0; c < chunks_of(v->n); c++) add_estimate(sum, masses[c]);
    if (!(sum->mass <= ES_MOST_MASS)) return 0; /* only where logits change */
    check_bounds(st, sum, doubt);
    return doubt;
}
