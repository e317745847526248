/* sim_device.h: a simulated accelerator that behaves as real ones do.
 *
 * Memory. Device pointers are non-canonical addresses, so that the host faults when it follows one, and the pages
 * behind them cannot be read except while the device works. Fresh memory is full of arbitrary bytes. A write past
 * the end of a block is found when it is freed.
 *
 * Streams. Work is queued, and done as late as possible: when somebody waits for it, or has polled
 * `polls_until_done` times, or by a worker thread once `sim_work_in_background(1)` has been called. Arguments
 * of kernels are copied when they are queued; host memory of a copy is read and written when the copy is done.
 * A copy to or from memory that is not pinned stops the host, as it does with vendors' runtimes.
 *
 * Errors. What fails while the device works is told to whoever next waits for the stream, or for the next event
 * recorded there; the stream, and those that wait for it, skip everything up to that event. A lost device stays lost until `sim_reset`.
 *
 * Threads. All functions may be called by any thread that has called `sim_enter_thread`.
 */
#ifndef SIM_DEVICE_H
#define SIM_DEVICE_H

#include <stdint.h>

#pragma GCC visibility push(default)
/* The text between the two marks is also a cffi definition: plain declarations only. */
/* cdef: begin */

typedef enum sim_code {
    SIM_OK = 0,
    SIM_NOT_READY = 1,
    SIM_LOST = 2,
    SIM_NO_MEMORY = 3,
    SIM_INVALID = 4,
    SIM_NOT_ENTERED = 5,        /* sim_enter_thread has not been called here */
    SIM_NO_OPERATOR = 6,        /* this version does not have it */
    SIM_NO_WORKSPACE = 7,       /* missing, or not in the device's memory */
    SIM_SMALL_WORKSPACE = 8,
    SIM_MISALIGNED = 9,         /* not a multiple of SIM_ALIGNMENT */
    SIM_WORKSPACE_IN_USE = 10,  /* by work of another stream that is not done */
    SIM_FAILED = 11             /* a kernel, a copy or a wait, without a reason */
} sim_code;

enum { SIM_ALIGNMENT = 64, SIM_DEVICE_TYPE = 12 };

typedef struct sim_stream sim_stream;
typedef struct sim_event sim_event;
typedef struct sim_executor sim_executor;

/* What has happened since `sim_reset`. */
typedef struct sim_counters {
    int64_t bytes_up, bytes_down;        /* copied to the device and from it */
    int64_t copies_up, copies_down;
    int64_t pageable_copies;             /* those that have stopped the host */
    int64_t launches;                    /* of kernels and operators */
    int64_t waits, polls;                /* for a stream or an event */
    int64_t device_synchronisations;
    int64_t queued;                      /* commands that are not done */
    int64_t blocks, block_bytes;         /* live, of the device */
    int64_t pinned_blocks;               /* live */
    int64_t allocations;                 /* in total, pinned ones too */
    int64_t allocations_in_steps;        /* between sim_begin_step and sim_end_step */
    int64_t streams, events, executors;  /* live */
    int64_t exports; /* live, to DLPack */
    int64_t overruns;                    /* blocks whose end has been written over */
} sim_counters;

/* An operator of two phases: how much workspace it takes, then the work. Both get a copy of the arguments. */
typedef struct sim_operator {
    const char *name;
    int64_t (*workspace_bytes)(const void *arguments);
    int32_t (*work)(void *arguments, void *workspace); /* `workspace` as mapped; returns a sim_code */
} sim_operator;

const char *sim_name_of(int32_t code);
int32_t sim_enter_thread(void);
int32_t sim_has_entered(void);
void sim_leave_thread(void);

int32_t sim_allocate(int64_t bytes, void **out);
/* One more owner of a block: it is free when all have deallocated it. */
int32_t sim_retain(void *pointer);
int32_t sim_deallocate(void *pointer);
int32_t sim_allocate_pinned(int64_t bytes, void **out);
int32_t sim_deallocate_pinned(void *pointer);
int32_t sim_is_on_device(const void *pointer);

int32_t sim_create_stream(sim_stream **out);
int32_t sim_destroy_stream(sim_stream *stream);      /* waits for its work */
int32_t sim_create_event(sim_event **out);
int32_t sim_destroy_event(sim_event *event);
/* A NULL stream is the default stream. */
int32_t sim_record(sim_event *event, sim_stream *stream);
int32_t sim_wait_on_stream(sim_stream *stream, sim_event *event); /* only `stream` waits, not the host */
int32_t sim_poll(sim_event *event);                  /* SIM_NOT_READY, or what happened up to the event */
int32_t sim_wait(sim_event *event);
int32_t sim_synchronize(sim_stream *stream);
int32_t sim_synchronize_device(void);
int64_t sim_queued(sim_stream *stream);              /* its commands that are not done */

int32_t sim_copy(void *to, const void *from, int64_t bytes, sim_stream *stream);
int32_t sim_launch(int32_t (*kernel)(void *arguments), const void *arguments, int64_t bytes,
                   sim_stream *stream);
/* The executor serves one call of sim_execute, or of sim_discard. */
int32_t sim_prepare(const sim_operator *operator_, const void *arguments, int64_t bytes,
                    int64_t *workspace_bytes, sim_executor **out);
int32_t sim_execute(sim_executor *executor, void *workspace, int64_t workspace_bytes, sim_stream *stream);
int32_t sim_discard(sim_executor *executor);
/* For kernels: where a device pointer lies while the device works. */
void *sim_mapped(const void *pointer);

/* --- DLPack and Python --- */

/* A DLManagedTensor of memory in a block, with its own hold on that; NULL without memory. */
void *sim_export(void *block, void *data, int32_t code, int32_t bits, int32_t ndim, const int64_t *shape,
                 const int64_t *strides);
const char *sim_capsule_name(void);
void sim_set_capsule_functions(void *valid, void *get); /* PyCapsule_IsValid, PyCapsule_GetPointer */
void sim_destroy_capsule(void *capsule);

/* --- for tests --- */

void sim_count(sim_counters *out);
void sim_begin_step(void);
void sim_end_step(void);
/* A forward pass: work that leaves these bytes in the device's memory. The host's memory is read at once. */
int32_t sim_produce(void *to, const void *from, int64_t bytes, sim_stream *stream);
/* Like new: no failures, no lost device, counters of what has happened at 0. Live things live on. */
void sim_reset(void);
/* Let `skip` calls pass, and the next `times` fail with `code`. Calls: "allocate", "pinned", "stream", "event",
 * "record", "copy", "launch", "prepare", "execute", "poll", "wait", "enter", and of work as it is done:
 * "copying", "working". SIM_INVALID for another. SIM_LOST loses the device. */
int32_t sim_fail(const char *call, int64_t skip, int64_t times, int32_t code);
int64_t sim_failures_left(void);
void sim_hold_failures(int32_t held); /* nothing fails or counts as a call while 1, not even when lost */
int32_t sim_remove_operator(const char *name); /* as in older versions; until sim_reset */
void sim_set_polls(int64_t until_done);        /* SIM_NOT_READY so often before the work is done; 3 */
void sim_set_late_events(int64_t polls);       /* and so often after it has been done; 0 */
void sim_set_misalignment(int64_t bytes);      /* of all blocks from now on; 0 */
void sim_set_capacity(int64_t bytes);          /* of the memory; 0 = all there is, 1 GiB */
int32_t sim_work_in_background(int32_t on);    /* by a thread */

/* cdef: end */
#pragma GCC visibility pop
#endif
