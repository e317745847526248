/* Random cases against the library, through its table alone.
 *
 *   es_fuzz SECONDS [SEED]                      cases for this long, each on every instruction set
 *   es_fuzz case SEED                           one of them again, row by row
 *   es_fuzz digest CASES [ISA] [--threads N]    cases 0 .. CASES - 1: a hash of all results
 *   es_fuzz masks CASES [ISA] [--threads N]     the same for cases in which every row has a mask
 *   es_fuzz changes SECONDS [SEED]              cases whose logits change while they are read (changes.c)
 *   es_fuzz changing-case SEED                  one of them again
 *   es_fuzz plain CASES [ISA] [--threads N]     the same for cases of temperature, top_p and draws alone
 *   es_fuzz edges                               draws and cuts at the edge of what bounds of weights decide
 *   es_fuzz narrow CASES                        plain cases with bounds too narrow, which must be found
 *   es_fuzz against LIBRARY SECONDS [SEED]      the same cases by another build, all results byte for byte (against.c)
 *   es_fuzz isas                                the instruction sets that this machine runs
 *
 * A case is a world of requests and some steps over it (world.h). Every step checks that rows do not depend
 * on their batch, on threads, on earlier computations or on the instruction set; that the selected token is
 * one of those left, and that no sampler brings a removed token back; that faults are reported; that no input
 * is written; that bounds of weights hold, and that what they decide is what the weights decide (bounds.c); and that
 * calls which break the contract are refused. A failure is printed with the case's seed,
 * and the exit status is 1.
 */
#include "against.h"
#include "watch.h"

#include <float.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "operations.h"

typedef struct fz_run {
    const es_api *api;
    const es_api *other; /* of the build that is compared */
    const char *isa;
    int32_t threads;
    int verbose; /* print a line for every row */
    int64_t rows, steps, refusals;
    uint64_t digest;
} fz_run;

/* --- running --- */

static void run_batch(const fz_run *run, es_context *context, es_batch *b) {
    if (run->api->run(context, b) != ES_OK) fz_fail("a step was refused: %s", run->api->error(context));
    int64_t faults = 0;
    for (int32_t i = 0; i < b->n; i++) faults += b->status[i] != ES_ROW_OK;
    if (faults != b->faults)
        fz_fail("%lld faults were counted, %lld reported", (long long)b->faults, (long long)faults);
}

/* Entry i of a step by itself, with program number `program`, and its processed row. */
static es_batch run_alone(const fz_run *run, es_context *context, const fz_step *step, int32_t i,
                          const uint32_t *program, fz_memory *memory) {
    es_batch b = step->batch;
    b.n = 1;
    b.rows += i;
    b.slots += i;
    b.programs = program;
    if (b.masked) b.masked += i;
    fz_add_outputs(&b, step, memory, 1);
    run_batch(run, context, &b);
    return b;
}

/* --- checks --- */

static int same_note(double a, double b) { return memcmp(&a, &b, sizeof a) == 0 || (a != a && b != b); }

static void check_same(const es_batch *a, int32_t i, const es_batch *b, int32_t j, const char *what) {
    const int64_t row = a->rows[i];
    if (a->status[i] != b->status[j])
        fz_fail("entry %d, %s: status %d and %d", i, what, a->status[i], b->status[j]);
    if (a->token_ids[row] != b->token_ids[row])
        fz_fail("entry %d, %s: token %lld and %lld", i, what, (long long)a->token_ids[row],
                (long long)b->token_ids[row]);
    if (!same_note(a->notes[row], b->notes[row]))
        fz_fail("entry %d, %s: note %a and %a", i, what, a->notes[row], b->notes[row]);
    if (a->status[i] != ES_ROW_OK || !a->processed || !b->processed || !a->processed[i] || !b->processed[j])
        return;
    for (int64_t t = 0; t < a->vocab_size; t++)
        if (a->processed[i][t] != b->processed[j][t])
            fz_fail("entry %d, %s: the processed rows differ", i, what);
}

/* The greatest logit as given; NaN counts as the greatest. */
static float greatest_given(const fz_step *step, int64_t row) {
    float best = -__builtin_inff();
    for (int64_t t = 0; t < step->batch.vocab_size; t++) {
        const float x = fz_logit(step, row, t);
        if (x != x) return x;
        best = x > best ? x : best;
    }
    return best;
}

