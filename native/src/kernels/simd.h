/* A thin layer over one instruction set: W lanes of float32 and int32, masks as bits.
 *
 * kernels.c is compiled once per set; ES_ISA_<NAME> selects it. Only what the kernels need is here, under the
 * same names for every set, and every operation rounds once. `vf_fused` and what is made of it may be fused, and
 * so differ between sets: only bounds may be made of them (shares.h).
 */
#pragma once

#include <stdint.h>
#include <string.h>

#include "engine_sampler_numbers.h"

#define ES_INLINE static inline __attribute__((always_inline, unused))

/* Half precision without hardware support: exact, including denormals, infinities and NaN. */
ES_INLINE float half_to_float(uint16_t h) {
    const uint32_t sign = (uint32_t)(h & 0x8000) << 16, magnitude = h & 0x7FFF;
    if (magnitude >= 0x7C00) return es_float_of((int32_t)(sign | 0x7F800000 | (magnitude & 0x3FF) << 13));
    /* A multiplication adjusts the exponent, which also normalizes denormals exactly. */
    const float value = es_float_of((int32_t)(magnitude << 13)) * 0x1p112f;
    return es_float_of((int32_t)(sign | (uint32_t)es_float_bits(value)));
}

ES_INLINE float bfloat_to_float(uint16_t b) { return es_float_of((int32_t)((uint32_t)b << 16)); }

/* Bit sets as grammars produce them: bit i % 32 of word i / 32. */
ES_INLINE int is_allowed(const uint32_t *bits, int64_t i) { return bits[i / 32] >> (i % 32) & 1; }

/* Lanes of each set are added, subtracted and multiplied by the compiler's own operators. */
#define vf_add(a, b) ((a) + (b))
#define vf_sub(a, b) ((a) - (b))
#define vf_mul(a, b) ((a) * (b))
#define vi_zero() ((vi){0})
#define vl_zero() ((vl){0})

#if defined(ES_ISA_AVX512)
/* --- AVX-512 --- */
#include <immintrin.h>

#define W 16
typedef __m512 vf;
typedef __m512i vi;
typedef __m512i vl; /* 8 lanes of int64 */

