/* Truncations and transforms, each as its Python counterpart defines it.
 *
 * For a long row, one pass computes the sums. Then its head, all tokens that can possibly stay, is collected
 * and cut exactly. A short row is sorted and cut as the rule is defined.
 */
#pragma once

#include "kernels/certificate.h"
#include "kernels/min_k.h"
#include "kernels/penalties.h"

/* --- by logit alone --- */

static int32_t apply_top_k(es_state *st) {
    keep_leading(st, st->p->top_k);
    return ES_ROW_OK;
}

static int32_t apply_min_p(es_state *st) {
    if (!st->is_few) find_maxima(&st->v);
    const float peak = st->is_few ? st->few.logits[0] : st->v.peak;
    const double depth = es_log2(st->p->min_p) * ES_LN_2;
    const float threshold = (float)((double)peak + depth - ES_MASS_SLACK);
    if (st->is_few) {
        int32_t n = 0;
        while (n < st->few.n && st->few.logits[n] >= threshold) n++;
        few_cut(&st->few, greater(n, at_least(st)));
        return ES_ROW_OK;
    }
    const int64_t floor = at_least(st);
    const int32_t k = spare_list(st);
    const int64_t n = collect(&st->v, threshold, st->s->values[k], st->s->ids[k]);
    if (n < floor) keep_leading(st, floor);
    else use_survivors(st, k, n);
    return ES_ROW_OK;
}

static int within_reach(float value, float peak, float reach) { return value - peak >= reach; }

static int32_t apply_top_n_sigma(es_state *st) {
    unsort(st);
    es_moments m;
    view_moments(&st->v, &m);
    const double mean = fold(m.sum) / (double)m.n, squares = fold(m.squares);
    const double variance = squares / (double)m.n - mean * mean;
    const double sigma = es_sqrt(variance > 0.0 ? variance : 0.0);
    if (!(squares <= DBL_MAX)) return ES_ROW_OK;
    const float reach = (float)-(st->p->top_n_sigma * sigma), peak = st->v.peak;
    const int32_t k = spare_list(st);
    use_survivors(st, k, collect_above(st, peak + reach, within_reach, reach));
    return ES_ROW_OK;
}

/* --- by mass --- */

enum { ES_SAMPLED_CHUNKS = 8, ES_STEPS_PER_BIT = 4, ES_MOST_BITS = 40 };

/* How many bits around `expected` bits below the peak cover the tokens with a share of the mass: a first
 * guess, so that a flat row need not be collected twice. A few chunks are a good sample if they have about
 * the mass expected of them; if not, a few tokens have most of the mass. */
static double guess_bits(es_state *st, double share, float expected, int64_t total) {
    const double peaked = 8 + es_log2_mass(greater(total, ES_ONE_WEIGHT)) / 2;
    if (st->is_few || total < 4 * ES_ONE_WEIGHT) return peaked;
    const es_view *v = &st->v;
    float buffer[ES_CHUNK + ES_SLACK];
    int32_t weights[ES_CHUNK + ES_SLACK];
    int64_t mass[ES_MOST_BITS * ES_STEPS_PER_BIT] = {0}, all = 0, inside_mass = 0;
    const int64_t chunks = chunks_of(v->n);
    for (int64_t k = 0; k < ES_SAMPLED_CHUNKS; k++) {
        fill_chunk(v, chunks * k / ES_SAMPLED_CHUNKS, buffer);
        all += list_weights(buffer, ES_CHUNK, v->peak, weights);
        for (int i = 0; i < ES_CHUNK; i++) {
            const float y = es_distance(buffer[i], v->peak) + expected, bits = y < 0 ? -y : y;
            if (bits < ES_MOST_BITS) mass[(int)(bits * ES_STEPS_PER_BIT)] += weights[i];
        }
    }
    const double expected_mass = (double)total * ES_SAMPLED_CHUNKS / (double)chunks;
    if ((double)all < 0.5 * expected_mass || (double)all > 2 * expected_mass) return peaked;
    int step = 0;
    for (; step < ES_MOST_BITS * ES_STEPS_PER_BIT - 1; step++) {
        inside_mass += mass[step];
        if ((double)inside_mass >= share * (double)all) break;
    }
    return (double)(step + 1) / ES_STEPS_PER_BIT + 0.25;
}

