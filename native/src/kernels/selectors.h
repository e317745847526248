/* The end of a program: selects one of the remaining tokens. */
#pragma once

#include "kernels/samplers.h"

enum { ES_HEAD = 100 }; /* tokens from which mirostat estimates the slope */

/* Note the choice; without a token, the logits have changed. Returns an es_row_status. */
static int32_t choose(es_state *st, int64_t token, double note) {
    st->choice = (es_choice){token, note};
    return token < 0 ? ES_ROW_BAD_LOGITS : ES_ROW_OK;
}

static int64_t target_of(const es_state *st, int64_t total) {
    return es_scale_draw(es_draw64(st->seed, st->position, 0, 0), total);
}

/* The first of n weights whose cumulative sum exceeds `target`; -1 if none does, because the logits have
 * changed. */
static int64_t pick(const int32_t *weights, int64_t n, int64_t target) {
    int64_t i = 0, sum = 0;
    for (; i + 64 <= n; i += 64) {
        int64_t block = 0;
        for (int j = 0; j < 64; j++) block += weights[i + j];
        if (sum + block > target) break;
        sum += block;
    }
    for (; i < n; i++) {
        sum += weights[i];
        if (sum > target) return i;
    }
    return -1;
}

static int64_t draw_few(es_state *st, int32_t *rank) {
    *rank = 0;
    if (!st->few.n) return -1;
    few_weigh(&st->few);
    *rank = few_pick(&st->few, st->few.weights, target_of(st, st->few.total));
    return st->few.ids[*rank];
}

static int32_t choose_greedy(es_state *st) {
    keep_best(st);
    return choose(st, st->few.n ? st->few.ids[0] : -1, __builtin_nan(""));
}

/* Draw from a long row whose chunk weights are in the scratch sums; returns the element's index, or -1 if the
 * logits have changed. */
static int64_t draw_long(es_state *st, int64_t total) {
    const es_view *v = &st->v;
    const int64_t *const sums = st->s->sums;
    const int64_t last = chunks_of(v->n) - 1;
    int64_t target = target_of(st, total), c = 0;
    for (; c < last && target >= sums[c]; c++) target -= sums[c];
    float buffer[ES_CHUNK + ES_SLACK];
    int32_t weights[ES_CHUNK + ES_SLACK];
    fill_chunk(v, c, buffer);
    list_weights(buffer, ES_CHUNK, v->peak, weights);
    const int64_t i = pick(weights, lesser(v->n - c * ES_CHUNK, ES_CHUNK), target);
    return i < 0 ? -1 : c * ES_CHUNK + i;
}

/* Draw from such a row and note the surprise of the token, in bits. */
static int32_t draw_row(es_state *st, int64_t total) {
    const es_view *v = &st->v;
    const int64_t place = draw_long(st, total);
    if (place < 0) return choose(st, -1, 0);
    const double bits = -(double)es_distance(value_at(v, place), v->peak);
    return choose(st, v->ids ? v->ids[place] : place, bits + es_log2_mass(total));
}

/* The place of the token that is drawn from a long row, if its bounds decide which; else -1. With the weight C of
 * the tokens up to one and the weight R of those after it, the drawn token is the first with C > r * (C + R) / 2^64,
 * which holds all the more, the greater C and the smaller R are. So each of the two is taken at its worst. */