ES_INLINE vf vf_set(float x) { return _mm512_set1_ps(x); }
ES_INLINE vf vf_load(const float *p) { return _mm512_loadu_ps(p); }
ES_INLINE vf vf_load_half(const uint16_t *p) {
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)p));
}
ES_INLINE vf vf_load_bfloat(const uint16_t *p) {
    const __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)p));
    return _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16));
}
/* 2W of them: those at even positions, and those at odd ones. */
ES_INLINE void vf_load_bfloats(const uint16_t *p, vf *two) {
    const __m512i both = _mm512_loadu_si512(p);
    two[0] = _mm512_castsi512_ps(_mm512_slli_epi32(both, 16));
    two[1] = _mm512_castsi512_ps(_mm512_and_epi32(both, _mm512_set1_epi32((int)0xFFFF0000)));
}
ES_INLINE void vf_store(float *p, vf a) { _mm512_storeu_ps(p, a); }
ES_INLINE vf vf_max(vf a, vf b) { return _mm512_max_ps(a, b); }
ES_INLINE vf vf_min(vf a, vf b) { return _mm512_min_ps(a, b); }
ES_INLINE uint32_t vf_ge(vf a, vf b) { return _mm512_cmp_ps_mask(a, b, _CMP_GE_OQ); }
ES_INLINE uint32_t vf_gt(vf a, vf b) { return _mm512_cmp_ps_mask(a, b, _CMP_GT_OQ); }
ES_INLINE uint32_t vf_eq(vf a, vf b) { return _mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ); }
/* a where the bit is set, else 0 */
ES_INLINE vf vf_select(uint32_t mask, vf a) { return _mm512_maskz_mov_ps((__mmask16)mask, a); }
/* a where bit i + lane of a bit set is set, else b; i is a multiple of W. */
ES_INLINE vf vf_allowed(const uint32_t *bits, int64_t i, vf a, vf b) {
    uint16_t lanes; /* from memory straight into a mask register */
    memcpy(&lanes, (const char *)bits + i / 8, sizeof lanes);
    return _mm512_mask_mov_ps(b, lanes, a);
}
ES_INLINE float vf_greatest(vf a) { return _mm512_reduce_max_ps(a); }
#define ES_FUSES 1
ES_INLINE vf vf_fused(vf a, vf b, vf c) { return _mm512_fmadd_ps(a, b, c); } /* a * b + c */
/* The greatest of each of four vectors. */
ES_INLINE void vf_greatest4(float *out, vf a, vf b, vf c, vf d) {
    const __m512 ab = _mm512_max_ps(_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b));
    const __m512 cd = _mm512_max_ps(_mm512_unpacklo_ps(c, d), _mm512_unpackhi_ps(c, d));
    const __m512d low = _mm512_unpacklo_pd(_mm512_castps_pd(ab), _mm512_castps_pd(cd));
    const __m512d high = _mm512_unpackhi_pd(_mm512_castps_pd(ab), _mm512_castps_pd(cd));
    const __m512 all = _mm512_max_ps(_mm512_castpd_ps(low), _mm512_castpd_ps(high));
    const __m256 half = _mm256_max_ps(_mm512_castps512_ps256(all), _mm512_extractf32x8_ps(all, 1));
    _mm_storeu_ps(out, _mm_max_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1)));
}
/* The sums of each of four vectors, in any order. */
ES_INLINE void vf_total4(float *out, vf a, vf b, vf c, vf d) {
    const __m512 ab = _mm512_add_ps(_mm512_unpacklo_ps(a, b), _mm512_unpackhi_ps(a, b));
    const __m512 cd = _mm512_add_ps(_mm512_unpacklo_ps(c, d), _mm512_unpackhi_ps(c, d));
    const __m512d low = _mm512_unpacklo_pd(_mm512_castps_pd(ab), _mm512_castps_pd(cd));
    const __m512d high = _mm512_unpackhi_pd(_mm512_castps_pd(ab), _mm512_castps_pd(cd));
    const __m512 all = _mm512_add_ps(_mm512_castpd_ps(low), _mm512_castpd_ps(high));
    const __m256 half = _mm256_add_ps(_mm512_castps512_ps256(all), _mm512_extractf32x8_ps(all, 1));
    _mm_storeu_ps(out, _mm_add_ps(_mm256_castps256_ps128(half), _mm256_extractf128_ps(half, 1)));
}
/* Adds bits * 2^23 to the representation of p: p times a power of two. */
ES_INLINE vf vf_raise(vf p, vf bits) {
    const __m512i shifted = _mm512_slli_epi32(_mm512_castps_si512(bits), 23);
    return _mm512_castsi512_ps(_mm512_add_epi32(_mm512_castps_si512(p), shifted));
}
ES_INLINE vi vi_rint(vf a) { return _mm512_cvtps_epi32(a); } /* nearest, ties to even */
ES_INLINE vf vi_float(vi a) { return _mm512_cvtepi32_ps(a); }
ES_INLINE vf vi_reread(vi a) { return _mm512_castsi512_ps(a); } /* the same bits as floats */
ES_INLINE vi vi_add(vi a, vi b) { return _mm512_add_epi32(a, b); }
ES_INLINE void vi_store(int32_t *p, vi a) { _mm512_storeu_si512(p, a); }
ES_INLINE vi vi_load(const int32_t *p) { return _mm512_loadu_si512(p); }
/* Lanes that are, without a sign, at most `span` above `first`; and those of b for them, else 0. */
ES_INLINE uint32_t vi_within(vi a, uint32_t first, uint32_t span) {
    const __m512i above = _mm512_sub_epi32(a, _mm512_set1_epi32((int)first));
    return _mm512_cmple_epu32_mask(above, _mm512_set1_epi32((int)span));
}
ES_INLINE vi vi_where(vi a, uint32_t first, uint32_t span, vi b) {
    return _mm512_maskz_mov_epi32((__mmask16)vi_within(a, first, span), b);
}
/* Adds the W lanes to W sums in memory. */
ES_INLINE void vf_add_doubles(double *sums, vf a) {
    const __m512d low = _mm512_cvtps_pd(_mm512_castps512_ps256(a));
    const __m512d high = _mm512_cvtps_pd(_mm512_extractf32x8_ps(a, 1));
    _mm512_storeu_pd(sums, _mm512_add_pd(_mm512_loadu_pd(sums), low));
    _mm512_storeu_pd(sums + 8, _mm512_add_pd(_mm512_loadu_pd(sums + 8), high));
}
/* Adds W unsigned lanes. */
ES_INLINE vl vl_add(vl sum, vi a) {
    const __m512i low = _mm512_cvtepu32_epi64(_mm512_castsi512_si256(a));
    const __m512i high = _mm512_cvtepu32_epi64(_mm512_extracti64x4_epi64(a, 1));
    return _mm512_add_epi64(sum, _mm512_add_epi64(low, high));
}
ES_INLINE int64_t vl_total(vl a) { return _mm512_reduce_add_epi64(a); }
/* Append the lanes of `mask`, and the numbers first + lane. */
ES_INLINE int64_t vf_append(float *values, int32_t *ids, int64_t n, vf a, int32_t first, uint32_t mask) {
    const __m512i lanes = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
    /* Compress in the register: a compressing store is microcoded on some processors. */
    _mm512_storeu_ps(values + n, _mm512_maskz_compress_ps((__mmask16)mask, a));
    _mm512_storeu_si512(ids + n, _mm512_maskz_compress_epi32(
                                     (__mmask16)mask, _mm512_add_epi32(lanes, _mm512_set1_epi32(first))));
    return n + __builtin_popcount(mask);
}
/* The same with the lanes' own ids. */
ES_INLINE int64_t vf_append_ids(float *values, int32_t *ids, int64_t n, vf a, const int32_t *own,
                                uint32_t mask) {
    _mm512_storeu_ps(values + n, _mm512_maskz_compress_ps((__mmask16)mask, a));
    _mm512_storeu_si512(ids + n, _mm512_maskz_compress_epi32((__mmask16)mask, _mm512_loadu_si512(own)));
    return n + __builtin_popcount(mask);
}
/* Write the lanes of `mask` to the front, and anything after them: W in all. */
ES_INLINE void vi_pack(int32_t *out, vi a, uint32_t mask) {
    _mm512_storeu_si512(out, _mm512_maskz_compress_epi32((__mmask16)mask, a));
}

