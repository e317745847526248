/* Calls that break the contract, one at a time: each must be refused with a message and change nothing. */
#include "world.h"

static int must_refuse(const es_api *api, es_context *context, int32_t code, const char *what, int number) {
    if (code != ES_INVALID && code != ES_UNSUPPORTED) fz_fail("%s %d was answered %d", what, number, code);
    if (context && !api->error(context)[0]) fz_fail("%s %d was refused without a message", what, number);
    return 1;
}

/* Break batch `b`, its table or its logits in way number `k`; 0 if there is no such way. Rows, slots and
 * programs are copies that may be written. */
static int break_batch(int k, es_batch *b, es_table *t, int64_t *shape, int64_t *strides, int64_t *rows,
                       int32_t *slots, uint32_t *programs, uint8_t *masked) {
    es_tensor *l = &b->logits;
    const int32_t last = b->n - 1;
    switch (k) {
    case 0: b->size = sizeof *b - 8; return 1;
    case 1: b->n = -1; return 1;
    case 2: b->table = NULL; return 1;
    case 3: t->size = 8; return 1;
    case 4: t->capacity = -1; return 1;
    case 5: b->rows = NULL; return 1;
    case 6: b->slots = NULL; return 1;
    case 7: b->programs = NULL; return 1;
    case 8: b->token_ids = NULL; return 1;
    case 9: b->notes = NULL; return 1;
    case 10: b->status = NULL; return 1;
    case 11: t->params = NULL; return 1;
    case 12: t->seeds = NULL; return 1;
    case 13: t->positions = NULL; return 1;
    case 14: t->offsets = NULL; return 1;
    case 15: t->lengths = NULL; return 1;
    case 16: t->prompt_lengths = NULL; return 1;
    case 17: t->epochs = NULL; return 1;
    case 18: t->tokens = NULL; return 1;
    case 19: t->notes = NULL; return 1;
    case 20: l->device_type = 2; return 1;
    case 21: l->code = 0; return 1;
    case 22:
        l->code = 4;
        l->bits = 32;
        return 1;
    case 23: l->bits = 64; return 1;
    case 24: l->lanes = 2; return 1;
    case 25: l->ndim = 1; return 1;
    case 26: l->ndim = 3; return 1;
    case 27: l->shape = NULL; return 1;
    case 28: l->data = NULL; return 1;
    case 29: shape[0] = -1; return 1;
    case 30: b->vocab_size = 0; return 1;
    case 31: b->vocab_size = -1; return 1;
    case 32: b->vocab_size = shape[1] + 1; return 1;
    case 33: b->vocab_size = shape[1] = INT64_MAX; return 1;
    case 34:
        shape[1] = 2 * b->vocab_size;
        strides[1] = 2;
        l->strides = strides;
        return 1;
    case 35: rows[last] = -1; return 1;
    case 36: rows[last] = shape[0]; return 1;
    case 37: rows[0] = INT64_MAX; return 1;
    case 38: slots[last] = -1; return 1;
    case 39: slots[last] = t->capacity; return 1;
    case 40: programs[last] = UINT32_MAX; return 1;
    case 41:
        masked[last] = 1;
        b->bitmask = NULL;
        return 1;
    case 42:
        masked[last] = 1;
        b->bitmask = (const int32_t *)rows;
        b->bitmask_stride = (b->vocab_size - 1) / 32;
        return 1;
    case 43:
        masked[last] = 1;
        b->bitmask = (const int32_t *)rows;
        b->bitmask_stride = -1;
        return 1;
    default: return 0;
    }
}

