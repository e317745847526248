/* A library that breaks one law at a time: the environment's LIE names which, before it is loaded; "" is honest.
 *
 * Most lies are told by the toy vendor's library, whose run is repeated here with the lies in their places. Those
 * about what it does not compute are told by the packaged library, whose path is in LIE_NATIVE: its calls are
 * forwarded, and one thing is changed.
 */
#define _GNU_SOURCE
#define es_get_api toy_get_api
#include "toy_vendor.c"
#undef es_get_api

#include <dlfcn.h>

/* clang-format off */
#define LIES(X) \
    X(token_at_entry) X(logits_at_entry) X(program_of_first) X(note_at_entry) X(note_is_zero) \
    X(clears_all_tokens) X(writes_beyond_tokens) X(no_status) X(sets_n) X(sorts_rows) X(position_16) \
    X(position_32) X(seed_32) X(position_below_4096) X(advances_positions) X(no_lower_limit) \
    X(no_upper_limit) X(accepts_nan) X(accepts_infinity) X(flushes_denormals) X(zeros_differ) \
    X(no_faults) X(unknown_status) X(never_empty) X(float_inverse) X(no_greedy_temperature) \
    X(writes_parameters) X(divides) X(truncated_weights) X(cut_at_30) X(float_draw) X(float_sum) \
    X(ignores_masked) X(mask_of_entry) X(ignores_mask_stride) X(small_masks_wrong) X(writes_masks) \
    X(ignores_masks) X(no_processed_if_masked) X(big_vocabulary) X(ignores_stride) X(last_of_ties) \
    X(top_k_plus_one) X(wide_ids_16) X(many_rows) X(high_slots) X(slot_as_byte) X(batch_dependent) \
    X(crashes_at_129) X(every_fifth_call) X(writes_histories) X(static_buffer) X(static_programs) \
    X(writes_logits_for_a_while) X(reads_beyond) X(second_draw) X(processed_unscaled) \
    X(N_log_sums_garbage) X(N_log_sums_float) X(N_maxima_unordered) X(N_logprobs_garbage) \
    X(N_rank_off) X(N_lists_one_more) X(N_penalized_is_raw) X(N_logprobs_function) X(N_history_4096) \
    X(N_logprobs_at_entry)
/* clang-format on */

#include "lies.h"

static const es_api *base;

/* --- lies of the toy vendor ------------------------------------------------------------------------ */

static float truncated(float x) { return lie == truncated_weights ? floorf(x) : rounded(x); }

static int64_t lying_weight(float logit, float peak) {
    const float y = (logit - peak) * 1.4426950408889634f;
    if (lie == cut_at_30 && !(y >= -30.0f)) return 0;
    if (lie != truncated_weights) return weight_of(logit, peak);
    if (!(y >= -31.0f)) return 0;
    const float n = rounded(y), r = y - n, square = r * r;
    const float p = ((1.326472731307149e-3f * r + 9.671512991189957e-3f) * square +
                     (5.550733581185341e-2f * r + 2.4022242426872253e-1f)) *
                        square +
                    (6.931470036506653e-1f * r + 1.0f);
    return (int64_t)truncated(p * ldexpf(1.0f, (int)n + 30));
}

static int64_t lying_draw(const float *row, int64_t n, uint64_t bits) {
    const float peak = row[best_of(row, n)];
    int64_t total = 0, i = 0, sum = 0;
    float float_total = 0;
    for (i = 0; i < n; i++) total += lying_weight(row[i], peak);
    for (i = 0; i < n; i++) float_total += (float)lying_weight(row[i], peak);
    if (lie == float_sum && float_total < (float)total) total = (int64_t)float_total;
    const int64_t exact = high_product(bits, (uint64_t)total);
    const int64_t target = lie == float_draw ? (int64_t)((float)(bits >> 40) * 0x1p-24f * (float)total)
                                             : exact;
    for (i = 0; i < n - 1 && (sum += lying_weight(row[i], peak)) <= target; i++) {}
    return i;
}

static int64_t lying_best(const float *row, int64_t n) {
    int64_t best = 0;
    for (int64_t i = 1; i < n; i++) {
        const int zero_above = lie == zeros_differ && row[i] == 0 && row[best] == 0 && !signbit(row[i]) &&
                               signbit(row[best]);
        if (row[i] > row[best] || (lie == last_of_ties && row[i] == row[best]) || zero_above) best = i;
    }
    return best;
}

