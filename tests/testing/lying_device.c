/* A library for a device that forwards every call to the simulated one, and breaks one law at a time: LIE names
 * which, "" is honest.
 *
 * The simulated library's path is in LIE_DEVICE, that of the packaged kernels in LIE_NATIVE, and in LIE_LIMITS the
 * settings that it has: max_rows max_top_k alignment max_survivors random ties synchronous. What reaches it are
 * copies, and what it gives is handed over when a step has been waited for.
 */
#define _GNU_SOURCE
#include <engine_sampler.h>

#include <sim_library.h>

#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* clang-format off */
#define LIES(X) \
    X(outputs_late) X(status_late) X(poll_too_early) X(poll_never_done) X(writes_after_end) X(ends_oldest) \
    X(ticket_of_last) X(sets_n) X(token_on_device_wrong) X(token_on_device_late) \
    X(nothing_on_device) X(tokens_by_entry) X(survivor_missing) X(survivor_doubled) X(survivors_unsorted) \
    X(survivor_scaled) X(survivors_truncated) X(survivor_forbidden) X(ties_by_id_kept) X(changed_ignored) \
    X(masks_stale) X(masks_late) X(masks_always_used) X(masks_of_entries) X(positions_late) X(slots_late) \
    X(programs_late) X(rows_late) X(random_late) X(rollback_ignored) X(join_ignored) \
    X(growth_off_by_one) X(growth_ignored) X(leak_per_leave) X(leak_per_step) \
    X(plan_repeated) X(plan_negative) X(plan_not_released) X(plan_rows_exact) X(plan_of_first) \
    X(writes_past_workspace) X(writes_before_pinned) X(writes_past_tokens) X(writes_past_survivors) \
    X(logits_changed) X(random_ignored) X(random_of_first) X(random_rotated) X(top_k_untrue) X(rows_untrue) \
    X(alignment_untrue) X(alignment_odd) X(survivors_of_none) X(random_unknown) X(ties_any) X(answers_differ) \
    X(no_enter_thread) X(static_programs) X(rollback_by_prompt) X(rows_read_in_order) X(declines_all) \
    X(memory_shared) X(deallocate_refused) X(faults_zero) X(stops_at_150) X(deallocate_ignored) X(run_refuses_pinned)
/* clang-format on */

#include "lies.h"

static const es_api *base;

/* A step that has been begun. */
typedef struct step {
    struct step *next;
    es_batch *given, inner;
    es_table table;
    uint64_t number; /* the ticket that the host has */
    int64_t n_rows; /* of the logits */
    void *blocks[80];
    int n_blocks;
    es_survivors survivors;
    es_logprobs logprobs[3];
} step;

enum { MOST_SLOTS = 1 << 12, MOST_PLANS = 1 << 12 };

struct es_context {
    es_context *inner;
    step *open; /* the newest first */
    step *ended; /* whose outputs have not been handed over */
    uint64_t tickets, runs, id;
    int64_t known[MOST_SLOTS]; /* lengths */
    uint8_t has[MOST_SLOTS];
    es_plan plans[MOST_PLANS]; /* by their real number */
    int64_t plan_rows[MOST_PLANS], prepared;
    uint64_t staged;
    int32_t *old_masks;
    int64_t old_words;
    es_masks late_masks;
    uint32_t ops[64]; /* by program */
};

static uint64_t opened;
static uint32_t last_compiled[64]; /* in any context, by its number there */

static void *copied(step *s, const void *from, size_t bytes) {
    void *block = calloc(1, bytes + 8);
    if (!block || s->n_blocks == 80) abort();
    if (from) memcpy(block, from, bytes);
    return s->blocks[s->n_blocks++] = block;
}

static void free_step(step *s) {
    while (s->n_blocks) free(s->blocks[--s->n_blocks]);
    free(s);
}

/* --- what reaches the device ---------------------------------------------------------------------------- */

#define COPY(field, n) \
    if (inner->field) inner->field = copied(s, inner->field, (size_t)(n) * sizeof *inner->field)
#define COPY_TABLE(field, n) s->table.field = copied(s, s->table.field, (size_t)(n) * sizeof *s->table.field)

