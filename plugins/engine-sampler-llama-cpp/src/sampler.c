/* A request of one row behind llama.cpp's interface of samplers. */
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "llama_abi.h"
#include "request.h"

_Static_assert(sizeof(struct llama_sampler_i) == MOST_FUNCTIONS * sizeof(void *), "room for later functions");

/* A sampler's context. Memory for rows is there from the first row on. */
typedef struct shim {
    request request;
    struct llama_sampler *(*create)(struct llama_sampler_i *interface, void *context);
    struct llama_sampler_i *interface;
    uint64_t seed, epoch;
    int64_t position; /* how many tokens have been accepted */
    int64_t *tokens;  /* [capacity], the newest of them, where the chain needs any */
    double *notes;    /* [capacity] */
    int64_t length, prompt_length, capacity;
    int32_t has_drawn;
    int64_t drawn; /* the token that awaits its acceptance; -1: none */
    double note;
    const es_api *api;
    es_context *context;
    uint32_t program;
    float *row;       /* [vocab_size] */
    float *processed; /* [vocab_size], where probabilities are wanted */
    char error[200];
} shim;

static int32_t fault(shim *s, const char *text) {
    snprintf(s->error, sizeof s->error, "%s", text);
    return ES_INVALID;
}

/* --- seeds --- */

static uint64_t mixed(uint64_t x) {
    x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
    x = (x ^ x >> 27) * 0x94D049BB133111EBu;
    return x ^ x >> 31;
}

/* Another number at every call, in every thread and process. */
static uint64_t random_seed(void) {
    static atomic_uint_fast64_t calls;
    struct timespec now = {0, 0};
    uint64_t drawn = 0;
    FILE *file = fopen("/dev/urandom", "rb");
    if (file && fread(&drawn, sizeof drawn, 1, file) != 1) drawn = 0;
    if (file) fclose(file);
    timespec_get(&now, TIME_UTC);
    const uint64_t call = atomic_fetch_add(&calls, 1) + 1;
    return drawn ^ mixed((uint64_t)now.tv_sec * 1000000007u + (uint64_t)now.tv_nsec) ^
           mixed(call * 0x9E3779B97F4A7C15u);
}

/* --- the history --- */

static void begin_again(shim *s) {
    const es_llama_params *params = &s->request.params;
    s->seed = params->has_seed ? params->seed : random_seed();
    s->epoch++;
    s->position = s->length = s->prompt_length = 0;
    s->has_drawn = 0;
    s->drawn = -1;
    s->error[0] = '\0';
}

static void drop_older_half(shim *s) {
    const int64_t gone = s->length / 2;
    s->length -= gone;
    memmove(s->tokens, s->tokens + gone, (size_t)s->length * sizeof *s->tokens);
    memmove(s->notes, s->notes + gone, (size_t)s->length * sizeof *s->notes);
    s->prompt_length = s->prompt_length > gone ? s->prompt_length - gone : 0;
    s->epoch++;
}

/* Room for `capacity` tokens. Returns 0, or -1 without memory, which leaves all as it was. */
static int reserve(shim *s, int64_t capacity) {
    if (capacity <= s->capacity) return 0;
    int64_t *tokens = realloc(s->tokens, (size_t)capacity * sizeof *tokens);
    if (tokens) s->tokens = tokens;
    double *notes = tokens ? realloc(s->notes, (size_t)capacity * sizeof *notes) : NULL;
    if (!notes) return -1;
    s->notes = notes;
    s->capacity = capacity;
    return 0;
}

/* Append a token; without memory for more, older ones make room. */
static void append(shim *s, int64_t token, double note) {
    const int64_t most = s->request.params.history;
    const int64_t larger = s->capacity ? 2 * s->capacity : 256;
    if (s->length == s->capacity && (s->length >= most || reserve(s, larger < most ? larger : most))) {
        if (s->length < 2) return;
        drop_older_half(s);
    }
    s->tokens[s->length] = token;
    s->notes[s->length++] = note;
}

