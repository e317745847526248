/* Samplers that change single tokens: masks, biases, DRY.
 *
 * Each reads the values of its tokens (ids ascending), computes new ones, and writes them back: into the
 * list, or, for a row as given, as edits beside it that every later pass applies.
 */
#pragma once

#include "kernels/row_state.h"

/* A set of tokens with their values, in scratch memory. */
typedef struct es_touched {
    const int32_t *ids; /* ascending */
    int64_t n;
    float *values;
    float *old;
} es_touched;

ES_INLINE float clamp_finite(float x) { return x > FLT_MAX ? FLT_MAX : x < -FLT_MAX ? -FLT_MAX : x; }

/* The position of `id` in a list at or after `from`, or where it would be inserted. */
static int64_t place_from(const int32_t *ids, int64_t n, int64_t from, int32_t id) {
    int64_t step = 1, low = from;
    while (low + step < n && ids[low + step] < id) {
        low += step;
        step *= 2;
    }
    int64_t high = lesser(low + step, n);
    while (low < high) {
        const int64_t middle = (low + high) / 2;
        if (ids[middle] < id) low = middle + 1;
        else high = middle;
    }
    return low;
}

/* The values of tokens in the row as given, without edits. */
ES_INLINE void look_up(const es_view *v, const int32_t *ids, int64_t n, int32_t kind, int masked,
                       float *values) {
    const float scale = v->scale, floor = v->floor;
    READS_ROW(v);
    for (int64_t i = 0; i < n; i++) {
        const float x = value_kind(v->source, ids[i], kind);
        const int gone = x < floor || (masked && !is_allowed(v->allowed, ids[i]));
        values[i] = gone ? -__builtin_inff() : x * scale;
    }
}

/* Replace the values of the tokens that have been edited before. */
static void overlay_edits(const es_view *v, const int32_t *ids, int64_t n, float *values) {
    for (int64_t e = 0, at = 0; e < v->n_edits; e++) {
        at = place_from(ids, n, at, v->edit_ids[e]);
        if (at < n && ids[at] == v->edit_ids[e]) values[at] = v->edit_values[e];
    }
}

/* The value of token `id`, whose edit or list entry, if there is one, is at or after `at`. */
static float find_value(const es_view *v, int32_t id, int64_t *at) {
    const int listed = v->list >= 0;
    const int32_t *const ids = listed ? v->ids : v->edit_ids;
    const int64_t n = listed ? v->n : v->n_edits;
    *at = place_from(ids, n, *at, id);
    if (*at < n && ids[*at] == id) return listed ? ((const float *)v->source)[*at] : v->edit_values[*at];
    return listed ? -__builtin_inff() : unedited(v, id);
}

/* Look up the values of tokens; removed tokens, and those no longer in the list, read as -inf. A sorted row
 * is turned back into a list first. */
static es_touched touch(es_state *st, const int32_t *ids, int64_t n) {
    unsort(st);
    const es_view *v = &st->v;
    const es_touched t = {ids, n, st->s->new_values, st->s->old_values};
    int64_t at = 0;
    if (v->list < 0 ? v->n_edits <= n : !v->ids) {
        BY_FORM(*v, look_up(v, ids, n, KIND, MASKED, t.values));
        overlay_edits(v, ids, n, t.values);
    } else
        for (int64_t i = 0; i < n; i++) t.values[i] = find_value(v, ids[i], &at);
    memcpy(t.old, t.values, (size_t)n * sizeof *t.old);
    return t;
}

/* Update the chunk maxima of a row as given for edits that were just merged. If the greatest token of a chunk
 * was lowered, its maximum remains as an upper bound until an exact one is needed. Few tokens reach the maximum,
 * so that hardly any waits for the one before it. */
static void update_maxima(es_view *v, const es_touched *t) {
    float *const maxima = v->maxima;
    uint8_t *const loose = v->loose;
    const float *const old = t->old, *const values = t->values;
    for (int64_t i = 0; i < t->n; i++) {
        const uint32_t c = (uint32_t)t->ids[i] / ES_CHUNK;
        if ((old[i] > values[i] ? old[i] : values[i]) < maxima[c]) continue;
        loose[c] |= old[i] >= maxima[c];
        maxima[c] = values[i] > maxima[c] ? values[i] : maxima[c];
    }
    find_peak(v);
}

