/* What the device does in a step: the operator that runs all rows. Everything it touches lies in its memory. */
#include "library_internal.h"

#include <math.h>
#include <string.h>

/* A row on its way through a program. */
typedef struct job {
    const step_arguments *step;
    char *workspace;
    const wire_header *header;
    const wire_entry *entry;
    int32_t number; /* of the entry */
    const request *request;
    es_params params; /* with pointers */
} job;

static const void *at(const void *block, int64_t offset) {
    return offset ? (const char *)block + offset : NULL;
}

/* --- tokens that have joined histories ------------------------------------------------------------------ */

static void add_to_histories(const record *records, int32_t n) {
    for (int32_t i = 0; i < n; i++) {
        char *block = sim_mapped(records[i].block);
        request *r = (request *)(void *)block;
        if (records[i].index != r->length) continue; /* there already, or something before it has been lost */
        ((int64_t *)(void *)(block + r->tokens))[r->length] = records[i].token;
        ((double *)(void *)(block + r->notes))[r->length++] = records[i].note;
    }
}

/* --- parameters ----------------------------------------------------------------------------------------- */

/* The table of first tokens that DRY's breakers have with them. */
static const uint8_t *write_heads(const es_sequences *breakers, uint8_t *heads, int64_t vocab_size) {
    memset(heads, 0, (size_t)vocab_size);
    for (int64_t i = 0, start = 0; i < breakers->n; start = breakers->ends[i++]) {
        const int64_t first = breakers->tokens[start];
        if (first >= 0 && first < vocab_size) heads[first] |= breakers->ends[i] - start == 1 ? 3 : 1;
    }
    return heads;
}

static void point_params(job *j) {
    const request *r = j->request;
    es_params *p = &j->params;
    *p = r->params;
    p->penalty_exempt.ids = at(r, r->penalty_exempt);
    p->allowed_token_ids.ids = at(r, r->allowed);
    p->eos_token_ids.ids = at(r, r->eos);
    p->ending_token_ids.ids = at(r, r->ending);
    p->biased_token_ids.ids = at(r, r->biased);
    p->biases = at(r, r->biases);
    p->bad_words.tokens = at(r, r->bad_words);
    p->bad_words.ends = at(r, r->bad_word_ends);
    p->breakers.tokens = at(r, r->breakers);
    p->breakers.ends = at(r, r->breaker_ends);
    p->breaker_heads = NULL;
    if (p->breakers.n)
        p->breaker_heads = write_heads(&p->breakers, (uint8_t *)j->workspace + j->step->at.heads,
                                       j->step->vocab_size);
    p->text = NULL;
    p->text_ends = NULL;
    p->text_end_token_ids = (es_ids){NULL, 0};
}

/* --- one row by the packaged kernels -------------------------------------------------------------------- */

static const int32_t *mask_of(const job *j) {
    const step_arguments *s = j->step;
    if (!j->entry->mask) return NULL;
    if (j->entry->mask == 1)
        return (const int32_t *)sim_mapped(s->staged_masks) + j->entry->row * s->mask_words;
    const char *uploaded = at(j->workspace, j->header->masks);
    return (const int32_t *)(const void *)(uploaded + (j->entry->mask - 2) * mask_bytes(s->vocab_size));
}

static es_tensor row_of(const job *j, int64_t *shape) {
    const step_arguments *s = j->step;
    const char *first = sim_mapped(s->logits);
    shape[0] = 1;
    shape[1] = s->vocab_size;
    return (es_tensor){
        .data = (void *)(uintptr_t)(first + j->entry->row * s->stride * s->bits / 8),
        .device_type = 1,
        .ndim = 2,
        .code = s->code,
        .bits = s->bits,
        .lanes = 1,
        .shape = shape,
    };
}

/* Where the logprobs of an entry go, of three kinds. */
static void point_logprobs(const job *j, const int64_t *starts, es_logprobs *out) {
    const layout *l = &j->step->at;
    const int64_t width = j->step->logprobs_width;
    for (int32_t kind = 0; kind < 3; kind++) {
        const int64_t place = j->number * 3 + kind;
        out[kind] = (es_logprobs){
            .size = sizeof *out,
            .starts = starts,
            .token_ids = (int64_t *)(void *)(j->workspace + l->logprob_ids) + place * width,
            .logprobs = (float *)(void *)(j->workspace + l->logprob_values) + place * width,
            .ranks = (int64_t *)(void *)(j->workspace + l->logprob_ranks) + place,
        };
        for (int64_t k = 0; k < width; k++) out[kind].token_ids[k] = -1; /* where the row has no entry */
    }
}