/* Keep the tokens of a sorted row inside the measure plus `crossing` more, at least `floor`. For a measure by
 * entropy, their information must be in the scratch memory, where `mass_of` leaves it. Returns 0, and keeps all,
 * if the measure's doubt leaves open where to cut. */
static int cut_few(es_state *st, const es_measure *m, int crossing, int64_t floor) {
    es_few *f = &st->few;
    few_weigh(f);
    const es_ranked ranked = {NULL, f->weights, st->s->information, f->n};
    es_tally sum = {0, 0, 0};
    int64_t n = 0;
    for (; n < f->n; n++) {
        tally(&sum, m, &ranked, n);
        if (!inside(m, &sum)) break;
    }
    if (n < f->n && m->doubt && sum.weight <= m->limit + m->doubt) return 0;
    few_cut(f, greater(n + crossing, floor));
    return 1;
}

/* The same for the n tokens of scratch list k, few enough to be sorted, instead of a long row. */
static void cut_short_head(es_state *st, int32_t k, int64_t n, es_measure *m, int crossing, int64_t floor) {
    const es_view row = st->v;
    use_survivors(st, k, n);
    if (m->kind == ES_BY_ENTROPY) few_information(&st->few, st->s->information);
    if (cut_few(st, m, crossing, floor)) return;
    st->v = row;
    st->is_few = 0;
    settle(st, m);
    use_survivors(st, k, n);
    cut_few(st, m, crossing, floor);
}

/* The same for any row, and for measures that can be decided on a head of it, at first `bits` deep. The
 * weights are those of the whole row. */
static void cut_row(es_state *st, es_measure *m, int crossing, int64_t floor, double bits) {
    if (st->is_few) {
        cut_few(st, m, crossing, floor);
        return;
    }
    es_scratch *s = st->s;
    const int32_t k = spare_list(st);
    for (;; bits *= 1.4) {
        const int whole = bits > ES_MOST_BITS;
        const int64_t n = collect_head(st, whole ? 1e300 : bits);
        const float peak = st->v.peak;
        const int64_t mass = list_weights(s->values[k], n, peak, s->weights);
        /* A head with enough mass is cut where the whole row would be. */
        const int enough = m->kind == ES_BY_WEIGHT ? mass > m->limit + m->doubt && n >= floor : 0;
        if (whole && !enough && m->doubt) settle(st, m);
        if (n <= ES_SMALL && (whole || enough)) {
            cut_short_head(st, k, n, m, crossing, floor);
            return;
        }
        if (!whole && m->kind == ES_BY_WEIGHT && !enough) continue;
        const int64_t kept = cut_head(st, k, n, m, crossing, floor);
        if (kept < n || whole) {
            use_survivors(st, k, kept);
            return;
        }
    }
}

/* The weight up to which tokens are inside top_p, of a row with this total. */
static int64_t top_p_limit(const es_params *p, int64_t total) {
    return p->top_p_cut == 0 ? es_mass_reaching(p->top_p, total) - 1 : es_mass_within(p->top_p, total);
}

static int64_t exact_top_p_limit(es_state *st) { return top_p_limit(st->p, mass_of(st, 0).weight); }

/* Cut a row whose total has these bounds. Returns whether they decided where. */
static int cut_top_p(es_state *st, es_bounds total) {
    const es_params *p = st->p;
    const int64_t limit = top_p_limit(p, total.least), most = top_p_limit(p, total.most);
    es_measure m = {.kind = ES_BY_WEIGHT, .limit = limit, .doubt = most - limit, .exact = exact_top_p_limit};
    const double bits = guess_bits(st, p->top_p, 0.0f, total.least);
    cut_row(st, &m, p->top_p_cut != 2, at_least(st), bits);
    return m.doubt == most - limit;
}

static int64_t length_of(const es_state *st) { return st->is_few ? st->few.n : st->v.n; }

static void cut_top_p_exactly(es_state *st) {
    const int64_t total = mass_of(st, 0).weight;
    cut_top_p(st, (es_bounds){total, total});
}

