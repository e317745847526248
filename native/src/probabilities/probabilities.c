/* Draws from rows of 16-bit probabilities (engine_sampler_probabilities.h).
 *
 * A row has so few different numbers that counting how often each occurs takes the place of sorting. Bits of
 * probabilities are ordered as the numbers are, and are below BINS; -0, and those of a row that changes meanwhile,
 * are taken modulo BINS. */
#include "probabilities.h"

#include "engine_sampler_numbers.h"

#include <stdlib.h>

enum {
    BINS = 1 << 14,
    CHUNK = 64, /* tokens that share one maximum */
    FEW = 8, /* top-k is sure of its tokens from the maxima if there are this many times as many chunks */
    TRIES = 2, /* top-p tries the best 1 / 32 of the chunks, then 1 / 4, before it counts all */
};

static const int64_t TRIED[TRIES] = {32, 4};

typedef struct row {
    const es_probabilities *given;
    int64_t i; /* of all arrays but the table */
    const uint16_t *bits;
    const uint16_t *noise;
    int64_t n;
    uint16_t peak;
    uint16_t low; /* counts are right from here up to the peak */
    int32_t n_filled;
    /* Kept are the tokens above `least`, and the first `of_least` of those equal to it. */
    uint16_t least;
    int64_t of_least;
    int64_t size;
    double mass;
    int64_t weight;
    /* Scratch. */
    uint32_t *counts; /* [BINS] */
    int32_t *weights; /* [BINS]; right where counts are above 0 */
    uint16_t *filled; /* [BINS]; the bins from the peak down to `low` that have tokens */
    uint16_t *maxima; /* [chunks]; those below `low` have nothing that is kept */
    int64_t *sums; /* [chunks] */
} row;

static inline int64_t least_of(int64_t a, int64_t b) { return a < b ? a : b; }

static inline int64_t chunk_end(const row *r, int64_t start) { return least_of(start + CHUNK, r->n); }

static inline uint16_t bin_of(uint16_t bits) { return bits & (BINS - 1); }

static inline float value_of(const row *r, uint16_t bin) { return r->given->values[bin]; }

static inline int32_t weight_of(const row *r, uint16_t bin) {
    const float *const logits = r->given->logits;
    return es_weight(es_distance(logits[bin], logits[r->peak]));
}

static inline int weighs(const row *r) {
    return r->given->draw == ES_BY_WEIGHT_OF_IDS || r->given->draw == ES_BY_WEIGHT_OF_RANKS;
}

/* How many tokens of this bin are kept. */
static inline int64_t kept_of(const row *r, int32_t bin) {
    return bin > r->least ? r->counts[bin] : bin == r->least ? r->of_least : 0;
}

/* --- counting --- */

static uint16_t greatest(const uint16_t *bits, int64_t n) {
    uint16_t most = 0;
    if (n == CHUNK)
        for (int j = 0; j < CHUNK; j++) most = bits[j] > most ? bits[j] : most;
    else
        for (int64_t j = 0; j < n; j++) most = bits[j] > most ? bits[j] : most;
    return most;
}

static inline int64_t chunks_of(const row *r) { return (r->n + CHUNK - 1) / CHUNK; }

/* The greatest of a chunk in which there is something else than probabilities, or -1 unless that is only -0. */
static int32_t greatest_without_sign(const row *r, int64_t start, uint16_t one) {
    uint16_t most = 0;
    for (int64_t i = start, end = chunk_end(r, start); i < end; i++) {
        const uint16_t here = r->bits[i] == 0x8000 ? 0 : r->bits[i];
        if (here > one) return -1;
        most = here > most ? here : most;
    }
    return most;
}

