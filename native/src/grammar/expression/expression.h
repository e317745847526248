/* Regular expressions over bytes, matched by derivatives.
 *
 * An expression is a number. Equal numbers mean equal languages (the converse need not hold), so whatever is
 * known about an expression holds wherever it occurs again, in any grammar. A step computes the derivative by
 * a byte, the expression of what may follow it (Brzozowski 1964, "Derivatives of regular expressions"). Steps
 * are computed on first use and remembered.
 *
 * Two kinds look beyond what they match:
 *   guard e f    e, if no prefix of the text from here on is in f: (?!f)e
 *   longest e    e, which ends only where it could not have continued to a longer match
 * Where such an expression ends, what follows must satisfy a guard: a set of forbidden prefixes, itself an
 * expression; EG_EMPTY if anything may follow.
 *
 * Lexers add two more kinds, which never occur in terminals:
 *   future e     the whole texts, up to their end, that have a prefix in e
 *   whole e      as a guard: the text from here on, up to its end, is not in e. It is violated after a prefix
 *                all of whose continuations are in e, and where the text ends as a member of e
 */
#pragma once

#include "grammar/base/bytes.h"
#include "grammar/base/tables.h"

/* An entry of a lexer is terminal << EG_ENTRY_BITS plus these flags; EG_CLOSED: the parser cannot accept it.
 * EG_TAKEN in place of an entry marks a guard: the futures in which an earlier entry has matched or will
 * match. */
enum { EG_KEYWORD = 1, EG_IGNORED = 2, EG_CLOSED = 4, EG_ENTRY_BITS = 3, EG_TAKEN = -1 };

enum { EG_EMPTY = 0, EG_EPSILON = 1, EG_ANYTHING = 2 };

/* The kinds of expressions (kinds.h), and the operands of each. Programs contain those up to EG_AUTOMATON. */
typedef enum eg_kind_number {
    EG_LITERAL,   /* text, length: of 2 bytes or more; one byte is a class, none EG_EPSILON */
    EG_CLASS,     /* set */
    EG_CONCAT,    /* head, tail */
    EG_UNION,     /* members, count: ascending */
    EG_BOTH,      /* the same: the intersection */
    EG_NOT,       /* of */
    EG_REPEAT,    /* of, low, high: -1 for any number */
    EG_GUARD,     /* of, forbidden */
    EG_AUTOMATON, /* automaton, state */
    EG_LONGEST,   /* of */
    EG_LEXER,     /* members, count: in pairs of an entry and an expression */
    EG_LEXED,     /* the same for a lexer that has ended: it could only continue to what cannot be read */
    EG_FUTURE,    /* of */
    EG_WHOLE      /* of */
} eg_kind_number;

typedef struct eg_expression {
    uint8_t kind;       /* an eg_kind_number */
    bool nullable;      /* matches the empty string, perhaps only under a guard */
    bool wide;          /* begins many texts: a string or a name does, a few literals do not */
    bool over;          /* nothing can follow: wherever it ends, it ends for good */
    bool guarded;       /* a guard is at its top, or under a union there */
    bool guards;        /* a guard is anywhere within */
    bool logical;       /* an intersection, complement or guard is within: it may match nothing */
    uint8_t emptiness;  /* 0: not known yet, 1: matches something, 2: matches nothing */
    uint8_t code;       /* its eg_is_code: 0: not known yet, 1: yes, 2: no */
    int32_t first;      /* number of the set of bytes it can begin with */
    union {            /* the operands, with names by kind */
        int32_t operands[3];
        struct {
            union {
                int32_t text, set, head, of, members, automaton;
            };
            union {
                int32_t length, tail, low, forbidden, count, state;
            };
            int32_t high;
        };
    };
    int32_t *steps;     /* [256] derivative by each byte, -1: not known yet; NULL: none is known */
    int32_t bounded;    /* its eg_expression_bounded for the longest token, -1: not known yet */
    int32_t looser;     /* its eg_expression_looser, -1: not known yet */
    int32_t classes;    /* its eg_classes_of, -1: not known yet */
    int32_t reach;      /* its eg_reach_of, -1: not known yet */
    int32_t visit;      /* its place in the last search that came to it */
    int32_t steady;     /* its first place in `steadies`, -1: not known yet */
    uint64_t unchanged; /* its eg_expression_unchanged_after, UINT64_MAX: not known yet */
} eg_expression;

/* An expression that was given as an automaton. */
typedef struct eg_automaton {
    int32_t count;    /* number of states */
    int32_t *steps;   /* [count][256] the next state, -1: none */
    uint8_t *accepts; /* [count] */
    uint64_t hash;
} eg_automaton;

/* Classes of bytes that an expression does not distinguish: for each byte the smallest one of its class. */
typedef struct eg_classes {
    uint8_t of[256];
} eg_classes;

/* How much may be missing to a match: bytes, or where only one part of an intersection ends with something
 * repeated, how often that is. EG_FAR: it is out of reach, or not known to be within reach. */
