/* Bounds of weights, and what the kernels decide by them: compared with the weights themselves by hooks that the
 * kernels call when they are compiled for the fuzzer (ES_FUZZ_CHANGES). */
#include "engine_sampler_numbers.h"
#include "world.h"

extern void (*es_on_bound)(const char *what, int64_t least, int64_t exact, int64_t most);
extern void (*es_on_decision)(int is_certain);
extern double es_bound_width;

static int64_t broken, certain, open_ones;
static int first; /* whether the first decision of an edge was certain */

static void fail_beyond(const char *what, int64_t least, int64_t exact, int64_t most) {
    if (exact < least || exact > most)
        fz_fail("%s: %lld is not between %lld and %lld", what, (long long)exact, (long long)least,
                (long long)most);
}

static void count_beyond(const char *what, int64_t least, int64_t exact, int64_t most) {
    broken += *what && (exact < least || exact > most);
}

static void count_decision(int is_certain) {
    if (!certain && !open_ones) first = is_certain;
    certain += is_certain;
    open_ones += !is_certain;
}

void fz_check_bounds(void) { es_on_bound = fail_beyond; }

int64_t fz_count_narrow(void (*run)(void *argument), void *argument) {
    broken = 0;
    es_on_bound = count_beyond;
    es_bound_width = 0.03;
    run(argument);
    es_bound_width = 1;
    fz_check_bounds();
    return broken;
}

/* --- edges --- */

enum { FZ_WIDTH = 8192 }; /* 32 chunks; the two tokens that are left lie in two of them */

/* One row with two tokens, the second `logit` above the first at 0, and how it is drawn from. With a mask, half of
 * all tokens are left, among them these two but not the greatest. Or the greatest is removed by its bias: it was so far
 * above the two that they seemed to weigh nothing. */
typedef struct fz_edge {
    float logit;
    double top_p, xtc;
    uint64_t seed;
} fz_edge;

/* Run the edge with program `number`; returns the token. */
static int64_t run_edge(const es_api *api, es_context *context, uint32_t number, const fz_edge *edge) {
    static uint64_t epoch;
    static float logits[FZ_WIDTH];
    es_params params = {.size = sizeof params,
                        .temperature = 1,
                        .top_p = edge->top_p,
                        .xtc_probability = 1,
                        .xtc_threshold = edge->xtc};
    static int32_t mask[FZ_WIDTH / 32];
    const uint8_t masked = edge->seed % 3 == 1;
    int64_t biased = 501;
    float bias = -__builtin_inff();
    if (edge->seed % 3 == 2) {
        params.biased_token_ids = (es_ids){&biased, 1};
        params.biases = &bias;
    }
    memset(mask, 0x55, sizeof mask);
    for (int i = 0; i < FZ_WIDTH; i++) logits[i] = -__builtin_inff();
    logits[100] = 0;
    logits[900] = edge->logit;
    if (edge->seed % 3) logits[501] = masked ? 9 : 90;
    int64_t shape[2] = {1, FZ_WIDTH}, zero = 0, row = 0, token = -1, text = 0;
    int32_t slot = 0, status = 0;
    double note;
    epoch++;
    const es_table table = {sizeof table, 1,     &params, &edge->seed, &zero, &zero,
                            &zero,        &zero, &epoch,  &text,       &note};
    es_batch batch = {.size = sizeof batch,
                      .n = 1,
                      .vocab_size = FZ_WIDTH,
                      .table = &table,
                      .rows = &row,
                      .slots = &slot,
                      .programs = &number,
                      .masked = &masked,
                      .bitmask = mask,
                      .bitmask_stride = FZ_WIDTH / 32,
                      .token_ids = &token,
                      .notes = &note,
                      .status = &status};
    batch.logits = (es_tensor){
        .data = logits, .device_type = 1, .ndim = 2, .code = 2, .bits = 32, .lanes = 1, .shape = shape};
    certain = open_ones = 0;
    if (api->run(context, &batch) != ES_OK || status != ES_ROW_OK) fz_fail("an edge was refused");
    return token;
}

static void expect(const char *what, int is_decided) {
    if ((certain > 0) != is_decided) fz_fail("%s was%s decided by bounds", what, certain ? "" : " not");
    if (certain + open_ones < 1) fz_fail("%s has no bounds", what);
}