/* Find the maxima, and the peak; 0 if the row has no peak above 0 or is not one of probabilities. */
static int find_maxima(row *r) {
    const uint16_t one = r->given->bfloat16 ? 0x3F80 : 0x3C00;
    r->peak = 0;
    for (int64_t c = 0, start = 0; start < r->n; c++, start += CHUNK) {
        int32_t most = greatest(r->bits + start, chunk_end(r, start) - start);
        if (most > one && (most = greatest_without_sign(r, start, one)) < 0) return 0;
        r->maxima[c] = (uint16_t)most;
        if (most > r->peak) r->peak = (uint16_t)most;
    }
    return r->peak > 0;
}

/* Whether all noise is finite and at least 0, or -0. */
static int has_noise(const row *r) {
    const uint16_t infinity = r->given->bfloat16 ? 0x7F80 : 0x7C00;
    for (int64_t start = 0; start < r->n; start += CHUNK) {
        const int64_t end = chunk_end(r, start);
        if (greatest(r->noise + start, end - start) < infinity) continue;
        for (int64_t i = start; i < end; i++)
            if (r->noise[i] >= infinity && r->noise[i] != 0x8000) return 0;
    }
    return 1;
}

/* How many chunks have their maximum in each bin, in place of the weights, which are not yet in use. */
static void count_maxima(row *r) {
    memset(r->weights, 0, BINS * sizeof r->weights[0]);
    for (int64_t c = 0, chunks = chunks_of(r); c < chunks; c++) r->weights[r->maxima[c]]++;
}

/* A number that at least k tokens reach: the k-th greatest of the maxima, of which `*chunks` reach it. */
static uint16_t reached_by(const row *r, int64_t k, int64_t *chunks) {
    int32_t bin = r->peak;
    *chunks = r->weights[bin];
    while (bin > 1 && *chunks < k) *chunks += r->weights[--bin];
    return (uint16_t)bin;
}

/* Count from `low` on; more than `most` of the peak alone need no number. */
static void count_high(row *r, int64_t most) {
    for (int64_t c = 0, start = 0; start < r->n; c++, start += CHUNK) {
        if (r->maxima[c] < r->low) continue;
        const int64_t end = chunk_end(r, start);
        for (int64_t i = start; i < end; i++) {
            const uint16_t bin = bin_of(r->bits[i]);
            if (bin >= r->low) r->counts[bin]++;
        }
        if (r->low == r->peak && r->counts[r->peak] > most) return;
    }
}

/* In two tables by turns: equal neighbours do not wait for each other. */
static void count_all(row *r) {
    int32_t *const others = r->weights;
    memset(others, 0, (size_t)(r->peak + 1) * sizeof others[0]);
    r->counts[0] = 0;
    for (int64_t c = 0, start = 0; start < r->n; c++, start += CHUNK) {
        if (!r->maxima[c]) continue;
        int64_t i = start;
        const int64_t end = chunk_end(r, start);
        for (; i + 1 < end; i += 2) {
            r->counts[bin_of(r->bits[i])]++;
            others[bin_of(r->bits[i + 1])]++;
        }
        if (i < end) r->counts[bin_of(r->bits[i])]++;
    }
    for (int32_t bin = 0; bin <= r->peak; bin++) r->counts[bin] += (uint32_t)others[bin];
}

/* Without a branch, which nobody could predict. */
static void list_filled(row *r) {
    r->n_filled = 0;
    for (int32_t bin = r->peak; bin >= r->low; bin--) {
        r->filled[r->n_filled] = (uint16_t)bin;
        r->n_filled += r->counts[bin] > 0;
    }
}

/* Count the tokens of each bin from `low` on, of the peak alone no more than are needed for k. */
static void count_from(row *r, uint16_t low, int64_t k) {
    r->low = low;
    memset(r->counts + low, 0, (size_t)(r->peak - low + 1) * sizeof r->counts[0]);
    if (low > 1) count_high(r, r->given->keeps_ties ? r->n : k);
    else count_all(r);
    list_filled(r);
}

