#include "spans.h"

static size_t take(size_t *at, size_t bytes) {
    const size_t here = *at;
    *at += ascend_aligned(bytes);
    return here;
}

void ascend_place_span(const ascend_plan *plan, ascend_span *span, size_t *results, size_t *inputs) {
    const size_t n = (size_t)span->n, few = n * (size_t)span->width;
    span->sums = take(results, n * sizeof(float));
    if (span->way == BEST || span->way == DRAWN) {
        span->tops = take(results, n * ascend_size(plan->type));
        span->tokens = take(results, n * sizeof(int64_t));
    } else {
        span->values = take(results, few * ascend_size(plan->type));
        span->indices = take(results, few * sizeof(int64_t));
    }
    if (span->way == FILTERED || span->way == DRAWN) {
        span->top_k = take(inputs, n * sizeof(int32_t));
        span->top_p = take(inputs, n * sizeof(float));
    }
    if (span->way == DRAWN) {
        span->min_p = take(inputs, n * sizeof(float));
        span->factor = take(inputs, n * sizeof(float));
    }
}

/* The tokens of rows that are drawn: scaled, cut and drawn by one operator. */
static void draw_rows(ascend_work *work, const ascend_plan *plan, const ascend_span *span, char *workspace,
                      aclTensor *rows, aclTensor *tokens) {
    const int64_t n = span->n, all = plan->vocab_size;
    const bool second = work->context->cann.TopKTopPSampleV2.first != NULL;
    const int32_t type = second ? ACL_FLOAT : plan->type;
    char *inputs = workspace + plan->inputs_at;
    aclTensor *factors = ascend_tensor(work, inputs + span->factor, ACL_FLOAT, n, 1, 1);
    aclTensor *scaled = ascend_tensor(work, workspace + plan->scaled_at, type, n, all, all);
    ascend_scale(work, rows, factors, scaled);
    ascend_draw draw = {
        .rows = scaled,
        .k = ascend_tensor(work, inputs + span->top_k, ACL_INT32, n, 0, 0),
        .p = ascend_tensor(work, inputs + span->top_p, type, n, 0, 0),
        .noise = ascend_tensor(work, workspace + plan->noise_at, ACL_FLOAT, n, all, all),
        .ids = tokens,
        .select = ascend_tensor(work, workspace + plan->select_at, ACL_FLOAT, n, all, all),
    };
    if (second) {
        draw.min_p = ascend_tensor(work, inputs + span->min_p, ACL_FLOAT, n, 0, 0);
        draw.sorted_ids = ascend_tensor(work, workspace + plan->index_at, ACL_INT64, n, all, all);
        draw.sorted_rows = ascend_tensor(work, workspace + plan->sorted_at, ACL_FLOAT, n, all, all);
    }
    ascend_sample(work, &draw);
}

/* The one token of each row. */
static void choose_tokens(ascend_work *work, const ascend_plan *plan, const ascend_span *span,
                          char *workspace, aclTensor *rows) {
    aclTensor *tops = ascend_tensor(work, workspace + span->tops, plan->type, span->n, 0, 0);
    aclTensor *tokens = ascend_tensor(work, workspace + span->tokens, ACL_INT64, span->n, 0, 0);
    ascend_greatest(work, rows, tops);
    if (span->way == DRAWN) draw_rows(work, plan, span, workspace, rows, tokens);
    else ascend_best(work, rows, tokens);
}

static aclTensor *filter_rows(ascend_work *work, const ascend_plan *plan, const ascend_span *span,
                              char *workspace, aclTensor *rows) {
    const int64_t n = span->n, all = plan->vocab_size;
    char *inputs = workspace + plan->inputs_at;
    aclTensor *p = ascend_tensor(work, inputs + span->top_p, plan->type, n, 0, 0);
    aclTensor *k = ascend_tensor(work, inputs + span->top_k, ACL_INT32, n, 0, 0);
    aclTensor *out = ascend_tensor(work, workspace + plan->filtered_at, plan->type, n, all, all);
    ascend_filter(work, rows, p, k, out);
    return out;
}

void ascend_queue_span(ascend_work *work, const ascend_plan *plan, const ascend_span *span, char *workspace,
                       void *logits, int64_t stride) {
    const int64_t n = span->n;
    aclTensor *rows = ascend_tensor(work, logits, plan->type, n, plan->vocab_size, stride);
    aclTensor *sums = ascend_tensor(work, workspace + span->sums, ACL_FLOAT, n, 0, 0);
    ascend_sum(work, rows, sums);
    if (span->way == BEST || span->way == DRAWN) {
        choose_tokens(work, plan, span, workspace, rows);
        return;
    }
    if (span->way == FILTERED) rows = filter_rows(work, plan, span, workspace, rows);
    aclTensor *values = ascend_tensor(work, workspace + span->values, plan->type, n, span->width,
                                      span->width);
    aclTensor *ids = ascend_tensor(work, workspace + span->indices, ACL_INT64, n, span->width, span->width);
    ascend_leading(work, rows, span->width, values, ids);
}
