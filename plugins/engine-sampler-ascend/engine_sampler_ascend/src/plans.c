/* Plans: how much memory the runs of a shape need, and what each run keeps on the host. */
#include "spans.h"

#include <stdlib.h>

enum { CACHE_LINE = 64, MOST_TENSORS = 13 /* of a span */, MOST_REGIONS = 5 };

size_t ascend_aligned(size_t bytes) { return (bytes + CACHE_LINE - 1) / CACHE_LINE * CACHE_LINE; }

int32_t ascend_type(uint8_t code, uint8_t bits) {
    if (code == 2 && bits == 32) return ACL_FLOAT;
    if (code == 2 && bits == 16) return ACL_FLOAT16;
    return code == 4 && bits == 16 ? ACL_BF16 : -1;
}

size_t ascend_size(int32_t type) { return type == ACL_FLOAT ? 4 : 2; }

int64_t ascend_width(int64_t top_k, int64_t vocab_size) {
    const int64_t step = 32, width = (top_k + SPARE_CANDIDATES + step - 1) / step * step;
    return width < vocab_size ? width : vocab_size;
}

ascend_plan *ascend_plan_of(es_context *context, uint32_t number) {
    for (int i = 0; number && i < MOST_PLANS; i++)
        if (context->plans[i].number == number) return &context->plans[i];
    return NULL;
}

/* --- memory of the device --- */

static size_t place(size_t *at, size_t bytes) {
    const size_t here = *at;
    *at += ascend_aligned(bytes);
    return here;
}

/* How many candidates of a row may be wanted, and how much noise, by the programs of a shape. */
static void read_widths(const es_context *context, const es_shape *shape, ascend_plan *plan) {
    bool needs_most = shape->masked, has_top_k = false;
    for (int64_t i = 0; i < shape->n_programs; i++) {
        const ascend_program *program = &context->programs[shape->programs[i]];
        const bool cuts = ascend_has(program, ES_OP_TOP_K);
        const int64_t noise = ascend_noise_width(program, plan->vocab_size);
        needs_most |= program->way == FILTERED || ascend_has(program, ES_OP_PENALTIES);
        has_top_k |= cuts;
        if (program->way == DRAWN && noise > plan->noise_width) plan->noise_width = noise;
    }
    const int64_t asked = shape->most_top_k > 0 && shape->most_top_k < MOST_TOP_K ? shape->most_top_k
                                                                                  : MOST_TOP_K;
    plan->width = ascend_width(needs_most ? MOST_TOP_K : has_top_k ? asked : 0, plan->vocab_size);
}

static void lay_out(ascend_plan *plan, const bool *ways) {
    const size_t n = (size_t)plan->rows, cells = n * (size_t)plan->vocab_size, size = ascend_size(plan->type);
    const bool few = ways[CANDIDATES] || ways[FILTERED];
    const size_t one = sizeof(float) + size + sizeof(int64_t);
    plan->results = n * (MOST_REGIONS * CACHE_LINE + one +
                         (few ? (size_t)plan->width * (size + sizeof(int64_t)) : 0));
    plan->inputs = ways[FILTERED] || ways[DRAWN] ? n * 4 * (CACHE_LINE + sizeof(float)) : 0;
    plan->noise = n * (size_t)plan->noise_width * sizeof(float);
    size_t at = ascend_aligned(plan->results);
    plan->inputs_at = place(&at, plan->inputs);
    plan->noise_at = place(&at, ways[DRAWN] ? cells * sizeof(float) : 0);
    plan->scaled_at = place(&at, ways[DRAWN] ? cells * sizeof(float) : 0);
    plan->select_at = place(&at, ways[DRAWN] ? cells * sizeof(float) : 0);
    plan->sorted_at = place(&at, ways[DRAWN] ? cells * sizeof(float) : 0);
    plan->index_at = place(&at, ways[DRAWN] ? cells * sizeof(int64_t) : 0);
    plan->filtered_at = place(&at, ways[FILTERED] ? cells * size : 0);
    plan->scratch_at = at;
    plan->pinned = ascend_aligned(plan->results) + ascend_aligned(plan->inputs) + ascend_aligned(plan->noise);
}

/* Ask the operators of one way what workspace `n` rows need. */
static int32_t measure(es_context *context, ascend_plan *plan, ascend_way way, int64_t n, int64_t stride) {
    ascend_run *run = &plan->run;
    ascend_work work = {.context = context, .run = run, .measuring = true};
    ascend_span span = {.way = way, .n = n};
    size_t results = 0, inputs = 0;
    if (way == CANDIDATES || way == FILTERED) span.width = plan->width;
    ascend_place_span(plan, &span, &results, &inputs);
    ascend_queue_span(&work, plan, &span, context->anchor, context->anchor, stride);
    ascend_end_run(context, run);
    if (work.most > plan->scratch) plan->scratch = (size_t)work.most;
    return work.code;
}

