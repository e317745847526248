/* The operator of engine_sampler_topk_topp.h: checks, tables and numbers around the draws of probabilities.c. */
#include "engine_sampler_topk_topp.h"

#include "engine_sampler_numbers.h"
#include "probabilities.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum {
    VALUES = 1 << 15, /* the 16-bit floats without a sign */
    PROBABILITIES = 1 << 14, /* those of them that hold all probabilities */
    MASS_BITS = 40,
    MOST_LOGPROBS = 16384,
    LONGEST_ERROR = 256,
    SELECTOR_STREAM = 0,
    ALIGNMENT = 8,
};

static const float REMOVED = -9999.0f;
static const double LN_2 = 0.69314718055994530942;

typedef es_topk_topp_tensor tensor;

/* The parts of a call's inputs and outputs; NULL for what the type has not. */
typedef struct call {
    const tensor *probs, *topk, *topp, *exp, *rand;
    const tensor *indices, *chosen, *logprobs;
    int64_t rows, vocab;
} call;

struct es_topk_topp {
    es_topk_topp_param param;
    uint32_t *seeds;
    char error[LONGEST_ERROR];
    int is_set_up;
    int32_t dtype; /* of the tables; -1: none */
    int64_t rows, vocab;
    float *values; /* [VALUES] */
    float *logits; /* [PROBABILITIES] */
    int64_t *masses; /* [PROBABILITIES] */
};

/* What `execute` has in its workspace, for each row. */
typedef struct workspace {
    int64_t *rows, *topk, *needed, *tokens;
    uint64_t *numbers;
    double *masses;
    char *scratch;
    uint16_t *leading; /* [rows, lists] */
    uint64_t size;
} workspace;

/* --- errors --- */

static int32_t refuse(es_topk_topp *op, const char *format, ...) {
    va_list values;
    va_start(values, format);
    vsnprintf(op->error, sizeof op->error, format, values);
    va_end(values);
    return ES_TOPK_TOPP_INVALID;
}

static int32_t without_memory(es_topk_topp *op) {
    snprintf(op->error, sizeof op->error, "there is no memory");
    return ES_TOPK_TOPP_NO_MEMORY;
}

/* --- the types --- */

static int gives_logprobs(const es_topk_topp *op) {
    return op->param.type >= ES_BATCH_TOPK_MULTINOMIAL_LOGPROBS_SAMPLING;
}

static int races(const es_topk_topp *op) {
    return op->param.type == ES_BATCH_TOPK_EXPONENTIAL_SAMPLING ||
           op->param.type == ES_BATCH_TOPK_EXPONENTIAL_LOGPROBS_SAMPLING;
}

static int is_single(const es_topk_topp *op) { return op->param.type == ES_SINGLE_TOPK_SAMPLING; }

static int takes_shares(const es_topk_topp *op) {
    return op->param.type == ES_BATCH_TOPK_MULTINOMIAL_LOGPROBS_SAMPLING;
}

static int32_t lists_of(const es_topk_topp *op) { return gives_logprobs(op) ? op->param.log_probs_size : 0; }

int32_t es_topk_topp_input_count(const es_topk_topp *op) {
    return is_single(op) ? 2 : races(op) || takes_shares(op) ? 4 : 3;
}

int32_t es_topk_topp_output_count(const es_topk_topp *op) { return gives_logprobs(op) ? 3 : 2; }

/* --- parameters --- */

int32_t es_topk_topp_set_param(es_topk_topp *op, const es_topk_topp_param *param) {
    op->error[0] = 0;
    if (!param) return refuse(op, "param is NULL");
    if (param->type < ES_SINGLE_TOPK_SAMPLING || param->type > ES_BATCH_TOPK_EXPONENTIAL_LOGPROBS_SAMPLING)
        return refuse(op, "type=%d is not allowed: 0 to 4", (int)param->type);
    if (param->log_probs_size < 0 || param->log_probs_size > MOST_LOGPROBS)
        return refuse(op, "log_probs_size=%d is not allowed: 0 to %d", (int)param->log_probs_size,
                      MOST_LOGPROBS);
    if (param->rand_seed_count < 0 || (param->rand_seed_count && !param->rand_seeds))
        return refuse(op, "rand_seed_count=%lld is not allowed: the length of rand_seeds",
                      (long long)param->rand_seed_count);
    uint32_t *seeds = NULL;
    const size_t bytes = (size_t)param->rand_seed_count * sizeof *seeds;
    if (bytes) {
        if (!(seeds = malloc(bytes))) return without_memory(op);
        memcpy(seeds, param->rand_seeds, bytes);
    }
    free(op->seeds);
    op->param = *param;
    op->param.rand_seeds = op->seeds = seeds;
    op->is_set_up = 0;
    return ES_TOPK_TOPP_OK;
}