/* Cut a long row by bounds of its total, as far as they decide where; returns 0, and leaves it as it was, if it has
 * none. */
static int cut_top_p_by_bounds(es_state *st) {
    es_estimate row;
    const es_view whole = st->v;
    const double doubt = estimate_row(st, &row);
    if (doubt == 0) return 0;
    const int certain = cut_top_p(st, bounds_of_row(row, doubt));
    const int64_t kept = length_of(st);
    if (certain && ES_CHECKS_DECISIONS) {
        st->v = whole;
        st->is_few = 0;
        cut_top_p_exactly(st);
    }
    note_decision(st, certain, kept, length_of(st));
    return 1;
}

static int32_t apply_top_p(es_state *st) {
    if (st->is_few || !has_shares(&st->v) || !cut_top_p_by_bounds(st)) cut_top_p_exactly(st);
    return ES_ROW_OK;
}

static int32_t apply_top_h(es_state *st) {
    const es_mass mass = mass_of(st, 1);
    const double level = es_log2_mass(mass.weight);
    const double entropy = level * (double)mass.weight + (double)mass.information;
    es_measure m = {
        .kind = ES_BY_ENTROPY, .level = level, .most = entropy > 0 ? st->p->top_h * entropy : -1.0};
    cut_row(st, &m, 0, 1, guess_bits(st, st->p->top_h, 0.0f, mass.weight));
    return ES_ROW_OK;
}

/* Bits below the peak beyond which every token weighs less than `need`. A value half a unit lower can round
 * up to `need`; the best token is always included. */
static double depth_of_weight(int64_t need) {
    return need < ES_ONE_WEIGHT ? 30.01 - es_log2((double)need - 0.5) : 0.01;
}

/* The greatest logit in a list whose weight is below `need`. */
static float best_failing(const es_scratch *s, const float *values, int64_t n, int64_t need) {
    float best = -__builtin_inff();
    for (int64_t i = 0; i < n; i++)
        if (s->weights[i] < need && values[i] > best) best = values[i];
    return best;
}

/* The weight a token must have, as a function of the row's total. */
typedef int64_t es_threshold(const es_state *st, int64_t total);

/* How many of the n weights in the scratch memory are in [low, high). */
static int32_t count_between(const es_scratch *s, int64_t n, int64_t low, int64_t high) {
    int32_t between = 0;
    for (int64_t i = 0; i < n; i++) between += s->weights[i] >= low && s->weights[i] < high;
    return between;
}

/* A threshold that decides about every token of a long row as the true one does, if bounds of the total give one;
 * else 0. If no token is between the thresholds of the two bounds, either of them is such. So the threshold must be
 * monotonic in the total, except for values that no weight reaches. */
static int64_t bounded_threshold(es_state *st, es_threshold *threshold, es_bounds total) {
    es_scratch *s = st->s;
    const int64_t a = threshold(st, total.least), b = threshold(st, total.most);
    const int64_t low = lesser(a, b), high = greater(a, b);
    if (low < 1) return 0;
    const int32_t k = spare_list(st);
    const int64_t n = collect_head(st, depth_of_weight(low));
    list_weights(s->values[k], n, st->v.peak, s->weights);
    if (count_between(s, n, low, high)) return 0;
    if (ES_CHECKS_DECISIONS) {
        const int64_t exact = threshold(st, total_mass(&st->v, s->sums, 0).weight);
        check_same_side(count_between(s, n, lesser(exact, high), greater(exact, high)));
    }
    return high;
}

/* The threshold for this row. For a long row the total is first bounded: by its shares, or with a piecewise linear
 * approximation, at a fraction of the cost of weighing it. */
static int64_t threshold_of(es_state *st, es_threshold *threshold) {
    if (st->is_few) return threshold(st, mass_of(st, 0).weight);
    find_maxima(&st->v);
    const int shared = has_shares(&st->v);
    es_estimate row;
    const double doubt = shared ? estimate_row(st, &row) : 0;
    const es_bounds total = doubt != 0 ? bounds_of_row(row, doubt) : bound_mass(&st->v);
    const int64_t high = bounded_threshold(st, threshold, total);
    if (shared) note_decision(st, high > 0, 0, 0);
    return high > 0 ? high : threshold(st, mass_of(st, 0).weight);
}

