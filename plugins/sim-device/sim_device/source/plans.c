/* Plans of steps, and the steps: what is checked, uploaded, queued, waited for and handed back. */
#include "library_internal.h"
#include "sim_internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* --- plans ---------------------------------------------------------------------------------------------- */

static int64_t random_bytes(const es_context *context, int64_t vocab_size) {
    switch (context->settings.random) {
    case ES_RANDOM_BITS: return 8;
    case ES_RANDOM_UNIFORM: return 4;
    case ES_RANDOM_EXPONENTIAL: {
        const int64_t width = random_width(&context->settings, vocab_size);
        return 4 * (width ? width : vocab_size);
    }
    default: return 0;
    }
}

int64_t mask_bytes(int64_t vocab_size) { return (vocab_size + 63) / 64 * 8; }

static int64_t lesser(int64_t a, int64_t b) { return a < b ? a : b; }

static int64_t survivors_width(const es_context *context, const plan *p) {
    if (!(p->wants & ES_SURVIVORS)) return 0;
    const int64_t most = context->settings.max_survivors;
    return most ? lesser(most, p->vocab_size) : p->vocab_size;
}

static int64_t logprobs_width(const plan *p) {
    if (!(p->wants & ES_LOGPROBS)) return 0;
    return 1 + (p->most_logprobs < 0 ? p->vocab_size : lesser(p->most_logprobs, p->vocab_size));
}

static int64_t part(int64_t *end, int64_t bytes) {
    const int64_t start = *end;
    *end = padded(start + bytes);
    return start;
}

static layout lay_out(const es_context *context, const plan *p) {
    const int64_t n = p->rows, survivors = n * survivors_width(context, p);
    const int64_t logprobs = 3 * n * logprobs_width(p);
    layout l = {0};
    l.up = padded(sizeof(wire_header)) + padded(n * (int64_t)sizeof(wire_entry)) +
           padded(MOST_RECORDS * (int64_t)sizeof(record)) + padded(n * random_bytes(context, p->vocab_size)) +
           padded(logprobs ? n * (int64_t)sizeof(wire_logprobs) : 0) +
           padded(p->masked ? n * mask_bytes(p->vocab_size) : 0) + SIM_ALIGNMENT;
    int64_t end = padded(l.up);
    l.results = part(&end, n * (int64_t)sizeof(wire_result));
    l.survivor_counts = part(&end, survivors ? n * 4 : 0);
    l.survivor_ids = part(&end, survivors * 4);
    l.survivor_logits = part(&end, survivors * 4);
    l.logprob_ids = part(&end, logprobs * 8);
    l.logprob_values = part(&end, logprobs * 4);
    l.logprob_ranks = part(&end, logprobs ? 3 * n * 8 : 0);
    l.down_end = end;
    l.row = part(&end, p->vocab_size * 4);
    l.given = part(&end, survivors ? p->vocab_size * 4 : 0);
    l.heads = part(&end, p->vocab_size);
    l.end = end;
    return l;
}

plan *plan_of(es_context *context, uint32_t number) {
    const int32_t known = number > 0 && number <= (uint32_t)context->n_plans;
    return known && context->plans[number - 1].number ? &context->plans[number - 1] : NULL;
}

/* A free place for a plan; NULL without memory. */
static plan *new_plan(es_context *context) {
    for (int32_t i = 0; i < context->n_plans; i++)
        if (!context->plans[i].number) return &context->plans[i];
    plan *larger = grown(context->plans, context->n_plans + 1, sizeof *larger);
    if (!larger) return NULL;
    context->plans = larger;
    larger[context->n_plans] = (plan){0};
    return &larger[context->n_plans++];
}