#elif defined(ES_ISA_AVX2)
/* --- AVX2 --- */
#include <immintrin.h>

#define W 8
typedef __m256 vf;
typedef __m256i vi;
typedef __m256i vl;

ES_INLINE vf vf_set(float x) { return _mm256_set1_ps(x); }
ES_INLINE vf vf_load(const float *p) { return _mm256_loadu_ps(p); }
ES_INLINE vf vf_load_half(const uint16_t *p) { return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p)); }
ES_INLINE vf vf_load_bfloat(const uint16_t *p) {
    const __m256i wide = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)p));
    return _mm256_castsi256_ps(_mm256_slli_epi32(wide, 16));
}
ES_INLINE void vf_load_bfloats(const uint16_t *p, vf *two) {
    const __m256i both = _mm256_loadu_si256((const __m256i *)p);
    two[0] = _mm256_castsi256_ps(_mm256_slli_epi32(both, 16));
    two[1] = _mm256_castsi256_ps(_mm256_and_si256(both, _mm256_set1_epi32((int)0xFFFF0000)));
}
ES_INLINE void vf_store(float *p, vf a) { _mm256_storeu_ps(p, a); }
ES_INLINE vf vf_max(vf a, vf b) { return _mm256_max_ps(a, b); }
ES_INLINE vf vf_min(vf a, vf b) { return _mm256_min_ps(a, b); }
ES_INLINE uint32_t vf_ge(vf a, vf b) { return (uint32_t)_mm256_movemask_ps(_mm256_cmp_ps(a, b, _CMP_GE_OQ)); }
ES_INLINE uint32_t vf_gt(vf a, vf b) { return (uint32_t)_mm256_movemask_ps(_mm256_cmp_ps(a, b, _CMP_GT_OQ)); }
ES_INLINE uint32_t vf_eq(vf a, vf b) { return (uint32_t)_mm256_movemask_ps(_mm256_cmp_ps(a, b, _CMP_EQ_OQ)); }
ES_INLINE vf vf_select(uint32_t mask, vf a) {
    const __m256i bit = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
    const __m256i set = _mm256_and_si256(_mm256_set1_epi32((int)mask), bit);
    return _mm256_and_ps(a, _mm256_castsi256_ps(_mm256_cmpeq_epi32(set, bit)));
}
ES_INLINE vf vf_allowed(const uint32_t *bits, int64_t i, vf a, vf b) {
    /* Each lane's bit becomes its sign bit, by which a blend selects. */
    const __m256i up = _mm256_sub_epi32(_mm256_setr_epi32(31, 30, 29, 28, 27, 26, 25, 24),
                                        _mm256_set1_epi32((int)(i % 32)));
    const __m256i signs = _mm256_sllv_epi32(_mm256_set1_epi32((int)bits[i / 32]), up);
    return _mm256_blendv_ps(b, a, _mm256_castsi256_ps(signs));
}
ES_INLINE float vf_greatest(vf a) {
    __m128 m = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    m = _mm_max_ps(m, _mm_movehl_ps(m, m));
    return _mm_cvtss_f32(_mm_max_ss(m, _mm_shuffle_ps(m, m, 1)));
}
#define ES_FUSES 1
ES_INLINE vf vf_fused(vf a, vf b, vf c) { return _mm256_fmadd_ps(a, b, c); }
ES_INLINE void vf_greatest4(float *out, vf a, vf b, vf c, vf d) {
    const __m256 ab = _mm256_max_ps(_mm256_unpacklo_ps(a, b), _mm256_unpackhi_ps(a, b));
    const __m256 cd = _mm256_max_ps(_mm256_unpacklo_ps(c, d), _mm256_unpackhi_ps(c, d));
    const __m256d low = _mm256_unpacklo_pd(_mm256_castps_pd(ab), _mm256_castps_pd(cd));
    const __m256d high = _mm256_unpackhi_pd(_mm256_castps_pd(ab), _mm256_castps_pd(cd));
    const __m256 all = _mm256_max_ps(_mm256_castpd_ps(low), _mm256_castpd_ps(high));
    _mm_storeu_ps(out, _mm_max_ps(_mm256_castps256_ps128(all), _mm256_extractf128_ps(all, 1)));
}
ES_INLINE void vf_total4(float *out, vf a, vf b, vf c, vf d) {
    const __m256 all = _mm256_hadd_ps(_mm256_hadd_ps(a, b), _mm256_hadd_ps(c, d));
    _mm_storeu_ps(out, _mm_add_ps(_mm256_castps256_ps128(all), _mm256_extractf128_ps(all, 1)));
}
ES_INLINE vf vf_raise(vf p, vf bits) {
    const __m256i shifted = _mm256_slli_epi32(_mm256_castps_si256(bits), 23);
    return _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(p), shifted));
}
ES_INLINE vi vi_rint(vf a) { return _mm256_cvtps_epi32(a); }
ES_INLINE vf vi_float(vi a) { return _mm256_cvtepi32_ps(a); }
ES_INLINE vf vi_reread(vi a) { return _mm256_castsi256_ps(a); }
ES_INLINE vi vi_add(vi a, vi b) { return _mm256_add_epi32(a, b); }
ES_INLINE void vi_store(int32_t *p, vi a) { _mm256_storeu_si256((__m256i *)p, a); }
ES_INLINE vi vi_load(const int32_t *p) { return _mm256_loadu_si256((const __m256i *)p); }
ES_INLINE __m256i are_within(__m256i a, uint32_t first, uint32_t span) {
    const __m256i above = _mm256_sub_epi32(a, _mm256_set1_epi32((int)first));
    const __m256i most = _mm256_set1_epi32((int)span);
    return _mm256_cmpeq_epi32(_mm256_max_epu32(above, most), most);
}
ES_INLINE uint32_t vi_within(vi a, uint32_t first, uint32_t span) {
    return (uint32_t)_mm256_movemask_ps(_mm256_castsi256_ps(are_within(a, first, span)));
}
ES_INLINE vi vi_where(vi a, uint32_t first, uint32_t span, vi b) {
    return _mm256_and_si256(are_within(a, first, span), b);
}
ES_INLINE void vf_add_doubles(double *sums, vf a) {
    const __m256d low = _mm256_cvtps_pd(_mm256_castps256_ps128(a));
    const __m256d high = _mm256_cvtps_pd(_mm256_extractf128_ps(a, 1));
    _mm256_storeu_pd(sums, _mm256_add_pd(_mm256_loadu_pd(sums), low));
    _mm256_storeu_pd(sums + 4, _mm256_add_pd(_mm256_loadu_pd(sums + 4), high));
}
ES_INLINE vl vl_add(vl sum, vi a) {
    const __m256i even = _mm256_and_si256(a, _mm256_set1_epi64x(0xFFFFFFFF));
    return _mm256_add_epi64(sum, _mm256_add_epi64(even, _mm256_srli_epi64(a, 32)));
}
ES_INLINE int64_t vl_total(vl a) {
    const __m128i two = _mm_add_epi64(_mm256_castsi256_si128(a), _mm256_extracti128_si256(a, 1));
    return _mm_cvtsi128_si64(two) + _mm_extract_epi64(two, 1);
}
/* Lane numbers of the set bits of a byte, packed to the front, by bit deposit and extract. */
ES_INLINE __m256i front_lanes(uint32_t mask) {
    const uint64_t spread = _pdep_u64(mask, 0x0101010101010101) * 0xFF;
    const uint64_t packed = _pext_u64(0x0706050403020100, spread);
    return _mm256_cvtepu8_epi32(_mm_cvtsi64_si128((long long)packed));
}
ES_INLINE int64_t vf_append(float *values, int32_t *ids, int64_t n, vf a, int32_t first, uint32_t mask) {
    const __m256i lanes = front_lanes(mask);
    _mm256_storeu_ps(values + n, _mm256_permutevar8x32_ps(a, lanes));
    _mm256_storeu_si256((__m256i *)(ids + n), _mm256_add_epi32(lanes, _mm256_set1_epi32(first)));
    return n + __builtin_popcount(mask);
}
ES_INLINE int64_t vf_append_ids(float *values, int32_t *ids, int64_t n, vf a, const int32_t *own,
                                uint32_t mask) {
    const __m256i lanes = front_lanes(mask);
    const __m256i given = _mm256_loadu_si256((const __m256i *)own);
    _mm256_storeu_ps(values + n, _mm256_permutevar8x32_ps(a, lanes));
    _mm256_storeu_si256((__m256i *)(ids + n), _mm256_permutevar8x32_epi32(given, lanes));
    return n + __builtin_popcount(mask);
}
ES_INLINE void vi_pack(int32_t *out, vi a, uint32_t mask) {
    _mm256_storeu_si256((__m256i *)out, _mm256_permutevar8x32_epi32(a, front_lanes(mask)));
}

