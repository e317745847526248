/* engine_sampler.h: what engine_sampler requires of a compiled backend.
 *
 * A backend is a shared library that exports one function, `es_get_api`. It returns a table of functions;
 * everything else follows from the table. Our own CPU kernels are the first library behind this header. A
 * vendor's NPU or GPU library is written the same way: plugins/toy-vendor is one for the host's memory,
 * plugins/sim-device one for a device.
 *
 * Versions. ES_ABI is major << 16 | minor. Within a major version, structs and the table only grow at their
 * end. Every struct begins with its size as its writer knows it; a reader uses a field only if it lies within
 * that size. Elements of an array of structs are that many bytes apart. The host reads an entry of the table
 * only if it lies within `es_api.size` and is not NULL. A library refuses a host of another major version
 * with ES_UNSUPPORTED. The minor version in its table says which parameters it reads: the host runs a row
 * itself in which a step of the program has a newer one that is not neutral.
 *
 * Calls. open → (query → compile)* → run* → close. A context is used by one thread at a time; contexts are
 * independent of each other and may run side by side. A library keeps no state outside its contexts, and
 * keeps no pointer it was given beyond the call, except as `compile` and `run` document. The host keeps
 * everything it passes alive and unchanged until the call has returned. A call leaves the process
 * and its thread as it finds them: current folder, locale, environment, signals, rounding and denormals.
 *
 * Devices. A context belongs to one device, `es_options.device`; the host opens one for each kind of device
 * that its logits come from, and learns there whether the library serves it. On a device other than the
 * host's memory, `es_batch.logits`, `workspace` and `token_ids_on_device` point to its memory, which the
 * host never reads; everything else a library is given lies in the host's memory. A step is then
 *   prepare (once for a shape) → update? → stage_masks? → run → (poll)* → wait,
 * where `run` only queues work on the caller's stream and leaves a ticket: the engine begins its next forward
 * pass on that stream at once, and `wait` gives the host the results. A library waits for the one stream,
 * never for the device, and allocates nothing in `run`. The device that a thread works on belongs to the
 * engine: a library that has to set it puts back what it found.
 *
 * Errors. Every function returns an es_code. The host responds as follows:
 *   ES_UNSUPPORTED  the host's own samplers do this work from now on, noted in `explain()`;
 *   ES_INVALID      an exception: host and library disagree about the contract;
 *   ES_NO_MEMORY    the batch is halved, down to single rows, then the host takes over for this step;
 *   ES_DEVICE       the library is not called again; the host takes over for good;
 *   ES_BUSY         the host takes over for this step; from `poll`: not done yet.
 * `wait` returns what `run` would have returned: after it, too, the host takes over for this step. After
 * ES_DEVICE, contexts are closed; a user may have the library opened again. The host can take over at any
 * call, since inputs are never written and the whole state of a request is in its parameters, its tokens
 * and its notes. Outputs of a failed call are ignored; once it has returned, nothing of it is running any
 * more.
 *
 * Exactness. A library that promises ES_EXACT returns the token that the arithmetic contract (docstring of
 * engine_sampler.arithmetic) prescribes, bit for bit. Other libraries are used only when requested by
 * name.
 */
#ifndef ENGINE_SAMPLER_H
#define ENGINE_SAMPLER_H

#include <stddef.h>
#include <stdint.h>

#define ES_ABI_OF(major, minor) ((uint32_t)(major) << 16 | (uint32_t)(minor))
#define ES_ABI ES_ABI_OF(ES_ABI_MAJOR, ES_ABI_MINOR)

#if defined(_WIN32)
#define ES_EXPORT __declspec(dllexport)
#else
#define ES_EXPORT __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* The text between the two marks is also the host's cffi definition: plain declarations only. */
/* cdef: begin */

enum { ES_ABI_MAJOR = 2, ES_ABI_MINOR = 1 };

typedef enum es_code {
    ES_OK = 0,
    ES_UNSUPPORTED = 1,
    ES_INVALID = 2,
    ES_NO_MEMORY = 3,
    ES_DEVICE = 4,
    ES_BUSY = 5
} es_code;