static void lying_temperature(float *row, int64_t n, double t) {
    const int own = lie == float_inverse || lie == no_greedy_temperature || lie == divides ||
                    lie == last_of_ties || lie == zeros_differ;
    if (!own) {
        temperature(row, n, t);
        return;
    }
    const int is_greedy = t < 1e-4;
    const float scale = is_greedy ? 1.0f : lie == float_inverse ? 1.0f / (float)t : (float)(1.0 / t);
    const int64_t best = lying_best(row, n);
    for (int64_t i = 0; i < n; i++) {
        const float scaled = lie == divides && !is_greedy ? row[i] / (float)t : row[i] * scale;
        if (row[i] > -INFINITY) row[i] = scaled > FLT_MAX ? FLT_MAX : scaled < -FLT_MAX ? -FLT_MAX : scaled;
        if (is_greedy && lie != no_greedy_temperature && i != best) row[i] = -INFINITY;
    }
}

static const int32_t *mask_for(const es_batch *batch, int32_t entry) {
    const int masked = batch->masked && (batch->masked[entry] || lie == ignores_masked);
    if (!masked || lie == ignores_masks) return NULL;
    const int64_t row = lie == mask_of_entry ? entry : batch->rows[entry];
    const int64_t words = (batch->vocab_size + 31) / 32;
    return batch->bitmask + row * (lie == ignores_mask_stride ? words : batch->bitmask_stride);
}

static int32_t lying_read(const es_batch *batch, int32_t entry, float *row) {
    const es_tensor *t = &batch->logits;
    const int64_t whole = t->strides ? t->strides[0] : t->shape[1];
    const int64_t stride = lie == ignores_stride ? batch->vocab_size : whole;
    const int64_t number = lie == logits_at_entry ? entry : batch->rows[entry];
    float *given = (float *)(void *)((char *)t->data + t->byte_offset) + number * stride;
    const int32_t *mask = mask_for(batch, entry);
    const float most = lie == no_upper_limit ? FLT_MAX : lie == accepts_infinity ? INFINITY : LOGIT_LIMIT;
    const float least = lie == no_lower_limit ? -FLT_MAX : -LOGIT_LIMIT;
    int64_t left = 0;
    volatile float sink = 0;
    if (lie == reads_beyond && number == t->shape[0] - 1) sink += given[whole];
    if (lie == writes_logits_for_a_while) {
        const float kept = given[0];
        ((volatile float *)given)[0] = 1;
        ((volatile float *)given)[0] = kept;
    }
    for (int64_t i = 0; i < batch->vocab_size; i++) {
        float x = given[i];
        if (lie == accepts_nan && x != x) x = -INFINITY;
        if (!(x <= most)) return ES_ROW_BAD_LOGITS;
        if (lie == flushes_denormals && fabsf(x) < FLT_MIN) x = 0;
        const int gone = x < least || (mask && !((uint32_t)mask[i / 32] >> i % 32 & 1));
        row[i] = gone ? -INFINITY : x;
        left += !gone;
    }
    if (lie == small_masks_wrong && mask && left < 8 && left > 1)
        row[lying_best(row, batch->vocab_size)] = -INFINITY;
    return left || lie == never_empty ? ES_ROW_OK : ES_ROW_EMPTY;
}

static uint64_t lying_bits(const es_table *table, int32_t slot) {
    uint64_t seed = table->seeds[slot], position = (uint64_t)table->positions[slot];
    if (lie == position_16) position &= 0xFFFF;
    if (lie == position_32) position &= 0xFFFFFFFF;
    if (lie == seed_32) seed &= 0xFFFFFFFF;
    if (lie == position_below_4096 && position > 4096) position = 4096;
    if (lie == high_slots && slot > 200) seed++;
    if (lie == slot_as_byte) seed = table->seeds[slot & 255];
    return lie == second_draw ? random_bits(seed, position) * 3 : random_bits(seed, position);
}

static toy_program static_table[MOST_PROGRAMS];

static const toy_program *program_for(const es_context *context, const es_batch *batch, int32_t entry) {
    const uint32_t number = batch->programs[lie == program_of_first ? 0 : entry];
    return lie == static_programs ? &static_table[number] : &context->programs[number];
}

static float static_row[1 << 18];

