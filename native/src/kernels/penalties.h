/* The penalties on repetition, frequency and presence: flat, falling with age, or fading behind their window. */
#pragma once

#include "kernels/edits.h"

/* How far a token that is `age` tokens back lies beyond the reach of full penalties; 0 if it does not, or if the
 * penalties of the window do not fade. */
static int64_t beyond_full(const es_params *p, int64_t reach, int64_t age) {
    return p->penalty_decay_range > 0 && reach > 0 ? greater(age + p->penalty_decay_range - reach, 0) : 0;
}

/* The factor for a token whose newest occurrence is `age` tokens back. */
static float repetition_factor(const es_params *p, int64_t age) {
    double q = p->repetition_penalty;
    if (p->repetition_penalty_slope != 0 && p->repetition_reach > 0) {
        const double slope = p->repetition_penalty_slope;
        const double x = 1.0 - 2.0 * (double)age / (double)greater(p->repetition_reach - 1, 1);
        double y = slope * x / (1.0 + (x < 0 ? -x : x) * (slope - 1.0));
        y = y < -1.0 ? -1.0 : y > 1.0 ? 1.0 : y;
        q = 1.0 + (y + 1.0) / 2.0 * (q - 1.0);
    }
    return (float)(q < FLT_MAX ? q : FLT_MAX);
}

static int is_exempt(const es_ids *exempt, int32_t id) {
    for (int64_t i = 0; i < exempt->n; i++)
        if (exempt->ids[i] == id) return 1;
    return 0;
}

/* What penalties do to each of n tokens, ids ascending: l / divisor or l * factor, then l - shift. Unless penalties
 * fade, divisors are the factors. */
typedef struct es_penalized {
    int32_t *ids;
    float *factors, *shifts, *divisors;
    int64_t n;
} es_penalized;

static float shift_of(const es_params *p, int32_t count) {
    return (float)((double)count * p->frequency_penalty + p->presence_penalty);
}

/* The common case in a few simple loops: one window contains the tokens of the other, and there is one factor.
 * Returns 0 in any other case. */
static int penalize_alike(const es_params *p, const es_window *a, const es_window *b, es_penalized *out) {
    if (p->repetition_penalty_slope != 0 && p->repetition_reach > 0) return 0;
    if (out->divisors != out->factors) return 0;
    const es_window *more = a->n >= b->n ? a : b, *fewer = more == a ? b : a;
    const int64_t n = out->n = more->n;
    if (!n) return 1;
    memcpy(out->ids, more->ids, (size_t)n * sizeof *out->ids);
    const float factor = repetition_factor(p, 0), every = more == a ? factor : 1.0f;
    for (int64_t i = 0; i < n; i++) out->factors[i] = every;
    if (more == a) memset(out->shifts, 0, (size_t)n * sizeof *out->shifts);
    else
        for (int64_t i = 0; i < n; i++) out->shifts[i] = shift_of(p, b->counts[i]);
    const int same = a->n == b->n && !memcmp(a->ids, b->ids, (size_t)n * sizeof *a->ids);
    for (int64_t i = 0, at = 0; i < fewer->n; i++) {
        at = same ? i : place_from(more->ids, n, at, fewer->ids[i]);
        if (at == n || more->ids[at] != fewer->ids[i]) return 0;
        if (fewer == a) out->factors[at] = factor;
        else out->shifts[at] = shift_of(p, b->counts[i]);
    }
    for (int64_t i = 0, at = 0; i < p->penalty_exempt.n; i++) {
        const int64_t id = p->penalty_exempt.ids[i];
        at = place_from(more->ids, n, at, (int32_t)id);
        if (at == n || more->ids[at] != id) continue;
        out->factors[at] = 1.0f;
        out->shifts[at] = 0.0f;
    }
    return 1;
}

/* Whether the penalties of some window of the request fade. */
static int fades(const es_params *p) {
    const int repeated = p->repetition_reach > 0 && p->repetition_penalty_slope == 0;
    return p->penalty_decay_range > 0 && (repeated || p->counting_reach > 0);
}

/* The factor and divisor for a repeated token, of which `left` of the whole penalty, 1, is left. */
static void fade_repetition(const es_params *p, double left, float *factor, float *divisor) {
    const double q = p->repetition_penalty, rest = 1.0 - left;
    const double multiplied = rest + left * q, divided = q / (rest * q + left);
    *factor = (float)(multiplied < FLT_MAX ? multiplied : FLT_MAX);
    *divisor = (float)(divided < FLT_MAX ? divided : FLT_MAX);
}