/* Whether the tokens counted are k, or have the mass `needed`. */
static int has_enough(const row *r, int64_t k, int64_t needed) {
    int64_t size = 0, mass = 0;
    for (int32_t b = 0; b < r->n_filled && size < k && mass < needed; b++) {
        const int64_t there = r->counts[r->filled[b]];
        size += there;
        mass += there * r->given->masses[r->filled[b]];
    }
    return size >= k || mass >= needed;
}

/* Count the tokens of each bin, at least the first k, or those of them that have the mass `needed`; -1: k. */
static void count(row *r, int64_t k, int64_t needed) {
    const int64_t chunks = chunks_of(r);
    int64_t reaching;
    if (k <= chunks / FEW) {
        count_maxima(r);
        count_from(r, reached_by(r, k, &reaching), k);
        return;
    }
    for (int t = 0; needed >= 0 && t < TRIES; t++) {
        if (chunks < TRIED[t]) continue;
        count_maxima(r);
        const uint16_t low = reached_by(r, chunks / TRIED[t], &reaching);
        if (reaching > chunks / 2) break;
        count_from(r, low, k);
        if (has_enough(r, k, needed)) return;
    }
    count_from(r, 1, k);
}

/* --- what is kept --- */

/* How many tokens of `mass` each must be added to `sum` to reach `needed`; at least one, of `most`. */
static int64_t tokens_to_reach(int64_t needed, int64_t sum, int64_t mass, int64_t most) {
    const int64_t missing = needed - sum;
    if (needed < 0 || mass * most < missing) return most + 1;
    return missing <= mass ? 1 : (missing + mass - 1) / mass;
}

static void keep(row *r, int32_t bin, int64_t tokens) {
    r->least = (uint16_t)bin;
    r->of_least = tokens;
    r->size += tokens;
    r->mass += (double)tokens * (double)value_of(r, (uint16_t)bin);
    if (!weighs(r)) return;
    r->weights[bin] = weight_of(r, (uint16_t)bin);
    r->weight += tokens * r->weights[bin];
}

/* Keep the first k tokens, and of these the fewest that have the mass `needed`; -1: all of them. */
static void keep_leading(row *r, int64_t k, int64_t needed) {
    int64_t sum = 0;
    r->least = r->peak;
    r->of_least = r->size = r->weight = 0;
    r->mass = 0;
    for (int32_t b = 0; b < r->n_filled && r->size < k; b++) {
        const int32_t bin = r->filled[b];
        const int64_t there = r->counts[bin];
        const int64_t room = r->given->keeps_ties ? there : least_of(there, k - r->size);
        const int64_t mass = needed < 0 ? 0 : r->given->masses[bin];
        const int64_t enough = tokens_to_reach(needed, sum, mass, room);
        keep(r, bin, least_of(enough, room));
        if (enough <= room) return;
        sum += room * mass;
    }
}

/* --- finding tokens --- */

/* The id of the token number `skip` of those in `bin`. */
static int64_t find_in_bin(const row *r, uint16_t bin, int64_t skip) {
    int64_t last = 0;
    for (int64_t c = 0, start = 0; start < r->n; c++, start += CHUNK) {
        if (r->maxima[c] < bin) continue;
        const int64_t end = chunk_end(r, start);
        uint16_t equal = 0;
        for (int64_t i = start; i < end; i++) equal += r->bits[i] == bin;
        if (skip >= equal) {
            skip -= equal;
            continue;
        }
        for (int64_t i = start; i < end; i++)
            if (r->bits[i] == bin && (last = i, skip-- == 0)) return i;
    }
    return last;
}

/* The id of the kept token with this rank. */
static int64_t find_rank(const row *r, int64_t rank) {
    for (int32_t b = 0; b < r->n_filled && r->filled[b] >= r->least; b++) {
        const uint16_t bin = r->filled[b];
        const int64_t there = kept_of(r, bin);
        if (rank < there) return find_in_bin(r, bin, rank);
        rank -= there;
    }
    return 0;
}

/* Where the tokens equal to `least` that are kept end. */
static int64_t end_of_least(const row *r) {
    if (r->of_least == INT64_MAX) return r->n; /* uncounted: all of them are */
    if (r->of_least >= r->counts[r->least]) return r->n;
    return find_in_bin(r, r->least, r->of_least - 1) + 1;
}

