#include "world.h"

#include <float.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "operations.h"

_Noreturn void fz_fail(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fprintf(stderr, "es_fuzz: ");
    vfprintf(stderr, format, arguments);
    fprintf(stderr, "\n");
    va_end(arguments);
    exit(1);
}

/* --- memory --- */

void *fz_new(fz_memory *memory, size_t size) {
    memory->blocks = realloc(memory->blocks, (memory->n + 1) * sizeof *memory->blocks);
    void *bytes = malloc(size);
    if (!memory->blocks || (!bytes && size)) fz_fail("no memory for %zu bytes", size);
    if (size) memset(bytes, 0xA5, size);
    memory->blocks[memory->n++] = (struct fz_block){bytes, size};
    return bytes;
}

uint64_t fz_hash_memory(const fz_memory *memory, uint64_t hash) {
    for (size_t i = 0; i < memory->n; i++)
        hash = fz_hash(hash, memory->blocks[i].bytes, memory->blocks[i].size);
    return hash;
}

void fz_free(fz_memory *memory) {
    for (size_t i = 0; i < memory->n; i++) free(memory->blocks[i].bytes);
    free(memory->blocks);
    *memory = (fz_memory){NULL, 0};
}

/* --- lists of tokens --- */

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/* Ascending ids: none, all, most or a few of the vocabulary. */
static es_ids make_ids(fz_world *w) {
    fz_random *r = &w->random;
    const int64_t V = w->vocab_size, style = fz_below(r, 6), gap = style == 1 ? 1 : style == 2 ? 2 : 60;
    int64_t *ids = malloc((size_t)V * sizeof *ids), n = 0;
    if (!ids) fz_fail("no memory for %lld ids", (long long)V);
    for (int64_t t = fz_below(r, least(gap, V)); style && t < V; t += fz_from(r, 1, gap)) ids[n++] = t;
    int64_t *exact = fz_new(&w->inputs, (size_t)n * sizeof *exact);
    if (n) memcpy(exact, ids, (size_t)n * sizeof *exact);
    free(ids);
    return (es_ids){exact, n};
}

/* n sequences of one to four tokens. */
static es_sequences make_sequences(fz_world *w, int64_t n, int64_t alphabet) {
    int64_t *ends = fz_new(&w->inputs, (size_t)n * sizeof *ends), total = 0;
    for (int64_t i = 0; i < n; i++) ends[i] = total += fz_from(&w->random, 1, 4);
    int64_t *tokens = fz_new(&w->inputs, (size_t)total * sizeof *tokens);
    for (int64_t i = 0; i < total; i++) tokens[i] = fz_below(&w->random, alphabet);
    return (es_sequences){tokens, ends, n};
}

/* Breakers by first token, longest first, and the marks of their first tokens. */
static void make_breakers(fz_world *w, es_params *p, int64_t alphabet) {
    fz_random *r = &w->random;
    const int64_t heads = least(fz_below(r, 4), alphabet);
    if (!heads) return;
    uint8_t *marks = fz_new(&w->inputs, (size_t)w->vocab_size);
    memset(marks, 0, (size_t)w->vocab_size);
    int64_t ends[12], tokens[12 * 4], n = 0, total = 0;
    for (int64_t head = 0; head < heads; head++)
        for (int64_t size = fz_from(r, 1, 3); size > 0; size -= fz_from(r, 1, 3)) {
            tokens[total] = head;
            for (int64_t k = 1; k < size; k++) tokens[total + k] = fz_below(r, alphabet);
            marks[head] = size == 1 ? 3 : 1;
            ends[n++] = total += size;
        }
    int64_t *const own_ends = fz_new(&w->inputs, (size_t)n * sizeof *ends);
    int64_t *const own_tokens = fz_new(&w->inputs, (size_t)total * sizeof *tokens);
    memcpy(own_ends, ends, (size_t)n * sizeof *ends);
    memcpy(own_tokens, tokens, (size_t)total * sizeof *tokens);
    p->breakers = (es_sequences){own_tokens, own_ends, n};
    p->breaker_heads = marks;
}

