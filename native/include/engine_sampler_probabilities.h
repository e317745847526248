/* engine_sampler_probabilities.h: draws from rows of 16-bit probabilities, without sorting them.
 *
 * Top-k, then top-p, then a token: what an operator does whose input is a softmax's result. No backend needs it.
 */
#ifndef ENGINE_SAMPLER_PROBABILITIES_H
#define ENGINE_SAMPLER_PROBABILITIES_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif

/* The text between the two marks is also the host's cffi definition: plain declarations only. */
/* cdef: begin */

/* How a token is drawn from those kept.
 * By weight, the integer weights of the arithmetic contract decide, in order of ids or of ranks (probability
 * descending, id ascending). In a race, the greatest probability / noise wins, the noise being read at the id.
 * ROUNDED: sums are rounded to the input's 16 bits after every addition; the top-p head stays below topp (race:
 * at most topp), and the noise is read at the rank. */
typedef enum es_probabilities_draw {
    ES_BY_WEIGHT_OF_IDS = 0,
    ES_BY_WEIGHT_OF_RANKS = 1,
    ES_RACE = 2,
    ES_ROUNDED_SHARE = 3,
    ES_ROUNDED_RACE = 4
} es_probabilities_draw;

/* Rows of probabilities, and what decides each. Tables are indexed by the 16 bits of a number; strides count
 * elements. Arrays that `draw` does not use may be NULL. */
typedef struct es_probabilities {
    const uint16_t *bits;    /* row r begins at bits + r * stride */
    int64_t stride;
    const uint16_t *noise;
    int64_t noise_stride;
    int64_t vocab_size;
    int32_t bfloat16;        /* 1: bfloat16, 0: float16 */
    int32_t draw;            /* es_probabilities_draw */
    int32_t keeps_ties;      /* 1: top-k also keeps what is as likely as the last token that it keeps */
    int32_t lists;           /* how many of the likeliest kept tokens `leading` has for each row */
    const float *values;     /* [65536], the numbers */
    const float *logits;     /* [65536], their logarithms */
    const int64_t *masses;   /* [65536], the numbers as multiples of 2^-40; not for ROUNDED */
    const int64_t *topk;     /* [n], at least 1 */
    const int64_t *needed;   /* [n], the mass that top-p must reach, or -1: it keeps all; not for ROUNDED */
    const double *topp;      /* [n]; only for ROUNDED */
    const uint64_t *numbers; /* [n], random; only BY_WEIGHT */
    const float *shares;     /* [n], random, from 0 to 1; only ROUNDED_SHARE */
} es_probabilities;

/* Draw for rows[i] of the table, for every i below n: tokens[i]; masses[i], the sum of the probabilities kept;
 * and leading[i * lists ...], the bits of the likeliest that are kept, in order, then 0. The token is -1 for a row
 * with a number below 0 or above 1, for one of zeros, and for noise that is negative, infinite or NaN; -0 is 0.
 * Numbers that change meanwhile give any token. Returns 0, or -1 without memory. */
int32_t es_probabilities_sample(const es_probabilities *given, int64_t n, const int64_t *rows,
                                int64_t *tokens, double *masses, uint16_t *leading);

/* cdef: end */

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif
#endif