/* The outcome of one row. A row that is not ES_ROW_OK yields no token; the host runs it again by itself,
 * which also produces the error message. It reads every status, whatever `faults` says; one that is not in
 * this list ends the row's request. */
typedef enum es_row_status {
    ES_ROW_OK = 0,
    ES_ROW_BAD_LOGITS = 1, /* NaN, +inf or a logit above 2^100 */
    ES_ROW_EMPTY = 2,      /* nothing but -inf, as given or after a mask or sampler */
    ES_ROW_BAD_VALUE = 3,  /* a sampler made NaN or +inf */
    ES_ROW_FUNCTION = 4,   /* a row function returned non-zero */
    ES_ROW_DECLINED = 5    /* not this row: unsupported parameters, no memory for its tables */
} es_row_status;

/* Steps of a program. Each means what the sampler of the same name means in engine_sampler. */
typedef enum es_op_kind {
    ES_OP_FUNCTION = 0,     /* es_op.function */
    ES_OP_ALLOWED_TOKEN_IDS = 1,
    ES_OP_BAD_WORDS = 2,
    ES_OP_IGNORE_EOS = 3,
    ES_OP_MIN_TOKENS = 4,
    ES_OP_LOGIT_BIAS = 5,
    ES_OP_PENALTIES = 6,
    ES_OP_NO_REPEAT_NGRAM = 7,
    ES_OP_DRY = 8,
    ES_OP_TOP_N_SIGMA = 9,
    ES_OP_TOP_K = 10,
    ES_OP_TOP_A = 11,
    ES_OP_TFS = 12,
    ES_OP_TYPICAL_P = 13,
    ES_OP_TOP_P = 14,
    ES_OP_MIN_P = 15,
    ES_OP_EPSILON_CUTOFF = 16,
    ES_OP_ETA_CUTOFF = 17,
    ES_OP_TOP_H = 18,
    ES_OP_XTC = 19,
    ES_OP_SMOOTHING = 20,
    ES_OP_TEMPERATURE = 21, /* below 1e-4: only the best token is left */
    ES_OP_INFILL = 22,
    ES_OP_P_LESS = 23,
    ES_OP_MIN_K = 24,
    /* selectors: the last step, at most one */
    ES_OP_GREEDY = 64,
    ES_OP_DIST = 65,
    ES_OP_MIROSTAT = 66,
    ES_OP_MIROSTAT_V2 = 67,
    ES_OP_ADAPTIVE_P = 68
} es_op_kind;

typedef enum es_promise {
    ES_EXACT = 1,           /* tokens equal those of the arithmetic contract */
    ES_DETERMINISTIC = 2,   /* the same call twice gives the same tokens */
    ES_BATCH_INVARIANT = 4, /* a row's token depends on that row alone */
    ES_READS_ONLY = 8,      /* logits are never written; they may be read-only or overlap */
    ES_ANY_STRIDE = 16,     /* rows may be any distance apart: padded, 0, negative */
    ES_ROW_FAULTS = 32,     /* a bad row gets its status, the others get their tokens */
    ES_MASKS = 64,          /* es_batch.bitmask is honoured */
    ES_PROCESSED = 128,     /* es_batch.processed is honoured */
    ES_LOGPROBS = 256,      /* es_batch.logprobs is honoured */
    ES_SURVIVORS = 512,     /* es_batch.survivors is honoured */
    ES_ON_DEVICE = 1024     /* es_batch.token_ids_on_device is honoured */
} es_promise;

/* Which of several equal logits a cut keeps (es_answer.ties). After a program of top_k and min_p alone that
 * keeps them all, the host cuts again: there, ES_EXACT asks of the survivors only that no token is missing,
 * and that logits are as given. (Other cuts depend on the weight of what has been removed.) */
typedef enum es_ties {
    ES_TIES_BY_ID = 0, /* those with the lowest ids, as the arithmetic contract has it */
    ES_TIES_KEPT = 1,  /* all that equal the last one kept */
    ES_TIES_ANY = 2    /* not said: never with ES_EXACT */
} es_ties;

