/* engine_sampler_grammar.h: the grammar engine of our own library.
 *
 * It decides which tokens keep a text inside a language. A grammar (an `es_grammar_program`, made by
 * engine_sampler.grammar) is compiled for a vocabulary. A matcher follows one text under the grammar and
 * gives a bitmask of tokens for each step. The engine runs on the host; no backend needs one.
 *
 * Threads. Every function may be called from any thread. Calls on one vocabulary, its grammars and their
 * matchers are serialized, except that a new grammar is compiled beside them.
 *
 * Lifetimes. A vocabulary outlives its grammars, a grammar its matchers: each `_new` holds a reference to
 * what it was made from until its own `_free`. Inputs are copied.
 *
 * Faults. A function that can fail returns an es_grammar_code, or NULL, and writes a message to the buffer it
 * was given, or to es_matcher_error. A matcher that faulted is left as it was before the call; its owner
 * decides whether to try again or to give up.
 */
#ifndef ENGINE_SAMPLER_GRAMMAR_H
#define ENGINE_SAMPLER_GRAMMAR_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif

/* The text between the two marks is also the host's cffi definition: plain declarations only. */
/* cdef: begin */

typedef enum es_grammar_code {
    ES_GRAMMAR_OK = 0,
    ES_GRAMMAR_INVALID = 1,     /* invalid arguments */
    ES_GRAMMAR_UNSUPPORTED = 2, /* a construct that the engine does not support */
    ES_GRAMMAR_LIMIT = 3,       /* a limit of work or size is reached */
    ES_GRAMMAR_MEMORY = 4,      /* a limit of memory is reached, or memory is exhausted */
    ES_GRAMMAR_EMPTY = 5,       /* a grammar that no text matches */
    ES_GRAMMAR_UNFINISHED = 6   /* the work allowed at a time is used up: call again to continue */
} es_grammar_code;

/* Bits that say what a token is. */
enum { ES_TOKEN_TEXT = 0, ES_TOKEN_SPECIAL = 1, ES_TOKEN_EOS = 2 };

typedef struct es_vocabulary es_vocabulary;
typedef struct es_grammar es_grammar;
typedef struct es_matcher es_matcher;

/* A grammar as arrays of int32; engine_sampler.grammar.program.rules.Program documents their contents. An empty one
 * may be NULL. */
typedef struct es_grammar_program {
    const int32_t *expressions;
    const int32_t *terminals;
    const int32_t *special_starts;
    const int32_t *special_ids;
    const int32_t *rules;
    const int32_t *states;
    const int32_t *edges;
    const int32_t *operations;
    const int32_t *ignore;
    const int32_t *parser;
    const int32_t
        *budgets; /* [terminals][levels]: how many tokens may begin in a terminal, 0: any number; or,
                             * negated, in a part that has begun with another terminal. The levels are those of
                             * parts within each other. Its length is 0 without budgets */
    int64_t expressions_length; /* of the arrays, in int32 */
    int64_t terminals_length;
    int64_t special_starts_length;
    int64_t special_ids_length;
    int64_t rules_length;
    int64_t states_length;
    int64_t edges_length;
    int64_t operations_length;
    int64_t ignore_length;
    int64_t parser_length;
    int64_t budgets_length;
    int32_t start;
} es_grammar_program;

/* What the engine may use. */
typedef struct es_grammar_limits {
    int64_t max_memory; /* bytes of a grammar's own tables; they are rebuilt when it is reached */
    int64_t max_work;   /* steps of one call, some nanoseconds each */
    int64_t max_carried; /* steps of all unfinished calls of one matcher */
} es_grammar_limits;

/* What calls may do at a time. */
typedef struct es_grammar_work {
    int64_t each; /* steps of one call */
    int64_t all;  /* steps of all calls together; each call subtracts its own */
} es_grammar_work;

typedef struct es_grammar_stats {
    int64_t memory;  /* bytes of the grammar's tables */
    int64_t shared;  /* bytes that the vocabulary's grammars share */
    int64_t rows;    /* parser rows, states of the text and masks known so far */
    int64_t states;
    int64_t masks;
    int64_t rebuilt; /* how often the tables were rebuilt */
    int64_t expressions; /* bytes that its calls have added to what is shared */
    int64_t all;     /* bytes of the tables of all the vocabulary's grammars */
} es_grammar_stats;

/* A vocabulary of `count` tokens: the bytes of token i are bytes[offsets[i] .. offsets[i + 1]), its es_token
 * bits are kinds[i]. A special token's bytes are its name, which is not text. NULL if there is no memory.
 * `shared_memory` bounds what its grammars share, in bytes; `grammar_memory` bounds the tables of all of them:
 * beyond it, the largest tables of others than the grammar in use are dropped, and rebuilt when needed. */
es_vocabulary *es_vocabulary_new(const uint8_t *bytes, const int64_t *offsets, const uint8_t *kinds,
                                 int32_t count, int64_t shared_memory, int64_t grammar_memory);
void es_vocabulary_free(es_vocabulary *vocabulary);

/* The bytes of what its grammars share now. */
int64_t es_vocabulary_memory(es_vocabulary *vocabulary);

