/* Consecutive rows through the operators of their way. */
#ifndef ASCEND_SPANS_H
#define ASCEND_SPANS_H

#include "operators.h"

/* Room for the results and inputs of a span, from *results and *inputs on, which are moved behind it. */
void ascend_place_span(const ascend_plan *plan, ascend_span *span, size_t *results, size_t *inputs);
/* Queue its operators; its first row lies at `logits`, and the plan's device memory at `workspace`. */
void ascend_queue_span(ascend_work *work, const ascend_plan *plan, const ascend_span *span, char *workspace,
                       void *logits, int64_t stride);

#endif