/* How many of the sorted tokens come before the first that weighs less than `need`. */
static int32_t few_heavy(es_few *f, int64_t need) {
    few_weigh(f);
    int32_t n = 0;
    while (n < f->n && f->weights[n] >= need) n++;
    return n;
}

/* Keep the longest prefix of tokens that weigh at least `need`, and at least the best one. */
static void keep_heavy(es_state *st, int64_t need) {
    if (st->is_few) {
        few_cut(&st->few, greater(few_heavy(&st->few, need), 1));
        return;
    }
    if (need < 1) return;
    es_scratch *s = st->s;
    const int32_t k = spare_list(st);
    const int64_t n = collect_head(st, depth_of_weight(need));
    list_weights(s->values[k], n, st->v.peak, s->weights);
    const float failing = best_failing(s, s->values[k], n, need);
    if (st->v.peak > failing) use_survivors(st, k, keep_above(s, k, n, failing, 0));
    else keep_best(st);
}

/* Decreases as the total grows, except where the share is capped at 2, which is above any weight. */
static int64_t top_a_threshold(const es_state *st, int64_t total) {
    const double best = (double)ES_ONE_WEIGHT / (double)total;
    return es_weight_of_share(st->p->top_a * (best * best), total);
}

static int64_t epsilon_threshold(const es_state *st, int64_t total) {
    return es_weight_of_share(st->p->epsilon_cutoff, total);
}

static int64_t xtc_threshold(const es_state *st, int64_t total) {
    return es_weight_of_share(st->p->xtc_threshold, total);
}

static int32_t apply_top_a(es_state *st) {
    keep_heavy(st, threshold_of(st, top_a_threshold));
    return ES_ROW_OK;
}

static int32_t apply_epsilon_cutoff(es_state *st) {
    keep_heavy(st, threshold_of(st, epsilon_threshold));
    return ES_ROW_OK;
}

/* --- p_less --- */

/* The sum of squared weights: high * 2^32 + low. */
typedef struct es_squares {
    uint64_t high, low;
} es_squares;

static void add_squares(es_squares *sum, const int32_t *weights, int64_t n) {
    uint64_t high = 0, low = 0;
    for (int64_t i = 0; i < n; i++) {
        const uint64_t w = (uint32_t)weights[i], square = w * w;
        high += square >> 32;
        low += square & UINT32_MAX;
    }
    sum->high += high;
    sum->low += low;
}

/* The sum of the weights of everything that is left, and in `squares` that of their squares. */
static int64_t squared_mass(es_state *st, es_squares *squares) {
    if (st->is_few) {
        few_weigh(&st->few);
        add_squares(squares, st->few.weights, st->few.n);
        return st->few.total;
    }
    es_view *v = &st->v;
    float buffer[ES_CHUNK + ES_SLACK];
    int32_t weights[ES_CHUNK + ES_SLACK];
    int64_t total = 0;
    find_maxima(v);
    for (int64_t c = 0; c < chunks_of(v->n); c++) {
        if (!(es_distance(v->maxima[c], v->peak) >= -31.0f)) continue;
        fill_chunk(v, c, buffer);
        total += list_weights(buffer, ES_CHUNK, v->peak, weights);
        add_squares(squares, weights, ES_CHUNK);
    }
    return total;
}

/* The least weight w with w * S >= Q, where S is the total and Q the sum of squares. With n > 0 tokens, the norm form:
 * w * S * (n - 1) >= n * Q - S^2, divided by S first. */
static int64_t collision_weight(es_squares squares, int64_t total, int64_t n) {
    if (total < 1 || n == 1) return 0; /* without any weight: only where logits change */
    const uint64_t by = (uint64_t)total, count = (uint64_t)n;
    const uint64_t high = squares.high * 4 + (squares.low >> 30), low = squares.low & (ES_ONE_WEIGHT - 1);
    uint64_t rest, left;
    uint64_t quotient = es_divide_product(high, (uint64_t)ES_ONE_WEIGHT, by, &rest);
    rest += low;
    quotient += rest / by;
    rest %= by;
    if (!n) return (int64_t)(quotient + (rest > 0));
    const uint64_t fraction = es_divide_product(rest, count, by, &left);
    return (int64_t)((count * quotient + fraction - by + (left > 0) + count - 2) / (count - 1));
}

