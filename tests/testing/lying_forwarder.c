/* A library that forwards every call to the packaged one, and breaks one law at a time: LIE names which, "" is honest.
 *
 * The packaged library's path is in LIE_NATIVE. What reaches it are copies: of the parameters, of the arrays of the
 * table, of programs, and where a lie needs it, of the logits. A lie changes one thing in them, or in what comes
 * back.
 */
#define _GNU_SOURCE
#include <engine_sampler.h>

#include <dlfcn.h>
#include <fcntl.h>
#include <fenv.h>
#include <locale.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>
#if defined(__SSE__)
#include <xmmintrin.h>
#endif

/* clang-format off */
#define LIES(X) \
    X(function_dropped) X(function_values_of_slot_0) X(function_without_state) X(function_stream_0) \
    X(function_failure_ignored) X(function_without_ids) X(function_without_output) X(repeat_runs_once) \
    X(xtc_stream_0) X(notes_16) X(penalizes_exempt) X(penalty_decay_ignored) X(adaptive_decay_default) X(mirostat_eta_float) \
    X(stale_tables) X(params_by_own_size) X(dynatemp_to_3) X(bfloat16_flushed) X(zeros_differ_in_halves) \
    X(changes_folder) X(changes_locale) X(max_rows_negative) X(name_null) X(flushes_to_zero) X(error_null) \
    X(ops_by_own_size) X(byte_offset_ignored) X(program_not_copied) X(changes_rounding) X(sets_variable) \
    X(handles_signal) X(changes_mode_mask) X(error_shared) X(answers_vary) X(accepts_doubles) \
    X(writes_behind_answer) X(writes_into_program) X(number_of_last) X(refuses_later_hosts) \
    X(function_without_user) X(function_position_32) X(function_row_of_entry) X(function_twice) \
    X(function_values_moved) X(position_of_length) X(prompt_as_output) X(epochs_32) X(capacity_of_first) \
    X(notes_nan_as_zero) X(log_sums_of_halves) X(maxima_by_width) X(logprobs_of_ties) \
    X(seed_of_neighbour) X(min_keep_ignored) X(biases_of_first) X(breakers_ignored) X(slot_swapped_params) X(ties_overflow) \
    X(top_k_16) X(history_32768) X(row_500) X(vocabulary_200000) X(wide_rows) X(rows_257) \
    X(leaks_files) X(leaks_memory) X(lowers_priority) X(seeds_rand) X(names_thread) X(closes_input)
/* clang-format on */

#include "lies.h"

static const es_api *base;
static const es_context *last_failed;

enum { MOST_OPS = 256, MOST_PROGRAMS = 1 << 14 };

/* A program as the packaged library got it. */
typedef struct forwarded {
    int32_t n;
    es_op ops[MOST_OPS];
    uint32_t number;
    const es_op *given;
} forwarded;

struct es_context {
    es_context *inner;
    forwarded *programs[MOST_PROGRAMS]; /* by number */
    uint32_t n_programs;
};

/* --- functions of third parties --------------------------------------------------------------------- */

/* What stands in the place of a function: `user` of its op. */
typedef struct stand_in {
    es_op op;
    const double *values; /* where they were when the program was compiled */
} stand_in;

static int32_t call_function(const es_row *given, float *logits, const int32_t *ids, int64_t n, void *state) {
    const stand_in *mine = given->user;
    es_row row = *given;
    row.user = mine->op.user;
    if (lie == function_stream_0) row.stream = 0;
    if (lie == function_values_of_slot_0 && mine->op.values) row.values = *mine->op.values;
    if (lie == function_without_output) row.length = row.prompt_length;
    if (lie == function_without_state) state = NULL;
    if (lie == function_without_ids) ids = NULL;
    if (lie == function_without_user) row.user = NULL;
    if (lie == function_position_32) row.position = (int32_t)row.position;
    if (lie == function_row_of_entry) row.row = 0;
    if (lie == function_values_moved && mine->op.values)
        row.values = mine->values + row.slot * mine->op.n_values;
    if (lie == function_twice) mine->op.function(&row, logits, ids, n, state);
    const int32_t code = mine->op.function(&row, logits, ids, n, state);
    return lie == function_failure_ignored ? 0 : code;
}

/* --- programs ----------------------------------------------------------------------------------------- */