static int given_alive(const fz_step *step, int32_t i, int64_t t) {
    return fz_logit(step, step->batch.rows[i], t) >= -0x1p100f && fz_allowed(step, i, t);
}

static int has_op(const es_program *program, const int32_t *kinds, size_t n) {
    for (int32_t i = 0; i < program->n_ops; i++)
        for (size_t k = 0; k < n; k++)
            if (fz_op(program, i)->kind == kinds[k]) return 1;
    return 0;
}

/* Infill may put back the token that it forces, which is the last one here, unless the mask removes it. */
static int may_return(const fz_step *step, int32_t i, const es_program *program, int64_t t) {
    static const int32_t infill[] = {ES_OP_INFILL};
    return t == step->batch.vocab_size - 1 && fz_allowed(step, i, t) && has_op(program, infill, 1);
}

static void check_status(const fz_step *step, int32_t i, const es_program *program, int32_t status) {
    static const int32_t emptying[] = {ES_OP_FUNCTION, ES_OP_ALLOWED_TOKEN_IDS, ES_OP_BAD_WORDS,
                                       ES_OP_LOGIT_BIAS};
    const float best = greatest_given(step, step->batch.rows[i]);
    if (!(best <= 0x1p100f)) {
        if (status != ES_ROW_BAD_LOGITS) fz_fail("entry %d: bad logits gave status %d", i, status);
        return;
    }
    int any = 0;
    for (int64_t t = 0; t < step->batch.vocab_size && !any; t++) any = given_alive(step, i, t);
    if (!any && status != ES_ROW_EMPTY) fz_fail("entry %d: an empty row gave status %d", i, status);
    if (any && status == ES_ROW_EMPTY && !has_op(program, emptying, 4))
        fz_fail("entry %d: the row was emptied", i);
    const int failed = status == ES_ROW_BAD_VALUE || status == ES_ROW_FUNCTION;
    if (failed && !has_op(program, emptying, 1)) fz_fail("entry %d: status %d without a function", i, status);
    if (status == ES_ROW_BAD_LOGITS || status >= ES_ROW_DECLINED) fz_fail("entry %d: status %d", i, status);
}

/* Check one row that was run by itself, which gives its processed logits. */
static void check_row(const fz_step *step, int32_t i, const es_program *program, const es_batch *b) {
    const int64_t row = *b->rows, V = b->vocab_size, token = b->token_ids[row];
    const float *const left = b->processed[0];
    check_status(step, i, program, *b->status);
    const int selects = program->n_ops && es_is_selector(fz_op(program, program->n_ops - 1)->kind);
    if (*b->status != ES_ROW_OK || !selects) {
        if (token != -1 || b->notes[row] == b->notes[row])
            fz_fail("entry %d has token %lld", i, (long long)token);
        if (*b->status != ES_ROW_OK) return;
    }
    int64_t alive = 0, returned = 0;
    for (int64_t t = 0; t < V; t++) {
        if (!(left[t] <= FLT_MAX))
            fz_fail("entry %d: token %lld was left at %a", i, (long long)t, (double)left[t]);
        if (left[t] < -FLT_MAX) continue;
        returned += !given_alive(step, i, t);
        if (returned && !may_return(step, i, program, t))
            fz_fail("entry %d: token %lld came back", i, (long long)t);
        alive++;
    }
    if (returned && alive > 1) fz_fail("entry %d: a token came back beside others", i);
    if (!alive) fz_fail("entry %d: nothing is left", i);
    if (!selects) return;
    if (token < 0 || token >= V) fz_fail("entry %d: token %lld of %lld", i, (long long)token, (long long)V);
    if (left[token] < -FLT_MAX) fz_fail("entry %d: token %lld was removed before", i, (long long)token);
    if (fz_op(program, program->n_ops - 1)->kind != ES_OP_GREEDY) return;
    for (int64_t t = 0; t < V; t++)
        if (left[t] > left[token] || (left[t] == left[token] && t < token))
            fz_fail("entry %d: greedy missed token %lld", i, (long long)t);
}

/* What the first samplers removed must stay removed. */
static void check_prefix(const fz_step *step, int32_t i, const es_program *program, const es_batch *whole,
                         const es_batch *prefix) {
    if (*whole->status != ES_ROW_OK) return;
    if (*prefix->status != ES_ROW_OK)
        fz_fail("entry %d: half a program gave status %d, all of it none", i, *prefix->status);
    for (int64_t t = 0; t < whole->vocab_size; t++)
        if (whole->processed[0][t] >= -FLT_MAX && prefix->processed[0][t] < -FLT_MAX &&
            !may_return(step, i, program, t))
            fz_fail("entry %d: token %lld came back in the middle", i, (long long)t);
}

