/* The row that a program works on, and how it gets shorter. */
#pragma once

#include "kernels/cuts.h"
#include "kernels/few.h"

typedef struct es_choice {
    int64_t token; /* -1: none */
    double note;   /* NaN: none */
} es_choice;

typedef struct es_state {
    const es_job *job;
    const es_op *op;  /* the sampler that runs */
    const es_params *p;
    es_scratch *s;
    es_span span;
    uint64_t seed;
    int64_t position;
    int64_t vocab_size;
    es_view v;  /* the remaining tokens, while there are many */
    int is_few;
    es_few few; /* the remaining tokens, once there are few */
    es_choice choice; /* of the selector */
} es_state;

/* The scratch list that the view does not read. */
ES_INLINE int32_t spare_list(const es_state *st) { return st->v.list == 0 ? 1 : 0; }

/* Continue with the first n entries of scratch list `k`; without ids, element i is token i. */
static void use_list(es_state *st, int32_t k, int64_t n, int with_ids) {
    es_view *v = &st->v;
    *v = (es_view){.source = st->s->values[k],
                   .kind = ES_FLOAT,
                   .list = k,
                   .n = n,
                   .ids = with_ids ? st->s->ids[k] : NULL,
                   .scale = 1.0f,
                   .floor = -FLT_MAX,
                   .alive = with_ids ? n : -1,
                   .maxima = st->s->maxima};
    st->is_few = 0;
}

/* The same, sorted if there are few. */
static void use_survivors(es_state *st, int32_t k, int64_t n) {
    use_list(st, k, n, 1);
    if (n <= ES_SMALL) {
        few_from_list(&st->few, st->s->values[k], st->s->ids[k], (int32_t)n);
        st->is_few = 1;
    }
}

/* Whether any token is left, as far as a sorted row tells. Returns an es_row_status. */
ES_INLINE int32_t empty_status(const es_state *st) {
    return st->is_few && !st->few.n ? ES_ROW_EMPTY : ES_ROW_OK;
}

/* Sort the row if it is short enough. Returns an es_row_status. */
static int32_t sort_if_short(es_state *st) {
    if (!st->is_few && st->v.n <= ES_SMALL) {
        const int32_t k = spare_list(st);
        const int64_t n = collect(&st->v, -__builtin_inff(), st->s->values[k], st->s->ids[k]);
        use_survivors(st, k, n);
    }
    return empty_status(st);
}

/* Turn a sorted row back into a list. */
static void unsort(es_state *st) {
    if (st->is_few) use_list(st, 0, few_to_list(&st->few, st->s->values[0], st->s->ids[0]), 1);
}

/* Copy the current row into a scratch list, one value per token, so that it can be written. */
static float *own_values(es_state *st) {
    es_view *v = &st->v;
    if (v->list < 0) {
        float *values = st->s->values[0];
        for (int64_t c = 0; c < chunks_of(v->n); c++) fill_chunk(v, c, values + c * ES_CHUNK);
        use_list(st, 0, v->n, 0);
    }
    return st->s->values[st->v.list];
}

static int64_t count_alive(es_state *st) {
    if (st->is_few) return st->few.n;
    es_view *v = &st->v;
    if (v->alive < 0) {
        float buffer[ES_CHUNK];
        v->alive = 0;
        for (int64_t c = 0; c < chunks_of(v->n); c++) v->alive += chunk_alive(chunk_of(v, c, buffer));
    }
    return v->alive;
}

/* The number of tokens that a truncation must leave. */
static int64_t at_least(es_state *st) {
    const int64_t floor = st->p->min_keep > 1 ? st->p->min_keep : 1;
    if (floor == 1) return 1;
    const int64_t alive = count_alive(st);
    return floor < alive ? floor : alive;
}

/* A logit below which no token is within `bits` of the peak; never too high. */
static float below_peak(float peak, double bits) {
    if (!(bits < 1e30)) return -__builtin_inff();
    const double low = (double)peak - (bits * 1.00001 + 1e-3) * ES_LN_2;
    const double margin = (low < 0 ? -low : low) * 0x1p-22;
    const double threshold = low - margin;
    return threshold < -FLT_MAX ? -__builtin_inff() : (float)threshold;
}

/* Collect the head of the row, all tokens within `bits` of the peak, into the spare list. */
static int64_t collect_head(es_state *st, double bits) {
    find_maxima(&st->v);
    const int32_t k = spare_list(st);
    return collect(&st->v, below_peak(st->v.peak, bits), st->s->values[k], st->s->ids[k]);
}

