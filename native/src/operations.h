/* Every operation of a program in one table: its kind, what runs it, its class, and the tables it needs.
 *
 * One line adds a kernel: programs are checked and run by this table, and the fuzzer draws from it. The
 * compiler warns (-Wswitch-enum) if a kind of the header is missing here.
 */
#pragma once

#include <stddef.h>

#include "engine_sampler.h"
#include "tables/history.h"

typedef enum es_class {
    ES_UNKNOWN,    /* not an operation */
    ES_EDIT,       /* changes single tokens, in a row of any form */
    ES_RESHAPE,    /* sees the row as a whole: a short one is sorted first */
    ES_SELECT,     /* draws a token, and leaves a long row as it was */
    ES_SELECT_LAST /* draws a token from what it has made of the row */
} es_class;

/* DO(kind, function, class, needs); the functions are int32_t (es_state *) and return an es_row_status. */
#define ES_OPERATIONS(DO)                                                             \
    DO(ES_OP_FUNCTION, apply_function, ES_EDIT, 0)                                    \
    DO(ES_OP_ALLOWED_TOKEN_IDS, apply_allowed_token_ids, ES_EDIT, 0)                  \
    DO(ES_OP_BAD_WORDS, apply_bad_words, ES_EDIT, 0)                                  \
    DO(ES_OP_IGNORE_EOS, apply_ignore_eos, ES_EDIT, 0)                                \
    DO(ES_OP_MIN_TOKENS, apply_min_tokens, ES_EDIT, 0)                                \
    DO(ES_OP_LOGIT_BIAS, apply_logit_bias, ES_EDIT, 0)                                \
    DO(ES_OP_PENALTIES, apply_penalties, ES_EDIT, ES_NEED_REPEATED | ES_NEED_COUNTED) \
    DO(ES_OP_NO_REPEAT_NGRAM, apply_no_repeat_ngram, ES_EDIT, ES_NEED_INDEX)          \
    DO(ES_OP_DRY, apply_dry, ES_EDIT, ES_NEED_DRY)                                    \
    DO(ES_OP_TOP_N_SIGMA, apply_top_n_sigma, ES_RESHAPE, 0)                           \
    DO(ES_OP_TOP_K, apply_top_k, ES_RESHAPE, 0)                                       \
    DO(ES_OP_TOP_A, apply_top_a, ES_RESHAPE, 0)                                       \
    DO(ES_OP_TFS, apply_tfs, ES_RESHAPE, 0)                                           \
    DO(ES_OP_TYPICAL_P, apply_typical_p, ES_RESHAPE, 0)                               \
    DO(ES_OP_TOP_P, apply_top_p, ES_RESHAPE, 0)                                       \
    DO(ES_OP_MIN_P, apply_min_p, ES_RESHAPE, 0)                                       \
    DO(ES_OP_EPSILON_CUTOFF, apply_epsilon_cutoff, ES_RESHAPE, 0)                     \
    DO(ES_OP_ETA_CUTOFF, apply_eta_cutoff, ES_RESHAPE, 0)                             \
    DO(ES_OP_TOP_H, apply_top_h, ES_RESHAPE, 0)                                       \
    DO(ES_OP_XTC, apply_xtc, ES_RESHAPE, 0)                                           \
    DO(ES_OP_SMOOTHING, apply_smoothing, ES_RESHAPE, 0)                               \
    DO(ES_OP_TEMPERATURE, apply_temperature, ES_RESHAPE, 0)                           \
    DO(ES_OP_INFILL, apply_infill, ES_RESHAPE, 0)                                     \
    DO(ES_OP_P_LESS, apply_p_less, ES_RESHAPE, 0)                                     \
    DO(ES_OP_MIN_K, apply_min_k, ES_RESHAPE, 0)                                       \
    DO(ES_OP_GREEDY, choose_greedy, ES_SELECT, 0)                                     \
    DO(ES_OP_DIST, choose_dist, ES_SELECT, 0)                                         \
    DO(ES_OP_MIROSTAT, choose_mirostat, ES_SELECT_LAST, ES_NEED_MU)                   \
    DO(ES_OP_MIROSTAT_V2, choose_mirostat_v2, ES_SELECT_LAST, ES_NEED_MU)             \
    DO(ES_OP_ADAPTIVE_P, choose_adaptive_p, ES_SELECT_LAST, ES_NEED_AVERAGE)

typedef struct es_operation {
    es_class class;
    uint32_t needs; /* ES_NEED_* */
} es_operation;

static inline es_operation es_operation_of(int32_t kind) {
#define ES_ENTRY(KIND, function, class, needs) [KIND] = {class, needs},
    static const es_operation table[] = {ES_OPERATIONS(ES_ENTRY)};
#undef ES_ENTRY
    const es_operation unknown = {ES_UNKNOWN, 0};
    return kind >= 0 && (size_t)kind < sizeof table / sizeof *table ? table[kind] : unknown;
}

static inline int es_is_selector(int32_t kind) {
    const es_class class = es_operation_of(kind).class;
    return class == ES_SELECT || class == ES_SELECT_LAST;
}

static inline int es_is_sampler(int32_t kind) {
    const es_class class = es_operation_of(kind).class;
    return class == ES_EDIT || class == ES_RESHAPE;
}
