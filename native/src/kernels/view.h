/* A row in progress: its current logits, and the passes over them.
 *
 * A view is either the row as given, with a mask, a scale and sparse edits that are applied while reading
 * (the caller's memory is never written), or a list of the remaining tokens, ids ascending.
 */
#pragma once

#include "internal.h"
#include "kernels/shares.h"

typedef struct es_view {
    const void *source;
    int32_t kind;               /* ES_FLOAT, ES_HALF, ES_BFLOAT */
    int32_t list;               /* the scratch list that it reads, -1: the row as given */
    int64_t n;
    const int32_t *ids;         /* NULL: element i is token i */
    const uint32_t *allowed;    /* a bit per element of the given row, edits aside; NULL: all are left */
    float scale;
    float floor;                /* values below this, before scaling, are removed */
    float peak;
    int64_t alive;              /* how many tokens are not removed; -1: not counted */
    int64_t n_edits;
    const int32_t *edit_ids;    /* ascending */
    const float *edit_values;
    const int32_t *edit_starts; /* [chunks + 1], valid if n_edits */
    float *maxima;              /* [chunks], valid if has_maxima: no element of the chunk is greater */
    uint8_t *loose;             /* [chunks], of the row as given: the maximum is only an upper bound */
    int has_maxima;
    float share_scale;          /* the scale for which the row as given has shares; 0: it has none */
    float *shares, *bits;       /* [chunks], of its whole chunks (shares.h) */
} es_view;

ES_INLINE int64_t chunks_of(int64_t n) { return (n + ES_CHUNK - 1) / ES_CHUNK; }

ES_INLINE int64_t greater(int64_t a, int64_t b) { return a > b ? a : b; }
ES_INLINE int64_t lesser(int64_t a, int64_t b) { return a < b ? a : b; }

/* `BY_KIND` for a view or a chunk; MASKED is whether it has a mask. */
#define BY_FORM(of, call)             \
    do {                              \
        if ((of).allowed) {           \
            enum { MASKED = 1 };      \
            BY_KIND((of).kind, call); \
        } else {                      \
            enum { MASKED = 0 };      \
            BY_KIND((of).kind, call); \
        }                             \
    } while (0)

enum { ES_CHUNK_WORDS = ES_CHUNK / 32 };

/* One chunk, ready to be read as the other fields say. */
typedef struct es_chunk {
    const void *p;
    const uint32_t *allowed; /* [ES_CHUNK_WORDS]; NULL: no mask */
    int32_t kind;
    float scale, floor;
} es_chunk;

/* Words of a mask over n tokens. */
ES_INLINE int64_t words_of(int64_t n) { return (n + 31) / 32; }

ES_INLINE int64_t count_allowed(const uint32_t *bits, int64_t words) {
    int64_t n = 0;
    for (int64_t w = 0; w < words; w++) n += __builtin_popcount(bits[w]);
    return n;
}

/* A vector of a chunk, unscaled; elements that its mask removes are -inf. */
ES_INLINE vf load_chunk(es_chunk chunk, int i, int32_t kind, int masked) {
    const vf x = load_kind(chunk.p, i, kind);
    return masked ? vf_allowed(chunk.allowed, i, x, vf_set(-__builtin_inff())) : x;
}

/* The logits as given may change while a row is processed: a copy of them that has not finished. Every pass
 * may read other values than the one before it, NaN included. Only the fuzzer makes them change here. */
#ifdef ES_FUZZ_CHANGES
#define READS_ROW(v) \
    if ((v)->list < 0 && es_on_read) es_on_read((v)->source, (v)->kind, (v)->n)
#else
#define READS_ROW(v) ((void)0)
#endif

/* Element i of the view as given or listed, without edits. */
ES_INLINE float unedited(const es_view *v, int64_t i) {
    READS_ROW(v);
    const float x = value_kind(v->source, i, v->kind);
    return x < v->floor || (v->allowed && !is_allowed(v->allowed, i)) ? -__builtin_inff() : x * v->scale;
}

