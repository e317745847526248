/* The table behind `es_get_api`: contexts, programs, and a step over the rows of a batch. */
#include "internal.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#if defined(__SSE__)
#include <xmmintrin.h>
#endif

#include "operations.h"

#ifndef ES_VERSION
#define ES_VERSION "0"
#endif

enum {
    ES_ALL_PROMISES = ES_EXACT | ES_DETERMINISTIC | ES_BATCH_INVARIANT | ES_READS_ONLY | ES_ANY_STRIDE |
        ES_ROW_FAULTS | ES_MASKS | ES_PROCESSED | ES_LOGPROBS,
    ES_MOST_THREADS = 256,
    ES_WORTH_THREADS = 1 << 19 /* logits per step; below, waking a worker costs more than it saves */
};

struct es_context {
    const es_kernels *kernels;
    es_pool *pool;
    int32_t threads;
    es_scratch *scratch;   /* [threads] */
    es_history *histories; /* [capacity], by slot */
    int32_t capacity;
    es_compiled *programs;
    uint32_t n_programs, program_capacity;
    char error[200];
};

static int32_t fail(es_context *context, int32_t code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

static int32_t fail(es_context *context, int32_t code, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(context->error, sizeof context->error, format, arguments);
    va_end(arguments);
    return code;
}

/* --- the floating-point environment --- */

/* Denormals count: whatever the host process has set, rows are computed in full IEEE arithmetic. */
static uint64_t enter_ieee(void) {
#if defined(__SSE__)
    const uint32_t before = _mm_getcsr();
    _mm_setcsr(0x1F80);
    return before;
#elif defined(__aarch64__)
    uint64_t before;
    __asm__ volatile("mrs %0, fpcr" : "=r"(before));
    __asm__ volatile("msr fpcr, %0" : : "r"((uint64_t)0));
    return before;
#else
    return 0;
#endif
}

static void leave_ieee(uint64_t before) {
#if defined(__SSE__)
    _mm_setcsr((uint32_t)before);
#elif defined(__aarch64__)
    __asm__ volatile("msr fpcr, %0" : : "r"(before));
#else
    (void)before;
#endif
}

/* --- memory --- */

/* Hands out parts of one block; without a block it only adds up the size required. */
typedef struct es_arena {
    char *block;
    size_t used;
} es_arena;

static void *part(es_arena *arena, size_t bytes) {
    void *p = arena->block ? arena->block + arena->used : NULL;
    arena->used += (bytes + 63) / 64 * 64;
    return p;
}

static size_t lay_out(es_scratch *s, char *block, int64_t vocab_size) {
    es_arena arena = {block, 0};
    const size_t chunks = (size_t)(vocab_size + ES_CHUNK - 1) / ES_CHUNK;
    const size_t n = chunks * ES_CHUNK + ES_SLACK;
    s->maxima = part(&arena, (chunks + ES_SLACK) * sizeof *s->maxima);
    s->sums = part(&arena, (chunks + ES_SLACK) * sizeof *s->sums);
    s->edit_starts = part(&arena, (chunks + 1) * sizeof *s->edit_starts);
    s->loose = part(&arena, chunks);
    for (int k = 0; k < 2; k++) {
        s->values[k] = part(&arena, n * sizeof(float));
        s->ids[k] = part(&arena, n * sizeof(int32_t));
        s->edit_ids[k] = part(&arena, n * sizeof(int32_t));
        s->edit_values[k] = part(&arena, n * sizeof(float));
    }
    s->weights = part(&arena, n * sizeof *s->weights);
    s->keys = part(&arena, n * sizeof *s->keys);
    s->more_keys = part(&arena, n * sizeof *s->more_keys);
    s->old_values = part(&arena, n * sizeof *s->old_values);
    s->new_values = part(&arena, n * sizeof *s->new_values);
    s->information = part(&arena, n * sizeof *s->information);
    s->near_keys = part(&arena, n * sizeof *s->near_keys);
    s->near_weights = part(&arena, n * sizeof *s->near_weights);
    s->near_information = part(&arena, n * sizeof *s->near_information);
    s->wide_weights = part(&arena, n * sizeof *s->wide_weights);
    s->marks.mark = part(&arena, n * sizeof *s->marks.mark);
    s->marks.ids = part(&arena, n * sizeof *s->marks.ids);
    s->marks.lengths = part(&arena, n * sizeof *s->marks.lengths);
    s->shares = part(&arena, (chunks + ES_SLACK) * sizeof *s->shares);
    s->bits = part(&arena, (chunks + ES_SLACK) * sizeof *s->bits);
    s->masses = part(&arena, (chunks + ES_SLACK) * sizeof *s->masses);
    s->marks.vocab_size = vocab_size;
    return arena.used;
}

/* Free what belongs to rows of one width. */
static void free_rows(es_scratch *s) {
    es_infill_free(&s->infill);
    free(s->block);
    *s = (es_scratch){.decisions = s->decisions, .n_decisions = s->n_decisions};
}

static void free_scratch(es_scratch *s) {
    free_rows(s);
    free(s->decisions);
}

/* Make room for the decisions of `programs` programs. */
static int grow_decisions(es_scratch *s, uint32_t programs) {
    if (programs <= s->n_decisions) return 0;
    es_counted *grown = realloc(s->decisions, programs * sizeof *grown);
    if (!grown) return -1;
    memset(grown + s->n_decisions, 0, (programs - s->n_decisions) * sizeof *grown);
    s->decisions = grown;
    s->n_decisions = programs;
    return 0;
}

/* Make room for rows of `vocab_size` tokens. The block is zeroed, and most of it is never touched. */
static int grow_scratch(es_scratch *s, int64_t vocab_size) {
    if (s->vocab_size >= vocab_size) {
        s->marks.vocab_size = vocab_size;
        return 0;
    }
    free_rows(s);
    char *block = calloc(1, lay_out(s, NULL, vocab_size) + 64);
    if (!block) return -1;
    s->block = block;
    lay_out(s, block + (64 - (uintptr_t)block % 64) % 64, vocab_size);
    s->vocab_size = vocab_size;
    return 0;
}

static int grow_histories(es_context *context, int32_t capacity) {
    if (capacity <= context->capacity) return 0;
    es_history *grown = realloc(context->histories, (size_t)capacity * sizeof *grown);
    if (!grown) return -1;
    memset(grown + context->capacity, 0, (size_t)(capacity - context->capacity) * sizeof *grown);
    context->histories = grown;
    context->capacity = capacity;
    return 0;
}

/* --- contexts --- */

static void close_context(es_context *context) {
    if (!context) return;
    es_pool_free(context->pool);
    for (int32_t i = 0; i < context->threads && context->scratch; i++) free_scratch(&context->scratch[i]);
    for (int32_t i = 0; i < context->capacity; i++) es_history_free(&context->histories[i]);
    free(context->scratch);
    free(context->histories);
    free(context->programs);
    free(context);
}

/* Whether a device of DLPack's number `type` has the host's memory: the host itself, or pinned memory. */
static int is_in_host_memory(int32_t type) { return type == 1 || type == 3; }

static int32_t open_context(const es_options *options, es_context **out) {
    if (!out) return ES_INVALID;
    *out = NULL;
    if (options && (options->size < sizeof *options || options->num_threads < 0)) return ES_INVALID;
    if (options && !is_in_host_memory(options->device.type)) return ES_UNSUPPORTED;
    const es_kernels *kernels = es_choose_kernels(options ? options->isa : NULL);
    if (!kernels) return ES_UNSUPPORTED;
    es_context *context = calloc(1, sizeof *context);
    if (!context) return ES_NO_MEMORY;
    context->kernels = kernels;
    context->threads = options && options->num_threads ? options->num_threads : 1;
    if (context->threads > ES_MOST_THREADS) context->threads = ES_MOST_THREADS;
    context->scratch = calloc((size_t)context->threads, sizeof *context->scratch);
    context->pool = es_pool_new(context->threads);
    if (!context->scratch || !context->pool) {
        close_context(context);
        return ES_NO_MEMORY;
    }
    *out = context;
    return ES_OK;
}

static const char *context_error(const es_context *context) { return context ? context->error : ""; }

static const char *context_target(const es_context *context) { return context->kernels->name; }

/* --- programs --- */

static const es_op *op_at(const es_program *program, int32_t i) {
    return (const es_op *)((const char *)program->ops + (size_t)i * program->ops->size);
}

/* Copy a program if this library can run it. */
static int32_t read_program(es_context *context, const es_program *program, es_compiled *out) {
    if (!program || program->size < sizeof *program || program->n_ops < 0 ||
        (program->n_ops && !program->ops))
        return fail(context, ES_INVALID, "invalid program");
    if (program->n_ops && program->ops->size < sizeof(es_op))
        return fail(context, ES_INVALID, "an op of %u bytes is too short", program->ops->size);
    if (program->n_ops > ES_MAX_OPS)
        return fail(context, ES_UNSUPPORTED, "%d ops exceed the limit of %d", program->n_ops, ES_MAX_OPS);
    *out = (es_compiled){.selector = -1};
    for (int32_t i = 0; i < program->n_ops; i++) {
        const es_op *op = op_at(program, i);
        const int last = i == program->n_ops - 1;
        if (!es_is_sampler(op->kind) && !(last && es_is_selector(op->kind)))
            return fail(context, ES_UNSUPPORTED, "op %d is of kind %d, which is not allowed there", i,
                        op->kind);
        if (op->kind == ES_OP_FUNCTION && !op->function)
            return fail(context, ES_INVALID, "op %d has no function", i);
        out->needs |= es_operation_of(op->kind).needs;
        if (es_is_selector(op->kind)) out->selector = op->kind;
        else out->ops[out->n_ops++] = *op;
    }
    return ES_OK;
}

static int32_t check_type(es_context *context, uint8_t code, uint8_t bits, uint16_t lanes) {
    if (!((code == 2 && (bits == 32 || bits == 16)) || (code == 4 && bits == 16)) || lanes != 1)
        return fail(context, ES_UNSUPPORTED, "unsupported logits: code %u, %u bits, %u lanes", code, bits,
                    lanes);
    return ES_OK;
}

static int32_t query(es_context *context, const es_query *query, es_answer *answer) {
    if (!context) return ES_INVALID;
    if (!query || !answer || query->size < sizeof *query || answer->size < sizeof *answer)
        return fail(context, ES_INVALID, "invalid query or answer");
    int32_t code = check_type(context, query->code, query->bits, 1);
    es_compiled ignored;
    if (code == ES_OK && query->program) code = read_program(context, query->program, &ignored);
    if (code != ES_OK) return code;
    answer->promises = ES_ALL_PROMISES;
    answer->max_rows = 0;
    return ES_OK;
}

static int32_t compile(es_context *context, const es_program *program, uint32_t *number) {
    if (!context) return ES_INVALID;
    if (!number) return fail(context, ES_INVALID, "nowhere to store the program's number");
    if (context->n_programs == context->program_capacity) {
        const uint32_t capacity = context->program_capacity ? 2 * context->program_capacity : 8;
        es_compiled *grown = realloc(context->programs, capacity * sizeof *grown);
        if (!grown) return fail(context, ES_NO_MEMORY, "no memory for a program");
        context->programs = grown;
        context->program_capacity = capacity;
    }
    const int32_t code = read_program(context, program, &context->programs[context->n_programs]);
    if (code == ES_OK) *number = context->n_programs++;
    return code;
}

/* --- steps --- */

static int32_t check_logits(es_context *context, const es_tensor *t, int64_t vocab_size) {
    if (!is_in_host_memory(t->device_type))
        return fail(context, ES_UNSUPPORTED, "unsupported device type %d of the logits", t->device_type);
    const int32_t code = check_type(context, t->code, t->bits, t->lanes);
    if (code != ES_OK) return code;
    if (t->ndim != 2 || !t->shape || (!t->data && t->shape[0] > 0) || t->shape[0] < 0)
        return fail(context, ES_INVALID, "the logits are not a matrix");
    if (vocab_size < 1 || vocab_size > INT32_MAX - ES_CHUNK || t->shape[1] < vocab_size)
        return fail(context, ES_INVALID, "a vocabulary of %lld tokens in logits of width %lld",
                    (long long)vocab_size, (long long)t->shape[1]);
    if (t->strides && t->strides[1] != 1 && t->shape[1] > 1)
        return fail(context, ES_INVALID, "the columns of the logits are %lld elements apart",
                    (long long)t->strides[1]);
    return ES_OK;
}

static int32_t check_batch(es_context *context, const es_batch *b) {
    if (!b || b->size < sizeof *b || b->n < 0) return fail(context, ES_INVALID, "invalid batch");
    const es_table *table = b->table;
    if (!table || table->size < sizeof *table || table->capacity < 0)
        return fail(context, ES_INVALID, "invalid table");
    if (b->n && (!b->rows || !b->slots || !b->programs || !b->token_ids || !b->notes || !b->status))
        return fail(context, ES_INVALID, "an array of the batch is missing");
    if (b->n && (!table->params || !table->seeds || !table->positions || !table->offsets || !table->lengths ||
                 !table->prompt_lengths || !table->epochs || !table->tokens || !table->notes))
        return fail(context, ES_INVALID, "an array of the table is missing");
    if (b->n && table->params->size < sizeof(es_params))
        return fail(context, ES_INVALID, "parameters of %u bytes are too short", table->params->size);
    const int32_t code = check_logits(context, &b->logits, b->vocab_size);
    if (code != ES_OK) return code;
    for (int32_t i = 0; i < b->n; i++) {
        if (b->rows[i] < 0 || b->rows[i] >= b->logits.shape[0])
            return fail(context, ES_INVALID, "entry %d: row %lld of %lld does not exist", i,
                        (long long)b->rows[i], (long long)b->logits.shape[0]);
        if (b->slots[i] < 0 || b->slots[i] >= table->capacity)
            return fail(context, ES_INVALID, "entry %d: slot %d of %d does not exist", i, b->slots[i],
                        table->capacity);
        if (b->programs[i] >= context->n_programs)
            return fail(context, ES_INVALID, "entry %d: program %u of %u does not exist", i, b->programs[i],
                        context->n_programs);
        if (b->masked && b->masked[i] && (!b->bitmask || b->bitmask_stride * 32 < b->vocab_size))
            return fail(context, ES_INVALID, "entry %d: the mask is missing or too short", i);
    }
    return ES_OK;
}

static int32_t check_logprobs(es_context *context, const es_batch *b) {
    if (!b->logprobs) return ES_OK;
    if (b->logprobs->size < sizeof *b->logprobs) return fail(context, ES_INVALID, "invalid logprobs");
    if (b->n && (!b->logprobs_kinds || !b->top_n))
        return fail(context, ES_INVALID, "an array of the logprobs is missing");
    for (int32_t i = 0; i < b->n; i++) {
        if (b->logprobs_kinds[i] & ES_LOGPROBS_PENALIZED && (!b->edits || b->edits[i] >= context->n_programs))
            return fail(context, ES_INVALID, "entry %d: the program of edits does not exist", i);
        const int64_t n = b->top_n[i] < 0 ? b->vocab_size : b->top_n[i];
        for (int kind = 0; kind < 3; kind++) {
            const es_logprobs *out = es_logprobs_of(b, kind);
            if (!(b->logprobs_kinds[i] >> kind & 1)) continue;
            if (!es_has_room(out, b->rows[i], n < b->vocab_size ? n : b->vocab_size))
                return fail(context, ES_INVALID, "entry %d: no room for %lld logprobs", i, (long long)n);
        }
    }
    return ES_OK;
}

typedef struct es_step {
    es_context *context;
    es_batch *batch;
} es_step;

static void do_entry(void *argument, int32_t thread, int64_t entry) {
    const es_step *step = argument;
    es_context *context = step->context;
    es_batch *batch = step->batch;
    const int64_t row = batch->rows[entry];
    const int edited = batch->logprobs && batch->logprobs_kinds[entry] & ES_LOGPROBS_PENALIZED;
    const es_job job = {batch,
                        &context->programs[batch->programs[entry]],
                        edited ? &context->programs[batch->edits[entry]] : NULL,
                        &context->histories[batch->slots[entry]],
                        &context->scratch[thread],
                        &context->scratch[thread].decisions[batch->programs[entry]],
                        (int32_t)entry};
    batch->token_ids[row] = -1;
    batch->notes[row] = __builtin_nan("");
    const uint64_t before = thread ? enter_ieee() : 0;
    batch->status[entry] = context->kernels->run_row(&job);
    if (thread) leave_ieee(before);
}

static int32_t run(es_context *context, es_batch *batch) {
    if (!context) return ES_INVALID;
    const int32_t code = check_batch(context, batch);
    if (code != ES_OK) return code;
    const int32_t logprobs = check_logprobs(context, batch);
    if (logprobs != ES_OK) return logprobs;
    const int alone = context->threads < 2 || batch->n < 2 || batch->n * batch->vocab_size < ES_WORTH_THREADS;
    if (grow_histories(context, batch->table->capacity))
        return fail(context, ES_NO_MEMORY, "no memory for %d slots", batch->table->capacity);
    for (int32_t i = 0; i < (alone ? 1 : context->threads); i++) {
        if (grow_scratch(&context->scratch[i], batch->vocab_size) ||
            grow_decisions(&context->scratch[i], context->n_programs))
            return fail(context, ES_NO_MEMORY, "no memory for rows of %lld tokens",
                        (long long)batch->vocab_size);
        context->scratch[i].newest.history = NULL;
    }
    es_step step = {context, batch};
    const uint64_t before = enter_ieee();
    if (alone)
        for (int32_t i = 0; i < batch->n; i++) do_entry(&step, 0, i);
    else es_pool_run(context->pool, batch->n, do_entry, &step);
    leave_ieee(before);
    batch->faults = 0;
    for (int32_t i = 0; i < batch->n; i++) batch->faults += batch->status[i] != ES_ROW_OK;
    return ES_OK;
}

static int32_t decisions(es_context *context, uint32_t program, es_decisions *out) {
    if (!context) return ES_INVALID;
    if (!out || out->size < sizeof *out) return fail(context, ES_INVALID, "nowhere to store the decisions");
    if (program != UINT32_MAX && program >= context->n_programs)
        return fail(context, ES_INVALID, "program %u of %u does not exist", program, context->n_programs);
    out->certain = out->weighed = 0;
    for (int32_t i = 0; i < context->threads; i++) {
        const es_scratch *const s = &context->scratch[i];
        for (uint32_t k = 0; k < s->n_decisions; k++) {
            if (program != UINT32_MAX && k != program) continue;
            out->certain += s->decisions[k].certain;
            out->weighed += s->decisions[k].weighed;
        }
    }
    return ES_OK;
}

/* --- single passes --- */

static int32_t check_rows(es_context *context, const es_tensor *logits, int64_t vocab_size,
                          const int64_t *rows, int64_t n, const void *out) {
    if (!logits || n < 0 || (n && (!rows || !out)))
        return fail(context, ES_INVALID, "an argument is missing");
    const int32_t code = check_logits(context, logits, vocab_size);
    if (code != ES_OK) return code;
    for (int64_t i = 0; i < n; i++)
        if (rows[i] < 0 || rows[i] >= logits->shape[0])
            return fail(context, ES_INVALID, "row %lld of %lld does not exist", (long long)rows[i],
                        (long long)logits->shape[0]);
    return ES_OK;
}

static int32_t maxima(es_context *context, const es_tensor *logits, int64_t vocab_size, const int64_t *rows,
                      int64_t n, float *out) {
    if (!context) return ES_INVALID;
    const int32_t code = check_rows(context, logits, vocab_size, rows, n, out);
    if (code != ES_OK) return code;
    for (int64_t i = 0; i < n; i++)
        out[i] = context->kernels->greatest(es_row_of(logits, rows[i]), es_kind_of(logits), vocab_size);
    return ES_OK;
}

static int32_t log_sums(es_context *context, const es_tensor *logits, int64_t vocab_size, const int64_t *rows,
                        int64_t n, double *out) {
    if (!context) return ES_INVALID;
    const int32_t code = check_rows(context, logits, vocab_size, rows, n, out);
    if (code != ES_OK) return code;
    const uint64_t before = enter_ieee();
    for (int64_t i = 0; i < n; i++)
        out[i] = context->kernels->log_sum(es_row_of(logits, rows[i]), es_kind_of(logits), vocab_size);
    leave_ieee(before);
    return ES_OK;
}

static int32_t logprobs(es_context *context, const es_tensor *logits, int64_t vocab_size,
                        const int64_t *token_ids, int64_t top_n, const es_logprobs *out) {
    if (!context) return ES_INVALID;
    if (!logits || !out || out->size < sizeof *out)
        return fail(context, ES_INVALID, "an argument is missing");
    const int32_t code = check_logits(context, logits, vocab_size);
    if (code != ES_OK) return code;
    const int64_t rows = logits->shape[0], n = top_n < 0 || top_n > vocab_size ? vocab_size : top_n;
    if (rows && !token_ids) return fail(context, ES_INVALID, "an argument is missing");
    for (int64_t i = 0; i < rows; i++) {
        if (!es_has_room(out, i, n))
            return fail(context, ES_INVALID, "row %lld: no room for %lld logprobs", (long long)i,
                        (long long)n);
        if (token_ids[i] < 0 || token_ids[i] >= vocab_size)
            return fail(context, ES_INVALID, "token %lld of row %lld does not exist", (long long)token_ids[i],
                        (long long)i);
    }
    if (grow_scratch(&context->scratch[0], vocab_size))
        return fail(context, ES_NO_MEMORY, "no memory for rows of %lld tokens", (long long)vocab_size);
    const uint64_t before = enter_ieee();
    for (int64_t i = 0; i < rows; i++) {
        const es_report report = es_report_of(out, i, top_n, 1);
        context->kernels->report(&context->scratch[0], es_row_of(logits, i), es_kind_of(logits), vocab_size,
                                 token_ids[i], &report);
    }
    leave_ieee(before);
    return ES_OK;
}

/* --- the table --- */

static const es_api api = {
    .size = sizeof(es_api),
    .abi = ES_ABI,
    .name = "native",
    .version = ES_VERSION,
    .open = open_context,
    .close = close_context,
    .error = context_error,
    .query = query,
    .compile = compile,
    .run = run,
    .target = context_target,
    .maxima = maxima,
    .log_sums = log_sums,
    .logprobs = logprobs,
    .decisions = decisions,
};

int32_t es_get_api(uint32_t host_abi, const es_api **out) {
    if (!out || host_abi >> 16 != ES_ABI_MAJOR) return ES_UNSUPPORTED;
    *out = &api;
    return ES_OK;
}