int32_t prepare_plan(es_context *context, const es_shape *shape, es_plan *out) {
    if (!shape || shape->size < sizeof *shape || out->size < sizeof *out || shape->rows < 1 ||
        shape->vocab_size < 1)
        return refuse(context, ES_INVALID, "invalid shape");
    const int64_t most = context->settings.max_rows;
    if (most && shape->rows > most)
        return refuse(context, ES_INVALID, "%lld rows are more than %lld", (long long)shape->rows,
                      (long long)most);
    for (int64_t i = 0; i < shape->n_programs; i++)
        if (shape->programs[i] >= context->n_programs)
            return refuse(context, ES_INVALID, "program %u of %u does not exist", shape->programs[i],
                          context->n_programs);
    plan *p = new_plan(context);
    if (!p) return refuse(context, ES_NO_MEMORY, "no memory for a plan");
    *p = (plan){
        .masked = shape->masked,
        .rows = shape->rows,
        .vocab_size = shape->vocab_size,
        .stride = shape->stride,
        .code = shape->code,
        .bits = shape->bits,
        .wants = shape->wants,
        .most_logprobs = shape->most_logprobs,
    };
    p->at = lay_out(context, p);
    const int32_t code = sim_create_event(&p->event);
    if (code != SIM_OK) return refuse_device(context, "an event of a plan", code);
    out->number = p->number = (uint32_t)(p - context->plans) + 1;
    out->workspace_bytes = p->at.end;
    out->pinned_bytes = p->at.down_end;
    return ES_OK;
}

int32_t release_plan(es_context *context, uint32_t number) {
    plan *p = plan_of(context, number);
    if (!p) return refuse(context, ES_INVALID, "plan %u does not exist", number);
    if (p->masks) p->masks->users--;
    sim_destroy_event(p->event); /* waits for a step of the plan */
    *p = (plan){0};
    return ES_OK;
}

/* --- checks --------------------------------------------------------------------------------------------- */

/* How many logprobs of one kind a row has at most: the token's, and those of the likeliest. */
static int64_t most_entries(int64_t top_n, int64_t vocab_size) {
    return 1 + (top_n < 0 ? vocab_size : lesser(top_n, vocab_size));
}

static int32_t check_plan(es_context *context, const es_batch *b, const plan *p) {
    if (!p) return refuse(context, ES_INVALID, "plan %u does not exist", b->plan);
    if (p->ticket) return refuse(context, ES_INVALID, "plan %u has a step that is not done", b->plan);
    if (b->n > p->rows)
        return refuse(context, ES_INVALID, "%d rows in a plan for %lld", b->n, (long long)p->rows);
    if (b->vocab_size != p->vocab_size || b->logits.code != p->code || b->logits.bits != p->bits)
        return refuse(context, ES_INVALID, "the logits are not those of plan %u", b->plan);
    if (!b->pinned || (uintptr_t)b->pinned % SIM_ALIGNMENT)
        return refuse(context, ES_INVALID,
                      b->pinned ? "the pinned memory is misaligned" : "no pinned memory");
    if (b->masked && !p->masked)
        for (int32_t i = 0; i < b->n; i++)
            if (b->masked[i]) return refuse(context, ES_INVALID, "row %d has a mask in a plan without", i);
    if (b->survivors && (!(p->wants & ES_SURVIVORS) || b->survivors->width < survivors_width(context, p)))
        return refuse(context, ES_INVALID, "survivors that plan %u has no room for", b->plan);
    for (int32_t i = 0; b->logprobs && i < b->n; i++)
        if (b->logprobs_kinds[i] && most_entries(b->top_n[i], b->vocab_size) > logprobs_width(p))
            return refuse(context, ES_INVALID, "logprobs that plan %u has no room for", b->plan);
    return ES_OK;
}

static int64_t stride_of(const es_tensor *t) { return t->strides ? t->strides[0] : t->shape[1]; }

static const char *first_row(const es_tensor *t) { return (const char *)t->data + t->byte_offset; }

/* Rows that are only copied need no alignment. */
static int32_t check_row(es_context *context, const es_tensor *t, int64_t vocab_size, int64_t row,
                         int64_t alignment) {
    const int64_t size = t->bits / 8;
    const char *at = first_row(t) + row * stride_of(t) * size;
    if (row < 0 || row >= t->shape[0])
        return refuse(context, ES_INVALID, "row %lld of %lld does not exist", (long long)row,
                      (long long)t->shape[0]);
    if (!sim_holds(at, vocab_size * size))
        return refuse(context, ES_INVALID, "row %lld of the logits is not in the device's memory",
                      (long long)row);
    if ((uintptr_t)at % (uintptr_t)(alignment ? alignment : size) || vocab_size > t->shape[1])
        return refuse(context, ES_INVALID, "row %lld of the logits is misaligned or too short",
                      (long long)row);
    return ES_OK;
}