static int32_t apply_p_less(es_state *st) {
    es_squares squares = {0, 0};
    const int64_t total = squared_mass(st, &squares);
    keep_heavy(st, collision_weight(squares, total, st->p->p_less_norm ? count_alive(st) : 0));
    return ES_ROW_OK;
}

/* The row's entropy in bits. */
static double entropy_of(es_state *st, int64_t *total) {
    const es_mass mass = mass_of(st, 1);
    *total = mass.weight;
    return es_log2_mass(mass.weight) + (double)mass.information / (double)mass.weight;
}

static int32_t apply_eta_cutoff(es_state *st) {
    int64_t total;
    const double eta = st->p->eta_cutoff, threshold = es_sqrt(eta) * es_exp2(-entropy_of(st, &total));
    keep_heavy(st, es_weight_of_share(eta < threshold ? eta : threshold, total));
    return ES_ROW_OK;
}

/* --- typical_p --- */

ES_INLINE float typical_score(float logit, float peak, float expected) {
    const float score = es_distance(logit, peak) + expected;
    return score < 0 ? -score : score;
}

/* Of scratch list k, keep the elements with keys below `key`. */
static int64_t keep_smaller(es_scratch *s, int32_t k, int64_t n, uint32_t key) {
    int64_t kept = 0;
    for (int64_t i = 0; i < n; i++) {
        s->values[k][kept] = s->values[k][i];
        s->ids[k][kept] = s->ids[k][i];
        kept += s->keys[i] < key;
    }
    return kept;
}

/* Cut scratch list k after its most typical tokens. Equal scores are ordered by logit, then by id. */
static int64_t cut_typical(es_state *st, int32_t k, int64_t n, float expected, int64_t need, int64_t floor) {
    es_scratch *s = st->s;
    const float *const values = s->values[k];
    const float peak = st->v.peak;
    for (int64_t i = 0; i < n; i++) s->keys[i] = descending_key(-typical_score(values[i], peak, expected));
    const es_ranked all = {s->keys, s->weights, NULL, n};
    es_measure m = {.kind = ES_BY_WEIGHT, .limit = need - 1};
    es_cut cut = find_cut(&all, &m, (es_tally){0, 0, 0}, s);
    int crossing = 1;
    for (int tries = 0;; tries++) {
        if (cut.none) return n;
        /* The same by logit among the tokens whose score is exactly at the cut. */
        int32_t *const at = s->marks.ids, *const weights = s->marks.lengths;
        int64_t ties = 0;
        for (int64_t i = 0; i < n; i++)
            if (s->keys[i] == cut.key) {
                at[ties] = (int32_t)i;
                weights[ties] = s->weights[i];
                s->more_keys[ties++] = descending_key(values[i]);
            }
        const es_ranked tied = {s->more_keys, weights, NULL, ties};
        const es_cut inner = find_cut(&tied, &m, cut.before, s);
        int64_t equal = inside_ties(&tied, &m, &inner) + crossing;
        if (inner.before.count + equal < floor && !tries) {
            m = by_count(floor);
            crossing = 0;
            cut = find_cut(&all, &m, (es_tally){0, 0, 0}, s);
            continue;
        }
        /* Tied tokens before the inner cut get a key that passes, those after it one that does not. */
        for (int64_t t = 0; t < ties; t++) {
            const int stays = s->more_keys[t] < inner.key || (s->more_keys[t] == inner.key && equal-- > 0);
            s->keys[at[t]] = stays ? 0 : UINT32_MAX;
        }
        return keep_smaller(s, k, n, cut.key ? cut.key : 1);
    }
}

static void few_typical(es_state *st, float expected, int64_t need, int64_t floor) {
    es_few *f = &st->few;
    float scores[ES_SMALL + ES_SLACK];
    int32_t order[ES_SMALL];
    uint8_t kept[ES_SMALL] = {0};
    few_weigh(f);
    for (int32_t i = 0; i < f->n; i++) {
        const float score = typical_score(f->logits[i], f->logits[0], expected);
        scores[i] = score == score ? -score : -__builtin_inff(); /* NaN, where logits change, has no rank */
    }
    rank_values(scores, f->n, order);
    int64_t sum = 0;
    for (int32_t r = 0; r < f->n && (sum < need || r < floor); r++) {
        kept[order[r]] = 1;
        sum += f->weights[order[r]];
    }
    few_keep(f, kept);
}

