/* The row engine, compiled once per instruction set: runs one row through its whole program. */
#include "kernels/logprobs.h"
#include "kernels/selectors.h"
#include "operations.h"

#if defined(ES_ISA_AVX512)
#define ES_KERNELS es_kernels_avx512
#define ES_NAME "avx512"
#elif defined(ES_ISA_AVX2)
#define ES_KERNELS es_kernels_avx2
#define ES_NAME "avx2"
#elif defined(ES_ISA_BASELINE)
#define ES_KERNELS es_kernels_baseline
#define ES_NAME "baseline"
#elif defined(ES_ISA_NEON)
#define ES_KERNELS es_kernels_neon
#define ES_NAME "neon"
#else
#define ES_KERNELS es_kernels_portable
#define ES_NAME "portable"
#endif

enum { ES_LONG_HISTORY = 1024 }; /* tokens from which on the tables of siblings are copied */

/* Run one operation; a kind that is not in the table is left to the host. */
static int32_t apply(es_state *st, int32_t kind) {
    switch ((es_op_kind)kind) {
#define ES_CASE(KIND, function, class, needs) \
    case KIND: return function(st);
        ES_OPERATIONS(ES_CASE)
#undef ES_CASE
    }
    return ES_ROW_DECLINED;
}

static void write_processed(const es_state *st, float *out) {
    if (!st->is_few && !st->v.ids) {
        const int64_t whole = st->v.n / ES_CHUNK;
        float buffer[ES_CHUNK];
        for (int64_t c = 0; c < whole; c++) fill_chunk(&st->v, c, out + c * ES_CHUNK);
        if (whole * ES_CHUNK < st->v.n) {
            fill_chunk(&st->v, whole, buffer);
            memcpy(out + whole * ES_CHUNK, buffer, (size_t)(st->v.n - whole * ES_CHUNK) * sizeof *out);
        }
        return;
    }
    for (int64_t i = 0; i < st->vocab_size; i++) out[i] = -__builtin_inff();
    if (st->is_few)
        for (int32_t i = 0; i < st->few.n; i++) out[st->few.ids[i]] = st->few.logits[i];
    else
        for (int64_t i = 0; i < st->v.n; i++) out[st->v.ids[i]] = ((const float *)st->v.source)[i];
}

static int32_t run_samplers(es_state *st, const es_compiled *program) {
    for (int32_t i = 0; i < program->n_ops; i++) {
        st->op = &program->ops[i];
        const es_class class = es_operation_of(st->op->kind).class;
        int32_t status = class == ES_EDIT ? empty_status(st) : sort_if_short(st);
        if (status == ES_ROW_OK) status = apply(st, st->op->kind);
        if (status != ES_ROW_OK) return status;
    }
    return ES_ROW_OK;
}

/* About how many tokens an operation edits; -1 if it does more than that. */
static int64_t tokens_edited(const es_state *st, int32_t kind) {
    const es_params *p = st->p;
    switch (kind) {
    case ES_OP_BAD_WORDS: return p->bad_words.n;
    case ES_OP_IGNORE_EOS: return p->eos_token_ids.n;
    case ES_OP_MIN_TOKENS: return p->ending_token_ids.n;
    case ES_OP_LOGIT_BIAS: return p->biased_token_ids.n;
    case ES_OP_NO_REPEAT_NGRAM:
    case ES_OP_DRY: return 0;
    case ES_OP_PENALTIES: /* one window usually contains the other */
        return greater(es_history_repeated(st->job->history)->n, es_history_counted(st->job->history)->n);
    default: return -1;
    }
}

ES_INLINE es_view given_row(const void *row, int32_t kind, int64_t n, const es_scratch *scratch) {
    return (es_view){.source = row,
                     .kind = kind,
                     .list = -1,
                     .n = n,
                     .scale = 1.0f,
                     .floor = -ES_LOGIT_LIMIT,
                     .alive = -1,
                     .maxima = scratch->maxima,
                     .loose = scratch->loose,
                     .shares = scratch->shares,
                     .bits = scratch->bits};
}

/* Whether a sampler or selector asks for the total weight, and for nothing that bounds of it could not decide. */
static int needs_total(const es_state *st, const es_op *op) {
    switch (op->kind) {
    case ES_OP_TOP_P:
    case ES_OP_TOP_A:
    case ES_OP_EPSILON_CUTOFF: return 1;
    case ES_OP_XTC: return is_xtc_due(st, op);
    default: return 0;
    }
}

