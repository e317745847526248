/* A node of a graph: created once, set up for two shapes, executed several times, as a runtime does it. It prints the
 * tokens of each execution, and the errors of calls that are wrong. */
#include "engine_sampler_topk_topp.h"

#include <stdio.h>
#include <stdlib.h>

enum { VOCAB = 70, MOST_ROWS = 3 };

static void check(int condition, const char *what) {
    if (condition) return;
    fprintf(stderr, "%s\n", what);
    exit(1);
}

static es_topk_topp_tensor tensor_of(int32_t dtype, int64_t rows, int64_t columns, void *data) {
    return (es_topk_topp_tensor){dtype, {rows, columns}, data};
}

/* Rows of float16 numbers from 2^-14 up, which grow with the id. */
static void fill(uint16_t *probs, int64_t rows) {
    for (int64_t row = 0; row < rows; row++)
        for (int i = 0; i < VOCAB; i++)
            probs[row * VOCAB + i] = (uint16_t)(1024 + 100 * ((i + 7 * row) % VOCAB));
}

static void execute(es_topk_topp *op, int64_t rows) {
    uint16_t *const probs = malloc((size_t)rows * VOCAB * sizeof *probs);
    uint16_t topp[MOST_ROWS], chosen[MOST_ROWS];
    int32_t topk[MOST_ROWS], indices[MOST_ROWS];
    uint64_t size;
    fill(probs, rows);
    for (int64_t row = 0; row < rows; row++) {
        topp[row] = 0x3800; /* 0.5 */
        topk[row] = (int32_t)(20 + row);
    }
    const es_topk_topp_tensor inputs[3] = {
        tensor_of(ES_TOPK_TOPP_FLOAT16, rows, VOCAB, probs),
        tensor_of(ES_TOPK_TOPP_INT32, rows, 1, topk),
        tensor_of(ES_TOPK_TOPP_FLOAT16, rows, 1, topp),
    };
    es_topk_topp_tensor outputs[2] = {{0}};
    check(!es_topk_topp_infer(op, inputs, 3, outputs, 2), es_topk_topp_error(op));
    check(outputs[0].dtype == ES_TOPK_TOPP_INT32 && outputs[0].shape[0] == rows, "the indices' shape");
    check(outputs[1].dtype == ES_TOPK_TOPP_FLOAT16 && outputs[1].shape[1] == 1, "the probabilities' shape");
    check(!es_topk_topp_setup(op, inputs, 3, outputs, 2, &size), es_topk_topp_error(op));
    char *const workspace = malloc(size);
    check(es_topk_topp_execute(op, inputs, 3, outputs, 2, workspace, size), "outputs without data");
    printf("%s\n", es_topk_topp_error(op));
    outputs[0].data = indices;
    outputs[1].data = chosen;
    check(es_topk_topp_execute(op, inputs, 3, outputs, 2, workspace, size - 1),
          "a workspace that is too small");
    for (int i = 0; i < 3; i++) {
        check(!es_topk_topp_execute(op, inputs, 3, outputs, 2, workspace, size), es_topk_topp_error(op));
        for (int64_t row = 0; row < rows; row++) {
            check(chosen[row] == probs[row * VOCAB + indices[row]], "the chosen probability");
            if (i == 0) printf("%d ", (int)indices[row]);
        }
    }
    printf("\n");
    free(workspace);
    free(probs);
}

int main(void) {
    const uint32_t seeds[MOST_ROWS] = {7, 8, 9};
    es_topk_topp_param param = {
        .type = ES_BATCH_TOPK_MULTINOMIAL_SAMPLING, .rand_seeds = seeds, .rand_seed_count = 2};
    es_topk_topp *op = NULL;
    check(!es_topk_topp_create(&param, &op), "create");
    execute(op, 2);
    param.rand_seed_count = 3;
    check(!es_topk_topp_set_param(op, &param), es_topk_topp_error(op));
    execute(op, 3);
    param.type = 9;
    check(es_topk_topp_set_param(op, &param), "a type that does not exist");
    printf("%s\n", es_topk_topp_error(op));
    es_topk_topp_destroy(op);
    check(es_topk_topp_create(NULL, &op), "no parameters");
    printf("%s\n", es_topk_topp_error(op));
    es_topk_topp_destroy(op);
    es_topk_topp_destroy(NULL);
    return 0;
}