typedef struct eg_reach {
    int32_t end;      /* to the nearest match */
    int32_t loop;     /* to the nearest match on whose way some byte can be repeated without any change */
    int32_t far_end;  /* at least the greatest `end` of all derivatives that match anything ... */
    int32_t far_loop; /* ... and the greatest `loop` of them */
    bool exact;       /* all of them are counted in what is repeated */
} eg_reach;

enum { EG_FAR = INT32_MAX / 2 };

/* An alternative of an expression that begins with something repeated (steady.c). */
typedef struct eg_steady {
    uint64_t classes;    /* of the characters each of which is what is repeated */
    int32_t alternative; /* all of whose members begin so */
    int32_t most;        /* with how many of them they may begin */
    int32_t proven;      /* after up to this many of them, something is left */
    int32_t refuted;     /* after as many or more, nothing is left */
    bool over;           /* nothing follows it: what is left should not be empty */
    bool last;           /* it is the last one of its expression */
} eg_steady;

/* A derivative that a search has visited. */
typedef struct eg_visited {
    int32_t expression;
    int32_t from; /* the place of that whose derivative it is, -1: none; or the first of its `edges` */
    int32_t end, loop;
    int32_t cost; /* what its derivatives are closer to a match */
    bool loops;   /* one of them is itself, and any number of these may be inserted */
} eg_visited;

typedef struct eg_expressions {
    eg_pool *pool;
    EG_VECTOR(eg_expression) nodes;
    EG_VECTOR(eg_bytes) sets;
    EG_VECTOR(int32_t) lists;      /* members of unions and intersections, one list after the other */
    EG_VECTOR(uint8_t) text;       /* bytes of literals */
    EG_VECTOR(eg_automaton) automata;
    EG_VECTOR(int32_t) scratch;    /* a stack of members for constructions in progress */
    EG_VECTOR(eg_visited) visited; /* a stack: by searches in progress */
    EG_VECTOR(int32_t) edges;      /* a stack of their derivatives, one list after the other */
    EG_VECTOR(eg_classes) classes;
    EG_VECTOR(eg_reach) reaches;
    EG_VECTOR(eg_steady) steadies;
    EG_VECTOR(uint64_t) singles;   /* results of eg_expression_single_characters ... */
    eg_map single;                 /* ... by expression */
    eg_map class_meets;            /* two numbers of classes to those that refine both */
    eg_map goes_on;                /* (expression, guard) to the result of eg_can_go_on */
    eg_map derived;                /* (expression, byte) to the result of eg_derive_once */
    eg_set by_content, sets_by_content, literals_by_content, classes_by_content;
    int64_t known_steps;           /* how many derivatives are remembered */
    int32_t longest_token;         /* bytes */
    int vain_explorations;         /* explorations (eg_reach_of) without a result, less those with one */
    int vain_searches;             /* the same for searches (eg_expression_is_empty) */
    int depth;                     /* of the current recursion */
} eg_expressions;

void eg_expressions_open(eg_expressions *x, eg_pool *pool, int32_t longest_token);

/* Make `x`, which may have been in use with the same pool, a copy of `from`, of which no derivative is
 * known. */
void eg_expressions_copy(eg_expressions *x, eg_pool *pool, const eg_expressions *from);

/* Discard the unfinished work of a call that faulted. */
static inline void eg_expressions_reset(eg_expressions *x) {
    x->scratch.count = x->visited.count = x->edges.count = 0;
    x->depth = 0;
}

/* How much of a grammar's code has been read. */
typedef struct eg_reading_place {
    int64_t at;
    int32_t count; /* of nodes so far */
} eg_reading_place;

/* Read a grammar's expressions (the code of engine_sampler.grammar.program.expression.Encoder) from some
 * place on, and write the numbers of these nodes to `numbers`, behind those of the nodes before. Faults with
 * ES_GRAMMAR_INVALID for malformed code. Returns how many nodes there are. */
int32_t eg_expressions_read(eg_expressions *x, const int32_t *code, int64_t length, eg_reading_place from,
                            int32_t *numbers, int64_t room);

/* Expressions that are copied from one table to another, some at a time. */
typedef struct eg_import {
    const eg_expressions *from;
    const struct eg_import *before; /* of those that `from` begins with, to the same table; or NULL */
    int32_t *numbers;               /* of those copied, in the other table */
    uint8_t *needed;                /* which are to be copied */
    int32_t first;                  /* those before it are known, ... */
    int32_t next;                   /* ... those before this are done */
    bool is_marked;                 /* what the needed ones consist of is needed, too */
} eg_import;

/* False if there is no memory. Nothing may be added to `from` until the end. `before` is complete when
 * expressions are copied. */
bool eg_import_open(eg_import *i, const eg_expressions *from, const eg_import *before);
void eg_import_close(eg_import *i);

/* Begin again, for another table. */
void eg_import_restart(eg_import *i);

/* Have the expression `e` copied; nothing if it is negative. */
void eg_import_need(eg_import *i, int32_t e);

/* Copy up to `most` more expressions to the table `to`; returns whether all are done. */
bool eg_import_some(eg_import *i, eg_expressions *to, int32_t most);