static size_t random_bytes(int32_t kind, int64_t vocab_size) {
    return kind == ES_RANDOM_BITS ? 8 : kind == ES_RANDOM_UNIFORM ? 4 : 4 * (size_t)vocab_size;
}

static sim_settings settings;

static void copy_table(step *s, const es_table *table) {
    const size_t n = (size_t)table->capacity;
    s->table = *table;
    int64_t cells = 0;
    for (size_t slot = 0; slot < n; slot++)
        if (table->offsets[slot] + table->lengths[slot] > cells)
            cells = table->offsets[slot] + table->lengths[slot];
    s->table.params = copied(s, table->params, n * table->params->size);
    COPY_TABLE(seeds, n);
    COPY_TABLE(positions, n);
    COPY_TABLE(offsets, n);
    COPY_TABLE(lengths, n);
    COPY_TABLE(prompt_lengths, n);
    COPY_TABLE(epochs, n);
    COPY_TABLE(tokens, cells);
    COPY_TABLE(notes, cells);
}

static void point_outputs(step *s) {
    es_batch *inner = &s->inner;
    const size_t n = (size_t)inner->n, rows = (size_t)s->n_rows;
    inner->token_ids = copied(s, inner->token_ids, rows * 8);
    inner->notes = copied(s, inner->notes, rows * 8);
    inner->status = copied(s, inner->status, n * 4);
    if (inner->survivors) {
        s->survivors = *inner->survivors;
        s->survivors.size = sizeof s->survivors;
        const size_t cells = n * (size_t)s->survivors.width;
        s->survivors.counts = copied(s, s->survivors.counts, n * 8);
        s->survivors.token_ids = copied(s, s->survivors.token_ids, cells * 8);
        s->survivors.logits = copied(s, s->survivors.logits, cells * 4);
        inner->survivors = &s->survivors;
    }
    for (int kind = 0; inner->logprobs && kind < 3; kind++) {
        const es_logprobs *given = (const es_logprobs *)(const void *)((const char *)inner->logprobs +
                                                                       (size_t)kind * inner->logprobs->size);
        es_logprobs *own = &s->logprobs[kind];
        *own = *given;
        own->size = sizeof *own;
        if (!given->starts) continue;
        const size_t cells = (size_t)given->starts[rows];
        own->starts = copied(s, given->starts, (rows + 1) * 8);
        own->token_ids = copied(s, given->token_ids, cells * 8);
        own->logprobs = copied(s, given->logprobs, cells * 4);
        own->ranks = copied(s, given->ranks, rows * 8);
    }
    if (inner->logprobs) inner->logprobs = s->logprobs;
}

static step *new_step(es_batch *given) {
    step *s = calloc(1, sizeof *s);
    if (!s) abort();
    es_batch *inner = &s->inner;
    const size_t n = (size_t)given->n;
    s->given = given;
    s->inner = *given;
    inner->size = sizeof *inner;
    s->n_rows = given->logits.shape[0];
    COPY(rows, n);
    COPY(slots, n);
    COPY(programs, n);
    COPY(masked, n);
    COPY(logprobs_kinds, n);
    COPY(top_n, n);
    COPY(edits, n);
    COPY(changed, given->n_changed);
    if (given->random)
        inner->random = copied(s, given->random, n * random_bytes(settings.random, given->vocab_size));
    inner->logits.shape = copied(s, given->logits.shape, 16);
    if (given->logits.strides) inner->logits.strides = copied(s, given->logits.strides, 16);
    copy_table(s, given->table);
    inner->table = &s->table;
    point_outputs(s);
    return s;
}

/* --- what comes back ------------------------------------------------------------------------------------ */