#else
#if defined(ES_ISA_BASELINE)
/* --- SSE2 --- */
#include <emmintrin.h>

#define W 4
typedef __m128 vf;
typedef __m128i vi;
typedef __m128i vl;

ES_INLINE vf vf_set(float x) { return _mm_set1_ps(x); }
ES_INLINE vf vf_load(const float *p) { return _mm_loadu_ps(p); }
ES_INLINE vf vf_load_half(const uint16_t *p) {
    return _mm_setr_ps(half_to_float(p[0]), half_to_float(p[1]), half_to_float(p[2]), half_to_float(p[3]));
}
ES_INLINE vf vf_load_bfloat(const uint16_t *p) {
    return _mm_castsi128_ps(_mm_unpacklo_epi16(_mm_setzero_si128(), _mm_loadl_epi64((const __m128i *)p)));
}
ES_INLINE void vf_load_bfloats(const uint16_t *p, vf *two) {
    const __m128i both = _mm_loadu_si128((const __m128i *)p);
    two[0] = _mm_castsi128_ps(_mm_slli_epi32(both, 16));
    two[1] = _mm_castsi128_ps(_mm_and_si128(both, _mm_set1_epi32((int)0xFFFF0000)));
}
ES_INLINE void vf_store(float *p, vf a) { _mm_storeu_ps(p, a); }
ES_INLINE vf vf_max(vf a, vf b) { return _mm_max_ps(a, b); }
ES_INLINE vf vf_min(vf a, vf b) { return _mm_min_ps(a, b); }
ES_INLINE uint32_t vf_ge(vf a, vf b) { return (uint32_t)_mm_movemask_ps(_mm_cmpge_ps(a, b)); }
ES_INLINE uint32_t vf_gt(vf a, vf b) { return (uint32_t)_mm_movemask_ps(_mm_cmpgt_ps(a, b)); }
ES_INLINE uint32_t vf_eq(vf a, vf b) { return (uint32_t)_mm_movemask_ps(_mm_cmpeq_ps(a, b)); }
ES_INLINE vf vf_select(uint32_t mask, vf a) {
    const __m128i bit = _mm_setr_epi32(1, 2, 4, 8);
    const __m128i set = _mm_and_si128(_mm_set1_epi32((int)mask), bit);
    return _mm_and_ps(a, _mm_castsi128_ps(_mm_cmpeq_epi32(set, bit)));
}
ES_INLINE vf vf_allowed(const uint32_t *bits, int64_t i, vf a, vf b) {
    const __m128i bit = _mm_setr_epi32(1, 2, 4, 8);
    const __m128i set = _mm_and_si128(_mm_set1_epi32((int)(bits[i / 32] >> (i % 32))), bit);
    const __m128 removed = _mm_castsi128_ps(_mm_cmpeq_epi32(set, _mm_setzero_si128()));
    return _mm_or_ps(_mm_andnot_ps(removed, a), _mm_and_ps(removed, b));
}
ES_INLINE float vf_greatest(vf a) {
    const __m128 m = _mm_max_ps(a, _mm_movehl_ps(a, a));
    return _mm_cvtss_f32(_mm_max_ss(m, _mm_shuffle_ps(m, m, 1)));
}
#define ES_FUSES 0
ES_INLINE vf vf_fused(vf a, vf b, vf c) { return _mm_add_ps(_mm_mul_ps(a, b), c); }
ES_INLINE void vf_greatest4(float *out, vf a, vf b, vf c, vf d) {
    const __m128 ab = _mm_max_ps(_mm_unpacklo_ps(a, b), _mm_unpackhi_ps(a, b));
    const __m128 cd = _mm_max_ps(_mm_unpacklo_ps(c, d), _mm_unpackhi_ps(c, d));
    _mm_storeu_ps(out, _mm_max_ps(_mm_movelh_ps(ab, cd), _mm_movehl_ps(cd, ab)));
}
ES_INLINE void vf_total4(float *out, vf a, vf b, vf c, vf d) {
    const __m128 ab = _mm_add_ps(_mm_unpacklo_ps(a, b), _mm_unpackhi_ps(a, b));
    const __m128 cd = _mm_add_ps(_mm_unpacklo_ps(c, d), _mm_unpackhi_ps(c, d));
    _mm_storeu_ps(out, _mm_add_ps(_mm_movelh_ps(ab, cd), _mm_movehl_ps(cd, ab)));
}
ES_INLINE vf vf_raise(vf p, vf bits) {
    const __m128i shifted = _mm_slli_epi32(_mm_castps_si128(bits), 23);
    return _mm_castsi128_ps(_mm_add_epi32(_mm_castps_si128(p), shifted));
}
ES_INLINE vi vi_rint(vf a) { return _mm_cvtps_epi32(a); }
ES_INLINE vf vi_float(vi a) { return _mm_cvtepi32_ps(a); }
ES_INLINE vf vi_reread(vi a) { return _mm_castsi128_ps(a); }
ES_INLINE vi vi_add(vi a, vi b) { return _mm_add_epi32(a, b); }
ES_INLINE void vi_store(int32_t *p, vi a) { _mm_storeu_si128((__m128i *)p, a); }
ES_INLINE vi vi_load(const int32_t *p) { return _mm_loadu_si128((const __m128i *)p); }
ES_INLINE __m128i are_beyond(__m128i a, uint32_t first, uint32_t span) {
    const __m128i sign = _mm_set1_epi32(INT32_MIN); /* only signed numbers can be compared */
    const __m128i above = _mm_xor_si128(_mm_sub_epi32(a, _mm_set1_epi32((int)first)), sign);
    return _mm_cmpgt_epi32(above, _mm_xor_si128(_mm_set1_epi32((int)span), sign));
}
ES_INLINE uint32_t vi_within(vi a, uint32_t first, uint32_t span) {
    return (uint32_t)_mm_movemask_ps(_mm_castsi128_ps(are_beyond(a, first, span))) ^ 15;
}
ES_INLINE vi vi_where(vi a, uint32_t first, uint32_t span, vi b) {
    return _mm_andnot_si128(are_beyond(a, first, span), b);
}
ES_INLINE void vf_add_doubles(double *sums, vf a) {
    _mm_storeu_pd(sums, _mm_add_pd(_mm_loadu_pd(sums), _mm_cvtps_pd(a)));
    _mm_storeu_pd(sums + 2, _mm_add_pd(_mm_loadu_pd(sums + 2), _mm_cvtps_pd(_mm_movehl_ps(a, a))));
}
ES_INLINE vl vl_add(vl sum, vi a) {
    const __m128i even = _mm_and_si128(a, _mm_setr_epi32(-1, 0, -1, 0));
    return _mm_add_epi64(sum, _mm_add_epi64(even, _mm_srli_epi64(a, 32)));
}
ES_INLINE int64_t vl_total(vl a) {
    int64_t lanes[2];
    _mm_storeu_si128((__m128i *)lanes, a);
    return lanes[0] + lanes[1];
}