static int64_t draw_certainly(const es_state *st) {
    const es_view *v = &st->v;
    const float *const masses = st->s->masses;
    es_estimate all, before = {0, 0}, own = {0, 0};
    const double doubt = estimate_row(st, &all);
    if (doubt == 0) return -1;
    const int64_t last = chunks_of(v->n) - 1;
    const uint64_t r = es_draw64(st->seed, st->position, 0, 0);
    const double aim = (double)r * 0x1p-64 * all.mass;
    int64_t c = 0;
    for (; c < last && before.mass + masses[c] <= aim; c++) add_estimate(&before, masses[c]);
    add_estimate(&own, masses[c]);
    const es_estimate after = {all.mass - before.mass - own.mass,
                               all.rounding - before.rounding - own.rounding};
    const es_bounds low = bounds_of(before, doubt), high = bounds_of(after, doubt);
    float buffer[ES_CHUNK + ES_SLACK];
    int32_t weights[ES_CHUNK + ES_SLACK];
    fill_chunk(v, c, buffer);
    const int64_t weight = list_weights(buffer, ES_CHUNK, v->peak, weights),
                  size = lesser(v->n - c * ES_CHUNK, ES_CHUNK);
    const int64_t i = pick(weights, size, es_integer(aim - before.mass));
    if (i < 0) return -1;
    int64_t up_to = 0;
    for (int64_t k = 0; k < i; k++) up_to += weights[k];
    const int64_t worst = low.most + up_to;
    if (es_scale_draw(r, worst + high.least + weight - up_to) < worst)
        return -1; /* an earlier one might be drawn */
    up_to += weights[i];
    const int64_t least = low.least + up_to;
    return es_scale_draw(r, least + high.most + weight - up_to) < least ? c * ES_CHUNK + i : -1;
}

/* The same for any row. */
static int32_t draw(es_state *st) {
    if (!st->is_few) return draw_row(st, total_mass(&st->v, st->s->sums, 0).weight);
    int32_t rank;
    const int64_t token = draw_few(st, &rank);
    if (token < 0) return choose(st, -1, 0);
    const double bits = -(double)es_distance(st->few.logits[rank], st->few.logits[0]);
    return choose(st, token, bits + es_log2_mass(st->few.total));
}

static int32_t choose_dist(es_state *st) {
    if (!st->is_few && has_shares(&st->v)) {
        const int64_t place = draw_certainly(st);
        const int compared = place >= 0 && ES_CHECKS_DECISIONS;
        note_decision(st, place >= 0, place,
                      compared ? draw_long(st, total_mass(&st->v, st->s->sums, 0).weight) : place);
        if (place >= 0) return choose(st, place, __builtin_nan(""));
    }
    const int32_t status = draw(st);
    st->choice.note = __builtin_nan("");
    return status;
}

static int within_bits(float value, float peak, float most) { return !(-es_distance(value, peak) > most); }

/* Keep the tokens of a long row that mirostat leaves, if bounds of the total decide which; else 0, and the row is as
 * it was. A greater total makes every token more surprising. */
static int keep_expected_certainly(es_state *st) {
    es_estimate row;
    const double doubt = estimate_row(st, &row), mu = es_history_mu(st->job->history);
    if (doubt == 0) return 0;
    const es_bounds total = bounds_of_row(row, doubt);
    const double slack = 0x1p-30; /* of the logarithm */
    const float most = (float)(mu - es_log2_mass(total.least) + slack),
                least = (float)(mu - es_log2_mass(total.most) - slack);
    if (!(most < 31.0f)) return 0;
    const int32_t k = spare_list(st);
    const float peak = st->v.peak;
    const int64_t kept = collect_above(st, peak - most * (float)ES_LN_2, within_bits, most);
    int32_t between = 0;
    for (int64_t i = 0; i < kept; i++) between += !within_bits(st->s->values[k][i], peak, least);
    if (ES_CHECKS_DECISIONS && !between) {
        const float exact = (float)(mu - es_log2_mass(total_mass(&st->v, st->s->sums, 0).weight));
        int32_t wrong = 0;
        for (int64_t i = 0; i < kept; i++) wrong += !within_bits(st->s->values[k][i], peak, exact);
        check_same_side(wrong + !(exact <= most));
    }
    if (between) return 0;
    if (kept) use_survivors(st, k, kept);
    else keep_best(st);
    return 1;
}

static int32_t choose_mirostat_v2(es_state *st) {
    if (!st->is_few && has_shares(&st->v)) {
        const int certain = keep_expected_certainly(st);
        note_decision(st, certain, 0, 0);
        if (certain) return draw(st);
    }
    const int64_t total = mass_of(st, 0).weight;
    const float most = (float)(es_history_mu(st->job->history) - es_log2_mass(total));
    if (st->is_few) {
        es_few *f = &st->few;
        int32_t n = 0;
        while (n < f->n && within_bits(f->logits[n], f->logits[0], most)) n++;
        few_cut(f, greater(n, 1));
        return draw(st);
    }
    if (most >= 31.0f) return draw_row(st, total); /* anything further down has weight 0 */
    const int32_t k = spare_list(st);
    const int64_t kept = collect_above(st, st->v.peak - most * (float)ES_LN_2, within_bits, most);
    if (kept) use_survivors(st, k, kept);
    else keep_best(st);
    return draw(st);
}