/* The weight of the second token relative to the first. */
static double odds_of(float logit) { return es_exp2((double)es_distance(logit, 0.0f)); }

/* A draw whose random number lies `away`, relative to the total, from where the second token begins. */
static void draw_at(const es_api *api, es_context *context, uint32_t number, uint64_t seed, double away) {
    const double u = (double)es_draw64(seed, 0, 0, 0) * 0x1p-64;
    if (u < 0.1 || u > 0.9) return; /* at these, the row would have one token */
    const double share = u + away; /* of the first token */
    const fz_edge edge = {(float)(es_log2(1 / share - 1) / (double)ES_LOG2_E), 1, 0, seed};
    const int64_t token = run_edge(api, context, number, &edge);
    expect(away == 0 ? "a draw at the edge" : "a draw beside the edge", away != 0);
    if (away != 0 && token != (away > 0 ? 100 : 900))
        fz_fail("a draw beside the edge gave token %lld", (long long)token);
}

/* A cut with the first token's share `away` from top_p, of a row in which it is the likelier one. */
static void cut_at(const es_api *api, es_context *context, uint32_t number, uint64_t seed, double away) {
    const float logit = -(float)(0.1 + (double)(seed % 20) / 10);
    const double share = 1 / (1 + odds_of(logit));
    const fz_edge edge = {logit, share + ES_MASS_SLACK + away, 0, seed};
    const int64_t token = run_edge(api, context, number, &edge);
    if (away == 0 ? open_ones == 0 : open_ones != 0)
        fz_fail("a cut %g from the edge was%s open", away, open_ones ? "" : " not");
    if (away < 0 && token != 100) fz_fail("a cut below the edge left token %lld", (long long)token);
}

/* A threshold `away` from the share of the second token, the less likely one: if that reaches it, the other one is
 * excluded. */
static void keep_at(const es_api *api, es_context *context, uint32_t number, uint64_t seed, double away) {
    const float logit = -(float)(0.1 + (double)(seed % 20) / 10);
    const double share = 1 - 1 / (1 + odds_of(logit));
    const fz_edge edge = {logit, 1, share * (1 + ES_MASS_SLACK) + away, seed};
    const int64_t token = run_edge(api, context, number, &edge);
    if (first != (away != 0))
        fz_fail("a threshold %g from the edge was%s decided", away, first ? "" : " not");
    if (away < 0 && token != 900) fz_fail("a threshold below the edge left token %lld", (long long)token);
}

int fz_check_edges(const es_api *api, const char *isa) {
    enum { SEEDS = 200 };
    static const double away[] = {0, 1e-4, -1e-4};
    const es_options options = {.size = sizeof options, .num_threads = 1, .isa = isa, .device = {1, 0}};
    const es_op bias = {.size = sizeof bias, .kind = ES_OP_LOGIT_BIAS};
    const es_op dist = {.size = sizeof dist, .kind = ES_OP_DIST};
    const es_op cutting[] = {bias, {.size = sizeof bias, .kind = ES_OP_TOP_P}, dist};
    const es_op excluding[] = {bias, {.size = sizeof bias, .kind = ES_OP_XTC}, dist};
    const es_op drawing[] = {bias, dist};
    const es_program cut = {sizeof cut, 3, cutting}, draw = {sizeof draw, 2, drawing},
                     keep = {sizeof keep, 3, excluding};
    uint32_t cuts, draws, keeps;
    es_context *context;
    if (api->open(&options, &context) != ES_OK || api->compile(context, &cut, &cuts) != ES_OK ||
        api->compile(context, &draw, &draws) != ES_OK || api->compile(context, &keep, &keeps) != ES_OK)
        fz_fail("no context for %s", isa);
    es_on_decision = count_decision;
    for (uint64_t seed = 0; seed < SEEDS; seed++)
        for (int i = 0; i < 3; i++) {
            draw_at(api, context, draws, seed, away[i]);
            cut_at(api, context, cuts, seed, away[i]);
            keep_at(api, context, keeps, seed, away[i]);
        }
    es_on_decision = NULL;
    api->close(context);
    return 9 * SEEDS;
}
