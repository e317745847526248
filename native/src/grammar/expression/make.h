/* The kinds of expressions and their constructors, for the modules behind expression.h. */
#ifndef ES_GRAMMAR_EXPRESSION_MAKE_H
#define ES_GRAMMAR_EXPRESSION_MAKE_H

#include "engine_sampler_grammar.h"
#include "grammar/expression/expression.h"

enum {
    LITERAL,
    CLASS,
    CONCAT,
    UNION,
    BOTH,
    NOT,
    REPEAT,
    GUARD,
    AUTOMATON,
    LONGEST,
    LEXER,
    LEXED,
    FUTURE,
    WHOLE
};

/* Operands, by kind:
 *   LITERAL        a: offset in `text`, b: length (2 or more; one byte is a CLASS, none EG_EPSILON)
 *   CLASS          a: number of the set
 *   CONCAT         a, b: the first part and the rest
 *   UNION, BOTH    a: offset in `lists`, b: how many members; they ascend
 *   NOT, LONGEST   a: operand
 *   REPEAT         a: operand, b: at least, c: at most (-1: unbounded)
 *   GUARD          a: operand, b: what is forbidden
 *   AUTOMATON      a: number of the automaton, b: state
 *   LEXER          a: offset in `lists`, b: how many numbers, in pairs of an entry and an expression
 *   LEXED          the same for a lexer that has ended: it could only continue to what cannot be read
 *   FUTURE, WHOLE  a: operand */

enum { WIDE_CLASS = 32, WIDE_LOOP = 2 }; /* bytes */
enum { LONG_LITERAL = 256 }; /* bytes; a longer one becomes parts, so that a step does not depend on it */
enum { MAX_DEPTH = 4000, MAX_AUTOMATON_STATES = 1 << 16, MAX_LOOKS = 64, LONG = 12 };

/* Count a level of recursion and a step of work; the caller decrements the level again. */
void eg_enter(eg_expressions *x);

int32_t eg_make_intern_set(eg_expressions *x, const eg_bytes *set);
int32_t eg_make_intern(eg_expressions *x, int kind, int32_t a, int32_t b, int32_t c);
int32_t eg_make_intern_list(eg_expressions *x, int kind, const int32_t *members, int32_t count);
int32_t eg_make_single(eg_expressions *x, int byte);

/* The number of an automaton equal to `a`, or -1. */
int32_t eg_make_find_automaton(const eg_expressions *x, const eg_automaton *a);

/* Sort the members on `scratch` from `base` on, and drop duplicates. */
void eg_make_sort_members(eg_expressions *x, int32_t base);

/* The literal of `length` bytes at `at` in `text`. */
int32_t eg_make_literal(eg_expressions *x, int32_t at, int32_t length);

/* Push an expression on `scratch` as a member of a union or intersection; if it is one itself, push its
 * members. */
void eg_push_member(eg_expressions *x, int kind, int32_t e);

/* If many members on `scratch` from `base` on have counts: make one of those that differ in one count only. They
 * ascend, before and after. */
void eg_make_merge_counts(eg_expressions *x, int32_t base);

/* The union, or intersection, of the members on `scratch` from `base` on, which are popped. */
int32_t eg_make_union(eg_expressions *x, int32_t base);
int32_t eg_make_both(eg_expressions *x, int32_t base);

int32_t eg_make_concat(eg_expressions *x, int32_t a, int32_t b);
int32_t eg_make_negation(eg_expressions *x, int32_t e);
int32_t eg_make_repeat(eg_expressions *x, int32_t e, int32_t low, int32_t high);
int32_t eg_make_guard(eg_expressions *x, int32_t e, int32_t forbidden);
int32_t eg_make_future(eg_expressions *x, int32_t e);
int32_t eg_make_whole(eg_expressions *x, int32_t e);
int32_t eg_intersection(eg_expressions *x, int32_t a, int32_t b);

/* The number of the classes of bytes by which the derivatives of `e` are equal, perhaps finer than needed. */
int32_t eg_make_classes(eg_expressions *x, int32_t e);
void eg_make_first_classes(eg_expressions *x);

enum { EG_ONE_CLASS = 0, EG_ALL_CLASSES = 1 };

/* The derivative of `e` by `byte`, remembered. If it is empty, it may not be recognized as such. */
int32_t eg_make_derivative(eg_expressions *x, int32_t e, int byte);

/* The intersection `n`, without guards, with its counts dropped: as often as one likes in place of so many
 * times. `counts` receives what was dropped. */
typedef struct eg_counts {
    int32_t least;  /* the smallest upper bound; EG_FAR: there is none */
    int32_t low;    /* the greatest lower bound; 0: there is none */
    int32_t number; /* how many counts there are */
    bool exact;     /* whatever is counted is a code (eg_is_code) */
} eg_counts;

/* The expression `e` whose last part, if it is repeated, may be repeated beyond an upper bound above `most` and
 * need not be repeated more than `least` times. */
int32_t eg_make_widened(eg_expressions *x, int32_t e, int32_t most, int32_t least);

int32_t eg_make_uncounted(eg_expressions *x, const eg_expression *n, eg_counts *counts);

/* How far a match of the intersection `e`, which has no guards, may be away. */
eg_reach eg_reach_of(eg_expressions *x, int32_t e);

typedef void eg_visit(eg_expressions *x, int32_t e, void *to);

/* Call `visit` with each alternative of `e`: expressions of which it is the union, and of which none is, or begins
 * with, a union of more than words. It is the only one itself if it has no others, or a look-ahead. */
void eg_visit_alternatives(eg_expressions *x, int32_t e, eg_visit *visit, void *to);
bool eg_has_alternatives(eg_expressions *x, int32_t e);

/* Whether no text of `e` begins with another one or is empty: how often it occurs in a row is then unique. */
bool eg_is_code(eg_expressions *x, int32_t e);

/* The derivative of the lexer `n` by `byte`. */
int32_t eg_make_lexer_step(eg_expressions *x, const eg_expression *n, int byte);

/* The lexer of the entries on `scratch` from `base` on, which are popped. */
int32_t eg_make_lexer(eg_expressions *x, int32_t base);

/* Whether an entry of a lexer is neither a keyword nor EG_TAKEN. */
static inline bool eg_is_own(int32_t entry) { return entry != EG_TAKEN && !(entry & EG_KEYWORD); }

#endif
