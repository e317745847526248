/* engine_sampler_topk_topp.h: top-k, top-p and a draw from rows of probabilities, as a node of a graph.
 *
 * What a runtime of graphs asks of an operator: create it from its parameters, infer the shapes of its outputs, set it up
 * for shapes, which tells the workspace, and execute it, which allocates nothing. It keeps and draws what
 * `engine_sampler_mindie.atb.TopkToppSampling` does in the mode "documented", on the host.
 */
#ifndef ENGINE_SAMPLER_TOPK_TOPP_H
#define ENGINE_SAMPLER_TOPK_TOPP_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif

/* The text between the two marks is also the host's cffi definition: plain declarations only. */
/* cdef: begin */

/* What a function returns. `es_topk_topp_error` says more. */
typedef enum es_topk_topp_status {
    ES_TOPK_TOPP_OK = 0,
    ES_TOPK_TOPP_INVALID =
        1, /* a parameter, a tensor or an order of calls that is not allowed; nothing is written */
    ES_TOPK_TOPP_NO_MEMORY = 2
} es_topk_topp_status;

/* The types of sampling, with their inputs in order. All draw from the tokens kept by top-k, then top-p. */
typedef enum es_topk_topp_type {
    ES_SINGLE_TOPK_SAMPLING = 0,                  /* probs, topp; rand_seed and topk of the parameters */
    ES_BATCH_TOPK_MULTINOMIAL_SAMPLING = 1,       /* probs, topk, topp; rand_seeds of the parameters */
    ES_BATCH_TOPK_EXPONENTIAL_SAMPLING = 2,       /* probs, topk, topp, exp */
    ES_BATCH_TOPK_MULTINOMIAL_LOGPROBS_SAMPLING = 3, /* probs, topk, topp, rand */
    ES_BATCH_TOPK_EXPONENTIAL_LOGPROBS_SAMPLING = 4  /* probs, topk, topp, exp */
} es_topk_topp_type;

typedef struct es_topk_topp_param {
    int32_t type; /* es_topk_topp_type */
    uint32_t rand_seed;
    uint32_t topk;
    int32_t log_probs_size;     /* of the LOGPROBS types: 0 to 16384, and at most the vocabulary */
    const uint32_t *rand_seeds; /* [rand_seed_count], one for each row; copied */
    int64_t rand_seed_count;
} es_topk_topp_param;

typedef enum es_topk_topp_dtype {
    ES_TOPK_TOPP_FLOAT16 = 0,
    ES_TOPK_TOPP_BFLOAT16 = 1,
    ES_TOPK_TOPP_FLOAT32 = 2,
    ES_TOPK_TOPP_INT32 = 3
} es_topk_topp_dtype;

/* A matrix in the host's memory, row after row without gaps. */
typedef struct es_topk_topp_tensor {
    int32_t dtype; /* es_topk_topp_dtype */
    int64_t shape[2];
    void *data; /* NULL for `infer` and `setup`, which read shapes alone */
} es_topk_topp_tensor;

typedef struct es_topk_topp es_topk_topp;

/* Make an operator, which is used by one thread at a time. For INVALID parameters, too: it then only tells why, and is
 * destroyed as any other. */
int32_t es_topk_topp_create(const es_topk_topp_param *param, es_topk_topp **made);

/* Take other parameters; `setup` must follow. */
int32_t es_topk_topp_set_param(es_topk_topp *op, const es_topk_topp_param *param);

/* How many inputs and outputs the type has. */
int32_t es_topk_topp_input_count(const es_topk_topp *op);
int32_t es_topk_topp_output_count(const es_topk_topp *op);

/* Fill in dtypes and shapes of the outputs: sampled_indices int32 [rows, 1]; sampled_probs [rows, 1] in the dtype of
 * probs; and for the LOGPROBS types logprobs float32 [rows, log_probs_size]. Inputs:
 *   probs [rows, vocabulary] float16 or bfloat16, at least [1, 1];
 *   topp  [rows, 1] in the dtype of probs, for SINGLE also [1, 1];
 *   topk  [rows, 1] int32 or float16;
 *   exp   [rows, vocabulary] in the dtype of probs;
 *   rand  [rows, 1] float32. */
int32_t es_topk_topp_infer(es_topk_topp *op, const es_topk_topp_tensor *inputs, int32_t input_count,
                           es_topk_topp_tensor *outputs, int32_t output_count);

/* Get ready for tensors of these dtypes and shapes, and tell how many bytes of workspace `execute` needs. */
int32_t es_topk_topp_setup(es_topk_topp *op, const es_topk_topp_tensor *inputs, int32_t input_count,
                           const es_topk_topp_tensor *outputs, int32_t output_count,
                           uint64_t *workspace_size);

/* Draw a token for each row. The tensors have the dtypes and shapes of the last `setup`. A row with a wrong value
 * (probabilities that are not from 0 to 1, or all 0; topp beyond 0 to 1; topk beyond 1 to the vocabulary, or not whole;
 * noise that is negative, infinite or NaN; rand beyond 0 to 1) gets the index -1, the probability 0 and logprobs of
 * -9999, which is what logprobs have where no token is kept. A wrong topp for all rows is INVALID. */
int32_t es_topk_topp_execute(es_topk_topp *op, const es_topk_topp_tensor *inputs, int32_t input_count,
                             const es_topk_topp_tensor *outputs, int32_t output_count, void *workspace,
                             uint64_t workspace_size);

/* Why the last call did not return OK: a sentence, empty if it did. It holds until the next call. */
const char *es_topk_topp_error(const es_topk_topp *op);

void es_topk_topp_destroy(es_topk_topp *op); /* NULL is allowed */

/* cdef: end */

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif
#endif
