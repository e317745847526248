/* CANN's operators on tensors of two dimensions: each is planned, and then queued on a stream, or only measured.
 * After the first error nothing more is called. */
#ifndef ASCEND_OPERATORS_H
#define ASCEND_OPERATORS_H

#include "context.h"

typedef struct ascend_work {
    es_context *context;
    ascend_run *run; /* keeps the tensors */
    bool measuring; /* only the workspace is asked for */
    aclrtStream stream;
    void *scratch;
    uint64_t scratch_bytes, most; /* of the workspace: what there is; what an operator has asked for */
    int32_t code; /* es_code: the first error, or ES_OK */
    bool queued; /* whether something was given to the stream */
} ascend_work;

/* A tensor [rows, columns], or [rows] if `columns` is 0; rows are `stride` elements apart. */
aclTensor *ascend_tensor(ascend_work *work, void *data, int32_t type, int64_t rows, int64_t columns,
                         int64_t stride);
void ascend_copy(ascend_work *work, void *to, const void *from, size_t bytes, int32_t kind);
/* Let what was queued come to its end; the code of the work. */
int32_t ascend_drain(ascend_work *work);
void ascend_fill(ascend_work *work, void *to, int32_t byte, size_t bytes);

void ascend_sum(ascend_work *work, aclTensor *rows, aclTensor *sums);
void ascend_greatest(ascend_work *work, aclTensor *rows, aclTensor *greatest);
void ascend_best(ascend_work *work, aclTensor *rows, aclTensor *ids);
void ascend_leading(ascend_work *work, aclTensor *rows, int64_t k, aclTensor *values, aclTensor *ids);
void ascend_scale(ascend_work *work, aclTensor *rows, aclTensor *factors, aclTensor *out);
void ascend_filter(ascend_work *work, aclTensor *rows, aclTensor *p, aclTensor *k, aclTensor *out);

typedef struct ascend_draw {
    aclTensor *rows, *k, *p, *min_p, *noise; /* min_p: NULL without the second version */
    aclTensor *ids, *select, *sorted_ids, *sorted_rows; /* out */
} ascend_draw;
void ascend_sample(ascend_work *work, const ascend_draw *draw);

#endif