static void hand_over_survivors(step *s) {
    const es_survivors *from = &s->survivors, *to = s->given->survivors;
    const int64_t width = from->width;
    for (int32_t i = 0; i < s->inner.n; i++) {
        if (s->inner.status[i] != ES_ROW_OK) continue;
        const int64_t n = from->counts[i];
        to->counts[i] = n;
        for (int64_t k = 0; k < n; k++) {
            to->token_ids[i * to->width + k] = from->token_ids[i * width + k];
            to->logits[i * to->width + k] = from->logits[i * width + k];
        }
        int64_t *ids = to->token_ids + i * to->width;
        float *logits = to->logits + i * to->width;
        if (lie == survivor_missing && n > 1 && i % 3 == 1) to->counts[i] = n - 1;
        if (lie == survivor_doubled && n > 1 && i % 3 == 1) ids[n - 1] = ids[n - 2];
        if (lie == survivor_scaled && i % 3 == 1) logits[n - 1] = nextafterf(logits[n - 1], 1e9f);
        if (lie == survivor_forbidden && n < to->width && ids[n - 1] + 1 < s->inner.vocab_size &&
            i % 3 == 1) {
            ids[n] = ids[n - 1] + 1;
            logits[n] = 0;
            to->counts[i] = n + 1;
        }
        if (lie == survivors_unsorted && n > 1) {
            const int64_t id = ids[0];
            const float logit = logits[0];
            ids[0] = ids[n - 1], logits[0] = logits[n - 1];
            ids[n - 1] = id, logits[n - 1] = logit;
        }
    }
    if (lie == writes_past_survivors) to->counts[s->inner.n] = 0;
}

static void hand_over_logprobs(step *s) {
    for (int kind = 0; kind < 3; kind++) {
        const es_logprobs *from = &s->logprobs[kind];
        const es_logprobs *to = (const es_logprobs *)(const void *)((const char *)s->given->logprobs +
                                                                    (size_t)kind * s->given->logprobs->size);
        if (!from->starts) continue;
        const size_t cells = (size_t)from->starts[s->n_rows];
        memcpy(to->token_ids, from->token_ids, cells * 8);
        memcpy(to->logprobs, from->logprobs, cells * 4);
        memcpy(to->ranks, from->ranks, (size_t)s->n_rows * 8);
    }
}

static void hand_over(step *s) {
    es_batch *to = s->given;
    const int64_t *rows = lie == rows_late ? to->rows : s->inner.rows;
    for (int32_t i = 0; i < s->inner.n; i++) {
        const int64_t row = rows[i], own = s->inner.rows[i];
        to->token_ids[row] = s->inner.token_ids[own];
        to->notes[row] = s->inner.notes[own];
        if (lie != status_late) to->status[i] = s->inner.status[i];
        if (lie == declines_all) to->status[i] = ES_ROW_DECLINED;
        if (lie == survivors_truncated && s->inner.survivors && to->status[i] == ES_ROW_DECLINED) {
            const int64_t width = s->survivors.width;
            to->status[i] = s->inner.status[i] = ES_ROW_OK;
            s->survivors.counts[i] = width;
            for (int64_t k = 0; k < width; k++) s->survivors.token_ids[i * width + k] = k;
            s->inner.faults--;
        }
    }
    to->faults = lie == faults_zero ? 0 : lie == declines_all ? s->inner.n : s->inner.faults;
    if (s->inner.survivors) hand_over_survivors(s);
    if (s->inner.logprobs) hand_over_logprobs(s);
}

/* Write an int64 on the device. */
static void write_on_device(es_context *context, int64_t *at, int64_t value) {
    base->copy(context->inner, at, &value, sizeof value, 1, NULL);
}

static void spoil_device(es_context *context, const step *s) {
    int64_t *tokens = s->given->token_ids_on_device;
    const es_plan *plan = &context->plans[s->inner.plan];
    const int64_t zero = 0;
    if (tokens) {
        const int64_t row = s->inner.rows[0];
        if (lie == token_on_device_wrong && s->inner.n > 4 && s->inner.token_ids[row] > 0)
            write_on_device(context, tokens + row, s->inner.token_ids[row] - 1);
        for (int32_t i = 0; lie == token_on_device_late && i < s->inner.n; i++)
            write_on_device(context, tokens + s->inner.rows[i], s->inner.token_ids[s->inner.rows[i]]);
        for (int32_t i = 0; lie == tokens_by_entry && i < s->inner.n; i++)
            write_on_device(context, tokens + i, s->inner.token_ids[s->inner.rows[i]]);
        if (lie == writes_past_tokens) write_on_device(context, tokens + s->n_rows, 0);
    }
    if (lie == writes_past_workspace)
        base->copy(context->inner, (char *)s->inner.workspace + plan->workspace_bytes, &zero, 4, 1, NULL);
    if (lie == writes_before_pinned) ((char *)s->inner.pinned)[-1] = 0;
    if (lie == logits_changed) {
        const es_tensor *t = &s->inner.logits;
        const int64_t stride = t->strides ? t->strides[0] : t->shape[1];
        char *at = (char *)t->data + t->byte_offset + s->inner.rows[0] * stride * t->bits / 8;
        base->copy(context->inner, at, &zero, t->bits / 8, 1, NULL);
    }
}

