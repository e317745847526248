/* Draws by random numbers that the host has computed: weights and the cut of them are those of the arithmetic
 * contract (docstring of engine_sampler.arithmetic). */
#include "library_internal.h"

#include <math.h>

static float rounded(float x) {
    const float magic = x < 0 ? -0x1p23f : 0x1p23f;
    return x < 0x1p23f && x > -0x1p23f ? (x + magic) - magic : x;
}

/* An integer near 2^30·e^(logit - peak). */
static int64_t weight_of(float logit, float peak) {
    /* clang-format off */
    static const float c[6] = {1.0f, 6.931470036506653e-1f, 2.4022242426872253e-1f, 5.550733581185341e-2f,
                               9.671512991189957e-3f, 1.326472731307149e-3f};
    /* clang-format on */
    const float y = (logit - peak) * 1.4426950408889634f;
    if (!(y >= -31.0f)) return 0;
    const float n = rounded(y), r = y - n, square = r * r;
    const float p = ((c[5] * r + c[4]) * square + (c[3] * r + c[2])) * square + (c[1] * r + c[0]);
    return (int64_t)rounded(p * ldexpf(1.0f, (int)n + 30));
}

static int64_t best_of(const float *row, int64_t n) {
    int64_t best = 0;
    for (int64_t i = 1; i < n; i++)
        if (row[i] > row[best]) best = i;
    return best;
}

static float peak_of(const float *row, int64_t n) { return row[best_of(row, n)]; }

static int64_t total_of(const float *row, int64_t n, float peak) {
    int64_t total = 0;
    for (int64_t i = 0; i < n; i++) total += weight_of(row[i], peak);
    return total;
}

static int64_t token_at(const float *row, int64_t n, float peak, int64_t target) {
    int64_t sum = 0, token = 0;
    for (int64_t i = 0; i < n && sum <= target; i++) {
        const int64_t weight = weight_of(row[i], peak);
        sum += weight;
        if (weight) token = i;
    }
    return token;
}

/* (a·b) >> 64 for b < 2^63. */
static int64_t high_product(uint64_t a, uint64_t b) {
    const uint64_t low = (a & 0xFFFFFFFFu) * (b & 0xFFFFFFFFu);
    const uint64_t middle = (a >> 32) * (b & 0xFFFFFFFFu) + (low >> 32);
    const uint64_t other = (a & 0xFFFFFFFFu) * (b >> 32) + (middle & 0xFFFFFFFFu);
    return (int64_t)((a >> 32) * (b >> 32) + (middle >> 32) + (other >> 32));
}

int64_t draw_by_bits(const float *row, int64_t n, uint64_t bits) {
    const float peak = peak_of(row, n);
    return token_at(row, n, peak, high_product(bits, (uint64_t)total_of(row, n, peak)));
}

int64_t draw_by_uniform(const float *row, int64_t n, float u) {
    const float peak = peak_of(row, n);
    return token_at(row, n, peak, (int64_t)((double)u * (double)total_of(row, n, peak)));
}

/* The race of exponential clocks: the first to ring is drawn with the probability of its weight. */
int64_t draw_by_exponential(const float *row, int64_t n, const float *noise) {
    const float peak = peak_of(row, n);
    double best = -1;
    int64_t token = 0;
    for (int64_t i = 0; i < n; i++) {
        const int64_t weight = weight_of(row[i], peak);
        const double speed = weight ? (double)weight / (double)noise[i] : -1;
        if (speed > best) best = speed, token = i;
    }
    return token;
}

int64_t draw_by_rank(float *row, int64_t n, const float *noise, int64_t width) {
    const float peak = peak_of(row, n);
    double fastest = -1;
    int64_t token = 0;
    for (int64_t rank = 0;; rank++) {
        const int64_t best = best_of(row, n);
        if (!(row[best] > -INFINITY)) return token;
        if (rank == width) return -1;
        const double speed = (double)weight_of(row[best], peak) / (double)noise[rank];
        if (speed > fastest) fastest = speed, token = best;
        row[best] = -INFINITY;
    }
}
