/* Requests near the logits: parameters, lists and histories, brought up to date by `update`.
 *
 * A request that joins, or is rolled back, is uploaded at once into a new block, which no step in flight can know.
 * Tokens that join a history travel with the next step. Blocks are given back when the steps that may read them
 * are done.
 */
#include "library_internal.h"

#include <stdlib.h>
#include <string.h>

static const es_params *params_of(const es_table *table, int32_t slot) {
    return (const es_params *)(const void *)((const char *)table->params +
                                             (size_t)slot * table->params->size);
}

uint64_t oldest_ticket(const es_context *context) {
    uint64_t oldest = UINT64_MAX;
    for (int32_t i = 0; i < context->n_plans; i++) {
        const uint64_t ticket = context->plans[i].ticket;
        if (ticket && ticket < oldest) oldest = ticket;
    }
    return oldest;
}

/* --- blocks that are left ------------------------------------------------------------------------------- */

static int32_t is_uploading(es_context *context) { return sim_poll(context->uploaded) != SIM_OK; }

void free_retired(es_context *context) {
    int32_t kept = 0;
    if (!context->n_retired || is_uploading(context)) return;
    const uint64_t oldest = oldest_ticket(context);
    for (int32_t i = 0; i < context->n_retired; i++) {
        if (context->retired[i].ticket < oldest) sim_deallocate(context->retired[i].block);
        else context->retired[kept++] = context->retired[i];
    }
    context->n_retired = kept;
}

/* There is always room: `make_room` sees to that. */
static void retire(es_context *context, mirror *m) {
    int32_t kept = 0;
    if (!m->block) return;
    for (int32_t i = 0; i < context->n_records; i++)
        if (context->records[i].block != m->block) context->records[kept++] = context->records[i];
    context->n_records = kept;
    context->retired[context->n_retired++] = (retired){m->block, context->tickets};
    m->block = NULL;
}

static int32_t make_room(es_context *context, int32_t capacity, int32_t n) {
    if (capacity > context->capacity) {
        mirror *larger = grown(context->mirrors, capacity, sizeof *larger);
        if (!larger) return 0;
        memset(larger + context->capacity, 0, (size_t)(capacity - context->capacity) * sizeof *larger);
        context->mirrors = larger;
        context->capacity = capacity;
    }
    /* In this update, two blocks of each slot that changes, and each that is uploaded again; then all slots'. */
    const int32_t needed = context->n_retired + 2 * context->capacity + 2 * n;
    if (needed > context->retired_capacity) {
        retired *larger = grown(context->retired, needed, sizeof *larger);
        if (!larger) return 0;
        context->retired = larger;
        context->retired_capacity = needed;
    }
    return 1;
}

/* --- the image of a request ----------------------------------------------------------------------------- */

/* Lays out what is appended; writes it, too, if there is an image. */
typedef struct writer {
    char *image;
    int64_t used;
} writer;

static int64_t append(writer *w, const void *from, int64_t bytes) {
    const int64_t at = w->used;
    if (!bytes || !from) return 0;
    if (w->image) memcpy(w->image + at, from, (size_t)bytes);
    w->used = padded(at + bytes);
    return at;
}

static int64_t append_ids(writer *w, es_ids ids) {
    return append(w, ids.ids, ids.n * (int64_t)sizeof *ids.ids);
}

static int64_t count_of(es_sequences of) { return of.n ? of.ends[of.n - 1] : 0; }

static void append_sequences(writer *w, es_sequences of, int64_t *tokens, int64_t *ends) {
    *tokens = append(w, of.tokens, count_of(of) * (int64_t)sizeof *of.tokens);
    *ends = append(w, of.ends, of.n * (int64_t)sizeof *of.ends);
}

static void append_history(writer *w, const void *from, int64_t length, int64_t capacity, int64_t *at) {
    *at = w->used;
    if (w->image && length) memcpy(w->image + w->used, from, (size_t)length * 8);
    w->used = padded(w->used + capacity * 8);
}

