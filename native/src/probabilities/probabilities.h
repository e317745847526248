/* Draws from rows of 16-bit probabilities in memory that is given, for what allocates its own. */
#ifndef ES_PROBABILITIES_H
#define ES_PROBABILITIES_H

#include "engine_sampler_probabilities.h"

#include <stddef.h>

/* The bytes of scratch that rows of this length need; aligned to 8. */
size_t es_probabilities_scratch(int64_t vocab_size);

/* `es_probabilities_sample` with `scratch`, aligned to 8. */
void es_probabilities_sample_in(const es_probabilities *given, int64_t n, const int64_t *rows,
                                int64_t *tokens, double *masses, uint16_t *leading, char *scratch);

#endif
