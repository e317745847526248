/* Memory, work and faults of the grammar engine.
 *
 * Everything that a vocabulary and its grammars store is owned by an `eg_pool`. A pool counts what it holds
 * and is emptied as a whole: nothing else need be freed. A fault (no memory, a limit) returns by longjmp to
 * the call that entered the engine. Tables are only appended to, and an entry is published last, so a fault
 * never leaves a table half changed. No function owns memory across a call that may fault.
 */
#pragma once

#include <setjmp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef struct eg_fault {
    jmp_buf out;
    int code;         /* es_grammar_code */
    char text[256];   /* the message, for people */
    int64_t work;     /* steps left for the current call */
    bool partial;     /* they are only a part of what it may do: it is continued by another call */
    const void *full; /* the pool that reached its limit */
} eg_fault;

/* Leave the current call with `code` and a printf-style message. */
_Noreturn void eg_fail(eg_fault *fault, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Count `steps` of work; faults if the call has done too much. A step is about 8 ns on a current core, so
 * that a limit of steps bounds time: whoever adds a loop counts its rounds, by what they cost. */
_Noreturn void eg_fail_work(eg_fault *fault);
static inline void eg_work(eg_fault *fault, int64_t steps) {
    if ((fault->work -= steps) < 0) eg_fail_work(fault);
}

/* The steps of sorting `count` members. */
static inline int64_t eg_sorting(int64_t count) {
    int64_t rounds = 2;
    while (count >> rounds) rounds++;
    return count * rounds;
}

/* --- arrays that may be empty --- */

/* An empty array may be NULL, which the C library's functions do not accept. These accept it. */
static inline void eg_copy(void *to, const void *from, size_t size) {
    if (size) memcpy(to, from, size);
}

static inline bool eg_same(const void *a, const void *b, size_t size) { return !size || !memcmp(a, b, size); }

/* Most arrays to be sorted are short: insertion sort handles those, and the compiler can inline it. */
static inline void eg_sort(void *at, int64_t count, size_t size, int (*compare)(const void *, const void *)) {
    enum { FEW = 16, LARGEST = 64 };
    if (count > FEW || size > LARGEST) {
        qsort(at, (size_t)count, size, compare);
        return;
    }
    _Alignas(16) char one[LARGEST];
    for (int64_t i = 1; i < count; i++) {
        char *to = (char *)at + (size_t)i * size;
        if (compare(to - size, to) <= 0) continue;
        memcpy(one, to, size);
        do memcpy(to, to - size, size);
        while ((to -= size) != at && compare(to - size, one) > 0);
        memcpy(to, one, size);
    }
}

/* --- memory --- */

typedef struct eg_block eg_block;
typedef struct eg_buffer eg_buffer;

typedef struct eg_pool {
    eg_fault *fault;
    eg_block *blocks;   /* newest first */
    eg_buffer *buffers; /* of vectors and tables */
    size_t used;        /* bytes in all */
    size_t limit;       /* exceeding it is a fault ... */
    const char *name;   /* ... that names the pool so */
} eg_pool;

/* `size` bytes, aligned to 16, valid until the pool is emptied; never NULL. */
void *eg_take(eg_pool *pool, size_t size);

/* The same, all 0; or a copy of `from`. */
void *eg_take_zeroed(eg_pool *pool, size_t size);
void *eg_keep(eg_pool *pool, const void *from, size_t size);

/* A buffer of `new_size` bytes with the contents of `old`, which may be NULL; never NULL. And give one back
 * early. */
void *eg_resize(eg_pool *pool, void *old, size_t old_size, size_t new_size);
void eg_release(eg_pool *pool, void *buffer, size_t size);

/* Empty the pool; or keep its buffers. */
void eg_pool_clear(eg_pool *pool);
void eg_pool_clear_blocks(eg_pool *pool);

/* A growing array of TYPE: `EG_VECTOR(int32_t) v;`. */
#define EG_VECTOR(TYPE)      \
    struct {                 \
        TYPE *at;            \
        int32_t count, room; \
    }

/* Make room for `more` members at the end of `v`. */
#define EG_RESERVE(pool, v, more)                                                                           \
    ((v).count + (more) > (v).room                                                                          \
         ? (void)((v).at = eg_grow((pool), (v).at, sizeof *(v).at, &(v).room, (int64_t)(v).count + (more))) \
         : (void)0)
#define EG_PUSH(pool, v, ...) (EG_RESERVE(pool, v, 1), (v).at[(v).count++] = (__VA_ARGS__))
/* Append a copy of `more` members, which are not in `v`. */
#define EG_APPEND(pool, v, from, more)                                                                \
    (EG_RESERVE(pool, v, more), eg_copy((v).at + (v).count, (from), (size_t)(more) * sizeof *(v).at), \
     (v).count += (more))
#define EG_RELEASE(pool, v) \
    (eg_release(pool, (v).at, (size_t)(v).room * sizeof *(v).at), (v).at = NULL, (v).count = (v).room = 0)

void *eg_grow(eg_pool *pool, void *old, size_t size, int32_t *room, int64_t needed);
