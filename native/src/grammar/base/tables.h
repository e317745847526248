/* Hash tables of numbers. */
#pragma once

#include "grammar/base/memory.h"

static inline uint64_t eg_mix(uint64_t x) {
    x ^= x >> 32;
    x *= 0xd6e8feb86659fd93u;
    x ^= x >> 32;
    x *= 0xd6e8feb86659fd93u;
    return x ^ x >> 32;
}

static inline uint64_t eg_hash_ints(const int32_t *values, int64_t count, uint64_t seed) {
    uint64_t h = seed ^ (uint64_t)count * 0x9e3779b97f4a7c15u;
    for (int64_t i = 0; i < count; i++) h = eg_mix(h ^ (uint32_t)values[i]);
    return h;
}

/* Maps a pair of numbers to a number; -1 if there is none. A key is never 2^64 - 1. */
typedef struct eg_map {
    uint64_t *keys; /* one buffer for both */
    int32_t *values;
    int64_t count, room;
} eg_map;

static inline uint64_t eg_pair(int32_t a, int32_t b) { return (uint64_t)(uint32_t)a << 32 | (uint32_t)b; }

/* The value of `key`, or `absent`. */
static inline int32_t eg_map_get(const eg_map *map, uint64_t key, int32_t absent) {
    if (map->room)
        for (uint64_t i = eg_mix(key);; i++) {
            const uint64_t at = i & (uint64_t)(map->room - 1);
            if (map->keys[at] == key) return map->values[at];
            if (map->keys[at] == UINT64_MAX) break;
        }
    return absent;
}

void eg_map_put(eg_pool *pool, eg_map *map, uint64_t key, int32_t value);
void eg_map_release(eg_pool *pool, eg_map *map);

/* Numbers by the hash of what they stand for; the caller compares the contents:
 *
 *     for (eg_probe p = eg_probe_at(&set, hash); (id = eg_probe_next(&p)) >= 0;)
 *         if (equal(id, ...)) return id;
 */
typedef struct eg_slot {
    uint32_t hash; /* the low half, which also decides the place */
    int32_t id;    /* -1: the slot is free */
} eg_slot;

typedef struct eg_set {
    eg_slot *slots;
    int64_t count, room;
} eg_set;

typedef struct eg_probe {
    const eg_set *set;
    uint64_t hash;
    uint64_t at;
} eg_probe;

static inline eg_probe eg_probe_at(const eg_set *set, uint64_t hash) { return (eg_probe){set, hash, hash}; }

static inline int32_t eg_probe_next(eg_probe *p) {
    if (!p->set->room) return -1;
    for (;; p->at++) {
        const eg_slot slot = p->set->slots[p->at & (uint64_t)(p->set->room - 1)];
        if (slot.id < 0) return -1;
        if (slot.hash == (uint32_t)p->hash) return ++p->at, slot.id;
    }
}

void eg_set_add(eg_pool *pool, eg_set *set, uint64_t hash, int32_t id);
void eg_set_clear(eg_set *set);
void eg_set_widen(eg_pool *pool, eg_set *set);
void eg_set_copy(eg_pool *pool, eg_set *to, const eg_set *from);