/* Take over the history of `from`. Returns 0, or -1 without memory. */
static int copy_history(shim *s, const shim *from) {
    if (reserve(s, from->length)) return -1;
    if (from->length) {
        memcpy(s->tokens, from->tokens, (size_t)from->length * sizeof *s->tokens);
        memcpy(s->notes, from->notes, (size_t)from->length * sizeof *s->notes);
    }
    s->seed = from->seed;
    s->epoch++;
    s->position = from->position;
    s->length = from->length, s->prompt_length = from->prompt_length;
    s->has_drawn = from->has_drawn, s->drawn = from->drawn, s->note = from->note;
    return 0;
}

/* --- a row --- */

/* Open the kernels, and get memory for a row. */
static int32_t prepare(shim *s) {
    const size_t bytes = (size_t)s->request.params.vocab_size * sizeof(float);
    if (!s->row) s->row = malloc(bytes);
    if (!s->processed && s->request.params.probabilities) s->processed = malloc(bytes);
    if (!s->row || (s->request.params.probabilities && !s->processed)) return fault(s, "no memory for a row");
    if (s->context) return ES_OK;
    const es_options options = {.size = (uint32_t)sizeof options, .num_threads = 1, .device = {1, 0}};
    es_context *context = NULL;
    if (es_get_api(ES_ABI, &s->api)) return fault(s, "the kernels are of another version");
    if (s->api->open(&options, &context)) return fault(s, "the kernels could not be opened");
    if (s->api->compile(context, &s->request.program, &s->program)) {
        fault(s, s->api->error(context));
        s->api->close(context);
        return ES_INVALID;
    }
    s->context = context;
    return ES_OK;
}

/* Write the candidates' logits to the row. Returns whether they are the vocabulary in order. */
static int gather(shim *s, const llama_token_data_array *candidates) {
    const int64_t vocab_size = s->request.params.vocab_size;
    const llama_token_data *data = candidates->data;
    const int64_t n = (int64_t)candidates->size;
    int32_t others = n != vocab_size;
    for (int64_t i = 0; i < n && i < vocab_size; i++) {
        s->row[i] = data[i].logit;
        others |= data[i].id != (int32_t)i;
    }
    if (!others) return 1;
    for (int64_t i = 0; i < vocab_size; i++) s->row[i] = -INFINITY;
    for (int64_t i = 0; i < n; i++)
        if (data[i].id >= 0 && data[i].id < vocab_size) s->row[data[i].id] = data[i].logit;
    return 0;
}

static const char *words_of(int32_t status) {
    switch (status) {
    case ES_ROW_BAD_LOGITS: return "NaN, +inf or a logit above 2^100";
    case ES_ROW_EMPTY: return "no candidate is left";
    case ES_ROW_BAD_VALUE: return "a sampler made NaN or +inf";
    default: return "no memory for the tables of this row";
    }
}

/* Draw from the row: the token, or -1 with the reason in s->error. */
static int64_t draw(shim *s) {
    const request *r = &s->request;
    int64_t shape[2] = {1, r->params.vocab_size}, offset = 0, token = -1, row = 0, nothing = 0;
    int32_t slot = 0, status = ES_ROW_OK;
    double no_note = NAN;
    const es_table table = {.size = (uint32_t)sizeof table,
                            .capacity = 1,
                            .params = &r->params.values,
                            .seeds = &s->seed,
                            .positions = &s->position,
                            .offsets = &offset,
                            .lengths = &s->length,
                            .prompt_lengths = &s->prompt_length,
                            .epochs = &s->epoch,
                            .tokens = s->tokens ? s->tokens : &nothing,
                            .notes = s->notes ? s->notes : &no_note};
    float *processed = s->processed;
    es_batch batch = {
        .size = (uint32_t)sizeof batch,
        .n = 1,
        .logits =
            {.data = s->row, .device_type = 1, .ndim = 2, .code = 2, .bits = 32, .lanes = 1, .shape = shape},
        .vocab_size = r->params.vocab_size,
        .table = &table,
        .rows = &row,
        .slots = &slot,
        .programs = &s->program,
        .processed = processed ? &processed : NULL,
        .token_ids = &token,
        .notes = &s->note,
        .status = &status};
    if (s->api->run(s->context, &batch)) return fault(s, s->api->error(s->context)), -1;
    if (status != ES_ROW_OK) return fault(s, words_of(status)), -1;
    return token;
}