static void copy_program(const es_program *given, forwarded *out) {
    out->n = 0;
    for (int32_t i = 0; i < given->n_ops && out->n < MOST_OPS; i++) {
        const size_t apart = lie == ops_by_own_size ? sizeof(es_op) : given->ops->size;
        es_op op = *(const es_op *)(const void *)((const char *)given->ops + (size_t)i * apart);
        op.size = sizeof op;
        int repeated = 0;
        for (int32_t j = 0; j < out->n; j++) repeated |= out->ops[j].kind == op.kind;
        if (lie == repeat_runs_once && repeated && op.kind != ES_OP_FUNCTION) continue;
        if (lie == function_dropped && op.kind == ES_OP_FUNCTION) continue;
        if (lie == xtc_stream_0 && op.kind == ES_OP_XTC) op.stream = 0;
        out->ops[out->n++] = op;
    }
}

static int32_t forward_query(es_context *context, const es_query *given, es_answer *answer) {
    es_query query = *given;
    forwarded *copy = NULL;
    es_program program = {.size = sizeof program};
    if (given->program) {
        copy = malloc(sizeof *copy);
        if (!copy) return ES_NO_MEMORY;
        copy_program(given->program, copy);
        program.n_ops = copy->n;
        program.ops = copy->ops;
        query.program = &program;
    }
    if (lie == accepts_doubles && query.bits == 64) query.bits = 32;
    const int32_t code = base->query(context->inner, &query, answer);
    free(copy);
    static int asked;
    if (lie == answers_vary && code == ES_OK && asked++ % 2) answer->promises &= ~(uint32_t)ES_PROCESSED;
    if (lie == writes_behind_answer) answer[1].size = 0;
    if (lie == max_rows_negative && code == ES_OK) answer->max_rows = -1;
    return code;
}

static int32_t forward_compile(es_context *context, const es_program *given, uint32_t *number) {
    if (context->n_programs == MOST_PROGRAMS) return ES_NO_MEMORY;
    forwarded *copy = malloc(sizeof *copy);
    if (!copy) return ES_NO_MEMORY;
    copy_program(given, copy);
    for (int32_t i = 0; i < copy->n; i++)
        if (copy->ops[i].kind == ES_OP_FUNCTION) {
            stand_in *mine = malloc(sizeof *mine);
            if (!mine) return ES_NO_MEMORY;
            mine->op = copy->ops[i];
            mine->values = mine->op.values ? *mine->op.values : NULL;
            copy->ops[i].function = call_function;
            copy->ops[i].user = mine;
        }
    if (lie == writes_into_program && given->n_ops) ((es_op *)(intptr_t)given->ops)->stream = 7;
    const es_program program = {.size = sizeof program, .n_ops = copy->n, .ops = copy->ops};
    const int32_t code = base->compile(context->inner, &program, &copy->number);
    if (code != ES_OK) {
        last_failed = context;
        free(copy);
        return code;
    }
    context->programs[context->n_programs] = copy;
    if (lie == number_of_last && context->n_programs && copy->n == 1) {
        *number = context->n_programs - 1;
        return ES_OK;
    }
    copy->given = given->ops;
    *number = context->n_programs++;
    return ES_OK;
}

/* --- steps -------------------------------------------------------------------------------------------- */

/* The memory of one call. */
typedef struct arena {
    void *blocks[64];
    int n;
} arena;

static void *copied(arena *held, const void *from, size_t bytes) {
    void *block = malloc(bytes ? bytes : 1);
    if (!block) abort();
    if (from) memcpy(block, from, bytes);
    return held->blocks[held->n++] = block;
}

static void alter_params(es_params *p, const forwarded *program) {
    (void)program;
    if (lie == top_k_16) p->top_k &= 65535;
    if (lie == penalizes_exempt) p->penalty_exempt.n = 0;
    if (lie == penalty_decay_ignored) p->penalty_decay_range = 0;
    if (lie == adaptive_decay_default) p->adaptive_decay = 0.9;
    if (lie == mirostat_eta_float) p->mirostat_eta = (double)(float)p->mirostat_eta;
    if (lie == min_keep_ignored) p->min_keep = 0;
    if (lie == breakers_ignored) p->breakers.n = 0, p->breaker_heads = NULL;
    if (lie == dynatemp_to_3 && p->temperature >= 3) p->dynatemp_range = 0;
}

