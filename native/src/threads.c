/* Worker threads that share the rows of a step.
 *
 * Rows are handed out as tickets: the thread that takes one processes the row. The caller takes tickets too.
 * At the end it waits for rows that a worker has begun, but never for a worker to wake up, so a busy machine
 * costs next to nothing.
 */
#include "internal.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

struct es_pool {
    int32_t threads;        /* the caller's included */
    int32_t started;        /* workers that are running */
    pid_t process;          /* the process they run in: a forked child has none of them */
    int closing;
    pthread_mutex_t lock;
    pthread_cond_t wake;
    pthread_t *workers;
    /* The run in progress, written under the lock. */
    uint32_t generation;
    int64_t n;
    void (*work)(void *, int32_t, int64_t);
    void *context;
    /* generation << 32 | next row: a late worker cannot take a ticket of a run it has not seen. */
    _Atomic uint64_t ticket;
    _Atomic int64_t done;
    int32_t solo_runs;      /* upcoming runs that the caller does alone */
    int32_t next_solo_runs; /* how many after the next stall */
};

enum { MIN_SOLO_RUNS = 8, MAX_SOLO_RUNS = 512, STALL_NS = 150000 };

static int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

typedef struct es_worker {
    es_pool *pool;
    int32_t thread;
} es_worker;

/* Process rows until none is left; returns how many. */
static int64_t do_tickets(es_pool *pool, int32_t thread, uint32_t generation, int64_t n,
                          void (*work)(void *, int32_t, int64_t), void *context) {
    int64_t count = 0;
    uint64_t ticket = atomic_load(&pool->ticket);
    while (ticket >> 32 == generation && (int64_t)(uint32_t)ticket < n)
        if (atomic_compare_exchange_weak(&pool->ticket, &ticket, ticket + 1)) {
            work(context, thread, (int64_t)(uint32_t)ticket);
            count++;
            atomic_fetch_add(&pool->done, 1);
            ticket = atomic_load(&pool->ticket);
        }
    return count;
}

static void *serve(void *argument) {
    es_worker worker = *(es_worker *)argument;
    free(argument);
    es_pool *pool = worker.pool;
    uint32_t seen = 0;
    pthread_mutex_lock(&pool->lock);
    for (;;) {
        while (!pool->closing && pool->generation == seen) pthread_cond_wait(&pool->wake, &pool->lock);
        if (pool->closing) break;
        seen = pool->generation;
        const int64_t n = pool->n;
        void (*const work)(void *, int32_t, int64_t) = pool->work;
        void *const context = pool->context;
        pthread_mutex_unlock(&pool->lock);
        do_tickets(pool, worker.thread, seen, n, work, context);
        pthread_mutex_lock(&pool->lock);
    }
    pthread_mutex_unlock(&pool->lock);
    return NULL;
}

/* Start the missing workers. If that fails, the caller does their rows. */
static void start_workers(es_pool *pool) {
    if (pool->process != getpid()) { /* the first run, or the first after a fork */
        pthread_mutex_init(&pool->lock, NULL);
        pthread_cond_init(&pool->wake, NULL);
        pool->process = getpid();
        pool->started = 0;
        pool->generation = 0;
    }
    while (pool->started < pool->threads - 1) {
        es_worker *worker = malloc(sizeof *worker);
        if (!worker) return;
        *worker = (es_worker){pool, pool->started + 1};
        if (pthread_create(&pool->workers[pool->started], NULL, serve, worker)) {
            free(worker);
            return;
        }
        pool->started++;
    }
}

es_pool *es_pool_new(int32_t threads) {
    es_pool *pool = calloc(1, sizeof *pool);
    if (!pool) return NULL;
    pool->threads = threads;
    pool->next_solo_runs = MIN_SOLO_RUNS;
    pool->workers = calloc((size_t)threads, sizeof *pool->workers);
    if (!pool->workers) {
        free(pool);
        return NULL;
    }
    return pool;
}

void es_pool_free(es_pool *pool) {
    if (!pool) return;
    if (pool->process == getpid()) {
        pthread_mutex_lock(&pool->lock);
        pool->closing = 1;
        pthread_cond_broadcast(&pool->wake);
        pthread_mutex_unlock(&pool->lock);
        for (int32_t i = 0; i < pool->started; i++) pthread_join(pool->workers[i], NULL);
        pthread_cond_destroy(&pool->wake);
        pthread_mutex_destroy(&pool->lock);
    }
    free(pool->workers);
    free(pool);
}

void es_pool_run(es_pool *pool, int64_t n, void (*work)(void *context, int32_t thread, int64_t item),
                 void *context) {
    if (pool->threads < 2 || n < 2 || pool->solo_runs > 0) {
        if (pool->solo_runs > 0) pool->solo_runs--;
        for (int64_t i = 0; i < n; i++) work(context, 0, i);
        return;
    }
    start_workers(pool);
    pthread_mutex_lock(&pool->lock);
    if (++pool->generation == 0) pool->generation++;
    const uint32_t generation = pool->generation;
    pool->n = n;
    pool->work = work;
    pool->context = context;
    atomic_store(&pool->done, 0);
    atomic_store(&pool->ticket, (uint64_t)generation << 32);
    pthread_cond_broadcast(&pool->wake);
    pthread_mutex_unlock(&pool->lock);
    const int64_t begin = now_ns();
    const int64_t own = do_tickets(pool, 0, generation, n, work, context);
    const int64_t end = now_ns();
    for (int spins = 0; atomic_load(&pool->done) < n; spins++)
        if (spins > 1000) sched_yield();
    /* A worker that is preempted in the middle of a row stalls the step for a time slice. While other
     * processes compete for the core this recurs, so the caller runs alone for a while, longer after every
     * stall. */
    if (now_ns() - end > STALL_NS + 4 * (end - begin) / (own ? own : 1)) {
        pool->solo_runs = pool->next_solo_runs;
        pool->next_solo_runs = pool->next_solo_runs < MAX_SOLO_RUNS ? 2 * pool->next_solo_runs
                                                                    : MAX_SOLO_RUNS;
    } else if (pool->next_solo_runs > MIN_SOLO_RUNS) pool->next_solo_runs--;
}