static int32_t lying_row(es_context *context, es_batch *batch, int32_t entry, int32_t call) {
    const es_table *table = batch->table;
    const int32_t slot = batch->slots[entry];
    es_params *p = (es_params *)(void *)((char *)table->params + (size_t)slot * table->params->size);
    const toy_program *program = program_for(context, batch, entry);
    const int64_t n = batch->vocab_size, row_number = batch->rows[entry];
    float *row = lie == static_buffer ? static_row : context->row;
    int64_t token = -1;
    const int32_t status = lying_read(batch, entry, row);
    if (status != ES_ROW_OK) return lie == unknown_status ? 77 : status;
    if (p->dynatemp_range > 0) return ES_ROW_DECLINED;
    float *processed = batch->processed && batch->processed[entry] ? batch->processed[entry] : NULL;
    if (processed && lie == processed_unscaled) memcpy(processed, row, (size_t)n * sizeof *row);
    for (int32_t i = 0; i < program->n; i++) {
        const int32_t kind = program->kinds[i];
        if (kind == ES_OP_TOP_K) top_k(row, context->keys, n, p->top_k + (lie == top_k_plus_one));
        else if (kind == ES_OP_TEMPERATURE) lying_temperature(row, n, p->temperature);
        else if (kind == ES_OP_GREEDY) token = lying_best(row, n);
        else token = lying_draw(row, n, lying_bits(table, slot));
    }
    if (lie == writes_parameters) p->temperature = 1;
    const int wrong = (lie == big_vocabulary && n > 2100) || (lie == many_rows && entry >= 64) ||
                      (lie == every_fifth_call && call % 5 == 4) || (lie == batch_dependent && batch->n > 8);
    if (wrong) token = n - 1 - token;
    if (lie == wide_ids_16) token &= 0xFFFF;
    batch->token_ids[lie == token_at_entry ? entry : row_number] = token;
    batch->notes[lie == note_at_entry ? entry : row_number] = lie == note_is_zero ? 0 : NAN;
    const int skips = lie == no_processed_if_masked && batch->masked && batch->masked[entry];
    if (processed && lie != processed_unscaled && !skips) memcpy(processed, row, (size_t)n * sizeof *row);
    return ES_ROW_OK;
}

/* What is written where it must not be, once in each call. */
static void scribble(es_batch *batch) {
    es_table *table = (es_table *)(void *)(intptr_t)batch->table;
    int64_t *rows = (int64_t *)(void *)(intptr_t)batch->rows;
    const int32_t slot = batch->slots[0];
    if (lie == clears_all_tokens)
        for (int64_t i = 0; i < batch->logits.shape[0]; i++) batch->token_ids[i] = -1;
    if (lie == writes_beyond_tokens) batch->token_ids[batch->logits.shape[0]] = 0;
    if (lie == advances_positions) ((int64_t *)(void *)(intptr_t)table->positions)[slot]++;
    if (lie == writes_histories && table->lengths[slot] > 0)
        ((int64_t *)(void *)(intptr_t)table->tokens)[table->offsets[slot]] ^= 1;
    if (lie == writes_masks && batch->bitmask)
        ((int32_t *)(void *)(intptr_t)batch->bitmask)[batch->rows[0] * batch->bitmask_stride] ^= 1;
    if (lie == sorts_rows && batch->n > 1) {
        rows[0] ^= rows[1];
        rows[1] ^= rows[0];
        rows[0] ^= rows[1];
    }
    if (lie == sets_n) batch->n = 0;
}

static int32_t lying_run(es_context *context, es_batch *batch) {
    static int32_t calls;
    const int32_t code = make_room(context, batch->vocab_size);
    const int32_t call = calls++;
    if (code != ES_OK) return code;
    if (lie == crashes_at_129 && batch->n >= 129) abort();
    batch->faults = 0;
    if (lie == clears_all_tokens || lie == advances_positions || lie == writes_histories) scribble(batch);
    for (int32_t i = 0; i < batch->n; i++) {
        const int32_t status = lying_row(context, batch, i, call);
        if (lie != no_status) batch->status[i] = status;
        batch->faults += status != ES_ROW_OK && lie != no_faults;
    }
    if (lie != clears_all_tokens && lie != advances_positions && lie != writes_histories) scribble(batch);
    return ES_OK;
}

static int32_t lying_compile(es_context *context, const es_program *program, uint32_t *number) {
    const int32_t code = compile(context, program, number);
    if (code == ES_OK) static_table[*number] = context->programs[*number];
    return code;
}