int32_t es_topk_topp_create(const es_topk_topp_param *param, es_topk_topp **made) {
    es_topk_topp *const op = calloc(1, sizeof *op);
    if (!op) return ES_TOPK_TOPP_NO_MEMORY;
    op->dtype = -1;
    op->values = malloc(VALUES * sizeof *op->values);
    op->logits = malloc(PROBABILITIES * sizeof *op->logits);
    op->masses = malloc(PROBABILITIES * sizeof *op->masses);
    int32_t status = op->values && op->logits && op->masses ? ES_TOPK_TOPP_OK : ES_TOPK_TOPP_NO_MEMORY;
    if (status == ES_TOPK_TOPP_OK) status = es_topk_topp_set_param(op, param);
    if (status == ES_TOPK_TOPP_NO_MEMORY) es_topk_topp_destroy(op);
    else *made = op;
    return status;
}

void es_topk_topp_destroy(es_topk_topp *op) {
    if (!op) return;
    free(op->seeds);
    free(op->values);
    free(op->logits);
    free(op->masses);
    free(op);
}

const char *es_topk_topp_error(const es_topk_topp *op) { return op->error; }

/* --- tables --- */

static float value_of_half(uint16_t bits, int bfloat16) {
    if (bfloat16) return es_float_of((int32_t)((uint32_t)bits << 16));
    const int32_t exponent = bits >> 10 & 31, fraction = bits & 1023;
    if (!exponent) return (float)fraction * 0x1p-24f;
    if (exponent == 31) return es_float_of(0x7F800000 | fraction << 13);
    return es_float_of((exponent + 112) << 23 | fraction << 13);
}

static void fill_tables(es_topk_topp *op, int32_t dtype) {
    if (op->dtype == dtype) return;
    op->dtype = dtype;
    for (int32_t bits = 0; bits < VALUES; bits++)
        op->values[bits] = value_of_half((uint16_t)bits, dtype == ES_TOPK_TOPP_BFLOAT16);
    for (int32_t bits = 0; bits < PROBABILITIES; bits++) {
        const double value = (double)op->values[bits];
        op->logits[bits] = bits ? (float)(es_log2(value) * LN_2) : -__builtin_inff();
        op->masses[bits] = es_integer(es_rint(value * (double)(1LL << MASS_BITS)));
    }
}

/* --- tensors --- */

static int is_half(int32_t dtype) { return dtype == ES_TOPK_TOPP_FLOAT16 || dtype == ES_TOPK_TOPP_BFLOAT16; }

static int32_t check_shape(es_topk_topp *op, const char *name, const tensor *t, int64_t rows,
                           int64_t columns) {
    if (t->shape[0] == rows && t->shape[1] == columns) return ES_TOPK_TOPP_OK;
    return refuse(op, "%s has shape [%lld, %lld]; allowed is [%lld, %lld]", name, (long long)t->shape[0],
                  (long long)t->shape[1], (long long)rows, (long long)columns);
}

static int32_t check_tensor(es_topk_topp *op, const char *name, const tensor *t, int32_t dtype, int64_t rows,
                            int64_t columns) {
    if (t->dtype != dtype)
        return refuse(op, "%s has dtype %d; allowed is %d", name, (int)t->dtype, (int)dtype);
    return check_shape(op, name, t, rows, columns);
}