static int32_t check_entry(es_context *context, const es_batch *b, int32_t i) {
    const int32_t slot = b->slots[i];
    if (slot < 0 || slot >= b->table->capacity || slot >= context->capacity)
        return refuse(context, ES_INVALID, "entry %d: slot %d has not joined", i, slot);
    const mirror *m = &context->mirrors[slot];
    if (!m->is_known || m->epoch != b->table->epochs[slot] || m->length != b->table->lengths[slot])
        return refuse(context, ES_INVALID, "entry %d: slot %d has changed without notice", i, slot);
    if (b->programs[i] >= context->n_programs)
        return refuse(context, ES_INVALID, "entry %d: program %u does not exist", i, b->programs[i]);
    const int64_t most = context->settings.max_top_k;
    if (most && context->programs[b->programs[i]].has_top_k) {
        const es_params *p = (const es_params *)(const void *)((const char *)b->table->params +
                                                               (size_t)slot * b->table->params->size);
        if (p->top_k < 1 || p->top_k > most)
            return refuse(context, ES_INVALID, "entry %d: a top_k of %lld, beyond %lld", i,
                          (long long)p->top_k, (long long)most);
    }
    return check_row(context, &b->logits, b->vocab_size, b->rows[i], context->settings.alignment);
}

static int32_t check_batch(es_context *context, const es_batch *b) {
    if (!b || b->size < sizeof *b || b->n < 0 || !b->table)
        return refuse(context, ES_INVALID, "invalid batch");
    if (b->logits.device_type != SIM_DEVICE_TYPE || b->logits.device_id || b->logits.ndim != 2)
        return refuse(context, ES_INVALID, "the logits are not a matrix of this device");
    if (b->logits.strides && b->logits.strides[1] != 1)
        return refuse(context, ES_INVALID, "the columns of the logits are %lld elements apart",
                      (long long)b->logits.strides[1]);
    const int32_t code = check_plan(context, b, plan_of(context, b->plan));
    if (code != ES_OK) return code;
    for (int32_t i = 0; i < b->n; i++) {
        const int32_t wrong = check_entry(context, b, i);
        if (wrong != ES_OK) return wrong;
        const int32_t is_edited = b->logprobs && b->logprobs_kinds[i] & ES_LOGPROBS_PENALIZED;
        if (is_edited && (!b->edits || b->edits[i] >= context->n_programs))
            return refuse(context, ES_INVALID, "entry %d: no program of edits", i);
        const int32_t draws = context->programs[b->programs[i]].selector == ES_OP_DIST;
        if (draws && context->settings.random && !b->random)
            return refuse(context, ES_INVALID, "entry %d: no random numbers", i);
    }
    return ES_OK;
}

/* --- what is uploaded ----------------------------------------------------------------------------------- */

typedef struct packing {
    char *to; /* pinned memory */
    int64_t used;
} packing;

static void *pack(packing *out, const void *from, int64_t bytes) {
    void *at = out->to + out->used;
    if (from) memcpy(at, from, (size_t)bytes);
    out->used += (bytes + 7) / 8 * 8;
    return at;
}

/* Decided here: rows that this device does not take. */
static int32_t status_of(const es_context *context, const es_batch *b, int32_t i) {
    const mirror *m = &context->mirrors[b->slots[i]];
    if (!m->block || (m->has_many_breakers && context->programs[b->programs[i]].has_dry))
        return ES_ROW_DECLINED;
    if (!b->logprobs || !b->logprobs_kinds[i]) return ES_ROW_OK;
    /* The logprobs of a draw by the host's numbers are not computed here. */
    return context->settings.random ? ES_ROW_DECLINED : ES_ROW_OK;
}

static int32_t is_changed(const es_batch *b, int64_t row) {
    for (int64_t i = 0; i < b->n_changed; i++)
        if (b->changed[i] == row) return 1;
    return 0;
}

