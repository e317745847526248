/* What the parts of the library share: contexts, plans, and what lies where in a step's memory. */
#ifndef SIM_LIBRARY_INTERNAL_H
#define SIM_LIBRARY_INTERNAL_H

#include <engine_sampler.h>

#include "sim_device.h"
#include "sim_library.h"

enum {
    MOST_PROGRAMS = 256,
    MOST_OPS = 32,
    MOST_RECORDS = 4096, /* changes of histories that travel with a step; more are uploaded beforehand */
    MOST_BREAKERS = 4096 /* tokens of DRY's breakers that a request may have here */
};

/* --- what the host knows -------------------------------------------------------------------------------- */

typedef struct program {
    uint32_t whole;    /* its number among the packaged kernels */
    uint32_t samplers; /* the number of the same without the selector */
    int32_t selector;  /* es_op_kind, or -1 */
    int32_t has_dry;
    int32_t has_top_k;
    int32_t keeps_ties; /* its survivors are joined by all tokens as likely as the last of them */
} program;

/* A request near the logits. */
typedef struct mirror {
    uint64_t epoch;
    int64_t length, capacity;
    void *block;       /* of the device: a `request`, or NULL if there was no memory for it */
    int64_t tokens_at; /* offset in the block */
    int32_t is_known;
    int32_t has_many_breakers;
} mirror;

/* A token that has joined a history. */
typedef struct record {
    void *block; /* a `request` */
    double note;
    int32_t index, token;
} record;

/* Pinned memory for one upload; used again once its event has happened. */
typedef struct staging {
    void *pinned;
    int64_t bytes;
    sim_event *event;
} staging;

/* Grammar masks that have been uploaded before their step. */
typedef struct mask_set {
    staging upload;
    void *device;
    int64_t bytes, words;
    int64_t rows;      /* of the step they are for */
    uint8_t *has;      /* [rows], whether there is a mask */
    int32_t users;     /* steps that are not done */
    uint64_t number;   /* 0: free */
} mask_set;

enum { MASK_SETS = 4, STAGINGS = 8 };

/* A block that steps up to `ticket` may still read. */
typedef struct retired {
    void *block;
    uint64_t ticket;
} retired;

/* Where everything lies from the start of the workspace; the first part also in pinned memory. */
typedef struct layout {
    int64_t up, results, survivor_counts, survivor_ids, survivor_logits;
    int64_t logprob_ids, logprob_values, logprob_ranks;
    int64_t down_end; /* what is downloaded is [results, down_end) */
    int64_t row, given, heads;
    int64_t end;
} layout;

typedef struct plan {
    uint32_t number; /* 0: free */
    int32_t masked;
    int64_t rows, vocab_size, stride;
    uint8_t code, bits;
    uint32_t wants;
    int64_t most_logprobs;
    layout at;
    sim_event *event;
    /* of its step that is not done */
    uint64_t ticket;
    es_batch *batch;
    mask_set *masks;
} plan;

struct es_context {
    sim_settings settings;
    es_context *kernels; /* of the packaged library */
    uint32_t nothing;    /* its program without a step */
    program programs[MOST_PROGRAMS];
    uint32_t n_programs;
    plan *plans;
    int32_t n_plans;
    uint64_t tickets; /* the last one */
    sim_stream *uploads;
    sim_event *uploaded; /* fails from the first upload that has failed, until `forget_requests` */
    int32_t forgot;      /* since `uploaded` was recorded last */
    /* requests */
    mirror *mirrors;
    int32_t capacity;
    record *records; /* [MOST_RECORDS], that the next step uploads */
    int32_t n_records;
    retired *retired;
    int32_t n_retired, retired_capacity;
    staging stagings[STAGINGS];
    mask_set masks[MASK_SETS];
    uint64_t mask_numbers;
    char error[160];
};

/* --- what the device knows ------------------------------------------------------------------------------ */

/* A request in the device's memory; its arrays follow at these offsets, 0 = none. */
typedef struct request {
    es_params params; /* without pointers */
    uint64_t seed;
    int64_t length; /* of the history that has arrived here */
    int64_t prompt_length, tokens, notes;
    int64_t penalty_exempt, allowed, eos, ending, biased, biases;
    int64_t bad_words, bad_word_ends, breakers, breaker_ends;
} request;