#elif defined(ES_ISA_NEON)
/* --- NEON --- */
#include <arm_neon.h>

#define W 4
typedef float32x4_t vf;
typedef int32x4_t vi;
typedef uint64x2_t vl;

ES_INLINE vf vf_set(float x) { return vdupq_n_f32(x); }
ES_INLINE vf vf_load(const float *p) { return vld1q_f32(p); }
ES_INLINE vf vf_load_half(const uint16_t *p) { return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p))); }
ES_INLINE vf vf_load_bfloat(const uint16_t *p) { return vreinterpretq_f32_u32(vshll_n_u16(vld1_u16(p), 16)); }
ES_INLINE void vf_load_bfloats(const uint16_t *p, vf *two) {
    const uint32x4_t both = vreinterpretq_u32_u16(vld1q_u16(p));
    two[0] = vreinterpretq_f32_u32(vshlq_n_u32(both, 16));
    two[1] = vreinterpretq_f32_u32(vandq_u32(both, vdupq_n_u32(0xFFFF0000)));
}
ES_INLINE void vf_store(float *p, vf a) { vst1q_f32(p, a); }
ES_INLINE vf vf_max(vf a, vf b) { return vmaxq_f32(a, b); }
ES_INLINE vf vf_min(vf a, vf b) { return vminq_f32(a, b); }
ES_INLINE uint32_t lane_bits(uint32x4_t mask) {
    const uint32_t bit[4] = {1, 2, 4, 8};
    return vaddvq_u32(vandq_u32(mask, vld1q_u32(bit)));
}
ES_INLINE uint32_t vf_ge(vf a, vf b) { return lane_bits(vcgeq_f32(a, b)); }
ES_INLINE uint32_t vf_gt(vf a, vf b) { return lane_bits(vcgtq_f32(a, b)); }
ES_INLINE uint32_t vf_eq(vf a, vf b) { return lane_bits(vceqq_f32(a, b)); }
ES_INLINE vf vf_select(uint32_t mask, vf a) {
    const uint32_t bit[4] = {1, 2, 4, 8};
    const uint32x4_t bits = vld1q_u32(bit);
    const uint32x4_t set = vceqq_u32(vandq_u32(vdupq_n_u32(mask), bits), bits);
    return vreinterpretq_f32_u32(vandq_u32(vreinterpretq_u32_f32(a), set));
}
ES_INLINE vf vf_allowed(const uint32_t *bits, int64_t i, vf a, vf b) {
    const uint32_t bit[4] = {1, 2, 4, 8};
    return vbslq_f32(vtstq_u32(vdupq_n_u32(bits[i / 32] >> (i % 32)), vld1q_u32(bit)), a, b);
}
ES_INLINE float vf_greatest(vf a) { return vmaxvq_f32(a); }
#define ES_FUSES 1
ES_INLINE vf vf_fused(vf a, vf b, vf c) { return vfmaq_f32(c, a, b); }
ES_INLINE void vf_greatest4(float *out, vf a, vf b, vf c, vf d) {
    vst1q_f32(out, vpmaxq_f32(vpmaxq_f32(a, b), vpmaxq_f32(c, d)));
}
ES_INLINE void vf_total4(float *out, vf a, vf b, vf c, vf d) {
    vst1q_f32(out, vpaddq_f32(vpaddq_f32(a, b), vpaddq_f32(c, d)));
}
ES_INLINE vf vf_raise(vf p, vf bits) {
    const int32x4_t shifted = vshlq_n_s32(vreinterpretq_s32_f32(bits), 23);
    return vreinterpretq_f32_s32(vaddq_s32(vreinterpretq_s32_f32(p), shifted));
}
ES_INLINE vi vi_rint(vf a) { return vcvtnq_s32_f32(a); }
ES_INLINE vf vi_float(vi a) { return vcvtq_f32_s32(a); }
ES_INLINE vf vi_reread(vi a) { return vreinterpretq_f32_s32(a); }
ES_INLINE vi vi_add(vi a, vi b) { return vaddq_s32(a, b); }
ES_INLINE void vi_store(int32_t *p, vi a) { vst1q_s32(p, a); }
ES_INLINE vi vi_load(const int32_t *p) { return vld1q_s32(p); }
ES_INLINE uint32x4_t are_within(vi a, uint32_t first, uint32_t span) {
    return vcleq_u32(vsubq_u32(vreinterpretq_u32_s32(a), vdupq_n_u32(first)), vdupq_n_u32(span));
}
ES_INLINE uint32_t vi_within(vi a, uint32_t first, uint32_t span) {
    return lane_bits(are_within(a, first, span));
}
ES_INLINE vi vi_where(vi a, uint32_t first, uint32_t span, vi b) {
    return vandq_s32(vreinterpretq_s32_u32(are_within(a, first, span)), b);
}
ES_INLINE void vf_add_doubles(double *sums, vf a) {
    vst1q_f64(sums, vaddq_f64(vld1q_f64(sums), vcvt_f64_f32(vget_low_f32(a))));
    vst1q_f64(sums + 2, vaddq_f64(vld1q_f64(sums + 2), vcvt_high_f64_f32(a)));
}
ES_INLINE vl vl_add(vl sum, vi a) { return vpadalq_u32(sum, vreinterpretq_u32_s32(a)); }
ES_INLINE int64_t vl_total(vl a) { return (int64_t)vaddvq_u64(a); }