static inline void fill_chunk(const es_view *v, int64_t c, float *buffer) {
    const int64_t first = c * ES_CHUNK;
    const int64_t count = v->n - first < ES_CHUNK ? v->n - first : ES_CHUNK;
    const vf gone = vf_set(-__builtin_inff());
    READS_ROW(v);
    int64_t i = 0;
    for (; i + W <= count; i += W) {
        const vf x = load_kind(v->source, first + i, v->kind), scaled = vf_mul(x, vf_set(v->scale));
        const uint32_t alive = vf_ge(x, vf_set(v->floor));
        vf_store(buffer + i, v->allowed ? vf_allowed(v->allowed, first + i, scaled, gone) : scaled);
        if (alive != W_ALL)
            for (int lane = 0; lane < W; lane++)
                if (!(alive >> lane & 1)) buffer[i + lane] = -__builtin_inff();
    }
    for (; i < count; i++) buffer[i] = unedited(v, first + i);
    for (; i < ES_CHUNK; i++) buffer[i] = -__builtin_inff();
    if (v->n_edits)
        for (int32_t e = v->edit_starts[c]; e < v->edit_starts[c + 1]; e++)
            buffer[v->edit_ids[e] - first] = v->edit_values[e];
}

/* Whole chunks without edits are read in place, others through `buffer` [ES_CHUNK]. */
ES_INLINE es_chunk chunk_of(const es_view *v, int64_t c, float *buffer) {
    READS_ROW(v);
    const int edited = v->n_edits && v->edit_starts[c] != v->edit_starts[c + 1];
    if (!edited && (c + 1) * ES_CHUNK <= v->n) {
        const char *at = (const char *)v->source + (size_t)(c * ES_CHUNK) * kind_size(v->kind);
        const uint32_t *const allowed = v->allowed ? v->allowed + c * ES_CHUNK_WORDS : NULL;
        return (es_chunk){at, allowed, v->kind, v->scale, v->floor};
    }
    fill_chunk(v, c, buffer);
    return (es_chunk){buffer, NULL, ES_FLOAT, 1.0f, -FLT_MAX};
}

/* --- greatest values --- */

/* With mask registers, a pass can apply a mask at next to no cost. Elsewhere the bits must be expanded to
 * lanes, which takes longer than finding a maximum: there the maxima are at first those without the mask, unless
 * shares need it anyway. */
#define ES_SCANS_MASKS (W == 16)

ES_INLINE vf chunk_greatest(const void *p, int32_t kind) {
    vf best[4];
    for (int k = 0; k < 4; k++) best[k] = vf_set(-__builtin_inff());
    for (int i = 0; i < ES_CHUNK; i += 4 * W) {
        vf x[4];
        load_two(p, i, kind, x);
        load_two(p, i + 2 * W, kind, x + 2);
        for (int k = 0; k < 4; k++) best[k] = vf_max(x[k], best[k]);
    }
    return vf_max(vf_max(best[0], best[1]), vf_max(best[2], best[3]));
}

/* The same over what a mask leaves, which is also written to `kept` unless that is NULL. `given` [4] collects the
 * greatest of all elements: bad logits are a fault even where the mask hides them. */
ES_INLINE vf chunk_allowed(const void *p, int32_t kind, const uint32_t *allowed, vf *given, float *kept) {
    const vf gone = vf_set(-__builtin_inff());
    vf best[4];
    for (int k = 0; k < 4; k++) best[k] = gone;
    for (int i = 0; i < ES_CHUNK; i += 4 * W)
        for (int k = 0; k < 4; k++) {
            const vf x = load_kind(p, i + k * W, kind);
            given[k] = vf_max(x, given[k]);
            if (kept) {
                const vf left = vf_allowed(allowed, i + k * W, x, gone);
                vf_store(kept + i + k * W, left);
                best[k] = vf_max(left, best[k]);
            } else best[k] = vf_allowed(allowed, i + k * W, vf_max(x, best[k]), best[k]);
        }
    return vf_max(vf_max(best[0], best[1]), vf_max(best[2], best[3]));
}

ES_INLINE vf scan_chunk(const es_view *v, int64_t c, int32_t kind, int masked, vf *given, float *kept) {
    const char *const p = (const char *)v->source + (size_t)(c * ES_CHUNK) * kind_size(kind);
    return masked ? chunk_allowed(p, kind, v->allowed + c * ES_CHUNK_WORDS, given, kept)
                  : chunk_greatest(p, kind);
}

