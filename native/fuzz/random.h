/* Random numbers and hashes that are the same on every machine: only integers and exact floats. */
#pragma once

#include <stddef.h>
#include <stdint.h>
#include <string.h>

typedef struct fz_random {
    uint64_t state;
} fz_random;

static inline uint64_t fz_mix(uint64_t x) {
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
    x = (x ^ x >> 27) * 0x94D049BB133111EBu;
    return x ^ x >> 31;
}

static inline uint64_t fz_bits(fz_random *r) { return fz_mix(r->state += 0x9E3779B97F4A7C15u); }

/* An integer in [0, n). */
static inline int64_t fz_below(fz_random *r, int64_t n) { return (int64_t)(fz_bits(r) % (uint64_t)n); }

/* An integer in [low, high]. */
static inline int64_t fz_from(fz_random *r, int64_t low, int64_t high) {
    return low + fz_below(r, high - low + 1);
}

static inline int fz_chance(fz_random *r, int percent) { return fz_below(r, 100) < percent; }

/* A double in [0, 1). */
static inline double fz_share(fz_random *r) { return (double)(fz_bits(r) >> 11) * 0x1p-53; }

/* Approximately standard normal: the sum of four uniform numbers. */
static inline float fz_normal(fz_random *r) {
    const uint64_t x = fz_bits(r);
    const int32_t sum = (int32_t)((x & 65535) + (x >> 16 & 65535) + (x >> 32 & 65535) + (x >> 48)) - 131072;
    return (float)sum * 0x1.bbp-16f;
}

/* One of n values that are known to be awkward. */
static inline double fz_one_of(fz_random *r, const double *values, size_t n) {
    return values[fz_below(r, (int64_t)n)];
}
#define FZ_ONE_OF(r, ...) \
    fz_one_of(r, (const double[]){__VA_ARGS__}, sizeof((const double[]){__VA_ARGS__}) / sizeof(double))

static inline uint64_t fz_hash(uint64_t hash, const void *bytes, size_t n) {
    const unsigned char *p = bytes;
    for (; n >= 8; n -= 8, p += 8) {
        uint64_t word;
        memcpy(&word, p, 8);
        hash = fz_mix(hash ^ word);
    }
    uint64_t rest = 0;
    if (n) memcpy(&rest, p, n);
    return fz_mix(hash ^ rest ^ (uint64_t)n << 56);
}
