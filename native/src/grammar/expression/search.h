/* Searches through the derivatives of an expression. What one has visited is on the stack `visited` from
 * some base on; it may begin another one. */
#pragma once

#include "grammar/expression/make.h"

/* Derivatives that are visited before their alternatives are, to learn how far a match is away or whether
 * there is one: half as many after each time that this was in vain, and twice as many after one that was
 * not. */
enum { EG_MOST_STATES = 1024, EG_LEAST_STATES = 16 };

/* ... and the work that this may take. */
enum { EG_MOST_WORK = 1 << 20 };

/* How many derivatives to visit, after this many searches in vain. */
int32_t eg_most_states(int vain);

/* Count a search. */
void eg_count_vain(int *vain, bool success);

/* The place of `e` in a search, -1 if it has not been visited. */
int32_t eg_visited_place(const eg_expressions *x, int32_t base, int32_t e);

void eg_add_visited(eg_expressions *x, int32_t e, int32_t from);

/* Call `visit` with each derivative of `e`. */
void eg_visit_derivatives(eg_expressions *x, int32_t e, eg_visit *visit, void *to);