/* Overwrite existing edits, if every touched token already has one. */
static int overwrite_edits(es_state *st, const es_touched *t) {
    const es_view *v = &st->v;
    int32_t *const places = (int32_t *)st->s->more_keys;
    int64_t at = 0;
    for (int64_t i = 0; i < t->n; i++) {
        at = place_from(v->edit_ids, v->n_edits, at, t->ids[i]);
        if (at == v->n_edits || v->edit_ids[at] != t->ids[i]) return 0;
        places[i] = (int32_t)at;
    }
    float *const values = st->s->edit_values[v->edit_ids == st->s->edit_ids[1]];
    for (int64_t i = 0; i < t->n; i++) values[places[i]] = t->values[i];
    return 1;
}

/* Before the first edits: a maximum below the floor belongs to removed tokens and is only a bound. As long as
 * nothing is lowered, the peak is above all of them. */
static void loosen_removed(es_view *v) {
    const float bound = v->floor * v->scale;
    for (int64_t c = 0; c < chunks_of(v->n); c++) v->loose[c] |= v->maxima[c] <= bound;
}

ES_INLINE void copy_run(int32_t *ids, float *values, const int32_t *from_ids, const float *from_values,
                        int64_t n) {
    if (!n) return;
    memcpy(ids, from_ids, (size_t)n * sizeof *ids);
    memcpy(values, from_values, (size_t)n * sizeof *values);
}

/* Merge values into the edits of the row as given, in runs: one of both is usually much shorter. */
static void merge_edits(es_state *st, const es_touched *t) {
    es_view *v = &st->v;
    es_scratch *s = st->s;
    if (overwrite_edits(st, t)) return;
    if (!v->n_edits) loosen_removed(v);
    const int32_t to = v->n_edits && v->edit_ids == s->edit_ids[0] ? 1 : 0;
    int32_t *const ids = s->edit_ids[to];
    float *const values = s->edit_values[to];
    int64_t n = 0, i = 0, e = 0;
    while (i < t->n || e < v->n_edits) {
        const int64_t end = e < v->n_edits ? place_from(t->ids, t->n, i, v->edit_ids[e]) : t->n;
        copy_run(ids + n, values + n, t->ids + i, t->values + i, end - i);
        n += end - i;
        i = end;
        if (i < t->n && e < v->n_edits && t->ids[i] == v->edit_ids[e]) e++; /* it has a new value */
        const int64_t last = i < t->n ? place_from(v->edit_ids, v->n_edits, e, t->ids[i]) : v->n_edits;
        copy_run(ids + n, values + n, v->edit_ids + e, v->edit_values + e, last - e);
        n += last - e;
        e = last;
    }
    v->edit_ids = ids;
    v->edit_values = values;
    v->n_edits = n;
    int32_t *const starts = s->edit_starts;
    const int64_t chunks = chunks_of(v->n);
    memset(starts, 0, (size_t)(chunks + 1) * sizeof *starts);
    for (int64_t k = 0; k < n; k++) starts[(uint32_t)ids[k] / ES_CHUNK + 1] = (int32_t)k + 1;
    for (int64_t c = 0; c < chunks; c++) starts[c + 1] = starts[c + 1] ? starts[c + 1] : starts[c];
    v->edit_starts = starts;
}

/* Write back the values of touched tokens. In a list, removed tokens stay until `close_edits`. */
static void write_back(es_state *st, const es_touched *t) {
    es_view *v = &st->v;
    if (!t->n) return;
    v->alive = -1;
    if (v->list < 0) {
        merge_edits(st, t);
        update_maxima(v, t);
        return;
    }
    float *const values = st->s->values[v->list];
    int64_t at = 0;
    for (int64_t i = 0; i < t->n; i++) {
        if (v->ids) {
            at = place_from(v->ids, v->n, at, t->ids[i]);
            if (at == v->n || v->ids[at] != t->ids[i]) continue;
        }
        values[v->ids ? at : t->ids[i]] = t->values[i];
    }
    v->has_maxima = 0;
}

