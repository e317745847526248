/* Memory, faults and hash tables of the grammar engine. */
#include "grammar/base/memory.h"

#include <stdarg.h>
#include <stdio.h>

#include "engine_sampler_grammar.h"

void eg_fail(eg_fault *fault, int code, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(fault->text, sizeof fault->text, format, arguments);
    va_end(arguments);
    fault->code = code;
    longjmp(fault->out, 1);
}

void eg_fail_work(eg_fault *fault) {
    if (fault->partial) eg_fail(fault, ES_GRAMMAR_UNFINISHED, "the work allowed at a time is used up");
    eg_fail(fault, ES_GRAMMAR_LIMIT, "the limit of work in one call (Limits.work) is reached");
}

/* --- memory --- */

enum { FIRST_BLOCK = 1 << 12, BLOCK = 1 << 16, BYTES_A_STEP = 24 };

struct eg_block {
    eg_block *next;
    size_t used, room;
    _Alignas(16) unsigned char data[];
};

static void count_bytes(eg_pool *pool, size_t more) {
    if (more > pool->limit || pool->used > pool->limit - more) {
        pool->fault->full = pool;
        eg_fail(pool->fault, ES_GRAMMAR_MEMORY, "the limit of %zu bytes of memory (%s) is reached",
                pool->limit, pool->name);
    }
    pool->used += more;
}

/* Count memory that is used for the first time; the next eg_work faults if that was too much. */
static void touch(eg_pool *pool, size_t size) { pool->fault->work -= (int64_t)(size / BYTES_A_STEP); }

/* The room of the next block after `newest`: most grammars are small, and few pages are touched for them. */
static size_t next_room(const eg_block *newest) {
    if (!newest) return FIRST_BLOCK;
    return newest->room < BLOCK / 2 ? 2 * newest->room : BLOCK;
}

void *eg_take(eg_pool *pool, size_t size) {
    eg_block *block = pool->blocks;
    size = (size + 15) & ~(size_t)15;
    if (!block || block->room - block->used < size) {
        const size_t next = next_room(block), room = size > next / 4 ? size : next;
        count_bytes(pool, room);
        eg_block *fresh = malloc(sizeof *fresh + room);
        if (!fresh) {
            pool->used -= room;
            eg_fail(pool->fault, ES_GRAMMAR_MEMORY, "out of memory");
        }
        fresh->used = 0;
        fresh->room = room;
        if (block && size > next / 4) { /* keep filling the block that has room */
            fresh->next = block->next;
            block->next = fresh;
        } else {
            fresh->next = block;
            pool->blocks = fresh;
        }
        block = fresh;
    }
    void *out = block->data + block->used;
    block->used += size;
    touch(pool, size);
    return out;
}

void *eg_resize(eg_pool *pool, void *old, size_t old_size, size_t new_size) {
    if (new_size > old_size) count_bytes(pool, new_size - old_size);
    void *out = realloc(old, new_size ? new_size : 1);
    if (!out) {
        if (new_size > old_size) pool->used -= new_size - old_size;
        eg_fail(pool->fault, ES_GRAMMAR_MEMORY, "out of memory");
    }
    if (new_size < old_size) pool->used -= old_size - new_size;
    else touch(pool, new_size - old_size);
    return out;
}

void eg_pool_clear(eg_pool *pool) {
    for (eg_block *block = pool->blocks, *next; block; block = next) {
        next = block->next;
        pool->used -= block->room;
        free(block);
    }
    pool->blocks = NULL;
}

void *eg_grow(eg_pool *pool, void *old, size_t size, int32_t *room, int64_t needed) {
    int64_t more = *room ? *room : 8;
    while (more < needed) more *= 2;
    if (more > INT32_MAX) eg_fail(pool->fault, ES_GRAMMAR_LIMIT, "a table of the grammar engine is full");
    old = eg_resize(pool, old, (size_t)*room * size, (size_t)more * size);
    *room = (int32_t)more;
    return old;
}

/* --- tables --- */

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
        eg_map_free(pool, map);
        *map = wider;
    }
    map_place(map, key, value);
}

void eg_map_free(eg_pool *pool, eg_map *map) {
    free(map->keys);
    pool->used -= (size_t)map->room * (sizeof *map->keys + sizeof *map->values);
    *map = (eg_map){0};
}

static void set_place(eg_set *set, eg_slot slot) {
    uint64_t i = slot.hash & (uint64_t)(set->room - 1);
    while (set->slots[i].id >= 0) i = (i + 1) & (uint64_t)(set->room - 1);
    set->slots[i] = slot;
    set->count++;
}

static size_t set_size(const eg_set *set) { return (size_t)set->room * sizeof *set->slots; }

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
    eg_set_free(pool, set);
    *set = wider;
}

void eg_set_add(eg_pool *pool, eg_set *set, uint64_t hash, int32_t id) {
    if (2 * set->count >= set->room) eg_set_widen(pool, set);
    set_place(set, (eg_slot){(uint32_t)hash, id});
}

void eg_set_copy(eg_pool *pool, eg_set *to, const eg_set *from) {
    if (to->room != from->room) {
        eg_set_free(pool, to);
        if (from->room) to->slots = eg_resize(pool, NULL, 0, set_size(from));
    }
    eg_copy(to->slots, from->slots, set_size(from));
    *to = (eg_set){to->slots, from->count, from->room};
}

void eg_set_free(eg_pool *pool, eg_set *set) {
    free(set->slots);
    pool->used -= set_size(set);
    *set = (eg_set){0};
}