/* Random numbers that the host computes for a library which cannot do so itself (es_answer.random). They
 * follow from a request's seed and position, so that draws can be repeated in any batch. With `bits` the 64
 * random bits of the arithmetic contract (stream 0), u = ((bits >> 41) + 0.5) · 2^-23, which float32 holds
 * exactly and which is neither 0 nor 1. */
typedef enum es_random {
    ES_RANDOM_NONE = 0,       /* none are needed */
    ES_RANDOM_BITS = 1,       /* uint64_t [n]: the bits that draw the token */
    ES_RANDOM_UNIFORM = 2,    /* float [n]: their u */
    ES_RANDOM_EXPONENTIAL = 3 /* float [n, random_width]: -ln(u) of bits number 0, 1, … of the row */
} es_random;

typedef enum es_memory {
    ES_MEMORY_DEVICE = 0, /* of the context's device */
    ES_MEMORY_PINNED = 1  /* of the host, from which the device copies without a detour */
} es_memory;

/* A device as DLPack names it: 1 CPU, 2 CUDA, 8 Metal, 10 ROCm, 12 others (NPUs), 14 oneAPI. */
typedef struct es_device {
    int32_t type;
    int32_t id;
} es_device;

/* The distributions that logprobs are taken from, as bits. */
typedef enum es_logprobs_kind {
    ES_LOGPROBS_RAW = 1,       /* the logits as given */
    ES_LOGPROBS_PENALIZED = 2, /* after masks, biases and penalties: es_batch.edits */
    ES_LOGPROBS_PROCESSED = 4  /* after the whole program */
} es_logprobs_kind;

/* DLPack's DLTensor, field by field. */
typedef struct es_tensor {
    void *data;
    int32_t device_type; /* 1 CPU, 2 CUDA, ... as in DLPack */
    int32_t device_id;
    int32_t ndim;
    uint8_t code;        /* 2 IEEE float, 4 bfloat16 */
    uint8_t bits;        /* 32 or 16 */
    uint16_t lanes;      /* 1 */
    int64_t *shape;
    int64_t *strides;    /* in elements; NULL = compact */
    uint64_t byte_offset;
} es_tensor;

typedef struct es_ids {
    const int64_t *ids; /* ascending, without duplicates */
    int64_t n;
} es_ids;

/* N token sequences end to end: sequence i is tokens[ends[i - 1] .. ends[i]).. */
typedef struct es_sequences {
    const int64_t *tokens;
    const int64_t *ends;
    int64_t n;
} es_sequences;

/* The parameters of one request, written when it joins and constant while its epoch is; for free slots,
 * only the size is set. Parameters that were not given are neutral; defaults and formulas are those of
 * engine_sampler's samplers. */
typedef struct es_params {
    uint32_t size;
    int32_t top_p_cut;  /* 0 reach, 1 exceed, 2 below */
    int32_t tfs_cut;    /* 0 llama.cpp, 1 koboldai */
    int32_t forced_end; /* 1 + the token that infill may force, 0 none */
    double temperature, dynatemp_range, dynatemp_exponent;
    double smoothing_factor, smoothing_curve;
    double top_p, min_p, typical_p, tfs, top_a, top_h, top_n_sigma;
    double epsilon_cutoff, eta_cutoff;
    double xtc_probability, xtc_threshold;
    double repetition_penalty, repetition_penalty_slope;
    double frequency_penalty, presence_penalty;
    double dry_multiplier, dry_base;
    double mirostat_tau, mirostat_eta;
    double adaptive_target, adaptive_decay;
    int64_t top_k, min_keep, min_tokens;
    int64_t dry_allowed_length, dry_penalty_last_n, no_repeat_ngram_size;
    /* Windows of the penalties: the newest `reach` tokens (-1 all, 0 none), of the output alone or of prompt
     * and output. `repetition` applies to the factor, `counting` to frequency and presence. */
    int64_t repetition_reach, counting_reach;
    int32_t repetition_output_only, counting_output_only;
    es_ids penalty_exempt;   /* tokens exempt from the penalties */
    es_ids allowed_token_ids;
    es_ids eos_token_ids;    /* what ignore_eos removes */
    es_ids ending_token_ids; /* what min_tokens removes */
    es_ids biased_token_ids;
    const float *biases;     /* [biased_token_ids.n] */
    es_sequences bad_words;
    /* DRY's breakers, ordered by first token ascending, longest first. heads[token]: 0 none, 1 some sequence
     * begins with the token, 3 the token is also a breaker by itself. NULL without breakers. */
    es_sequences breakers;
    const uint8_t *breaker_heads;
    /* Text of the vocabulary for infill: token t is text[text_ends[t - 1] .. text_ends[t]). */
    const uint8_t *text;
    const int64_t *text_ends;
    es_ids text_end_token_ids;
    /* Since ABI 2.1. */
    /* Over how many tokens, less one, at the old end of a window that has one its penalties fade; 0: they do
     * not. The window's `reach` includes them. With a repetition_penalty_slope, repetition does not fade. */
    int64_t penalty_decay_range;
    double min_k_tau;
    int32_t p_less_norm; /* 1: the norm form of p_less */
    int32_t reserved;
} es_params;