/* --- draws by weight --- */

/* The first id in [start, end) at which the weights exceed what is left, or -1. Weights are right from bin 0 on:
 * 0 for what is not kept. */
static int64_t walk(const row *r, int64_t start, int64_t end, int64_t *left) {
    for (int64_t i = start; i < end; i++) {
        const int64_t weight = r->weights[bin_of(r->bits[i])];
        if (*left < weight) return i;
        *left -= weight;
    }
    return -1;
}

static int64_t weight_between(const row *r, int64_t start, int64_t end) {
    int64_t sum = 0;
    for (int64_t i = start; i < end; i++) {
        sum += r->weights[bin_of(r->bits[i])];
        __asm__("" : "+r"(sum)); /* one by one: vectors, filled from a table, take twice as long */
    }
    return sum;
}

/* `walk` that adds whole chunks first. */
static int64_t walk_far(const row *r, int64_t start, int64_t end, int64_t *left) {
    while (start < end) {
        const int64_t c = start / CHUNK, stop = least_of((c + 1) * CHUNK, end);
        const int64_t sum = r->maxima[c] < r->least ? 0 : weight_between(r, start, stop);
        if (*left < sum) return walk(r, start, stop, left);
        *left -= sum;
        start = stop;
    }
    return -1;
}

static int64_t draw_in_id_order(const row *r) {
    int64_t left = es_scale_draw(r->given->numbers[r->i], r->weight);
    const int64_t end = end_of_least(r);
    memset(r->weights, 0, r->least * sizeof r->weights[0]);
    int64_t id = walk_far(r, 0, end, &left);
    if (id < 0) {
        r->weights[r->least] = 0;
        id = walk_far(r, end, r->n, &left);
    }
    return id < 0 ? 0 : id;
}

static int64_t draw_in_rank_order(const row *r) {
    int64_t left = es_scale_draw(r->given->numbers[r->i], r->weight);
    for (int32_t b = 0; b < r->n_filled && r->filled[b] >= r->least; b++) {
        const uint16_t bin = r->filled[b];
        const int64_t there = kept_of(r, bin);
        const int64_t sum = there * r->weights[bin];
        if (left < sum) return find_in_bin(r, bin, left / r->weights[bin]);
        left -= sum;
    }
    return 0;
}

/* As `draw_in_id_order` where all tokens are kept, uncounted. */
static int64_t draw_from_all(row *r) {
    for (int32_t bin = 0; bin <= r->peak; bin++) r->weights[bin] = weight_of(r, (uint16_t)bin);
    int64_t total = 0;
    for (int64_t c = 0, start = 0; start < r->n; c++, start += CHUNK) {
        const int weighs_nothing = r->weights[r->maxima[c]] == 0;
        total += r->sums[c] = weighs_nothing ? 0 : weight_between(r, start, chunk_end(r, start));
    }
    int64_t left = es_scale_draw(r->given->numbers[r->i], total);
    for (int64_t c = 0, start = 0; start < r->n; c++, start += CHUNK) {
        if (left < r->sums[c]) {
            const int64_t id = walk(r, start, chunk_end(r, start), &left);
            return id < 0 ? 0 : id;
        }
        left -= r->sums[c];
    }
    return 0;
}

/* --- races --- */

static inline uint16_t unsigned_zero(uint16_t noise) { return noise & 0x7FFF; }

static uint16_t least_noise(const uint16_t *noise, int64_t n) {
    uint16_t least = 0x7FFF;
    for (int64_t j = 0; j < n; j++) {
        const uint16_t here = unsigned_zero(noise[j]);
        least = here < least ? here : least;
    }
    return least;
}

static inline double ratio_of(const row *r, uint16_t bin, uint16_t noise) {
    return (double)value_of(r, bin) / (double)r->given->values[unsigned_zero(noise)];
}

