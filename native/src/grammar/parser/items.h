/* What the construction of a row shares with completion. */
#ifndef ES_GRAMMAR_ROW_ITEMS_H
#define ES_GRAMMAR_ROW_ITEMS_H

#include "grammar/parser/row.h"

/* The registers after the edge `e`, -1 if an operation blocks it. */
int32_t eg_registers_pass(eg_rows *r, const eg_edge *e, int32_t rule, int32_t registers);

/* Add an item to the row under construction, unless it is already there. */
void eg_items_add(eg_rows *r, int32_t state, int32_t registers, int32_t origin);

/* The order of items in a row: by state, registers, origin. */
int eg_items_compare(const void *a, const void *b);

/* Add what the items of `row` become over `symbol`; `transitions` are those of its core. */
void eg_items_advance(eg_rows *r, int32_t row, int32_t symbol, const eg_transition *transitions,
                      int32_t transition_count);

/* Add what results from completing `rule`, which began in the row `origin`. */
void eg_items_complete(eg_rows *r, int32_t rule, int32_t origin);

#endif