/* The passes by themselves: the maximum, and a sum between one and V times its exponential. */
static void check_passes(const fz_run *run, es_context *context, const fz_step *step, int64_t row) {
    const es_tensor *logits = &step->batch.logits;
    const int64_t V = step->batch.vocab_size;
    const float best = greatest_given(step, row);
    float maximum;
    double sum, most = 0;
    if (run->api->maxima(context, logits, V, &row, 1, &maximum) != ES_OK)
        fz_fail("maxima: %s", run->api->error(context));
    if (run->api->log_sums(context, logits, V, &row, 1, &sum) != ES_OK)
        fz_fail("log_sums: %s", run->api->error(context));
    if (best != best) return;
    if (maximum != best)
        fz_fail("row %lld: maximum %a, not %a", (long long)row, (double)maximum, (double)best);
    if (!(best <= FLT_MAX && best >= -FLT_MAX)) return;
    for (int64_t size = 1; size < V; size *= 2) most += 0.6931471805599453;
    if (!(sum >= best - 1e-6 && sum <= best + most + 1e-5))
        fz_fail("row %lld: sum %a with maximum %a", (long long)row, sum, (double)best);
}

/* --- a step --- */

static uint64_t hash_inputs(const fz_world *w, const fz_step *step) {
    return fz_hash_memory(&step->inputs, fz_hash_memory(&w->inputs, 0));
}

static void digest_row(fz_run *run, const es_batch *b) {
    const int64_t row = *b->rows, token = b->token_ids[row];
    const double note = b->notes[row] == b->notes[row] ? b->notes[row] : -1.0; /* NaNs are all alike */
    uint64_t hash = fz_hash(0, b->status, sizeof *b->status);
    hash = fz_hash(hash, &token, sizeof token);
    hash = fz_hash(hash, &note, sizeof note);
    for (int64_t t = 0; *b->status == ES_ROW_OK && t < b->vocab_size; t++) {
        const float left = b->processed[0][t] + 0.0f; /* -0 and 0 are equal, as they are to the samplers */
        hash = fz_hash(hash, &left, sizeof left);
    }
    run->digest = fz_hash(run->digest, &hash, sizeof hash);
    if (run->verbose)
        printf("step %lld slot %d status %d token %lld note %a hash %016llx\n", (long long)run->steps,
               *b->slots, *b->status, (long long)token, note, (unsigned long long)hash);
}

static void print_program(const fz_run *run, const es_program *program) {
    if (!run->verbose) return;
    printf("ops");
    for (int32_t i = 0; i < program->n_ops; i++) printf(" %d", fz_op(program, i)->kind);
    printf(": ");
}

/* Run every row again by itself, in a fresh context, and check what must hold for it. */
static void check_rows(fz_run *run, const fz_world *w, const fz_step *step, const es_batch *together) {
    es_context *cold = fz_open(run->api, run->isa, 1, w);
    for (int32_t i = 0; i < together->n; i++) {
        fz_memory memory = {NULL, 0};
        const uint32_t number = together->programs[i], prefix = number + (uint32_t)w->n_programs;
        const es_batch alone = run_alone(run, cold, step, i, &number, &memory);
        check_same(together, i, &alone, 0, "together and alone");
        check_row(step, i, &w->programs[number].program, &alone);
        const es_batch half = run_alone(run, cold, step, i, &prefix, &memory);
        check_prefix(step, i, &w->programs[number].program, &alone, &half);
        check_passes(run, cold, step, together->rows[i]);
        print_program(run, &w->programs[number].program);
        digest_row(run, &alone);
        fz_free(&memory);
    }
    run->api->close(cold);
}