/* Text in which many tokens share a prefix, and some are empty. */
static void make_text(fz_world *w) {
    const int64_t V = w->vocab_size;
    int64_t *ends = fz_new(&w->inputs, (size_t)V * sizeof *ends), total = 0;
    for (int64_t t = 0; t < V; t++)
        ends[t] = total += fz_from(&w->random, 0, fz_chance(&w->random, 5) ? 20 : 4);
    uint8_t *text = fz_new(&w->inputs, (size_t)total);
    for (int64_t i = 0; i < total; i++)
        text[i] = (uint8_t)(fz_chance(&w->random, 1) ? 255 : 'a' + fz_below(&w->random, 2));
    w->text = text;
    w->text_ends = ends;
}

/* --- parameters --- */

static double share(fz_random *r) {
    return fz_chance(r, 50) ? fz_share(r)
                            : FZ_ONE_OF(r, 0, 1, 1e-300, 0x1p-1074, 1e-9, 0.5, 0.95, 0x1.fffffffffffffp-1);
}

static int64_t window(fz_random *r) {
    return (int64_t)FZ_ONE_OF(r, -1, -1, 0, 1, 2, 5, 33, 64, 1000, 0x1p31, 0x1p62);
}

static int64_t count(fz_random *r, int64_t V) {
    return (int64_t)FZ_ONE_OF(r, 0, 1, 2, 40, 100, 255, 256, 257, (double)V - 1, (double)V, (double)V + 1,
                              0x1p31 - 1);
}

static void fill_truncations(fz_random *r, es_params *p, int64_t V) {
    p->top_p_cut = (int32_t)fz_below(r, 3);
    p->tfs_cut = (int32_t)fz_below(r, 2);
    p->top_p = share(r);
    p->min_p = share(r);
    p->typical_p = share(r);
    p->tfs = share(r);
    p->top_h = share(r);
    p->epsilon_cutoff = share(r);
    p->eta_cutoff = share(r);
    p->xtc_probability = share(r);
    p->xtc_threshold = share(r);
    p->top_a = FZ_ONE_OF(r, 0, 0.2, 1, 100, 1e-300, 1e300);
    p->top_n_sigma = FZ_ONE_OF(r, 1, 0.1, 3, 1e-300, 1e-3, 100, 1e300);
    p->top_k = count(r, V);
    p->min_k_tau = FZ_ONE_OF(r, 3, 0, 0.5, 100, 1e-300, 1e300);
    p->p_less_norm = fz_chance(r, 50);
    p->min_keep = fz_chance(r, 50) ? 0 : count(r, V);
}

static void fill_transforms(fz_random *r, es_params *p) {
    p->temperature = FZ_ONE_OF(r, 0, 0x1.a36e2eb1c432cp-14, 1e-4, 0.1, 0.8, 1, 2, 100, 1e6);
    p->dynatemp_range = FZ_ONE_OF(r, 0, 0, 0.5, 1, 1e6, 1e-300);
    p->dynatemp_exponent = FZ_ONE_OF(r, 1, 0, -1, 100, -100, 0.3);
    p->smoothing_factor = FZ_ONE_OF(r, 0, 0.2, 1, 1e6, 1e-300);
    p->smoothing_curve = FZ_ONE_OF(r, 1, 1.5, 3, 1e6);
}