/* Those of another row, but for the text: a row with infill ends the process without one. */
static void take_params(es_params *p, es_params other) {
    other.text = p->text;
    other.text_ends = p->text_ends;
    other.text_end_token_ids = p->text_end_token_ids;
    *p = other;
}

/* Parameters one after another, each as long as this library knows them. */
static const es_params *copy_params(arena *held, const es_batch *batch) {
    const es_table *table = batch->table;
    es_params *params = copied(held, NULL, (size_t)table->capacity * sizeof *params);
    for (int32_t slot = 0; slot < table->capacity; slot++) {
        const size_t apart = lie == params_by_own_size ? sizeof *params : table->params->size;
        params[slot] = *(const es_params *)(const void *)((const char *)table->params + (size_t)slot * apart);
        params[slot].size = sizeof *params;
    }
    return params;
}

static void alter_table(arena *held, es_batch *batch, es_table *table, const es_context *context) {
    es_params *params = (es_params *)(intptr_t)copy_params(held, batch);
    const size_t slots = (size_t)table->capacity;
    table->params = params;
    if (lie == stale_tables) {
        uint64_t *epochs = copied(held, table->epochs, slots * sizeof *epochs);
        for (int32_t slot = 0; slot < table->capacity; slot++) epochs[slot] = (uint64_t)slot + 1;
        table->epochs = epochs;
    }
    size_t cells = 0;
    for (int32_t i = 0; i < batch->n; i++) {
        const int32_t slot = batch->slots[i];
        const size_t end = (size_t)(table->offsets[slot] + table->lengths[slot]);
        if (end > cells) cells = end;
        alter_params(&params[slot], context->programs[batch->programs[i]]);
        if (lie == biases_of_first &&
            params[batch->slots[0]].biased_token_ids.n >= params[slot].biased_token_ids.n)
            params[slot].biases = params[batch->slots[0]].biases;
        if (lie == slot_swapped_params && i > 40) take_params(&params[slot], params[batch->slots[0]]);
    }
    if (lie == epochs_32) {
        uint64_t *epochs = copied(held, table->epochs, slots * sizeof *epochs);
        for (size_t slot = 0; slot < slots; slot++) epochs[slot] &= 15;
        table->epochs = epochs;
    }
    if (lie == history_32768) {
        int64_t *lengths = copied(held, table->lengths, slots * sizeof *lengths);
        for (size_t slot = 0; slot < slots; slot++)
            lengths[slot] = lengths[slot] > 32768 ? 32768 : lengths[slot];
        table->lengths = lengths;
    }
    if (lie == position_of_length) {
        int64_t *positions = copied(held, table->positions, slots * sizeof *positions);
        for (size_t slot = 0; slot < slots; slot++) positions[slot] = table->lengths[slot];
        table->positions = positions;
    }
    if (lie == prompt_as_output) {
        int64_t *prompts = copied(held, table->prompt_lengths, slots * sizeof *prompts);
        for (size_t slot = 0; slot < slots; slot++) prompts[slot] = prompts[slot] > 100 ? 100 : prompts[slot];
        table->prompt_lengths = prompts;
    }
    if (lie == seed_of_neighbour && slots > 30) {
        uint64_t *seeds = copied(held, table->seeds, slots * sizeof *seeds);
        seeds[30] = table->seeds[29];
        table->seeds = seeds;
    }
    static int32_t first_capacity;
    if (!first_capacity) first_capacity = table->capacity;
    if (lie == capacity_of_first && table->capacity > first_capacity) table->capacity = first_capacity;
    if (lie == notes_nan_as_zero) {
        double *notes = copied(held, table->notes, cells * sizeof *notes);
        for (size_t i = 0; i < cells; i++) notes[i] = notes[i] == notes[i] ? notes[i] : 0.0;
        table->notes = notes;
    }
    if (lie == notes_16) {
        double *notes = copied(held, table->notes, cells * sizeof *notes);
        for (int32_t i = 0; i < batch->n; i++) {
            const int64_t start = table->offsets[batch->slots[i]], n = table->lengths[batch->slots[i]];
            for (int64_t j = 0; j < n - 16; j++) notes[start + j] = NAN;
        }
        table->notes = notes;
    }
}