static void run_step(fz_run *run, es_context *context, fz_world *w) {
    fz_step step;
    fz_memory outputs = {NULL, 0};
    fz_step_make(&step, w);
    const uint64_t before = hash_inputs(w, &step);
    es_batch first = step.batch, again = step.batch;
    fz_add_outputs(&first, &step, &outputs, fz_bits(&w->random));
    fz_add_outputs(&again, &step, &outputs, fz_chance(&w->random, 50) ? fz_bits(&w->random) : 0);
    run_batch(run, context, &first);
    run->refusals += fz_check_refusals(run->api, context, w, &step, &first);
    run_batch(run, context, &again);
    for (int32_t i = 0; i < first.n; i++) check_same(&first, i, &again, i, "twice");
    check_rows(run, w, &step, &first);
    if (hash_inputs(w, &step) != before) fz_fail("inputs were written");
    fz_world_advance(w, &step, first.token_ids, first.notes);
    run->rows += first.n;
    run->steps++;
    fz_step_free(&step);
    fz_free(&outputs);
}

/* One case on one instruction set; its outputs go into the run's digest. */
static void run_case(fz_run *run, uint64_t seed) {
    fz_world world;
    fz_watch_case(seed, "case");
    fz_world_make(&world, seed);
    es_context *context = fz_open(run->api, run->isa, run->threads, &world);
    for (int64_t steps = fz_from(&world.random, 1, world.is_wide ? 2 : 5); steps; steps--)
        run_step(run, context, &world);
    run->api->close(context);
    fz_world_free(&world);
}

/* --- the commands --- */

enum { FZ_MOST_ISAS = 5 };

static int has_isa(const es_api *api, const char *name) {
    const es_options options = {.size = sizeof options, .num_threads = 1, .isa = name, .device = {1, 0}};
    es_context *context;
    if (api->open(&options, &context) != ES_OK) return 0;
    if (strcmp(api->target(context), name)) fz_fail("%s is %s", name, api->target(context));
    api->close(context);
    return 1;
}

/* The instruction sets that this library contains and this machine runs. */
static int find_isas(const es_api *api, const char **found) {
    static const char *const names[FZ_MOST_ISAS] = {"baseline", "avx2", "avx512", "neon", "portable"};
    int n = 0;
    for (int i = 0; i < FZ_MOST_ISAS; i++)
        if (has_isa(api, names[i])) found[n++] = names[i];
    return n;
}

/* A case on all instruction sets, each with its own number of threads: all digests must be equal. */
static void run_everywhere(fz_run *run, uint64_t seed, const char *const *isas, int n) {
    static const int32_t threads[] = {1, 2, 8};
    uint64_t digest = 0;
    for (int i = 0; i < n; i++) {
        run->isa = isas[i];
        run->threads = threads[(seed + (uint64_t)i) % 3];
        run->digest = 0;
        if (run->verbose) printf("%s\n", run->isa);
        run_case(run, seed);
        if (i && run->digest != digest) fz_fail("%s gives other results than %s", isas[i], isas[0]);
        digest = run->digest;
    }
}

static double seconds_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* Cases whose logits change, on all instruction sets. */
static void change_everywhere(fz_run *run, uint64_t seed, const char *const *isas, int n) {
    for (int i = 0; i < n; i++) {
        fz_watch_case(seed, "changing-case");
        run->rows += fz_run_changing(run->api, isas[i], seed);
    }
}

/* Cases by two builds, on all instruction sets that both have. */
static void compare_everywhere(fz_run *run, uint64_t seed, const char *const *isas, int n) {
    for (int i = 0; i < n; i++) {
        if (!has_isa(run->other, isas[i])) continue;
        fz_watch_case(seed, "case");
        run->rows += fz_run_against(run->api, run->other, isas[i], seed);
    }
}

typedef void fz_case(fz_run *run, uint64_t seed, const char *const *isas, int n);

static int fuzz(fz_run *run, fz_case *do_case, double seconds, uint64_t seed) {
    const char *isas[FZ_MOST_ISAS];
    const int n = find_isas(run->api, isas);
    const double end = seconds_now() + seconds;
    uint64_t cases = 0;
    do {
        do_case(run, seed + cases, isas, n);
        do_case(run, (seed + cases) | FZ_PLAIN, isas, n);
        do_case(run, (seed + cases++) | FZ_MASKED, isas, n);
    } while (seconds_now() < end);
    printf("%llu cases from seed %llu on %d instruction sets: %lld steps, %lld rows, %lld refusals\n",
           (unsigned long long)(3 * cases), (unsigned long long)seed, n, (long long)run->steps,
           (long long)run->rows, (long long)run->refusals);
    return 0;
}

