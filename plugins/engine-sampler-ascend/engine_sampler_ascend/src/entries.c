#include "entries.h"

#include "spans.h"

#include <string.h>

ascend_rows ascend_rows_of(const es_tensor *logits) {
    const int64_t size = logits->bits / 8, stride = logits->strides ? logits->strides[0] : logits->shape[1];
    return (ascend_rows){(char *)logits->data + logits->byte_offset, stride * size};
}

/* --- what a request asks for --- */

/* Whether the operators cut as the samplers do. */
static bool cuts_alike(const ascend_program *program, const es_params *params) {
    if (ascend_has(program, ES_OP_TOP_K) && params->top_k > MOST_TOP_K) return false;
    if (ascend_has(program, ES_OP_TOP_P) && (params->top_p_cut != 0 || params->min_keep > 1)) return false;
    return !ascend_has(program, ES_OP_MIN_P) || params->min_keep <= 1;
}

static void read_params(const ascend_program *program, const es_params *params, ascend_entry *entry) {
    const bool heats = ascend_has(program, ES_OP_TEMPERATURE);
    entry->top_p = ascend_has(program, ES_OP_TOP_P) ? (float)params->top_p : 1.0f;
    entry->min_p = ascend_has(program, ES_OP_MIN_P) ? (float)params->min_p : 0.0f;
    entry->top_k = ascend_has(program, ES_OP_TOP_K) && params->top_k > 0 ? (int32_t)params->top_k : 0;
    entry->only_best = heats && params->temperature < 1e-4; /* the header says so */
    entry->factor = heats && !entry->only_best ? (float)(1.0 / params->temperature) : 1.0f;
    if (heats && params->dynatemp_range > 0 && !entry->only_best) entry->status = ES_ROW_DECLINED;
}

/* Penalties need counts, and more candidates: each token that has occurred may fall out of the first ones. */
static void read_penalties(const es_context *context, const ascend_program *program, const es_params *params,
                           ascend_entry *entry) {
    if (!ascend_has(program, ES_OP_PENALTIES)) return;
    const ascend_history *history = ascend_history_of(&context->histories, entry->slot);
    entry->notice = context->histories.notices;
    if (!ascend_read_penalties(params, history, &entry->penalties)) entry->status = ES_ROW_DECLINED;
    entry->reach = history ? history->used : 0;
}

/* A row that may need more numbers than it is given is declined, and so is one whose numbers differ in kind. */
static void check_noise(const ascend_plan *plan, const ascend_program *program, ascend_run *run,
                        ascend_entry *entry) {
    if (program->way != DRAWN) return;
    const int64_t width = ascend_noise_width(program, plan->vocab_size);
    if (!run->noise_width) run->noise_width = width;
    if (width != run->noise_width || ascend_kept(plan, entry) > width) entry->status = ES_ROW_DECLINED;
}

void ascend_read_entries(const es_context *context, const ascend_plan *plan, ascend_run *run,
                         const es_batch *batch) {
    const es_table *table = batch->table;
    const ascend_rows rows = ascend_rows_of(&batch->logits);
    run->n_entries = batch->n;
    run->noise_width = 0;
    for (int32_t i = 0; i < batch->n; i++) {
        ascend_entry *entry = &run->entries[i];
        const ascend_program *program = &context->programs[batch->programs[i]];
        const char *at = (const char *)table->params + (size_t)batch->slots[i] * table->params->size;
        const es_params *params = (const es_params *)(const void *)at;
        *entry = (ascend_entry){.row = batch->rows[i],
                                .slot = batch->slots[i],
                                .program = (int32_t)batch->programs[i],
                                .span = -1};
        read_penalties(context, program, params, entry);
        if (!cuts_alike(program, params)) entry->status = ES_ROW_DECLINED;
        else read_params(program, params, entry);
        check_noise(plan, program, run, entry);
        const uintptr_t address = (uintptr_t)(rows.first + entry->row * rows.stride);
        entry->masked = batch->masked && batch->masked[i];
        if (address % ALIGNMENT || (entry->masked && program->way != CANDIDATES))
            entry->status = ES_ROW_DECLINED;
        if (program->way == CANDIDATES && batch->processed && batch->processed[i] &&
            !ascend_has(program, ES_OP_TOP_K))
            entry->status = ES_ROW_DECLINED;
    }
}

