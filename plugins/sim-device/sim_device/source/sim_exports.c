/* DLPack's view of the device's memory. Capsules of Python die while exceptions are on their way, when no Python may
 * run: what their destructor does is done here. */
#include "sim_internal.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_DIMENSIONS = 2 };

/* DLPack's DLManagedTensor, and what it points to. */
typedef struct managed {
    void *data;
    int32_t device_type, device_id, ndim;
    uint8_t code, bits;
    uint16_t lanes;
    int64_t *shape, *strides;
    uint64_t byte_offset;
    void *block;
    void (*deleter)(struct managed *);
    int64_t numbers[2 * MOST_DIMENSIONS];
} managed;

static const char name[] = "dltensor";
static int32_t (*is_valid)(void *, const char *);
static void *(*pointer_in)(void *, const char *);

const char *sim_capsule_name(void) { return name; }

void sim_set_capsule_functions(void *valid, void *get) {
    *(void **)&is_valid = valid;
    *(void **)&pointer_in = get;
}

static void delete_export(managed *m) {
    sim_deallocate(m->block);
    free(m);
    sim_lock();
    sim_device.counters.exports--;
    sim_unlock();
}

void *sim_export(void *block, void *data, int32_t code, int32_t bits, int32_t ndim, const int64_t *shape,
                 const int64_t *strides) {
    managed *m = ndim > MOST_DIMENSIONS ? NULL : calloc(1, sizeof *m);
    if (!m || sim_retain(block) != SIM_OK) {
        free(m);
        return NULL;
    }
    *m = (managed){
        .data = data,
        .device_type = SIM_DEVICE_TYPE,
        .ndim = ndim,
        .code = (uint8_t)code,
        .bits = (uint8_t)bits,
        .lanes = 1,
        .shape = m->numbers,
        .strides = m->numbers + ndim,
        .block = block,
        .deleter = delete_export,
    };
    memcpy(m->shape, shape, (size_t)ndim * sizeof *shape);
    memcpy(m->strides, strides, (size_t)ndim * sizeof *strides);
    sim_lock();
    sim_device.counters.exports++;
    sim_unlock();
    return m;
}

void sim_destroy_capsule(void *capsule) {
    if (is_valid(capsule, name)) delete_export(pointer_in(capsule, name));
}