/* The scale at which a program first needs the masses of the long row as given, and no more of it: then shares are
 * worth taking. Else 0. */
static float share_scale(const es_state *st, const es_compiled *program) {
    const es_params *p = st->p;
    const int64_t most_edits = chunks_of(st->v.n) / ES_EDITED_SHARE;
    int64_t edits = 0;
    float scale = 1.0f;
    for (int32_t i = 0; i < program->n_ops; i++) {
        const es_op *op = &program->ops[i];
        if (needs_total(st, op)) return scale;
        if (op->kind == ES_OP_XTC) continue;
        if (op->kind == ES_OP_TEMPERATURE) {
            if (scale != 1.0f || p->temperature < ES_GREEDY_BELOW || p->dynatemp_range > 0) return 0;
            scale = (float)(1.0 / p->temperature);
            continue;
        }
        const int64_t n = tokens_edited(st, op->kind);
        edits += n;
        if (n < 0 || edits > most_edits) return 0;
    }
    return program->selector == ES_OP_DIST || program->selector == ES_OP_MIROSTAT_V2 ? scale : 0;
}

/* The row of a job as it was given, before anything has been read. */
ES_INLINE void begin_row(es_state *st, const es_job *job) {
    const es_batch *batch = job->batch;
    const es_table *table = batch->table;
    const int32_t slot = batch->slots[job->entry];
    const int64_t offset = table->offsets[slot];
    st->job = job;
    st->p = es_params_of(table, slot);
    st->s = job->scratch;
    st->span = (es_span){table->tokens + offset, table->notes + offset, table->lengths[slot],
                         table->prompt_lengths[slot]};
    st->seed = table->seeds[slot];
    st->position = table->positions[slot];
    st->vocab_size = batch->vocab_size;
    st->is_few = 0;
    st->few.n = 0;
    st->v = given_row(es_row_of(&batch->logits, batch->rows[job->entry]), es_kind_of(&batch->logits),
                      batch->vocab_size, job->scratch);
}

/* Read the row, under its mask if it has one, and run the samplers of `program`. */
ES_INLINE int32_t process_row(es_state *st, const es_compiled *program, int with_mask) {
    const es_batch *batch = st->job->batch;
    const int32_t entry = st->job->entry;
    const int masked = with_mask && batch->masked && batch->masked[entry];
    const int64_t row = batch->rows[entry];
    const uint32_t *bits = masked ? (const uint32_t *)batch->bitmask + row * batch->bitmask_stride : NULL;
    const float scale = st->v.n > ES_SMALL ? share_scale(st, program) : 0;
    if (has_slope(scale)) st->v.share_scale = scale;
    const int32_t status = read_row(st, bits);
    return status == ES_ROW_OK ? run_samplers(st, program) : status;
}

static es_report report_of(const es_batch *batch, int64_t row, int32_t entry, int kind) {
    return es_report_of(es_logprobs_of(batch, kind), row, batch->top_n[entry], kind < 2);
}

/* Report a token's logprobs in the row that `program` makes of the row as it was given. */
static int32_t report_anew(es_state *st, const es_job *job, const es_compiled *program, int with_mask,
                           int64_t token, const es_report *out) {
    begin_row(st, job);
    const int32_t status = process_row(st, program, with_mask);
    if (status == ES_ROW_OK) report_logprobs(st, token, out);
    return status;
}

/* A row before its token was chosen: the list of a short one, the view of a long one. */
typedef struct es_kept_row {
    int is_few;
    es_few few;
    es_view view;
} es_kept_row;

static void keep_row(const es_state *st, es_kept_row *row) {
    row->is_few = st->is_few;
    if (st->is_few) row->few = st->few;
    else row->view = st->v;
}

/* The logprobs of `token`, drawn from the row `before`. Returns an es_row_status. */
static int32_t report_kinds(es_state *st, int64_t token, unsigned kinds, const es_kept_row *before) {
    const es_job *job = st->job;
    const es_batch *batch = job->batch;
    const int64_t row = batch->rows[job->entry];
    const es_compiled none = {.n_ops = 0};
    int32_t status = ES_ROW_OK;
    if (kinds & ES_LOGPROBS_PROCESSED) {
        const es_report out = report_of(batch, row, job->entry, 2);
        /* A short row was kept as it was, and most selectors shorten a long one. */
        if (before->is_few || es_operation_of(job->program->selector).class == ES_SELECT) {
            if (before->is_few) st->few = before->few;
            else st->v = before->view;
            st->is_few = before->is_few;
            report_logprobs(st, token, &out);
        } else status = report_anew(st, job, job->program, 1, token, &out);
    }
    if (status == ES_ROW_OK && kinds & ES_LOGPROBS_RAW) {
        const es_report out = report_of(batch, row, job->entry, 0);
        status = report_anew(st, job, &none, 0, token, &out);
    }
    if (status == ES_ROW_OK && kinds & ES_LOGPROBS_PENALIZED) {
        const es_report out = report_of(batch, row, job->entry, 1);
        status = report_anew(st, job, job->edits, 1, token, &out);
    }
    return status;
}

