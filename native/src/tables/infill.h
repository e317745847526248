/* Which tokens the infill sampler keeps. */
#pragma once

#include "engine_sampler.h"

/* cdef: begin */

/* Scratch memory of one thread, zeroed at first; it grows and never shrinks. */
typedef struct es_infill_scratch {
    void *memory;
    int64_t capacity; /* in tokens */
} es_infill_scratch;

/* Set keep[i] to 1 for each of the n > 0 tokens that stay, to 0 for the others; to 0 for all if no text is
 * likely and no end is left. ids [n] are in (logit
 * descending, id ascending) order; weights [n] are those of the distribution over just these tokens. Text and
 * end tokens come from `params`. Takes time n·log(n) plus the length of the pieces. Returns 0, or -1 without
 * memory. */
int es_infill_keep(const es_params *params, int64_t n, const int32_t *ids, const int64_t *weights,
                   uint8_t *keep, es_infill_scratch *scratch);

void es_infill_free(es_infill_scratch *scratch);

/* cdef: end */
