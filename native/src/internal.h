/* What the parts of the CPU backend share: programs, contexts, and a thread's scratch memory. */
#pragma once

#include "engine_sampler.h"
#include "tables/history.h"
#include "tables/infill.h"

enum {
    ES_CHUNK = 256, /* tokens that share one maximum; chunks far below the best are skipped whole */
    ES_SMALL = 256, /* up to this many candidates are kept sorted */
    ES_SLACK = 64,  /* spare elements after every list, since whole vectors are appended */
    ES_MAX_OPS = 64
};

typedef struct es_compiled {
    int32_t n_ops;
    int32_t selector; /* es_op_kind, or -1 */
    uint32_t needs;   /* history tables, ES_NEED_* */
    es_op ops[ES_MAX_OPS];
} es_compiled;

/* Running sums over tokens in some order. */
typedef struct es_tally {
    int64_t count, weight, information;
} es_tally;

/* What bounds of weights have decided for rows of a program, and what they have left open. */
typedef struct es_counted {
    int64_t certain, weighed;
} es_counted;

/* Memory of one thread, for rows of up to vocab_size tokens; it grows and never shrinks. */
typedef struct es_scratch {
    int64_t vocab_size;
    void *block;           /* everything below, in one allocation */
    float *maxima;         /* [chunks] */
    int64_t *sums;         /* [chunks] */
    float *shares, *bits, *masses; /* [chunks] */
    uint8_t *loose;        /* [chunks] */
    int32_t *edit_starts;  /* [chunks + 1] */
    float *values[2];      /* the lists in use: one is read while the other is written */
    int32_t *ids[2];
    int32_t *weights;
    uint32_t *keys;
    uint32_t *more_keys;
    int32_t *edit_ids[2];
    float *edit_values[2];
    float *old_values;     /* of the tokens that an edit touches */
    float *new_values;
    int32_t *information;
    uint32_t *near_keys;   /* what a search for a cut has been narrowed down to */
    int32_t *near_weights, *near_information;
    int64_t *wide_weights; /* infill's */
    es_marks marks;
    es_infill_scratch infill;
    es_counted *decisions;   /* [n_decisions], by program */
    uint32_t n_decisions;
    es_known_history newest; /* the last long one that this thread has synchronised in this call */
} es_scratch;

/* One row to process. */
typedef struct es_job {
    const es_batch *batch;
    const es_compiled *program;
    const es_compiled *edits; /* for penalized logprobs */
    es_history *history;
    es_scratch *scratch;
    es_counted *decisions; /* of the program, on this thread */
    int32_t entry;
} es_job;

/* Structs in an array are as far apart as their writer's size says. */
static inline const es_params *es_params_of(const es_table *table, int64_t slot) {
    return (const es_params *)((const char *)table->params + (size_t)slot * table->params->size);
}

static inline const es_logprobs *es_logprobs_of(const es_batch *batch, int kind) {
    return (const es_logprobs *)((const char *)batch->logprobs + (size_t)kind * batch->logprobs->size);
}

/* Where the logprobs of one row go: the given token first, then `top_n` of the likeliest (-1 = all). Removed
 * tokens come last, or are not listed. */
typedef struct es_report {
    int64_t *token_ids;
    float *logprobs;
    int64_t *rank;
    int64_t top_n;
    int lists_removed;
} es_report;

/* Whether row `row` has room for `n` logprobs besides the given token's. */
static inline int es_has_room(const es_logprobs *out, int64_t row, int64_t n) {
    return out->token_ids && out->logprobs && out->ranks && out->starts && out->starts[row] >= 0 &&
           out->starts[row + 1] - out->starts[row] > n;
}

static inline es_report es_report_of(const es_logprobs *out, int64_t row, int64_t top_n, int lists_removed) {
    return (es_report){out->token_ids + out->starts[row], out->logprobs + out->starts[row], out->ranks + row,
                       top_n, lists_removed};
}

/* What an instruction set provides. `run_row` returns an es_row_status. */
typedef struct es_kernels {
    const char *name;
    int32_t (*run_row)(const es_job *job);
    float (*greatest)(const void *row, int32_t kind, int64_t n);
    double (*log_sum)(const void *row, int32_t kind, int64_t n);
    void (*report)(es_scratch *scratch, const void *row, int32_t kind, int64_t n, int64_t token,
                   const es_report *out);
} es_kernels;

/* Element types of logits. */
enum { ES_FLOAT = 0, ES_HALF = 1, ES_BFLOAT = 2 };

/* The pool of a context's worker threads. */
typedef struct es_pool es_pool;

/* A pool of `threads` threads in all, the caller's included. It starts its workers when it is first used, and
 * again in a forked child. NULL without memory. */
es_pool *es_pool_new(int32_t threads);
void es_pool_free(es_pool *pool);

/* Call work(context, thread, item) for every item below n; the caller is thread 0. Returns when all are done;
 * the caller does the items that no worker has begun. */
void es_pool_run(es_pool *pool, int64_t n, void (*work)(void *context, int32_t thread, int64_t item),
                 void *context);

extern const es_kernels es_kernels_avx512, es_kernels_avx2, es_kernels_baseline, es_kernels_neon,
    es_kernels_portable;

static inline int32_t es_kind_of(const es_tensor *logits) {
    return logits->bits == 32 ? ES_FLOAT : logits->code == 2 ? ES_HALF : ES_BFLOAT;
}

/* Where a row of logits begins. */
static inline const void *es_row_of(const es_tensor *logits, int64_t row) {
    const int64_t stride = logits->strides ? logits->strides[0] : logits->shape[1];
    return (const char *)logits->data + logits->byte_offset + row * stride * (logits->bits / 8);
}

#ifdef ES_FUZZ_CHANGES
/* The fuzzer's hooks, each NULL or called: before each read of a row as given; for each bound of weights, with what
 * it bounds; for each draw and cut that bounds may have decided. */
extern void (*es_on_read)(const void *row, int32_t kind, int64_t n);
extern void (*es_on_bound)(const char *what, int64_t least, int64_t exact, int64_t most);
extern void (*es_on_decision)(int is_certain);
extern double
    es_bound_width; /* bounds are this many times as wide; 1, unless to see that the hook finds it */
#define ES_BOUND_WIDTH es_bound_width
#define ES_CHECKS_DECISIONS (es_on_bound != NULL)
#else
#define ES_BOUND_WIDTH 1.0
#define ES_CHECKS_DECISIONS 0
#endif

/* The kernels named `isa`, or the best for this machine if it is NULL; NULL if there are none. */
const es_kernels *es_choose_kernels(const char *isa);
