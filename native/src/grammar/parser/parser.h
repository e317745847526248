/* The parser: what may follow a text between two terminals. */
#pragma once

#include "grammar/parser/row.h"

/* Start with the rows of `rules`; also determines which rules match the empty string. */
void eg_rows_open(eg_rows *r, eg_pool *pool, eg_expressions *expressions, eg_rules *rules);

/* The row after `terminal` in row `row`, -1 if there is none. */
int32_t eg_row_advance(eg_rows *r, int32_t row, int32_t terminal);

/* The row with the items of both. */
int32_t eg_row_join(eg_rows *r, int32_t a, int32_t b);

/* `row` where the rest of the parts at these levels, a bit each, does not follow. */
int32_t eg_row_without(eg_rows *r, int32_t row, int32_t levels);
