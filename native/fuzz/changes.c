/* Logits that change while they are read: an asynchronous copy that has not finished. Their tokens are
 * undefined, but no call may crash, hang, or write a token that does not exist.
 *
 * They change in two ways: deterministically, between any two reads of a row, by the hook that the kernels call
 * when they are compiled for the fuzzer (ES_FUZZ_CHANGES); and by a second thread that writes all the time.
 */
#include "world.h"

#include <pthread.h>
#include <stdatomic.h>

/* The hook; in the kernels' words, `kind` is 0 for float32, 1 for float16, 2 for bfloat16. */
extern void (*es_on_read)(const void *row, int32_t kind, int64_t n);
extern void (*es_on_bound)(const char *what, int64_t least, int64_t exact, int64_t most);

static struct {
    uint64_t seed;
    _Atomic uint64_t reads;
    uint64_t rarity; /* one read in this many changes the row */
} changes;

/* --- changing a row --- */

/* -inf, +inf, NaN, the finite extremes, 2^100 and its neighbours, and 0, by element type. */
static const uint32_t awkward[3][8] = {
    {0xFF800000, 0x7F800000, 0x7FC00000, 0x7F7FFFFF, 0xFF7FFFFF, 0x71800000, 0x71800001, 0},
    {0xFC00, 0x7C00, 0x7E00, 0x7BFF, 0xFBFF, 0x3C00, 0xBC00, 0},
    {0xFF80, 0x7F80, 0x7FC0, 0x7F7F, 0xFF7F, 0x7180, 0x7181, 0},
};

static void put_bits(void *row, int32_t kind, int64_t i, uint32_t bits) {
    if (kind == 0) ((volatile uint32_t *)row)[i] = bits;
    else ((volatile uint16_t *)row)[i] = (uint16_t)bits;
}

/* One element, some, or all of the row become one awkward value or random bits. */
static void change_row(fz_random *r, void *row, int32_t kind, int64_t n) {
    const int64_t style = fz_below(r, 12), every = (int64_t)FZ_ONE_OF(r, 1, 2, 7, 300, 1e9, 1e9);
    for (int64_t i = fz_below(r, every < n ? every : n); i < n; i += every)
        put_bits(row, kind, i, style < 8 ? awkward[kind][style] : (uint32_t)fz_bits(r));
}

static void change_between_reads(const void *row, int32_t kind, int64_t n) {
    fz_random r = {fz_mix(changes.seed + atomic_fetch_add(&changes.reads, 1))};
    if (fz_bits(&r) % changes.rarity == 0) change_row(&r, (void *)row, kind, n);
}

typedef struct fz_writer {
    const fz_step *step;
    uint64_t seed;
    _Atomic int stops;
} fz_writer;

static void *write_rows(void *argument) {
    fz_writer *writer = argument;
    const es_tensor *t = &writer->step->batch.logits;
    const int64_t stride = t->strides ? t->strides[0] : t->shape[1];
    const int32_t kind = t->bits == 32 ? 0 : t->code == 2 ? 1 : 2;
    fz_random r = {writer->seed};
    while (!atomic_load(&writer->stops)) {
        const int64_t at = fz_below(&r, t->shape[0]) * stride * (t->bits / 8);
        change_row(&r, (char *)t->data + t->byte_offset + at, kind, writer->step->batch.vocab_size);
    }
    return NULL;
}

/* --- a step --- */

/* Logprobs of all kinds for some of the rows. */
static void add_logprobs(es_batch *b, const fz_step *step, const fz_world *w, fz_random *r,
                         fz_memory *memory) {
    const size_t n = (size_t)b->n, rows = (size_t)step->n_rows;
    es_logprobs *out = fz_new(memory, 3 * sizeof *out);
    uint8_t *kinds = fz_new(memory, n);
    int64_t *top_n = fz_new(memory, n * sizeof *top_n);
    uint32_t *edits = fz_new(memory, n * sizeof *edits);
    int64_t *starts = fz_new(memory, (rows + 1) * sizeof *starts);
    for (size_t row = 0; row <= rows; row++) starts[row] = (int64_t)row * (b->vocab_size + 1);
    for (int kind = 0; kind < 3; kind++) {
        const size_t size = rows * (size_t)(b->vocab_size + 1);
        out[kind] = (es_logprobs){.size = sizeof *out, .starts = starts};
        out[kind].token_ids = fz_new(memory, size * sizeof *out->token_ids);
        out[kind].logprobs = fz_new(memory, size * sizeof *out->logprobs);
        out[kind].ranks = fz_new(memory, rows * sizeof *out->ranks);
        memset(out[kind].token_ids, 0, size * sizeof *out->token_ids);
    }
    for (size_t i = 0; i < n; i++) {
        kinds[i] = (uint8_t)fz_below(r, 8);
        top_n[i] = (int64_t)FZ_ONE_OF(r, -1, 0, 1, 20, 1e6);
        if (top_n[i] > b->vocab_size) top_n[i] = b->vocab_size;
        edits[i] = b->programs[i] + (uint32_t)w->n_programs; /* the first samplers of its program */
    }
    b->logprobs = out;
    b->logprobs_kinds = kinds;
    b->top_n = top_n;
    b->edits = edits;
}

