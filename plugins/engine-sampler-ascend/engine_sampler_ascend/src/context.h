/* The state of one context. A step's operators are queued by `run.c`, what they leave is read by `results.c`. */
#ifndef ASCEND_CONTEXT_H
#define ASCEND_CONTEXT_H

#include "cann.h"
#include "penalties.h"

#include <engine_sampler.h>

enum {
    MOST_STEPS = 8,
    MOST_PROGRAMS = 256,
    MOST_PLANS = 16,
    MOST_TOP_K = 1024, /* of CANN's operators, and of a row's survivors */
    SPARE_CANDIDATES = 16, /* beyond top_k, so that ties with the last one are seen */
    ALIGNMENT = 32, /* of what tensors point to, in bytes */
    MOST_VOCABULARY = 1 << 20
};

/* How the operators run a row. */
typedef enum ascend_way {
    CANDIDATES, /* TopK; the host goes on with its best tokens, exactly */
    BEST, /* ArgMax */
    FILTERED, /* ApplyTopKTopP, then as CANDIDATES */
    DRAWN /* TopKTopPSample */
} ascend_way;

typedef struct ascend_program {
    ascend_way way;
    int32_t n, kinds[MOST_STEPS];
    bool selects;
} ascend_program;

/* One row of a run; the request's parameters are copied, since they may change while the run is open. */
typedef struct ascend_entry {
    int64_t row;
    int32_t program, status;
    int32_t top_k; /* <= 0: off */
    float top_p, min_p; /* 1 and 0: off */
    float factor; /* of the temperature */
    bool masked; /* some tokens are forbidden */
    bool only_best; /* temperature 0 */
    int32_t slot;
    uint64_t notice; /* the last before the run: later ones change the counts */
    ascend_penalties penalties;
    int64_t reach; /* how many tokens they may push down */
    int32_t span;
} ascend_entry;

/* Entries that one launch of each operator runs: consecutive rows of the logits, one way. Offsets are those of
 * results in the run's memory, each beginning with the entry `first`. */
typedef struct ascend_span {
    ascend_way way;
    int64_t first, n, width; /* of entries; how many candidates of each row */
    size_t sums, tops, tokens, values, indices;
    size_t top_k, top_p, min_p, factor; /* of inputs */
} ascend_span;

typedef struct ascend_run {
    bool open;
    uint64_t ticket;
    aclrtStream stream;
    aclrtEvent event;
    es_batch *batch;
    aclTensor **tensors; /* of its operators, alive until it is done */
    int64_t n_tensors, most_tensors;
    ascend_entry *entries;
    int64_t n_entries;
    ascend_span *spans;
    int64_t n_spans;
    int64_t noise_width; /* of es_batch.random */
    char *pinned;
} ascend_run;

typedef struct ascend_candidate {
    float logit;
    int64_t id;
} ascend_candidate;

/* The memory of a plan's runs. On the device: results, inputs, rows of intermediate results, and the workspace
 * of one operator at a time. The results, and what is copied there, have room in the pinned memory. */
typedef struct ascend_plan {
    uint32_t number; /* 0: free */
    int32_t type; /* aclDataType of the logits */
    int64_t rows, vocab_size;
    int64_t width, noise_width; /* candidates of a row at most; numbers of noise that a row is given */
    size_t results, inputs, noise; /* bytes */
    size_t inputs_at, noise_at, scaled_at, filtered_at, index_at, sorted_at, select_at, scratch_at;
    size_t scratch, total, pinned;
    ascend_run run; /* at most one is open */
    ascend_candidate *candidates;
} ascend_plan;

struct es_context {
    cann_symbols cann;
    int32_t device;
    bool exact; /* as opposed to whatever CANN's operators do */
    bool is_ieee; /* NaN and infinities are what they are; bfloat16 */
    bool filters; /* this chip has ApplyTopKTopP and TopKTopPSample */
    void *anchor; /* device memory, for tensors that are only planned */
    aclIntArray *last_axis;
    ascend_program programs[MOST_PROGRAMS];
    uint32_t n_programs;
    ascend_plan plans[MOST_PLANS];
    uint32_t n_plans;
    uint64_t n_tickets;
    ascend_histories histories;
    char target[80], error[400];
};

/* --- device.c --- */

/* The device of the calling thread before a call, which is what it has after it. */
typedef struct ascend_thread {
    int32_t before; /* -1: none */
} ascend_thread;

int32_t ascend_enter(es_context *context, ascend_thread *thread);
void ascend_leave(es_context *context, const ascend_thread *thread);
/* What plans need once; nothing of it exists before the first plan. */
int32_t ascend_begin_planning(es_context *context);
int32_t ascend_allocate(es_context *context, int32_t memory, int64_t bytes, void **out);
int32_t ascend_deallocate(es_context *context, int32_t memory, void *pointer);
/* For what the host runs itself, and for what it tries. Both return when it is done. */
int32_t ascend_read_rows(es_context *context, const es_tensor *logits, const int64_t *rows, int64_t n,
                         void *stream, void *out);
int32_t ascend_copy_block(es_context *context, void *to, const void *from, int64_t bytes, int32_t to_device,
                          void *stream);

/* --- errors.c --- */

/* The host's code for an aclError or aclnnStatus. */
int32_t ascend_code(int32_t status);
/* Returns `code`, and keeps the words. */
int32_t ascend_refuse(es_context *context, int32_t code, const char *why);
/* The host's code for what `call` returned, whose words are kept if it is an error. */
int32_t ascend_checked(es_context *context, const char *call, int32_t status);

/* --- programs.c --- */

int32_t ascend_read_program(es_context *context, const es_program *program, ascend_program *out);
bool ascend_has(const ascend_program *program, int32_t kind);
/* How many numbers of noise a row of a program that draws is given. */
int64_t ascend_noise_width(const ascend_program *program, int64_t vocab_size);
int32_t ascend_query(es_context *context, const es_query *query, es_answer *answer);
int32_t ascend_compile(es_context *context, const es_program *program, uint32_t *number);

/* --- plans.c --- */

size_t ascend_aligned(size_t bytes);
int32_t ascend_type(uint8_t code, uint8_t bits); /* aclDataType, -1 if it is none of ours */
size_t ascend_size(int32_t type); /* bytes of an element */
/* How many candidates of a row to fetch for a top_k. */
int64_t ascend_width(int64_t top_k, int64_t vocab_size);
int32_t ascend_prepare(es_context *context, const es_shape *shape, es_plan *out);
int32_t ascend_release(es_context *context, uint32_t number);
void ascend_free_plan(es_context *context, ascend_plan *plan);
ascend_plan *ascend_plan_of(es_context *context, uint32_t number);

/* --- run.c --- */

int32_t ascend_run_batch(es_context *context, es_batch *batch);
/* End a run: free what its operators needed. */
void ascend_end_run(es_context *context, ascend_run *run);
/* The plan whose run has this ticket; NULL if none has. */
ascend_plan *ascend_plan_of_ticket(es_context *context, uint64_t ticket);

/* --- results.c --- */

/* Write what the finished run of a plan has left in its pinned memory to the outputs of its batch. */
void ascend_write_results(es_context *context, ascend_plan *plan);

#endif