/* Sort the inputs into their places, and check their dtypes and shapes. */
static int32_t read_inputs(es_topk_topp *op, const tensor *inputs, int32_t count, call *c) {
    const int32_t expected = es_topk_topp_input_count(op);
    memset(c, 0, sizeof *c);
    if (count != expected || !inputs)
        return refuse(op, "%d inputs are given; the type has %d", (int)count, (int)expected);
    c->probs = &inputs[0];
    c->topk = is_single(op) ? NULL : &inputs[1];
    c->topp = &inputs[is_single(op) ? 1 : 2];
    c->exp = races(op) ? &inputs[3] : NULL;
    c->rand = takes_shares(op) ? &inputs[3] : NULL;
    c->rows = c->probs->shape[0];
    c->vocab = c->probs->shape[1];
    if (!is_half(c->probs->dtype))
        return refuse(op, "probs has dtype %d; allowed is 0 or 1", (int)c->probs->dtype);
    if (c->rows < 1 || c->vocab < 1 || c->vocab > INT32_MAX)
        return refuse(op, "probs has shape [%lld, %lld]; allowed is at least [1, 1]", (long long)c->rows,
                      (long long)c->vocab);
    int32_t status = ES_TOPK_TOPP_OK;
    const int64_t shares = is_single(op) && c->topp->shape[0] == 1 ? 1 : c->rows;
    if ((status = check_tensor(op, "topp", c->topp, c->probs->dtype, shares, 1))) return status;
    if (c->topk) {
        if (c->topk->dtype != ES_TOPK_TOPP_INT32 && c->topk->dtype != ES_TOPK_TOPP_FLOAT16)
            return refuse(op, "topk has dtype %d; allowed is 3 or 0", (int)c->topk->dtype);
        if ((status = check_shape(op, "topk", c->topk, c->rows, 1))) return status;
    }
    if (c->exp && (status = check_tensor(op, "exp", c->exp, c->probs->dtype, c->rows, c->vocab)))
        return status;
    if (c->rand && (status = check_tensor(op, "rand", c->rand, ES_TOPK_TOPP_FLOAT32, c->rows, 1)))
        return status;
    if (is_single(op) && (op->param.topk < 1 || op->param.topk > c->vocab))
        return refuse(op, "topk=%u is not allowed: 1 to %lld", (unsigned)op->param.topk, (long long)c->vocab);
    if (op->param.type == ES_BATCH_TOPK_MULTINOMIAL_SAMPLING && op->param.rand_seed_count != c->rows)
        return refuse(op, "rand_seeds has %lld seeds; allowed is one for each of %lld rows",
                      (long long)op->param.rand_seed_count, (long long)c->rows);
    if (lists_of(op) > c->vocab)
        return refuse(op, "log_probs_size=%d is not allowed: at most the %lld tokens of a row",
                      (int)lists_of(op), (long long)c->vocab);
    return ES_TOPK_TOPP_OK;
}

static void shape_outputs(const es_topk_topp *op, const call *c, tensor outputs[3]) {
    const int32_t dtypes[3] = {ES_TOPK_TOPP_INT32, c->probs->dtype, ES_TOPK_TOPP_FLOAT32};
    for (int32_t i = 0; i < es_topk_topp_output_count(op); i++) {
        outputs[i].dtype = dtypes[i];
        outputs[i].shape[0] = c->rows;
        outputs[i].shape[1] = i < 2 ? 1 : lists_of(op);
    }
}

static int32_t read_tensors(es_topk_topp *op, const tensor *inputs, int32_t input_count,
                            const tensor *outputs, int32_t output_count, call *c) {
    static const char *const NAMES[3] = {"sampled_indices", "sampled_probs", "logprobs"};
    op->error[0] = 0;
    int32_t status = read_inputs(op, inputs, input_count, c);
    if (status) return status;
    const int32_t expected = es_topk_topp_output_count(op);
    if (output_count != expected || !outputs)
        return refuse(op, "%d outputs are given; the type has %d", (int)output_count, (int)expected);
    tensor wanted[3];
    shape_outputs(op, c, wanted);
    for (int32_t i = 0; i < expected; i++) {
        const tensor *const w = &wanted[i];
        status = check_tensor(op, NAMES[i], &outputs[i], w->dtype, w->shape[0], w->shape[1]);
        if (status) return status;
    }
    c->indices = &outputs[0];
    c->chosen = &outputs[1];
    c->logprobs = expected == 3 ? &outputs[2] : NULL;
    return ES_TOPK_TOPP_OK;
}