static void fill_penalties(fz_world *w, es_params *p, int64_t alphabet) {
    fz_random *r = &w->random;
    p->repetition_penalty = FZ_ONE_OF(r, 1, 1.1, 0.5, 100, 1e-300, 1e300, 1e-40);
    p->repetition_penalty_slope = FZ_ONE_OF(r, 0, 0, 1, 0.5, 3, 1e-300, 1e6);
    p->penalty_decay_range = (int64_t)FZ_ONE_OF(r, 0, 0, 1, 2, 7, 100, 0x1p31 - 1);
    p->frequency_penalty = FZ_ONE_OF(r, 0, 0.5, -2, 1e300, -1e300, 1e-300);
    p->presence_penalty = FZ_ONE_OF(r, 0, 0.5, -2, 1e300, -1e300, 1e38);
    p->repetition_reach = window(r);
    p->counting_reach = fz_chance(r, 50) ? p->repetition_reach : window(r);
    p->repetition_output_only = fz_chance(r, 30);
    p->counting_output_only = fz_chance(r, 30);
    if (fz_chance(r, 30)) p->penalty_exempt = make_ids(w);
    p->dry_multiplier = FZ_ONE_OF(r, 0, 0.8, 100, 1e300, 1e-300);
    p->dry_base = FZ_ONE_OF(r, 1, 0x1.0000000000001p0, 1.75, 3, 1e300);
    p->dry_allowed_length = (int64_t)FZ_ONE_OF(r, 0, 1, 2, 2, 5, 1000, 0x1p62);
    p->dry_penalty_last_n = window(r);
    p->no_repeat_ngram_size = (int64_t)FZ_ONE_OF(r, 0, 1, 2, 3, 5, 0x1p31, 0x1p62);
    make_breakers(w, p, alphabet);
}

static void fill_lists(fz_world *w, es_params *p, int64_t alphabet) {
    fz_random *r = &w->random;
    p->min_tokens = (int64_t)FZ_ONE_OF(r, 0, 1, 10, 0x1p62);
    p->allowed_token_ids = make_ids(w);
    p->eos_token_ids = make_ids(w);
    p->ending_token_ids = make_ids(w);
    p->text_end_token_ids = make_ids(w);
    p->forced_end = (int32_t)w->vocab_size; /* the last token */
    p->text = w->text;
    p->text_ends = w->text_ends;
    p->biased_token_ids = make_ids(w);
    float *biases = fz_new(&w->inputs, (size_t)p->biased_token_ids.n * sizeof *biases);
    for (int64_t i = 0; i < p->biased_token_ids.n; i++)
        biases[i] = (float)(fz_chance(r, 50) ? fz_normal(r)
                                             : FZ_ONE_OF(r, 0, 5, -100, FLT_MAX, -FLT_MAX, -__builtin_inf()));
    p->biases = biases;
    p->bad_words = make_sequences(w, fz_below(r, 4), alphabet);
}

/* Every parameter at its edges; most requests leave most steps out anyway. */
static void fill_params(fz_world *w, es_params *p, const fz_slot *slot) {
    fz_random *r = &w->random;
    memset(p, 0, sizeof *p);
    p->size = (uint32_t)w->params_size;
    fill_truncations(r, p, w->vocab_size);
    fill_transforms(r, p);
    fill_penalties(w, p, slot->alphabet);
    fill_lists(w, p, slot->alphabet);
    p->mirostat_tau = FZ_ONE_OF(r, 5, 0, 1, 1e6);
    p->mirostat_eta = FZ_ONE_OF(r, 0.1, 0, 1, 1e6);
    p->adaptive_target = share(r);
    p->adaptive_decay = FZ_ONE_OF(r, 0, 0.9, 0.99);
}

/* --- requests --- */

static void append_token(fz_slot *slot, int64_t token, double note) {
    if (slot->length == FZ_MOST_TOKENS) return;
    slot->tokens[slot->length] = token;
    slot->notes[slot->length++] = note;
}

static double any_note(fz_random *r) {
    return fz_chance(r, 50)   ? __builtin_nan("")
           : fz_chance(r, 50) ? 10 * fz_share(r)
                              : FZ_ONE_OF(r, 0, 1, 40, 1e30);
}

static void append_text(fz_world *w, fz_slot *slot, int64_t n) {
    fz_random *r = &w->random;
    const int64_t period = fz_chance(r, 30) ? fz_from(r, 1, 9) : 0;
    for (; n > 0; n--) {
        const int repeats = period && slot->length >= period && fz_chance(r, 95);
        const int64_t token = repeats ? slot->tokens[slot->length - period] : fz_below(r, slot->alphabet);
        append_token(slot, token, any_note(r));
    }
}

