/* A vendor's library in one file: what engine_sampler.h requires, for top_k, temperature, greedy and dist on
 * float32 logits in the host's memory.
 *
 * A real vendor drives a device. Everything else is realistic: a context that owns all state,
 * programs that are checked once and then run by number, rows that fail individually, and promises that are
 * kept. The host runs whatever the library does not support.
 *
 * The arithmetic is that of the docstring of engine_sampler.arithmetic, which makes the tokens exact; compile
 * it with -ffp-contract=off.
 */
#include <engine_sampler.h>

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_OPS = 4, MOST_PROGRAMS = 64 };

typedef struct toy_program {
    int32_t n, kinds[MOST_OPS];
} toy_program;

struct es_context {
    toy_program programs[MOST_PROGRAMS];
    uint32_t n_programs;
    float *row;     /* [size], the current row */
    uint64_t *keys; /* [size] */
    int64_t size;
    char error[120];
};

static const float LOGIT_LIMIT = 0x1p100f;

static int32_t fail(es_context *context, int32_t code, const char *text) {
    snprintf(context->error, sizeof context->error, "toy: %s", text);
    return code;
}

/* --- faults on demand, for tests of the host --- */

#ifdef TOY_FAULTS
#include "toy_faults.h"
#else
#define TOY_FAULT(call) ES_OK
#define TOY_LIVES(change) ((void)0)
#endif

/* --- arithmetic --- */

/* Nearest integer, ties to even: adding 2^23 leaves no fraction. */
static float rounded(float x) {
    const float magic = x < 0 ? -0x1p23f : 0x1p23f;
    return x < 0x1p23f && x > -0x1p23f ? (x + magic) - magic : x;
}

/* An integer near 2^30·e^(logit - peak). */
static int64_t weight_of(float logit, float peak) {
    /* clang-format off */
    static const float c[6] = {1.0f, 6.931470036506653e-1f, 2.4022242426872253e-1f, 5.550733581185341e-2f,
                               9.671512991189957e-3f, 1.326472731307149e-3f};
    /* clang-format on */
    const float y = (logit - peak) * 1.4426950408889634f;
    if (!(y >= -31.0f)) return 0;
    const float n = rounded(y), r = y - n, square = r * r;
    const float p = ((c[5] * r + c[4]) * square + (c[3] * r + c[2])) * square + (c[1] * r + c[0]);
    return (int64_t)rounded(p * ldexpf(1.0f, (int)n + 30));
}

/* 64 random bits from a request's seed and position: Philox4x32-10, stream 0. */
static uint64_t random_bits(uint64_t seed, uint64_t position) {
    uint32_t x[4] = {0, 0, (uint32_t)position, (uint32_t)(position >> 32)};
    uint32_t k0 = (uint32_t)seed, k1 = (uint32_t)(seed >> 32);
    for (int round = 0; round < 10; round++, k0 += 0x9E3779B9u, k1 += 0xBB67AE85u) {
        const uint64_t a = (uint64_t)x[0] * 0xD2511F53u, b = (uint64_t)x[2] * 0xCD9E8D57u;
        x[0] = (uint32_t)(b >> 32) ^ x[1] ^ k0;
        x[1] = (uint32_t)b;
        x[2] = (uint32_t)(a >> 32) ^ x[3] ^ k1;
        x[3] = (uint32_t)a;
    }
    return x[0] | (uint64_t)x[1] << 32;
}

/* (a·b) >> 64 for b < 2^63. */
static int64_t high_product(uint64_t a, uint64_t b) {
    const uint64_t low = (a & 0xFFFFFFFFu) * (b & 0xFFFFFFFFu);
    const uint64_t middle = (a >> 32) * (b & 0xFFFFFFFFu) + (low >> 32);
    const uint64_t other = (a & 0xFFFFFFFFu) * (b >> 32) + (middle & 0xFFFFFFFFu);
    return (int64_t)((a >> 32) * (b >> 32) + (middle >> 32) + (other >> 32));
}

/* --- samplers and selectors, on one row of `n` logits --- */

static int64_t best_of(const float *row, int64_t n) {
    int64_t best = 0;
    for (int64_t i = 1; i < n; i++)
        if (row[i] > row[best]) best = i;
    return best;
}