/* Whether all tensors with entries have data. */
static int32_t check_data(es_topk_topp *op, const tensor *tensors, int32_t count, const char *kind) {
    for (int32_t i = 0; i < count; i++)
        if (!tensors[i].data && tensors[i].shape[1]) return refuse(op, "%s %d has no data", kind, (int)i);
    return ES_TOPK_TOPP_OK;
}

int32_t es_topk_topp_infer(es_topk_topp *op, const tensor *inputs, int32_t input_count, tensor *outputs,
                           int32_t output_count) {
    call c;
    op->error[0] = 0;
    const int32_t status = read_inputs(op, inputs, input_count, &c);
    if (status) return status;
    if (output_count != es_topk_topp_output_count(op) || !outputs)
        return refuse(op, "%d outputs are given; the type has %d", (int)output_count,
                      (int)es_topk_topp_output_count(op));
    shape_outputs(op, &c, outputs);
    return ES_TOPK_TOPP_OK;
}

/* --- the workspace --- */

/* The parts of a workspace that begins at `base`, which is aligned; only their sizes if it is NULL. */
static workspace parts_of(const es_topk_topp *op, char *base) {
    const uint64_t rows = (uint64_t)op->rows, entry = rows * 8;
    workspace w = {.size = 6 * entry};
    const uint64_t scratch = es_probabilities_scratch(op->vocab);
    const uint64_t leading = (rows * (uint64_t)lists_of(op) * sizeof(uint16_t) + 7) / 8 * 8;
    w.size += scratch + leading + ALIGNMENT;
    if (!base) return w;
    w.rows = (int64_t *)base;
    w.topk = (int64_t *)(base + entry);
    w.needed = (int64_t *)(base + 2 * entry);
    w.tokens = (int64_t *)(base + 3 * entry);
    w.numbers = (uint64_t *)(base + 4 * entry);
    w.masses = (double *)(base + 5 * entry);
    w.scratch = base + 6 * entry;
    w.leading = (uint16_t *)(base + 6 * entry + scratch);
    return w;
}

int32_t es_topk_topp_setup(es_topk_topp *op, const tensor *inputs, int32_t input_count, const tensor *outputs,
                           int32_t output_count, uint64_t *workspace_size) {
    call c;
    op->is_set_up = 0;
    const int32_t status = read_tensors(op, inputs, input_count, outputs, output_count, &c);
    if (status) return status;
    fill_tables(op, c.probs->dtype);
    op->rows = c.rows;
    op->vocab = c.vocab;
    op->is_set_up = 1;
    *workspace_size = parts_of(op, NULL).size;
    return ES_TOPK_TOPP_OK;
}

/* --- the rows --- */

static double topp_of(const es_topk_topp *op, const call *c, int64_t row) {
    const uint16_t bits = ((const uint16_t *)c->topp->data)[c->topp->shape[0] == 1 ? 0 : row];
    if (bits & 0x8000) return bits == 0x8000 ? 0 : -1;
    return (double)op->values[bits];
}

/* The number of tokens to keep; 0 if it is not allowed. */
static int64_t topk_of(const es_topk_topp *op, const call *c, int64_t row) {
    if (!c->topk) return op->param.topk;
    int64_t k;
    if (c->topk->dtype == ES_TOPK_TOPP_INT32) k = ((const int32_t *)c->topk->data)[row];
    else {
        const uint16_t bits = ((const uint16_t *)c->topk->data)[row];
        const double value = bits & 0x8000 ? 0 : (double)value_of_half(bits, 0);
        k = es_integer(value);
        if ((double)k != value) return 0;
    }
    return k >= 1 && k <= c->vocab ? k : 0;
}

/* `share` of 2^64, less than that for 1. */
static uint64_t number_of(float share) {
    if (share >= 1) return UINT64_MAX;
    return (uint64_t)((double)share * 0x1p64);
}

