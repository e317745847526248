/* The runtime: memory, copies, streams and events, and the failures that tests ask for. */
#define _GNU_SOURCE
#include "cann_sim.h"

#include <sim_device.h>

#include <stdio.h>
#include <string.h>

enum { MOST_FUNCTIONS = 64 };

typedef struct function {
    const char *name;
    int64_t calls, fails_at;
    int32_t code;
} function;

static function functions[MOST_FUNCTIONS];
static int32_t n_functions;
static char soc[40] = "Ascend910B3", wrong[200];
static bool is_initialised, is_paused;
static int64_t misuses;
static int32_t faults;
static _Thread_local int32_t device_here = -1;

/* --- failures --- */

static function *function_called(const char *name) {
    for (int32_t i = 0; i < n_functions; i++)
        if (strcmp(functions[i].name, name) == 0) return &functions[i];
    functions[n_functions] = (function){.name = strdup(name)};
    return &functions[n_functions++];
}

void cann_sim_set_faults(int32_t which) { faults = which; }

int32_t cann_sim_faults(void) { return faults; }

void cann_sim_pause(int32_t on) { is_paused = on; }

int32_t cann_sim_enter(const char *name) {
    if (is_paused) return NO_ERROR;
    function *f = function_called(name);
    return ++f->calls == f->fails_at ? f->code : NO_ERROR;
}

void cann_sim_wrong(const char *what) {
    misuses++;
    snprintf(wrong, sizeof wrong, "%s", what);
}

void cann_sim_fail(const char *name, int64_t nth, int32_t code) {
    function *f = function_called(name);
    f->fails_at = f->calls + nth;
    f->code = code;
}

int64_t cann_sim_calls(const char *name) { return function_called(name)->calls; }

const char *cann_sim_misuse(void) { return wrong; }

void cann_sim_reset(const char *chip, int32_t initialised) {
    for (int32_t i = 0; i < n_functions; i++) functions[i].calls = functions[i].fails_at = 0;
    snprintf(soc, sizeof soc, "%s", chip);
    is_initialised = initialised;
    misuses = faults = 0;
    wrong[0] = 0;
    cann_sim_forget_calls();
    cann_sim_forget_objects();
}

void cann_sim_count_misuses(int64_t *out) { *out = misuses; }

int32_t cann_sim_code(int32_t code) {
    switch (code) {
    case SIM_OK: return NO_ERROR;
    case SIM_NO_MEMORY: return 207001;
    case SIM_INVALID: return RUNTIME_PARAMETER;
    case SIM_NOT_ENTERED: return 107002;
    case SIM_LOST: return 507018;
    case SIM_MISALIGNED: return WRONG_TILING;
    default: return 507015;
    }
}

#define ENTER(name)                                \
    const int32_t injected = cann_sim_enter(name); \
    if (injected) return injected

/* --- functions of the runtime --- */

int32_t aclInit(const char *config) {
    ENTER("aclInit");
    (void)config;
    if (is_initialised) return 100002;
    is_initialised = true;
    return NO_ERROR;
}

int32_t aclrtGetDevice(int32_t *device) {
    ENTER("aclrtGetDevice");
    *device = device_here;
    return device_here < 0 ? 107002 : NO_ERROR;
}

int32_t aclrtSetDevice(int32_t device) {
    ENTER("aclrtSetDevice");
    if (device < 0 || device > 7) return 107001;
    const int32_t code = cann_sim_code(sim_enter_thread());
    if (code == NO_ERROR) device_here = device;
    return code;
}

const char *aclrtGetSocName(void) { return soc; }

const char *aclGetRecentErrMsg(void) { return "EZ9999: as the simulator was told"; }

int32_t aclrtMalloc(void **out, size_t bytes, int32_t policy) {
    ENTER("aclrtMalloc");
    if (policy < 0 || policy > 2) cann_sim_wrong("aclrtMalloc: an unknown policy");
    return cann_sim_code(sim_allocate((int64_t)bytes, out));
}

int32_t aclrtFree(void *pointer) {
    ENTER("aclrtFree");
    return cann_sim_code(sim_deallocate(pointer));
}

int32_t aclrtMallocHost(void **out, size_t bytes) {
    ENTER("aclrtMallocHost");
    return cann_sim_code(sim_allocate_pinned((int64_t)bytes, out));
}

int32_t aclrtFreeHost(void *pointer) {
    ENTER("aclrtFreeHost");
    return cann_sim_code(sim_deallocate_pinned(pointer));
}

int32_t aclrtMemcpyAsync(void *to, size_t room, const void *from, size_t bytes, int32_t kind, void *stream) {
    ENTER("aclrtMemcpyAsync");
    const int32_t real = sim_is_on_device(from) * 2 + sim_is_on_device(to);
    if (kind != real) cann_sim_wrong("aclrtMemcpyAsync: another kind than the addresses have");
    if (bytes > room) cann_sim_wrong("aclrtMemcpyAsync: no room");
    return cann_sim_code(sim_copy(to, from, (int64_t)bytes, stream));
}

typedef struct filling {
    void *to;
    int32_t value;
    size_t bytes;
} filling;

static int32_t fill(void *arguments) {
    const filling *f = arguments;
    memset(sim_mapped(f->to), f->value, f->bytes);
    return SIM_OK;
}

int32_t aclrtMemsetAsync(void *to, size_t room, int32_t value, size_t bytes, void *stream) {
    ENTER("aclrtMemsetAsync");
    const filling f = {to, value, bytes};
    if (bytes > room || !sim_is_on_device(to)) cann_sim_wrong("aclrtMemsetAsync: no room on the device");
    return cann_sim_code(sim_launch(fill, &f, sizeof f, stream));
}

int32_t aclrtSynchronizeStream(void *stream) {
    ENTER("aclrtSynchronizeStream");
    return cann_sim_code(sim_synchronize(stream));
}

int32_t aclrtCreateStream(void **out) {
    ENTER("aclrtCreateStream");
    return cann_sim_code(sim_create_stream((sim_stream **)out));
}

int32_t aclrtDestroyStream(void *stream) {
    ENTER("aclrtDestroyStream");
    return cann_sim_code(sim_destroy_stream(stream));
}

int32_t aclrtCreateEvent(void **out) {
    ENTER("aclrtCreateEvent");
    return cann_sim_code(sim_create_event((sim_event **)out));
}

int32_t aclrtDestroyEvent(void *event) {
    ENTER("aclrtDestroyEvent");
    return cann_sim_code(sim_destroy_event(event));
}

int32_t aclrtRecordEvent(void *event, void *stream) {
    ENTER("aclrtRecordEvent");
    return cann_sim_code(sim_record(event, stream));
}

int32_t aclrtStreamWaitEvent(void *stream, void *event) {
    ENTER("aclrtStreamWaitEvent");
    return cann_sim_code(sim_wait_on_stream(stream, event));
}

int32_t aclrtSynchronizeEvent(void *event) {
    ENTER("aclrtSynchronizeEvent");
    return cann_sim_code(sim_wait(event));
}

int32_t aclrtQueryEventStatus(void *event, int32_t *status) {
    ENTER("aclrtQueryEventStatus");
    const int32_t code = sim_poll(event);
    *status = code == SIM_OK;
    return code == SIM_NOT_READY ? NO_ERROR : cann_sim_code(code);
}