static int check_batches(const es_api *api, es_context *context, const fz_step *step, const es_batch *batch) {
    int tried = 0;
    if (!batch->n) return 0;
    const size_t n = (size_t)batch->n;
    fz_memory memory = {NULL, 0};
    for (int k = 0, known = 1; known; k++) {
        es_batch b = *batch;
        es_table table = step->table;
        int64_t shape[2] = {step->shape[0], step->shape[1]}, strides[2] = {step->strides[0], 1};
        int64_t *rows = fz_new(&memory, n * sizeof *rows);
        int32_t *slots = fz_new(&memory, n * sizeof *slots);
        uint32_t *programs = fz_new(&memory, n * sizeof *programs);
        uint8_t *masked = fz_new(&memory, n);
        memcpy(rows, b.rows, n * sizeof *rows);
        memcpy(slots, b.slots, n * sizeof *slots);
        memcpy(programs, b.programs, n * sizeof *programs);
        memset(masked, 0, n);
        b.table = &table;
        b.rows = rows;
        b.slots = slots;
        b.programs = programs;
        b.masked = masked;
        b.logits.shape = shape;
        known = break_batch(k, &b, &table, shape, strides, rows, slots, programs, masked);
        if (known) tried += must_refuse(api, context, api->run(context, &b), "batch", k);
    }
    fz_free(&memory);
    return tried + must_refuse(api, context, api->run(context, NULL), "batch", -1);
}

static int32_t no_function(const es_row *row, float *logits, const int32_t *ids, int64_t n, void *state) {
    (void)row, (void)logits, (void)ids, (void)n, (void)state;
    return 0;
}

/* Break a program of two ops in way number `k`; 0 if there is no such way. */
static int break_program(int k, es_program *p, es_op *ops) {
    static const int32_t kinds[] = {-1, INT32_MIN, ES_OP_GREEDY - 1, 1000, INT32_MAX}; /* no operations */
    const int n_kinds = (int)(sizeof kinds / sizeof *kinds);
    if (k < 2 * n_kinds) {
        ops[k % 2].kind = kinds[k / 2];
        return 1;
    }
    switch (k - 2 * n_kinds) {
    case 0: p->size = 4; return 1;
    case 1: p->n_ops = -1; return 1;
    case 2: p->ops = NULL; return 1;
    case 3: ops[0].size = 8; return 1;
    case 4: ops[0].kind = ES_OP_GREEDY; return 1; /* a selector in the middle */
    case 5:
        ops[0].kind = ES_OP_GREEDY;
        ops[1].kind = ES_OP_TOP_K;
        return 1;
    case 6: ops[0].kind = ES_OP_FUNCTION; return 1;
    case 7: p->n_ops = INT32_MAX; return 1;
    default: return 0;
    }
}

static int check_programs(const es_api *api, es_context *context) {
    int tried = 0;
    for (int k = 0;; k++) {
        uint32_t number = 12345;
        es_op ops[2] = {{.size = sizeof(es_op), .kind = ES_OP_TOP_P},
                        {.size = sizeof(es_op), .kind = ES_OP_DIST}};
        es_program program = {sizeof program, 2, ops};
        if (!break_program(k, &program, ops)) break;
        const es_query query = {.size = sizeof query, .program = &program, .code = 2, .bits = 32};
        es_answer answer = {.size = sizeof answer};
        tried += must_refuse(api, context, api->compile(context, &program, &number), "program", k);
        tried += must_refuse(api, context, api->query(context, &query, &answer), "query for program", k);
        if (number != 12345) fz_fail("program %d was refused and got a number", k);
    }
    es_op many[65];
    for (int i = 0; i < 65; i++) many[i] = (es_op){.size = sizeof(es_op), .function = no_function};
    const es_program program = {sizeof program, 65, many}, empty = {sizeof empty, 0, NULL};
    uint32_t number;
    tried += must_refuse(api, context, api->compile(context, &program, &number), "program", -1);
    tried += must_refuse(api, context, api->compile(context, NULL, &number), "program", -2);
    return tried + must_refuse(api, context, api->compile(context, &empty, NULL), "program", -3);
}

static int check_queries(const es_api *api, es_context *context) {
    es_answer answer = {.size = sizeof answer}, small = {.size = 4};
    const es_query good = {.size = sizeof good, .code = 2, .bits = 32};
    es_query bad[5] = {good, good, good, good, good};
    bad[0].size = 16;
    bad[1].bits = 64;
    bad[2].code = 9;
    bad[3].bits = 8;
    bad[4].code = 4;
    if (api->query(context, &good, &answer) != ES_OK) fz_fail("a plain query was refused");
    for (int k = 0; k < 5; k++) must_refuse(api, context, api->query(context, &bad[k], &answer), "query", k);
    must_refuse(api, context, api->query(context, NULL, &answer), "query", -1);
    must_refuse(api, context, api->query(context, &good, NULL), "query", -2);
    return 7 + must_refuse(api, context, api->query(context, &good, &small), "query", -3);
}

