/* Constructors and properties of expressions, for the modules behind expression.h. */
#pragma once

#include "engine_sampler_grammar.h"
#include "grammar/expression/expression.h"

/* Count a level of recursion and a step of work. */
void eg_enter(eg_expressions *x);
static inline void eg_leave(eg_expressions *x) { x->depth--; }

/* A member of a list. */
static inline int32_t eg_member(const eg_expressions *x, const eg_expression *n, int32_t i) {
    return x->lists.at[n->members + i];
}

int32_t eg_intern_set(eg_expressions *x, const eg_bytes *set);
/* A node of which nothing but its operands is known, and the number of one of which everything is. */
eg_expression eg_blank_node(eg_kind_number kind, int32_t a, int32_t b, int32_t c);
int32_t eg_intern(eg_expressions *x, eg_kind_number kind, int32_t a, int32_t b, int32_t c);
int32_t eg_intern_list(eg_expressions *x, eg_kind_number kind, const int32_t *members, int32_t count);
int32_t eg_make_byte(eg_expressions *x, int byte);

/* Determine the properties of a new node from those of its operands. */
void eg_describe(eg_expressions *x, eg_expression *n);

/* The number of an automaton equal to `a`, or -1. */
int32_t eg_find_automaton(const eg_expressions *x, const eg_automaton *a);

/* Sort the members on `scratch` from `base` on, and drop duplicates. */
void eg_sort_members(eg_expressions *x, int32_t base);

/* The literal of `length` bytes at `at` in `text`. */
int32_t eg_make_literal(eg_expressions *x, int32_t at, int32_t length);

/* Push an expression on `scratch` as a member of a union or intersection; if it is one itself, push its
 * members. */
void eg_push_member(eg_expressions *x, eg_kind_number kind, int32_t e);

/* If many members on `scratch` from `base` on have counts: make one of those that differ in one count only.
 * They ascend, before and after. */
void eg_merge_counts(eg_expressions *x, int32_t base);

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
int32_t eg_classes_of(eg_expressions *x, int32_t e);
void eg_open_classes(eg_expressions *x);

enum { EG_ONE_CLASS = 0, EG_ALL_CLASSES = 1 };

/* The classes of bytes that are equal in `values`, or in and outside of a set; that refine both `a` and `b`;
 * and those of all members of a list. */
int32_t eg_classes_by_value(eg_expressions *x, const int32_t *values);
int32_t eg_classes_of_set(eg_expressions *x, const eg_bytes *set);
int32_t eg_meet_classes(eg_expressions *x, int32_t a, int32_t b);
int32_t eg_classes_of_members(eg_expressions *x, const eg_expression *n);

/* The derivative of `e` by `byte`. If it is empty, it may not be recognized as such. */
int32_t eg_derive(eg_expressions *x, int32_t e, int byte);

/* The same, remembered: the next list has many of the same members, and an unfinished call must find again
 * what it has done. */
int32_t eg_derive_once(eg_expressions *x, int32_t e, int byte);

/* ... and once for each class of bytes. */
int32_t eg_derive_by_class(eg_expressions *x, int32_t e, int byte);

/* The intersection `n`, without guards, with its counts dropped: any number of times in place of those
 * counted. `counts` receives what was dropped. */
typedef struct eg_counts {
    int32_t least;  /* the smallest upper bound; EG_FAR: there is none */
    int32_t low;    /* the greatest lower bound; 0: there is none */
    int32_t number; /* how many counts there are */
    bool exact;     /* whatever is counted is a code (eg_is_code) */
} eg_counts;

/* The expression `e` whose last part, if it is repeated, may be repeated beyond an upper bound above `most`
 * and need not be repeated more than `least` times. */
int32_t eg_widen_count(eg_expressions *x, int32_t e, int32_t most, int32_t least);

int32_t eg_drop_counts(eg_expressions *x, const eg_expression *n, eg_counts *counts);

/* How far a match of the intersection `e`, which has no guards, may be away. */
eg_reach eg_reach_of(eg_expressions *x, int32_t e);

typedef void eg_visit(eg_expressions *x, int32_t e, void *to);

/* Call `visit` with each alternative of `e`: expressions whose union it is, and none of which is, or
 * begins with, a union of more than words. It is the only one itself if it has no others, or a look-ahead.
 */
void eg_visit_alternatives(eg_expressions *x, int32_t e, eg_visit *visit, void *to);
bool eg_has_alternatives(eg_expressions *x, int32_t e);

/* Whether no text of `e` begins with another one or is empty: how often it occurs in a row is then unique. */
bool eg_is_code(eg_expressions *x, int32_t e);

/* The derivative of the lexer `n` by `byte`. */
int32_t eg_derive_lexer(eg_expressions *x, const eg_expression *n, int byte);

/* The lexer of the entries on `scratch` from `base` on, which are popped. */
int32_t eg_make_lexer(eg_expressions *x, int32_t base);

/* Whether an entry of a lexer is neither a keyword nor EG_TAKEN. */
static inline bool eg_is_own(int32_t entry) { return entry != EG_TAKEN && !(entry & EG_KEYWORD); }