/* Whether any token is left; a list drops the removed ones. */
static int32_t close_edits(es_state *st) {
    es_view *v = &st->v;
    if (v->ids) {
        const int32_t k = spare_list(st);
        const int64_t n = collect(v, -__builtin_inff(), st->s->values[k], st->s->ids[k]);
        use_survivors(st, k, n);
        return n ? ES_ROW_OK : ES_ROW_EMPTY;
    }
    find_maxima(v);
    return v->peak > -__builtin_inff() ? ES_ROW_OK : ES_ROW_EMPTY;
}

/* es_ids as the 32-bit ids of a touched set; there are few. */
static const int32_t *narrow_ids(es_state *st, const es_ids *ids) {
    int32_t *const out = (int32_t *)st->s->keys;
    for (int64_t i = 0; i < ids->n; i++) out[i] = (int32_t)ids->ids[i];
    return out;
}

static int32_t remove_tokens(es_state *st, const int32_t *ids, int64_t n, int unless_empty) {
    if (!n) return ES_ROW_OK;
    es_touched t = touch(st, ids, n);
    for (int64_t i = 0; i < n; i++) t.values[i] = -__builtin_inff();
    write_back(st, &t);
    if (unless_empty) {
        find_maxima(&st->v);
        if (!(st->v.peak > -__builtin_inff())) {
            for (int64_t i = 0; i < n; i++) {
                t.values[i] = t.old[i];
                t.old[i] = -__builtin_inff();
            }
            write_back(st, &t);
        }
    }
    return close_edits(st);
}

/* --- masks --- */

static int32_t apply_allowed_token_ids(es_state *st) {
    const es_ids *allowed = &st->p->allowed_token_ids;
    const es_touched t = touch(st, narrow_ids(st, allowed), allowed->n);
    const int32_t k = spare_list(st);
    int64_t n = 0;
    for (int64_t i = 0; i < t.n; i++)
        if (t.values[i] > -__builtin_inff()) {
            st->s->values[k][n] = t.values[i];
            st->s->ids[k][n++] = t.ids[i];
        }
    use_survivors(st, k, n);
    return n ? ES_ROW_OK : ES_ROW_EMPTY;
}

/* A mask that allows at most one token in this many is sparse: its tokens are looked up one by one, and only
 * they are processed from then on. With more of them it is faster to read the whole row through the mask. */
enum { ES_SPARSE_SHARE = 64 };

static int is_sparse(const uint32_t *bits, int64_t n) {
    const int64_t words = words_of(n), most = n / ES_SPARSE_SHARE;
    int64_t allowed = 0;
    for (int64_t w = 0; w < words && allowed <= most; w += ES_CHUNK_WORDS)
        allowed += count_allowed(bits + w, lesser(words - w, ES_CHUNK_WORDS));
    return allowed <= most;
}

/* Append the tokens that words [from, to) of a mask allow to n ids; returns the new count. */
ES_INLINE int64_t list_bits(const uint32_t *bits, int64_t from, int64_t to, int32_t *ids, int64_t n) {
    for (int64_t w = from; w < to; w++)
        for (uint32_t left = bits[w]; left; left &= left - 1)
            ids[n++] = (int32_t)(w * 32 + __builtin_ctz(left));
    return n;
}

/* Continue with the tokens of a sparse mask as a list. */
static int32_t list_allowed(es_state *st, const uint32_t *bits) {
    float *const values = st->s->values[0];
    int32_t *const ids = st->s->ids[0];
    const int64_t words = words_of(st->vocab_size);
    int64_t n = 0, kept = 0;
    for (int64_t w = 0; w < words; w += ES_CHUNK_WORDS) {
        const int64_t end = lesser(w + ES_CHUNK_WORDS, words);
        uint32_t any = 0; /* most chunks allow no token */
        for (int64_t i = w; i < end; i++) any |= bits[i];
        if (any) n = list_bits(bits, w, end, ids, n);
    }
    while (n && ids[n - 1] >= st->vocab_size) n--; /* the last word may have excess bits */
    for (int64_t i = 0; i < n; i++) {
        const int32_t id = ids[i];
        values[kept] = unedited(&st->v, id);
        ids[kept] = id;
        kept += values[kept] > -__builtin_inff();
    }
    use_survivors(st, 0, kept);
    return kept ? ES_ROW_OK : ES_ROW_EMPTY;
}