/* --- lies of the packaged library --------------------------------------------------------------------- */

static void spoil_logprobs(es_batch *batch) {
    for (int32_t i = 0; i < batch->n; i++)
        for (int kind = 0; kind < 3; kind++) {
            const es_logprobs *out = &batch->logprobs[kind];
            const int64_t row = batch->rows[i], at = out->starts[row];
            const int asked = batch->logprobs_kinds[i] >> kind & 1 && batch->status[i] == ES_ROW_OK;
            if (!asked || batch->token_ids[row] < 0) continue;
            if (lie == N_logprobs_garbage) out->logprobs[at] -= 1e-4f;
            if (lie == N_rank_off) out->ranks[row]--;
            const int64_t beyond = at + 1 + batch->top_n[i];
            if (lie == N_lists_one_more && batch->top_n[i] >= 0 && beyond < out->starts[row + 1]) {
                out->token_ids[beyond] = 0;
                out->logprobs[beyond] = -1;
            }
            if (lie == N_logprobs_at_entry) out->token_ids[at] = batch->token_ids[batch->rows[0]];
        }
}

static int32_t forward_run(es_context *context, es_batch *batch) {
    es_batch inner = *batch;
    es_table table = *batch->table;
    int64_t *lengths = NULL;
    static const uint32_t no_edits[1024];
    if (lie == N_penalized_is_raw && batch->logprobs) inner.edits = no_edits; /* the first program of all */
    if (lie == N_history_4096) {
        lengths = malloc((size_t)table.capacity * sizeof *lengths);
        if (!lengths) return ES_NO_MEMORY;
        for (int32_t s = 0; s < table.capacity; s++)
            lengths[s] = table.lengths[s] < 4096 ? table.lengths[s] : 4096;
        table.lengths = lengths;
        inner.table = &table;
    }
    const int32_t code = base->run(context, &inner);
    batch->faults = inner.faults;
    free(lengths);
    if (batch->logprobs && code == ES_OK) spoil_logprobs(batch);
    return code;
}

static int32_t forward_log_sums(es_context *context, const es_tensor *logits, int64_t vocab_size,
                                const int64_t *rows, int64_t n, double *out) {
    const int32_t code = base->log_sums(context, logits, vocab_size, rows, n, out);
    for (int64_t i = 0; i < n; i++) {
        if (lie == N_log_sums_garbage) out[i] = 42;
        if (lie == N_log_sums_float) out[i] = (double)(float)out[i];
    }
    return code;
}

static int32_t forward_maxima(es_context *context, const es_tensor *logits, int64_t vocab_size,
                              const int64_t *rows, int64_t n, float *out) {
    int64_t ordered[64];
    for (int64_t i = 0; i < n && i < 64; i++)
        ordered[i] = lie == N_maxima_unordered ? i % logits->shape[0] : rows[i];
    return base->maxima(context, logits, vocab_size, ordered, n, out);
}

static int32_t forward_logprobs(es_context *context, const es_tensor *logits, int64_t vocab_size,
                                const int64_t *token_ids, int64_t top_n, const es_logprobs *out) {
    const int32_t code = base->logprobs(context, logits, vocab_size, token_ids, top_n, out);
    if (lie == N_logprobs_function && top_n < 0 && code == ES_OK) out->logprobs[out->starts[1] - 1] += 1;
    return code;
}

/* --- the table ------------------------------------------------------------------------------------------ */

ES_EXPORT int32_t es_get_api(uint32_t host_abi, const es_api **out);

int32_t es_get_api(uint32_t host_abi, const es_api **out) {
    static es_api table;
    if (!choose_lie() || toy_get_api(host_abi, &base)) return ES_UNSUPPORTED;
    if (!strncmp(names[lie], "N_", 2)) {
        void *native = dlopen(getenv("LIE_NATIVE"), RTLD_NOW | RTLD_LOCAL);
        if (!native) return ES_UNSUPPORTED;
        int32_t (*get)(uint32_t, const es_api **);
        *(void **)&get = dlsym(native, "es_get_api");
        if (get(host_abi, &base)) return ES_UNSUPPORTED;
        table = *base;
        table.run = forward_run;
        table.log_sums = forward_log_sums;
        table.maxima = forward_maxima;
        table.logprobs = forward_logprobs;
    } else {
        table = *base;
        table.run = lying_run;
        table.compile = lying_compile;
    }
    *out = &table;
    return ES_OK;
}