static void check_tokens(const es_batch *b, int64_t n_rows) {
    for (int32_t i = 0; i < b->n; i++) {
        const int64_t token = b->token_ids[b->rows[i]];
        if (token < -1 || token >= b->vocab_size) fz_fail("entry %d: token %lld", i, (long long)token);
        if (b->status[i] != ES_ROW_OK && token >= 0) fz_fail("entry %d: a token, status %d", i, b->status[i]);
        if (b->status[i] < ES_ROW_OK || b->status[i] > ES_ROW_DECLINED)
            fz_fail("entry %d: status %d", i, b->status[i]);
    }
    for (int kind = 0; b->logprobs && kind < 3; kind++)
        for (int64_t i = 0; i < b->logprobs[kind].starts[n_rows]; i++)
            if (b->logprobs[kind].token_ids[i] < 0 || b->logprobs[kind].token_ids[i] >= b->vocab_size)
                fz_fail("logprobs %d list token %lld", kind, (long long)b->logprobs[kind].token_ids[i]);
}

/* The single passes of the table on changing rows: any number will do. */
static void run_passes(const es_api *api, es_context *context, const es_batch *b, fz_memory *memory) {
    const size_t n = (size_t)b->n;
    float *maxima = fz_new(memory, n * sizeof *maxima);
    double *sums = fz_new(memory, n * sizeof *sums);
    if (api->maxima(context, &b->logits, b->vocab_size, b->rows, b->n, maxima) != ES_OK)
        fz_fail("maxima: %s", api->error(context));
    if (api->log_sums(context, &b->logits, b->vocab_size, b->rows, b->n, sums) != ES_OK)
        fz_fail("log_sums: %s", api->error(context));
}

static void run_changing_step(const es_api *api, es_context *context, fz_world *w, int by_thread) {
    fz_step step;
    fz_memory outputs = {NULL, 0};
    fz_random r = {fz_bits(&w->random)};
    fz_step_make(&step, w);
    es_batch batch = step.batch;
    fz_add_outputs(&batch, &step, &outputs, fz_bits(&r));
    if (fz_chance(&r, 50)) add_logprobs(&batch, &step, w, &r, &outputs);
    fz_writer writer = {.step = &step, .seed = fz_bits(&r)};
    pthread_t thread;
    const int writes = by_thread && step.n_rows && !pthread_create(&thread, NULL, write_rows, &writer);
    changes.seed = fz_bits(&r);
    changes.rarity = (uint64_t)FZ_ONE_OF(&r, 1, 2, 10, 100);
    atomic_store(&changes.reads, 0);
    es_on_read = by_thread ? NULL : change_between_reads;
    for (int times = by_thread ? 4 : 1; times; times--) {
        if (api->run(context, &batch) != ES_OK) fz_fail("a step was refused: %s", api->error(context));
        check_tokens(&batch, step.n_rows);
        run_passes(api, context, &batch, &outputs);
    }
    es_on_read = NULL;
    atomic_store(&writer.stops, 1);
    if (writes) pthread_join(thread, NULL);
    fz_world_advance(w, &step, batch.token_ids, batch.notes);
    fz_step_free(&step);
    fz_free(&outputs);
}

int64_t fz_run_changing(const es_api *api, const char *isa, uint64_t seed) {
    int64_t rows = 0;
    es_on_bound = NULL; /* bounds of a row that changes do not hold */
    for (int by_thread = 0; by_thread < 2; by_thread++) {
        fz_world world;
        fz_world_make(&world, seed);
        es_context *context = fz_open(api, isa, by_thread && seed % 2 ? 2 : 1, &world);
        for (int steps = world.is_wide ? 1 : 3; steps; steps--) {
            run_changing_step(api, context, &world, by_thread);
            rows += world.capacity;
        }
        api->close(context);
        fz_world_free(&world);
    }
    return rows;
}