/* Run a program of the packaged kernels on the row; `processed` may be NULL. */
static wire_result run_program(const job *j, uint32_t program, float *processed, int32_t with_logprobs) {
    static const int64_t first = 0;
    static const int32_t slot = 0;
    static uint64_t calls; /* guarded by the device's lock: histories are read anew each time */
    const step_arguments *s = j->step;
    const request *r = j->request;
    const uint64_t epoch = ++calls;
    const int64_t length = j->entry->length, width = s->logprobs_width, starts[2] = {0, width};
    const int32_t *mask = mask_of(j);
    const uint8_t masked = mask != NULL;
    const es_table table = {
        .size = sizeof table,
        .capacity = 1,
        .params = &j->params,
        .seeds = &r->seed,
        .positions = &j->entry->position,
        .offsets = &first,
        .lengths = &length,
        .prompt_lengths = &r->prompt_length,
        .epochs = &epoch,
        .tokens = at(r, r->tokens),
        .notes = at(r, r->notes),
    };
    int64_t shape[2], token = -1, top_n = 0;
    uint8_t kinds = 0;
    wire_result out = {-1, ES_ROW_DECLINED, NAN};
    es_logprobs logprobs[3];
    es_batch batch = {
        .size = sizeof batch,
        .n = 1,
        .logits = row_of(j, shape),
        .vocab_size = s->vocab_size,
        .table = &table,
        .rows = &first,
        .slots = &slot,
        .programs = &program,
        .masked = &masked,
        .bitmask = mask,
        .bitmask_stride = s->mask_words,
        .processed = processed ? &processed : NULL,
        .token_ids = &token,
        .notes = &out.note,
        .status = &out.status,
    };
    const wire_logprobs *wanted = at(j->workspace, j->header->logprobs);
    if (with_logprobs && wanted) {
        kinds = (uint8_t)wanted[j->number].kinds;
        top_n = wanted[j->number].top_n;
        point_logprobs(j, starts, logprobs);
        batch.logprobs = logprobs;
        batch.logprobs_kinds = &kinds;
        batch.top_n = &top_n;
        batch.edits = &wanted[j->number].edits;
    }
    if (s->kernels->run(s->kernels_context, &batch) != ES_OK) out.status = ES_ROW_DECLINED;
    out.token = out.status == ES_ROW_OK ? (int32_t)token : -1;
    return out;
}

/* --- survivors and draws -------------------------------------------------------------------------------- */

/* Let all tokens back into `row` that were as likely as the last one left. */
static void keep_ties(const job *j, float *row) {
    const int64_t n = j->step->vocab_size;
    float *given = (float *)(void *)(j->workspace + j->step->at.given), least = INFINITY;
    run_program(j, j->step->nothing, given, 0);
    for (int64_t i = 0; i < n; i++)
        if (row[i] > -INFINITY && row[i] < least) least = row[i];
    for (int64_t i = 0; i < n; i++)
        if (given[i] == least) row[i] = given[i];
}

static int32_t write_survivors(const job *j, float *row) {
    const step_arguments *s = j->step;
    if (s->programs[j->entry->program].keeps_ties) keep_ties(j, row);
    const int64_t width = s->survivors_width, start = j->number * width;
    int32_t *count = (int32_t *)(void *)(j->workspace + s->at.survivor_counts) + j->number;
    int32_t *ids = (int32_t *)(void *)(j->workspace + s->at.survivor_ids) + start;
    float *logits = (float *)(void *)(j->workspace + s->at.survivor_logits) + start;
    *count = 0;
    for (int64_t i = 0; i < s->vocab_size; i++) {
        if (!(row[i] > -INFINITY)) continue;
        if (*count == width) return ES_ROW_DECLINED;
        ids[*count] = (int32_t)i;
        logits[(*count)++] = row[i];
    }
    return ES_ROW_OK;
}

/* -1 where a row has more tokens than there are numbers. */
static int64_t draw(const job *j, float *row) {
    const step_arguments *s = j->step;
    const void *random = at(j->workspace, j->header->random);
    const int64_t n = s->vocab_size;
    if (s->random == ES_RANDOM_BITS) return draw_by_bits(row, n, ((const uint64_t *)random)[j->number]);
    if (s->random == ES_RANDOM_UNIFORM) return draw_by_uniform(row, n, ((const float *)random)[j->number]);
    const float *noise = random;
    if (s->random_width) return draw_by_rank(row, n, noise + j->number * s->random_width, s->random_width);
    return draw_by_exponential(row, n, noise + j->number * n);
}

static wire_result run_entry(const job *j) {
    const step_arguments *s = j->step;
    const program *own = &s->programs[j->entry->program];
    float *row = (float *)(void *)(j->workspace + s->at.row);
    if (s->random && own->selector == ES_OP_DIST) {
        wire_result out = run_program(j, own->samplers, row, 0);
        if (out.status == ES_ROW_OK) out.token = (int32_t)draw(j, row);
        if (out.status == ES_ROW_OK && out.token < 0) out.status = ES_ROW_DECLINED;
        return out;
    }
    const int32_t survive = s->wants_survivors && own->selector < 0;
    wire_result out = run_program(j, own->whole, survive ? row : NULL, 1);
    if (survive && out.status == ES_ROW_OK) out.status = write_survivors(j, row);
    return out;
}

/* --- the operator --------------------------------------------------------------------------------------- */

static int64_t workspace_bytes(const void *arguments) { return ((const step_arguments *)arguments)->at.end; }

static int32_t work(void *arguments, void *workspace) {
    const step_arguments *s = arguments;
    const wire_header *header = workspace;
    const wire_entry *entries = (const wire_entry *)(const void *)(header + 1);
    wire_result *results = (wire_result *)(void *)((char *)workspace + s->at.results);
    add_to_histories((const record *)(const void *)(entries + header->n), header->n_records);
    for (int32_t i = 0; i < header->n; i++) {
        job j = {.step = s, .workspace = workspace, .header = header, .entry = &entries[i], .number = i};
        results[i] = (wire_result){-1, entries[i].status, NAN};
        j.request = sim_mapped(entries[i].block);
        /* Where the step failed that had some tokens with it, the host runs the row. */
        if (j.request && j.request->length != entries[i].length) results[i].status = ES_ROW_DECLINED;
        if (results[i].status == ES_ROW_OK) {
            point_params(&j);
            results[i] = run_entry(&j);
        }
        if (s->token_ids_on_device)
            ((int64_t *)sim_mapped(s->token_ids_on_device))[entries[i].row] = results[i].token;
    }
    return SIM_OK;
}

const sim_operator step_operator = {"step", workspace_bytes, work};
