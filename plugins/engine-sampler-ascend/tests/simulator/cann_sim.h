/* A simulator of CANN for tests: the same symbols on top of plugins/sim-device. It computes what its operators are
 * documented to compute, breaks ties in the least convenient way, and counts whatever a caller does wrong.
 *
 * Its prototypes are written here from the calls of op-plugin, not taken from the library that is tested. */
#ifndef CANN_SIM_H
#define CANN_SIM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#pragma GCC visibility push(default)

/* --- for tests --- */
/* cdef: begin */

typedef struct cann_sim_live {
    int64_t tensors, executors, arrays, misuses;
} cann_sim_live;

/* Let call number `nth` of a function, from 1, fail with `code`, and all before it pass. Functions that return a
 * pointer return NULL. */
void cann_sim_fail(const char *function, int64_t nth, int32_t code);
/* While it is on, calls are those of a test: they are not counted, and do not fail. */
void cann_sim_pause(int32_t on);
/* What its operators do wrong until the next reset. */
typedef enum cann_sim_fault {
    LIST_TWICE = 1, /* Topk: the second token is the first again */
    LIST_OUTSIDE = 2, /* Topk and ArgMax: an id outside the vocabulary */
    LIST_UNSORTED = 4, /* Topk: the worst token first */
    GROWING_NEEDS = 8 /* every call asks for more workspace than the one before */
} cann_sim_fault;
void cann_sim_set_faults(int32_t faults);
int32_t cann_sim_faults(void);
/* How often a function has been called since the last reset. */
int64_t cann_sim_calls(const char *function);
/* No failures, no calls, no misuses; a chip of the name `soc`; whether somebody has called aclInit already. */
void cann_sim_reset(const char *soc, int32_t initialised);
void cann_sim_count(cann_sim_live *out);
/* What was done wrong last, or "". */
const char *cann_sim_misuse(void);

/* cdef: end */

/* --- the runtime --- */

int32_t aclInit(const char *config);
int32_t aclrtGetDevice(int32_t *device);
int32_t aclrtSetDevice(int32_t device);
const char *aclrtGetSocName(void);
const char *aclGetRecentErrMsg(void);
int32_t aclrtMalloc(void **out, size_t bytes, int32_t policy);
int32_t aclrtFree(void *pointer);
int32_t aclrtMallocHost(void **out, size_t bytes);
int32_t aclrtFreeHost(void *pointer);
int32_t aclrtMemcpyAsync(void *to, size_t room, const void *from, size_t bytes, int32_t kind, void *stream);
int32_t aclrtMemsetAsync(void *to, size_t room, int32_t value, size_t bytes, void *stream);
int32_t aclrtSynchronizeStream(void *stream);
int32_t aclrtCreateStream(void **out);
int32_t aclrtDestroyStream(void *stream);
int32_t aclrtCreateEvent(void **out);
int32_t aclrtDestroyEvent(void *event);
int32_t aclrtRecordEvent(void *event, void *stream);
int32_t aclrtStreamWaitEvent(void *stream, void *event);
int32_t aclrtSynchronizeEvent(void *event);
int32_t aclrtQueryEventStatus(void *event, int32_t *status);

/* --- objects --- */

typedef struct aclTensor aclTensor;
typedef struct aclIntArray aclIntArray;
typedef struct aclOpExecutor aclOpExecutor;

aclTensor *aclCreateTensor(const int64_t *view_dims, uint64_t n_view_dims, int32_t data_type,
                           const int64_t *stride, int64_t offset, int32_t format, const int64_t *storage_dims,
                           uint64_t n_storage_dims, void *data);
int32_t aclDestroyTensor(const aclTensor *tensor);
aclIntArray *aclCreateIntArray(const int64_t *values, uint64_t n);
int32_t aclDestroyIntArray(const aclIntArray *array);
int32_t aclDestroyAclOpExecutor(aclOpExecutor *executor);

/* --- operators --- */

#define SIM_PHASE_2(name) \
    int32_t name(void *workspace, uint64_t bytes, aclOpExecutor *executor, void *stream);

int32_t aclnnReduceSumGetWorkspaceSize(const aclTensor *self, const aclIntArray *dims, bool keep_dims,
                                       int32_t data_type, aclTensor *out, uint64_t *bytes,
                                       aclOpExecutor **executor);
int32_t aclnnAmaxGetWorkspaceSize(const aclTensor *self, const aclIntArray *dims, bool keep_dims,
                                  aclTensor *out, uint64_t *bytes, aclOpExecutor **executor);
