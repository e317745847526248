/* From parameters to a program of the kernels. */
#include "request.h"

#include <stdlib.h>
#include <string.h>

#include "fields.h"

enum { XTC_STREAM = 0x11ee31ce }; /* engine_sampler.arithmetic.stream_of("xtc") */

static const double GREEDY_BELOW = 1e-4;

typedef struct sampler {
    const char *name;
    int32_t kind; /* es_op_kind */
    uint32_t stream;
    int32_t is_penalty;
} sampler;

/* In the order named "llama.cpp". */
static const sampler SAMPLERS[] = {
    {"penalties", ES_OP_PENALTIES, 0, 1},
    {"no_repeat_ngram", ES_OP_NO_REPEAT_NGRAM, 0, 1},
    {"dry", ES_OP_DRY, 0, 1},
    {"top_n_sigma", ES_OP_TOP_N_SIGMA, 0, 0},
    {"top_k", ES_OP_TOP_K, 0, 0},
    {"top_a", ES_OP_TOP_A, 0, 0},
    {"tfs", ES_OP_TFS, 0, 0},
    {"typical_p", ES_OP_TYPICAL_P, 0, 0},
    {"top_p", ES_OP_TOP_P, 0, 0},
    {"min_p", ES_OP_MIN_P, 0, 0},
    {"min_k", ES_OP_MIN_K, 0, 0},
    {"p_less", ES_OP_P_LESS, 0, 0},
    {"epsilon_cutoff", ES_OP_EPSILON_CUTOFF, 0, 0},
    {"eta_cutoff", ES_OP_ETA_CUTOFF, 0, 0},
    {"top_h", ES_OP_TOP_H, 0, 0},
    {"xtc", ES_OP_XTC, XTC_STREAM, 0},
    {"smoothing", ES_OP_SMOOTHING, 0, 0},
    {"temperature", ES_OP_TEMPERATURE, 0, 0},
};
enum { N_SAMPLERS = sizeof SAMPLERS / sizeof *SAMPLERS };

/* --- which samplers, and in which order --- */

static int is_active(const es_llama_params *params, int32_t kind) {
    const es_params *p = &params->values;
    switch (kind) {
    case ES_OP_PENALTIES: return p->repetition_reach != 0 || p->counting_reach != 0;
    case ES_OP_NO_REPEAT_NGRAM: return p->no_repeat_ngram_size != 0;
    case ES_OP_DRY: return p->dry_multiplier > 0 && p->dry_penalty_last_n != 0;
    case ES_OP_TOP_N_SIGMA: return p->top_n_sigma > 0;
    case ES_OP_TOP_K: return p->top_k > 0;
    case ES_OP_TOP_A: return p->top_a != 0;
    case ES_OP_TFS: return p->tfs != 1;
    case ES_OP_TYPICAL_P: return p->typical_p != 1;
    case ES_OP_TOP_P: return p->top_p != 1;
    case ES_OP_MIN_P: return p->min_p != 0;
    case ES_OP_MIN_K: return params->min_k;
    case ES_OP_P_LESS: return params->p_less || p->p_less_norm;
    case ES_OP_EPSILON_CUTOFF: return p->epsilon_cutoff != 0;
    case ES_OP_ETA_CUTOFF: return p->eta_cutoff != 0;
    case ES_OP_TOP_H: return p->top_h != 0;
    case ES_OP_XTC: return p->xtc_probability > 0 && p->xtc_threshold <= 0.5;
    case ES_OP_SMOOTHING: return p->smoothing_factor != 0;
    case ES_OP_TEMPERATURE: return p->temperature != 1 || p->dynatemp_range > 0;
    default: return 0;
    }
}

