/* One step: inputs up, operators, results down, all on the caller's stream; an event tells when it is done. */
#include "entries.h"
#include "spans.h"

#include <string.h>

void ascend_end_run(es_context *context, ascend_run *run) {
    while (run->n_tensors) context->cann.aclDestroyTensor(run->tensors[--run->n_tensors]);
    run->open = false;
}

ascend_plan *ascend_plan_of_ticket(es_context *context, uint64_t ticket) {
    for (int i = 0; i < MOST_PLANS; i++) {
        const ascend_run *run = &context->plans[i].run;
        if (run->open && run->ticket == ticket) return &context->plans[i];
    }
    return NULL;
}

/* --- before anything is queued --- */

static int32_t check_batch(es_context *context, const es_batch *batch, const ascend_plan *plan) {
    const es_tensor *logits = &batch->logits;
    if (!plan) return ascend_refuse(context, ES_INVALID, "a run without a plan");
    if (batch->n > plan->rows || batch->vocab_size != plan->vocab_size)
        return ascend_refuse(context, ES_INVALID, "a batch that its plan does not fit");
    if (logits->device_type != 12 || logits->device_id != context->device)
        return ascend_refuse(context, ES_INVALID, "logits of another device");
    if (ascend_type(logits->code, logits->bits) != plan->type || logits->shape[1] < batch->vocab_size)
        return ascend_refuse(context, ES_INVALID, "logits that their plan does not fit");
    if (!batch->workspace || !batch->pinned || (uintptr_t)batch->workspace % ALIGNMENT)
        return ascend_refuse(context, ES_INVALID, "no workspace, or one that is not aligned");
    for (int32_t i = 0; i < batch->n; i++)
        if (batch->programs[i] >= context->n_programs || batch->rows[i] < 0 ||
            batch->rows[i] >= logits->shape[0])
            return ascend_refuse(context, ES_INVALID, "no such program, or no such row");
    return ES_OK;
}

/* --- what is queued --- */

/* The noise of a span: only as much as its rows can use, and positive numbers in place of the rest. */
static void queue_noise(ascend_work *work, const ascend_plan *plan, const ascend_run *run,
                        const ascend_span *span, const es_batch *batch) {
    char *noise = (char *)batch->workspace + plan->noise_at,
         *staged = run->pinned + plan->pinned - plan->noise;
    const size_t row = (size_t)plan->vocab_size * sizeof(float);
    bool whole = true;
    for (int64_t i = 0; i < span->n; i++)
        whole &= ascend_kept(plan, &run->entries[span->first + i]) == plan->vocab_size;
    if (!whole) ascend_fill(work, noise, 0x3f, (size_t)span->n * row);
    for (int64_t i = 0; i < span->n; i++) {
        const int64_t entry = span->first + i;
        const size_t bytes = (size_t)ascend_kept(plan, &run->entries[entry]) * sizeof(float);
        char *here = staged + entry * plan->noise_width * (int64_t)sizeof(float);
        memcpy(here, (const float *)batch->random + entry * run->noise_width, bytes);
        ascend_copy(work, noise + (size_t)i * row, here, bytes, ACL_MEMCPY_HOST_TO_DEVICE);
    }
}

/* The tokens of a span, or -1 where the host finds them. */
static void queue_tokens(ascend_work *work, const ascend_run *run, const ascend_span *span,
                         const es_batch *batch) {
    int64_t *out = batch->token_ids_on_device + run->entries[span->first].row;
    const size_t bytes = (size_t)span->n * sizeof *out;
    if (span->way != BEST && span->way != DRAWN) ascend_fill(work, out, 0xff, bytes);
    else ascend_copy(work, out, (char *)batch->workspace + span->tokens, bytes, ACL_MEMCPY_DEVICE_TO_DEVICE);
}

/* -1 for the rows that do not run here. */
static void queue_declined(ascend_work *work, const ascend_run *run, const es_batch *batch) {
    for (int64_t i = 0; i < run->n_entries; i++)
        if (run->entries[i].span < 0)
            ascend_fill(work, batch->token_ids_on_device + run->entries[i].row, 0xff, sizeof(int64_t));
}

static void wait_for(ascend_work *work, aclrtEvent ready) {
    if (!ready) return;
    const aclError status = work->context->cann.aclrtStreamWaitEvent(work->stream, ready);
    work->code = ascend_checked(work->context, "aclrtStreamWaitEvent", status);
}

static void queue_all(ascend_work *work, const ascend_plan *plan, ascend_run *run, const es_batch *batch) {
    const ascend_rows rows = ascend_rows_of(&batch->logits);
    const int64_t size = (int64_t)ascend_size(plan->type), stride = rows.stride / size;
    const bool joins = stride >= plan->vocab_size;
    char *workspace = batch->workspace, *inputs = run->pinned + ascend_aligned(plan->results);
    size_t results_bytes = 0, inputs_bytes = 0;
    ascend_make_spans(work->context, plan, run, joins, &results_bytes, &inputs_bytes);
    ascend_write_inputs(work->context, plan, run, inputs);
    wait_for(work, batch->ready);
    ascend_copy(work, workspace + plan->inputs_at, inputs, inputs_bytes, ACL_MEMCPY_HOST_TO_DEVICE);
    for (int64_t i = 0; i < run->n_spans; i++) {
        const ascend_span *span = &run->spans[i];
        char *first = rows.first + run->entries[span->first].row * rows.stride;
        if (span->way == DRAWN) queue_noise(work, plan, run, span, batch);
        ascend_queue_span(work, plan, span, workspace, first, joins ? stride : plan->vocab_size);
        if (batch->token_ids_on_device) queue_tokens(work, run, span, batch);
    }
    if (batch->token_ids_on_device) queue_declined(work, run, batch);
    ascend_copy(work, run->pinned, workspace, results_bytes, ACL_MEMCPY_DEVICE_TO_HOST);
}

static int32_t record(es_context *context, ascend_run *run) {
    return ascend_checked(context, "aclrtRecordEvent",
                          context->cann.aclrtRecordEvent(run->event, run->stream));
}

int32_t ascend_run_batch(es_context *context, es_batch *batch) {
    ascend_plan *plan = ascend_plan_of(context, batch->plan);
    batch->ticket = 0;
    batch->faults = 0;
    int32_t code = check_batch(context, batch, plan);
    if (code != ES_OK || !batch->n) return code;
    ascend_run *run = &plan->run;
    if (run->open) return ascend_refuse(context, ES_BUSY, "a run of this plan is open");
    run->pinned = batch->pinned;
    run->stream = batch->stream;
    ascend_read_entries(context, plan, run, batch);
    ascend_work work = {.context = context,
                        .run = run,
                        .stream = run->stream,
                        .scratch = (char *)batch->workspace + plan->scratch_at,
                        .scratch_bytes = plan->scratch};
    queue_all(&work, plan, run, batch);
    if (work.code == ES_OK) work.code = record(context, run);
    if (work.code != ES_OK) {
        code = ascend_drain(&work); /* the host may free its memory after an error */
        ascend_end_run(context, run);
        return code;
    }
    run->open = true;
    run->batch = batch;
    run->ticket = batch->ticket = ++context->n_tickets;
    return ES_OK;
}