/* s, the exponent of the Zipf distribution that fits the first tokens best. */
static double zipf_slope(const es_few *head, int64_t alive) {
    const int64_t pairs = lesser(lesser(ES_HEAD, head->n), alive) - 1;
    double products = 0.0, squares = 0.0;
    for (int64_t i = 0; i < pairs; i++) {
        const double step = es_log2((double)(i + 2) / (double)(i + 1));
        const float near = es_distance(head->logits[i], head->logits[0]);
        const float far = es_distance(head->logits[i + 1], head->logits[0]);
        const double d0 = -(double)(near > -FLT_MAX ? near : -FLT_MAX);
        const double d1 = -(double)(far > -FLT_MAX ? far : -FLT_MAX);
        const double product = step * (d1 - d0), square = step * step;
        products = i ? products + product : product;
        squares = i ? squares + square : square;
    }
    if (pairs < 1) {
        const double step = es_log2(2.0);
        squares = step * step;
    }
    return products / squares;
}

static double zipf_gap(double epsilon, int64_t vocab_size) {
    const double bits = es_log2((double)(vocab_size > 2 ? vocab_size : 2));
    const double x = epsilon * (bits * ES_LN_2);
    if ((x < 0 ? -x : x) < 0x1p-10) return (1.0 + x / 2.0 + x * x / 12.0) / (bits * ES_LN_2);
    return epsilon / (1.0 - es_exp2(-epsilon * bits));
}

/* The first tokens of the row, sorted, without changing the row itself. */
static void sorted_head(es_state *st, es_few *head) {
    if (st->is_few) {
        *head = st->few;
        return;
    }
    const int64_t n = collect_first(st, ES_HEAD);
    const int32_t k = spare_list(st);
    few_from_list(head, st->s->values[k], st->s->ids[k], (int32_t)n);
}

static int32_t choose_mirostat(es_state *st) {
    es_few head;
    sorted_head(st, &head);
    const int64_t alive = count_alive(st);
    double s = zipf_slope(&head, alive);
    s = s > 0x1p-60 ? s : 0x1p-60;
    const double g = zipf_gap(s - 1.0, st->vocab_size);
    const double k = es_exp2((es_log2(g) + es_history_mu(st->job->history)) / s);
    const double most = (double)alive;
    const double bounded = k < 1.0 ? 1.0 : k > most ? most : k;
    keep_leading(st, (int64_t)bounded);
    return draw(st);
}

static int32_t choose_adaptive_p(es_state *st) {
    es_scratch *s = st->s;
    const int64_t total = mass_of(st, 0).weight;
    const float peak = st->is_few ? st->few.logits[0] : st->v.peak;
    unsort(st);
    const int32_t k = spare_list(st);
    const int64_t n = collect(&st->v, -__builtin_inff(), s->values[k], s->ids[k]);
    list_weights(s->values[k], n, peak, s->weights);
    const double average = es_history_average(st->job->history);
    double aim = 2.0 * st->p->adaptive_target - average;
    aim = aim < 0.0 ? 0.0 : aim > 1.0 ? 1.0 : aim;
    float best = -__builtin_inff();
    for (int64_t i = 0; i < n; i++) {
        const double p = (double)s->weights[i] / (double)total;
        const double off = p - aim, d = (off < 0 ? -off : off) / 0.3;
        const float reshaped = (float)(5.0 - 10.0 * d * d / (1.0 + d));
        s->values[k][i] = reshaped;
        best = reshaped > best ? reshaped : best;
    }
    int32_t *const reshaped_weights = (int32_t *)s->keys;
    const int64_t reshaped_total = list_weights(s->values[k], n, best, reshaped_weights);
    const int64_t i = pick(reshaped_weights, n, target_of(st, reshaped_total));
    if (i < 0) return choose(st, -1, 0);
    return choose(st, s->ids[k][i], (double)s->weights[i] / (double)total);
}
