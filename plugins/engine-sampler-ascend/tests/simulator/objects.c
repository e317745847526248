/* Tensors, arrays and executors. What has been destroyed stays in memory until the next reset, so that a later use
 * is seen. */
#define _GNU_SOURCE
#include "cann_sim.h"

#include <sim_device.h>

#include <stdlib.h>
#include <string.h>

enum { LIKE_TORCH = 32 /* bytes, of what a tensor points to */, ND = 2 };

struct aclIntArray {
    bool is_alive;
    uint64_t n;
    int64_t values[4];
};

static aclTensor *tensors;
static cann_sim_live live;

void cann_sim_count(cann_sim_live *out) {
    *out = live;
    cann_sim_count_misuses(&out->misuses);
}

void cann_sim_forget_objects(void) {
    aclTensor **link = &tensors;
    while (*link) {
        aclTensor *tensor = *link;
        if (tensor->is_alive) link = &tensor->next;
        else {
            *link = tensor->next;
            free(tensor);
        }
    }
}

static int64_t size_of(int32_t type) {
    return type == INT64 ? 8 : type == FLOAT || type == INT32 ? 4 : type == HALF || type == BFLOAT ? 2 : 0;
}

/* Whether a view makes sense: where it begins, and that its storage holds it. */
static bool is_sound(const aclTensor *t, int64_t offset, int32_t format, const int64_t *storage) {
    const int64_t last = offset + (t->rows - 1) * t->stride + t->columns;
    return format == ND && offset >= 0 && size_of(t->type) && t->rows > 0 && t->columns > 0 &&
           storage[0] >= last && sim_is_on_device(t->data);
}

aclTensor *aclCreateTensor(const int64_t *view_dims, uint64_t n_view_dims, int32_t data_type,
                           const int64_t *stride, int64_t offset, int32_t format, const int64_t *storage_dims,
                           uint64_t n_storage_dims, void *data) {
    if (cann_sim_enter("aclCreateTensor")) return NULL;
    aclTensor *t = calloc(1, sizeof *t);
    const bool flat = n_view_dims == 1;
    *t = (aclTensor){.is_alive = true,
                     .type = data_type,
                     .rows = view_dims[0],
                     .columns = flat ? 1 : view_dims[1],
                     .stride = stride[0],
                     .n_dims = n_view_dims,
                     .data = (char *)data + offset * size_of(data_type),
                     .next = tensors};
    tensors = t;
    live.tensors++;
    if (n_view_dims < 1 || n_view_dims > 2 || n_storage_dims != 1 || (!flat && stride[1] != 1) ||
        !is_sound(t, offset, format, storage_dims))
        cann_sim_wrong("aclCreateTensor: no such view");
    if ((uintptr_t)t->data % LIKE_TORCH) cann_sim_wrong("aclCreateTensor: a misaligned address");
    return t;
}

int32_t aclDestroyTensor(const aclTensor *tensor) {
    const int32_t injected = cann_sim_enter("aclDestroyTensor");
    if (!tensor->is_alive) cann_sim_wrong("aclDestroyTensor: twice");
    ((aclTensor *)tensor)->is_alive = false; /* CANN's own prototype has the const */
    live.tensors--;
    return injected;
}

aclIntArray *aclCreateIntArray(const int64_t *values, uint64_t n) {
    if (cann_sim_enter("aclCreateIntArray")) return NULL;
    aclIntArray *array = calloc(1, sizeof *array);
    array->is_alive = true;
    array->n = n;
    memcpy(array->values, values, n * sizeof *values);
    live.arrays++;
    return array;
}

int32_t aclDestroyIntArray(const aclIntArray *array) {
    live.arrays--;
    free((void *)array);
    return cann_sim_enter("aclDestroyIntArray");
}

bool cann_sim_is_last_axis(const aclIntArray *array) {
    return array && array->is_alive && array->n == 1 && (array->values[0] == -1 || array->values[0] == 1);
}

bool cann_sim_is(const aclTensor *t, int32_t type, int64_t rows, int64_t columns, uint64_t n_dims) {
    if (!t || !t->is_alive || t->n_dims != n_dims || t->rows != rows || t->columns != columns) return false;
    return type < 0 ? t->type == FLOAT || t->type == HALF || t->type == BFLOAT : t->type == type;
}

/* --- executors --- */

void cann_sim_count_executors(int64_t change) { live.executors += change; }

int32_t aclDestroyAclOpExecutor(aclOpExecutor *executor) {
    if (!executor->is_alive) cann_sim_wrong("aclDestroyAclOpExecutor: one that has been used");
    executor->is_alive = false;
    live.executors--;
    return cann_sim_enter("aclDestroyAclOpExecutor");
}