/* --- what the caller sees --- */

/* The index of the likeliest candidate that is a number; -1 if there are no candidates. */
static int64_t likeliest(const llama_token_data_array *candidates) {
    int64_t best = candidates->size ? 0 : -1;
    for (int64_t i = 1; i < (int64_t)candidates->size; i++) {
        const float logit = candidates->data[i].logit, best_logit = candidates->data[best].logit;
        if (logit > best_logit || (isnan(best_logit) && !isnan(logit))) best = i;
    }
    return best;
}

static int64_t index_of(const llama_token_data_array *candidates, int64_t token) {
    for (int64_t i = 0; i < (int64_t)candidates->size; i++)
        if (candidates->data[i].id == token) return i;
    return -1;
}

/* The logits that the token was drawn from, -inf for removed candidates, and their softmax. */
static void write_probabilities(const shim *s, llama_token_data_array *candidates) {
    double peak = -INFINITY, sum = 0;
    for (size_t i = 0; i < candidates->size; i++) {
        llama_token_data *one = &candidates->data[i];
        const int known = one->id >= 0 && one->id < s->request.params.vocab_size;
        one->logit = known ? s->processed[one->id] : -INFINITY;
        if (one->logit > peak) peak = one->logit;
    }
    for (size_t i = 0; i < candidates->size; i++) {
        candidates->data[i].p = expf((float)(candidates->data[i].logit - peak));
        sum += candidates->data[i].p;
    }
    for (size_t i = 0; i < candidates->size; i++)
        candidates->data[i].p = (float)(candidates->data[i].p / sum);
    candidates->sorted = false;
}

static void apply(struct llama_sampler *sampler, llama_token_data_array *candidates) {
    shim *s = sampler->ctx;
    if (!s || !candidates->data) {
        candidates->selected = candidates->data ? likeliest(candidates) : -1;
        return;
    }
    s->error[0] = '\0';
    s->has_drawn = 1;
    s->drawn = -1;
    if (prepare(s) == ES_OK) {
        const int is_plain = gather(s, candidates);
        const int64_t token = draw(s);
        s->drawn = token;
        candidates->selected = is_plain ? token : index_of(candidates, token);
        if (token >= 0 && s->processed) write_probabilities(s, candidates);
    }
    if (s->drawn < 0) candidates->selected = likeliest(candidates);
}

static void accept(struct llama_sampler *sampler, int32_t token) {
    shim *s = sampler->ctx;
    if (!s) return;
    const int known = token >= 0 && token < s->request.params.vocab_size;
    if (known && s->request.needs_history) append(s, token, token == s->drawn ? s->note : NAN);
    if (!s->has_drawn) s->prompt_length = s->length;
    s->position++;
    s->drawn = -1;
}

static void reset(struct llama_sampler *sampler) {
    if (sampler->ctx) begin_again(sampler->ctx);
}

static const char *name_of(const struct llama_sampler *sampler) {
    (void)sampler;
    return "engine-sampler";
}

static void free_shim(shim *s) {
    if (!s) return;
    if (s->context) s->api->close(s->context);
    request_end(&s->request);
    free(s->tokens);
    free(s->notes);
    free(s->row);
    free(s->processed);
    free(s);
}

/* llama.cpp frees the sampler itself. */
static void free_context(struct llama_sampler *sampler) {
    free_shim(sampler->ctx);
    sampler->ctx = NULL;
}