/* A new request: prompt, then some output. */
static void begin_request(fz_world *w, fz_slot *slot) {
    fz_random *r = &w->random;
    slot->epoch = ++w->epochs;
    slot->seed = fz_bits(r);
    slot->alphabet = least((int64_t)FZ_ONE_OF(r, 1, 2, 4, 20, 1e9), w->vocab_size);
    slot->length = 0;
    append_text(w, slot,
                (int64_t)FZ_ONE_OF(r, 0, 0, 1, 2, 10, 31, 32, 33, 64, 200, (double)fz_below(r, 3000)));
    slot->prompt_length = slot->length;
    for (int64_t i = 0; i < slot->length; i++) slot->notes[i] = __builtin_nan("");
    if (fz_chance(r, 50)) append_text(w, slot, fz_below(r, 40));
}

void fz_world_advance(fz_world *w, const fz_step *step, const int64_t *token_ids, const double *notes) {
    fz_random *r = &w->random;
    for (int32_t i = 0; i < step->batch.n; i++) {
        const int64_t token = token_ids[step->batch.rows[i]];
        const double note = notes[step->batch.rows[i]];
        if (token >= 0 && fz_chance(r, 70)) append_token(&w->slots[step->batch.slots[i]], token, note);
    }
    for (int32_t s = 0; s < w->capacity; s++) {
        fz_slot *slot = &w->slots[s];
        const int what = (int)fz_below(r, 8);
        if (what == 0) { /* the slot goes to another request */
            begin_request(w, slot);
            fill_params(w, (es_params *)(w->params + (size_t)s * w->params_size), slot);
        } else if (what == 1) { /* a stretch of output at once, as drafts produce */
            append_text(w, slot, fz_from(r, 1, 60));
        } else if (what == 2) { /* a rollback */
            slot->length = fz_from(r, slot->prompt_length, slot->length);
            slot->epoch = ++w->epochs;
        }
    }
}

/* --- row functions --- */

enum { FZ_KEEP, FZ_NOISE, FZ_REMOVE, FZ_REMOVE_ALL, FZ_ERROR, FZ_NAN, FZ_INFINITE, FZ_HUGE, FZ_FUNCTIONS };

static void check_row_facts(const es_row *row, const int32_t *ids, int64_t n, const void *state) {
    if (row->size != sizeof *row || n < 1 || n > row->vocab_size)
        fz_fail("a row function got %lld tokens", (long long)n);
    if (state && *(const int64_t *)state != row->slot)
        fz_fail("a row function got the state of another slot");
    if (row->prompt_length > row->length) fz_fail("a row function got a prompt longer than its text");
    for (int64_t i = 0; ids && i < n; i++)
        if (ids[i] < 0 || ids[i] >= row->vocab_size || (i && ids[i] <= ids[i - 1]))
            fz_fail("a row function got ids out of order");
}

/* values[0] selects what it does. It never brings a removed token back. */
static int32_t row_function(const es_row *row, float *logits, const int32_t *ids, int64_t n, void *state) {
    check_row_facts(row, ids, n, state);
    const int what = (int)row->values[0];
    const uint64_t bits = row->draw(row, 0);
    const int64_t place = (int64_t)(bits % (uint64_t)n);
    for (int64_t i = 0; i < n; i++) {
        const int64_t id = ids ? ids[i] : i;
        if (what == FZ_NOISE && logits[i] >= -FLT_MAX)
            logits[i] += (float)(fz_mix(bits ^ (uint64_t)id) % 5) - 2;
        if (what == FZ_HUGE && logits[i] >= -FLT_MAX) logits[i] = id % 2 ? FLT_MAX : -FLT_MAX;
        if (what == FZ_REMOVE && (id + (int64_t)bits) % 3) logits[i] = -__builtin_inff();
        if (what == FZ_REMOVE_ALL) logits[i] = -__builtin_inff();
    }
    if (what == FZ_NAN) logits[place] = __builtin_nanf("");
    if (what == FZ_INFINITE) logits[place] = __builtin_inff();
    return what == FZ_ERROR;
}

/* --- programs --- */

