/* The items of a row under construction, and their registers. */
#pragma once

#include "grammar/parser/row.h"

/* The registers after the edge `e`, -1 if an operation blocks it. */
int32_t eg_registers_after(eg_rows *r, const eg_edge *e, int32_t rule, int32_t registers);

/* Begin to construct a row. */
void eg_items_begin(eg_rows *r);

/* Add an item to the row under construction, unless it is already there. */
void eg_items_add(eg_rows *r, int32_t state, int32_t registers, int32_t origin);

/* The order of items in a row: by state, registers, origin. */
int eg_items_compare(const void *a, const void *b);