#elif defined(ES_ISA_PORTABLE)
/* --- plain C, one lane --- */
#define W 1
typedef float vf;
typedef int32_t vi;
typedef uint64_t vl;

ES_INLINE vf vf_set(float x) { return x; }
ES_INLINE vf vf_load(const float *p) { return *p; }
ES_INLINE vf vf_load_half(const uint16_t *p) { return half_to_float(*p); }
ES_INLINE vf vf_load_bfloat(const uint16_t *p) { return bfloat_to_float(*p); }
ES_INLINE void vf_load_bfloats(const uint16_t *p, vf *two) {
    two[0] = bfloat_to_float(p[0]);
    two[1] = bfloat_to_float(p[1]);
}
ES_INLINE void vf_store(float *p, vf a) { *p = a; }
ES_INLINE vf vf_max(vf a, vf b) { return a > b || a != a ? a : b; } /* NaNs stay */
ES_INLINE vf vf_min(vf a, vf b) { return a < b ? a : b; }
ES_INLINE uint32_t vf_ge(vf a, vf b) { return a >= b; }
ES_INLINE uint32_t vf_gt(vf a, vf b) { return a > b; }
ES_INLINE uint32_t vf_eq(vf a, vf b) { return a == b; }
ES_INLINE vf vf_select(uint32_t mask, vf a) { return mask ? a : 0.0f; }
ES_INLINE vf vf_allowed(const uint32_t *bits, int64_t i, vf a, vf b) { return is_allowed(bits, i) ? a : b; }
ES_INLINE float vf_greatest(vf a) { return a; }
#define ES_FUSES 0
ES_INLINE vf vf_fused(vf a, vf b, vf c) { return a * b + c; }
ES_INLINE void vf_greatest4(float *out, vf a, vf b, vf c, vf d) {
    out[0] = a;
    out[1] = b;
    out[2] = c;
    out[3] = d;
}
ES_INLINE void vf_total4(float *out, vf a, vf b, vf c, vf d) { vf_greatest4(out, a, b, c, d); }
ES_INLINE vf vf_raise(vf p, vf bits) {
    const uint32_t shifted = (uint32_t)es_float_bits(bits) << 23;
    return es_float_of((int32_t)((uint32_t)es_float_bits(p) + shifted));
}
ES_INLINE vi vi_rint(vf a) {
    if (!(a < 0x1p31f && a >= -0x1p31f)) return INT32_MIN; /* as on x86 */
    return (vi)(a < 0x1p23f && a > -0x1p23f ? es_rintf(a) : a);
}
ES_INLINE vf vi_float(vi a) { return (float)a; }
ES_INLINE vf vi_reread(vi a) { return es_float_of(a); }
ES_INLINE vi vi_add(vi a, vi b) { return (vi)((uint32_t)a + (uint32_t)b); }
ES_INLINE void vi_store(int32_t *p, vi a) { *p = a; }
ES_INLINE vi vi_load(const int32_t *p) { return *p; }
ES_INLINE uint32_t vi_within(vi a, uint32_t first, uint32_t span) { return (uint32_t)a - first <= span; }
ES_INLINE vi vi_where(vi a, uint32_t first, uint32_t span, vi b) { return vi_within(a, first, span) ? b : 0; }
ES_INLINE void vf_add_doubles(double *sums, vf a) { *sums += (double)a; }
ES_INLINE vl vl_add(vl sum, vi a) { return sum + (uint32_t)a; }
ES_INLINE int64_t vl_total(vl a) { return (int64_t)a; }
#else
#error "define one ES_ISA_<NAME>"
#endif