/* Break the arguments of maxima and log_sums in way number `k`; 0 if there is no such way. */
static int break_rows(int k, es_tensor *l, int64_t *shape, int64_t *vocab_size, int64_t *row, int64_t *n) {
    switch (k) {
    case 0: *row = -1; return 1;
    case 1: *row = shape[0]; return 1;
    case 2: l->shape = NULL; return 1;
    case 3: l->data = NULL; return 1;
    case 4: l->bits = 8; return 1;
    case 5: *vocab_size = shape[1] + 1; return 1;
    case 6: *vocab_size = 0; return 1;
    case 7: l->ndim = 1; return 1;
    case 8: *n = -1; return 1;
    default: return 0;
    }
}

static int check_decisions(const es_api *api, es_context *context) {
    es_decisions whole = {.size = sizeof whole}, cut = {.size = sizeof cut - 1};
    return must_refuse(api, context, api->decisions(context, UINT32_MAX, NULL), "decisions", 0) +
           must_refuse(api, context, api->decisions(context, UINT32_MAX - 1, &whole), "decisions", 1) +
           must_refuse(api, context, api->decisions(context, UINT32_MAX, &cut), "decisions", 2);
}

static int check_passes(const es_api *api, es_context *context, const fz_step *step) {
    int tried = 0;
    float maximum;
    double sum;
    if (!step->n_rows) return 0;
    for (int k = 0;; k++) {
        es_tensor logits = step->batch.logits;
        int64_t shape[2] = {step->shape[0], step->shape[1]}, vocab_size = step->batch.vocab_size, row = 0,
                n = 1;
        logits.shape = shape;
        if (!break_rows(k, &logits, shape, &vocab_size, &row, &n)) break;
        tried += must_refuse(api, context, api->maxima(context, &logits, vocab_size, &row, n, &maximum),
                             "maxima", k);
        tried += must_refuse(api, context, api->log_sums(context, &logits, vocab_size, &row, n, &sum),
                             "log_sums", k);
    }
    const es_tensor *logits = &step->batch.logits;
    const int64_t row = 0, V = step->batch.vocab_size;
    tried += must_refuse(api, context, api->maxima(context, NULL, V, &row, 1, &maximum), "maxima", -1);
    tried += must_refuse(api, context, api->maxima(context, logits, V, NULL, 1, &maximum), "maxima", -2);
    return tried + must_refuse(api, context, api->maxima(context, logits, V, &row, 1, NULL), "maxima", -3);
}

int fz_check_refusals(const es_api *api, es_context *context, fz_world *w, const fz_step *step,
                      const es_batch *batch) {
    switch (fz_below(&w->random, 4)) {
    case 0: return check_batches(api, context, step, batch);
    case 1: return check_programs(api, context);
    case 2: return check_queries(api, context) + check_decisions(api, context);
    default: return check_passes(api, context, step);
    }
}

void fz_check_opening(const es_api *api) {
    es_context *context = NULL;
    const es_api *other = NULL;
    const es_options small = {.size = 4}, negative = {.size = sizeof negative, .num_threads = -1};
    const es_options unknown = {.size = sizeof unknown, .isa = "abacus", .device = {1, 0}};
    const es_options elsewhere = {.size = sizeof elsewhere, .device = {12, 0}};
    must_refuse(api, NULL, api->open(&small, &context), "open", 0);
    must_refuse(api, NULL, api->open(&negative, &context), "open", 1);
    must_refuse(api, NULL, api->open(&unknown, &context), "open", 2);
    must_refuse(api, NULL, api->open(&elsewhere, &context), "open", 3);
    must_refuse(api, NULL, api->open(NULL, NULL), "open", 4);
    must_refuse(api, NULL, es_get_api(ES_ABI_OF(ES_ABI_MAJOR + 1, 0), &other), "es_get_api", 0);
    must_refuse(api, NULL, es_get_api(ES_ABI, NULL), "es_get_api", 1);
    if (context || other) fz_fail("a refused call gave something");
    api->close(NULL);
}