/* How far beyond full penalties the occurrences of each token of a window are, altogether; in the scratch memory. */
static const int64_t *sum_beyond(const es_state *st, const es_window *window) {
    int64_t *const sums = st->s->wide_weights;
    int32_t *const mark = st->s->marks.mark;
    const int64_t newest = st->span.length - 1;
    for (int64_t i = 0; i < window->n; i++) {
        sums[i] = 0;
        mark[window->ids[i]] = (int32_t)i;
    }
    int64_t beyond;
    for (int64_t i = window->first; i <= newest; i++) {
        if (!(beyond = beyond_full(st->p, st->p->counting_reach, newest - i))) break;
        sums[mark[st->span.tokens[i]]] += beyond;
    }
    for (int64_t i = 0; i < window->n; i++) mark[window->ids[i]] = 0;
    return sums;
}

/* What is subtracted for a token that occurs `count` times, beyond full penalties altogether by `sum`, and the newest
 * time by `beyond`. */
static float faded_shift(const es_params *p, int64_t count, int64_t sum, int64_t beyond) {
    const int64_t range = p->penalty_decay_range;
    const double occurrences = (double)(count * range - sum) / (double)range;
    const double newest = (double)(range - beyond) / (double)range;
    return (float)(occurrences * p->frequency_penalty + newest * p->presence_penalty);
}

/* The tokens of both windows in one list; a factor of 1 and a shift of 0 stand for a token missing from a
 * window. */
static void penalize_each(const es_state *st, const es_window *a, const es_window *b, es_penalized *out) {
    const es_params *p = st->p;
    const int64_t newest = st->span.length - 1, range = p->penalty_decay_range;
    const int fading = out->divisors != out->factors;
    const int64_t *const sums = fading && b->n && p->counting_reach > 0 ? sum_beyond(st, b) : NULL;
    out->n = 0;
    for (int64_t i = 0, j = 0; i < a->n || j < b->n;) {
        const int32_t id_a = i < a->n ? a->ids[i] : INT32_MAX, id_b = j < b->n ? b->ids[j] : INT32_MAX;
        const int32_t id = id_a < id_b ? id_a : id_b;
        float factor = id == id_a ? repetition_factor(p, newest - a->last[i]) : 1.0f, divisor = factor;
        if (id == id_a && fading && p->repetition_reach > 0 && p->repetition_penalty_slope == 0) {
            const int64_t beyond = beyond_full(p, p->repetition_reach, newest - a->last[i]);
            fade_repetition(p, (double)(range - beyond) / (double)range, &factor, &divisor);
        }
        float shift = 0.0f;
        if (id == id_b)
            shift = sums ? faded_shift(p, b->counts[j], sums[j],
                                       beyond_full(p, p->counting_reach, newest - b->last[j]))
                         : shift_of(p, b->counts[j]);
        out->ids[out->n] = id;
        out->factors[out->n] = factor;
        out->divisors[out->n] = divisor;
        out->shifts[out->n] = shift;
        out->n += !is_exempt(&p->penalty_exempt, id);
        i += id == id_a;
        j += id == id_b;
    }
}

ES_INLINE void penalize(float *values, const es_penalized *all, const float *divisors) {
    for (int64_t i = 0; i < all->n; i++) { /* no operation depends on a condition: the loop vectorizes */
        const float l = values[i], lower = l / divisors[i], other = l * all->factors[i];
        const float shifted = clamp_finite(clamp_finite(l > 0 ? lower : other) - all->shifts[i]);
        values[i] = l >= -FLT_MAX ? shifted : l;
    }
}

/* Repetition first, then frequency and presence. */
static int32_t apply_penalties(es_state *st) {
    es_scratch *s = st->s;
    const es_window *a = es_history_repeated(st->job->history), *b = es_history_counted(st->job->history);
    const int fading = fades(st->p);
    float *const factors = (float *)s->weights;
    es_penalized all = {(int32_t *)s->keys, factors, (float *)s->information,
                        fading ? (float *)s->near_weights : factors, 0};
    if (!penalize_alike(st->p, a, b, &all)) penalize_each(st, a, b, &all);
    const es_touched t = touch(st, all.ids, all.n);
    if (fading) penalize(t.values, &all, all.divisors);
    else penalize(t.values, &all, factors);
    write_back(st, &t);
    return close_edits(st);
}