/* --- steps ---------------------------------------------------------------------------------------------- */

/* Read again what should have been read before. */
static int32_t run_again(es_context *context, step *s) {
    const es_batch *given = s->given;
    if (lie == positions_late) s->table.positions = given->table->positions;
    if (lie == slots_late) s->inner.slots = given->slots;
    if (lie == programs_late) s->inner.programs = given->programs;
    if (lie == random_late) s->inner.random = given->random;
    s->inner.ticket = 0;
    const int32_t code = base->run(context->inner, &s->inner);
    return code || !s->inner.ticket ? code : base->wait(context->inner, s->inner.ticket);
}

static void finish_ended(es_context *context) {
    if (!context->ended) return;
    if (lie == outputs_late) hand_over(context->ended);
    if (lie == writes_after_end) context->ended->given->token_ids[context->ended->inner.rows[0]] = 0;
    free_step(context->ended);
    context->ended = NULL;
}

static int32_t end(es_context *context, step *s, int32_t code) {
    const int reads = lie == positions_late || lie == slots_late || lie == programs_late ||
                      lie == random_late;
    step **link = &context->open;
    while (*link != s) link = &(*link)->next;
    *link = s->next;
    if (code == ES_OK && reads) code = run_again(context, s);
    if (code == ES_OK) {
        spoil_device(context, s);
        if (lie != outputs_late) hand_over(s);
        if (lie == sets_n) s->given->n = s->inner.n - 1;
    }
    finish_ended(context);
    context->ended = s;
    return code;
}

static step *step_of(es_context *context, uint64_t ticket) {
    step *s = context->open;
    while (s && s->number != ticket) s = s->next;
    if (lie == ends_oldest)
        for (s = context->open; s && s->next; s = s->next) {}
    return s;
}

static int32_t forward_wait(es_context *context, uint64_t ticket) {
    step *s = step_of(context, ticket);
    if (!s) return ES_INVALID;
    return end(context, s, s->inner.ticket ? base->wait(context->inner, s->inner.ticket) : ES_OK);
}

static int32_t forward_poll(es_context *context, uint64_t ticket) {
    step *s = step_of(context, ticket);
    if (!s) return ES_INVALID;
    if (lie == poll_never_done) return ES_BUSY;
    const int32_t code = s->inner.ticket ? base->poll(context->inner, s->inner.ticket) : ES_OK;
    if (code == ES_BUSY && lie == poll_too_early) return ES_OK;
    return code == ES_BUSY ? code : end(context, s, code);
}

/* Counts of tokens that are pretended to be as they were. */
static int32_t forward_update_now(es_context *context, const es_changes *given) {
    es_changes changes = *given;
    es_table table = *given->table;
    int64_t *tokens = NULL, cells = 0;
    int32_t *kinds = malloc((size_t)given->n * 4 + 4);
    int64_t *befores = malloc((size_t)given->n * 8 + 8);
    if (!kinds || !befores) abort();
    for (int32_t slot = 0; slot < table.capacity; slot++)
        if (table.offsets[slot] + table.lengths[slot] > cells)
            cells = table.offsets[slot] + table.lengths[slot];
    tokens = malloc((size_t)cells * 8 + 8);
    if (!tokens) abort();
    memcpy(tokens, table.tokens, (size_t)cells * 8);
    table.tokens = tokens;
    changes.table = &table;
    for (int32_t i = 0; i < given->n; i++) {
        const int32_t slot = given->slots[i];
        const int64_t length = given->table->lengths[slot], known = context->known[slot];
        const int64_t all = known < length ? known : length;
        kinds[i] = given->kinds[i];
        befores[i] = given->befores[i];
        if (lie == rollback_ignored && kinds[i] == ES_ROLLED_BACK) kinds[i] = ES_GREW, befores[i] = all;
        if (lie == rollback_by_prompt && kinds[i] == ES_ROLLED_BACK)
            kinds[i] = ES_GREW,
            befores[i] = all < table.prompt_lengths[slot] + 2 ? 0 : table.prompt_lengths[slot] + 2;
        if (lie == join_ignored && kinds[i] == ES_JOINED && context->has[slot])
            kinds[i] = ES_GREW, befores[i] = 0;
        const int64_t first = given->table->offsets[slot], start = befores[i];
        if (lie == growth_off_by_one && kinds[i] == ES_GREW && length > start + 1)
            tokens[first + length - 1] = tokens[first];
        if (lie == growth_ignored && kinds[i] == ES_GREW && start < length)
            tokens[first + start] = tokens[first];
        if (lie == leak_per_leave && kinds[i] == ES_LEFT) memset(malloc(1 << 14), 1, 1 << 14);
        context->has[slot] = kinds[i] != ES_LEFT;
        context->known[slot] = length;
    }
    changes.kinds = kinds;
    changes.befores = befores;
    const int32_t code = base->update(context->inner, &changes);
    free(kinds);
    free(befores);
    free(tokens);
    return code;
}