/* Every live request of a host's scheduler, by slot. Arrays may move between calls. A request's tokens are
 * tokens[offsets[slot] .. + lengths[slot]), the prompt first. `notes` parallels the tokens: what the selector
 * noted when it drew the token, NaN for output that was chosen elsewhere, anything for the prompt. Tokens and
 * notes of a slot only grow while epochs[slot] is unchanged; a library may keep tables derived from them
 * until it changes. */
typedef struct es_table {
    uint32_t size;
    int32_t capacity;
    const es_params *params;
    const uint64_t *seeds;
    const int64_t *positions; /* the index of the token being drawn, for the random numbers */
    const int64_t *offsets;
    const int64_t *lengths;
    const int64_t *prompt_lengths;
    const uint64_t *epochs;   /* never reused for another request */
    const int64_t *tokens;
    const double *notes;
} es_table;

/* What a row function may know about its row. */
typedef struct es_row {
    uint32_t size;
    uint32_t stream;          /* the sampler's random stream */
    int64_t row;              /* of the logits */
    int64_t slot;
    int64_t vocab_size;
    uint64_t seed;
    int64_t position;
    const int64_t *token_ids; /* prompt and output */
    int64_t length;
    int64_t prompt_length;
    const double *values;     /* the sampler's parameters in declared order, numbers and bools */
    uint64_t (*draw)(const struct es_row *row, uint32_t index); /* 64 random bits */
    void *user;               /* es_op.user */
} es_row;

/* A third party's sampler: changes logits[0..n) in place; -inf removes a token. ids are the tokens,
 * ascending; NULL if logits[i] is token i. It is re-entrant, keeps no pointer and takes randomness from
 * row->draw alone. It returns 0, or anything else on failure: the host then calls the sampler's Python class,
 * and the request ends if that fails too. */
typedef int32_t (*es_row_function)(const es_row *row, float *logits, const int32_t *ids, int64_t n,
                                   void *state);

typedef struct es_op {
    uint32_t size;
    int32_t kind; /* es_op_kind */
    uint32_t stream;
    int32_t n_values;
    const char *name;
    /* For ES_OP_FUNCTION. `values` and `states` point to cells in which the host stores arrays by slot:
     * (*values)[slot * n_values ..], (*states)[slot]. `states` may be NULL. The cells, and `user`, live as
     * long as the program. */
    es_row_function function;
    const double *const *values;
    void *const *const *states;
    void *user;
} es_op;

typedef struct es_program {
    uint32_t size;
    int32_t n_ops;
    const es_op *ops; /* samplers in order, then at most one selector */
} es_program;

typedef struct es_query {
    uint32_t size;
    int32_t masked;            /* some rows have a bitmask */
    const es_program *program; /* NULL: the library as a whole */
    int64_t vocab_size;
    int64_t rows;
    uint8_t code, bits;        /* of the logits, as in es_tensor */
    uint16_t reserved;
} es_query;

/* What a library promises for a program, and its limits: the host keeps away from it whatever is beyond them.
 * All fields are 0 when it is called. */
