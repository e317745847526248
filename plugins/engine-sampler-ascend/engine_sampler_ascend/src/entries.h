/* The rows of a batch: what their requests ask for, and which of them run together. */
#ifndef ASCEND_ENTRIES_H
#define ASCEND_ENTRIES_H

#include "context.h"

/* Where rows of logits lie. */
typedef struct ascend_rows {
    char *first;
    int64_t stride; /* in bytes */
} ascend_rows;

ascend_rows ascend_rows_of(const es_tensor *logits);
/* Fill in the entries of `run` from `batch`; a row that does not run here gets its status at once. */
void ascend_read_entries(const es_context *context, const ascend_plan *plan, ascend_run *run,
                         const es_batch *batch);
/* Divide the entries into spans; rows `stride` bytes apart follow each other if `joins`. */
void ascend_make_spans(const es_context *context, const ascend_plan *plan, ascend_run *run, bool joins,
                       size_t *results, size_t *inputs);
/* Write the inputs of all spans, and the noise of rows that are drawn, to the host's memory. */
void ascend_write_inputs(const es_context *context, const ascend_plan *plan, const ascend_run *run,
                         char *inputs);
/* How many tokens of a row top_k keeps, and how many numbers of noise it therefore needs. */
int64_t ascend_kept(const ascend_plan *plan, const ascend_entry *entry);

#endif