/* Instruction sets without a compress instruction append lane by lane. */
ES_INLINE int64_t vf_append(float *values, int32_t *ids, int64_t n, vf a, int32_t first, uint32_t mask) {
    float lanes[W];
    vf_store(lanes, a);
    for (; mask; mask &= mask - 1) {
        const int lane = __builtin_ctz(mask);
        values[n] = lanes[lane];
        ids[n++] = first + lane;
    }
    return n;
}
ES_INLINE int64_t vf_append_ids(float *values, int32_t *ids, int64_t n, vf a, const int32_t *own,
                                uint32_t mask) {
    float lanes[W];
    vf_store(lanes, a);
    for (; mask; mask &= mask - 1) {
        const int lane = __builtin_ctz(mask);
        values[n] = lanes[lane];
        ids[n++] = own[lane];
    }
    return n;
}
ES_INLINE void vi_pack(int32_t *out, vi a, uint32_t mask) {
    int32_t lanes[W];
    vi_store(lanes, a);
    for (int lane = 0; lane < W; lane++) {
        *out = lanes[lane];
        out += mask >> lane & 1;
    }
}
#endif

/* Between nan_watch and nan_seen, maxima in registers detect NaNs: either the maximum keeps a NaN, or, on
 * x86, it drops the NaN and sets a sticky flag. The operands and results are in memory, so the barriers keep
 * the operations between the two. */
