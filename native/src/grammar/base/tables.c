/* Hash tables of numbers. */
#include "grammar/base/tables.h"

static void map_place(eg_map *map, uint64_t key, int32_t value) {
    uint64_t i = eg_mix(key) & (uint64_t)(map->room - 1);
    while (map->keys[i] != UINT64_MAX && map->keys[i] != key) i = (i + 1) & (uint64_t)(map->room - 1);
    map->count += map->keys[i] != key;
    map->keys[i] = key;
    map->values[i] = value;
}

void eg_map_put(eg_pool *pool, eg_map *map, uint64_t key, int32_t value) {
    if (2 * map->count >= map->room) {
        eg_map wider = {.room = map->room ? 2 * map->room : 64};
        const size_t keys = (size_t)wider.room * sizeof *wider.keys;
        wider.keys = eg_resize(pool, NULL, 0, keys + (size_t)wider.room * sizeof *wider.values);
        wider.values = (int32_t *)(wider.keys + wider.room);
        memset(wider.keys, 0xff, keys);
        for (int64_t i = 0; i < map->room; i++)
            if (map->keys[i] != UINT64_MAX) map_place(&wider, map->keys[i], map->values[i]);
        eg_map_release(pool, map);
        *map = wider;
    }
    map_place(map, key, value);
}

void eg_map_release(eg_pool *pool, eg_map *map) {
    eg_release(pool, map->keys, (size_t)map->room * (sizeof *map->keys + sizeof *map->values));
    *map = (eg_map){0};
}

static void set_place(eg_set *set, eg_slot slot) {
    uint64_t i = slot.hash & (uint64_t)(set->room - 1);
    while (set->slots[i].id >= 0) i = (i + 1) & (uint64_t)(set->room - 1);
    set->slots[i] = slot;
    set->count++;
}

static size_t set_size(const eg_set *set) { return (size_t)set->room * sizeof *set->slots; }

static void release_set(eg_pool *pool, eg_set *set) {
    eg_release(pool, set->slots, set_size(set));
    *set = (eg_set){0};
}

void eg_set_clear(eg_set *set) {
    if (set->room) memset(set->slots, 0xff, set_size(set));
    set->count = 0;
}

void eg_set_widen(eg_pool *pool, eg_set *set) {
    eg_set wider = {.room = set->room ? 2 * set->room : 64};
    wider.slots = eg_resize(pool, NULL, 0, set_size(&wider));
    eg_set_clear(&wider);
    for (int64_t i = 0; i < set->room; i++)
        if (set->slots[i].id >= 0) set_place(&wider, set->slots[i]);
    release_set(pool, set);
    *set = wider;
}

void eg_set_add(eg_pool *pool, eg_set *set, uint64_t hash, int32_t id) {
    if (2 * set->count >= set->room) eg_set_widen(pool, set);
    set_place(set, (eg_slot){(uint32_t)hash, id});
}

void eg_set_copy(eg_pool *pool, eg_set *to, const eg_set *from) {
    if (to->room != from->room) {
        release_set(pool, to);
        if (from->room) to->slots = eg_resize(pool, NULL, 0, set_size(from));
    }
    eg_copy(to->slots, from->slots, set_size(from));
    *to = (eg_set){to->slots, from->count, from->room};
}