/* Start with the row as given under the grammar's mask; NULL: no mask. */
static int32_t read_row(es_state *st, const uint32_t *bits) {
    const int sparse = bits && is_sparse(bits, st->vocab_size);
    st->v.allowed = sparse ? NULL : bits;
    if (sparse) st->v.share_scale = 0;
    const int32_t status = scan_row(&st->v);
    return status == ES_ROW_OK && sparse ? list_allowed(st, bits) : status;
}

static int32_t apply_bad_words(es_state *st) {
    const int64_t n = es_bad_word_tokens(&st->span, st->p, &st->s->marks);
    return remove_tokens(st, st->s->marks.ids, n, 0);
}

static int32_t apply_ignore_eos(es_state *st) {
    const es_ids *ids = &st->p->eos_token_ids;
    return remove_tokens(st, narrow_ids(st, ids), ids->n, 1);
}

static int32_t apply_min_tokens(es_state *st) {
    if (st->span.length - st->span.prompt_length >= st->p->min_tokens) return ES_ROW_OK;
    const es_ids *ids = &st->p->ending_token_ids;
    return remove_tokens(st, narrow_ids(st, ids), ids->n, 1);
}

static int32_t apply_no_repeat_ngram(es_state *st) {
    const int64_t n = es_ngram_tokens(st->job->history, &st->span, st->p, &st->s->marks);
    return remove_tokens(st, st->s->marks.ids, n, 1);
}

/* --- biases and penalties --- */

static int32_t apply_logit_bias(es_state *st) {
    const es_ids *ids = &st->p->biased_token_ids;
    const es_touched t = touch(st, narrow_ids(st, ids), ids->n);
    for (int64_t i = 0; i < t.n; i++) {
        const float bias = st->p->biases[i];
        if (!(bias >= -FLT_MAX)) t.values[i] = bias;
        else if (t.values[i] >= -FLT_MAX) t.values[i] = clamp_finite(t.values[i] + bias);
    }
    write_back(st, &t);
    return close_edits(st);
}

static int32_t apply_dry(es_state *st) {
    const es_params *p = st->p;
    const int64_t n = es_dry_tokens(st->job->history, &st->span, p, &st->s->marks);
    if (!n) return ES_ROW_OK;
    const es_touched t = touch(st, st->s->marks.ids, n);
    double power = 1.0;
    int64_t exponent = 0;
    for (int64_t i = 0; i < n; i++) {
        const int64_t wanted = st->s->marks.lengths[i] - p->dry_allowed_length;
        if (wanted < exponent) {
            power = 1.0;
            exponent = 0;
        }
        for (; exponent < wanted; exponent++) {
            power *= p->dry_base;
            if (!(power < FLT_MAX)) power = FLT_MAX;
        }
        if (t.values[i] >= -FLT_MAX)
            t.values[i] = clamp_finite(t.values[i] - (float)(p->dry_multiplier * power));
    }
    write_back(st, &t);
    return close_edits(st);
}

/* --- row functions --- */

static uint64_t row_draw(const es_row *row, uint32_t index) {
    return es_draw64(row->seed, row->position, row->stream, index);
}

/* A row function sees all tokens of the row, ids ascending, and may change each of them. */
static int32_t apply_function(es_state *st) {
    const es_op *op = st->op;
    unsort(st);
    float *const values = own_values(st);
    const es_batch *batch = st->job->batch;
    const int32_t slot = batch->slots[st->job->entry];
    const es_row row = {.size = sizeof row,
                        .stream = op->stream,
                        .row = batch->rows[st->job->entry],
                        .slot = slot,
                        .vocab_size = st->vocab_size,
                        .seed = st->seed,
                        .position = st->position,
                        .token_ids = st->span.tokens,
                        .length = st->span.length,
                        .prompt_length = st->span.prompt_length,
                        .values = op->values ? *op->values + (int64_t)slot * op->n_values : NULL,
                        .draw = row_draw,
                        .user = op->user};
    void *const state = op->states ? (*op->states)[slot] : NULL;
    es_view *v = &st->v;
    if (op->function(&row, values, v->ids, v->n, state)) return ES_ROW_FUNCTION;
    v->has_maxima = 0;
    v->alive = -1;
    for (int64_t i = 0; i < v->n; i++)
        if (!(values[i] <= FLT_MAX)) return ES_ROW_BAD_VALUE;
    return close_edits(st);
}