static shim *new_shim(const es_llama_params *params, char *why, int64_t why_bytes) {
    shim *s = calloc(1, sizeof *s);
    if (!s) return refuse(why, why_bytes, ES_NO_MEMORY, "no memory for a sampler"), NULL;
    if (request_begin(&s->request, params, why, why_bytes)) return free_shim(s), NULL;
    begin_again(s);
    return s;
}

/* Without memory, a sampler that takes the likeliest candidate: llama.cpp does not expect NULL. */
static struct llama_sampler *clone(const struct llama_sampler *sampler) {
    const shim *from = sampler->ctx;
    shim *s = from ? new_shim(&from->request.params, NULL, 0) : NULL;
    if (s && copy_history(s, from)) {
        free_shim(s);
        s = NULL;
    }
    if (s) s->create = from->create, s->interface = from->interface;
    return from ? from->create(from->interface, s) : NULL;
}

/* From one sampler to another of the same parameters. */
static void copy_state(const struct llama_sampler *from, struct llama_sampler *to) {
    shim *s = to->ctx;
    if (from->ctx && s && from != to && copy_history(s, from->ctx)) begin_again(s);
}

#define FUNCTIONS \
    .name = name_of, .accept = accept, .apply = apply, .reset = reset, .clone = clone, .free = free_context

static struct llama_sampler_i plain_interface = {FUNCTIONS};
static struct llama_sampler_i copying_interface = {FUNCTIONS, .copy_state = copy_state};

static int32_t check_host(const es_llama_host *host, char *why, int64_t why_bytes) {
    const struct {
        const char *name;
        uint32_t given;
        size_t expected;
    } sizes[] = {{"llama_sampler", host->sampler_bytes, sizeof(struct llama_sampler)},
                 {"llama_token_data", host->token_bytes, sizeof(llama_token_data)},
                 {"llama_token_data_array", host->array_bytes, sizeof(llama_token_data_array)}};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (sizes[i].given != sizes[i].expected)
            return refuse(why, why_bytes, ES_INVALID, "%s of llama.h has %u bytes, not %zu", sizes[i].name,
                          sizes[i].given, sizes[i].expected);
    const size_t n = host->interface_bytes / sizeof(void *);
    if (n < FIRST_FUNCTIONS || n > MOST_FUNCTIONS || host->interface_bytes % sizeof(void *))
        return refuse(why, why_bytes, ES_INVALID,
                      "llama_sampler_i of llama.h has %u bytes: %d to %d pointers", host->interface_bytes,
                      FIRST_FUNCTIONS, MOST_FUNCTIONS);
    return ES_OK;
}

struct llama_sampler *es_llama_new(const es_llama_host *host, const es_llama_params *params, char *why,
                                   int64_t why_bytes) {
    if (!host || host->size < sizeof *host || !host->create || !params)
        return refuse(why, why_bytes, ES_INVALID, "an argument is missing"), NULL;
    if (check_host(host, why, why_bytes)) return NULL;
    shim *s = new_shim(params, why, why_bytes);
    if (!s) return NULL;
    const int copies = host->interface_bytes == WITH_COPY_STATE * sizeof(void *);
    s->create = host->create;
    s->interface = copies ? &copying_interface : &plain_interface;
    struct llama_sampler *sampler = prepare(s) == ES_OK ? s->create(s->interface, s) : NULL;
    if (sampler) return sampler;
    refuse(why, why_bytes, ES_NO_MEMORY, "%s", s->error[0] ? s->error : "llama_sampler_init has failed");
    free_shim(s);
    return NULL;
}

uint64_t es_llama_seed(const struct llama_sampler *sampler) {
    const shim *s = sampler->ctx;
    return s ? s->seed : 0;
}

const char *es_llama_error(const struct llama_sampler *sampler) {
    const shim *s = sampler->ctx;
    return s ? s->error : "no memory for this copy of a sampler";
}