/* The number that says where the mask of entry i lies; those that are not staged are packed. */
static uint16_t pack_mask(packing *out, const es_batch *b, const mask_set *staged, int32_t i,
                          int32_t *packed) {
    const int64_t row = b->rows[i];
    if (!b->masked || !b->masked[i]) return 0;
    if (staged && row < staged->rows && staged->has[row] && !is_changed(b, row)) return 1;
    pack(out, b->bitmask + row * b->bitmask_stride, (b->vocab_size + 31) / 32 * 4);
    return (uint16_t)(2 + (*packed)++);
}

static void pack_logprobs(packing *out, const es_context *context, const es_batch *b) {
    for (int32_t i = 0; i < b->n; i++) {
        const int32_t is_edited = b->edits && b->logprobs_kinds[i] & ES_LOGPROBS_PENALIZED;
        const wire_logprobs wanted = {
            .edits = is_edited ? context->programs[b->edits[i]].whole : 0,
            .top_n = (int32_t)b->top_n[i],
            .kinds = b->logprobs_kinds[i],
        };
        pack(out, &wanted, sizeof wanted);
    }
}

/* Whether some row draws by the host's random numbers. */
static int32_t draws_by_host(const es_context *context, const es_batch *b) {
    for (int32_t i = 0; context->settings.random && i < b->n; i++)
        if (context->programs[b->programs[i]].selector == ES_OP_DIST) return 1;
    return 0;
}

static int64_t pack_step(const es_context *context, const es_batch *b, const mask_set *staged) {
    packing out = {b->pinned, 0};
    wire_header *header = pack(&out, NULL, sizeof *header);
    wire_entry *entries = pack(&out, NULL, b->n * (int64_t)sizeof *entries);
    *header = (wire_header){.n = b->n, .n_records = context->n_records};
    pack(&out, context->records, context->n_records * (int64_t)sizeof *context->records);
    if (draws_by_host(context, b)) {
        header->random = out.used;
        pack(&out, b->random, b->n * random_bytes(context, b->vocab_size));
    }
    if (b->logprobs) {
        header->logprobs = out.used;
        pack_logprobs(&out, context, b);
    }
    int32_t packed = 0;
    header->masks = out.used;
    for (int32_t i = 0; i < b->n; i++) {
        const mirror *m = &context->mirrors[b->slots[i]];
        entries[i] = (wire_entry){
            .position = b->table->positions[b->slots[i]],
            .block = m->block,
            .length = (int32_t)m->length,
            .row = (int32_t)b->rows[i],
            .program = (uint16_t)b->programs[i],
            .mask = pack_mask(&out, b, staged, i, &packed),
            .status = status_of(context, b, i),
        };
    }
    return out.used;
}

/* --- a step --------------------------------------------------------------------------------------------- */

static step_arguments arguments_of(const es_context *context, const es_batch *b, const plan *p) {
    return (step_arguments){
        .kernels = sim_kernels,
        .kernels_context = context->kernels,
        .programs = context->programs,
        .at = p->at,
        .vocab_size = p->vocab_size,
        .stride = stride_of(&b->logits),
        .logits = first_row(&b->logits),
        .code = p->code,
        .bits = p->bits,
        .random = context->settings.random,
        .random_width = random_width(&context->settings, p->vocab_size),
        .nothing = context->nothing,
        .staged_masks = p->masks ? p->masks->device : NULL,
        .mask_words = (p->vocab_size + 31) / 32,
        .token_ids_on_device = b->token_ids_on_device,
        .survivors_width = survivors_width(context, p),
        .logprobs_width = logprobs_width(p),
        .wants_survivors = b->survivors != NULL,
    };
}

