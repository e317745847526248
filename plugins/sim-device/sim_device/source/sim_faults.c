/* Failures on demand, counters, and the lock. */
#define _GNU_SOURCE
#include "sim_internal.h"

#include <pthread.h>
#include <string.h>

enum { MOST_REMOVED = 16 };

typedef struct failure {
    const char *call;
    int64_t skip, times;
    int32_t code;
} failure;

/* clang-format off */
static failure failures[] = {
    {"allocate", 0, 0, 0}, {"pinned", 0, 0, 0}, {"stream", 0, 0, 0}, {"event", 0, 0, 0}, {"record", 0, 0, 0},
    {"copy", 0, 0, 0}, {"launch", 0, 0, 0}, {"prepare", 0, 0, 0}, {"execute", 0, 0, 0}, {"poll", 0, 0, 0},
    {"wait", 0, 0, 0}, {"enter", 0, 0, 0}, {"copying", 0, 0, 0}, {"working", 0, 0, 0},
};
/* clang-format on */
enum { N_FAILURES = sizeof failures / sizeof *failures };

static char removed[MOST_REMOVED][48];
static int32_t n_removed, are_held;
static _Thread_local int32_t has_entered;
static pthread_mutex_t lock;
static pthread_once_t once = PTHREAD_ONCE_INIT;

sim_state sim_device = {.polls_until_done = 3};

static void make_lock(void) {
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
    pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_RECURSIVE);
    pthread_mutex_init(&lock, &attributes);
    pthread_mutexattr_destroy(&attributes);
}

void sim_lock(void) {
    pthread_once(&once, make_lock);
    pthread_mutex_lock(&lock);
}

void sim_unlock(void) { pthread_mutex_unlock(&lock); }

const char *sim_name_of(int32_t code) {
    /* clang-format off */
    static const char *const names[] = {
        "done", "not ready", "the device is lost", "no memory", "an invalid argument",
        "this thread has not entered the device", "no such operator in this version", "no workspace",
        "the workspace is too small", "misaligned memory", "the workspace is in use", "the device failed",
    };
    /* clang-format on */
    const int32_t n = sizeof names / sizeof *names;
    return code >= 0 && code < n ? names[code] : "an unknown code";
}

int32_t sim_is_lost(void) { return sim_device.lost && !are_held; }

int32_t sim_injected(const char *call) {
    if (sim_is_lost()) return SIM_LOST;
    if (are_held) return SIM_OK;
    for (int32_t i = 0; i < N_FAILURES; i++) {
        failure *f = &failures[i];
        if (strcmp(f->call, call) || !f->times) continue;
        if (f->skip > 0) {
            f->skip--;
            return SIM_OK;
        }
        f->times--;
        sim_device.lost |= f->code == SIM_LOST;
        return f->code;
    }
    return SIM_OK;
}

int32_t sim_enter(const char *call) { return has_entered ? sim_injected(call) : SIM_NOT_ENTERED; }

int32_t sim_enter_thread(void) {
    sim_lock();
    const int32_t code = sim_injected("enter");
    if (code == SIM_OK) has_entered = 1;
    sim_unlock();
    return code;
}

int32_t sim_has_entered(void) { return has_entered; }

void sim_leave_thread(void) { has_entered = 0; }

int32_t sim_fail(const char *call, int64_t skip, int64_t times, int32_t code) {
    int32_t known = SIM_INVALID;
    sim_lock();
    for (int32_t i = 0; i < N_FAILURES; i++)
        if (!strcmp(failures[i].call, call)) {
            failures[i] = (failure){failures[i].call, skip, times, code};
            known = SIM_OK;
        }
    sim_unlock();
    return known;
}

int64_t sim_failures_left(void) {
    int64_t left = 0;
    sim_lock();
    for (int32_t i = 0; i < N_FAILURES; i++) left += failures[i].times;
    sim_unlock();
    return left;
}

void sim_hold_failures(int32_t held) {
    sim_lock();
    are_held = held;
    sim_unlock();
}

int32_t sim_remove_operator(const char *name) {
    sim_lock();
    const int32_t fits = n_removed < MOST_REMOVED && strlen(name) < sizeof removed[0];
    if (fits) strcpy(removed[n_removed++], name);
    sim_unlock();
    return fits ? SIM_OK : SIM_INVALID;
}

int32_t sim_is_removed(const char *name) {
    for (int32_t i = 0; i < n_removed; i++)
        if (!strcmp(removed[i], name)) return 1;
    return 0;
}

void sim_reset(void) {
    sim_lock();
    for (int32_t i = 0; i < N_FAILURES; i++) failures[i].times = 0;
    n_removed = are_held = 0;
    sim_counters *c = &sim_device.counters;
    sim_device.lost = 0;
    sim_device.polls_until_done = 3;
    sim_device.late_polls = sim_device.misalignment = sim_device.capacity = 0;
    c->bytes_up = c->bytes_down = c->copies_up = c->copies_down = c->pageable_copies = c->launches = 0;
    c->waits = c->polls = c->device_synchronisations = 0;
    c->allocations = c->allocations_in_steps = c->overruns = 0;
    sim_unlock();
}

void sim_count(sim_counters *out) {
    sim_lock();
    *out = sim_device.counters;
    sim_unlock();
}

static void set(int64_t *setting, int64_t value) {
    sim_lock();
    *setting = value;
    sim_unlock();
}

void sim_set_polls(int64_t until_done) { set(&sim_device.polls_until_done, until_done); }
void sim_set_late_events(int64_t polls) { set(&sim_device.late_polls, polls); }
void sim_set_misalignment(int64_t bytes) { set(&sim_device.misalignment, bytes); }
void sim_set_capacity(int64_t bytes) { set(&sim_device.capacity, bytes); }

static void change_steps(int32_t change) {
    sim_lock();
    sim_device.steps += change;
    sim_unlock();
}

void sim_begin_step(void) { change_steps(1); }
void sim_end_step(void) { change_steps(-1); }