/* The number of the expression `e` in the other table; a negative one stays as it is. */
int32_t eg_import_number(const eg_import *i, int32_t e);

/* The derivative of `e` by `byte`; EG_EMPTY if nothing can follow. */
int32_t eg_expression_step(eg_expressions *x, int32_t e, int byte);

static inline const eg_expression *eg_node(const eg_expressions *x, int32_t e) { return &x->nodes.at[e]; }

static inline const eg_bytes *eg_first(const eg_expressions *x, int32_t e) {
    return &x->sets.at[x->nodes.at[e].first];
}

/* eg_expression_step, with a fast path for known steps. */
static inline int32_t eg_step(eg_expressions *x, int32_t e, int byte) {
    const eg_expression *node = eg_node(x, e);
    if (node->steps && node->steps[byte] >= 0) return node->steps[byte];
    return eg_bytes_has(&x->sets.at[node->first], byte) ? eg_expression_step(x, e, byte) : EG_EMPTY;
}

/* The guard after `byte`; -1 if the guard forbids it. */
static inline int32_t eg_guard_step(eg_expressions *x, int32_t guard, int byte) {
    if (guard == EG_EMPTY) return guard;
    const int32_t next = eg_step(x, guard, byte);
    return eg_node(x, next)->nullable ? -1 : next;
}

/* Whether `e` matches nothing at all. */
bool eg_expression_is_empty(eg_expressions *x, int32_t e);

/* A lexer that tries terminals in order: `pairs` holds an entry and an expression each. The first one that
 * matches at all wins, with its longest match. If the matched text is also that of a keyword listed right
 * before the terminal, the keyword is what was read. EG_EMPTY if nothing could be read. */
int32_t eg_lexer_of(eg_expressions *x, const int32_t *pairs, int32_t count);

enum { EG_MAX_ENDINGS = 16, EG_MAX_READINGS = 64 };

/* One way in which a lexer can end: an entry, and the guard of what follows. */
typedef struct eg_reading {
    int32_t entry, guard;
} eg_reading;

/* The ways in which `e` can end here, at most EG_MAX_READINGS, in `out`; returns how many. An expression
 * that is not a lexer has no entries: they are -1. */
int eg_expression_readings(eg_expressions *x, int32_t e, eg_reading *out);

/* Whether `e`, which can continue without `guard`, can do so to some end that `guard` allows. */
bool eg_can_go_on(eg_expressions *x, int32_t e, int32_t guard);

/* Whether `e` is a lexer of which that is true. */
bool eg_lexer_can_go_on(eg_expressions *x, int32_t e, int32_t guard);

/* Whether it can continue to the end of a terminal that is not ignored. */
bool eg_lexer_can_read(eg_expressions *x, int32_t e);

/* The guard that combines both. */
int32_t eg_guard_join(eg_expressions *x, int32_t a, int32_t b);

/* Whether `guard` forbids the text to end. */
bool eg_guard_bars_end(const eg_expressions *x, int32_t guard);

int32_t eg_union(eg_expressions *x, int32_t a, int32_t b);
int32_t eg_longest(eg_expressions *x, int32_t e);

/* An expression that no text of at most `bytes` bytes can distinguish from `e`: larger counts are dropped. */
int32_t eg_expression_bounded(eg_expressions *x, int32_t e, int32_t bytes);

/* An expression that matches what `e` does and more, and that many others share: without what is excluded,
 * or without the end of a long count. `e` itself if there is none. */
int32_t eg_expression_looser(eg_expressions *x, int32_t e);

/* The classes of characters (characters.h) after each of which `e` is unchanged. */
uint64_t eg_expression_unchanged_after(eg_expressions *x, int32_t e);

/* The classes of characters each of which by itself is a match of `e`, after which nothing else of it
 * follows. */
uint64_t eg_expression_single_characters(eg_expressions *x, int32_t e);

/* Whether after any up to `count` characters of these classes `e` can be continued. False may mean that it
 * is not known. */
bool eg_expression_outlasts(eg_expressions *x, int32_t e, uint64_t classes, int32_t count);

/* Whether `e` counts the characters that it begins with, and so is changed by each. */
bool eg_expression_counts_characters(eg_expressions *x, int32_t e);

/* Make eg_expression_looser of `e` return `e` from now on. */
static inline void eg_expression_forget_looser(eg_expressions *x, int32_t e) { x->nodes.at[e].looser = e; }

/* If `e` is something repeated at least some number of times, followed by one byte that does not begin it:
 * the same with any number of repetitions. Otherwise `e` itself. */
int32_t eg_expression_without_minimum(eg_expressions *x, int32_t e);

/* The bytes by which the derivatives of `e` can differ from those of `whole`, a looser expression. */
eg_bytes eg_expression_differing_bytes(eg_expressions *x, int32_t e, int32_t whole);

/* The guards with which `e` can end here: at most EG_MAX_ENDINGS numbers in `out`. Returns how many, 0 if it
 * cannot end. */
int eg_expression_endings(eg_expressions *x, int32_t e, int32_t *out);