static void alter_logits(arena *held, es_batch *batch) {
    es_tensor *t = &batch->logits;
    if (t->bits != 16 || (lie != bfloat16_flushed && lie != zeros_differ_in_halves)) return;
    const int64_t apart = t->strides ? t->strides[0] : t->shape[1], n = batch->vocab_size;
    const uint16_t *given = (const uint16_t *)(const void *)((const char *)t->data + t->byte_offset);
    uint16_t *copy = copied(held, NULL, (size_t)(t->shape[0] * n) * sizeof *copy);
    for (int64_t row = 0; row < t->shape[0]; row++)
        for (int64_t i = 0; i < n; i++) {
            uint16_t x = given[row * apart + i];
            if (lie == bfloat16_flushed && t->code == 4 && !(x & 0x7F80)) x &= 0x8000;
            if (lie == zeros_differ_in_halves && x == 0x8000) x = 0x8001;
            copy[row * n + i] = x;
        }
    t->data = copy;
    t->shape = copied(held, t->shape, 2 * sizeof *t->shape);
    t->shape[1] = n;
    t->strides = NULL;
    t->byte_offset = 0;
}

static void change_surroundings(void) {
    if (lie == changes_rounding) fesetround(FE_UPWARD);
    if (lie == sets_variable) {
        static int calls;
        char text[16];
        snprintf(text, sizeof text, "%d", ++calls);
        setenv("LYING_FORWARDER_CALLS", text, 1);
    }
    if (lie == handles_signal) signal(SIGTERM, SIG_IGN);
    if (lie == changes_mode_mask) umask(0);
    if (lie == changes_folder && chdir("/")) abort();
    if (lie == changes_locale) setlocale(LC_ALL, "C.UTF-8");
    if (lie == leaks_files && open("/dev/null", O_RDONLY) < 0) abort();
    if (lie == leaks_memory) {
        static char *volatile kept;
        kept = malloc(65536);
        if (kept) memset(kept, 1, 65536);
    }
    if (lie == lowers_priority && nice(1) < 0) abort();
    if (lie == seeds_rand) srand(1);
    if (lie == names_thread) prctl(PR_SET_NAME, "lying");
    if (lie == closes_input) close(0);
#if defined(__SSE__)
    if (lie == flushes_to_zero) _mm_setcsr(_mm_getcsr() | 0x8040);
#endif
}

/* As if a sum of squares had overflowed where very many logits are equal. */
static void spoil_ties(const es_context *context, es_batch *batch) {
    const es_tensor *t = &batch->logits;
    const int64_t apart = t->strides ? t->strides[0] : t->shape[1];
    if (t->bits != 32 || batch->vocab_size < 20000) return;
    for (int32_t i = 0; i < batch->n; i++) {
        const forwarded *program = context->programs[batch->programs[i]];
        const int64_t row = batch->rows[i];
        const float *logits = (const float *)(const void *)((const char *)t->data + t->byte_offset) +
                              row * apart;
        int equal = program->n > 1 && program->ops[0].kind == ES_OP_ETA_CUTOFF;
        for (int64_t k = 1; k < 8; k++) equal &= logits[k] == logits[0];
        if (equal && batch->token_ids[row] >= 0)
            batch->token_ids[row] = batch->vocab_size - 1 - batch->token_ids[row];
    }
}

/* Another token where a batch is larger than this library expects. */
static void spoil_sizes(es_batch *batch) {
    const es_tensor *t = &batch->logits;
    const int64_t size = batch->vocab_size, apart = t->strides ? t->strides[0] : t->shape[1];
    for (int32_t i = 0; i < batch->n; i++) {
        const int64_t row = batch->rows[i];
        if ((lie == row_500 && row > 500) || (lie == vocabulary_200000 && size > 200000) ||
            (lie == wide_rows && apart > size + 1000) || (lie == rows_257 && batch->n == 257))
            batch->token_ids[row] = size - 1 - batch->token_ids[row];
    }
}

