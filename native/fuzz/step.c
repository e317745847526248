/* The inputs of one step: logits of every type in every layout, masks, and the table of the requests. */
#include "world.h"

#include <float.h>

/* --- elements --- */

static uint32_t bits_of(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

static float float_of(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

/* Conversion to half precision, rounding towards zero. */
static uint16_t half_of(float x) {
    const uint32_t bits = bits_of(x), sign = bits >> 16 & 0x8000, mantissa = bits & 0x7FFFFF;
    const int32_t exponent = (int32_t)(bits >> 23 & 255) - 112;
    if (x != x) return (uint16_t)(sign | 0x7E00);
    if (exponent >= 31) return (uint16_t)(sign | 0x7C00);
    if (exponent < -10) return (uint16_t)sign;
    if (exponent <= 0) return (uint16_t)(sign | (mantissa | 0x800000) >> (14 - exponent));
    return (uint16_t)(sign | (uint32_t)exponent << 10 | mantissa >> 13);
}

static float float_of_half(uint16_t half) {
    const uint32_t sign = (uint32_t)(half & 0x8000) << 16, exponent = half >> 10 & 31, mantissa = half & 1023;
    if (exponent == 31) return float_of(sign | 0x7F800000 | mantissa << 13);
    if (exponent) return float_of(sign | (exponent + 112) << 23 | mantissa << 13);
    return (sign ? -1.0f : 1.0f) * (float)mantissa * 0x1p-24f;
}

static void put(const es_tensor *t, void *at, float x) {
    const uint32_t bits = bits_of(x);
    const uint16_t narrow = t->code == 4 ? (uint16_t)(bits >> 16) : half_of(x);
    if (t->bits == 32) memcpy(at, &bits, 4);
    else memcpy(at, &narrow, 2);
}

/* A NaN with any payload, including signalling ones. */
static void put_nan(fz_random *r, const es_tensor *t, void *at) {
    const uint32_t payload = 1 + (uint32_t)fz_below(r, 100), bits = 0x7F800000u | payload;
    const uint16_t narrow = (uint16_t)((t->code == 4 ? 0x7F80 : 0x7C00) | payload);
    if (t->bits == 32) memcpy(at, &bits, 4);
    else memcpy(at, &narrow, 2);
}

static char *address(const es_tensor *t, int64_t row, int64_t column) {
    const int64_t stride = t->strides ? t->strides[0] : t->shape[1];
    return (char *)t->data + (int64_t)t->byte_offset + (row * stride + column) * (t->bits / 8);
}

float fz_logit(const fz_step *step, int64_t row, int64_t token) {
    const es_tensor *t = &step->batch.logits;
    uint32_t bits;
    uint16_t narrow;
    memcpy(&narrow, address(t, row, token), 2);
    if (t->bits == 16) return t->code == 4 ? float_of((uint32_t)narrow << 16) : float_of_half(narrow);
    memcpy(&bits, address(t, row, token), 4);
    return float_of(bits);
}

/* --- rows --- */

enum {
    FZ_NORMAL,
    FZ_FLAT,
    FZ_PEAKED,
    FZ_TIES,
    FZ_GAPS,
    FZ_RAMP,
    FZ_ANY_BITS,
    FZ_TINY,
    FZ_LIMIT,
    FZ_LOWEST,
    FZ_REMOVED,
    FZ_STYLES
};

static float any_logit(fz_random *r, int64_t style, float scale, int64_t t) {
    switch (style) {
    case FZ_NORMAL: return fz_normal(r) * scale;
    case FZ_FLAT: return scale;
    case FZ_PEAKED: return fz_chance(r, 1) ? 3 * scale : fz_normal(r);
    case FZ_TIES: return (float)(fz_below(r, 4) - 2) * scale;
    case FZ_GAPS: return fz_below(r, 3) ? -__builtin_inff() : fz_normal(r) * scale;
    case FZ_RAMP: return (float)t * -0.01f * scale;
    case FZ_ANY_BITS: { /* below 2^98 */
        const uint32_t low = (uint32_t)(fz_bits(r) & 0x81FFFFFF);
        return float_of(low | (uint32_t)fz_from(r, 0, 0x70) << 24);
    }
    case FZ_TINY: return float_of((uint32_t)fz_bits(r) & 0x80000003); /* denormals and signed zeros */
    case FZ_LIMIT: return (float)FZ_ONE_OF(r, 0x1p100, 0x1.fffffep99, -0x1p100, -0x1.000002p100, 0, 1);
    case FZ_LOWEST: return fz_chance(r, 90) ? -FLT_MAX : fz_normal(r);
    default: return fz_chance(r, 50) ? -FLT_MAX : -__builtin_inff();
    }
}

static void fill_row(fz_random *r, const es_tensor *t, int64_t row, int64_t vocab_size) {
    const int64_t style = fz_chance(r, 40) ? FZ_NORMAL
                                           : fz_below(r, fz_chance(r, 20) ? FZ_STYLES : FZ_REMOVED);
    const float scale = (float)FZ_ONE_OF(r, 1, 2, 3, 8, 30, 0.01);
    for (int64_t i = 0; i < vocab_size; i++) put(t, address(t, row, i), any_logit(r, style, scale, i));
    if (!fz_chance(r, 6)) return;
    char *const at = address(t, row, fz_below(r, vocab_size));
    switch (fz_below(r, 3)) {
    case 0: put_nan(r, t, at); break;
    case 1: put(t, at, __builtin_inff()); break;
    default: put(t, at, 0x1.000002p100f);
    }
}

/* Rows that are compact, padded, all at one address, overlapping or backwards, at any offset. */
static void make_logits(fz_step *step, fz_world *w) {
    fz_random *r = &w->random;
    es_tensor *t = &step->batch.logits;
    const int64_t V = w->vocab_size, rows = step->n_rows,
                  width = V + (fz_chance(r, 30) ? fz_from(r, 1, 40) : 0);
    const int64_t layout = fz_below(r, 8);
    int64_t stride = width;
    if (layout == 0) stride = width + fz_from(r, 1, 70);
    if (layout == 1) stride = 0;
    if (layout == 2) stride = (V + 1) / 2;
    if (layout == 3) stride = -width;
    const int64_t lead = fz_chance(r, 50) ? fz_from(r, 1, 9) : 0,
                  reach = (rows - 1) * (stride < 0 ? -stride : stride);
    const int64_t kind = fz_below(r, 3), total = rows ? lead + reach + width : lead;
    step->shape[0] = rows;
    step->shape[1] = width;
    step->strides[0] = stride;
    step->strides[1] = 1;
    *t = (es_tensor){.device_type = fz_chance(r, 90) ? 1 : 3,
                     .ndim = 2,
                     .code = kind == 2 ? 4 : 2,
                     .bits = kind == 0 ? 32 : 16,
                     .lanes = 1,
                     .shape = step->shape};
    t->strides = stride == width && fz_chance(r, 70) ? NULL : step->strides;
    char *block = fz_new(&step->inputs, (size_t)total * (t->bits / 8));
    const int64_t first = (lead + (stride < 0 ? reach : 0)) * (t->bits / 8);
    /* Nobody may read the padding. */
    for (int64_t i = 0; i < total; i++) put_nan(r, t, block + i * (t->bits / 8));
    t->data = fz_chance(r, 50) ? block : block + first;
    t->byte_offset = t->data == block ? (uint64_t)first : 0;
    for (int64_t row = 0; row < rows; row++) fill_row(r, t, row, V);
}

/* Mask words of one density, from 1/2^9 to all but that, everywhere or in runs. */
static void fill_mask(fz_random *r, int32_t *words, int64_t n) {
    const int64_t halvings = fz_from(r, 1, 9), run = fz_chance(r, 30) ? fz_from(r, 2, 40) : 0;
    const int is_dense = fz_chance(r, 70);
    uint32_t kept = UINT32_MAX;
    for (int64_t i = 0; i < n; i++) {
        uint32_t word = (uint32_t)fz_bits(r);
        for (int64_t k = 1; k < halvings; k++) word &= (uint32_t)fz_bits(r);
        if (run && i % run == 0) kept = fz_chance(r, 50) ? UINT32_MAX : 0;
        words[i] = (int32_t)((is_dense ? ~word : word) & kept);
    }
}

static void mask_all(fz_step *step, fz_world *w) {
    es_batch *b = &step->batch;
    uint8_t *masked = fz_new(&step->inputs, (size_t)b->n);
    memset(masked, 1, (size_t)b->n);
    b->masked = masked;
    b->bitmask_stride = (w->vocab_size + 31) / 32;
    int32_t *words = fz_new(&step->inputs, (size_t)(step->n_rows * b->bitmask_stride) * sizeof *words);
    for (int64_t row = 0; row < step->n_rows; row++)
        fill_mask(&w->random, words + row * b->bitmask_stride, b->bitmask_stride);
    b->bitmask = words;
}

static void make_masks(fz_step *step, fz_world *w) {
    fz_random *r = &w->random;
    es_batch *b = &step->batch;
    if (fz_chance(r, 60)) return;
    uint8_t *masked = fz_new(&step->inputs, (size_t)b->n);
    for (int32_t i = 0; i < b->n; i++) masked[i] = (uint8_t)fz_chance(r, 60);
    b->masked = masked;
    b->bitmask_stride = (w->vocab_size + 31) / 32 + fz_below(r, 3);
    int32_t *words = fz_new(&step->inputs, (size_t)(step->n_rows * b->bitmask_stride) * sizeof *words);
    for (int64_t row = 0; row < step->n_rows; row++) {
        const int64_t style = fz_below(r, 12);
        for (int64_t i = 0; i < b->bitmask_stride; i++) {
            const uint32_t any = (uint32_t)fz_bits(r),
                           few = any & (uint32_t)fz_bits(r) & (uint32_t)fz_bits(r) & (uint32_t)fz_bits(r);
            const uint32_t dense = style < 9 ? ~few : any, sparse = style < 3 ? UINT32_MAX : few;
            words[row * b->bitmask_stride + i] = (int32_t)(style == 0 ? 0 : style < 6 ? sparse : dense);
        }
    }
    b->bitmask = words;
}

int fz_allowed(const fz_step *step, int32_t i, int64_t t) {
    const es_batch *b = &step->batch;
    if (!b->masked || !b->masked[i]) return 1;
    return b->bitmask[b->rows[i] * b->bitmask_stride + t / 32] >> (t % 32) & 1;
}

/* --- the table --- */

enum { FZ_GAP = 5 }; /* elements between requests, which nobody may read */

/* All tokens and notes end to end. The gaps between them, and unused entries, hold what no table can. */
static void make_tokens(fz_step *step, const fz_world *w, int64_t *offsets) {
    int64_t total = FZ_GAP;
    for (int32_t s = 0; s < w->capacity; s++) {
        offsets[s] = total;
        total += w->slots[s].length + (s + 1 < w->capacity ? FZ_GAP : 0);
    }
    int64_t *tokens = fz_new(&step->inputs, (size_t)total * sizeof *tokens);
    double *notes = fz_new(&step->inputs, (size_t)total * sizeof *notes);
    for (int64_t i = 0; i < total; i++) {
        tokens[i] = INT64_MIN / 64;
        notes[i] = -1e300;
    }
    for (int32_t s = 0; s < w->capacity; s++) {
        memcpy(tokens + offsets[s], w->slots[s].tokens, (size_t)w->slots[s].length * sizeof *tokens);
        memcpy(notes + offsets[s], w->slots[s].notes, (size_t)w->slots[s].length * sizeof *notes);
    }
    step->table.tokens = tokens;
    step->table.notes = notes;
}

static void make_table(fz_step *step, fz_world *w) {
    fz_memory *m = &step->inputs;
    const size_t n = (size_t)w->capacity, wide = n * sizeof(int64_t);
    int64_t *positions = fz_new(m, wide), *offsets = fz_new(m, wide), *lengths = fz_new(m, wide),
            *prompts = fz_new(m, wide);
    uint64_t *seeds = fz_new(m, wide), *epochs = fz_new(m, wide);
    for (size_t s = 0; s < n; s++) {
        const fz_slot *slot = &w->slots[s];
        positions[s] = slot->length - slot->prompt_length;
        lengths[s] = slot->length;
        prompts[s] = slot->prompt_length;
        seeds[s] = slot->seed;
        epochs[s] = slot->epoch;
    }
    void *params = fz_new(m, n * w->params_size); /* at a new address in every step */
    memcpy(params, w->params, n * w->params_size);
    step->table = (es_table){.size = sizeof step->table,
                             .capacity = w->capacity,
                             .params = params,
                             .seeds = seeds,
                             .positions = positions,
                             .offsets = offsets,
                             .lengths = lengths,
                             .prompt_lengths = prompts,
                             .epochs = epochs};
    make_tokens(step, w, offsets);
}

/* n distinct numbers below `among`, in any order. */
static int64_t *shuffled(fz_step *step, fz_random *r, int64_t among) {
    int64_t *numbers = fz_new(&step->inputs, (size_t)among * sizeof *numbers);
    for (int64_t i = 0; i < among; i++) {
        const int64_t j = fz_below(r, i + 1);
        numbers[i] = i;
        numbers[i] = numbers[j];
        numbers[j] = i;
    }
    return numbers;
}

void fz_step_make(fz_step *step, fz_world *w) {
    fz_random *r = &w->random;
    memset(step, 0, sizeof *step);
    es_batch *b = &step->batch;
    const int64_t most = w->capacity < 20 ? w->capacity : 20;
    b->size = sizeof *b;
    b->n = (int32_t)(w->is_wide ? most : fz_chance(r, 30) ? most : fz_below(r, most + 1));
    step->n_rows = b->n + fz_below(r, 4);
    b->vocab_size = w->vocab_size;
    b->table = &step->table;
    b->rows = shuffled(step, r, step->n_rows);
    const int64_t *slots = shuffled(step, r, w->capacity);
    int32_t *own_slots = fz_new(&step->inputs, (size_t)b->n * sizeof *own_slots);
    uint32_t *programs = fz_new(&step->inputs, (size_t)b->n * sizeof *programs);
    for (int32_t i = 0; i < b->n; i++) {
        own_slots[i] = (int32_t)slots[i];
        programs[i] = (uint32_t)fz_below(r, w->n_programs);
    }
    b->slots = own_slots;
    b->programs = programs;
    make_logits(step, w);
    if (w->is_masked) mask_all(step, w);
    else make_masks(step, w);
    make_table(step, w);
}

void fz_add_outputs(es_batch *b, const fz_step *step, fz_memory *memory, uint64_t wanted) {
    const size_t V = (size_t)b->vocab_size, n = (size_t)b->n;
    b->token_ids = fz_new(memory, (size_t)step->n_rows * sizeof *b->token_ids);
    b->notes = fz_new(memory, (size_t)step->n_rows * sizeof *b->notes);
    b->status = fz_new(memory, n * sizeof *b->status);
    float **processed = fz_new(memory, n * sizeof *processed);
    for (size_t i = 0; i < n; i++) processed[i] = wanted >> i & 1 ? fz_new(memory, V * sizeof(float)) : NULL;
    b->processed = wanted ? processed : NULL;
}

void fz_step_free(fz_step *step) { fz_free(&step->inputs); }
