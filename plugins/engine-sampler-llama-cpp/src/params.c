/* Parameters by name: their bounds, and how they are read from text. */
#include <errno.h>
#include <float.h>
#include <locale.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fields.h"

int32_t refuse(char *why, int64_t why_bytes, int32_t code, const char *format, ...) {
    if (!why || why_bytes < 1) return code;
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(why, (size_t)why_bytes, format, arguments);
    va_end(arguments);
    return code;
}

#define OWN(name) #name, offsetof(es_llama_params, name)
#define VALUE(name) #name, offsetof(es_llama_params, values) + offsetof(es_params, name)

static const double MOST = DBL_MAX, COUNT = 2147483647.0;

static const char *const SCOPES[] = {"all", "default", "output", NULL};
static const char *const TOP_P_CUTS[] = {"reach", "exceed", "below", NULL};
static const char *const TFS_CUTS[] = {"llama.cpp", "koboldai", NULL};
static const char *const SWITCHES[] = {"0", "1", NULL};
static const char *const VERSIONS[] = {"0", "1", "2", NULL};

#define REAL(where, neutral, low, high) {where, FIELD_REAL, neutral, low, high, NULL}
#define WHOLE(where, neutral, low) {where, FIELD_WHOLE, neutral, low, COUNT, NULL}
#define CHOICE(where, names) {where, FIELD_CHOICE, 0, 0, 0, names}
#define TEXT(where) {where, FIELD_TEXT, 0, 0, 0, NULL}

static const field FIELDS[] = {
    REAL(VALUE(temperature), 1, 0, 1e6),
    REAL(VALUE(dynatemp_range), 0, 0, 1e6),
    REAL(VALUE(dynatemp_exponent), 1, -100, 100),
    REAL(VALUE(smoothing_factor), 0, 0, 1e6),
    REAL(VALUE(smoothing_curve), 1, 1, 1e6),
    WHOLE(VALUE(top_k), 0, -1),
    REAL(VALUE(top_p), 1, 0, 1),
    CHOICE(VALUE(top_p_cut), TOP_P_CUTS),
    REAL(VALUE(min_p), 0, 0, 1),
    REAL(VALUE(typical_p), 1, 0, 1),
    REAL(VALUE(tfs), 1, 0, 1),
    CHOICE(VALUE(tfs_cut), TFS_CUTS),
    REAL(VALUE(top_a), 0, 0, MOST),
    REAL(VALUE(top_h), 0, 0, 1),
    REAL(VALUE(top_n_sigma), 0, -MOST, MOST),
    CHOICE(OWN(p_less), SWITCHES),
    CHOICE(VALUE(p_less_norm), SWITCHES),
    CHOICE(OWN(min_k), SWITCHES),
    REAL(VALUE(min_k_tau), 3, 0, MOST),
    REAL(VALUE(epsilon_cutoff), 0, 0, 1),
    REAL(VALUE(eta_cutoff), 0, 0, 1),
    REAL(VALUE(xtc_probability), 0, 0, 1),
    REAL(VALUE(xtc_threshold), 0.1, 0, 1),
    WHOLE(VALUE(min_keep), 0, 0),
    REAL(VALUE(repetition_penalty), 1, DBL_TRUE_MIN, MOST),
    WHOLE(OWN(repetition_penalty_range), -2, -2),
    REAL(VALUE(repetition_penalty_slope), 0, 0, MOST),
    REAL(VALUE(frequency_penalty), 0, -MOST, MOST),
    REAL(VALUE(presence_penalty), 0, -MOST, MOST),
    WHOLE(OWN(penalty_last_n), -1, -1),
    WHOLE(VALUE(penalty_decay_range), 0, 0),
    CHOICE(OWN(penalty_scope), SCOPES),
    WHOLE(VALUE(no_repeat_ngram_size), 0, 0),
    REAL(VALUE(dry_multiplier), 0, 0, MOST),
    REAL(VALUE(dry_base), 1.75, 1, MOST),
    WHOLE(VALUE(dry_allowed_length), 2, 0),
    WHOLE(VALUE(dry_penalty_last_n), -1, -1),
    TEXT(OWN(dry_sequence_breakers)),
    CHOICE(OWN(mirostat), VERSIONS),
    REAL(VALUE(mirostat_tau), 5, 0, 1e6),
    REAL(VALUE(mirostat_eta), 0.1, 0, 1e6),
    REAL(VALUE(adaptive_target), -1, -1, 1),
    REAL(VALUE(adaptive_decay), 0.9, 0, 0.99),
    WHOLE(OWN(history), 1 << 20, 2),
    CHOICE(OWN(probabilities), SWITCHES),
    TEXT(OWN(order)),
    {NULL, 0, FIELD_TEXT, 0, 0, 0, NULL},
};