/* Free what its grammars share; their next calls rebuild what they need of it. */
void es_vocabulary_clear(es_vocabulary *vocabulary);

/* Expressions with which the code of many programs begins: they are read once for all of those. Only the first
 * call for a vocabulary that succeeds has an effect. Returns an es_grammar_code. */
int32_t es_vocabulary_begin(es_vocabulary *vocabulary, const int32_t *expressions, int64_t length);

/* A grammar for a vocabulary; or NULL, with the code in `code` and a message in `error` (`room` bytes). */
es_grammar *es_grammar_new(es_vocabulary *vocabulary, const es_grammar_program *program,
                           const es_grammar_limits *limits, int32_t *code, char *error, int64_t room);
void es_grammar_free(es_grammar *grammar);
void es_grammar_statistics(es_grammar *grammar, es_grammar_stats *out);

/* Of these, `memory` and `expressions` together. */
int64_t es_grammar_weight(es_grammar *grammar);

/* A matcher at the beginning of a text, or a copy of `other`; NULL if there is no memory. */
es_matcher *es_matcher_new(es_grammar *grammar);
es_matcher *es_matcher_fork(es_matcher *other);
void es_matcher_free(es_matcher *matcher);

/* The message of this matcher's last fault, or "". */
const char *es_matcher_error(const es_matcher *matcher);

/* Write the mask of the next token: bit t % 32 of bits[t / 32] is 1 if token t may follow; `words` words are
 * written. Returns an es_grammar_code. */
int32_t es_matcher_fill(es_matcher *matcher, int32_t *bits, int64_t words);

/* es_matcher_fill for `count` matchers: matcher i fills row rows[i] of `bits`, rows being `words` apart, and
 * its es_grammar_code goes to codes[i]. A row that faulted is all 0. Returns how many faulted. With `work`, a
 * call that needs more than is allowed returns ES_GRAMMAR_UNFINISHED: what it has found is kept, and another
 * call continues from there. */
int64_t es_matchers_fill(es_matcher *const *matchers, int64_t count, int32_t *bits, const int64_t *rows,
                         int64_t words, es_grammar_work *work, int32_t *codes);

/* 1 if `token` may follow and is accepted, 0 if not (nothing changes), or a negated es_grammar_code; 2 in place
 * of 1 where the text exceeds the budget of a terminal for the first time. `work` is NULL or as for
 * es_matchers_fill. */
int32_t es_matcher_accept(es_matcher *matcher, int32_t token, es_grammar_work *work);

/* The same for bytes that need not be those of a token. */
int32_t es_matcher_accept_bytes(es_matcher *matcher, const uint8_t *bytes, int64_t length);

/* The masks of a tree of tokens, which a call accepts and takes back: node i is tokens[i] after node parents[i], which
 * is less than i, or after the text for -1. Row 0 of `bits` gets the mask of the next token, row 1 + i that of the
 * token after node i, rows being `words` apart. codes[0 .. count] get an es_grammar_code for each row, or -1 where
 * the text cannot go; such a row, and one that faulted, is all 0. Returns how many faulted. `work` is NULL or as
 * for es_matchers_fill; each node counts as two calls. */
int64_t es_matcher_fill_tree(es_matcher *matcher, const int32_t *tokens, const int32_t *parents,
                             int64_t count, int32_t *bits, int64_t words, es_grammar_work *work,
                             int32_t *codes);

/* How many of `tokens` could be accepted one after the other, or a negated es_grammar_code. */
int64_t es_matcher_validate(es_matcher *matcher, const int32_t *tokens, int64_t count);

/* Undo the last `count` accepts. ES_GRAMMAR_INVALID if there are fewer. */
int32_t es_matcher_rollback(es_matcher *matcher, int64_t count);

/* How many accepts could be undone. */
int64_t es_matcher_length(const es_matcher *matcher);

/* Whether the text so far is in the language; a negated es_grammar_code for a fault. */
int32_t es_matcher_is_accepting(es_matcher *matcher);

/* Whether an EOS token was accepted. */
int32_t es_matcher_is_terminated(const es_matcher *matcher);

/* The bytes that must come next in any case: at most `room`; a negated es_grammar_code for a fault. `work` is as
 * for es_matcher_accept. */
int64_t es_matcher_forced(es_matcher *matcher, uint8_t *out, int64_t room, es_grammar_work *work);

/* The tokens that spell those bytes: always the longest one, stopping where a longer token could extend past
 * the known bytes. At most `room`; a negated es_grammar_code for a fault. `work` is as for
 * es_matcher_accept. */
int64_t es_matcher_forced_tokens(es_matcher *matcher, int32_t *out, int64_t room, es_grammar_work *work);

/* The bytes that may come next: out[b] is 1 if byte b may. Returns an es_grammar_code. `work` is as for
 * es_matcher_accept. */
int32_t es_matcher_next_bytes(es_matcher *matcher, uint8_t *out, es_grammar_work *work);

/* The terminals of an Earley parser that the next byte or special token may belong to: out[t] becomes 1 for those
 * that are being read or may begin, 0 for all others. Returns an es_grammar_code. */
int32_t es_matcher_terminals(es_matcher *matcher, uint8_t *out);

/* cdef: end */

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif

#endif