/* Bits below the greatest logit so far at which a chunk has no weight, whatever rounds: it needs no share. Where
 * vectors are long, a share takes less time than a branch that goes either way. */
#define ES_NO_SHARE 33.0f

/* The shares of `count` chunks from c on, at most four, whose maxima are known, of a row whose greatest logit is at
 * least `top`. They are read from `kept`, masked values of one chunk after the other, if it is not NULL. */
ES_INLINE void share_chunks(es_view *v, int64_t c, int count, int32_t kind, int masked, const float *kept,
                            float top) {
    /* No difference of maxima, which may both be -inf: an invalid operation would count as a NaN in the row. */
    const float slope = share_slope(v->share_scale), least = top - ES_NO_SHARE / slope;
    vf parts[4] = {vf_set(0.0f), vf_set(0.0f), vf_set(0.0f), vf_set(0.0f)};
    for (int k = 0; k < count; k++) {
        const char *const p = (const char *)v->source + (size_t)((c + k) * ES_CHUNK) * kind_size(kind);
        const uint32_t *const allowed = masked ? v->allowed + (c + k) * ES_CHUNK_WORDS : NULL;
        const float maximum = v->maxima[c + k];
        v->bits[c + k] = share_bits(maximum, slope);
        if (W < 16 && maximum < least) continue;
        if (kept) parts[k] = chunk_share(kept + k * ES_CHUNK, NULL, ES_FLOAT, 0, slope, v->bits[c + k]);
        else parts[k] = chunk_share(p, allowed, kind, masked, slope, v->bits[c + k]);
    }
    vf_total4(v->shares + c, parts[0], parts[1], parts[2], parts[3]);
}

/* The maxima of whole chunks, and if `shared` their shares. If `masked`, they are those of what the mask leaves, and
 * `peak` becomes the greatest of all elements. */
ES_INLINE void scan_whole(es_view *v, int64_t whole, int32_t kind, int masked, int shared) {
    enum { KEEPS = !ES_SCANS_MASKS }; /* expanded to lanes once, a mask is not needed again */
    float kept[KEEPS ? 4 * ES_CHUNK : 1];
    const int keeps = KEEPS && masked && shared;
    float top = -__builtin_inff();
    vf given[4];
    for (int k = 0; k < 4; k++) given[k] = vf_set(-__builtin_inff());
    int64_t c = 0;
    for (; c + 4 <= whole; c += 4) {
        vf best[4];
        for (int k = 0; k < 4; k++)
            best[k] = scan_chunk(v, c + k, kind, masked, given, keeps ? kept + k * ES_CHUNK : NULL);
        vf_greatest4(v->maxima + c, best[0], best[1], best[2], best[3]);
        if (!shared) continue;
        for (int k = 0; k < 4; k++) top = v->maxima[c + k] > top ? v->maxima[c + k] : top;
        share_chunks(v, c, 4, kind, masked, keeps ? kept : NULL, top); /* they are in the first cache */
    }
    for (; c < whole; c++) {
        v->maxima[c] = vf_greatest(scan_chunk(v, c, kind, masked, given, keeps ? kept : NULL));
        if (!shared) continue;
        top = v->maxima[c] > top ? v->maxima[c] : top;
        share_chunks(v, c, 1, kind, masked, keeps ? kept : NULL, top);
    }
    if (masked) v->peak = vf_greatest(vf_max(vf_max(given[0], given[1]), vf_max(given[2], given[3])));
}

/* The greatest of the chunk maxima, -inf if there are none; the array has room for one more vector. */
static float greatest_chunk(float *maxima, int64_t chunks) {
    for (int i = 0; i < W; i++) maxima[chunks + i] = -__builtin_inff();
    vf best = vf_set(-__builtin_inff());
    for (int64_t c = 0; c < chunks; c += W) best = vf_max(vf_load(maxima + c), best);
    return vf_greatest(best);
}

ES_INLINE float greatest_in(es_chunk chunk, int32_t kind, int masked) {
    if (!masked) return vf_greatest(chunk_greatest(chunk.p, kind));
    vf given[4] = {vf_set(0.0f), vf_set(0.0f), vf_set(0.0f), vf_set(0.0f)}; /* unused */
    return vf_greatest(chunk_allowed(chunk.p, kind, chunk.allowed, given, NULL));
}

