/* The table of parameters. */
#pragma once

#include "request.h"

enum { MOST_TOKENS = 1 << 24 };

typedef enum field_kind { FIELD_REAL, FIELD_WHOLE, FIELD_CHOICE, FIELD_TEXT } field_kind;

/* One parameter: a double, an int64_t, an int32_t that numbers one of `choices`, or a text. */
typedef struct field {
    const char *name;
    size_t offset; /* in es_llama_params */
    field_kind kind;
    double neutral, low, high;
    const char *const *choices; /* NULL at the end */
} field;

/* Returns ES_OK, or ES_INVALID with the reason in `why`. */
int32_t check_params(const es_llama_params *params, char *why, int64_t why_bytes);