static int32_t forward_update(es_context *context, const es_changes *given) {
    if (given->table->capacity > MOST_SLOTS) return ES_NO_MEMORY;
    return forward_update_now(context, given);
}

static int32_t forward_run(es_context *context, es_batch *given) {
    const int64_t align = given->logits.strides ? given->logits.strides[0] * given->logits.bits / 8 : 64;
    const es_params *params = given->table->params;
    finish_ended(context);
    if (lie == stops_at_150 && ++context->runs > 150) return ES_NO_MEMORY;
    if (lie == leak_per_step) memset(malloc(1 << 14), 1, 1 << 14);
    if (lie == rows_untrue && given->n > 8) return ES_INVALID;
    if (lie == alignment_untrue && given->logits.shape[0] > 1 && align % 64) return ES_INVALID;
    if (lie == plan_rows_exact && given->n < context->plan_rows[given->plan]) return ES_INVALID;
    if (lie == run_refuses_pinned && given->n > 30) return ES_BUSY;
    for (int32_t i = 0; lie == top_k_untrue && i < given->n; i++)
        if (((const es_params *)(const void *)((const char *)params + (size_t)given->slots[i] * params->size))
                ->top_k > 32)
            return ES_INVALID;
    step *s = new_step(given);
    es_batch *inner = &s->inner;
    if (lie == plan_repeated) inner->plan = inner->plan * 2 - 1;
    if (lie == token_on_device_late || lie == nothing_on_device) inner->token_ids_on_device = NULL;
    if (lie == changed_ignored) inner->n_changed = 0;
    if (lie == masks_always_used && !inner->masks && inner->masked) inner->masks = context->staged;
    if (lie == masks_late && inner->masks && context->late_masks.n)
        base->stage_masks(context->inner, &context->late_masks, &inner->masks);
    for (int32_t i = 0; lie == static_programs && i < inner->n; i++) {
        const uint32_t own = inner->programs[i];
        if (own < 64 && last_compiled[own] != context->ops[own])
            ((uint32_t *)(intptr_t)inner->programs)[i] = 0;
    }
    if (lie == random_ignored && inner->random)
        memset((void *)(intptr_t)inner->random, 0x3c,
               (size_t)inner->n * random_bytes(settings.random, inner->vocab_size));
    if ((lie == random_of_first || lie == random_rotated) && inner->random && inner->n > 1) {
        const size_t one = random_bytes(settings.random, inner->vocab_size);
        char *at = (char *)(intptr_t)inner->random;
        for (int32_t i = 1; lie == random_of_first && i < inner->n; i++)
            memcpy(at + (size_t)i * one, at, one);
        if (lie == random_rotated) memmove(at, at + one, one * (size_t)(inner->n - 1));
    }
    const int32_t code = base->run(context->inner, inner);
    if (code != ES_OK) {
        free_step(s);
        return code;
    }
    s->next = context->open;
    context->open = s;
    s->number = ++context->tickets;
    if (!inner->ticket) return end(context, s, ES_OK);
    given->ticket = lie == ticket_of_last ? (s->number + 1) / 2 : s->number;
    return ES_OK;
}

/* --- plans, masks and rows ------------------------------------------------------------------------------- */

