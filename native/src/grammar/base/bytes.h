/* Sets of bytes. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

typedef struct eg_bytes {
    uint64_t words[4];
} eg_bytes;

static const eg_bytes EG_ALL_BYTES = {{UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX}};

static inline void eg_bytes_add(eg_bytes *set, int byte) {
    set->words[byte >> 6] |= (uint64_t)1 << (byte & 63);
}

static inline bool eg_bytes_has(const eg_bytes *set, int byte) {
    return set->words[byte >> 6] >> (byte & 63) & 1;
}

static inline bool eg_bytes_meet(const eg_bytes *a, const eg_bytes *b) {
    return (a->words[0] & b->words[0]) | (a->words[1] & b->words[1]) | (a->words[2] & b->words[2]) |
           (a->words[3] & b->words[3]);
}

/* Whether all of `a` are in `b`. */
static inline bool eg_bytes_within(const eg_bytes *a, const eg_bytes *b) {
    uint64_t more = 0;
    for (int i = 0; i < 4; i++) more |= a->words[i] & ~b->words[i];
    return !more;
}

/* The set folded to 64 bits, indexed by a byte's low six bits: sets with a common byte have a common bit. */
static inline uint64_t eg_bytes_fold(const eg_bytes *set) {
    return set->words[0] | set->words[1] | set->words[2] | set->words[3];
}

static inline void eg_bytes_unite(eg_bytes *into, const eg_bytes *more) {
    for (int i = 0; i < 4; i++) into->words[i] |= more->words[i];
}

static inline void eg_bytes_intersect(eg_bytes *into, const eg_bytes *other) {
    for (int i = 0; i < 4; i++) into->words[i] &= other->words[i];
}

static inline int eg_bytes_count(const eg_bytes *set) {
    int count = 0;
    for (int i = 0; i < 4; i++)
        for (uint64_t rest = set->words[i]; rest; rest &= rest - 1) count++;
    return count;
}