static float chunk_maximum(const es_view *v, int64_t c) {
    float buffer[ES_CHUNK], best;
    const es_chunk chunk = chunk_of(v, c, buffer);
    BY_FORM(chunk, best = greatest_in(chunk, KIND, MASKED));
    /* Finite or -inf whatever is read, so that the peak is always one of the maxima. */
    if (!(best >= chunk.floor)) return -__builtin_inff();
    const float scaled = best * chunk.scale;
    return scaled <= FLT_MAX ? scaled : FLT_MAX;
}

/* Make the maximum of a chunk exact. */
static float tighten(es_view *v, int64_t c) {
    if (v->loose[c]) v->maxima[c] = chunk_maximum(v, c);
    v->loose[c] = 0;
    return v->maxima[c];
}

/* The first chunk at or after c whose maximum is at least `bound`, or the number of chunks. */
static int64_t next_reaching(const es_view *v, int64_t c, float bound) {
    const int64_t chunks = chunks_of(v->n);
    for (; c < chunks; c += W) {
        const uint32_t reaching = vf_ge(vf_load(v->maxima + c), vf_set(bound));
        if (reaching) return lesser(c + __builtin_ctz(reaching), chunks);
    }
    return chunks;
}

/* Make the maxima that are at least `bound` exact; returns how many of them drop below it. */
static int64_t tighten_maxima(es_view *v, float bound) {
    int64_t fell = 0;
    for (int64_t c = -1; (c = next_reaching(v, c + 1, bound)) < chunks_of(v->n);)
        fell += tighten(v, c) < bound;
    return fell;
}

/* The peak under a mask or edits, found by making exact the maxima that could be the greatest. The highest
 * bound comes first: if it holds, hardly any other needs checking. */
static void find_peak(es_view *v) {
    const int64_t chunks = chunks_of(v->n);
    const int64_t highest = next_reaching(v, 0, greatest_chunk(v->maxima, chunks));
    v->peak = highest < chunks ? tighten(v, highest) : -__builtin_inff();
    for (int64_t c = -1; (c = next_reaching(v, c + 1, v->peak)) < chunks;) {
        const float best = tighten(v, c);
        v->peak = best > v->peak ? best : v->peak;
    }
}

/* Without fused multiply-add, shares take several times as long as reading: then they are added up after the scan,
 * when the peak is known, and those of chunks far below it are not needed. */
#define ES_SHARES_APART (!ES_FUSES)

ES_INLINE void share_whole(es_view *v, int64_t whole, int32_t kind) {
    const float top = greatest_chunk(v->maxima, whole);
    for (int64_t c = 0; c < whole; c += 4)
        share_chunks(v, c, (int)(whole - c < 4 ? whole - c : 4), kind, 0, NULL, top);
}

/* Maxima and shares of whole chunks. Not inline: the loops without shares stay as small as they were. */
static __attribute__((noinline)) void scan_shares(es_view *v, int64_t whole, int masked) {
    flush_results(1);
    if (masked) BY_KIND(v->kind, scan_whole(v, whole, KIND, 1, 1));
    else BY_KIND(v->kind, scan_whole(v, whole, KIND, 0, !ES_SHARES_APART));
    if (!masked && ES_SHARES_APART) BY_KIND(v->kind, share_whole(v, whole, KIND));
    flush_results(0);
}

/* Chunk maxima and peak of the row as given, under its mask. Returns an es_row_status. Inline, so that a row can
 * begin while the one before it ends: 0.6 us of a long row that is not in the cache. */