static void *place_of(const es_llama_params *params, const field *f) { return (char *)params + f->offset; }

void es_llama_begin(es_llama_params *params, uint32_t bytes, int32_t vocab_size) {
    es_llama_params neutral = {.size = bytes, .vocab_size = vocab_size, .order = "llama.cpp"};
    neutral.values.size = (uint32_t)sizeof neutral.values;
    for (const field *f = FIELDS; f->name; f++)
        if (f->kind == FIELD_REAL) *(double *)place_of(&neutral, f) = f->neutral;
        else if (f->kind == FIELD_WHOLE) *(int64_t *)place_of(&neutral, f) = (int64_t)f->neutral;
    memcpy(params, &neutral, bytes < sizeof neutral ? bytes : sizeof neutral);
}

/* --- bounds --- */

static int32_t choices_of(const field *f) {
    int32_t n = 0;
    while (f->choices[n]) n++;
    return n;
}

/* "a, b, c", cut where `out` ends. */
static void list_choices(const field *f, char *out, size_t bytes) {
    size_t used = 0;
    out[0] = '\0';
    for (int32_t i = 0; f->choices[i] && used < bytes; i++)
        used += (size_t)snprintf(out + used, bytes - used, "%s%s", i ? ", " : "", f->choices[i]);
}

static int32_t check_field(const es_llama_params *params, const field *f, char *why, int64_t why_bytes) {
    const void *place = place_of(params, f);
    char names[100];
    if (f->kind == FIELD_TEXT && !memchr(place, '\0', ES_LLAMA_TEXT))
        return refuse(why, why_bytes, ES_INVALID, "%s is longer than %d bytes", f->name, ES_LLAMA_TEXT - 1);
    if (f->kind == FIELD_CHOICE) {
        const int32_t given = *(const int32_t *)place;
        if (given >= 0 && given < choices_of(f)) return ES_OK;
        list_choices(f, names, sizeof names);
        return refuse(why, why_bytes, ES_INVALID, "%s number %d is not allowed: one of %s", f->name, given,
                      names);
    }
    if (f->kind == FIELD_TEXT) return ES_OK;
    const double given = f->kind == FIELD_REAL ? *(const double *)place : (double)*(const int64_t *)place;
    if (given >= f->low && given <= f->high) return ES_OK;
    if (f->low <= -MOST) return refuse(why, why_bytes, ES_INVALID, "%s=%g is not finite", f->name, given);
    if (f->high >= MOST)
        return refuse(why, why_bytes, ES_INVALID, "%s=%g is not allowed: finite, at least %g", f->name, given,
                      f->low);
    return refuse(why, why_bytes, ES_INVALID, "%s=%.17g is not allowed: from %g to %.10g", f->name, given,
                  f->low, f->high);
}

int32_t check_params(const es_llama_params *params, char *why, int64_t why_bytes) {
    if (params->size != sizeof *params || params->values.size != sizeof params->values)
        return refuse(why, why_bytes, ES_INVALID, "es_llama_params of %u bytes, this library's have %zu",
                      params->size, sizeof *params);
    if (params->vocab_size < 1 || params->vocab_size > MOST_TOKENS)
        return refuse(why, why_bytes, ES_INVALID, "vocab_size=%d is not allowed: from 1 to %d",
                      params->vocab_size, MOST_TOKENS);
    for (const field *f = FIELDS; f->name; f++)
        if (check_field(params, f, why, why_bytes)) return ES_INVALID;
    if (params->mirostat && params->values.adaptive_target >= 0)
        return refuse(why, why_bytes, ES_INVALID, "mirostat=%d and adaptive_target=%g: one of them only",
                      params->mirostat, params->values.adaptive_target);
    return ES_OK;
}