typedef struct es_answer {
    uint32_t size;
    uint32_t promises;     /* es_promise bits */
    int64_t max_rows;      /* per run; 0 = any, never less */
    int64_t max_top_k;     /* of a row; 0 = any, also none at all */
    int64_t alignment;     /* of the rows of logits, in bytes; 0 = whole elements */
    int64_t max_survivors; /* with ES_SURVIVORS: of a row; a row with more is ES_ROW_DECLINED */
    int32_t random;        /* es_random, what the host must compute */
    int32_t ties;          /* es_ties */
    int64_t random_width;  /* how many exponential numbers of a row are read; 0 = vocab_size */
} es_answer;

typedef struct es_options {
    uint32_t size;
    int32_t num_threads; /* 0 = the library's choice */
    const char *isa;     /* instruction set by name, NULL = the best on this machine */
    es_device device;    /* where logits lie; ES_UNSUPPORTED if it is not served */
    char *why;           /* [why_bytes], or NULL: where `open` may say in words why it refuses */
    int64_t why_bytes;
} es_options;

/* What a plan is for: runs of at most `rows` rows of these programs, whose logits have this form. */
typedef struct es_shape {
    uint32_t size;
    int32_t masked;           /* some rows have a bitmask */
    int64_t rows;
    int64_t vocab_size;
    int64_t stride;           /* from row to row of the logits, in elements */
    uint8_t code, bits;       /* of the logits, as in es_tensor */
    uint16_t reserved;
    uint32_t wants;           /* es_promise bits: what is asked for beside tokens */
    const uint32_t *programs; /* [n_programs], their numbers */
    int64_t n_programs;
    int64_t most_top_k;       /* no row has a greater top_k; 0: some may have none */
    int64_t most_logprobs;    /* no row wants more of the likeliest tokens; -1: some may want all */
} es_shape;

/* Memory that every run of a plan is given, at the same addresses until the plan is released. At most one
 * run of a plan is open. Memory of the host that a library has not allocated itself is aligned to 64 bytes.
 * */
typedef struct es_plan {
    uint32_t size;
    uint32_t number;         /* for es_batch.plan, from 1 */
    int64_t workspace_bytes; /* of the device */
    int64_t pinned_bytes;    /* of the host */
} es_plan;

/* How requests have changed since the last call of `update`, for libraries that keep counts and histories
 * near the logits. Entry i concerns slot slots[i]; what it holds now is in the table. */
typedef enum es_change {
    ES_JOINED = 0,     /* another request, with its prompt */
    ES_LEFT = 1,       /* none any more */
    ES_GREW = 2,       /* tokens from befores[i] on are new */
    ES_ROLLED_BACK = 3 /* tokens from befores[i] on may be others, and so may its parameters */
} es_change;

typedef struct es_changes {
    uint32_t size;
    int32_t n;
    const es_table *table;
    int64_t vocab_size;
    const int32_t *slots;   /* each at most once */
    const int32_t *kinds;   /* es_change */
    const int64_t *befores; /* how many of the request's tokens are as they were */
} es_changes;

/* Grammar masks: row rows[i] of `bitmask`, as in es_batch, for each i of n. */
typedef struct es_masks {
    uint32_t size;
    int32_t n;
    const int64_t *rows;
    const int32_t *bitmask;
    int64_t bitmask_stride; /* in words */
    int64_t total;          /* the number of rows that a step will have */
    int64_t vocab_size;
} es_masks;

/* Where the tokens go that a program without a selector has left of each row: entry i of the batch has
 * counts[i] of them, at [i * width ..], ids ascending. */
typedef struct es_survivors {
    uint32_t size;
    uint32_t reserved;
    int64_t width;      /* at least the program's max_survivors, or vocab_size if that is less */
    int64_t *counts;    /* [n] */
    int64_t *token_ids; /* [n, width] */
    float *logits;      /* [n, width] */
} es_survivors;

/* Where logprobs of one kind go. The entries of row r of the logits are starts[r] .. starts[r + 1]: the drawn
 * token, then the likeliest in (logit descending, id ascending) order. ln(p) is a token's logit minus
 * ln(sum of exp), computed as the arithmetic contract defines it. Raw and penalized lists end with removed
 * tokens, by id, at -inf; processed ones leave them out. Entries that a row does not have are left as they
 * are. */
