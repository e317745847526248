/* What the parts of the device share. Everything is guarded by one lock, which the device also holds while it
 * works. */
#ifndef SIM_INTERNAL_H
#define SIM_INTERNAL_H

#include "sim_device.h"

typedef struct sim_state {
    sim_counters counters;
    int32_t lost;
    int32_t steps; /* how many have begun and not ended */
    int64_t polls_until_done, late_polls, misalignment, capacity;
} sim_state;

extern sim_state sim_device;

void sim_lock(void);
void sim_unlock(void);

/* The code with which a call is to fail, which it counts. Checks the thread and the device, too. */
int32_t sim_enter(const char *call);
/* The same for work, which belongs to no thread of the host. */
int32_t sim_injected(const char *call);
int32_t sim_is_lost(void);
int32_t sim_is_removed(const char *name);
void sim_forget_failures(void);

/* Make the memory readable, and unreadable again; in pairs, which may be nested. */
void sim_open_memory(void);
void sim_close_memory(void);
/* Whether `bytes` bytes at a device pointer lie in one live block. */
int32_t sim_holds(const void *pointer, int64_t bytes);
int32_t sim_is_pinned(const void *pointer, int64_t bytes);

/* Do one command of any stream; 0 if there is none. */
int32_t sim_do_any(void);

#endif