static int32_t forward_prepare(es_context *context, const es_shape *shape, es_plan *plan) {
    if (lie == plan_not_released && ++context->prepared > 24) return ES_NO_MEMORY;
    es_plan own = {.size = sizeof own};
    if (lie == plan_of_first && context->prepared++ && shape->rows > 1) {
        es_shape fewer = *shape;
        fewer.rows = 1;
        const int32_t code = base->prepare(context->inner, &fewer, &own);
        if (code != ES_OK) return code;
    } else {
        const int32_t code = base->prepare(context->inner, shape, &own);
        if (code != ES_OK) return code;
    }
    if (own.number >= MOST_PLANS) return ES_NO_MEMORY;
    context->plans[own.number] = own;
    context->plan_rows[own.number] = shape->rows;
    plan->number = lie == plan_repeated ? (own.number + 1) / 2 : own.number;
    plan->workspace_bytes = own.workspace_bytes;
    plan->pinned_bytes = lie == plan_negative ? -own.pinned_bytes : own.pinned_bytes;
    return ES_OK;
}

static int32_t forward_release(es_context *context, uint32_t plan) {
    return lie == plan_repeated ? ES_OK : base->release(context->inner, plan);
}

static int32_t forward_stage(es_context *context, const es_masks *given, uint64_t *number) {
    es_masks masks = *given;
    const int64_t words = given->total * given->bitmask_stride;
    if (lie == masks_late) {
        int64_t *rows = malloc((size_t)given->n * 8);
        if (!rows) return ES_NO_MEMORY;
        memcpy(rows, given->rows, (size_t)given->n * 8);
        context->late_masks = *given;
        context->late_masks.rows = rows;
    }
    if (lie == masks_stale && context->old_masks && context->old_words >= words)
        masks.bitmask = context->old_masks;
    const int32_t code = base->stage_masks(context->inner, &masks, number);
    if (lie == masks_stale) {
        int32_t *kept = malloc((size_t)words * 4);
        if (!kept) return ES_NO_MEMORY;
        memcpy(kept, given->bitmask, (size_t)words * 4);
        free(context->old_masks);
        context->old_masks = kept;
        context->old_words = words;
    }
    context->staged = *number;
    return code;
}

static int32_t forward_read_rows(es_context *context, const es_tensor *logits, const int64_t *rows, int64_t n,
                                 void *stream, void *out) {
    int64_t ascending[64];
    for (int64_t i = 0; i < n && i < 64; i++) ascending[i] = i;
    return base->read_rows(context->inner, logits, lie == rows_read_in_order && n <= 64 ? ascending : rows, n,
                           stream, out);
}

/* --- programs and answers ------------------------------------------------------------------------------- */

static int32_t forward_query(es_context *context, const es_query *query, es_answer *answer) {
    const int32_t code = base->query(context->inner, query, answer);
    if (code != ES_OK) return code;
    if (lie == top_k_untrue) answer->max_top_k = 64;
    if (lie == rows_untrue) answer->max_rows = 16;
    if (lie == alignment_untrue) answer->alignment = 16;
    if (lie == alignment_odd) answer->alignment = 24;
    if (lie == survivors_of_none) answer->max_survivors = 0;
    if (lie == random_unknown) answer->random = 9;
    if (lie == ties_any) answer->ties = ES_TIES_ANY;
    if (lie == ties_by_id_kept) answer->ties = ES_TIES_BY_ID;
    if (lie == answers_differ && context->id % 2) answer->max_survivors++;
    return code;
}

static int32_t forward_compile(es_context *context, const es_program *program, uint32_t *number) {
    const int32_t code = base->compile(context->inner, program, number);
    if (code == ES_OK && *number < 64)
        context->ops[*number] = last_compiled[*number] = (uint32_t)program->n_ops;
    return code;
}

/* --- contexts and memory -------------------------------------------------------------------------------- */

static int32_t forward_open(const es_options *options, es_context **out) {
    es_context *context = calloc(1, sizeof *context);
    *out = NULL;
    if (!context) return ES_NO_MEMORY;
    context->id = opened++;
    const int32_t code = base->open(options, &context->inner);
    if (code == ES_OK) *out = context;
    else free(context);
    return code;
}

static void forward_close(es_context *context) {
    base->close(context->inner);
    for (step *s = context->open, *next; s; s = next) next = s->next, free_step(s);
    if (context->ended) free_step(context->ended);
    free(context->old_masks);
    free(context);
}