static void make_function(fz_world *w, fz_program *program, es_op *op, int32_t i) {
    fz_random *r = &w->random;
    op->n_values = (int32_t)fz_from(r, 1, 3);
    double *values = fz_new(&w->inputs, (size_t)(w->capacity * op->n_values) * sizeof *values);
    for (int32_t k = 0; k < w->capacity * op->n_values; k++)
        values[k] = (double)(fz_chance(r, 70) ? fz_below(r, FZ_REMOVE_ALL) : fz_below(r, FZ_FUNCTIONS));
    void **states = fz_new(&w->inputs, (size_t)w->capacity * sizeof *states);
    int64_t *slots = fz_new(&w->inputs, (size_t)w->capacity * sizeof *slots);
    for (int32_t s = 0; s < w->capacity; s++) {
        slots[s] = s;
        states[s] = &slots[s];
    }
    program->values[i] = values;
    program->states[i] = states;
    op->function = row_function;
    op->values = &program->values[i];
    op->states = fz_chance(r, 70) ? (void *const *const *)&program->states[i] : NULL;
}

/* The kind of any operation of which `is_wanted` is true. */
static int32_t any_operation(fz_random *r, int (*is_wanted)(int32_t kind)) {
#define FZ_KIND(kind, function, class, needs) kind,
    static const int32_t kinds[] = {ES_OPERATIONS(FZ_KIND)};
#undef FZ_KIND
    const size_t count = sizeof kinds / sizeof *kinds;
    int64_t wanted = 0;
    for (size_t i = 0; i < count; i++) wanted += is_wanted(kinds[i]);
    wanted = fz_below(r, wanted);
    size_t at = 0;
    while (!is_wanted(kinds[at]) || wanted--) at++;
    return kinds[at];
}

/* Edits of a few tokens now and then, samplers that ask for the total weight, temperature, and a draw. */
static void make_plain_program(fz_world *w, fz_program *out) {
    static const int32_t edits[] = {
        ES_OP_LOGIT_BIAS, ES_OP_MIN_TOKENS, ES_OP_BAD_WORDS,       ES_OP_DRY,
        ES_OP_PENALTIES,  ES_OP_IGNORE_EOS, ES_OP_NO_REPEAT_NGRAM, ES_OP_PENALTIES};
    static const int32_t chains[][3] = {{ES_OP_DIST},
                                        {ES_OP_TEMPERATURE, ES_OP_DIST},
                                        {ES_OP_TOP_P, ES_OP_DIST},
                                        {ES_OP_TEMPERATURE, ES_OP_TOP_P, ES_OP_DIST},
                                        {ES_OP_TOP_P, ES_OP_TEMPERATURE, ES_OP_DIST},
                                        {ES_OP_XTC, ES_OP_TEMPERATURE, ES_OP_DIST},
                                        {ES_OP_XTC, ES_OP_TOP_P, ES_OP_DIST},
                                        {ES_OP_TEMPERATURE, ES_OP_XTC, ES_OP_DIST},
                                        {ES_OP_TOP_A, ES_OP_DIST},
                                        {ES_OP_TEMPERATURE, ES_OP_EPSILON_CUTOFF, ES_OP_DIST},
                                        {ES_OP_MIROSTAT_V2},
                                        {ES_OP_TEMPERATURE, ES_OP_MIROSTAT_V2}};
    enum { EDITS = sizeof edits / sizeof *edits, CHAINS = sizeof chains / sizeof *chains };
    fz_random *r = &w->random;
    es_op *ops = fz_new(&w->inputs, 4 * sizeof *ops);
    const int32_t *chain = chains[fz_below(r, CHAINS)];
    int32_t n = 0;
    if (fz_chance(r, 40)) ops[n++] = (es_op){.size = sizeof *ops, .kind = edits[fz_below(r, EDITS)]};
    for (int32_t i = 0; i < 3 && chain[i]; i++) ops[n++] = (es_op){.size = sizeof *ops, .kind = chain[i]};
    out->program = (es_program){sizeof out->program, n, ops};
    out->prefix = (int32_t)fz_from(r, 0, n - 1);
}