static int32_t apply_typical_p(es_state *st) {
    const es_mass mass = mass_of(st, 1);
    const float expected = (float)((double)mass.information / (double)mass.weight);
    const int64_t need = es_mass_reaching(st->p->typical_p, mass.weight), floor = at_least(st);
    es_scratch *s = st->s;
    const int32_t k = spare_list(st);
    double bound = guess_bits(st, st->p->typical_p, expected, mass.weight);
    for (; !st->is_few; bound *= 1.4) {
        const int whole = bound > ES_MOST_BITS;
        const int64_t n = collect_head(st, whole ? 1e300 : (double)expected + bound);
        const float peak = st->v.peak;
        list_weights(s->values[k], n, peak, s->weights);
        int64_t near = 0, weight = 0;
        for (int64_t i = 0; i < n; i++) {
            const int is_near = typical_score(s->values[k][i], peak, expected) <= (float)bound;
            near += is_near;
            weight += is_near ? s->weights[i] : 0;
        }
        if (!whole && (weight < need || near < floor)) continue;
        if (n > ES_SMALL) {
            use_survivors(st, k, cut_typical(st, k, n, expected, need, floor));
            return ES_ROW_OK;
        }
        use_survivors(st, k, n);
    }
    few_typical(st, expected, need, floor);
    return ES_ROW_OK;
}

/* --- tfs --- */

/* How far the weights at i, i + 1 and i + 2 deviate from a straight line. */
ES_INLINE int64_t bend_at(const int32_t *w, int64_t i) {
    const int64_t off = (int64_t)w[i] - 2 * (int64_t)w[i + 1] + w[i + 2];
    return off < 0 ? -off : off;
}

/* How many tokens form the curve: under KoboldAI's cut also those removed before, with weight 0. */
static int64_t tfs_tokens(es_state *st) { return st->p->tfs_cut == 1 ? st->vocab_size : count_alive(st); }

/* How many of `alive` tokens stay, given the first n weights in order of the `tokens` that form the curve;
 * after those there is no curvature. */
static int64_t tfs_count(const es_params *p, const int32_t *w, int64_t n, int64_t tokens, int64_t alive,
                         int64_t floor) {
    int64_t total = 0;
    for (int64_t i = 0; i + 2 < n; i++) total += bend_at(w, i);
    const int straight = total == 0;
    if (straight) total = n > 2 ? n - 2 : 0;
    const int64_t limit = es_mass_within(p->tfs, total);
    int64_t cut = tokens, sum = 0;
    if (total > limit)
        for (cut = 0; cut + 2 < n; cut++) {
            sum += straight ? 1 : bend_at(w, cut);
            if (sum > limit) break;
        }
    if (p->tfs_cut == 1) return lesser(greater(lesser(cut + 1, tokens - 1), floor), alive);
    const int64_t behind = greater(cut, floor);
    return behind < alive - 2 ? behind : alive;
}

static int32_t apply_tfs(es_state *st) {
    const int64_t alive = count_alive(st), tokens = tfs_tokens(st), floor = at_least(st);
    if (st->is_few) {
        es_few *f = &st->few;
        few_weigh(f);
        f->weights[alive] = f->weights[alive + 1] = 0;
        few_cut(f, tfs_count(st->p, f->weights, lesser(tokens, alive + 2), tokens, alive, floor));
        return ES_ROW_OK;
    }
    es_scratch *s = st->s;
    const int32_t k = spare_list(st);
    const int64_t n = collect_head(st, 31);
    const float peak = st->v.peak;
    int64_t heavy = 0;
    for (int64_t i = 0; i < n; i++) {
        const float y = es_distance(s->values[k][i], peak);
        s->keys[heavy] = descending_key(y);
        s->marks.ids[heavy] = (int32_t)i;
        heavy += y >= -31.0f;
    }
    sort_pairs(s->keys, s->marks.ids, s->more_keys, s->marks.lengths, heavy);
    const int64_t count = lesser(tokens, heavy + 2);
    for (int64_t i = 0; i < count; i++)
        s->weights[i] = i < heavy ? es_weight(es_distance(s->values[k][s->marks.ids[i]], peak)) : 0;
    const int64_t kept = tfs_count(st->p, s->weights, count, tokens, alive, floor);
    if (kept < alive) keep_leading(st, kept);
    return ES_ROW_OK;
}