int32_t aclnnArgMaxGetWorkspaceSize(const aclTensor *self, int64_t dim, bool keep_dim, aclTensor *out,
                                    uint64_t *bytes, aclOpExecutor **executor);
int32_t aclnnTopkGetWorkspaceSize(const aclTensor *self, int64_t k, int64_t dim, bool largest, bool sorted,
                                  aclTensor *values, aclTensor *indices, uint64_t *bytes,
                                  aclOpExecutor **executor);
int32_t aclnnMulGetWorkspaceSize(const aclTensor *self, const aclTensor *other, aclTensor *out,
                                 uint64_t *bytes, aclOpExecutor **executor);
int32_t aclnnApplyTopKTopPGetWorkspaceSize(const aclTensor *logits, const aclTensor *p, const aclTensor *k,
                                           aclTensor *out, uint64_t *bytes, aclOpExecutor **executor);
int32_t aclnnTopKTopPSampleGetWorkspaceSize(const aclTensor *logits, const aclTensor *top_k,
                                            const aclTensor *top_p, const aclTensor *q, double eps,
                                            bool is_need_logits, int64_t top_k_guess, aclTensor *select_idx,
                                            aclTensor *top_kp_select, uint64_t *bytes,
                                            aclOpExecutor **executor);
int32_t aclnnTopKTopPSampleV2GetWorkspaceSize(
    const aclTensor *logits, const aclTensor *top_k, const aclTensor *top_p, const aclTensor *q,
    const aclTensor *min_ps, double eps, bool is_need_logits, int64_t top_k_guess, int64_t ks_max,
    bool input_is_logits, bool is_need_sample_result, aclTensor *select_idx, aclTensor *top_kp_select,
    aclTensor *logits_idx, aclTensor *logits_sort_masked, uint64_t *bytes, aclOpExecutor **executor);
SIM_PHASE_2(aclnnReduceSum)
SIM_PHASE_2(aclnnAmax)
SIM_PHASE_2(aclnnArgMax)
SIM_PHASE_2(aclnnTopk)
SIM_PHASE_2(aclnnMul)
SIM_PHASE_2(aclnnApplyTopKTopP)
SIM_PHASE_2(aclnnTopKTopPSample)
SIM_PHASE_2(aclnnTopKTopPSampleV2)

#pragma GCC visibility pop

enum { FLOAT = 0, HALF = 1, INT32 = 3, INT64 = 9, BFLOAT = 27 };
enum { NO_ERROR = 0, WRONG_PARAMETER = 161002, WRONG_TILING = 561002, RUNTIME_PARAMETER = 107000 };

struct aclTensor {
    bool is_alive;
    int32_t type;
    int64_t rows, columns, stride; /* columns is 1, and n_dims 1, for [rows] */
    uint64_t n_dims;
    char *data; /* of the first element */
    aclTensor *next;
};

enum { MOST_TENSORS = 10, MOST_NUMBERS = 4 };

/* A call of an operator, from its first phase until its work is done. */
struct aclOpExecutor {
    bool is_alive;
    const char *name;
    void (*work)(const aclOpExecutor *call);
    uint64_t workspace;
    const aclTensor *tensors[MOST_TENSORS];
    int32_t n_tensors;
    int64_t numbers[MOST_NUMBERS];
    aclOpExecutor *next;
};

/* The code that a call of `function` fails with, which it counts. */
int32_t cann_sim_enter(const char *function);
void cann_sim_wrong(const char *what);
/* Of a code of the device. */
int32_t cann_sim_code(int32_t code);
void cann_sim_count_misuses(int64_t *out);
void cann_sim_count_executors(int64_t change);
void cann_sim_forget_objects(void);
void cann_sim_forget_calls(void);
bool cann_sim_is_last_axis(const aclIntArray *array);
/* Whether a tensor is alive and has this form; a `type` of -1 is any float. */
bool cann_sim_is(const aclTensor *tensor, int32_t type, int64_t rows, int64_t columns, uint64_t n_dims);

/* --- kernels: on mapped memory, one for each operator --- */

void sum_rows(const aclOpExecutor *call);
void find_greatest(const aclOpExecutor *call);
void find_best(const aclOpExecutor *call);
void find_leading(const aclOpExecutor *call);
void multiply(const aclOpExecutor *call);
void filter(const aclOpExecutor *call);
void sample(const aclOpExecutor *call);

#endif