#if defined(ES_ISA_AVX512) || defined(ES_ISA_AVX2) || defined(ES_ISA_BASELINE)
ES_INLINE void nan_watch(void) {
    _mm_setcsr(0x1F80);
    __asm__ volatile("" : : : "memory");
}
ES_INLINE int nan_seen(void) {
    __asm__ volatile("" : : : "memory");
    return _mm_getcsr() & 1;
}
#else
ES_INLINE void nan_watch(void) {}
ES_INLINE int nan_seen(void) { return 0; }
#endif

/* Results below the least normal number become 0: some processors take a hundred cycles for each of them. */
#if defined(ES_ISA_AVX512)
ES_INLINE void flush_results(int flushes) {
    _mm_setcsr(flushes ? _mm_getcsr() | _MM_FLUSH_ZERO_ON : _mm_getcsr() & ~(uint32_t)_MM_FLUSH_ZERO_ON);
    __asm__ volatile("" : : : "memory");
}
#else
ES_INLINE void flush_results(int flushes) { (void)flushes; }
#endif

#define W_ALL ((uint32_t)((1ull << W) - 1))

/* Bits i to i + W of a bit set, in the form that comparisons return; i is a multiple of W. */
ES_INLINE uint32_t allowed_lanes(const uint32_t *bits, int64_t i) { return bits[i / 32] >> (i % 32) & W_ALL; }

/* How many vectors are processed at once where each operation depends on the one before it: a processor looks
 * only so far ahead. */
#define W_ABREAST (W == 16 ? 4 : 2)
#define EACH(k) for (int k = 0; k < W_ABREAST; k++)

/* 2^(y + 30) for y in [-120, 0]: the weights of the arithmetic contract, before rint. Adding the magic number
 * rounds y to the nearest integer n, ties to even, and leaves n + 30 in the low bits of the sum, which then
 * become the exponent. */
ES_INLINE void vf_weights(vf *y) {
    const vf magic = vf_set(0x1.8p23f + 30.0f);
    vf sum[W_ABREAST], r[W_ABREAST], square[W_ABREAST], p[W_ABREAST], low[W_ABREAST];
    EACH(k) sum[k] = vf_add(y[k], magic);
    EACH(k) r[k] = vf_sub(sum[k], magic);
    EACH(k) r[k] = vf_sub(y[k], r[k]);
    EACH(k) p[k] = vf_mul(r[k], vf_set(1.326472731307149e-3f));
    EACH(k) square[k] = vf_mul(r[k], r[k]);
    EACH(k) p[k] = vf_add(p[k], vf_set(9.671512991189957e-3f));
    EACH(k) low[k] = vf_mul(r[k], vf_set(5.550733581185341e-2f));
    EACH(k) p[k] = vf_mul(p[k], square[k]);
    EACH(k) low[k] = vf_add(low[k], vf_set(2.4022242426872253e-1f));
    EACH(k) p[k] = vf_add(p[k], low[k]);
    EACH(k) low[k] = vf_mul(r[k], vf_set(6.931470036506653e-1f));
    EACH(k) p[k] = vf_mul(p[k], square[k]);
    EACH(k) low[k] = vf_add(low[k], vf_set(1.0f));
    EACH(k) p[k] = vf_add(p[k], low[k]);
    EACH(k) y[k] = vf_raise(p[k], sum[k]);
}

/* An upper bound of 2^y for y in [-31, 0], at most 1.0615 times as large: y + 1 with 23 more bits in place of
 * the fraction. */
ES_INLINE vf vf_line(vf y) { return vi_reread(vi_rint(vf_mul(vf_add(y, vf_set(127.0f)), vf_set(0x1p23f)))); }

/* Distances in bits below the peak, no less than -31, where the weight is 0. */
ES_INLINE void vf_distances(vf *x, vf peak) {
    EACH(k) x[k] = vf_sub(x[k], peak);
    EACH(k) x[k] = vf_mul(x[k], vf_set(ES_LOG2_E));
    EACH(k) x[k] = vf_max(x[k], vf_set(-31.0f));
}