/* --- text --- */

static int32_t read_seed(es_llama_params *params, const char *value) {
    char *end;
    params->has_seed = strcmp(value, "-1") != 0;
    params->seed = 0;
    if (!params->has_seed) return ES_OK;
    errno = 0;
    params->seed = strtoull(value, &end, 10);
    return *value < '0' || *value > '9' || *end || errno ? ES_INVALID : ES_OK;
}

static int32_t read_value(es_llama_params *params, const field *f, const char *value) {
    void *place = place_of(params, f);
    char *end = NULL;
    switch (f->kind) {
    case FIELD_REAL: *(double *)place = strtod(value, &end); return end == value || *end;
    case FIELD_WHOLE: *(int64_t *)place = strtoll(value, &end, 10); return end == value || *end;
    case FIELD_TEXT:
        if (strlen(value) >= ES_LLAMA_TEXT) return ES_INVALID;
        strcpy(place, value);
        return ES_OK;
    case FIELD_CHOICE:
        for (int32_t i = 0; f->choices[i]; i++)
            if (!strcmp(value, f->choices[i])) {
                *(int32_t *)place = i;
                return ES_OK;
            }
        return ES_INVALID;
    }
    return ES_INVALID;
}

static int32_t read_pair(es_llama_params *params, char *pair, char *why, int64_t why_bytes) {
    static const char *const EXPECTED[] = {"a number", "a whole number", "one of ", "a shorter text"};
    char *value = strchr(pair, '=');
    char names[100] = "";
    if (!value) return refuse(why, why_bytes, ES_INVALID, "\"%.60s\" has no \"=\"", pair);
    *value++ = '\0';
    if (!strcmp(pair, "seed"))
        return read_seed(params, value)
                   ? refuse(why, why_bytes, ES_INVALID,
                            "seed=%.60s is not allowed: from 0 to 2^64 - 1, or -1", value)
                   : ES_OK;
    const field *f = FIELDS;
    while (f->name && strcmp(f->name, pair)) f++;
    if (!f->name) return refuse(why, why_bytes, ES_INVALID, "unknown parameter \"%.60s\"", pair);
    if (!read_value(params, f, value)) return check_field(params, f, why, why_bytes);
    if (f->kind == FIELD_CHOICE) list_choices(f, names, sizeof names);
    return refuse(why, why_bytes, ES_INVALID, "%s=%.60s is not allowed: %s%s", f->name, value,
                  EXPECTED[f->kind], names);
}

int32_t es_llama_read(es_llama_params *params, const char *text, char *why, int64_t why_bytes) {
    if (!params || !text || params->size != sizeof *params)
        return refuse(why, why_bytes, ES_INVALID, "es_llama_params of another size, or a missing argument");
    const size_t length = strlen(text);
    if (length >= 8 * ES_LLAMA_TEXT)
        return refuse(why, why_bytes, ES_INVALID, "a text of %zu bytes: at most %d", length,
                      8 * ES_LLAMA_TEXT - 1);
    char copy[8 * ES_LLAMA_TEXT], *rest = NULL;
    memcpy(copy, text, length + 1);
    es_llama_params read = *params;
    const locale_t plain = newlocale(LC_NUMERIC_MASK, "C", (locale_t)0);
    if (!plain) return refuse(why, why_bytes, ES_NO_MEMORY, "no memory for a locale");
    const locale_t before = uselocale(plain);
    int32_t code = ES_OK;
    for (char *pair = strtok_r(copy, " \t\r\n", &rest); pair && !code;
         pair = strtok_r(NULL, " \t\r\n", &rest))
        code = read_pair(&read, pair, why, why_bytes);
    uselocale(before);
    freelocale(plain);
    if (!code) *params = read;
    return code;
}