/* Read `order` as indices of SAMPLERS. Returns how many, or -1 with the reason in `why`. */
static int32_t read_order(const char *order, int32_t *out, char *why, int64_t why_bytes) {
    char copy[ES_LLAMA_TEXT], *rest = NULL;
    int32_t n = 0;
    if (!strcmp(order, "llama.cpp")) {
        for (; n < N_SAMPLERS; n++) out[n] = n;
        return n;
    }
    strcpy(copy, order);
    for (char *name = strtok_r(copy, ",", &rest); name; name = strtok_r(NULL, ",", &rest)) {
        int32_t i = 0;
        while (i < N_SAMPLERS && strcmp(SAMPLERS[i].name, name)) i++;
        for (int32_t j = 0; j < n; j++)
            if (out[j] == i) {
                refuse(why, why_bytes, ES_INVALID, "order names \"%.60s\" twice", name);
                return -1;
            }
        if (i == N_SAMPLERS) {
            refuse(why, why_bytes, ES_INVALID, "order names \"%.60s\", which is not a sampler", name);
            return -1;
        }
        out[n++] = i;
    }
    return n;
}

static int32_t selector_of(const es_llama_params *params) {
    if (params->values.temperature < GREEDY_BELOW) return ES_OP_GREEDY;
    if (params->mirostat) return params->mirostat == 1 ? ES_OP_MIROSTAT : ES_OP_MIROSTAT_V2;
    return params->values.adaptive_target >= 0 ? ES_OP_ADAPTIVE_P : ES_OP_DIST;
}

static void append_op(request *r, int32_t kind, uint32_t stream, const char *name) {
    r->ops[r->program.n_ops++] = (es_op){
        .size = (uint32_t)sizeof(es_op), .kind = kind, .stream = stream, .name = name};
}

/* The chain, as engine_sampler's `build_chain` makes it. */
static int32_t build_program(request *r, char *why, int64_t why_bytes) {
    const es_llama_params *p = &r->params;
    const int32_t selector = selector_of(&r->params);
    const int takes_warps = selector != ES_OP_MIROSTAT && selector != ES_OP_MIROSTAT_V2;
    int32_t order[N_SAMPLERS];
    const int32_t n = read_order(r->params.order, order, why, why_bytes);
    if (n < 0) return ES_INVALID;
    for (int32_t i = 0; i < N_SAMPLERS; i++) {
        int32_t j = 0;
        while (j < n && order[j] != i) j++;
        if (j == n && is_active(p, SAMPLERS[i].kind))
            return refuse(why, why_bytes, ES_INVALID, "order omits %s, which the parameters turn on",
                          SAMPLERS[i].name);
    }
    r->program = (es_program){.size = (uint32_t)sizeof(es_program), .ops = r->ops};
    for (int32_t i = 0; i < n; i++) {
        const sampler *s = &SAMPLERS[order[i]];
        if (!is_active(p, s->kind) || !(takes_warps || s->is_penalty || s->kind == ES_OP_TEMPERATURE))
            continue;
        append_op(r, s->kind, s->stream, s->name);
        r->needs_history |= s->is_penalty;
        if (s->kind == ES_OP_TEMPERATURE && selector == ES_OP_GREEDY) break;
    }
    append_op(r, selector, 0, "selector");
    r->needs_history |= selector != ES_OP_GREEDY && selector != ES_OP_DIST;
    return ES_OK;
}

/* A window of full penalties, and the tokens behind it of which the penalty is not yet 0. */
static int64_t with_fading(const es_params *p, int64_t reach) {
    return p->penalty_decay_range > 0 && reach >= 0 ? reach + p->penalty_decay_range - 1 : reach;
}

static void set_reaches(es_llama_params *params) {
    es_params *p = &params->values;
    const int64_t last_n = params->penalty_last_n, own = params->repetition_penalty_range;
    const int64_t reach = own == -2 ? last_n : own;
    if (reach <= 0) p->repetition_penalty_slope = 0;
    const int64_t repeated = p->repetition_penalty_slope != 0 ? reach : with_fading(p, reach);
    p->repetition_reach = p->repetition_penalty != 1 ? repeated : 0;
    const int counts = p->frequency_penalty != 0 || p->presence_penalty != 0;
    p->counting_reach = counts ? with_fading(p, last_n) : 0;
    p->repetition_output_only = params->penalty_scope == ES_LLAMA_OUTPUT;
    p->counting_output_only = params->penalty_scope != ES_LLAMA_ALL;
}

/* --- DRY's breakers --- */

typedef struct span {
    int64_t start, length;
    const int64_t *tokens;
} span;