/* Note what decides row `row` as number i, if it can be drawn. */
static int is_decided(const es_topk_topp *op, const call *c, int64_t row, const workspace *w, int64_t i) {
    const double topp = topp_of(op, c, row);
    const int64_t topk = topk_of(op, c, row);
    if (!(topp >= 0 && topp <= 1) || !topk) return 0;
    w->rows[i] = row;
    w->topk[i] = topk;
    w->needed[i] = topp < 1 ? es_integer(es_ceil(topp * (double)(1LL << MASS_BITS))) : -1;
    if (c->rand) {
        const float share = ((const float *)c->rand->data)[row];
        if (!(share >= 0 && share <= 1)) return 0;
        w->numbers[i] = number_of(share);
    } else if (!c->exp) {
        const uint64_t seed = op->seeds && !is_single(op) ? op->seeds[row] : op->param.rand_seed;
        w->numbers[i] = es_draw64(seed, is_single(op) ? row : 0, SELECTOR_STREAM, 0);
    }
    return 1;
}

static void write_row(const es_topk_topp *op, const call *c, int64_t row, const workspace *w, int64_t i) {
    const int64_t token = i < 0 ? -1 : w->tokens[i];
    const uint16_t *const bits = (const uint16_t *)c->probs->data + row * c->vocab;
    ((int32_t *)c->indices->data)[row] = (int32_t)token;
    ((uint16_t *)c->chosen->data)[row] = token < 0 ? 0 : bits[token];
    for (int64_t j = 0, lists = lists_of(op); j < lists; j++) {
        const uint16_t there = token < 0 ? 0 : w->leading[i * lists + j];
        float *const logprob = (float *)c->logprobs->data + row * lists + j;
        const double share = (double)op->values[there];
        *logprob = there ? (float)(es_log2(share / w->masses[i]) * LN_2) : REMOVED;
    }
}

int32_t es_topk_topp_execute(es_topk_topp *op, const tensor *inputs, int32_t input_count,
                             const tensor *outputs, int32_t output_count, void *memory,
                             uint64_t workspace_size) {
    call c;
    int32_t status = read_tensors(op, inputs, input_count, outputs, output_count, &c);
    if (status) return status;
    if (!op->is_set_up || c.rows != op->rows || c.vocab != op->vocab || c.probs->dtype != op->dtype)
        return refuse(op, "these tensors are not those of the last setup");
    if ((status = check_data(op, inputs, input_count, "input"))) return status;
    if ((status = check_data(op, outputs, output_count, "output"))) return status;
    const uint64_t needed = parts_of(op, NULL).size;
    if (!memory || workspace_size < needed)
        return refuse(op, "the workspace has %llu bytes; allowed are at least %llu",
                      (unsigned long long)workspace_size, (unsigned long long)needed);
    const double shared = topp_of(op, &c, 0);
    if (c.topp->shape[0] < c.rows && !(shared >= 0 && shared <= 1))
        return refuse(op, "topp has %g; allowed are numbers from 0 to 1", shared);
    char *const base = (char *)(((uintptr_t)memory + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT);
    const workspace w = parts_of(op, base);
    int64_t n = 0;
    for (int64_t row = 0; row < c.rows; row++) n += is_decided(op, &c, row, &w, n);
    const es_probabilities given = {
        .bits = c.probs->data,
        .stride = c.vocab,
        .noise = c.exp ? c.exp->data : NULL,
        .noise_stride = c.vocab,
        .vocab_size = c.vocab,
        .bfloat16 = op->dtype == ES_TOPK_TOPP_BFLOAT16,
        .draw = c.exp    ? ES_RACE
                : c.rand ? ES_BY_WEIGHT_OF_RANKS
                         : ES_BY_WEIGHT_OF_IDS,
        .lists = lists_of(op),
        .values = op->values,
        .logits = op->logits,
        .masses = op->masses,
        .topk = w.topk,
        .needed = w.needed,
        .numbers = w.numbers,
    };
    es_probabilities_sample_in(&given, n, w.rows, w.tokens, w.masses, w.leading, w.scratch);
    for (int64_t row = 0, i = 0; row < c.rows; row++) {
        const int drawn = i < n && w.rows[i] == row;
        write_row(op, &c, row, &w, drawn ? i++ : -1);
    }
    return ES_TOPK_TOPP_OK;
}