ES_INLINE int32_t scan_row(es_view *v) {
    const int64_t whole = v->n / ES_CHUNK, chunks = chunks_of(v->n);
    const int masked = v->allowed && (ES_SCANS_MASKS || v->share_scale != 0);
    nan_watch();
    if (v->share_scale != 0) scan_shares(v, whole, masked);
    else if (masked) BY_KIND(v->kind, scan_whole(v, whole, KIND, ES_SCANS_MASKS, 0));
    else BY_KIND(v->kind, scan_whole(v, whole, KIND, 0, 0));
    int bad = nan_seen();
    float peak = masked ? v->peak : greatest_chunk(v->maxima, whole);
    if (whole < chunks) {
        float last = -__builtin_inff();
        for (int64_t i = whole * ES_CHUNK; i < v->n; i++) {
            const float x = value_kind(v->source, i, v->kind);
            bad |= x != x;
            last = x > last ? x : last;
        }
        v->maxima[whole] = last;
        peak = last > peak ? last : peak;
    }
    v->peak = peak;
    v->has_maxima = 1;
    if (bad || !(peak <= ES_LOGIT_LIMIT)) return ES_ROW_BAD_LOGITS;
    memset(v->loose, v->allowed && !masked, (size_t)chunks);
    if (v->allowed) {
        v->loose[chunks - 1] = 1;
        find_peak(v);
    }
    return v->peak < -ES_LOGIT_LIMIT ? ES_ROW_EMPTY : ES_ROW_OK;
}

/* Chunk maxima and peak of any view. */
static void find_maxima(es_view *v) {
    if (v->has_maxima) return;
    const int64_t chunks = chunks_of(v->n);
    for (int64_t c = 0; c < chunks; c++) v->maxima[c] = chunk_maximum(v, c);
    v->peak = greatest_chunk(v->maxima, chunks);
    v->has_maxima = 1;
}

/* The value at index i of any view; for the row as given, i is the token. */
static float value_at(const es_view *v, int64_t i) {
    if (v->n_edits) {
        const int64_t c = i / ES_CHUNK;
        for (int32_t e = v->edit_starts[c]; e < v->edit_starts[c + 1]; e++)
            if (v->edit_ids[e] == i) return v->edit_values[e];
    }
    return unedited(v, i);
}

/* The first element that equals the peak; -1 if none does, because the logits have changed. */
static int64_t first_best(es_view *v) {
    find_maxima(v);
    const int64_t c = next_reaching(v, 0, v->peak);
    if (c >= chunks_of(v->n)) return -1;
    float buffer[ES_CHUNK];
    fill_chunk(v, c, buffer);
    for (int64_t i = 0; i < ES_CHUNK; i += W) {
        const uint32_t equal = vf_eq(vf_load(buffer + i), vf_set(v->peak));
        if (equal) return lesser(c * ES_CHUNK + i + __builtin_ctz(equal), v->n - 1);
    }
    return -1;
}

/* --- lists --- */

/* `dense`: append every vector, even if it has none of the elements; whether it has could not be predicted. */
ES_INLINE int64_t collect_chunk(es_chunk chunk, int32_t kind, int masked, int strict, int dense,
                                float threshold, int32_t first, const int32_t *own, float *values,
                                int32_t *ids, int64_t n) {
    const vf scale = vf_set(chunk.scale), least = vf_set(threshold), floor = vf_set(chunk.floor);
    for (int i = 0; i < ES_CHUNK; i += W) {
        const vf x = load_kind(chunk.p, i, kind);
        const vf scaled = vf_mul(x, scale);
        uint32_t mask = vf_ge(scaled, least);
        if (strict) mask &= vf_ge(x, floor);
        if (masked) mask &= allowed_lanes(chunk.allowed, i);
        if (dense || mask) {
            if (own) n = vf_append_ids(values, ids, n, scaled, own + i, mask);
            else n = vf_append(values, ids, n, scaled, first + i, mask);
        }
    }
    return n;
}

/* Collect the elements of at least `threshold`, and never removed ones, into `values` and `ids`, which must
 * not be what the view reads. Returns how many. */
static int64_t collect(const es_view *v, float threshold, float *values, int32_t *ids) {
    /* With a threshold that low, removed values must be detected by their own bound. */
    const float bound = v->floor * v->scale;
    const int strict = !(threshold > bound);
    float buffer[ES_CHUNK];
    int64_t n = 0, before = 0;
    const int64_t chunks = chunks_of(v->n);
    for (int64_t c = 0; c < chunks; c++) {
        if (v->has_maxima && !(v->maxima[c] >= threshold)) continue;
        const int dense = n - before > ES_CHUNK / W / 2; /* as the chunk before it */
        before = n;
        const es_chunk chunk = chunk_of(v, c, buffer);
        const int32_t first = (int32_t)(c * ES_CHUNK);
        int32_t tail[ES_CHUNK];
        const int32_t *own = v->ids ? v->ids + first : NULL;
        if (own && first + ES_CHUNK > v->n) { /* the last ids, copied so that whole vectors can be read */
            memcpy(tail, own, (size_t)(v->n - first) * sizeof *own);
            own = tail;
        }
        BY_FORM(chunk,
                n = collect_chunk(chunk, KIND, MASKED, strict, dense, threshold, first, own, values, ids, n));
    }
    return n;
}