typedef struct es_logprobs {
    uint32_t size;
    uint32_t reserved;
    const int64_t *starts; /* [rows + 1], ascending; room for 1 + the row's top_n */
    int64_t *token_ids;    /* [starts[rows]] */
    float *logprobs;       /* [starts[rows]] */
    int64_t *ranks;        /* [rows], of the drawn token, from 1 */
} es_logprobs;

/* One step. Entry i of n is row rows[i] of the logits, request slots[i], program programs[i]. */
typedef struct es_batch {
    uint32_t size;
    int32_t n;
    es_tensor logits;       /* [rows, at least vocab_size] */
    int64_t vocab_size;
    const es_table *table;
    const int64_t *rows;
    const int32_t *slots;   /* each at most once */
    const uint32_t *programs;
    const uint8_t *masked;  /* [n], or NULL: no row is masked */
    const int32_t *bitmask; /* row rows[i]: bit t % 32 of word t / 32 = token t allowed */
    int64_t bitmask_stride; /* in words */
    /* [n] or NULL: where row i goes after its last sampler, float32 [vocab_size], -inf = removed;
     * NULL = not wanted. */
    float *const *processed;
    int64_t *token_ids; /* out, by row of the logits; -1 without a selector */
    double *notes;      /* out, by row of the logits; NaN if there is none */
    int32_t *status;    /* out [n], es_row_status */
    int64_t faults;     /* out: how many rows are not ES_ROW_OK */
    /* Logprobs are reported for rows that are ES_ROW_OK and have a selector. */
    const es_logprobs *logprobs;   /* [3]: raw, penalized, processed; NULL: none are wanted */
    const uint8_t *logprobs_kinds; /* [n], es_logprobs_kind bits */
    const int64_t *top_n;          /* [n], how many of the likeliest tokens; -1 = all */
    const uint32_t *edits;         /* [n], for penalized ones: masks, biases, penalties alone */
    const void *random;            /* as es_answer.random of the programs asks; NULL if none does */
    const es_survivors *survivors; /* or NULL */
    /* From here on for devices; NULL or 0 in the host's memory. */
    void *stream;    /* the caller's, in the device's own type; NULL = its default stream */
    void *ready;     /* an event that the work must wait for, or NULL */
    uint32_t plan;   /* a number that `prepare` gave, for at least n rows; 0 without `prepare` */
    uint32_t reserved;
    void *workspace; /* of the plan */
    void *pinned;    /* of the plan */
    /* Out, by row of the logits, for the rows of the batch, in the order of the stream; anything for a row
     * whose status is not ES_ROW_OK. NULL = not wanted. */
    int64_t *token_ids_on_device;
    /* A number that `stage_masks` gave, 0 without any: the masks of the step are on the device already, all
     * but those of the rows `changed`. */
    uint64_t masks;
    const int64_t *changed; /* [n_changed], rows of `bitmask` that have been filled since */
    int64_t n_changed;
    uint64_t ticket; /* out: what `wait` takes; 0 = all is done */
} es_batch;

/* What a library decides by bounds of a row's weights, and what they leave open. */
typedef struct es_decisions {
    uint32_t size;
    uint32_t reserved;
    int64_t certain; /* draws and cuts that bounds decided: the row was read once */
    int64_t weighed; /* those that they left open, so that the whole row was weighed */
} es_decisions;

typedef struct es_context es_context;

