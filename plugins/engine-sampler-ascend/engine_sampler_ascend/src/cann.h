/* What this library calls of CANN, found by name at run time: nothing of CANN is needed to compile it. Written
 * from the calls that op-plugin and Ascend/pytorch make; README.md names all sources. */
#ifndef CANN_H
#define CANN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef int32_t aclError, aclnnStatus, aclDataType, aclFormat, aclrtMemcpyKind, aclrtMemMallocPolicy;
typedef int32_t aclrtEventRecordedStatus;
typedef void *aclrtStream, *aclrtEvent;
typedef struct aclTensor aclTensor;
typedef struct aclIntArray aclIntArray;
typedef struct aclOpExecutor aclOpExecutor;

enum { ACL_FLOAT = 0, ACL_FLOAT16 = 1, ACL_INT32 = 3, ACL_INT64 = 9, ACL_BF16 = 27 };
enum { ACL_FORMAT_ND = 2 };
enum { ACL_MEMCPY_HOST_TO_DEVICE = 1, ACL_MEMCPY_DEVICE_TO_HOST = 2, ACL_MEMCPY_DEVICE_TO_DEVICE = 3 };
enum { ACL_MEM_MALLOC_HUGE_FIRST = 0 };
enum { ACL_EVENT_RECORDED_STATUS_COMPLETE = 1 };

/* X(result, name, parameters): libascendcl. */
#define CANN_RUNTIME(X)                                                                                     \
    X(aclError, aclInit, (const char *config))                                                              \
    X(aclError, aclrtGetDevice, (int32_t *device))                                                          \
    X(aclError, aclrtSetDevice, (int32_t device))                                                           \
    X(const char *, aclrtGetSocName, (void))                                                                \
    X(const char *, aclGetRecentErrMsg, (void))                                                             \
    X(aclError, aclrtMalloc, (void **out, size_t bytes, aclrtMemMallocPolicy policy))                       \
    X(aclError, aclrtFree, (void *device))                                                                  \
    X(aclError, aclrtMallocHost, (void **out, size_t bytes))                                                \
    X(aclError, aclrtFreeHost, (void *host))                                                                \
    X(aclError, aclrtMemcpyAsync,                                                                           \
      (void *to, size_t room, const void *from, size_t bytes, aclrtMemcpyKind kind, aclrtStream stream))    \
    X(aclError, aclrtMemsetAsync, (void *to, size_t room, int32_t value, size_t bytes, aclrtStream stream)) \
    X(aclError, aclrtSynchronizeStream, (aclrtStream stream))                                               \
    X(aclError, aclrtCreateEvent, (aclrtEvent * out))                                                       \
    X(aclError, aclrtDestroyEvent, (aclrtEvent event))                                                      \
    X(aclError, aclrtRecordEvent, (aclrtEvent event, aclrtStream stream))                                   \
    X(aclError, aclrtStreamWaitEvent, (aclrtStream stream, aclrtEvent event))                               \
    X(aclError, aclrtSynchronizeEvent, (aclrtEvent event))                                                  \
    X(aclError, aclrtQueryEventStatus, (aclrtEvent event, aclrtEventRecordedStatus * status))

/* The same: libnnopbase. Strides and offset are counted in elements; data is aligned to 32 bytes. */
#define CANN_OBJECTS(X)                                                                                \
    X(aclTensor *, aclCreateTensor,                                                                    \
      (const int64_t *dims, uint64_t n_dims, aclDataType type, const int64_t *strides, int64_t offset, \
       aclFormat format, const int64_t *storage_dims, uint64_t n_storage_dims, void *data))            \
    X(aclnnStatus, aclDestroyTensor, (const aclTensor *tensor))                                        \
    X(aclIntArray *, aclCreateIntArray, (const int64_t *values, uint64_t n))                           \
    X(aclnnStatus, aclDestroyIntArray, (const aclIntArray *array))                                     \
    X(aclnnStatus, aclDestroyAclOpExecutor, (aclOpExecutor * executor))

/* The first phase of each operator returns: the bytes of its workspace, and an executor for one second
 * phase. */
#define CANN_PLANNED uint64_t *workspace, aclOpExecutor **executor

/* X(name, parameters of the first phase), where `aclnn<name>GetWorkspaceSize` is the first phase, and
 * `aclnn<name>(workspace, bytes, executor, stream)` the second: libopapi, or a package of custom operators. */
#define CANN_OPERATORS(X)                                                                                   \
    X(ReduceSum, (const aclTensor *self, const aclIntArray *dims, bool keep_dims, aclDataType type,         \
                  aclTensor *out, CANN_PLANNED))                                                            \
    X(Amax, (const aclTensor *self, const aclIntArray *dims, bool keep_dims, aclTensor *out, CANN_PLANNED)) \
    X(ArgMax, (const aclTensor *self, int64_t dim, bool keep_dim, aclTensor *out, CANN_PLANNED))            \
    X(Topk, (const aclTensor *self, int64_t k, int64_t dim, bool largest, bool sorted, aclTensor *values,   \
             aclTensor *indices, CANN_PLANNED))                                                             \
    X(Mul, (const aclTensor *self, const aclTensor *other, aclTensor *out, CANN_PLANNED))                   \
    X(ApplyTopKTopP,                                                                                        \
      (const aclTensor *logits, const aclTensor *p, const aclTensor *k, aclTensor *out, CANN_PLANNED))      \
    X(TopKTopPSample,                                                                                       \
      (const aclTensor *logits, const aclTensor *k, const aclTensor *p, const aclTensor *q, double eps,     \
       bool need_logits, int64_t k_guess, aclTensor *index, aclTensor *select, CANN_PLANNED))               \
    X(TopKTopPSampleV2,                                                                                     \
      (const aclTensor *logits, const aclTensor *k, const aclTensor *p, const aclTensor *q,                 \
       const aclTensor *min_p, double eps, bool need_logits, int64_t k_guess, int64_t k_most,               \
       bool are_logits, bool need_result, aclTensor *index, aclTensor *select, aclTensor *sorted_index,     \
       aclTensor *sorted_masked, CANN_PLANNED))

typedef aclnnStatus cann_second(void *workspace, uint64_t bytes, aclOpExecutor *executor, aclrtStream stream);

#define CANN_POINTER(result, name, parameters) result(*name) parameters;
#define CANN_PHASES(name, parameters)   \
    struct {                            \
        aclnnStatus(*first) parameters; \
        cann_second *second;            \
    } name;

/* The functions of CANN, and what keeps them loaded. An operator that is not there has NULL for both phases. */
typedef struct cann_symbols {
    CANN_RUNTIME(CANN_POINTER)
    CANN_OBJECTS(CANN_POINTER)
    CANN_OPERATORS(CANN_PHASES)
    void *handles[64];
    int32_t n_handles;
} cann_symbols;

/* Load CANN. False if it is not here, with the reason in `why`; nothing is then left loaded. */
bool cann_load(cann_symbols *cann, char *why, size_t size);
void cann_unload(cann_symbols *cann);

#endif