ES_INLINE int64_t count_alive_in(es_chunk chunk, int32_t kind, int masked) {
    const vf floor = vf_set(chunk.floor);
    int64_t n = 0;
    for (int i = 0; i < ES_CHUNK; i += W)
        n += __builtin_popcount(vf_ge(load_chunk(chunk, i, kind, masked), floor));
    return n;
}

static int64_t chunk_alive(es_chunk chunk) { BY_FORM(chunk, return count_alive_in(chunk, KIND, MASKED)); }

/* --- weights --- */

/* Bits below the peak at which the weights of a chunk start to fit a 32-bit sum per lane. */
#define SPARE_BITS (W == 16 ? 3.01f : W == 8 ? 4.01f : W == 4 ? 5.01f : 7.01f)

typedef struct es_mass {
    int64_t weight;      /* sum of w */
    int64_t information; /* sum of u */
} es_mass;

ES_INLINE es_mass chunk_mass(es_chunk chunk, int32_t kind, int masked, int scaled, float peak, int far,
                             int informed) {
    const vf scale = vf_set(chunk.scale), top = vf_set(peak);
    vi near_sum = vi_zero(), near_bits = vi_zero();
    vl sum = vl_zero(), bits = vl_zero();
    for (int i = 0; i < ES_CHUNK; i += W_ABREAST * W) {
        vf y[W_ABREAST], p[W_ABREAST];
        vi w[W_ABREAST];
        EACH(k) y[k] = load_chunk(chunk, i + k * W, kind, masked);
        if (scaled) EACH(k) y[k] = vf_mul(y[k], scale);
        vf_distances(y, top);
        EACH(k) p[k] = y[k];
        vf_weights(p);
        EACH(k) w[k] = vi_rint(p[k]);
        if (far) EACH(k) near_sum = vi_add(near_sum, w[k]);
        else EACH(k) sum = vl_add(sum, w[k]);
        if (!informed) continue;
        EACH(k) p[k] = vi_float(w[k]);
        EACH(k) p[k] = vf_mul(p[k], vf_sub(vf_set(0.0f), y[k]));
        if (far) EACH(k) near_bits = vi_add(near_bits, vi_rint(p[k]));
        else EACH(k) bits = vl_add(bits, vi_rint(p[k]));
    }
    if (far) {
        sum = vl_add(sum, near_sum);
        bits = vl_add(bits, near_bits);
    }
    return (es_mass){vl_total(sum), informed ? vl_total(bits) : 0};
}

ES_INLINE es_mass chunk_mass_any(es_chunk chunk, float peak, int far, int informed) {
    if (!far) BY_FORM(chunk, return chunk_mass(chunk, KIND, MASKED, 1, peak, 0, informed));
    if (chunk.scale != 1.0f) BY_FORM(chunk, return chunk_mass(chunk, KIND, MASKED, 1, peak, 1, informed));
    BY_FORM(chunk, return chunk_mass(chunk, KIND, MASKED, 0, peak, 1, informed));
}

/* The view's total weight, and in `sums` that of every chunk. */
static es_mass total_mass(es_view *v, int64_t *sums, int informed) {
    find_maxima(v);
    float buffer[ES_CHUNK];
    es_mass total = {0, 0};
    const int64_t chunks = chunks_of(v->n);
    for (int64_t c = 0; c < chunks; c++) {
        const float y = es_distance(v->maxima[c], v->peak);
        sums[c] = 0;
        if (!(y >= -31.0f)) continue;
        const es_chunk chunk = chunk_of(v, c, buffer);
        const int far = y < (informed ? -SPARE_BITS - 5 : -SPARE_BITS); /* then w * d fits as well */
        const es_mass mass = informed ? chunk_mass_any(chunk, v->peak, far, 1)
                                      : chunk_mass_any(chunk, v->peak, far, 0);
        sums[c] = mass.weight;
        total.weight += mass.weight;
        total.information += mass.information;
    }
    return total;
}

