/* The logprobs of a drawn token and of the likeliest ones, in any form of a row. All results are exact: sums of
 * integer weights, and one rounding of a float64 difference per token. */
#pragma once

#include "kernels/row_state.h"

/* ln of the sum of exp over tokens with the greatest logit `peak` and the total weight `total`. */
ES_INLINE double log_total(float peak, int64_t total) {
    return (double)peak + (es_log2((double)total) - 30.0) * ES_LN_2;
}

ES_INLINE float logprob_of(float logit, double log_sum) { return (float)((double)logit - log_sum); }

/* The index of `token` in the view, -1 if it is not there. */
static int64_t index_of(const es_view *v, int64_t token) {
    if (!v->ids) return token < v->n ? token : -1;
    int64_t low = 0, high = v->n;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (v->ids[middle] < token) low = middle + 1;
        else high = middle;
    }
    return low < v->n && v->ids[low] == token ? low : -1;
}

/* How many tokens precede element `own`, of value `value`, in (logit descending, id ascending) order. */
static int64_t count_before(const es_view *v, int64_t own, float value) {
    float buffer[ES_CHUNK];
    int64_t before = 0;
    for (int64_t c = -1; (c = next_reaching(v, c + 1, value)) < chunks_of(v->n);) {
        fill_chunk(v, c, buffer);
        const int64_t first = c * ES_CHUNK;
        for (int i = 0; i < ES_CHUNK; i += W) {
            const vf x = vf_load(buffer + i);
            before += __builtin_popcount(vf_gt(x, vf_set(value)));
            if (first + i >= own) continue;
            const uint32_t lower = first + i + W <= own ? W_ALL : ((uint32_t)1 << (own - first - i)) - 1;
            before += __builtin_popcount(vf_eq(x, vf_set(value)) & lower);
        }
    }
    return before;
}

/* List a token as number i of the likeliest. */
ES_INLINE void list_token(const es_report *out, int64_t i, int32_t id, float logprob) {
    out->token_ids[1 + i] = id;
    out->logprobs[1 + i] = logprob;
}

/* Returns how many tokens are listed. */
static int64_t report_few(es_few *f, int64_t token, const es_report *out) {
    few_weigh(f);
    const double sum = log_total(f->logits[0], f->total);
    int32_t own = 0;
    while (own < f->n && f->ids[own] != token) own++;
    out->token_ids[0] = token;
    out->logprobs[0] = own < f->n ? logprob_of(f->logits[own], sum) : -__builtin_inff();
    *out->rank = own + 1;
    const int64_t n = lesser(out->top_n, f->n);
    for (int64_t i = 0; i < n; i++) list_token(out, i, f->ids[i], logprob_of(f->logits[i], sum));
    return n;
}

/* List the first n tokens of a long row, in order; removed tokens are not among them. */
static int64_t list_leading(es_state *st, int64_t n, double sum, const es_report *out) {
    es_scratch *s = st->s;
    const int32_t k = spare_list(st);
    const int64_t found = collect_first(st, n), count = lesser(n, found);
    if (found <= ES_SMALL) {
        es_few few;
        few_from_list(&few, s->values[k], s->ids[k], (int32_t)found);
        for (int64_t i = 0; i < count; i++) list_token(out, i, few.ids[i], logprob_of(few.logits[i], sum));
        return count;
    }
    int32_t *const order = s->near_weights;
    fill_keys(s->values[k], found, s->keys);
    for (int64_t i = 0; i < found; i++) order[i] = (int32_t)i;
    sort_pairs(s->keys, order, s->more_keys, s->near_information, found);
    for (int64_t i = 0; i < count; i++)
        list_token(out, i, s->ids[k][order[i]], logprob_of(s->values[k][order[i]], sum));
    return count;
}

static int64_t report_row(es_state *st, int64_t token, const es_report *out) {
    es_view *v = &st->v;
    const double sum = log_total(v->peak, total_mass(v, st->s->sums, 0).weight);
    const int64_t own = index_of(v, token);
    const float value = own < 0 ? -__builtin_inff() : value_at(v, own);
    const int alive = value > -__builtin_inff();
    out->token_ids[0] = token;
    out->logprobs[0] = alive ? logprob_of(value, sum) : value;
    *out->rank = 1 + (alive ? count_before(v, own, value) : count_alive(st));
    return out->top_n ? list_leading(st, lesser(out->top_n, v->n), sum, out) : 0;
}

/* List removed tokens in order of id after the `listed` others, up to `top_n`. */
static void list_removed(es_state *st, int64_t listed, const es_report *out) {
    const int32_t k = spare_list(st);
    const int32_t *ids = st->is_few ? st->few.ids : st->s->ids[k];
    const int64_t alive = st->is_few ? st->few.n
                                     : collect(&st->v, -__builtin_inff(), st->s->values[k], st->s->ids[k]);
    int32_t *const left = st->s->weights;
    memset(left, 0, (size_t)st->vocab_size * sizeof *left);
    for (int64_t i = 0; i < alive; i++) left[ids[i]] = 1;
    for (int32_t id = 0; listed < out->top_n && id < st->vocab_size; id++)
        if (!left[id]) list_token(out, listed++, id, -__builtin_inff());
}

/* Report the logprobs of `token` and of the first tokens of the row. */
static void report_logprobs(es_state *st, int64_t token, const es_report *given) {
    es_report out = *given;
    if (out.top_n < 0 || out.top_n > st->vocab_size) out.top_n = st->vocab_size;
    const int64_t listed = st->is_few ? report_few(&st->few, token, &out) : report_row(st, token, &out);
    if (out.lists_removed && listed < out.top_n) list_removed(st, listed, &out);
}
