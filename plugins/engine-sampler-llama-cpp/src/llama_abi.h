/* What the interface of llama.cpp's samplers is made of: restated from the facts of llama.h, so that this
 * library is compiled without it. Programs tell the sizes of theirs (es_llama_host). */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct llama_sampler_i;

struct llama_sampler {
    struct llama_sampler_i *iface;
    void *ctx;
};

typedef struct llama_token_data {
    int32_t id;
    float logit;
    float p;
} llama_token_data;

typedef struct llama_token_data_array {
    llama_token_data *data;
    size_t size;
    int64_t selected; /* an index of `data` */
    bool sorted;
} llama_token_data_array;

/* The first six functions have been the same in all releases. Of the later ones, which sample on a device,
 * the last is known in a structure of twelve. What a future release adds at the end is NULL. */
struct llama_sampler_i {
    const char *(*name)(const struct llama_sampler *sampler);
    void (*accept)(struct llama_sampler *sampler, int32_t token);
    void (*apply)(struct llama_sampler *sampler, llama_token_data_array *candidates);
    void (*reset)(struct llama_sampler *sampler);
    struct llama_sampler *(*clone)(const struct llama_sampler *sampler);
    void (*free)(struct llama_sampler *sampler);
    void (*backend[5])(void);
    void (*copy_state)(const struct llama_sampler *from, struct llama_sampler *to);
    void (*later[20])(void);
};

enum { FIRST_FUNCTIONS = 6, WITH_COPY_STATE = 12, MOST_FUNCTIONS = 32 };
