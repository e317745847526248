#include "operators.h"

/* --- tensors --- */

aclTensor *ascend_tensor(ascend_work *work, void *data, int32_t type, int64_t rows, int64_t columns,
                         int64_t stride) {
    ascend_run *run = work->run;
    const cann_symbols *cann = &work->context->cann;
    const int64_t dims[2] = {rows, columns}, strides[2] = {columns ? stride : 1, 1};
    const int64_t storage = columns ? (rows - 1) * stride + columns : rows;
    if (work->code != ES_OK) return NULL;
    if (run->n_tensors == run->most_tensors) {
        work->code = ascend_refuse(work->context, ES_NO_MEMORY, "more tensors than were planned");
        return NULL;
    }
    aclTensor *tensor = cann->aclCreateTensor(dims, columns ? 2 : 1, type, strides, 0, ACL_FORMAT_ND,
                                              &storage, 1, data);
    if (tensor) run->tensors[run->n_tensors++] = tensor;
    else work->code = ascend_refuse(work->context, ES_NO_MEMORY, "aclCreateTensor returned no tensor");
    return tensor;
}

/* --- copies --- */

static void check(ascend_work *work, const char *call, int32_t status) {
    const int32_t code = ascend_checked(work->context, call, status);
    if (work->code == ES_OK) work->code = code;
    if (status == 0) work->queued = true;
}

void ascend_copy(ascend_work *work, void *to, const void *from, size_t bytes, int32_t kind) {
    if (work->code != ES_OK || work->measuring || !bytes) return;
    check(work, "aclrtMemcpyAsync",
          work->context->cann.aclrtMemcpyAsync(to, bytes, from, bytes, kind, work->stream));
}

void ascend_fill(ascend_work *work, void *to, int32_t byte, size_t bytes) {
    if (work->code != ES_OK || work->measuring) return;
    check(work, "aclrtMemsetAsync",
          work->context->cann.aclrtMemsetAsync(to, bytes, byte, bytes, work->stream));
}

int32_t ascend_drain(ascend_work *work) {
    es_context *context = work->context;
    const aclError status = work->queued ? context->cann.aclrtSynchronizeStream(work->stream) : 0;
    if (status == 0) return work->code;
    const int32_t code = ascend_code(status);
    /* The first error tells more, unless the device is lost. */
    if (work->code == ES_OK || code == ES_DEVICE) ascend_checked(context, "aclrtSynchronizeStream", status);
    return code == ES_DEVICE ? code : work->code != ES_OK ? work->code : code;
}

/* --- two phases --- */

/* After the first phase, which has returned `status`. */
static void finish(ascend_work *work, const char *name, int32_t status, uint64_t bytes,
                   aclOpExecutor *executor, cann_second *second) {
    const cann_symbols *cann = &work->context->cann;
    if (status != 0 || !executor) {
        check(work, name, status ? status : 561101);
        return;
    }
    if (bytes > work->most) work->most = bytes;
    if (work->measuring || bytes > work->scratch_bytes) {
        cann->aclDestroyAclOpExecutor(executor); /* no second phase will use it */
        if (!work->measuring)
            work->code = ascend_refuse(work->context, ES_NO_MEMORY, "an operator's workspace is too small");
        return;
    }
    work->queued = true; /* even if it fails: a part of it may have been queued */
    check(work, name, second(bytes ? work->scratch : NULL, bytes, executor, work->stream));
}

/* Both phases of an operator: `__VA_ARGS__` are the arguments of the first. */
#define CALL(work, name, ...)                                                        \
    do {                                                                             \
        const cann_symbols *cann = &(work)->context->cann;                           \
        uint64_t bytes = 0;                                                          \
        aclOpExecutor *executor = NULL;                                              \
        if ((work)->code != ES_OK) break;                                            \
        const aclnnStatus status = cann->name.first(__VA_ARGS__, &bytes, &executor); \
        finish(work, "aclnn" #name, status, bytes, executor, cann->name.second);     \
    } while (0)

void ascend_sum(ascend_work *work, aclTensor *rows, aclTensor *sums) {
    CALL(work, ReduceSum, rows, work->context->last_axis, false, ACL_FLOAT, sums);
}

void ascend_greatest(ascend_work *work, aclTensor *rows, aclTensor *greatest) {
    CALL(work, Amax, rows, work->context->last_axis, false, greatest);
}

void ascend_best(ascend_work *work, aclTensor *rows, aclTensor *ids) {
    CALL(work, ArgMax, rows, -1, false, ids);
}

void ascend_leading(ascend_work *work, aclTensor *rows, int64_t k, aclTensor *values, aclTensor *ids) {
    CALL(work, Topk, rows, k, -1, true, true, values, ids);
}

void ascend_scale(ascend_work *work, aclTensor *rows, aclTensor *factors, aclTensor *out) {
    CALL(work, Mul, rows, factors, out);
}

void ascend_filter(ascend_work *work, aclTensor *rows, aclTensor *p, aclTensor *k, aclTensor *out) {
    CALL(work, ApplyTopKTopP, rows, p, k, out);
}

void ascend_sample(ascend_work *work, const ascend_draw *draw) {
    const double eps = 1e-8;
    const int64_t guess = 32;
    if (draw->min_p)
        CALL(work, TopKTopPSampleV2, draw->rows, draw->k, draw->p, draw->noise, draw->min_p, eps, false,
             guess, MOST_TOP_K, true, false, draw->ids, draw->select, draw->sorted_ids, draw->sorted_rows);
    else
        CALL(work, TopKTopPSample, draw->rows, draw->k, draw->p, draw->noise, eps, false, guess, draw->ids,
             draw->select);
}
