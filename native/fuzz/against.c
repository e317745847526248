/* Another build of the library beside this one: the same cases, and every byte of their results compared. */
#include "against.h"

#include <stdio.h>
#include <string.h>

#if defined(_WIN32)

const es_api *fz_load(const char *path) { fz_fail("%s: no other build can be loaded here", path); }

#else

#include <dlfcn.h>

const es_api *fz_load(const char *path) {
    void *const library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) fz_fail("%s", dlerror());
    void *const symbol = dlsym(library, "es_get_api");
    if (!symbol) fz_fail("%s has no es_get_api", path);
    int32_t (*get)(uint32_t, const es_api **);
    memcpy(&get, &symbol, sizeof get); /* C has no cast from an object to a function */
    const es_api *api;
    if (get(ES_ABI, &api) != ES_OK) fz_fail("%s has another ABI", path);
    return api;
}

#endif

enum { FZ_ENTRIES = 21 }; /* room for the logprobs of a row */

/* What logprobs a step wants. */
typedef struct fz_wanted {
    uint64_t processed; /* bit i: the processed row of entry i */
    int64_t *starts, *top_n;
    uint8_t *kinds;
    uint32_t *edits;
} fz_wanted;

static fz_wanted make_wanted(fz_world *w, fz_step *step) {
    fz_random *r = &w->random;
    const es_batch *b = &step->batch;
    const size_t n = (size_t)b->n, rows = (size_t)step->n_rows;
    const fz_wanted wanted = {fz_bits(r), fz_new(&step->inputs, (rows + 1) * sizeof(int64_t)),
                              fz_new(&step->inputs, n * sizeof(int64_t)), fz_new(&step->inputs, n),
                              fz_new(&step->inputs, n * sizeof(uint32_t))};
    for (size_t row = 0; row <= rows; row++) wanted.starts[row] = (int64_t)row * FZ_ENTRIES;
    for (size_t i = 0; i < n; i++) {
        wanted.top_n[i] = (int64_t)FZ_ONE_OF(r, 0, 1, 5, FZ_ENTRIES - 1);
        wanted.kinds[i] = (uint8_t)(fz_chance(r, 30) ? fz_below(r, 8) : 0);
        wanted.edits[i] = b->programs[i] + (uint32_t)w->n_programs; /* any of its first samplers */
    }
    return wanted;
}

/* All results of a step on one build, in `outputs`. */
static es_batch run_whole(const es_api *api, es_context *context, const fz_step *step,
                          const fz_wanted *wanted, fz_memory *outputs) {
    const size_t entries = (size_t)step->n_rows * FZ_ENTRIES;
    es_logprobs tables[3];
    es_batch b = step->batch;
    fz_add_outputs(&b, step, outputs, wanted->processed);
    for (int kind = 0; kind < 3; kind++)
        tables[kind] = (es_logprobs){.size = sizeof *tables,
                                     .starts = wanted->starts,
                                     .token_ids = fz_new(outputs, entries * sizeof(int64_t)),
                                     .logprobs = fz_new(outputs, entries * sizeof(float)),
                                     .ranks = fz_new(outputs, (size_t)step->n_rows * sizeof(int64_t))};
    b.logprobs = tables;
    b.logprobs_kinds = wanted->kinds;
    b.top_n = wanted->top_n;
    b.edits = wanted->edits;
    if (api->run(context, &b) != ES_OK) fz_fail("a step was refused: %s", api->error(context));
    b.logprobs = NULL;
    return b;
}

/* Outputs are allocated in the same order; the list of processed rows holds addresses. */
static int are_same(const fz_memory *a, const fz_memory *b, const void *addresses) {
    for (size_t i = 0; i < a->n; i++)
        if (a->blocks[i].bytes != addresses && a->blocks[i].size &&
            memcmp(a->blocks[i].bytes, b->blocks[i].bytes, a->blocks[i].size) != 0)
            return 0;
    return 1;
}

int64_t fz_run_against(const es_api *api, const es_api *other, const char *isa, uint64_t seed) {
    fz_world world;
    int64_t rows = 0;
    fz_world_make(&world, seed);
    es_context *const context = fz_open(api, isa, 1, &world), *const beside = fz_open(other, isa, 1, &world);
    for (int64_t steps = fz_from(&world.random, 1, world.is_wide ? 2 : 5); steps; steps--) {
        fz_step step;
        fz_memory outputs = {NULL, 0}, expected = {NULL, 0};
        fz_step_make(&step, &world);
        const fz_wanted wanted = make_wanted(&world, &step);
        const es_batch b = run_whole(api, context, &step, &wanted, &outputs);
        run_whole(other, beside, &step, &wanted, &expected);
        /* A list of addresses is there whether or not it is used: it is the fourth output. */
        if (!are_same(&outputs, &expected, outputs.blocks[3].bytes))
            fz_fail("the other build gives other results on %s", isa);
        rows += b.n;
        fz_world_advance(&world, &step, b.token_ids, b.notes);
        fz_step_free(&step);
        fz_free(&outputs);
        fz_free(&expected);
    }
    api->close(context);
    other->close(beside);
    fz_world_free(&world);
    return rows;
}