static int32_t measure_all(es_context *context, ascend_plan *plan, const bool *ways, int64_t stride) {
    const int64_t apart = stride < plan->vocab_size ? plan->vocab_size : stride;
    int32_t code = ES_OK;
    for (int way = CANDIDATES; way <= DRAWN; way++) {
        if (ways[way] && code == ES_OK) code = measure(context, plan, way, plan->rows, apart);
        if (ways[way] && code == ES_OK) code = measure(context, plan, way, 1, apart);
    }
    return code;
}

/* --- what runs keep on the host --- */

static int32_t allocate_run(es_context *context, ascend_plan *plan) {
    ascend_run *run = &plan->run;
    const size_t n = (size_t)plan->rows;
    run->most_tensors = plan->rows * MOST_TENSORS;
    run->tensors = calloc(n * MOST_TENSORS, sizeof *run->tensors);
    run->entries = calloc(n, sizeof *run->entries);
    run->spans = calloc(n, sizeof *run->spans);
    plan->candidates = malloc((size_t)plan->width * sizeof *plan->candidates);
    if (!run->tensors || !run->entries || !run->spans || !plan->candidates)
        return ascend_refuse(context, ES_NO_MEMORY, "no memory for a plan");
    return ascend_checked(context, "aclrtCreateEvent", context->cann.aclrtCreateEvent(&run->event));
}

void ascend_free_plan(es_context *context, ascend_plan *plan) {
    ascend_run *run = &plan->run;
    if (run->open) context->cann.aclrtSynchronizeEvent(run->event);
    ascend_end_run(context, run);
    if (run->event) context->cann.aclrtDestroyEvent(run->event);
    free((void *)run->tensors);
    free(run->entries);
    free(run->spans);
    free(plan->candidates);
    *plan = (ascend_plan){0};
}

/* --- the functions of the table --- */

static int32_t read_shape(es_context *context, const es_shape *shape, ascend_plan *plan, bool *ways) {
    plan->type = ascend_type(shape->code, shape->bits);
    plan->rows = shape->rows;
    plan->vocab_size = shape->vocab_size;
    if (plan->type < 0) return ascend_refuse(context, ES_UNSUPPORTED, "logits of this type");
    if (shape->rows < 1 || shape->vocab_size < 1) return ascend_refuse(context, ES_INVALID, "an empty shape");
    for (int64_t i = 0; i < shape->n_programs; i++) {
        if (shape->programs[i] >= context->n_programs)
            return ascend_refuse(context, ES_INVALID, "no such program");
        const ascend_way way = context->programs[shape->programs[i]].way;
        if (shape->masked && way != CANDIDATES)
            return ascend_refuse(context, ES_UNSUPPORTED, "masks before an operator that draws or filters");
        ways[way] = true;
    }
    read_widths(context, shape, plan);
    return ES_OK;
}

int32_t ascend_prepare(es_context *context, const es_shape *shape, es_plan *out) {
    bool ways[DRAWN + 1] = {false};
    ascend_plan *plan = NULL;
    for (int i = 0; i < MOST_PLANS && !plan; i++)
        if (!context->plans[i].number) plan = &context->plans[i];
    if (!plan) return ascend_refuse(context, ES_BUSY, "too many plans");
    int32_t code = read_shape(context, shape, plan, ways);
    if (code == ES_OK) code = ascend_begin_planning(context);
    if (code == ES_OK) code = allocate_run(context, plan);
    if (code == ES_OK) {
        lay_out(plan, ways);
        code = measure_all(context, plan, ways, shape->stride);
    }
    if (code != ES_OK) {
        ascend_free_plan(context, plan);
        return code;
    }
    plan->total = plan->scratch_at + ascend_aligned(plan->scratch);
    plan->number = ++context->n_plans;
    out->number = plan->number;
    out->workspace_bytes = (int64_t)plan->total;
    out->pinned_bytes = (int64_t)plan->pinned;
    return ES_OK;
}

int32_t ascend_release(es_context *context, uint32_t number) {
    ascend_plan *plan = ascend_plan_of(context, number);
    if (!plan) return ascend_refuse(context, ES_INVALID, "no such plan");
    if (plan->run.open) return ascend_refuse(context, ES_INVALID, "a run of this plan is open");
    ascend_free_plan(context, plan);
    return ES_OK;
}
