/* Scalars of the arithmetic contract: the same bits as engine_sampler.arithmetic. Needs no library and no
 * other header of engine_sampler; for authors of exact kernels. Compile without contraction
 * (-ffp-contract=off): every operation rounds once, as written. */
#pragma once

#include <float.h>
#include <stdint.h>
#include <string.h>

#define ES_LOGIT_LIMIT 0x1p100f
#define ES_LN_2 0.6931471805599453
#define ES_LOG2_E 1.4426950408889634f
#define ES_MASS_SLACK 0x1p-20
#define ES_GREEDY_BELOW 1e-4
#define ES_HOTTEST 1e6
#define ES_ONE_WEIGHT ((int64_t)1 << 30)

static inline uint64_t es_bits_of(double x) {
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline double es_double_of(uint64_t bits) {
    double x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static inline int32_t es_float_bits(float x) {
    int32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static inline float es_float_of(int32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* Nearest integer, ties to even, for |x| < 2^52. */
static inline double es_rint(double x) {
    const double magic = x < 0 ? -0x1p52 : 0x1p52;
    return (x + magic) - magic;
}

static inline float es_rintf(float x) { /* |x| < 2^23 */
    const float magic = x < 0 ? -0x1p23f : 0x1p23f;
    return (x + magic) - magic;
}

static inline double es_ceil(double x) { /* |x| < 2^52 or an integer */
    if (!(x < 0x1p52 && x > -0x1p52)) return x;
    const double nearest = es_rint(x);
    return nearest < x ? nearest + 1.0 : nearest;
}

static inline double es_floor(double x) {
    if (!(x < 0x1p52 && x > -0x1p52)) return x;
    const double nearest = es_rint(x);
    return nearest > x ? nearest - 1.0 : nearest;
}

/* x as an integer; 0 where it is none of at most 62 bits, which only changing logits can cause. */
static inline int64_t es_integer(double x) { return x >= -0x1p62 && x <= 0x1p62 ? (int64_t)x : 0; }

static inline double es_sqrt(double x) { return __builtin_sqrt(x); } /* one IEEE operation */

/* log2 of positive finite x. */
static inline double es_log2(double x) {
    static const double terms[11] = {
        2.8853900817779268 / 1,  2.8853900817779268 / 3,  2.8853900817779268 / 5,  2.8853900817779268 / 7,
        2.8853900817779268 / 9,  2.8853900817779268 / 11, 2.8853900817779268 / 13, 2.8853900817779268 / 15,
        2.8853900817779268 / 17, 2.8853900817779268 / 19, 2.8853900817779268 / 21};
    int64_t shift = 0;
    if (x < DBL_MIN) { /* denormal */
        x *= 0x1p54;
        shift = -54;
    }
    const uint64_t bits = es_bits_of(x);
    int64_t e = (int64_t)(bits >> 52) - 1022 + shift;
    double m = es_double_of((bits & 0x000FFFFFFFFFFFFF) | 0x3FE0000000000000); /* [1/2, 1) */
    if (m < 0.7071067811865476) {
        m = m + m;
        e -= 1;
    }
    const double s = (m - 1.0) / (m + 1.0);
    const double square = s * s;
    double series = terms[10];
    for (int k = 9; k >= 0; k--) series = series * square + terms[k];
    return (double)e + s * series;
}

/* 2^x for finite x, clamped to 2^±1022; NaN, which only changing logits can cause, counts as the least. */
static inline double es_exp2(double x) {
    /* clang-format off */
    static const double terms[15] = {
        1.0, 0.6931471805599453, 0.24022650695910072, 0.05550410866482158, 0.009618129107628477,
        0.0013333558146428443, 0.0001540353039338161, 1.5252733804059841e-05, 1.3215486790144309e-06,
        1.01780860092397e-07, 7.054911620801123e-09, 4.4455382718708114e-10, 2.5678435993488206e-11,
        1.3691488853904128e-12, 6.778726354822545e-14};
    /* clang-format on */
    x = !(x >= -1022.0) ? -1022.0 : x > 1022.0 ? 1022.0 : x;
    const double n = es_rint(x);
    const double r = x - n;
    double series = terms[14];
    for (int k = 13; k >= 0; k--) series = series * r + terms[k];
    /* series is in [0.7, 1.42): scale in two exact steps, since 2^-1022 * 0.7 is denormal. */
    const int64_t half = (int64_t)n / 2, rest = (int64_t)n - half;
    const double scaled = series * es_double_of((uint64_t)(half + 1023) << 52);
    return scaled * es_double_of((uint64_t)(rest + 1023) << 52);
}

/* x^e for x >= 0. */
static inline double es_power(double x, double e) {
    if (x > 0) return es_exp2(e * es_log2(x));
    return e < 0 ? 0x1p1022 : e == 0 ? 1.0 : 0.0;
}

static inline double es_log2_mass(int64_t total) { return es_log2((double)total) - 30.0; }

/* The least weight that counts as reaching share p. */
static inline int64_t es_mass_reaching(double p, int64_t total) {
    const int64_t need = es_integer(es_ceil((p - ES_MASS_SLACK) * (double)total));
    return need > 1 ? need : 1;
}

/* The greatest weight that does not exceed share p. */
static inline int64_t es_mass_within(double p, int64_t total) {
    return es_integer(es_floor((p + ES_MASS_SLACK) * (double)total));
}

/* The least weight of a token with probability x. */
static inline int64_t es_weight_of_share(double x, int64_t total) {
    return es_integer(es_ceil((x < 2.0 ? x : 2.0) * (1.0 - ES_MASS_SLACK) * (double)total));
}

/* a * b / by, and what is left of the division: for a <= by < 2^58 and b < 2^35. */
static inline uint64_t es_divide_product(uint64_t a, uint64_t b, uint64_t by, uint64_t *rest) {
    uint64_t quotient = 0, left = 0;
    for (int shift = 30; shift >= 0; shift -= 5) { /* five bits of b at a time */
        left = left * 32 + a * (b >> shift & 31);
        quotient = quotient * 32 + left / by;
        left %= by;
    }
    *rest = left;
    return quotient;
}

/* One weight and its bits of information; the vector kernels do the same lane by lane. */
static inline float es_distance(float logit, float peak) { return (logit - peak) * ES_LOG2_E; }

static inline int32_t es_weight(float y) {
    if (!(y >= -31.0f)) return 0;
    if (y > 0.0f) y = 0.0f; /* a logit that has grown since the peak was found */
    const float n = es_rintf(y);
    const float r = y - n;
    float p = r * 1.326472731307149e-3f;
    p += 9.671512991189957e-3f;
    const float square = r * r;
    p *= square;
    float low = r * 5.550733581185341e-2f;
    low += 2.4022242426872253e-1f;
    p += low;
    p *= square;
    low = r * 6.931470036506653e-1f;
    low += 1.0f;
    p += low;
    p *= es_float_of(((int32_t)n + 157) << 23);
    return (int32_t)(p < 0x1p23f ? es_rintf(p) : p); /* from 2^23 on every float is an integer */
}

static inline int32_t es_information(int32_t w, float y) {
    if (w == 0) return 0;
    const float product = (float)w * -y;
    if (!(product > -0x1p31f && product < 0x1p31f)) return 0; /* only where logits change */
    return (int32_t)(product < 0x1p23f ? es_rintf(product) : product);
}

/* --- random numbers --- */

static inline uint64_t es_draw64(uint64_t seed, int64_t position, uint32_t stream, uint32_t draw) {
    uint32_t c0 = draw, c1 = stream, c2 = (uint32_t)position, c3 = (uint32_t)((uint64_t)position >> 32);
    uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
    for (int round = 0; round < 10; round++) {
        const uint64_t a = (uint64_t)c0 * 0xD2511F53u;
        const uint64_t b = (uint64_t)c2 * 0xCD9E8D57u;
        const uint32_t x0 = (uint32_t)(b >> 32) ^ c1 ^ k0, x2 = (uint32_t)(a >> 32) ^ c3 ^ k1;
        c1 = (uint32_t)b;
        c3 = (uint32_t)a;
        c0 = x0;
        c2 = x2;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    return (uint64_t)c0 | (uint64_t)c1 << 32;
}

/* (r * total) >> 64 */
static inline int64_t es_scale_draw(uint64_t r, int64_t total) {
    const uint64_t t = (uint64_t)total;
    const uint64_t r0 = (uint32_t)r, r1 = r >> 32, t0 = (uint32_t)t, t1 = t >> 32;
    const uint64_t low = (r0 * t0) >> 32;
    const uint64_t middle = r1 * t0 + low;
    const uint64_t other = r0 * t1 + (uint32_t)middle;
    return (int64_t)(r1 * t1 + (middle >> 32) + (other >> 32));
}

static inline int es_coin(uint64_t r, double probability) { return (double)(r >> 11) < probability * 0x1p53; }
