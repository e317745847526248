/* The host's side of one random case: a vocabulary, requests in slots, programs, and steps over them. */
#pragma once

#include "engine_sampler.h"
#include "random.h"

/* Print the seed of the current case and what is wrong with it, and exit. */
_Noreturn void fz_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* Blocks of exactly the requested size, so that a sanitizer detects any access beyond them. */
typedef struct fz_memory {
    struct fz_block {
        void *bytes;
        size_t size;
    } *blocks;
    size_t n;
} fz_memory;

void *fz_new(fz_memory *memory, size_t size);
uint64_t fz_hash_memory(const fz_memory *memory, uint64_t hash);
void fz_free(fz_memory *memory);

enum { FZ_MOST_TOKENS = 3200, FZ_MOST_PROGRAMS = 6, FZ_MOST_OPS = 12 };

typedef struct fz_slot {
    int64_t tokens[FZ_MOST_TOKENS];
    double notes[FZ_MOST_TOKENS];
    int64_t length, prompt_length;
    int64_t alphabet; /* the tokens of its text are below this */
    uint64_t seed, epoch;
} fz_slot;

typedef struct fz_program {
    es_program program;
    const double *values[FZ_MOST_OPS]; /* the cells of its functions */
    void **states[FZ_MOST_OPS];
    int32_t prefix;                    /* how many of its first ops, without its selector, make a prefix */
} fz_program;

typedef struct fz_world {
    fz_random random;
    fz_memory inputs; /* constant for the lifetime of the case */
    int64_t vocab_size;
    int32_t capacity;
    int32_t n_programs;
    int is_wide;      /* its steps are large enough to be shared among threads */
    int is_masked;    /* every row has a mask */
    int is_plain;     /* its programs are those that bounds decide: temperature, top_p and a draw */
    uint64_t epochs;  /* how many were assigned so far */
    fz_slot *slots;
    fz_program programs[FZ_MOST_PROGRAMS];
    char *params;     /* [capacity] es_params, possibly longer than the library knows them */
    size_t params_size;
    const uint8_t *text;
    const int64_t *text_ends;
} fz_world;

/* One step: everything the library reads is in `inputs`. Its batch lacks the outputs. */
typedef struct fz_step {
    fz_memory inputs;
    es_table table;
    es_batch batch;
    int64_t n_rows;
    int64_t shape[2], strides[2];
} fz_step;

/* In worlds whose seed has this bit, every row has a mask, of any density; in others a few rows have one. */
#define FZ_MASKED ((uint64_t)1 << 63)
/* In worlds whose seed has this one, programs are plain. */
#define FZ_PLAIN ((uint64_t)1 << 62)

void fz_world_make(fz_world *world, uint64_t seed);
void fz_world_free(fz_world *world);
void fz_step_make(fz_step *step, fz_world *world);
void fz_step_free(fz_step *step);

/* After a step: requests continue with the tokens they were given, end, or start over. */
void fz_world_advance(fz_world *world, const fz_step *step, const int64_t *token_ids, const double *notes);

/* A context with the world's programs, followed by their prefixes. */
es_context *fz_open(const es_api *api, const char *isa, int32_t threads, const fz_world *world);

/* Give a batch of the step its outputs; bit i of `wanted`: the processed row of entry i as well. */
void fz_add_outputs(es_batch *batch, const fz_step *step, fz_memory *memory, uint64_t wanted);

const es_op *fz_op(const es_program *program, int32_t i);

/* Token t of row `row` as a float, and whether the step's mask allows it for entry i. */
float fz_logit(const fz_step *step, int64_t row, int64_t t);
int fz_allowed(const fz_step *step, int32_t i, int64_t t);

/* One case on one instruction set in which logits change while they are read: no call may crash, hang, or give
 * a token that does not exist. Returns how many rows were run. */
int64_t fz_run_changing(const es_api *api, const char *isa, uint64_t seed);

/* From now on, fail where bounds of weights do not hold, or decide otherwise than the weights themselves. */
void fz_check_bounds(void);

/* Draws and cuts at the edge of the bounds, which must refuse to decide them, and just outside, where they must
 * decide. Returns how many were made. */
int fz_check_edges(const es_api *api, const char *isa);

/* The same cases with bounds much too narrow; returns how often they did not hold. */
int64_t fz_count_narrow(void (*run)(void *argument), void *argument);

/* Calls that break the contract: each must be refused with a message. Returns how many were made. */
int fz_check_refusals(const es_api *api, es_context *context, fz_world *world, const fz_step *step,
                      const es_batch *batch);
/* The same for calls without a context. */
void fz_check_opening(const es_api *api);
