/* The tokens of a vocabulary. */
#pragma once

#include <stdint.h>

typedef struct eg_tokens {
    int32_t count;
    int32_t words;   /* of a mask */
    int32_t longest; /* bytes of the longest token that is text */
    uint8_t *bytes;  /* token i is bytes[offsets[i] .. offsets[i + 1]) */
    int64_t *offsets;
    uint8_t *kinds;  /* es_token bits */
} eg_tokens;

static inline int32_t eg_token_length(const eg_tokens *t, int32_t token) {
    return (int32_t)(t->offsets[token + 1] - t->offsets[token]);
}