/* Queue a step. Sets `what` before each call, for the message if it fails. */
static int32_t queue_step(es_context *context, const es_batch *b, const plan *p, const char **what) {
    sim_stream *stream = b->stream;
    const step_arguments arguments = arguments_of(context, b, p);
    const int64_t bytes = pack_step(context, b, p->masks);
    int64_t workspace;
    sim_executor *executor = NULL;
    *what = "waiting on the stream";
    int32_t code = b->ready ? sim_wait_on_stream(stream, b->ready) : SIM_OK;
    if (code == SIM_OK) code = sim_wait_on_stream(stream, context->uploaded);
    if (code != SIM_OK) return code;
    *what = "the upload of a step";
    if (!b->workspace || !sim_is_on_device(b->workspace)) return SIM_NO_WORKSPACE;
    code = sim_copy(b->workspace, b->pinned, bytes, stream);
    if (code != SIM_OK) return code;
    *what = "the operator of a step";
    code = sim_prepare(&step_operator, &arguments, sizeof arguments, &workspace, &executor);
    if (code == SIM_OK) code = sim_execute(executor, b->workspace, workspace, stream);
    if (code != SIM_OK) return code;
    *what = "the download of a step";
    const int64_t used = b->survivors || b->logprobs ? p->at.down_end - p->at.results
                                                     : b->n * (int64_t)sizeof(wire_result);
    code = sim_copy((char *)b->pinned + p->at.results, (char *)b->workspace + p->at.results, used, stream);
    if (code != SIM_OK) return code;
    *what = "the event of a step";
    return sim_record(p->event, stream);
}

int32_t run_step(es_context *context, es_batch *b) {
    int32_t code = check_batch(context, b);
    if (code != ES_OK) return code;
    plan *p = plan_of(context, b->plan);
    const char *what = "";
    b->ticket = 0;
    p->masks = masks_of(context, b->masks);
    if (b->masks && !p->masks)
        return refuse(context, ES_INVALID, "masks %llu are void", (unsigned long long)b->masks);
    sim_begin_step();
    code = queue_step(context, b, p, &what);
    sim_end_step();
    if (code != SIM_OK) {
        sim_synchronize(b->stream); /* what has been queued uses the host's memory */
        p->masks = NULL;
        return refuse_device(context, what, code);
    }
    if (p->masks) p->masks->users++;
    context->n_records = 0;
    p->batch = b;
    p->ticket = ++context->tickets;
    if (context->settings.synchronous) return wait_for_step(context, p->ticket);
    b->ticket = p->ticket;
    return ES_OK;
}

/* --- results -------------------------------------------------------------------------------------------- */

static void unpack_survivors(const plan *p, const es_survivors *out, int32_t i, int64_t width) {
    const char *pinned = p->batch->pinned;
    const int32_t *counts = (const int32_t *)(const void *)(pinned + p->at.survivor_counts);
    const int32_t *ids = (const int32_t *)(const void *)(pinned + p->at.survivor_ids) + i * width;
    const float *logits = (const float *)(const void *)(pinned + p->at.survivor_logits) + i * width;
    out->counts[i] = counts[i];
    for (int32_t k = 0; k < counts[i]; k++) {
        out->token_ids[i * out->width + k] = ids[k];
        out->logits[i * out->width + k] = logits[k];
    }
}

/* `wanted` as it was uploaded: the arrays of the batch may be others by now. */
static void unpack_logprobs(const plan *p, const wire_logprobs *wanted, int32_t i, int64_t row) {
    const es_batch *b = p->batch;
    const char *pinned = b->pinned;
    const int64_t most = most_entries(wanted->top_n, p->vocab_size), width = logprobs_width(p);
    for (int32_t kind = 0; kind < 3; kind++) {
        const es_logprobs *out = (const es_logprobs *)(const void *)((const char *)b->logprobs +
                                                                     (size_t)kind * b->logprobs->size);
        if (!(wanted->kinds >> kind & 1)) continue;
        const int64_t place = i * 3 + kind, start = out->starts[row];
        const int64_t *ids = (const int64_t *)(const void *)(pinned + p->at.logprob_ids) + place * width;
        const float *values = (const float *)(const void *)(pinned + p->at.logprob_values) + place * width;
        for (int64_t k = 0; k < most && ids[k] >= 0; k++) {
            out->token_ids[start + k] = ids[k];
            out->logprobs[start + k] = values[k];
        }
        out->ranks[row] = ((const int64_t *)(const void *)(pinned + p->at.logprob_ranks))[place];
    }
}