/* By the first token, the longest first, then by the rest: equal ones become neighbours. */
static int compare_spans(const void *a, const void *b) {
    const span *x = a, *y = b;
    const int64_t *s = x->tokens + x->start, *t = y->tokens + y->start;
    if (s[0] != t[0]) return s[0] < t[0] ? -1 : 1;
    if (x->length != y->length) return x->length > y->length ? -1 : 1;
    for (int64_t i = 1; i < x->length; i++)
        if (s[i] != t[i]) return s[i] < t[i] ? -1 : 1;
    return 0;
}

/* Read the ids of the text into `tokens` and the sequences into `spans`. Returns how many, or -1. */
static int32_t read_breakers(const es_llama_params *params, int64_t *tokens, span *spans) {
    const char *text = params->dry_sequence_breakers;
    int32_t n = 0;
    for (int64_t used = 0, start = 0; *text;) {
        char *end;
        const long long id = *text >= '0' && *text <= '9' ? strtoll(text, &end, 10) : -1;
        if (id < 0 || id >= params->vocab_size) return -1;
        tokens[used++] = id;
        if (*end != ',') {
            spans[n++] = (span){start, used - start, tokens};
            start = used;
        }
        if (*end && *end != ',' && *end != ';') return -1;
        text = end + (*end != '\0');
        if (!*text && *end) return -1;
    }
    return n;
}

static int32_t resolve_breakers(request *r, char *why, int64_t why_bytes) {
    es_llama_params *params = &r->params;
    int64_t tokens[ES_LLAMA_TEXT / 2];
    span spans[ES_LLAMA_TEXT / 2];
    const int32_t n = read_breakers(params, tokens, spans);
    if (n < 0)
        return refuse(why, why_bytes, ES_INVALID,
                      "dry_sequence_breakers=%.60s is not allowed: ids below %d, "
                      "with commas between them, and semicolons between sequences",
                      params->dry_sequence_breakers, params->vocab_size);
    if (!n) return ES_OK;
    r->breakers = malloc(sizeof tokens);
    r->breaker_ends = malloc((size_t)n * sizeof *r->breaker_ends);
    r->heads = calloc((size_t)params->vocab_size, 1);
    if (!r->breakers || !r->breaker_ends || !r->heads)
        return refuse(why, why_bytes, ES_NO_MEMORY, "no memory for the breakers");
    qsort(spans, (size_t)n, sizeof *spans, compare_spans);
    int64_t used = 0, kept = 0;
    for (int32_t i = 0; i < n; i++) {
        const int64_t *s = tokens + spans[i].start;
        r->heads[s[0]] |= spans[i].length == 1 ? 3 : 1;
        if (i && !compare_spans(&spans[i - 1], &spans[i])) continue;
        memcpy(r->breakers + used, s, (size_t)spans[i].length * sizeof *s);
        r->breaker_ends[kept++] = used += spans[i].length;
    }
    params->values.breakers = (es_sequences){r->breakers, r->breaker_ends, kept};
    params->values.breaker_heads = r->heads;
    return ES_OK;
}

/* --- a whole request --- */

/* What a program may not set: ids, texts, and what goes with them. */
static void clear_pointers(es_params *p) {
    const es_ids none = {NULL, 0};
    p->penalty_exempt = p->allowed_token_ids = p->eos_token_ids = none;
    p->ending_token_ids = p->biased_token_ids = p->text_end_token_ids = none;
    p->bad_words = p->breakers = (es_sequences){NULL, NULL, 0};
    p->biases = NULL;
    p->breaker_heads = p->text = NULL;
    p->text_ends = NULL;
    p->forced_end = 0;
    p->min_tokens = 0;
}

int32_t request_begin(request *r, const es_llama_params *params, char *why, int64_t why_bytes) {
    if (check_params(params, why, why_bytes)) return ES_INVALID;
    r->params = *params;
    clear_pointers(&r->params.values);
    set_reaches(&r->params);
    const int32_t code = build_program(r, why, why_bytes);
    return code ? code : resolve_breakers(r, why, why_bytes);
}

void request_end(request *r) {
    free(r->breakers);
    free(r->breaker_ends);
    free(r->heads);
}
