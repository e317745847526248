/* Tables made from one request's tokens, kept so that a step costs only what its new tokens cost.
 *
 * A span holds fewer than 2^31 tokens, and their ids are below the vocabulary's size. Nothing here keeps a
 * pointer into a span or into parameters: both may move between calls.
 */
#pragma once

#include "engine_sampler.h"

/* cdef: begin */

/* A request's tokens, the prompt first, and the notes parallel to them (NaN: none). */
typedef struct es_span {
    const int64_t *tokens;
    const double *notes;
    int64_t length, prompt_length;
} es_span;

/* What a penalty counts: the tokens at first .. end - 1 of the span. */
typedef struct es_window {
    int32_t *ids;    /* [n] ascending, without duplicates */
    int32_t *counts; /* [n] how often each occurs */
    int64_t *last;   /* [n] index in the span of its newest occurrence */
    int64_t n, capacity;
    int64_t first, end;
} es_window;

/* Where one token occurs. The list has room for n rounded up to a power of two. */
typedef struct es_places {
    int32_t token, n; /* n 0: no list */
    int64_t start;    /* its indices are pool[start .. start + n), ascending */
} es_places;

/* Where every token occurs: a hash table of lists. */
typedef struct es_index {
    es_places *lists;      /* [slots] */
    int32_t *pool;         /* [capacity], the first `used` in use */
    int64_t slots, tokens; /* tokens: how many distinct ones */
    int64_t capacity, used;
    int64_t end;
} es_index;

/* How far the end of the span repeats what came before. */
typedef struct es_runs {
    /* [end] for each earlier occurrence of the newest token, how many tokens up to it equal the span's last
     * ones. */
    int32_t *run;
    int64_t capacity, end;
} es_runs;

/* The repeats that DRY sees, and the newest breaker. */
typedef struct es_repeats {
    es_runs runs; /* they may stop at the first token of DRY's window and at a breaker of one token */
    int64_t longest_breaker;
    int64_t breaker_place, breaker_end; /* the breaker's tokens; end 0: none so far */
} es_repeats;

typedef struct es_surprise {
    double mu;
    int64_t end;
} es_surprise;

typedef struct es_average {
    double weighted, total;
    int64_t end;
} es_average;

/* One per slot. Zeroed memory is a valid empty history. */
typedef struct es_history {
    uint64_t epoch;
    es_window repeated, counted;
    es_index index;
    es_repeats repeats;
    es_runs grams; /* of the whole span, for long n-grams */
    es_surprise surprise;
    es_average average;
} es_history;

/* Scratch memory of one thread; each array has vocab_size entries. */
typedef struct es_marks {
    int32_t *mark; /* all 0 between calls */
    int32_t *ids;
    int32_t *lengths;
    int64_t vocab_size;
} es_marks;

enum {
    ES_NEED_REPEATED = 1, /* the window of the repetition penalty */
    ES_NEED_COUNTED = 2,  /* the window of frequency and presence */
    ES_NEED_DRY = 4,
    ES_NEED_MU = 8,
    ES_NEED_AVERAGE = 16,
    ES_NEED_INDEX = 32    /* for es_ngram_tokens; ES_NEED_DRY includes it */
};

/* Bring the tables named in `needs` up to date with the span; from scratch if `epoch` is not the one they
 * were made for. Returns 0, or -1 without memory, which leaves the history empty. */
int es_history_sync(es_history *history, uint64_t epoch, const es_span *span, const es_params *params,
                    uint32_t needs);

/* A history, and what it was synchronised with. */
typedef struct es_known_history {
    const es_history *history; /* NULL: none */
    es_span span;
    const es_params *params;
} es_known_history;

/* Begin a history of another epoch with copies of the tables of `known` that hold for it, too, as they do for
 * siblings: if it has the same prompt, and begins with the same tokens. Without memory it begins without them. */
void es_history_begin_as(es_history *history, uint64_t epoch, const es_span *span, const es_params *params,
                         const es_known_history *known);

/* Release the memory, which leaves the history empty. */
void es_history_free(es_history *history);

const es_window *es_history_repeated(const es_history *history);
const es_window *es_history_counted(const es_history *history);

/* Mirostat's mu and adaptive_p's average W/N, after the notes of the output. */
double es_history_mu(const es_history *history);
double es_history_average(const es_history *history);

/* The following functions find tokens, put them into marks->ids, ascending and without duplicates, and return
 * how many. The history must be that of the same span, just synced. */

/* Tokens that DRY penalizes, with the longest repeat of each in marks->lengths. Needs ES_NEED_DRY. */
int64_t es_dry_tokens(const es_history *history, const es_span *span, const es_params *params,
                      es_marks *marks);

/* Tokens that would complete an n-gram that the span contains, n = params->no_repeat_ngram_size; none for
 * n < 1. Needs ES_NEED_INDEX. */
int64_t es_ngram_tokens(const es_history *history, const es_span *span, const es_params *params,
                        es_marks *marks);

/* Tokens that would complete a bad word. */
int64_t es_bad_word_tokens(const es_span *span, const es_params *params, es_marks *marks);

/* cdef: end */