typedef struct es_bounds {
    int64_t least, most;
} es_bounds;

/* Adds an upper bound of a chunk's 2^y to W sums: linear between integers, at most 1.0615 times as large. */
ES_INLINE void chunk_bound(es_chunk chunk, int32_t kind, int masked, float peak, double *totals) {
    const vf scale = vf_set(chunk.scale), top = vf_set(peak);
    vf sums[W_ABREAST];
    EACH(k) sums[k] = vf_set(0.0f);
    for (int i = 0; i < ES_CHUNK; i += W_ABREAST * W) {
        vf y[W_ABREAST];
        EACH(k) y[k] = vf_mul(load_chunk(chunk, i + k * W, kind, masked), scale);
        vf_distances(y, top);
        EACH(k) y[k] = vf_line(y[k]);
        EACH(k) sums[k] = vf_add(sums[k], y[k]);
    }
    for (int k = 1; k < W_ABREAST; k++) sums[0] = vf_add(sums[0], sums[k]);
    vf_add_doubles(totals, sums[0]);
}

/* Bounds of the total weight, at a quarter of its cost. The maxima must be valid. */
static es_bounds bound_mass(const es_view *v) {
    float buffer[ES_CHUNK];
    double totals[W] = {0};
    for (int64_t c = 0; c < chunks_of(v->n); c++) {
        if (!(es_distance(v->maxima[c], v->peak) >= -31.0f)) continue;
        const es_chunk chunk = chunk_of(v, c, buffer);
        BY_FORM(chunk, chunk_bound(chunk, KIND, MASKED, v->peak, totals));
    }
    double most = 0;
    for (int lane = 0; lane < W; lane++) most += totals[lane];
    /* Weights round by at most half a unit, and the sums here to 2^-18. */
    const double rounding = (double)v->n + most * 0x1p30 * 0x1p-12;
    const double least = most * 0x1p30 / 1.0615 - rounding;
    return (es_bounds){greater(es_integer(least), ES_ONE_WEIGHT), es_integer(most * 0x1p30 + rounding)};
}

/* Weights of a list, one by one, and their sum. Both arrays have ES_SLACK spare elements. */
static int64_t list_weights(float *values, int64_t n, float peak, int32_t *weights) {
    for (int i = 0; i < W_ABREAST * W; i++) values[n + i] = -__builtin_inff();
    const vf top = vf_set(peak);
    vl sum = vl_zero();
    for (int64_t i = 0; i < n; i += W_ABREAST * W) {
        vf y[W_ABREAST];
        EACH(k) y[k] = vf_load(values + i + k * W);
        vf_distances(y, top);
        vf_weights(y);
        EACH(k) vi_store(weights + i + k * W, vi_rint(y[k]));
        EACH(k) sum = vl_add(sum, vi_rint(y[k]));
    }
    return vl_total(sum);
}

/* The information of the same tokens, one by one, and its sum. */
static int64_t list_information(const float *values, int64_t n, float peak, const int32_t *weights,
                                int32_t *information) {
    int64_t sum = 0;
    for (int64_t i = 0; i < n; i++) {
        information[i] = es_information(weights[i], es_distance(values[i], peak));
        sum += information[i];
    }
    return sum;
}

/* --- moments --- */

/* Sums of x and x*x with x = l - peak, in the order that the contract prescribes, and how many tokens they
 * cover. */
typedef struct es_moments {
    double sum[16], squares[16];
    int64_t n;
} es_moments;

/* Adds 64 lanes of a chunk to the 16 sums. */
ES_INLINE void add_lanes(double *sums, const vf *lanes) {
    enum { QUARTER = 16 / W };
    for (int j = 0; j < QUARTER; j++) {
        const vf first = vf_add(lanes[j], lanes[j + QUARTER]);
        const vf second = vf_add(lanes[j + 2 * QUARTER], lanes[j + 3 * QUARTER]);
        vf_add_doubles(sums + j * W, vf_add(first, second));
    }
}

