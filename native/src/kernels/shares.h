/* Approximate weights, added up while a row is read for its maxima. No token is made of them, only bounds: they
 * need not be the same on every machine.
 *
 * Let s be the scale of the temperature, L = float32(log2 e), slope = fl(s * L), and for a chunk with the
 * greatest logit M, bits = fl(M * slope). Its share is the sum of 2^z over its tokens, where z = l * slope - bits.
 * The share of a chunk with any token left is about 1 to ES_CHUNK.
 *
 * How far shares are from the contract's weights w. Let u = 2^-24, P be the row's peak after scaling,
 * p = |P| * L, t = (l * s - P) * L in real numbers, and g = 2^(30 + t).
 * 1. The contract rounds three times between l and y: fl(l * s), unless s is 1; the difference; the product.
 *    |y - t| <= u * (p + |t|) + 2u * |t|, to first order.
 * 2. Here slope and l * slope round, unless s is 1 and the product is fused; then z does. The place of a chunk
 *    below the peak, bits - P * L, rounds once as well: its product is taken in float64 (certificate.h).
 *    |t - z - place| <= 2u * (p + |t|) + 2u * 32.
 *    With p at most ES_MOST_PEAK, the rounding of bits makes z of the greatest logit at most 2^-8, not 0.
 * 3. Only |t| < 32 matters: where y < -31 the weight is 0 and g is at most 1/2, up to (1). Both together
 *    differ by at most u * (k * (p + 32) + 128) bits, where k of the roundings are relative to l and not to a
 *    distance.
 * 4. The polynomials: 2.2e-7 for the contract's, used for y and for the place, 2.8e-6 for the one here (the
 *    greatest relative error over all float32 fractions, fused or not).
 * 5. The sum of positive terms: u for each addition that a term goes through, ES_ADDITIONS in a chunk, and 4
 *    for the products with the place.
 * 6. Where z is below -31: ES_CHUNK * 2^-31 in a share of about 1 or more, less than 2^-22.
 * 7. w is rint of its float: it differs from g by at most min(1/2, g) more, and so a chunk of mass m by at most
 *    min(ES_CHUNK / 2, m).
 * `relative_doubt` adds up (1) to (6), with 2 % for products of these; (7) is absolute.
 */
#pragma once

#include "kernels/elements.h"

#define ES_ADDITIONS (ES_CHUNK / (W * W_ABREAST) + 6)
#define ES_MOST_DOUBT 0x1p-7 /* in bits */
#define ES_MOST_PEAK 0x1p16 /* p; beyond either, a row has no bounds */

/* Scales for which slope is a normal number and no product with a logit overflows upwards. */
ES_INLINE int has_slope(float scale) { return scale >= 0x1p-40f && scale <= 0x1p20f; }

ES_INLINE float share_slope(float scale) { return scale * ES_LOG2_E; }

/* Never -inf, which would make the distance of a removed token NaN. */
ES_INLINE float share_bits(float maximum, float slope) {
    const float bits = maximum * slope;
    return bits > -ES_LOGIT_LIMIT ? bits : -ES_LOGIT_LIMIT;
}

/* 2^z for z below 1; where z is below -31, it may be anything from 0 to 2^-31. */
ES_INLINE void vf_powers(vf *z) {
    vf r[W_ABREAST], p[W_ABREAST];
#if defined(ES_ISA_AVX512)
    EACH(k) r[k] = _mm512_reduce_ps(z[k], _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC); /* z - floor(z) */
    EACH(k) p[k] = vf_fused(vf_set(1.3534167781472206e-2f), r[k], vf_set(5.2011460065841675e-2f));
    EACH(k) p[k] = vf_fused(p[k], r[k], vf_set(2.414427548646927e-1f));
    EACH(k) p[k] = vf_fused(p[k], r[k], vf_set(6.930038332939148e-1f));
    EACH(k) p[k] = vf_fused(p[k], r[k], vf_set(1.0000026226043701f));
    EACH(k) z[k] = _mm512_scalef_ps(p[k], z[k]); /* p * 2^floor(z) */
#else
    const vf magic = vf_set(0x1.8p23f);
    vf sum[W_ABREAST];
    EACH(k) z[k] = vf_max(z[k], vf_set(-31.0f));
    EACH(k) sum[k] = vf_add(z[k], magic);
    EACH(k) r[k] = vf_sub(z[k], vf_sub(sum[k], magic));
    EACH(k) p[k] = vf_fused(vf_set(9.570102207362652e-3f), r[k], vf_set(5.591785907745361e-2f));
    EACH(k) p[k] = vf_fused(p[k], r[k], vf_set(2.40247443318367e-1f));
    EACH(k) p[k] = vf_fused(p[k], r[k], vf_set(6.931217908859253e-1f));
    EACH(k) p[k] = vf_fused(p[k], r[k], vf_set(9.999992847442627e-1f));
    EACH(k) z[k] = vf_raise(p[k], sum[k]);
#endif
}

/* The share of a chunk with these bits, in W parts. Meanwhile the chunk four ahead is fetched: the scan takes four
 * at a time, and would else wait for them. */
ES_INLINE vf chunk_share(const void *p, const uint32_t *allowed, int32_t kind, int masked, float slope,
                         float bits) {
    const vf by = vf_set(slope), less = vf_set(-bits);
    const int size = (int)kind_size(kind);
    vf sums[W_ABREAST];
    EACH(k) sums[k] = vf_set(0.0f);
    for (int i = 0; i < ES_CHUNK; i += W_ABREAST * W) {
        vf z[W_ABREAST];
        if (masked) EACH(k) z[k] = load_kind(p, i + k * W, kind);
        else
            for (int k = 0; k < W_ABREAST; k += 2) load_two(p, i + k * W, kind, z + k);
        for (int at = i * size; at < (i + W_ABREAST * W) * size; at += W * size)
            if (at % 64 == 0) __builtin_prefetch((const char *)p + 4 * ES_CHUNK * size + at);
        if (masked) EACH(k) z[k] = vf_allowed(allowed, i + k * W, z[k], vf_set(-__builtin_inff()));
        EACH(k) z[k] = vf_fused(z[k], by, less);
        vf_powers(z);
        EACH(k) sums[k] = vf_add(sums[k], z[k]);
    }
    for (int half = W_ABREAST / 2; half; half /= 2)
        for (int k = 0; k < half; k++) sums[k] = vf_add(sums[k], sums[k + half]);
    return sums[0];
}