static int64_t race_by_id(const row *r) {
    const int64_t end = end_of_least(r);
    double best = -1;
    int64_t winner = 0;
    for (int64_t c = 0, start = 0; start < r->n; c++, start += CHUNK) {
        const int64_t stop = chunk_end(r, start);
        const uint16_t most = r->maxima[c];
        if (most < r->least || (most == r->least && start >= end)) continue;
        /* No ratio of the chunk is above that of its greatest number to its least noise. */
        if (!(ratio_of(r, most, least_noise(r->noise + start, stop - start)) > best)) continue;
        for (int64_t i = start; i < stop; i++) {
            const uint16_t bin = bin_of(r->bits[i]);
            if (bin < r->least || (bin == r->least && i >= end)) continue;
            const double ratio = ratio_of(r, bin, r->noise[i]);
            if (!(ratio > best)) continue;
            best = ratio;
            winner = i;
        }
    }
    return winner;
}

/* The winner among the first `size` ranks, the noise being read at the rank. */
static int64_t race_by_rank(const row *r, int64_t size) {
    double best = -1;
    int64_t winner = 0, rank = 0;
    for (int32_t b = 0; b < r->n_filled && rank < size; b++) {
        const uint16_t bin = r->filled[b];
        const int64_t there = least_of(kept_of(r, bin), size - rank);
        /* Of equal probabilities, the first with the least noise. */
        const uint16_t least = least_noise(r->noise + rank, there);
        const double ratio = ratio_of(r, bin, least);
        if (ratio > best) {
            best = ratio;
            winner = rank;
            while (winner < rank + there - 1 && unsigned_zero(r->noise[winner]) != least) winner++;
        }
        rank += there;
    }
    return find_rank(r, winner);
}

/* --- rounded sums --- */

static float round_to_16_bits(float x, int bfloat16) {
    const uint32_t bits = (uint32_t)es_float_bits(x);
    if (bfloat16) return es_float_of((int32_t)((bits + (0x7FFF + (bits >> 16 & 1))) & 0xFFFF0000u));
    /* Sums below the normal float16 numbers are exact. */
    const float rounded = es_float_of((int32_t)((bits + (0xFFF + (bits >> 13 & 1))) & 0xFFFFE000u));
    return rounded >= 65536.0f ? __builtin_inff() : rounded;
}

/* How many kept tokens, from the first, have a rounded sum below `limit` (inclusive: or equal to it); `sum` is
 * that of the last of these, or else of the first token. */
static int64_t count_within(const row *r, double limit, int inclusive, float *sum) {
    float total = 0;
    int64_t rank = 0;
    for (int32_t b = 0; b < r->n_filled && r->filled[b] >= r->least; b++) {
        const uint16_t bin = r->filled[b];
        const float value = value_of(r, bin);
        for (int64_t j = kept_of(r, bin); j > 0; j--) {
            const float next = round_to_16_bits(total + value, r->given->bfloat16);
            if (next == total) { /* no later value is greater */
                *sum = total;
                return r->size;
            }
            if (!(next < limit || (inclusive && next == limit))) {
                *sum = rank ? total : next;
                return rank;
            }
            total = next;
            rank++;
        }
    }
    *sum = total;
    return r->size;
}

/* Restrict what is kept to the first tokens, at least one. */
static void cut_to(row *r, int64_t size) {
    int64_t before = 0;
    for (int32_t b = 0; b < r->n_filled && r->filled[b] >= r->least; b++) {
        const uint16_t bin = r->filled[b];
        const int64_t there = kept_of(r, bin);
        if (before + there >= size) {
            r->least = bin;
            r->of_least = size - before;
            r->size = size;
            return;
        }
        before += there;
    }
}