typedef struct es_api {
    uint32_t size;
    uint32_t abi;
    const char *name; /* UTF-8, as all texts are; none is NULL */
    const char *version;
    int32_t (*open)(const es_options *options, es_context **context);
    void (*close)(es_context *context);
    /* The last error of this context as a message; "" if there was none. */
    const char *(*error)(const es_context *context);
    /* Whether the library can run `query->program` under these conditions, and what it promises for it. */
    int32_t (*query)(es_context *context, const es_query *query, es_answer *answer);
    /* Assign a program its number for es_batch.programs. The library copies the program; the cells and `user`
     * of its functions still belong to the host. */
    int32_t (*compile)(es_context *context, const es_program *program, uint32_t *number);
    /* One step. With a ticket, `batch` itself, its logits, masks, workspace and all outputs stay as they
     * are until `wait` has returned, or `poll` other than ES_BUSY; everything else may change once `run`
     * has returned. */
    int32_t (*run)(es_context *context, es_batch *batch);
    /* Optional from here on: may be NULL. */
    /* Until the step of a ticket is done, and its outputs in the host's memory are written: its code. Several
     * tickets may be open; they end in any order, each with one `wait`, or one `poll` that is not ES_BUSY.
     * Without this function, `run` returns when all is done. */
    int32_t (*wait)(es_context *context, uint64_t ticket);
    /* The same at once: ES_BUSY while it is not done, which `wait` never returns. */
    int32_t (*poll)(es_context *context, uint64_t ticket);
    /* Plan runs of a shape: what they need, which the host then gives to every run. Required of libraries
     * that need memory on a device; `release` ends a plan none of whose runs is open, and `close` all. */
    int32_t (*prepare)(es_context *context, const es_shape *shape, es_plan *plan);
    int32_t (*release)(es_context *context, uint32_t plan);
    /* Memory for plans and outputs, where the engine has no pool of its own: aligned as the device wants it.
     * Never called between `run` and `wait` of one step. All is given back before `close`. */
    int32_t (*allocate)(es_context *context, int32_t memory, int64_t bytes, void **out);
    int32_t (*deallocate)(es_context *context, int32_t memory, void *pointer);
    /* Called in each thread of the host before its first other call, but for `open` and `close`. */
    int32_t (*enter_thread)(es_context *context);
    /* Before `run`: what has happened to the requests of the table. What is not taken is told again. */
    int32_t (*update)(es_context *context, const es_changes *changes);
    /* Start to copy grammar masks to the device, for the next step: `bitmask` may change after the call. The
     * number is for one es_batch.masks, and is void after the next call. */
    int32_t (*stage_masks)(es_context *context, const es_masks *masks, uint64_t *number);
    /* Copy the rows rows[0..n) of logits on the device to `out`, in the logits' type, each with all
     * logits->shape[1] elements, once `stream` is there: for what the host runs itself. Returns when it is
     * done. */
    int32_t (*read_rows)(es_context *context, const es_tensor *logits, const int64_t *rows, int64_t n,
                         void *stream, void *out);
    /* The name of the instruction set or device in use. */
    const char *(*target)(const es_context *context);
    /* Read rows rows[0..n) once and return the greatest logit of each: the minimum cost of any sampling. */
    int32_t (*maxima)(es_context *context, const es_tensor *logits, int64_t vocab_size, const int64_t *rows,
                      int64_t n, float *out);
    /* ln of the sum of exp over each row, as the arithmetic contract defines it. */
    int32_t (*log_sums)(es_context *context, const es_tensor *logits, int64_t vocab_size, const int64_t *rows,
                        int64_t n, double *out);
    /* The logprobs of token token_ids[i] in row i of the logits, and of the top_n likeliest
     * (-1 = all). Rows with bad logits, or nothing but -inf, get rank 0 and are otherwise left as they are.
     * */
    int32_t (*logprobs)(es_context *context, const es_tensor *logits, int64_t vocab_size,
                        const int64_t *token_ids, int64_t top_n, const es_logprobs *out);
    /* Copy bytes between the host and memory that `allocate` gave: to the device if `to_device`, else from
     * it. Returns when it is done. For `engine-sampler check`, which puts its logits there. */
    int32_t (*copy)(es_context *context, void *to, const void *from, int64_t bytes, int32_t to_device,
                    void *stream);
    /* How often bounds of weights were tried for rows of a program, or of all (UINT32_MAX), and with what success,
     * since the program was compiled. */
    int32_t (*decisions)(es_context *context, uint32_t program, es_decisions *out);
} es_api;

/* cdef: end */

/* The only exported symbol. host_abi is the host's ES_ABI. Returns ES_OK and the table, which lives as long
 * as the library is loaded, or ES_UNSUPPORTED. */
ES_EXPORT int32_t es_get_api(uint32_t host_abi, const es_api **api);

#ifdef __cplusplus
}
#endif
#endif