static int64_t write_image(char *image, const es_table *table, int32_t slot, int64_t capacity,
                           int64_t *tokens) {
    writer w = {image, padded(sizeof(request))};
    request r = {.seed = table->seeds[slot],
                 .length = table->lengths[slot],
                 .prompt_length = table->prompt_lengths[slot]};
    const es_params *p = params_of(table, slot);
    r.params = *p;
    r.params.size = sizeof r.params;
    r.penalty_exempt = append_ids(&w, p->penalty_exempt);
    r.allowed = append_ids(&w, p->allowed_token_ids);
    r.eos = append_ids(&w, p->eos_token_ids);
    r.ending = append_ids(&w, p->ending_token_ids);
    r.biased = append_ids(&w, p->biased_token_ids);
    r.biases = append(&w, p->biases, p->biased_token_ids.n * (int64_t)sizeof *p->biases);
    append_sequences(&w, p->bad_words, &r.bad_words, &r.bad_word_ends);
    if (count_of(p->breakers) <= MOST_BREAKERS)
        append_sequences(&w, p->breakers, &r.breakers, &r.breaker_ends);
    else r.params.breakers.n = 0;
    const int64_t first = table->offsets[slot], length = table->lengths[slot];
    append_history(&w, table->tokens + first, length, capacity, &r.tokens);
    append_history(&w, table->notes + first, length, capacity, &r.notes);
    if (image) memcpy(image, &r, sizeof r);
    *tokens = r.tokens;
    return w.used;
}

/* --- joining -------------------------------------------------------------------------------------------- */

/* Upload a request into a new block. On failure it has none, and its rows are declined. */
static int32_t upload(es_context *context, const es_table *table, int32_t slot) {
    mirror *m = &context->mirrors[slot];
    retire(context, m);
    *m = (mirror){.epoch = table->epochs[slot], .length = table->lengths[slot], .is_known = 1};
    m->capacity = 2 * m->length + 64;
    m->has_many_breakers = count_of(params_of(table, slot)->breakers) > MOST_BREAKERS;
    const int64_t bytes = write_image(NULL, table, slot, m->capacity, &m->tokens_at);
    staging *from;
    int32_t code = take_staging(context, bytes, &from);
    if (code == SIM_OK) code = sim_allocate(bytes, &m->block);
    if (code != SIM_OK) return code;
    write_image(from->pinned, table, slot, m->capacity, &m->tokens_at);
    code = sim_copy(m->block, from->pinned, bytes, context->uploads);
    if (code == SIM_OK) code = record_uploads(context);
    if (code == SIM_OK) code = sim_record(from->event, context->uploads);
    if (code != SIM_OK) {
        settle_uploads(context);
        retire(context, m);
    }
    return code;
}

/* Note tokens that the next step uploads; 0 if the whole request must be uploaded instead. */
static int32_t note_growth(es_context *context, const es_table *table, int32_t slot, int64_t before) {
    mirror *m = &context->mirrors[slot];
    const int64_t length = table->lengths[slot], first = table->offsets[slot];
    if (!m->block || before > m->length || length > m->capacity) return 0;
    if (length - before > MOST_RECORDS - context->n_records) return 0;
    for (int64_t i = before; i < length; i++)
        context->records[context->n_records++] = (record){m->block, table->notes[first + i], (int32_t)i,
                                                          (int32_t)table->tokens[first + i]};
    m->epoch = table->epochs[slot];
    m->length = length;
    return 1;
}

static int32_t update_slot(es_context *context, const es_changes *changes, int32_t i) {
    const es_table *table = changes->table;
    const int32_t slot = changes->slots[i], kind = changes->kinds[i];
    mirror *m = &context->mirrors[slot];
    if (kind == ES_LEFT) {
        retire(context, m);
        *m = (mirror){0};
        return SIM_OK;
    }
    const int32_t goes_on = kind == ES_GREW && note_growth(context, table, slot, changes->befores[i]);
    return goes_on ? SIM_OK : upload(context, table, slot);
}