static int compare(const void *a, const void *b) {
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* Keep the first k in (logit descending, id ascending) order. */
static void top_k(float *row, uint64_t *keys, int64_t n, int64_t k) {
    if (k < 1 || k >= n) return;
    for (int64_t i = 0; i < n; i++) {
        const float x = row[i] + 0.0f; /* -0 and 0 are equal */
        uint32_t bits;
        memcpy(&bits, &x, sizeof bits);
        const uint32_t descending = bits & 0x80000000u ? bits : ~(bits | 0x80000000u);
        keys[i] = (uint64_t)descending << 32 | (uint64_t)i;
    }
    qsort(keys, (size_t)n, sizeof *keys, compare);
    for (int64_t i = k; i < n; i++) row[keys[i] & 0xFFFFFFFFu] = -INFINITY;
}

static void temperature(float *row, int64_t n, double temperature) {
    const int64_t best = best_of(row, n);
    const float scale = temperature < 1e-4 ? 1.0f : (float)(1.0 / temperature);
    for (int64_t i = 0; i < n; i++) {
        const float scaled = row[i] * scale;
        if (row[i] > -INFINITY) row[i] = scaled > FLT_MAX ? FLT_MAX : scaled < -FLT_MAX ? -FLT_MAX : scaled;
        if (temperature < 1e-4 && i != best) row[i] = -INFINITY;
    }
}

static int64_t draw(const float *row, int64_t n, uint64_t bits) {
    const float peak = row[best_of(row, n)];
    int64_t total = 0, i = 0;
    for (i = 0; i < n; i++) total += weight_of(row[i], peak);
    const int64_t target = high_product(bits, (uint64_t)total);
    int64_t sum = 0;
    for (i = 0; (sum += weight_of(row[i], peak)) <= target; i++) {}
    return i;
}

/* --- a row through its program --- */

/* The row as the program sees it: checked, and without the tokens that the mask forbids. */
static int32_t read_row(const es_batch *batch, int32_t entry, float *row) {
    const es_tensor *t = &batch->logits;
    const int64_t stride = t->strides ? t->strides[0] : t->shape[1], number = batch->rows[entry];
    const float *given = (const float *)(const void *)((const char *)t->data + t->byte_offset) +
                         number * stride;
    const int masked = batch->masked && batch->masked[entry];
    const int32_t *mask = masked ? batch->bitmask + number * batch->bitmask_stride : NULL;
    int64_t left = 0;
    for (int64_t i = 0; i < batch->vocab_size; i++) {
        if (!(given[i] <= LOGIT_LIMIT)) return ES_ROW_BAD_LOGITS;
        const int gone = given[i] < -LOGIT_LIMIT || (mask && !((uint32_t)mask[i / 32] >> i % 32 & 1));
        row[i] = gone ? -INFINITY : given[i];
        left += !gone;
    }
    return left ? ES_ROW_OK : ES_ROW_EMPTY;
}

static int32_t run_row(es_context *context, es_batch *batch, int32_t entry) {
    const es_table *table = batch->table;
    const int32_t slot = batch->slots[entry];
    const es_params *p = (const es_params *)(const void *)((const char *)table->params +
                                                           (size_t)slot * table->params->size);
    const toy_program *program = &context->programs[batch->programs[entry]];
    const int64_t n = batch->vocab_size;
    float *row = context->row;
    int64_t token = -1;
    const int32_t status = read_row(batch, entry, row);
    if (status != ES_ROW_OK) return status;
    /* Not implemented here: the host runs the row, like every row that is not ES_ROW_OK. */
    if (p->dynatemp_range > 0) return ES_ROW_DECLINED;
    for (int32_t i = 0; i < program->n; i++) {
        const int32_t kind = program->kinds[i];
        if (kind == ES_OP_TOP_K) top_k(row, context->keys, n, p->top_k);
        else if (kind == ES_OP_TEMPERATURE) temperature(row, n, p->temperature);
        else if (kind == ES_OP_GREEDY) token = best_of(row, n);
        else token = draw(row, n, random_bits(table->seeds[slot], (uint64_t)table->positions[slot]));
    }
    batch->token_ids[batch->rows[entry]] = token;
    batch->notes[batch->rows[entry]] = NAN;
    if (batch->processed && batch->processed[entry])
        memcpy(batch->processed[entry], row, (size_t)n * sizeof *row);
    return ES_ROW_OK;
}

/* --- the functions of the table --- */

static int32_t open_context(const es_options *options, es_context **out) {
    if (options->device.type != 1) return ES_UNSUPPORTED; /* logits elsewhere than in the host's memory */
    const int32_t injected = TOY_FAULT("open");
    if (injected) return injected;
    *out = calloc(1, sizeof **out);
    if (!*out) return ES_NO_MEMORY;
    TOY_LIVES(1);
    return ES_OK;
}

static void close_context(es_context *context) {
    free(context->row);
    free(context->keys);
    free(context);
    TOY_LIVES(-1);
}

static const char *error_of(const es_context *context) { return context->error; }

static int32_t read_program(es_context *context, const es_program *program, toy_program *out) {
    *out = (toy_program){0};
    if (program->n_ops < 0 || program->n_ops > MOST_OPS)
        return fail(context, ES_UNSUPPORTED, "too many steps");
    for (int32_t i = 0; i < program->n_ops; i++) {
        const es_op *op = (const es_op *)(const void *)((const char *)program->ops +
                                                        (size_t)i * program->ops->size);
        const int selects = op->kind == ES_OP_GREEDY || op->kind == ES_OP_DIST;
        if (!selects && op->kind != ES_OP_TOP_K && op->kind != ES_OP_TEMPERATURE)
            return fail(context, ES_UNSUPPORTED, "an unsupported step");
        if (selects && i != program->n_ops - 1) return fail(context, ES_INVALID, "a selector before the end");
        out->kinds[out->n++] = op->kind;
    }
    return ES_OK;
}

static int32_t query(es_context *context, const es_query *request, es_answer *answer) {
    toy_program ignored;
    const int32_t injected = TOY_FAULT("query");
    if (injected) return fail(context, injected, "as requested");
    if (request->code != 2 || request->bits != 32)
        return fail(context, ES_UNSUPPORTED, "logits that are not float32");
    const int32_t code = request->program ? read_program(context, request->program, &ignored) : ES_OK;
    if (code != ES_OK) return code;
    answer->promises = ES_EXACT | ES_DETERMINISTIC | ES_BATCH_INVARIANT | ES_READS_ONLY | ES_ANY_STRIDE |
                       ES_ROW_FAULTS | ES_MASKS | ES_PROCESSED;
    answer->max_rows = 0;
    return ES_OK;
}

static int32_t compile(es_context *context, const es_program *program, uint32_t *number) {
    const int32_t injected = TOY_FAULT("compile");
    if (injected) return fail(context, injected, "as requested");
    if (context->n_programs == MOST_PROGRAMS) return fail(context, ES_UNSUPPORTED, "too many programs");
    const int32_t code = read_program(context, program, &context->programs[context->n_programs]);
    if (code == ES_OK) *number = context->n_programs++;
    return code;
}

static int32_t make_room(es_context *context, int64_t size) {
    if (size <= context->size) return ES_OK;
    free(context->row);
    free(context->keys);
    context->row = malloc((size_t)size * sizeof *context->row);
    context->keys = malloc((size_t)size * sizeof *context->keys);
    context->size = context->row && context->keys ? size : 0;
    return context->size ? ES_OK : fail(context, ES_NO_MEMORY, "no memory for a row");
}

static int32_t run(es_context *context, es_batch *batch) {
    const int32_t injected = TOY_FAULT("run");
    if (injected) return fail(context, injected, "as requested");
    for (int32_t i = 0; i < batch->n; i++)
        if (batch->programs[i] >= context->n_programs) return fail(context, ES_INVALID, "no such program");
    const int32_t code = make_room(context, batch->vocab_size);
    if (code != ES_OK) return code;
    batch->faults = 0;
    for (int32_t i = 0; i < batch->n; i++) {
        batch->status[i] = run_row(context, batch, i);
        batch->faults += batch->status[i] != ES_ROW_OK;
    }
    return ES_OK;
}

static const es_api api = {
    .size = sizeof(es_api),
    .abi = ES_ABI,
    .name = "toy",
    .version = "1.0",
    .open = open_context,
    .close = close_context,
    .error = error_of,
    .query = query,
    .compile = compile,
    .run = run,
};

int32_t es_get_api(uint32_t host_abi, const es_api **out) {
    if (host_abi >> 16 != ES_ABI_MAJOR) return ES_UNSUPPORTED;
    *out = &api;
    return ES_OK;
}
