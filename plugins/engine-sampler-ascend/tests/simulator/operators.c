/* The two phases of each operator: what its arguments must be, and its work on the stream. */
#define _GNU_SOURCE
#include "cann_sim.h"

#include <sim_device.h>
#include <sim_internal.h>

#include <stdlib.h>
#include <string.h>

static aclOpExecutor *calls;

/* Of calls whose work is done, or will never be. */
void cann_sim_forget_calls(void) {
    while (calls && !calls->is_alive) {
        aclOpExecutor *next = calls->next;
        free(calls);
        calls = next;
    }
}

/* --- first phases --- */

static aclOpExecutor *new_call(const char *name, void (*work)(const aclOpExecutor *), int64_t rows,
                               uint64_t *bytes, aclOpExecutor **out) {
    aclOpExecutor *call = calloc(1, sizeof *call);
    *call = (aclOpExecutor){.is_alive = true, .name = name, .work = work, .next = calls};
    calls = call;
    static uint64_t more;
    more = cann_sim_faults() & GROWING_NEEDS ? more + 64 : 0;
    call->workspace = *bytes = 1024 + (uint64_t)rows * 32 + more;
    cann_sim_count_executors(1);
    return *out = call;
}

static void add(aclOpExecutor *call, const aclTensor *tensor) { call->tensors[call->n_tensors++] = tensor; }

/* An injected failure, or arguments that are not what the operator takes. */
#define FIRST(name, fits)                                             \
    const int32_t injected = cann_sim_enter(name "GetWorkspaceSize"); \
    if (injected) return injected;                                    \
    if (!(fits)) {                                                    \
        cann_sim_wrong(name ": wrong arguments");                     \
        return WRONG_PARAMETER;                                       \
    }

static bool is_matrix(const aclTensor *t) { return t && cann_sim_is(t, -1, t->rows, t->columns, 2); }

int32_t aclnnReduceSumGetWorkspaceSize(const aclTensor *self, const aclIntArray *dims, bool keep_dims,
                                       int32_t data_type, aclTensor *out, uint64_t *bytes,
                                       aclOpExecutor **executor) {
    FIRST("aclnnReduceSum", is_matrix(self) && cann_sim_is_last_axis(dims) && !keep_dims &&
                                data_type == FLOAT && cann_sim_is(out, FLOAT, self->rows, 1, 1))
    aclOpExecutor *call = new_call("aclnnReduceSum", sum_rows, self->rows, bytes, executor);
    add(call, self);
    add(call, out);
    return NO_ERROR;
}

int32_t aclnnAmaxGetWorkspaceSize(const aclTensor *self, const aclIntArray *dims, bool keep_dims,
                                  aclTensor *out, uint64_t *bytes, aclOpExecutor **executor) {
    FIRST("aclnnAmax", is_matrix(self) && cann_sim_is_last_axis(dims) && !keep_dims &&
                           cann_sim_is(out, self->type, self->rows, 1, 1))
    aclOpExecutor *call = new_call("aclnnAmax", find_greatest, self->rows, bytes, executor);
    add(call, self);
    add(call, out);
    return NO_ERROR;
}

int32_t aclnnArgMaxGetWorkspaceSize(const aclTensor *self, int64_t dim, bool keep_dim, aclTensor *out,
                                    uint64_t *bytes, aclOpExecutor **executor) {
    FIRST("aclnnArgMax", is_matrix(self) && (dim == -1 || dim == 1) && !keep_dim &&
                             cann_sim_is(out, INT64, self->rows, 1, 1))
    aclOpExecutor *call = new_call("aclnnArgMax", find_best, self->rows, bytes, executor);
    add(call, self);
    add(call, out);
    return NO_ERROR;
}

