/* The device of a thread, its memory, and copies that the host waits for. */
#include "entries.h"
#include "operators.h"

enum { ANCHOR_BYTES = 512 };

/* A thread may have another device than this context, and the engine that set it relies on that: each call
 * chooses ours, and then puts back what it found. Most find ours. */
int32_t ascend_enter(es_context *context, ascend_thread *thread) {
    const cann_symbols *cann = &context->cann;
    if (cann->aclrtGetDevice(&thread->before) != 0) thread->before = -1;
    if (thread->before == context->device) return ES_OK;
    return ascend_checked(context, "aclrtSetDevice", cann->aclrtSetDevice(context->device));
}

void ascend_leave(es_context *context, const ascend_thread *thread) {
    if (thread->before >= 0 && thread->before != context->device)
        context->cann.aclrtSetDevice(thread->before);
}

int32_t ascend_begin_planning(es_context *context) {
    const int64_t last = -1;
    const cann_symbols *cann = &context->cann;
    if (!context->last_axis) context->last_axis = cann->aclCreateIntArray(&last, 1);
    if (!context->last_axis)
        return ascend_refuse(context, ES_NO_MEMORY, "aclCreateIntArray returned no array");
    if (context->anchor) return ES_OK;
    const aclError status = cann->aclrtMalloc(&context->anchor, ANCHOR_BYTES, ACL_MEM_MALLOC_HUGE_FIRST);
    if (status != 0) context->anchor = NULL;
    return ascend_checked(context, "aclrtMalloc", status);
}

int32_t ascend_allocate(es_context *context, int32_t memory, int64_t bytes, void **out) {
    const cann_symbols *cann = &context->cann;
    if (bytes < 1) return ascend_refuse(context, ES_INVALID, "memory of no bytes");
    if (memory == ES_MEMORY_PINNED)
        return ascend_checked(context, "aclrtMallocHost", cann->aclrtMallocHost(out, (size_t)bytes));
    const aclError status = cann->aclrtMalloc(out, (size_t)bytes, ACL_MEM_MALLOC_HUGE_FIRST);
    return ascend_checked(context, "aclrtMalloc", status);
}

int32_t ascend_deallocate(es_context *context, int32_t memory, void *pointer) {
    const cann_symbols *cann = &context->cann;
    if (memory == ES_MEMORY_PINNED)
        return ascend_checked(context, "aclrtFreeHost", cann->aclrtFreeHost(pointer));
    return ascend_checked(context, "aclrtFree", cann->aclrtFree(pointer));
}

int32_t ascend_read_rows(es_context *context, const es_tensor *logits, const int64_t *rows, int64_t n,
                         void *stream, void *out) {
    const ascend_rows where = ascend_rows_of(logits);
    const size_t bytes = (size_t)logits->shape[1] * (size_t)(logits->bits / 8);
    ascend_work work = {.context = context, .stream = stream};
    for (int64_t i = 0, next; i < n; i = next) {
        next = i + 1; /* rows that follow each other without a gap are one copy */
        while (next < n && rows[next] == rows[next - 1] + 1 && where.stride == (int64_t)bytes) next++;
        ascend_copy(&work, (char *)out + (size_t)i * bytes, where.first + rows[i] * where.stride,
                    (size_t)(next - i) * bytes, ACL_MEMCPY_DEVICE_TO_HOST);
    }
    return ascend_drain(&work);
}

int32_t ascend_copy_block(es_context *context, void *to, const void *from, int64_t bytes, int32_t to_device,
                          void *stream) {
    ascend_work work = {.context = context, .stream = stream};
    const int32_t kind = to_device ? ACL_MEMCPY_HOST_TO_DEVICE : ACL_MEMCPY_DEVICE_TO_HOST;
    ascend_copy(&work, to, from, (size_t)bytes, kind);
    return ascend_drain(&work);
}