/* `checked`: removed tokens count as +0, and not as tokens. Otherwise only the mask may remove any. */
ES_INLINE void chunk_moments(es_chunk chunk, int32_t kind, int masked, int scaled, int checked, float peak,
                             es_moments *m) {
    const vf scale = vf_set(chunk.scale), floor = vf_set(chunk.floor), top = vf_set(peak);
    vf sums[64 / W], squares[64 / W];
    int n = 0;
    for (int first = 0; first < 64 / W; first += W_ABREAST) {
        vf *const sum = sums + first, *const square = squares + first;
        EACH(k) sum[k] = square[k] = vf_set(0.0f);
        for (int block = 0; block < ES_CHUNK; block += 64) {
            vf x[W_ABREAST];
            EACH(k) x[k] = load_chunk(chunk, block + (first + k) * W, kind, masked && checked);
            uint32_t alive[W_ABREAST];
            if (checked) EACH(k) alive[k] = vf_ge(x[k], floor);
            if (scaled) EACH(k) x[k] = vf_mul(x[k], scale);
            EACH(k) x[k] = vf_sub(x[k], top);
            if (checked) EACH(k) x[k] = vf_select(alive[k], x[k]);
            else if (masked)
                EACH(k) x[k] = vf_allowed(chunk.allowed, block + (first + k) * W, x[k], vf_set(0.0f));
            if (checked) EACH(k) n += __builtin_popcount(alive[k]);
            EACH(k) sum[k] = vf_add(sum[k], x[k]);
            EACH(k) x[k] = vf_mul(x[k], x[k]);
            EACH(k) square[k] = vf_add(square[k], x[k]);
        }
    }
    m->n += checked ? n : masked ? count_allowed(chunk.allowed, ES_CHUNK_WORDS) : ES_CHUNK;
    add_lanes(m->sum, sums);
    add_lanes(m->squares, squares);
}

ES_INLINE void chunk_moments_any(es_chunk chunk, int checked, float peak, es_moments *m) {
    if (chunk.scale == 1.0f) BY_FORM(chunk, chunk_moments(chunk, KIND, MASKED, 0, checked, peak, m));
    else BY_FORM(chunk, chunk_moments(chunk, KIND, MASKED, 1, checked, peak, m));
}

static double fold(const double *lanes) {
    double half[16];
    memcpy(half, lanes, sizeof half);
    for (int width = 8; width; width /= 2)
        for (int j = 0; j < width; j++) half[j] = half[j] + half[j + width];
    return half[0];
}

/* The same from memory, which is zeroed. */
static void add_lanes_at(double *sums, float *values) {
    vf lanes[64 / W];
    for (int lane = 0; lane < 64 / W; lane++) lanes[lane] = vf_load(values + lane * W);
    add_lanes(sums, lanes);
    memset(values, 0, 64 * sizeof *values);
}

static void list_moments(const float *values, const int32_t *ids, int64_t n, float peak, es_moments *m) {
    float sums[64] = {0}, squares[64] = {0};
    for (int64_t i = 0; i < n; i++) {
        const float x = values[i] - peak;
        sums[ids[i] & 63] += x;
        squares[ids[i] & 63] += x * x;
        if (i + 1 == n || ids[i + 1] / ES_CHUNK != ids[i] / ES_CHUNK) {
            add_lanes_at(m->sum, sums);
            add_lanes_at(m->squares, squares);
        }
    }
    m->n += n;
}

static void row_moments(const es_view *v, int checked, es_moments *m) {
    memset(m, 0, sizeof *m);
    float buffer[ES_CHUNK];
    for (int64_t c = 0; c < chunks_of(v->n); c++) {
        const es_chunk chunk = chunk_of(v, c, buffer);
        if (checked || chunk.p == buffer) chunk_moments_any(chunk, 1, v->peak, m);
        else chunk_moments_any(chunk, 0, v->peak, m);
    }
}

static void view_moments(es_view *v, es_moments *m) {
    find_maxima(v);
    if (v->ids) {
        memset(m, 0, sizeof *m);
        list_moments(v->source, v->ids, v->n, v->peak, m);
        return;
    }
    row_moments(v, 0, m);
    /* A removed token is so far down that its square is infinite: it cannot go unnoticed. */
    if (!(fold(m->squares) <= DBL_MAX)) row_moments(v, 1, m);
}