int32_t aclnnTopkGetWorkspaceSize(const aclTensor *self, int64_t k, int64_t dim, bool largest, bool sorted,
                                  aclTensor *values, aclTensor *indices, uint64_t *bytes,
                                  aclOpExecutor **executor) {
    FIRST("aclnnTopk", is_matrix(self) && k > 0 && k <= self->columns && (dim == -1 || dim == 1) && largest &&
                           sorted && cann_sim_is(values, self->type, self->rows, k, 2) &&
                           cann_sim_is(indices, INT64, self->rows, k, 2))
    aclOpExecutor *call = new_call("aclnnTopk", find_leading, self->rows, bytes, executor);
    add(call, self);
    add(call, values);
    add(call, indices);
    call->numbers[0] = k;
    return NO_ERROR;
}

int32_t aclnnMulGetWorkspaceSize(const aclTensor *self, const aclTensor *other, aclTensor *out,
                                 uint64_t *bytes, aclOpExecutor **executor) {
    FIRST("aclnnMul", is_matrix(self) && cann_sim_is(other, FLOAT, self->rows, 1, 2) && is_matrix(out) &&
                          out->rows == self->rows && out->columns == self->columns)
    aclOpExecutor *call = new_call("aclnnMul", multiply, self->rows, bytes, executor);
    add(call, self);
    add(call, other);
    add(call, out);
    return NO_ERROR;
}

static bool has_cuts(void) { return strstr(aclrtGetSocName(), "310P") == NULL; }

int32_t aclnnApplyTopKTopPGetWorkspaceSize(const aclTensor *logits, const aclTensor *p, const aclTensor *k,
                                           aclTensor *out, uint64_t *bytes, aclOpExecutor **executor) {
    FIRST("aclnnApplyTopKTopP", has_cuts() && is_matrix(logits) &&
                                    (!p || cann_sim_is(p, logits->type, logits->rows, 1, 1)) &&
                                    (!k || cann_sim_is(k, INT32, logits->rows, 1, 1)) &&
                                    cann_sim_is(out, logits->type, logits->rows, logits->columns, 2))
    aclOpExecutor *call = new_call("aclnnApplyTopKTopP", filter, logits->rows, bytes, executor);
    add(call, logits);
    add(call, p);
    add(call, k);
    add(call, out);
    return NO_ERROR;
}

/* What both versions of the sampling operator have. */
static bool samples(const aclTensor *logits, const aclTensor *k, const aclTensor *p, const aclTensor *q,
                    double eps, int64_t guess, const aclTensor *idx, const aclTensor *select) {
    return has_cuts() && is_matrix(logits) && logits->columns <= 1 << 20 &&
           cann_sim_is(k, INT32, logits->rows, 1, 1) && cann_sim_is(p, logits->type, logits->rows, 1, 1) &&
           (!q || cann_sim_is(q, FLOAT, logits->rows, logits->columns, 2)) && eps > 0 && eps < 1e-3 &&
           guess > 0 && cann_sim_is(idx, INT64, logits->rows, 1, 1) &&
           cann_sim_is(select, FLOAT, logits->rows, logits->columns, 2);
}

static aclOpExecutor *new_sampling(const char *name, const aclTensor *const *tensors, int32_t n,
                                   uint64_t *bytes, aclOpExecutor **executor) {
    aclOpExecutor *call = new_call(name, sample, tensors[0]->rows, bytes, executor);
    for (int32_t i = 0; i < n; i++) add(call, tensors[i]);
    return call;
}

#ifndef NO_V1
int32_t aclnnTopKTopPSampleGetWorkspaceSize(const aclTensor *logits, const aclTensor *top_k,
                                            const aclTensor *top_p, const aclTensor *q, double eps,
                                            bool is_need_logits, int64_t top_k_guess, aclTensor *select_idx,
                                            aclTensor *top_kp_select, uint64_t *bytes,
                                            aclOpExecutor **executor) {
    FIRST("aclnnTopKTopPSample",
          !is_need_logits && samples(logits, top_k, top_p, q, eps, top_k_guess, select_idx, top_kp_select) &&
              logits->type != FLOAT)
    const aclTensor *const tensors[] = {logits, top_k, top_p, q, NULL, select_idx, top_kp_select};
    new_sampling("aclnnTopKTopPSample", tensors, 7, bytes, executor);
    return NO_ERROR;
}
#endif