static void unpack(const es_context *context, const plan *p) {
    es_batch *b = p->batch;
    const char *pinned = b->pinned;
    const wire_result *results = (const wire_result *)(const void *)(pinned + p->at.results);
    const wire_header *header = (const wire_header *)(const void *)pinned;
    const wire_entry *entries = (const wire_entry *)(const void *)(header + 1);
    const wire_logprobs *wanted = (const wire_logprobs *)(const void *)(pinned + header->logprobs);
    b->faults = 0;
    for (int32_t i = 0; i < b->n; i++) {
        const int32_t selects = context->programs[entries[i].program].selector >= 0;
        const int64_t row = entries[i].row;
        b->token_ids[row] = results[i].token;
        b->notes[row] = results[i].note;
        b->status[i] = results[i].status;
        b->faults += results[i].status != ES_ROW_OK;
        if (results[i].status != ES_ROW_OK) continue;
        if (b->survivors && !selects) unpack_survivors(p, b->survivors, i, survivors_width(context, p));
        if (header->logprobs && selects) unpack_logprobs(p, &wanted[i], i, row);
    }
}

/* End a step that has been waited for, with a sim_code. */
static int32_t finish(es_context *context, plan *p, int32_t code) {
    if (code == SIM_OK) unpack(context, p);
    else forget_requests(context); /* whether tokens have joined the histories is not known */
    if (p->masks) p->masks->users--;
    p->masks = NULL;
    p->batch = NULL;
    p->ticket = 0;
    free_retired(context);
    /* ES_BUSY would mean that it is not done: with this one, the host tries less, then does the step itself. */
    if (code == SIM_FAILED) return refuse(context, ES_NO_MEMORY, "a step: %s", sim_name_of(code));
    return refuse_device(context, "a step", code);
}

static plan *plan_with(es_context *context, uint64_t ticket) {
    for (int32_t i = 0; ticket && i < context->n_plans; i++)
        if (context->plans[i].ticket == ticket) return &context->plans[i];
    return NULL;
}

int32_t wait_for_step(es_context *context, uint64_t ticket) {
    plan *p = plan_with(context, ticket);
    if (!p) return refuse(context, ES_INVALID, "ticket %llu is not open", (unsigned long long)ticket);
    return finish(context, p, sim_wait(p->event));
}

int32_t poll_step(es_context *context, uint64_t ticket) {
    plan *p = plan_with(context, ticket);
    if (!p) return refuse(context, ES_INVALID, "ticket %llu is not open", (unsigned long long)ticket);
    const int32_t code = sim_poll(p->event);
    if (code == SIM_NOT_READY) return ES_BUSY;
    if (code != SIM_OK) sim_wait(p->event); /* nothing may use the host's memory any more */
    return finish(context, p, code);
}

/* --- rows for the host, and from it --------------------------------------------------------------------- */

int32_t copy_memory(es_context *context, void *to, const void *from, int64_t bytes, int32_t to_device,
                    void *stream) {
    staging *via;
    int32_t code = take_staging(context, bytes, &via);
    if (code == SIM_OK) {
        if (to_device) memcpy(via->pinned, from, (size_t)bytes);
        code = to_device ? sim_copy(to, via->pinned, bytes, stream)
                         : sim_copy(via->pinned, from, bytes, stream);
        const int32_t waited = sim_synchronize(stream);
        if (code == SIM_OK) code = waited;
        if (code == SIM_OK && !to_device) memcpy(to, via->pinned, (size_t)bytes);
    }
    return refuse_device(context, "copying", code);
}

int32_t read_rows(es_context *context, const es_tensor *logits, const int64_t *rows, int64_t n, void *stream,
                  void *out) {
    if (!logits || n < 0 || (n && (!rows || !out)))
        return refuse(context, ES_INVALID, "an argument is missing");
    const int64_t bytes = logits->shape[1] * logits->bits / 8, stride = stride_of(logits) * logits->bits / 8;
    staging *to;
    for (int64_t i = 0; i < n; i++) {
        const int32_t wrong = check_row(context, logits, logits->shape[1], rows[i], 0);
        if (wrong != ES_OK) return wrong;
    }
    int32_t code = take_staging(context, n * bytes, &to);
    for (int64_t i = 0; i < n && code == SIM_OK; i++)
        code = sim_copy((char *)to->pinned + i * bytes, first_row(logits) + rows[i] * stride, bytes, stream);
    const int32_t waited = n ? sim_synchronize(stream) : SIM_OK;
    if (code == SIM_OK) code = waited;
    if (code == SIM_OK && n) memcpy(out, to->pinned, (size_t)(n * bytes));
    return refuse_device(context, "reading rows", code);
}