/* --- xtc --- */

static int32_t apply_xtc(es_state *st) {
    const es_params *p = st->p;
    if (!es_coin(es_draw64(st->seed, st->position, st->op->stream, 0), p->xtc_probability)) return ES_ROW_OK;
    const int64_t need = threshold_of(st, xtc_threshold);
    if (st->is_few) {
        es_few *f = &st->few;
        const int64_t gone = greater(few_heavy(f, need), 1) - 1;
        if (!gone || f->n - gone < p->min_keep) return ES_ROW_OK;
        uint8_t kept[ES_SMALL];
        for (int32_t i = 0; i < f->n; i++) kept[i] = i >= gone;
        few_keep(f, kept);
        return ES_ROW_OK;
    }
    es_scratch *s = st->s;
    const int32_t k = spare_list(st);
    float *const values = s->values[k];
    const int64_t n = collect_head(st, need < 1 ? 1e300 : depth_of_weight(need));
    list_weights(values, n, st->v.peak, s->weights);
    const float failing = best_failing(s, values, n, need);
    /* The last of those above: the least logit, and the greatest id among equals. */
    int64_t above = 0, last = -1;
    for (int64_t i = 0; i < n; i++)
        if (values[i] > failing) {
            above++;
            if (last < 0 || values[i] <= values[last]) last = i;
        }
    if (above < 2) return ES_ROW_OK;
    if (p->min_keep > 1 && count_alive(st) - (above - 1) < p->min_keep) return ES_ROW_OK;
    int32_t *const gone = s->marks.ids;
    int64_t removed = 0;
    for (int64_t i = 0; i < n; i++)
        if (values[i] > failing && i != last) gone[removed++] = s->ids[k][i];
    return remove_tokens(st, gone, removed, 0);
}

/* --- transforms --- */

static void bend(float *values, int64_t n, float top, double f, double c) {
    const double peak = top, second = (3.0 - c) / 2.0 * f, third = (c - 1.0) / 2.0 * f;
    for (int64_t i = 0; i < n; i++) {
        if (!(values[i] >= -FLT_MAX)) continue;
        const double d = (double)values[i] - peak;
        const double square = d * d;
        double bent = peak - square * second;
        bent += square * d * third;
        bent = bent > FLT_MAX ? (double)FLT_MAX : !(bent >= -FLT_MAX) ? (double)-FLT_MAX : bent;
        values[i] = (float)bent;
    }
}

static int32_t apply_smoothing(es_state *st) {
    const double f = st->p->smoothing_factor, c = st->p->smoothing_curve;
    if (st->is_few) {
        bend(st->few.logits, st->few.n, st->few.logits[0], f, c);
        few_resort(&st->few);
        return ES_ROW_OK;
    }
    find_maxima(&st->v);
    const float peak = st->v.peak;
    bend(own_values(st), st->v.n, peak, f, c);
    st->v.has_maxima = 0;
    return ES_ROW_OK;
}

/* The temperature as a function of the entropy. */
static double dynamic_temperature(es_state *st) {
    const es_params *p = st->p;
    const int64_t alive = count_alive(st);
    if (alive < 2) return 1.0;
    int64_t total;
    const double low = p->temperature - p->dynatemp_range, high = p->temperature + p->dynatemp_range;
    const double start = low > 0.0 ? low : 0.0;
    const double share = es_power(entropy_of(st, &total) / es_log2((double)alive), p->dynatemp_exponent);
    const double t = start + (high - start) * share;
    return t < ES_GREEDY_BELOW ? ES_GREEDY_BELOW : t > ES_HOTTEST ? ES_HOTTEST : t;
}