#ifndef NO_V2
int32_t aclnnTopKTopPSampleV2GetWorkspaceSize(
    const aclTensor *logits, const aclTensor *top_k, const aclTensor *top_p, const aclTensor *q,
    const aclTensor *min_ps, double eps, bool is_need_logits, int64_t top_k_guess, int64_t ks_max,
    bool input_is_logits, bool is_need_sample_result, aclTensor *select_idx, aclTensor *top_kp_select,
    aclTensor *logits_idx, aclTensor *logits_sort_masked, uint64_t *bytes, aclOpExecutor **executor) {
    FIRST("aclnnTopKTopPSampleV2",
          !is_need_logits && !is_need_sample_result && input_is_logits && ks_max >= 1 && ks_max <= 1024 &&
              samples(logits, top_k, top_p, q, eps, top_k_guess, select_idx, top_kp_select) &&
              (!min_ps || cann_sim_is(min_ps, logits->type, logits->rows, 1, 1)) &&
              cann_sim_is(logits_idx, INT64, logits->rows, logits->columns, 2) &&
              cann_sim_is(logits_sort_masked, FLOAT, logits->rows, logits->columns, 2))
    const aclTensor *const tensors[] = {
        logits, top_k, top_p, q, min_ps, select_idx, top_kp_select, logits_idx, logits_sort_masked};
    new_sampling("aclnnTopKTopPSampleV2", tensors, 9, bytes, executor);
    return NO_ERROR;
}
#endif

/* --- second phases --- */

typedef struct task {
    aclOpExecutor *call;
    void *workspace;
    uint64_t bytes;
} task;

static int64_t bytes_of(const aclTensor *t) {
    const int64_t size = t->type == INT64 ? 8 : t->type == FLOAT || t->type == INT32 ? 4 : 2;
    return ((t->rows - 1) * t->stride + t->columns) * size;
}

/* The work itself, when the device gets to it: everything that it needs must still be there. */
static int32_t work(void *arguments) {
    const task *t = arguments;
    for (int32_t i = 0; i < t->call->n_tensors; i++) {
        const aclTensor *tensor = t->call->tensors[i];
        if (!tensor) continue;
        if (!tensor->is_alive) cann_sim_wrong("a tensor was destroyed before the work was done");
        if (!sim_holds(tensor->data, bytes_of(tensor))) {
            cann_sim_wrong("a tensor's memory is not there");
            return SIM_INVALID;
        }
    }
    if (!sim_holds(t->workspace, (int64_t)t->bytes)) cann_sim_wrong("a workspace is not there");
    else memset(sim_mapped(t->workspace), 0xEE, (size_t)t->bytes);
    t->call->work(t->call);
    return SIM_OK;
}

static int32_t second(const char *name, void *workspace, uint64_t bytes, aclOpExecutor *executor,
                      void *stream) {
    const int32_t injected = cann_sim_enter(name);
    if (!executor->is_alive || strcmp(executor->name, name) != 0)
        cann_sim_wrong("an executor that is used up, or of another operator");
    if (bytes < executor->workspace || !sim_is_on_device(workspace) || (uintptr_t)workspace % 32)
        cann_sim_wrong("a workspace that is too small, misaligned, or not the device's");
    executor->is_alive = false;
    cann_sim_count_executors(-1);
    if (injected) return injected;
    const task t = {executor, workspace, executor->workspace};
    return cann_sim_code(sim_launch(work, &t, sizeof t, stream));
}

#define SECOND(name)                                                                       \
    int32_t name(void *workspace, uint64_t bytes, aclOpExecutor *executor, void *stream) { \
        return second(#name, workspace, bytes, executor, stream);                          \
    }

SECOND(aclnnReduceSum)
SECOND(aclnnAmax)
SECOND(aclnnArgMax)
SECOND(aclnnTopk)
SECOND(aclnnMul)
SECOND(aclnnApplyTopKTopP)
#ifndef NO_V1
SECOND(aclnnTopKTopPSample)
#endif
#ifndef NO_V2
SECOND(aclnnTopKTopPSampleV2)
#endif