/* Collect the tokens that `stays` keeps into the spare list; whatever it keeps, it must also keep everything
 * above. The boundary is searched among the floats near `guess`, so `stays` need not be evaluated for every
 * token. */
static int64_t collect_above(es_state *st, float guess, int (*stays)(float value, float peak, float bound),
                             float bound) {
    es_view *v = &st->v;
    const int32_t to = spare_list(st);
    find_maxima(v);
    uint32_t key = descending_key(guess), step = 1;
    const uint32_t best = descending_key(v->peak), last = descending_key(-FLT_MAX);
    key = key < best ? best : key > last ? last : key;
    if (!stays(v->peak, v->peak, bound)) return 0;
    uint32_t low = key, high = key; /* low: stays, or the peak; high: does not stay, or the last float */
    for (; low > best && !stays(logit_of_key(low), v->peak, bound); step *= 2)
        low = low - best > step ? low - step : best;
    for (step = 1; high < last && stays(logit_of_key(high), v->peak, bound); step *= 2)
        high = last - high > step ? high + step : last;
    if (stays(logit_of_key(high), v->peak, bound)) low = high;
    while (high - low > 1 && low < high) {
        const uint32_t middle = low + (high - low) / 2;
        if (stays(logit_of_key(middle), v->peak, bound)) low = middle;
        else high = middle;
    }
    return collect(v, logit_of_key(low), st->s->values[to], st->s->ids[to]);
}

static void fill_keys(const float *values, int64_t n, uint32_t *keys) {
    for (int64_t i = 0; i < n; i++) keys[i] = descending_key(values[i]);
}

/* Of scratch list k, keep the elements above `least`, and the first `ties` of those equal to it. */
static int64_t keep_above(es_scratch *s, int32_t k, int64_t n, float least, int64_t ties) {
    float *const values = s->values[k];
    int32_t *const ids = s->ids[k];
    for (int i = 0; i < W; i++) values[n + i] = -__builtin_inff();
    int64_t kept = 0;
    for (int64_t i = 0; i < n; i += W) {
        const vf x = vf_load(values + i);
        uint32_t mask = vf_gt(x, vf_set(least));
        for (uint32_t equal = vf_eq(x, vf_set(least)); equal && ties > 0; equal &= equal - 1, ties--)
            mask |= equal & -equal;
        if (mask) kept = vf_append_ids(values, ids, kept, x, ids + i, mask);
    }
    return kept;
}

/* How many of the elements at the cut, in order of id, are still inside. */
static int64_t inside_ties(const es_ranked *r, const es_measure *m, const es_cut *cut) {
    es_tally sum = cut->before;
    int64_t ties = 0;
    for (int64_t i = 0; i < r->n; i += W)
        for (uint32_t equal = keys_within(r, i, cut->key, 0); equal; equal &= equal - 1) {
            tally(&sum, m, r, i + __builtin_ctz(equal));
            if (!inside(m, &sum)) return ties;
            ties++;
        }
    return ties;
}

/* Make the limit of a measure exact, because its doubt leaves open where to cut. */
static void settle(es_state *st, es_measure *m) {
    m->limit = m->exact(st);
    m->doubt = 0;
}

/* Whether the doubt of a measure leaves open how many of the tokens at the cut, `ties` at least, are inside. */
static int is_open(const es_ranked *r, const es_measure *m, const es_cut *cut, int64_t ties) {
    if (!m->doubt) return 0;
    es_measure most = *m;
    most.limit += m->doubt;
    return inside_ties(r, &most, cut) != ties;
}

/* Cut scratch list k, a head of the row, after the tokens inside the measure plus `crossing` more, at least
 * `floor`. Returns how many stay; n means that the head may have been too short. */
static int64_t cut_head(es_state *st, int32_t k, int64_t n, es_measure *m, int crossing, int64_t floor) {
    es_scratch *s = st->s;
    const es_ranked r = {s->keys, s->weights, s->information, n};
    fill_keys(s->values[k], n, s->keys);
    if (m->kind == ES_BY_ENTROPY) list_information(s->values[k], n, st->v.peak, s->weights, s->information);
    es_cut cut = find_cut(&r, m, (es_tally){0, 0, 0}, s);
    if (cut.none) return n;
    int64_t ties = inside_ties(&r, m, &cut);
    if (is_open(&r, m, &cut, ties)) { /* what comes before the cut is inside in any case */
        settle(st, m);
        es_ranked rest = r;
        narrow(&rest, m, cut.key, UINT32_MAX, s);
        cut = find_cut(&rest, m, cut.before, s);
        if (cut.none) return n;
        ties = inside_ties(&r, m, &cut);
    }
    ties += crossing;
    if (cut.before.count + ties < floor) {
        const es_measure first = by_count(floor);
        cut = find_cut(&r, &first, (es_tally){0, 0, 0}, s);
        if (cut.none) return n;
        ties = inside_ties(&r, &first, &cut);
    }
    return keep_above(s, k, n, logit_of_key(cut.key), ties);
}