/* Bring the tables of the row's history up to date. Returns 0, or -1 without memory. */
static __attribute__((noinline)) int sync_history(const es_state *st, const es_job *job) {
    const uint64_t epoch = job->batch->table->epochs[job->batch->slots[job->entry]];
    es_known_history *newest = &job->scratch->newest;
    if (job->history->epoch != epoch && newest->history)
        es_history_begin_as(job->history, epoch, &st->span, st->p, newest);
    if (es_history_sync(job->history, epoch, &st->span, st->p, job->program->needs)) return -1;
    if (st->span.length >= ES_LONG_HISTORY) *newest = (es_known_history){job->history, st->span, st->p};
    return 0;
}

static int32_t run_row(const es_job *job) {
    const es_batch *batch = job->batch;
    const es_compiled *program = job->program;
    const int64_t row = batch->rows[job->entry];
    es_state st;
    begin_row(&st, job);
    if (program->needs && sync_history(&st, job)) return ES_ROW_DECLINED;
    int32_t status = process_row(&st, program, 1);
    if (status != ES_ROW_OK) return status;
    if (batch->processed && batch->processed[job->entry]) write_processed(&st, batch->processed[job->entry]);
    if (program->selector < 0) return ES_ROW_OK;
    if (program->selector != ES_OP_GREEDY || st.v.list >= 0) status = sort_if_short(&st);
    if (status != ES_ROW_OK) return status;
    const unsigned kinds = batch->logprobs ? batch->logprobs_kinds[job->entry] : 0;
    es_kept_row before;
    if (kinds) keep_row(&st, &before);
    status = apply(&st, program->selector);
    const es_choice choice = st.choice;
    if (status == ES_ROW_OK && kinds) status = report_kinds(&st, choice.token, kinds, &before);
    if (status != ES_ROW_OK) return status;
    batch->token_ids[row] = choice.token;
    batch->notes[row] = choice.note;
    return ES_ROW_OK;
}

/* --- single passes --- */

ES_INLINE float greatest_of(const void *row, int32_t kind, int64_t n) {
    vf best[8];
    for (int k = 0; k < 8; k++) best[k] = vf_set(-__builtin_inff());
    int64_t i = 0;
    for (; i + 8 * W <= n; i += 8 * W)
        for (int k = 0; k < 8; k++) best[k] = vf_max(load_kind(row, i + k * W, kind), best[k]);
    for (int k = 1; k < 8; k++) best[0] = vf_max(best[0], best[k]);
    float peak = vf_greatest(best[0]);
    for (; i < n; i++) {
        const float x = value_kind(row, i, kind);
        peak = x > peak ? x : peak;
    }
    return peak;
}

static float greatest(const void *row, int32_t kind, int64_t n) {
    BY_KIND(kind, return greatest_of(row, KIND, n));
}

static double log_sum(const void *row, int32_t kind, int64_t n) {
    const es_view v = {.source = row, .kind = kind, .n = n, .scale = 1.0f, .floor = -FLT_MAX};
    const float peak = greatest(row, kind, n);
    float buffer[ES_CHUNK];
    int64_t total = 0;
    for (int64_t c = 0; c < chunks_of(n); c++)
        total += chunk_mass_any(chunk_of(&v, c, buffer), peak, 0, 0).weight;
    return log_total(peak, total);
}

static void report(es_scratch *scratch, const void *row, int32_t kind, int64_t n, int64_t token,
                   const es_report *out) {
    es_state st;
    st.s = scratch;
    st.vocab_size = n;
    st.is_few = 0;
    st.v = given_row(row, kind, n, scratch);
    *out->rank = 0;
    if (scan_row(&st.v) == ES_ROW_OK) report_logprobs(&st, token, out);
}

const es_kernels ES_KERNELS = {ES_NAME, run_row, greatest, log_sum, report};
