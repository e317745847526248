/* From what the operators have left in the host's memory to tokens, survivors and statuses. The best tokens of a
 * row are all that is known of it here: where the outcome depends on others, the row is declined. */
#include "context.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static const float LIMIT = 0x1p100f; /* beyond which logits are faulty, or read as removed */

/* What is known of a row: its best tokens, in order.
 * lowest   no other token is above it; -INFINITY once no other is left. */
typedef struct ascend_leaders {
    ascend_candidate *all;
    int64_t n;
    float lowest;
} ascend_leaders;

/* --- numbers of the device --- */

static float half_at(const char *at) {
    uint16_t bits;
    memcpy(&bits, at, sizeof bits);
    const int exponent = bits >> 10 & 31, fraction = bits & 1023;
    const float size = exponent == 31  ? (fraction ? NAN : INFINITY)
                       : exponent == 0 ? ldexpf((float)fraction, -24)
                                       : ldexpf((float)(1024 + fraction), exponent - 25);
    return bits >> 15 ? -size : size;
}

static float bfloat_at(const char *at) {
    uint16_t short_bits;
    memcpy(&short_bits, at, sizeof short_bits);
    const uint32_t bits = (uint32_t)short_bits << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

static float number_at(const char *array, int64_t i, int32_t type) {
    float value;
    if (type == ACL_FLOAT16) return half_at(array + i * 2);
    if (type == ACL_BF16) return bfloat_at(array + i * 2);
    memcpy(&value, array + i * 4, sizeof value);
    return value;
}

static int64_t id_at(const char *array, int64_t i) {
    int64_t id;
    memcpy(&id, array + i * 8, sizeof id);
    return id;
}

/* --- the order of tokens --- */

static int by_rank(const void *a, const void *b) {
    const ascend_candidate *x = a, *y = b;
    if (x->logit != y->logit) return x->logit < y->logit ? 1 : -1;
    return x->id < y->id ? -1 : x->id > y->id;
}

static int by_id(const void *a, const void *b) {
    const ascend_candidate *x = a, *y = b;
    return x->id < y->id ? -1 : x->id > y->id;
}

/* Most rows are in order already: the operator sorts, but for ties. */
static void sort(ascend_leaders *row, int (*order)(const void *, const void *)) {
    for (int64_t i = 1; i < row->n; i++)
        if (order(&row->all[i - 1], &row->all[i]) > 0) {
            qsort(row->all, (size_t)row->n, sizeof *row->all, order);
            return;
        }
}

/* Whether a token is listed twice, in the order of ids. */
static bool has_twins(const ascend_leaders *row) {
    for (int64_t i = 1; i < row->n; i++)
        if (row->all[i].id == row->all[i - 1].id) return true;
    return false;
}

/* Whether a token that is not known may be as good as number i. */
static bool is_uncertain(const ascend_leaders *row, int64_t i) { return row->all[i].logit <= row->lowest; }

/* --- one row of candidates --- */

/* The leaders of a row, from the operator's values and ids; false if an id makes no sense. */
static bool read_leaders(const ascend_plan *plan, const ascend_span *span, const char *pinned, int64_t at,
                         ascend_leaders *row) {
    const int64_t first = at * span->width;
    const char *values = pinned + span->values, *ids = pinned + span->indices;
    row->n = span->width;
    for (int64_t i = 0; i < row->n; i++) {
        row->all[i] = (ascend_candidate){number_at(values, first + i, plan->type), id_at(ids, first + i)};
        if (row->all[i].id < 0 || row->all[i].id >= plan->vocab_size) return false;
    }
    sort(row, by_rank);
    row->lowest = span->width < plan->vocab_size ? row->all[row->n - 1].logit : -INFINITY;
    while (row->n && !(row->all[row->n - 1].logit >= -LIMIT)) row->n--;
    if (row->lowest < -LIMIT) row->lowest = -INFINITY;
    return true;
}

/* Drop the tokens that a mask forbids. */
static void forbid(ascend_leaders *row, const int32_t *mask) {
    int64_t left = 0;
    for (int64_t i = 0; i < row->n; i++) {
        const int64_t id = row->all[i].id;
        if ((uint32_t)mask[id / 32] >> id % 32 & 1) row->all[left++] = row->all[i];
    }
    row->n = left;
}

static float scaled(float logit, float factor) {
    return logit > -INFINITY ? fminf(fmaxf(logit * factor, -FLT_MAX), FLT_MAX) : logit;
}

/* What temperature does; false if the outcome is not known. */
static bool heat(ascend_leaders *row, const ascend_entry *entry) {
    if (entry->only_best) {
        if (is_uncertain(row, 0)) return false;
        row->n = 1;
        row->lowest = -INFINITY;
        return true;
    }
    for (int64_t i = 0; i < row->n; i++) row->all[i].logit = scaled(row->all[i].logit, entry->factor);
    row->lowest = scaled(row->lowest, entry->factor);
    sort(row, by_rank); /* neighbours may have become equal */
    return true;
}

static bool cut(ascend_leaders *row, int64_t k) {
    if (k < 1) return true;
    if (row->n < k) return row->lowest == -INFINITY;
    if (is_uncertain(row, k - 1)) return false;
    row->n = k;
    row->lowest = -INFINITY;
    return true;
}

/* Lower the tokens that have occurred; false if they are no longer those of the run. */
static bool penalize(const es_context *context, const ascend_entry *entry, ascend_leaders *row) {
    const ascend_penalties *penalties = &entry->penalties;
    if (!penalties->repeats && !penalties->counts) return true;
    const ascend_history *history = ascend_history_of(&context->histories, entry->slot);
    if (!history || history->changed > entry->notice) return false;
    for (int64_t i = 0; i < row->n; i++) {
        ascend_candidate *token = &row->all[i];
        token->logit = ascend_penalized(token->logit, penalties, ascend_count_of(history, token->id));
    }
    sort(row, by_rank);
    return true;
}

/* Run the steps of the row's program; false if the outcome is not known. */
static bool run_steps(const es_context *context, const ascend_entry *entry, ascend_leaders *row) {
    const ascend_program *program = &context->programs[entry->program];
    for (int32_t i = 0; i < program->n - program->selects; i++) {
        const bool heats = program->kinds[i] == ES_OP_TEMPERATURE, cuts = program->kinds[i] == ES_OP_TOP_K;
        if (heats && !heat(row, entry)) return false;
        if (program->kinds[i] == ES_OP_PENALTIES && !penalize(context, entry, row)) return false;
        /* After ApplyTopKTopP, ties with the last one are still there. */
        if (cuts && program->way == CANDIDATES && !cut(row, entry->top_k)) return false;
    }
    if (program->selects) return !is_uncertain(row, 0);
    return row->lowest == -INFINITY && row->n <= MOST_TOP_K;
}

/* --- outputs --- */

static void write_processed(float *out, const ascend_leaders *row, int64_t vocab_size) {
    for (int64_t i = 0; i < vocab_size; i++) out[i] = -INFINITY;
    for (int64_t i = 0; i < row->n; i++) out[row->all[i].id] = row->all[i].logit;
}

static void write_survivors(const es_survivors *out, int64_t entry, const ascend_leaders *row) {
    out->counts[entry] = row->n;
    for (int64_t i = 0; i < row->n; i++) {
        out->token_ids[entry * out->width + i] = row->all[i].id;
        out->logits[entry * out->width + i] = row->all[i].logit;
    }
}

static int32_t finish_leaders(const es_context *context, const ascend_plan *plan, const ascend_run *run,
                              int64_t number, int64_t *token) {
    const ascend_entry *entry = &run->entries[number];
    const ascend_span *span = &run->spans[entry->span];
    const ascend_program *program = &context->programs[entry->program];
    const es_batch *batch = run->batch;
    ascend_leaders row = {.all = plan->candidates};
    if (!read_leaders(plan, span, run->pinned, number - span->first, &row)) return ES_ROW_DECLINED;
    if (row.n && row.all[0].logit > LIMIT) return ES_ROW_BAD_LOGITS;
    if (entry->masked) forbid(&row, batch->bitmask + entry->row * batch->bitmask_stride);
    if (!row.n) return row.lowest == -INFINITY ? ES_ROW_EMPTY : ES_ROW_DECLINED;
    if (!run_steps(context, entry, &row)) return ES_ROW_DECLINED;
    if (program->selects) *token = row.all[0].id;
    const bool survive = batch->survivors && !program->selects;
    if (survive && row.n > batch->survivors->width) return ES_ROW_DECLINED;
    sort(&row, by_id);
    if (has_twins(&row)) return ES_ROW_DECLINED;
    if (survive) write_survivors(batch->survivors, number, &row);
    if (batch->processed && batch->processed[number])
        write_processed(batch->processed[number], &row, plan->vocab_size);
    return ES_ROW_OK;
}

static int32_t finish_token(const ascend_plan *plan, const ascend_run *run, int64_t number, int64_t *token) {
    const ascend_span *span = &run->spans[run->entries[number].span];
    const int64_t at = number - span->first;
    const float top = number_at(run->pinned + span->tops, at, plan->type);
    if (!(top <= LIMIT)) return ES_ROW_BAD_LOGITS;
    if (top < -LIMIT) return ES_ROW_EMPTY;
    const int64_t id = id_at(run->pinned + span->tokens, at);
    if (id < 0 || id >= plan->vocab_size) return ES_ROW_DECLINED;
    *token = id;
    return ES_ROW_OK;
}

/* A sum of logits is NaN or +inf if one of them is; it cannot overflow, but to -inf. */
static bool is_faulty(const ascend_run *run, int64_t number) {
    const ascend_span *span = &run->spans[run->entries[number].span];
    const float sum = number_at(run->pinned + span->sums, number - span->first, ACL_FLOAT);
    return isnan(sum) || sum == INFINITY;
}

static int32_t finish_row(const es_context *context, const ascend_plan *plan, const ascend_run *run,
                          int64_t number, int64_t *token) {
    const ascend_entry *entry = &run->entries[number];
    if (entry->status != ES_ROW_OK) return entry->status;
    if (is_faulty(run, number)) return ES_ROW_BAD_LOGITS;
    const ascend_way way = context->programs[entry->program].way;
    if (way == BEST || way == DRAWN) return finish_token(plan, run, number, token);
    return finish_leaders(context, plan, run, number, token);
}

void ascend_write_results(es_context *context, ascend_plan *plan) {
    const ascend_run *run = &plan->run;
    es_batch *batch = run->batch;
    for (int64_t i = 0; i < run->n_entries; i++) {
        int64_t token = -1;
        const int32_t status = finish_row(context, plan, run, i, &token);
        batch->token_ids[run->entries[i].row] = token;
        batch->notes[run->entries[i].row] = NAN;
        batch->status[i] = status;
        batch->faults += status != ES_ROW_OK;
    }
}