/* --- what runs together --- */

static int64_t width_of(const ascend_plan *plan, const ascend_entry *entry, ascend_way way) {
    if (way != FILTERED && way != CANDIDATES) return 0;
    /* How many of the best tokens a mask allows, nobody knows before. */
    if (way == FILTERED || entry->masked) return plan->width;
    const int64_t width = ascend_width(entry->top_k + entry->reach, plan->vocab_size);
    return width < plan->width ? width : plan->width;
}

void ascend_make_spans(const es_context *context, const ascend_plan *plan, ascend_run *run, bool joins,
                       size_t *results, size_t *inputs) {
    ascend_span *span = NULL;
    run->n_spans = 0;
    for (int64_t i = 0; i < run->n_entries; i++) {
        ascend_entry *entry = &run->entries[i];
        if (entry->status != ES_ROW_OK) {
            span = NULL;
            continue;
        }
        const ascend_way way = context->programs[entry->program].way;
        const int64_t width = width_of(plan, entry, way);
        if (!span || !joins || span->way != way || entry->row != run->entries[i - 1].row + 1) {
            span = &run->spans[run->n_spans++];
            *span = (ascend_span){.way = way, .first = i};
        }
        span->n++;
        if (width > span->width) span->width = width;
        entry->span = (int32_t)(run->n_spans - 1);
    }
    for (int64_t i = 0; i < run->n_spans; i++) ascend_place_span(plan, &run->spans[i], results, inputs);
}

/* --- inputs --- */

static uint16_t half_of(float value) { /* of numbers from 0 to 1 */
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    const int32_t exponent = (int32_t)(bits >> 23) - 127 + 15;
    if (exponent <= 0) return 0; /* nothing that small is a probability to cut at */
    const uint32_t fraction = bits & 0x7FFFFF,
                   up = (fraction & 0x1FFF) > 0x1000 || (fraction & 0x3FFF) == 0x3000;
    return (uint16_t)(((uint32_t)exponent << 10 | fraction >> 13) + up);
}

static uint16_t bfloat_of(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    return (uint16_t)((bits + 0x7FFF + (bits >> 16 & 1)) >> 16);
}

/* Entry i of an array of numbers from 0 to 1 in a type of the device. */
static void put(char *array, int64_t i, float value, int32_t type) {
    const uint16_t short_value = type == ACL_BF16 ? bfloat_of(value) : half_of(value);
    if (type == ACL_FLOAT) memcpy(array + i * 4, &value, 4);
    else memcpy(array + i * 2, &short_value, 2);
}

void ascend_write_inputs(const es_context *context, const ascend_plan *plan, const ascend_run *run,
                         char *inputs) {
    const bool second = context->cann.TopKTopPSampleV2.first != NULL;
    for (int64_t i = 0; i < run->n_entries; i++) {
        const ascend_entry *entry = &run->entries[i];
        if (entry->span < 0) continue;
        const ascend_span *span = &run->spans[entry->span];
        const int64_t at = i - span->first;
        if (span->way != FILTERED && span->way != DRAWN) continue;
        /* All tokens where top_k is off: 0 has no meaning in the first version of TopKTopPSample. */
        const int32_t top_k = (int32_t)ascend_kept(plan, entry);
        const bool wide = span->way == DRAWN && second;
        memcpy(inputs + span->top_k + at * 4, &top_k, 4);
        put(inputs + span->top_p, at, entry->top_p, wide ? ACL_FLOAT : plan->type);
        if (span->way != DRAWN) continue;
        put(inputs + span->min_p, at, entry->min_p, ACL_FLOAT);
        put(inputs + span->factor, at, entry->factor, ACL_FLOAT);
    }
}

int64_t ascend_kept(const ascend_plan *plan, const ascend_entry *entry) {
    if (entry->only_best) return 1;
    return entry->top_k && entry->top_k < plan->vocab_size ? entry->top_k : plan->vocab_size;
}