/* A lower bound of the k-th greatest chunk maximum that few other chunks reach. */
static float chunk_threshold(const es_view *v, int64_t chunks, int64_t k) {
    float high = v->peak, low = v->peak, step = 4.0f;
    int32_t count = 0; /* as narrow as the floats, so that the loop vectorizes */
    for (int tries = 0; tries < 60 && count < k; tries++) {
        high = low;
        low = v->peak - step;
        step *= 2.0f;
        count = 0;
        for (int64_t c = 0; c < chunks; c++) count += v->maxima[c] >= low;
    }
    if (count < k) return -__builtin_inff();
    for (int tries = 0; tries < 12 && count > k + k / 4 + 2; tries++) {
        const float middle = low + (high - low) * 0.5f;
        int32_t above = 0;
        for (int64_t c = 0; c < chunks; c++) above += v->maxima[c] >= middle;
        if (above >= k) {
            low = middle;
            count = above;
        } else high = middle;
    }
    return low;
}

/* Collect a head of at least k tokens, or all of them, into the spare list; fewer if the logits change. */
static int64_t collect_leading(es_state *st, int64_t k) {
    es_view *v = &st->v;
    es_scratch *s = st->s;
    const int32_t to = spare_list(st);
    find_maxima(v);
    const int64_t chunks = chunks_of(v->n);
    if (k <= chunks) {
        float threshold = chunk_threshold(v, chunks, k);
        const int64_t n = collect(v, threshold, s->values[to], s->ids[to]);
        if (n >= k || threshold == -__builtin_inff() || v->list >= 0) return n;
        /* Some maxima were only bounds, and too high. If some fall, the same share of the next ones can be
         * expected to fall, so that many more are made exact at once. */
        for (int64_t fell; (fell = tighten_maxima(v, threshold)); threshold = chunk_threshold(v, chunks, k)) {
            const int64_t more = fell * fell / greater(k - fell, 1);
            tighten_maxima(v, chunk_threshold(v, chunks, lesser(k + more, chunks)));
        }
        return collect(v, threshold, s->values[to], s->ids[to]);
    }
    for (double bits = 12; bits < 1e4; bits *= 1.5) {
        const int64_t n = collect_head(st, bits);
        if (n >= k) return n;
    }
    return collect(v, -__builtin_inff(), s->values[to], s->ids[to]);
}

/* Collect the first k tokens into the spare list; more if there are few enough to sort. */
static int64_t collect_first(es_state *st, int64_t k) {
    const int64_t n = collect_leading(st, k);
    es_measure first = by_count(k);
    return n > ES_SMALL && n > k ? cut_head(st, spare_list(st), n, &first, 0, 1) : n;
}

/* Keep the first k tokens, at least one. */
static void keep_leading(es_state *st, int64_t k) {
    k = greater(k, 1);
    if (st->is_few) {
        few_cut(&st->few, k);
        return;
    }
    if (k >= st->v.n) return;
    const int64_t n = collect_first(st, k);
    use_survivors(st, spare_list(st), n);
    if (st->is_few) few_cut(&st->few, k);
}

/* Keep the first token alone; none if the logits have changed. */
static void keep_best(es_state *st) {
    if (!st->is_few) {
        const int64_t i = first_best(&st->v);
        const int32_t k = spare_list(st);
        if (i >= 0) {
            const float value = value_at(&st->v, i); /* the peak, except for the sign of a zero */
            st->s->values[k][0] = value == st->v.peak ? value : st->v.peak;
            st->s->ids[k][0] = st->v.ids ? st->v.ids[i] : (int32_t)i;
        }
        use_survivors(st, k, i >= 0);
    }
    few_cut(&st->few, 1);
}

/* The weight of everything that is left; for a long row also by chunk, in `sums`. */
static es_mass mass_of(es_state *st, int informed) {
    if (!st->is_few) return total_mass(&st->v, st->s->sums, informed);
    few_weigh(&st->few);
    return (es_mass){st->few.total, informed ? few_information(&st->few, st->s->information) : 0};
}
