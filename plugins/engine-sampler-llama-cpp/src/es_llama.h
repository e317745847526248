/* es_llama.h: engine_sampler's whole chain as one sampler of llama.cpp, the last element of a chain.
 *
 *     #include <llama.h>
 *     #include <es_llama.h>
 *
 *     es_llama_params params;
 *     es_llama_neutral(&params, llama_vocab_n_tokens(vocab));
 *     char why[256];
 *     if (es_llama_read(&params, "temperature=0.8 top_k=40 min_p=0.05 seed=7", why, sizeof why)) …
 *     struct llama_sampler *sampler = engine_sampler_llama(&params, why, sizeof why);
 *     llama_sampler_chain_add(chain, sampler);
 *
 * The token of a row is that of the Python package: the same logits, parameters, seed and position give the
 * same token. The position is the number of tokens accepted so far. Tokens accepted before the first one is
 * drawn, or since `llama_sampler_reset`, are the prompt.
 *
 * Candidates that earlier samplers of the chain have removed, sorted or changed are taken as they are. The
 * sampler sets `selected`; where a row is faulty (NaN, nothing left) or memory is short, to the likeliest
 * candidate that is a number, and `es_llama_error` says why.
 */
#ifndef ENGINE_SAMPLER_LLAMA_H
#define ENGINE_SAMPLER_LLAMA_H

#include <engine_sampler.h>

#ifdef __cplusplus
extern "C" {
#endif

struct llama_sampler;
struct llama_sampler_i;

enum { ES_LLAMA_TEXT = 1024 };

/* Which tokens the penalties see: as engine_sampler's `penalty_scope`. */
typedef enum es_llama_scope {
    ES_LLAMA_ALL = 0,     /* prompt and output, as in llama.cpp */
    ES_LLAMA_DEFAULT = 1, /* repetition: prompt and output; frequency and presence: output */
    ES_LLAMA_OUTPUT = 2
} es_llama_scope;

/* Parameters; names, meanings and bounds are those of engine_sampler's SamplingParams. Begin with
 * es_llama_neutral. */
typedef struct es_llama_params {
    uint32_t size;
    int32_t vocab_size;
    es_params values; /* its numbers; pointers and the reaches of penalties are set by the library */
    int64_t penalty_last_n;           /* newest tokens that penalties see; -1 all, 0 none */
    int64_t repetition_penalty_range; /* the same for repetition alone; -2: penalty_last_n */
    int64_t history;                  /* tokens kept at most; the older half is dropped then */
    uint64_t seed;
    int32_t has_seed;                 /* 0: a random one */
    int32_t penalty_scope;            /* es_llama_scope */
    int32_t mirostat;                 /* 0 off, 1, 2 */
    int32_t p_less;                   /* 1: on; values.p_less_norm alone turns it on, too */
    int32_t min_k;                    /* 1: on */
    int32_t probabilities;            /* 1: `logit` and `p` of the candidates become those drawn from */
    /* "llama.cpp", or names of samplers with commas between them, each at most once. */
    char order[ES_LLAMA_TEXT];
    /* Token ids with commas between them, sequences with semicolons: "13;198,198". "" none. */
    char dry_sequence_breakers[ES_LLAMA_TEXT];
} es_llama_params;

/* Facts about the llama.h that a program was compiled with. `engine_sampler_llama` states them. */
typedef struct es_llama_host {
    uint32_t size;
    uint32_t sampler_bytes, interface_bytes, token_bytes, array_bytes;
    struct llama_sampler *(*create)(struct llama_sampler_i *interface, void *context);
} es_llama_host;

/* All parameters neutral: the token is drawn from the softmax. Of `bytes`, which a program was compiled with,
 * nothing beyond is written; the other functions refuse parameters of another size. */
ES_EXPORT void es_llama_begin(es_llama_params *params, uint32_t bytes, int32_t vocab_size);

static inline void es_llama_neutral(es_llama_params *params, int32_t vocab_size) {
    es_llama_begin(params, (uint32_t)sizeof *params, vocab_size);
}

/* Set parameters from "key=value" pairs with white space between them, whatever the locale. Returns ES_OK,
 * or ES_INVALID with the reason in `why`; `params` are unchanged then. */
ES_EXPORT int32_t es_llama_read(es_llama_params *params, const char *text, char *why, int64_t why_bytes);

/* A new sampler; NULL with the reason in `why` if the parameters or the host's llama.h do not fit. `params`
 * are copied. */
ES_EXPORT struct llama_sampler *es_llama_new(const es_llama_host *host, const es_llama_params *params,
                                             char *why, int64_t why_bytes);

/* The seed in use, and why the last row was faulty ("" if it was not); for samplers of es_llama_new. */
ES_EXPORT uint64_t es_llama_seed(const struct llama_sampler *sampler);
ES_EXPORT const char *es_llama_error(const struct llama_sampler *sampler);

#ifdef LLAMA_API
static inline struct llama_sampler *engine_sampler_llama(const es_llama_params *params, char *why,
                                                         int64_t why_bytes) {
    es_llama_host host;
    host.size = (uint32_t)sizeof host;
    host.sampler_bytes = (uint32_t)sizeof(struct llama_sampler);
    host.interface_bytes = (uint32_t)sizeof(struct llama_sampler_i);
    host.token_bytes = (uint32_t)sizeof(llama_token_data);
    host.array_bytes = (uint32_t)sizeof(llama_token_data_array);
    host.create = llama_sampler_init;
    return es_llama_new(&host, params, why, why_bytes);
}
#endif

#ifdef __cplusplus
}
#endif
#endif