static void make_program(fz_world *w, fz_program *out) {
    fz_random *r = &w->random;
    const int32_t samplers = (int32_t)(fz_chance(r, 10) ? 0 : fz_below(r, FZ_MOST_OPS));
    const int32_t n = samplers + fz_chance(r, 90);
    const size_t size = sizeof(es_op) + (fz_chance(r, 20) ? 16 : 0); /* as a later host might write them */
    char *ops = fz_new(&w->inputs, (size_t)n * size);
    for (int32_t i = 0; i < n; i++) {
        es_op *op = (es_op *)(ops + (size_t)i * size);
        *op = (es_op){.size = (uint32_t)size, .stream = (uint32_t)fz_below(r, 1000)};
        op->kind = i < samplers ? any_operation(r, es_is_sampler) : any_operation(r, es_is_selector);
        if (op->kind == ES_OP_FUNCTION) make_function(w, out, op, i);
    }
    out->program = (es_program){sizeof out->program, n, (const es_op *)ops};
    out->prefix = (int32_t)fz_from(r, 0, samplers);
}

const es_op *fz_op(const es_program *program, int32_t i) {
    return (const es_op *)((const char *)program->ops + (size_t)i * program->ops->size);
}

/* --- the world --- */

static int64_t make_vocab_size(fz_world *w) {
    fz_random *r = &w->random;
    if (w->is_wide) return fz_from(r, 30000, 70000);
    switch (fz_below(r, 5)) {
    case 0: return fz_from(r, 1, 4);
    case 1: return fz_from(r, 5, 70);
    case 2: return (int64_t)FZ_ONE_OF(r, 31, 32, 33, 64, 255, 256, 257, 511, 512, 513, 1024, 2048);
    default: return fz_from(r, 70, fz_chance(r, 50) ? 700 : 5000);
    }
}

void fz_world_make(fz_world *w, uint64_t seed) {
    memset(w, 0, sizeof *w);
    w->random.state = fz_mix(seed + 1);
    fz_random *r = &w->random;
    w->is_masked = (seed & FZ_MASKED) != 0;
    w->is_plain = (seed & FZ_PLAIN) != 0;
    w->is_wide = fz_chance(r, 3);
    w->vocab_size = make_vocab_size(w);
    w->capacity = (int32_t)fz_from(r, 1, 24);
    w->params_size = sizeof(es_params) + (fz_chance(r, 20) ? 24 : 0);
    w->slots = malloc((size_t)w->capacity * sizeof *w->slots);
    w->params = malloc((size_t)w->capacity * w->params_size);
    if (!w->slots || !w->params) fz_fail("no memory for a case");
    make_text(w);
    for (int32_t s = 0; s < w->capacity; s++) {
        begin_request(w, &w->slots[s]);
        fill_params(w, (es_params *)(w->params + (size_t)s * w->params_size), &w->slots[s]);
    }
    w->n_programs = (int32_t)fz_from(r, 1, FZ_MOST_PROGRAMS);
    for (int32_t i = 0; i < w->n_programs; i++)
        (w->is_plain ? make_plain_program : make_program)(w, &w->programs[i]);
}

void fz_world_free(fz_world *w) {
    fz_free(&w->inputs);
    free(w->slots);
    free(w->params);
}

es_context *fz_open(const es_api *api, const char *isa, int32_t threads, const fz_world *w) {
    const es_options options = {.size = sizeof options, .num_threads = threads, .isa = isa, .device = {1, 0}};
    es_context *context;
    if (api->open(&options, &context) != ES_OK) fz_fail("no context for %s", isa);
    for (uint32_t i = 0, n = (uint32_t)w->n_programs; i < 2 * n; i++) {
        const fz_program *from = &w->programs[i % n];
        es_program program = from->program;
        uint32_t number;
        if (i >= n) program.n_ops = from->prefix;
        if (api->compile(context, &program, &number) != ES_OK || number != i)
            fz_fail("program %u: %s", i, api->error(context));
    }
    return context;
}
