/* The rows of an LALR parser. */
#pragma once

#include "grammar/parser/row.h"

/* Make the first row. */
void eg_lalr_open(eg_rows *r);

/* The row after `terminal` in row `row`, -1 if there is none; not remembered. */
int32_t eg_lalr_advance(eg_rows *r, int32_t row, int32_t terminal);