static int64_t draw_rounded(row *r) {
    const int races = r->given->draw == ES_ROUNDED_RACE;
    float base = 0, unused;
    int64_t head = count_within(r, r->given->topp[r->i], races, &base), token;
    head = head > 1 ? head : 1;
    if (races) token = race_by_rank(r, head);
    else
        token = find_rank(r,
                          least_of(count_within(r, base * r->given->shares[r->i], 1, &unused), r->size - 1));
    cut_to(r, head);
    r->mass = base;
    return token;
}

/* --- a row --- */

/* Whether all tokens are kept, and nothing is asked but which of them is drawn. */
static int needs_no_counts(const row *r) {
    const es_probabilities *const given = r->given;
    if (given->draw != ES_BY_WEIGHT_OF_IDS && given->draw != ES_RACE) return 0;
    return !given->lists && given->needed[r->i] < 0 && given->topk[r->i] >= r->n;
}

static int64_t draw_uncounted(row *r) {
    if (weighs(r)) return draw_from_all(r);
    r->least = 1;
    r->of_least = INT64_MAX;
    return race_by_id(r);
}

static int64_t draw(row *r) {
    const int32_t way = r->given->draw;
    const int rounded = way == ES_ROUNDED_SHARE || way == ES_ROUNDED_RACE;
    if (needs_no_counts(r)) return draw_uncounted(r);
    count(r, r->given->topk[r->i], rounded ? -1 : r->given->needed[r->i]);
    keep_leading(r, r->given->topk[r->i], rounded ? -1 : r->given->needed[r->i]);
    if (rounded) return draw_rounded(r);
    if (way == ES_RACE) return race_by_id(r);
    return way == ES_BY_WEIGHT_OF_IDS ? draw_in_id_order(r) : draw_in_rank_order(r);
}

static void list_leading(const row *r, uint16_t *leading) {
    const int64_t size = r->given->lists;
    int64_t at = 0;
    for (int32_t b = 0; b < r->n_filled && at < size; b++)
        for (int64_t j = kept_of(r, r->filled[b]); j > 0 && at < size; j--) leading[at++] = r->filled[b];
    while (at < size) leading[at++] = 0;
}

static size_t chunks_in(int64_t vocab_size) { return (size_t)(vocab_size / CHUNK + 1); }

size_t es_probabilities_scratch(int64_t vocab_size) {
    const size_t chunks = chunks_in(vocab_size), halves = (BINS + chunks) * sizeof(uint16_t);
    return BINS * (sizeof(uint32_t) + sizeof(int32_t)) + chunks * sizeof(int64_t) + (halves + 7) / 8 * 8;
}

void es_probabilities_sample_in(const es_probabilities *given, int64_t n, const int64_t *rows,
                                int64_t *tokens, double *masses, uint16_t *leading, char *scratch) {
    const size_t counts = BINS * sizeof(uint32_t), sums = chunks_in(given->vocab_size) * sizeof(int64_t);
    for (int64_t i = 0; i < n; i++) {
        row r = {.given = given, .i = i, .n = given->vocab_size};
        r.bits = given->bits + rows[i] * given->stride;
        r.noise = given->noise ? given->noise + rows[i] * given->noise_stride : NULL;
        r.counts = (uint32_t *)scratch;
        r.sums = (int64_t *)(scratch + counts);
        r.weights = (int32_t *)(scratch + counts + sums);
        r.filled = (uint16_t *)(r.weights + BINS);
        r.maxima = r.filled + BINS;
        const int sound = find_maxima(&r) && (!r.noise || has_noise(&r));
        tokens[i] = sound ? draw(&r) : -1;
        masses[i] = r.mass;
        if (given->lists) list_leading(&r, leading + i * given->lists); /* of an unsound row: nothing */
    }
}

int32_t es_probabilities_sample(const es_probabilities *given, int64_t n, const int64_t *rows,
                                int64_t *tokens, double *masses, uint16_t *leading) {
    char *const scratch = malloc(es_probabilities_scratch(given->vocab_size));
    if (!scratch) return -1;
    es_probabilities_sample_in(given, n, rows, tokens, masses, leading, scratch);
    free(scratch);
    return 0;
}