static const char *forward_error(const es_context *context) { return base->error(context->inner); }

static const char *forward_target(const es_context *context) { return base->target(context->inner); }

static int32_t forward_enter(es_context *context) { return base->enter_thread(context->inner); }

static int32_t forward_allocate(es_context *context, int32_t memory, int64_t bytes, void **out) {
    static void *shared;
    const int32_t code = base->allocate(context->inner, memory, bytes, out);
    if (lie == memory_shared && memory == ES_MEMORY_DEVICE) {
        if (shared) *out = shared;
        shared = *out;
    }
    return code;
}

static int32_t forward_deallocate(es_context *context, int32_t memory, void *pointer) {
    if (lie == deallocate_ignored && memory == ES_MEMORY_DEVICE) return ES_OK;
    if (lie == deallocate_refused && memory == ES_MEMORY_PINNED) return ES_INVALID;
    return base->deallocate(context->inner, memory, pointer);
}

static int32_t forward_copy(es_context *context, void *to, const void *from, int64_t bytes, int32_t to_device,
                            void *stream) {
    return base->copy(context->inner, to, from, bytes, to_device, stream);
}

/* --- the table ------------------------------------------------------------------------------------------ */

static int read_settings(void *library) {
    void (*defaults)(sim_settings *), (*configure)(const sim_settings *), (*capacity)(int64_t);
    int32_t (*use)(const char *);
    *(void **)&defaults = dlsym(library, "sim_default_settings");
    *(void **)&configure = dlsym(library, "sim_configure");
    *(void **)&capacity = dlsym(library, "sim_set_capacity");
    *(void **)&use = dlsym(library, "sim_use_kernels");
    if (!defaults || !configure || !use || use(getenv("LIE_NATIVE"))) return 0;
    if (capacity) capacity(1 << 27);
    defaults(&settings);
    const char *limits = getenv("LIE_LIMITS");
    long long rows = 0, top_k = 0, alignment = 0, most = 64;
    int random = 0, ties = 0, synchronous = 0;
    if (limits)
        sscanf(limits, "%lld %lld %lld %lld %d %d %d", &rows, &top_k, &alignment, &most, &random, &ties,
               &synchronous);
    /* The simulated device writes entries of logprobs that a row does not have. */
    settings.promises &= ~(uint32_t)ES_LOGPROBS;
    settings.max_rows = rows, settings.max_top_k = top_k, settings.alignment = alignment;
    settings.max_survivors = most, settings.random = random, settings.synchronous = synchronous;
    settings.ties = lie == ties_by_id_kept ? ES_TIES_KEPT : ties;
    configure(&settings);
    return 1;
}

ES_EXPORT int32_t es_get_api(uint32_t host_abi, const es_api **out);

int32_t es_get_api(uint32_t host_abi, const es_api **out) {
    static es_api table;
    void *device = dlopen(getenv("LIE_DEVICE"), RTLD_NOW | RTLD_LOCAL);
    if (host_abi >> 16 != ES_ABI_MAJOR || !choose_lie() || !device || !read_settings(device))
        return ES_UNSUPPORTED;
    int32_t (*get)(uint32_t, const es_api **);
    *(void **)&get = dlsym(device, "es_get_api");
    if (get(host_abi, &base)) return ES_UNSUPPORTED;
    table = (es_api){.size = sizeof table,
                     .abi = ES_ABI,
                     .name = "device forwarder",
                     .version = "1",
                     .open = forward_open,
                     .close = forward_close,
                     .error = forward_error,
                     .query = forward_query,
                     .compile = forward_compile,
                     .run = forward_run,
                     .prepare = forward_prepare,
                     .release = forward_release,
                     .allocate = forward_allocate,
                     .deallocate = forward_deallocate,
                     .update = forward_update,
                     .stage_masks = forward_stage,
                     .read_rows = forward_read_rows,
                     .target = forward_target,
                     .copy = forward_copy};
    if (base->wait) table.wait = forward_wait;
    if (base->poll) table.poll = forward_poll;
    if (base->enter_thread && lie != no_enter_thread) table.enter_thread = forward_enter;
    *out = &table;
    return ES_OK;
}
