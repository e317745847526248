/* expression.h: regular expressions over bytes, stepped byte by byte.
 *
 * An expression is a number. Equal numbers are equal languages (the reverse need not hold), so that
 * whatever is known of an expression is known wherever it turns up again, in any grammar. A step makes
 * the expression of what may follow a byte (Brzozowski 1964, "Derivatives of regular expressions");
 * steps are made when they are first taken, and remembered.
 *
 * Two kinds look beyond what they match:
 *   guard e f    e, where no prefix of the text from here on is in f: (?!f)e
 *   longest e    e, which is over only where it could not have gone on to a longer match
 * Where such an expression is over, what follows must keep to a guard: a set of forbidden prefixes,
 * itself an expression, EG_EMPTY where all may follow.
 *
 * Lexers bring two more, of which expressions of terminals are never made:
 *   future e     the whole texts, up to their ends, of which e matches some beginning
 *   whole e      as a guard: the text from here on, up to its end, is none of e. It is broken behind a
 *                prefix with which all texts are e's, and where the text ends as one of them
 */
#ifndef ES_GRAMMAR_EXPRESSION_H
#define ES_GRAMMAR_EXPRESSION_H

#include <stdbool.h>

#include "grammar/base.h"

/* Of an entry of a lexer: terminal << EG_ENTRY_BITS, and these; EG_CLOSED: the parser cannot take it. In
 * place of an entry EG_TAKEN, a guard: futures in which an entry tried before has matched or will. */
enum { EG_KEYWORD = 1, EG_IGNORED = 2, EG_CLOSED = 4, EG_ENTRY_BITS = 3, EG_TAKEN = -1 };

enum { EG_EMPTY = 0, EG_EPSILON = 1, EG_ANYTHING = 2 };

typedef struct eg_bytes { /* a set of bytes */
    uint64_t words[4];
} eg_bytes;

static inline bool eg_bytes_has(const eg_bytes *set, int byte) {
    return set->words[byte >> 6] >> (byte & 63) & 1;
}

static inline bool eg_bytes_meet(const eg_bytes *a, const eg_bytes *b) {
    return (a->words[0] & b->words[0]) | (a->words[1] & b->words[1]) | (a->words[2] & b->words[2]) |
           (a->words[3] & b->words[3]);
}

/* The set as 64 bits, a byte being that of its last six bits: sets that have a byte in common have a bit in common. */
static inline uint64_t eg_bytes_fold(const eg_bytes *set) {
    return set->words[0] | set->words[1] | set->words[2] | set->words[3];
}

static inline void eg_bytes_unite(eg_bytes *into, const eg_bytes *more) {
    for (int i = 0; i < 4; i++) into->words[i] |= more->words[i];
}

typedef struct eg_expression {
    uint8_t kind;
    bool nullable;     /* matches the empty string; perhaps only under a guard */
    bool wide;         /* many texts begin it: few literals are not wide, a string or a name is */
    bool over;         /* nothing can follow: it is over for good, if it can be over */
    bool guarded;      /* a guard is at its top, or under a union there */
    bool guards;       /* one is anywhere within */
    bool logical;      /* an intersection, complement or guard is within: it may match nothing */
    uint8_t emptiness; /* 0: not known yet, 1: matches something, 2: nothing */
    int32_t first;     /* number of the set of bytes it can begin with */
    int32_t a, b, c;   /* operands, by kind */
    int32_t *steps;    /* [256] what follows each byte, -1: not known yet; NULL: none is known */
    int32_t bounded;   /* eg_expression_bounded of it for the longest token, -1: not known yet */
    int32_t loose;     /* eg_expression_loose of it, -1: not known yet */
    int32_t size;      /* how many derivatives it has, itself included; INT32_MAX: many, 0: not known yet */
    uint64_t idle;     /* eg_expression_idle of it, UINT64_MAX: not known yet */
} eg_expression;

typedef struct eg_automaton {  /* of an expression that was given as one */
    int32_t count;    /* states */
    int32_t *steps;   /* [count][256] the next state, -1: none */
    uint8_t *accepts; /* [count] */
    uint64_t hash;
} eg_automaton;

typedef struct eg_expressions {
    eg_pool *pool;
    EG_VECTOR(eg_expression) nodes;
    EG_VECTOR(eg_bytes) sets;
    EG_VECTOR(int32_t) lists;   /* members of unions and intersections, one list after the other */
    EG_VECTOR(uint8_t) text;    /* bytes of literals */
    EG_VECTOR(eg_automaton) automata;
    EG_VECTOR(int32_t) scratch; /* a stack of members of what is being made */
    eg_map seen;                /* what a search for an end has come to */
    eg_map lives;               /* (lexer, guard) to what eg_lexer_lives says */
    eg_set by_content, sets_by_content, literals_by_content;
    int32_t longest_token;      /* bytes */
    int depth;                  /* of the recursion under way */
} eg_expressions;

