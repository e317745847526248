/* Memory, work and faults of the grammar engine. */
#include "grammar/base/memory.h"

#include <stdarg.h>
#include <stddef.h>
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
static void count_touched(eg_pool *pool, size_t size) { pool->fault->work -= (int64_t)(size / BYTES_A_STEP); }

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
    count_touched(pool, size);
    return out;
}

void *eg_take_zeroed(eg_pool *pool, size_t size) {
    void *out = eg_take(pool, size);
    if (size) memset(out, 0, size);
    return out;
}

void *eg_keep(eg_pool *pool, const void *from, size_t size) {
    void *out = eg_take(pool, size);
    eg_copy(out, from, size);
    return out;
}

struct eg_buffer {
    eg_buffer *next, *before;
    _Alignas(16) unsigned char data[];
};

static eg_buffer *buffer_of(void *data) {
    return data ? (eg_buffer *)((unsigned char *)data - offsetof(eg_buffer, data)) : NULL;
}

/* Have the neighbours of a buffer refer to `next` and `before` in its place. */
static void relink(eg_pool *pool, const eg_buffer *buffer, eg_buffer *next, eg_buffer *before) {
    if (buffer->before) buffer->before->next = next;
    else pool->buffers = next;
    if (buffer->next) buffer->next->before = before;
}

void *eg_resize(eg_pool *pool, void *old, size_t old_size, size_t new_size) {
    if (new_size > old_size) count_bytes(pool, new_size - old_size);
    eg_buffer *buffer = realloc(buffer_of(old), sizeof *buffer + new_size);
    if (!buffer) {
        if (new_size > old_size) pool->used -= new_size - old_size;
        eg_fail(pool->fault, ES_GRAMMAR_MEMORY, "out of memory");
    }
    if (!old) *buffer = (eg_buffer){.next = pool->buffers};
    if (!old && buffer->next) buffer->next->before = buffer;
    relink(pool, buffer, buffer, buffer);
    if (new_size < old_size) pool->used -= old_size - new_size;
    else count_touched(pool, new_size - old_size);
    return buffer->data;
}

void eg_release(eg_pool *pool, void *data, size_t size) {
    eg_buffer *buffer = buffer_of(data);
    if (!buffer) return;
    relink(pool, buffer, buffer->next, buffer->before);
    pool->used -= size;
    free(buffer);
}

void eg_pool_clear_blocks(eg_pool *pool) {
    for (eg_block *block = pool->blocks, *next; block; block = next) {
        next = block->next;
        pool->used -= block->room;
        free(block);
    }
    pool->blocks = NULL;
}

void eg_pool_clear(eg_pool *pool) {
    eg_pool_clear_blocks(pool);
    for (eg_buffer *buffer = pool->buffers, *next; buffer; buffer = next) {
        next = buffer->next;
        free(buffer);
    }
    pool->buffers = NULL;
    pool->used = 0;
}

void *eg_grow(eg_pool *pool, void *old, size_t size, int32_t *room, int64_t needed) {
    int64_t more = *room ? *room : 8;
    while (more < needed) more *= 2;
    if (more > INT32_MAX) eg_fail(pool->fault, ES_GRAMMAR_LIMIT, "a table of the grammar engine is full");
    old = eg_resize(pool, old, (size_t)*room * size, (size_t)more * size);
    *room = (int32_t)more;
    return old;
}