static void scale_values(float *values, int64_t n, float scale) {
    for (int64_t i = 0; i < n; i++)
        values[i] = values[i] >= -FLT_MAX ? clamp_finite(values[i] * scale) : values[i];
}

static int32_t apply_temperature(es_state *st) {
    const es_params *p = st->p;
    if (p->temperature < ES_GREEDY_BELOW) {
        keep_best(st);
        return ES_ROW_OK;
    }
    const float scale = (float)(1.0 / (p->dynatemp_range > 0 ? dynamic_temperature(st) : p->temperature));
    if (st->is_few) {
        scale_values(st->few.logits, st->few.n, scale);
        few_resort(&st->few);
        return ES_ROW_OK;
    }
    es_view *v = &st->v;
    if (v->scale != 1.0f) own_values(st); /* a second temperature: each one rounds separately */
    if (v->list >= 0) scale_values(st->s->values[v->list], v->n, scale);
    else { /* logits as given are at most 2^100: they stay finite, and are scaled when they are read */
        v->scale = scale;
        const int32_t edits = v->n_edits && v->edit_ids == st->s->edit_ids[1];
        scale_values(st->s->edit_values[edits], v->n_edits, scale);
    }
    if (v->has_maxima) {
        scale_values(v->maxima, chunks_of(v->n), scale);
        scale_values(&v->peak, 1, scale);
    }
    return ES_ROW_OK;
}

/* --- infill --- */

/* Whether infill may put back the token that ends the text: not against the grammar, nor too early. */
static int may_force_end(const es_state *st) {
    const es_batch *batch = st->job->batch;
    const int32_t entry = st->job->entry, token = st->p->forced_end - 1;
    if (token < 0 || token >= st->vocab_size) return 0;
    if (st->span.length - st->span.prompt_length < st->p->min_tokens) return 0;
    if (!batch->masked || !batch->masked[entry]) return 1;
    const int32_t *words = batch->bitmask + batch->rows[entry] * batch->bitmask_stride;
    return (uint32_t)words[token / 32] >> token % 32 & 1;
}

/* No text is likely and no end is left: force the end, or leave the row as it is. */
static void force_end(es_state *st) {
    if (!may_force_end(st)) return;
    const int32_t k = spare_list(st);
    st->s->values[k][0] = 1.0f;
    st->s->ids[k][0] = st->p->forced_end - 1;
    use_survivors(st, k, 1);
}

static int32_t apply_infill(es_state *st) {
    es_scratch *s = st->s;
    if (st->is_few) {
        es_few *f = &st->few;
        uint8_t kept[ES_SMALL];
        few_weigh(f);
        for (int32_t i = 0; i < f->n; i++) s->wide_weights[i] = f->weights[i];
        if (es_infill_keep(st->p, f->n, f->ids, s->wide_weights, kept, &s->infill)) return ES_ROW_DECLINED;
        if (memchr(kept, 1, (size_t)f->n)) few_keep(f, kept);
        else force_end(st);
        return ES_ROW_OK;
    }
    const int32_t k = spare_list(st);
    const int64_t n = collect_head(st, 1e300);
    if (!n) return ES_ROW_EMPTY;
    fill_keys(s->values[k], n, s->keys);
    for (int64_t i = 0; i < n; i++) s->marks.ids[i] = (int32_t)i;
    sort_pairs(s->keys, s->marks.ids, s->more_keys, s->marks.lengths, n);
    for (int64_t i = 0; i < n; i++) {
        const int32_t from = s->marks.ids[i];
        s->wide_weights[i] = es_weight(es_distance(s->values[k][from], st->v.peak));
        s->marks.lengths[i] = s->ids[k][from];
    }
    uint8_t *const kept = (uint8_t *)s->more_keys;
    if (es_infill_keep(st->p, n, s->marks.lengths, s->wide_weights, kept, &s->infill)) return ES_ROW_DECLINED;
    if (!memchr(kept, 1, (size_t)n)) {
        force_end(st);
        return ES_ROW_OK;
    }
    for (int64_t i = 0; i < n; i++) s->keys[s->marks.ids[i]] = !kept[i];
    use_survivors(st, k, keep_smaller(s, k, n, 1));
    return ES_ROW_OK;
}