void eg_expressions_open(eg_expressions *x, eg_pool *pool, int32_t longest_token);
void eg_expressions_close(eg_expressions *x);

/* Read a grammar's expressions (the code of engine_sampler.grammar.expression.Encoder): the numbers of
 * its nodes go to `numbers`. Faults ES_GRAMMAR_INVALID for code that is none. Returns how many. */
int32_t eg_expressions_read(eg_expressions *x, const int32_t *code, int64_t length, int32_t *numbers,
                            int64_t room);

/* What may follow `byte` after `e`; EG_EMPTY if nothing can. */
int32_t eg_expression_step(eg_expressions *x, int32_t e, int byte);

static inline const eg_expression *eg_node(const eg_expressions *x, int32_t e) { return &x->nodes.at[e]; }

static inline const eg_bytes *eg_first(const eg_expressions *x, int32_t e) {
    return &x->sets.at[x->nodes.at[e].first];
}

/* eg_expression_step, known ones at once. */
static inline int32_t eg_step(eg_expressions *x, int32_t e, int byte) {
    const eg_expression *node = eg_node(x, e);
    if (node->steps && node->steps[byte] >= 0) return node->steps[byte];
    return eg_bytes_has(&x->sets.at[node->first], byte) ? eg_expression_step(x, e, byte) : EG_EMPTY;
}

/* The guard behind `byte`; -1 where the guard forbids it. */
static inline int32_t eg_guard_step(eg_expressions *x, int32_t guard, int byte) {
    if (guard == EG_EMPTY) return guard;
    const int32_t next = eg_step(x, guard, byte);
    return eg_node(x, next)->nullable ? -1 : next;
}

/* Whether `e` matches nothing at all. */
bool eg_expression_is_empty(eg_expressions *x, int32_t e);

/* A lexer that tries terminals in order: `pairs` are an entry and an expression each. The first that
 * matches at all wins, as far as it can go; where its text is that of one of the keywords right before it
 * in the order, the keyword is what was read. EG_EMPTY where nothing could be read. */
int32_t eg_lexer(eg_expressions *x, const int32_t *pairs, int32_t count);

enum { EG_MAX_ENDINGS = 16, EG_MAX_READINGS = 64 };

typedef struct eg_reading { /* a way in which a lexer is over: an entry, and the guard of what follows */
    int32_t entry, guard;
} eg_reading;

/* The ways in which `e` can be over here, at most EG_MAX_READINGS, in `out`; returns how many. What is no
 * lexer has no entries: they are -1. */
int eg_expression_readings(eg_expressions *x, int32_t e, eg_reading *out);

/* Whether a lexer can go on to some end that `guard` lets pass. */
bool eg_lexer_lives(eg_expressions *x, int32_t e, int32_t guard);

/* Whether it can go on to the end of what is not ignored. */
bool eg_lexer_begins(eg_expressions *x, int32_t e);

/* The guard of what is under both. */
int32_t eg_guard_join(eg_expressions *x, int32_t a, int32_t b);

/* Whether the text must not end under `guard`. */
bool eg_guard_bars_end(const eg_expressions *x, int32_t guard);

int32_t eg_union(eg_expressions *x, int32_t a, int32_t b);
int32_t eg_longest(eg_expressions *x, int32_t e);

/* An expression that no text of at most `bytes` bytes can tell from `e`: counts beyond are dropped. */
int32_t eg_expression_bounded(eg_expressions *x, int32_t e, int32_t bytes);

/* An expression that matches what `e` does and more, and that many others have in common: without what
 * is excluded, or without the end of a long count. `e` itself where there is none. */
int32_t eg_expression_loose(eg_expressions *x, int32_t e);

/* The classes of characters (characters.h) behind each of which `e` is what it was before. */
uint64_t eg_expression_idle(eg_expressions *x, int32_t e);

/* Let eg_expression_loose of `e` be `e` from now on. */
static inline void eg_expression_forget_loose(eg_expressions *x, int32_t e) { x->nodes.at[e].loose = e; }

/* Where `e` is something repeated at least some times, and then one byte that does not begin it: the same
 * repeated any number of times. `e` itself where it is not. */
int32_t eg_expression_open(eg_expressions *x, int32_t e);

/* The bytes behind which `e` can part from `whole`, a looser expression. */
eg_bytes eg_expression_differing(eg_expressions *x, int32_t e, int32_t whole);

/* The guards with which `e` can be over here: at most EG_MAX_ENDINGS numbers in `out`; returns how many,
 * 0 where it cannot. */
int eg_expression_endings(eg_expressions *x, int32_t e, int32_t *out);

#endif
