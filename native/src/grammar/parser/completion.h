/* Completing rules: what may follow the end of a rule, and which rows this makes equal. */
#pragma once

#include "grammar/parser/row.h"

/* Add to the row under construction what the items of `row` become over `symbol`; `transitions` are those of
 * its core. */
void eg_items_advance(eg_rows *r, int32_t row, int32_t symbol, const eg_transition *transitions,
                      int32_t transition_count);

/* Add what results from completing `rule`, which began in the row `origin`. */
void eg_items_complete(eg_rows *r, int32_t rule, int32_t origin);