/* What a step uploads: a header, entries, changes, and what is only there when it is needed. */
typedef struct wire_header {
    int32_t n, n_records;
    int64_t random, masks, logprobs; /* offsets of the parts, 0 = none */
} wire_header;

typedef struct wire_entry {
    int64_t position;
    void *block; /* a `request` */
    int32_t length, row;
    uint16_t program;
    uint16_t mask; /* 0 none, 1 staged, 2 + i: number i of the uploaded ones */
    int32_t status; /* the row's, decided by the host unless it is ES_ROW_OK */
} wire_entry;

typedef struct wire_logprobs {
    uint32_t edits;
    int32_t top_n;
    uint32_t kinds, reserved;
} wire_logprobs;

/* What a step downloads for each entry. */
typedef struct wire_result {
    int32_t token, status;
    double note;
} wire_result;

/* The arguments of the operator that runs a step. */
typedef struct step_arguments {
    const es_api *kernels;
    es_context *kernels_context;
    const program *programs;
    layout at;
    int64_t vocab_size, stride, survivors_width, logprobs_width;
    const void *logits; /* the first row */
    uint8_t code, bits;
    int32_t random;
    int64_t random_width;
    uint32_t nothing; /* the program that leaves rows as they are given, but for their masks */
    const void *staged_masks;
    int64_t mask_words;
    int64_t *token_ids_on_device;
    int32_t wants_survivors;
} step_arguments;

extern const sim_operator step_operator;

/* --- calls ---------------------------------------------------------------------------------------------- */

int32_t refuse(es_context *context, int32_t code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The es_code of a sim_code, with its message. */
int32_t refuse_device(es_context *context, const char *what, int32_t code);
/* Memory of the host, which does not fail halfway: NULL without memory, and then all is as it was. */
void *grown(void *array, int64_t n, int64_t size);

int64_t padded(int64_t bytes);
/* As in es_answer. */
int64_t random_width(const sim_settings *settings, int64_t vocab_size);
int64_t mask_bytes(int64_t vocab_size); /* of a mask that travels with a step */
uint64_t oldest_ticket(const es_context *context); /* that is not done; UINT64_MAX without any */

int32_t update_requests(es_context *context, const es_changes *changes);
void free_requests(es_context *context);
void free_retired(es_context *context);
/* Record `uploaded`, behind what has been queued. */
int32_t record_uploads(es_context *context);
/* Wait for all uploads, after a failure. */
void settle_uploads(es_context *context);
void forget_requests(es_context *context); /* what the device holds is not known any more */

/* Pinned memory for one upload, whose event has happened. */
int32_t take_staging(es_context *context, int64_t bytes, staging **out);
int32_t make_staging(staging *place, int64_t bytes);
void free_staging(staging *place);

int32_t stage_masks(es_context *context, const es_masks *masks, uint64_t *number);
mask_set *masks_of(es_context *context, uint64_t number);
void free_masks(es_context *context);

int32_t prepare_plan(es_context *context, const es_shape *shape, es_plan *out);
int32_t release_plan(es_context *context, uint32_t number);
plan *plan_of(es_context *context, uint32_t number);
int32_t run_step(es_context *context, es_batch *batch);
int32_t wait_for_step(es_context *context, uint64_t ticket);
int32_t poll_step(es_context *context, uint64_t ticket);
int32_t read_rows(es_context *context, const es_tensor *logits, const int64_t *rows, int64_t n, void *stream,
                  void *out);

int32_t copy_memory(es_context *context, void *to, const void *from, int64_t bytes, int32_t to_device,
                    void *stream);

/* A token of a row [n], -inf = removed, by random numbers of the host's. */
int64_t draw_by_bits(const float *row, int64_t n, uint64_t bits);
int64_t draw_by_uniform(const float *row, int64_t n, float u);
int64_t draw_by_exponential(const float *row, int64_t n, const float *noise);
/* The same with noise [width] by rank; takes all tokens from the row. -1 if it has more than `width`. */
int64_t draw_by_rank(float *row, int64_t n, const float *noise, int64_t width);

extern const es_api *sim_kernels; /* of the packaged library, NULL until it is loaded */

#endif