static int32_t check_changes(es_context *context, const es_changes *changes) {
    if (!changes || changes->size < sizeof *changes || changes->n < 0 || !changes->table)
        return refuse(context, ES_INVALID, "invalid changes");
    const es_table *table = changes->table;
    if (table->size < sizeof *table || (changes->n && table->params->size < sizeof(es_params)))
        return refuse(context, ES_INVALID, "a table of another version");
    if (changes->n && (!changes->slots || !changes->kinds || !changes->befores))
        return refuse(context, ES_INVALID, "an array of the changes is missing");
    for (int32_t i = 0; i < changes->n; i++) {
        const int32_t slot = changes->slots[i], kind = changes->kinds[i];
        if (slot < 0 || slot >= changes->table->capacity)
            return refuse(context, ES_INVALID, "slot %d of %d does not exist", slot,
                          changes->table->capacity);
        if (kind < ES_JOINED || kind > ES_ROLLED_BACK)
            return refuse(context, ES_INVALID, "an unknown kind of change: %d", kind);
        const int32_t goes_on = kind == ES_GREW || kind == ES_ROLLED_BACK;
        if (goes_on && (slot >= context->capacity || !context->mirrors[slot].is_known))
            return refuse(context, ES_INVALID, "slot %d changes and has not joined", slot);
        if (goes_on && (changes->befores[i] < 0 || changes->befores[i] > context->mirrors[slot].length))
            return refuse(context, ES_INVALID, "slot %d goes on after token %lld of %lld", slot,
                          (long long)changes->befores[i], (long long)context->mirrors[slot].length);
    }
    return ES_OK;
}

int32_t update_requests(es_context *context, const es_changes *changes) {
    const int32_t code = check_changes(context, changes);
    if (code != ES_OK) return code;
    free_retired(context);
    if (!make_room(context, changes->table->capacity, changes->n))
        return refuse(context, ES_NO_MEMORY, "no memory for %d slots", changes->table->capacity);
    int32_t worst = SIM_OK;
    for (int32_t i = 0; i < changes->n; i++) {
        const int32_t done = update_slot(context, changes, i);
        if (done != SIM_OK) worst = done;
    }
    for (int32_t slot = 0; slot < context->capacity && slot < changes->table->capacity; slot++) {
        const mirror *m = &context->mirrors[slot]; /* without a block, since something failed */
        if (m->is_known && !m->block) {
            const int32_t done = upload(context, changes->table, slot);
            if (done != SIM_OK) worst = done;
        }
    }
    /* Rows without a block are declined, one by one, until there is memory for them. */
    return worst == SIM_LOST ? refuse_device(context, "the upload of requests", worst) : ES_OK;
}

void forget_requests(es_context *context) {
    for (int32_t slot = 0; slot < context->capacity; slot++) retire(context, &context->mirrors[slot]);
    context->n_records = 0;
    context->forgot = 1;
}

/* --- uploads -------------------------------------------------------------------------------------------- */

int32_t record_uploads(es_context *context) {
    /* What has failed before is not forgotten with the event's next record. */
    const int32_t code = context->forgot ? SIM_OK : sim_wait_on_stream(context->uploads, context->uploaded);
    context->forgot = 0;
    return code == SIM_OK ? sim_record(context->uploaded, context->uploads) : code;
}

void settle_uploads(es_context *context) {
    sim_synchronize(context->uploads); /* the copies read memory that is used again */
    forget_requests(context);          /* which of them have failed is not known any more */
}

void free_requests(es_context *context) {
    for (int32_t slot = 0; slot < context->capacity; slot++) sim_deallocate(context->mirrors[slot].block);
    for (int32_t i = 0; i < context->n_retired; i++) sim_deallocate(context->retired[i].block);
    free(context->mirrors);
    free(context->retired);
}