static int32_t forward_run(es_context *context, es_batch *batch) {
    arena held = {.n = 0};
    es_batch inner = *batch;
    es_table table = *batch->table;
    uint32_t *programs = copied(&held, NULL, (size_t)batch->n * sizeof *programs);
    for (int32_t i = 0; i < batch->n; i++) programs[i] = context->programs[batch->programs[i]]->number;
    inner.programs = programs;
    if (batch->logprobs && batch->edits) {
        uint32_t *edits = copied(&held, NULL, (size_t)batch->n * sizeof *edits);
        for (int32_t i = 0; i < batch->n; i++) edits[i] = context->programs[batch->edits[i]]->number;
        inner.edits = edits;
    }
    alter_table(&held, batch, &table, context);
    inner.table = &table;
    if (lie == byte_offset_ignored) inner.logits.byte_offset = 0;
    if (lie == program_not_copied)
        for (int32_t i = 0; i < batch->n; i++)
            if (context->programs[batch->programs[i]]->n &&
                context->programs[batch->programs[i]]->given->kind > 99)
                return ES_INVALID;
    alter_logits(&held, &inner);
    const int32_t code = base->run(context->inner, &inner);
    batch->faults = inner.faults;
    if (lie == ties_overflow && code == ES_OK) spoil_ties(context, batch);
    if (code == ES_OK) spoil_sizes(batch);
    change_surroundings();
    while (held.n) free(held.blocks[--held.n]);
    return code;
}

/* --- the other functions -------------------------------------------------------------------------------- */

static int32_t forward_open(const es_options *options, es_context **out) {
    es_context *context = calloc(1, sizeof *context);
    if (!context) return ES_NO_MEMORY;
    const int32_t code = base->open(options, &context->inner);
    *out = code == ES_OK ? context : NULL;
    if (code != ES_OK) free(context);
    return code;
}

static void forward_close(es_context *context) {
    base->close(context->inner);
    for (uint32_t i = 0; i < context->n_programs; i++) free(context->programs[i]);
    free(context);
}

static const char *forward_error(const es_context *context) {
    if (lie == error_shared && last_failed) return base->error(last_failed->inner);
    return lie == error_null ? NULL : base->error(context->inner);
}

static const char *forward_target(const es_context *context) { return base->target(context->inner); }

static int32_t forward_maxima(es_context *context, const es_tensor *logits, int64_t vocab_size,
                              const int64_t *rows, int64_t n, float *out) {
    es_tensor tensor = *logits;
    if (lie == maxima_by_width) tensor.strides = NULL;
    return base->maxima(context->inner, &tensor, vocab_size, rows, n, out);
}

static int32_t forward_log_sums(es_context *context, const es_tensor *logits, int64_t vocab_size,
                                const int64_t *rows, int64_t n, double *out) {
    const int32_t code = base->log_sums(context->inner, logits, vocab_size, rows, n, out);
    for (int64_t i = 0; i < n; i++) {
        if (lie == log_sums_of_halves && logits->bits == 16) out[i] = (double)(float)out[i];
    }
    return code;
}

static int32_t forward_logprobs(es_context *context, const es_tensor *logits, int64_t vocab_size,
                                const int64_t *token_ids, int64_t top_n, const es_logprobs *out) {
    const int32_t code = base->logprobs(context->inner, logits, vocab_size, token_ids, top_n, out);
    for (int64_t i = 0; lie == logprobs_of_ties && i < logits->shape[0]; i++)
        if (out->ranks[i] > 100) out->ranks[i]--;
    return code;
}

ES_EXPORT int32_t es_get_api(uint32_t host_abi, const es_api **out);

int32_t es_get_api(uint32_t host_abi, const es_api **out) {
    static es_api table;
    void *native = dlopen(getenv("LIE_NATIVE"), RTLD_NOW | RTLD_LOCAL);
    if (!choose_lie() || !native) return ES_UNSUPPORTED;
    if (lie == refuses_later_hosts && host_abi > ES_ABI) return ES_UNSUPPORTED;
    int32_t (*get)(uint32_t, const es_api **);
    *(void **)&get = dlsym(native, "es_get_api");
    if (get(host_abi, &base)) return ES_UNSUPPORTED;
    table = *base;
    table.name = lie == name_null ? NULL : "forwarder";
    table.open = forward_open;
    table.close = forward_close;
    table.error = forward_error;
    table.query = forward_query;
    table.compile = forward_compile;
    table.run = forward_run;
    table.target = forward_target;
    table.maxima = forward_maxima;
    table.log_sums = forward_log_sums;
    table.logprobs = forward_logprobs;
    *out = &table;
    return ES_OK;
}
