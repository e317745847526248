/* Masks of tokens, one bit each. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

static inline void eg_set_bit(uint32_t *bits, int32_t token) {
    bits[token >> 5] |= (uint32_t)1 << (token & 31);
}

static inline void eg_clear_bit(uint32_t *bits, int32_t token) {
    bits[token >> 5] &= ~((uint32_t)1 << (token & 31));
}

static inline bool eg_has_bit(const uint32_t *bits, int32_t token) {
    return bits[token >> 5] >> (token & 31) & 1;
}

static inline void eg_set_bits(uint32_t *bits, const int32_t *tokens, int64_t count) {
    for (int64_t i = 0; i < count; i++) eg_set_bit(bits, tokens[i]);
}

static inline void eg_clear_bits(uint32_t *bits, const int32_t *tokens, int64_t count) {
    for (int64_t i = 0; i < count; i++) eg_clear_bit(bits, tokens[i]);
}