static int print_digest(fz_run *run, uint64_t cases, uint64_t marks) {
    for (uint64_t seed = 0; seed < cases; seed++) run_case(run, seed | marks);
    printf("%016llx\n", (unsigned long long)run->digest);
    return 0;
}

static int check_edges(const es_api *api) {
    const char *isas[FZ_MOST_ISAS];
    const int n = find_isas(api, isas);
    int edges = 0;
    for (int i = 0; i < n; i++) edges += fz_check_edges(api, isas[i]);
    printf("%d edges on %d instruction sets\n", edges, n);
    return 0;
}

typedef struct fz_narrow {
    fz_run *run;
    uint64_t cases;
} fz_narrow;

static void run_narrow(void *argument) {
    const fz_narrow *narrow = argument;
    for (uint64_t seed = 0; seed < narrow->cases; seed++) run_case(narrow->run, seed | FZ_PLAIN);
}

static int find_narrow(fz_run *run, uint64_t cases) {
    fz_narrow narrow = {run, cases};
    const int64_t found = fz_count_narrow(run_narrow, &narrow);
    if (!found) fz_fail("bounds that are too narrow were not found");
    printf("%lld bounds did not hold\n", (long long)found);
    return 0;
}

static int print_isas(const es_api *api) {
    const char *isas[FZ_MOST_ISAS];
    const int n = find_isas(api, isas);
    for (int i = 0; i < n; i++) puts(isas[i]);
    return 0;
}

static int complain(const char *name) {
    fprintf(stderr,
            "usage: %s SECONDS [SEED] | case SEED | changes SECONDS [SEED] | changing-case SEED |\n"
            "       against LIBRARY SECONDS [SEED] | edges | narrow CASES | isas |\n"
            "       {digest | masks | plain} CASES [ISA] [--threads N]\n",
            name);
    return FZ_USAGE;
}

static int run_command(fz_run *run, int argc, char **argv) {
    const char *isas[FZ_MOST_ISAS];
    if (argc >= 4 && !strcmp(argv[argc - 2], "--threads")) {
        run->threads = (int32_t)atoi(argv[argc - 1]);
        argc -= 2;
    }
    if (argc == 2 && !strcmp(argv[1], "isas")) return print_isas(run->api);
    if (argc == 2 && !strcmp(argv[1], "edges")) return check_edges(run->api);
    if (argc == 3 && !strcmp(argv[1], "narrow")) return find_narrow(run, strtoull(argv[2], NULL, 10));
    if (argc == 3 && !strcmp(argv[1], "case")) {
        run->verbose = 1;
        run_everywhere(run, strtoull(argv[2], NULL, 10), isas, find_isas(run->api, isas));
        return 0;
    }
    if (argc == 3 && !strcmp(argv[1], "changing-case")) {
        change_everywhere(run, strtoull(argv[2], NULL, 10), isas, find_isas(run->api, isas));
        return 0;
    }
    if ((argc == 3 || argc == 4) && !strcmp(argv[1], "changes"))
        return fuzz(run, change_everywhere, atof(argv[2]), argc == 4 ? strtoull(argv[3], NULL, 10) : 0);
    if ((argc == 4 || argc == 5) && !strcmp(argv[1], "against")) {
        run->other = fz_load(argv[2]);
        return fuzz(run, compare_everywhere, atof(argv[3]), argc == 5 ? strtoull(argv[4], NULL, 10) : 0);
    }
    const int masks = argc > 1 && !strcmp(argv[1], "masks"), plain = argc > 1 && !strcmp(argv[1], "plain");
    if ((argc == 3 || argc == 4) && (masks || plain || !strcmp(argv[1], "digest"))) {
        run->isa = argc == 4 ? argv[3] : NULL;
        return print_digest(run, strtoull(argv[2], NULL, 10), masks ? FZ_MASKED : plain ? FZ_PLAIN : 0);
    }
    if ((argc == 2 || argc == 3) && atof(argv[1]) > 0)
        return fuzz(run, run_everywhere, atof(argv[1]), argc == 3 ? strtoull(argv[2], NULL, 10) : 0);
    return complain(argv[0]);
}

static int run_all(int argc, char **argv) {
    fz_run run = {.threads = 1};
    if (es_get_api(ES_ABI, &run.api) != ES_OK) fz_fail("no table");
    fz_check_opening(run.api);
    fz_check_bounds();
    return run_command(&run, argc, argv);
}

int main(int argc, char **argv) { return fz_watched(run_all, argc, argv); }
