/* A request's parameters, checked and as the kernels want them. */
#pragma once

#include "es_llama.h"

enum { MOST_OPS = 32 };

/* Steps and breakers of one sampler. `params.values` points into the other members: not to be moved. */
typedef struct request {
    es_llama_params params;
    es_op ops[MOST_OPS];
    es_program program;
    int32_t needs_history;
    int64_t *breakers, *breaker_ends; /* of DRY */
    uint8_t *heads;                   /* [vocab_size] */
} request;

/* Write a message to `why`, unless it is NULL. Returns `code`. */
int32_t refuse(char *why, int64_t why_bytes, int32_t code, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Fill a zeroed request. Returns ES_OK, or ES_INVALID or ES_NO_MEMORY with the reason in `why`. */
int32_t request_begin(request *r, const es_llama_params *params, char *why, int64_t why_bytes);
void request_end(request *r);
