/* Streams, events, and the work that is queued on them. */
#define _GNU_SOURCE
#include "sim_internal.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

typedef enum command_kind { COPY, KERNEL, OPERATOR, RECORD, AWAIT } command_kind;

typedef struct command {
    struct command *next;
    command_kind kind;
    void *to;
    const void *from;
    int64_t bytes;     /* of the copy, or of the workspace */
    void *staged;      /* a copy of host memory that was not pinned, freed with the command */
    int32_t (*kernel)(void *);
    int32_t (*work)(void *, void *);
    void *arguments;
    void *workspace;
    sim_event *event;
    int64_t number; /* which of the event's records */
} command;

struct sim_stream {
    sim_stream *next;
    command *first, *last;
    int64_t queued;
    int32_t error; /* told at the next event, or to whoever waits */
    int32_t busy;  /* its first command is being done */
};

/* Record number `recorded` is the last one asked for; those up to `done` have happened. */
struct sim_event {
    sim_stream *stream;
    int64_t recorded, done;
    int64_t polls;
    int32_t error;
};

struct sim_executor {
    const sim_operator *operator_;
    void *arguments;
    int64_t workspace_bytes;
};

static sim_stream standard; /* the default stream */
static sim_stream *streams; /* all others */
static pthread_t worker;
static pthread_cond_t has_work = PTHREAD_COND_INITIALIZER;
static pthread_mutex_t bell = PTHREAD_MUTEX_INITIALIZER;
static int32_t works, rings;

static sim_stream *real(sim_stream *stream) { return stream ? stream : &standard; }

/* --- commands --- */

static void free_command(command *c) {
    free(c->staged);
    free(c->arguments);
    free(c);
}

static void ring(void) {
    pthread_mutex_lock(&bell);
    rings = 1;
    pthread_cond_signal(&has_work);
    pthread_mutex_unlock(&bell);
}

static void queue(sim_stream *stream, command *c) {
    if (stream->last) stream->last->next = c;
    else stream->first = c;
    stream->last = c;
    stream->queued++;
    sim_device.counters.queued++;
    if (works) ring();
}

/* A new command with a copy of the arguments; NULL without memory. */
static command *command_of(command_kind kind, const void *arguments, int64_t bytes) {
    command *c = calloc(1, sizeof *c);
    if (!c) return NULL;
    c->kind = kind;
    if (bytes > 0 && !(c->arguments = malloc((size_t)bytes))) {
        free(c);
        return NULL;
    }
    if (bytes > 0) memcpy(c->arguments, arguments, (size_t)bytes);
    return c;
}

static int32_t do_copy(const command *c) {
    const int32_t code = sim_injected("copying");
    if (code != SIM_OK) return code;
    const int up = sim_is_on_device(c->to), down = sim_is_on_device(c->from);
    if ((up && !sim_holds(c->to, c->bytes)) || (down && !sim_holds(c->from, c->bytes))) return SIM_INVALID;
    memcpy(up ? sim_mapped(c->to) : c->to, down ? sim_mapped(c->from) : c->from, (size_t)c->bytes);
    return SIM_OK;
}

static int32_t do_work(const command *c) {
    const int32_t code = sim_injected("working");
    if (code != SIM_OK) return code;
    if (c->kind == KERNEL) return c->kernel(c->arguments);
    return c->work(c->arguments, sim_mapped(c->workspace));
}

static int32_t do_first(sim_stream *stream);

/* Do the work of other streams that this one waits for; their failure is its own. */
static void await_event(sim_stream *stream, const command *c) {
    while (c->event->done < c->number && do_first(c->event->stream)) {}
    if (stream->error == SIM_OK) stream->error = c->event->error;
}

static void note_record(sim_stream *stream, const command *c) {
    c->event->done = c->number;
    c->event->error = sim_is_lost() ? SIM_LOST : stream->error;
    stream->error = SIM_OK;
}

/* Do the first command of a stream; 0 if there is none, or it is being done further up. */
static int32_t do_first(sim_stream *stream) {
    command *c = stream->first;
    if (!c || stream->busy) return 0;
    stream->busy = 1;
    if (c->kind == RECORD) note_record(stream, c);
    else if (c->kind == AWAIT) await_event(stream, c);
    else if (stream->error == SIM_OK) {
        sim_open_memory();
        stream->error = c->kind == COPY ? do_copy(c) : do_work(c);
        sim_close_memory();
    }
    stream->busy = 0;
    stream->first = c->next;
    if (!stream->first) stream->last = NULL;
    stream->queued--;
    sim_device.counters.queued--;
    free_command(c);
    return 1;
}

static int32_t drain(sim_stream *stream) {
    while (do_first(stream)) {}
    const int32_t error = sim_is_lost() ? SIM_LOST : stream->error;
    stream->error = SIM_OK;
    return error;
}

int32_t sim_do_any(void) {
    for (sim_stream *s = streams; s; s = s->next)
        if (do_first(s)) return 1;
    return do_first(&standard);
}

/* --- streams and events --- */

int32_t sim_create_stream(sim_stream **out) {
    sim_lock();
    int32_t code = sim_enter("stream");
    sim_stream *stream = code == SIM_OK ? calloc(1, sizeof *stream) : NULL;
    if (code == SIM_OK && !stream) code = SIM_NO_MEMORY;
    if (code == SIM_OK) {
        stream->next = streams;
        *out = streams = stream;
        sim_device.counters.streams++;
    }
    sim_unlock();
    return code;
}

int32_t sim_destroy_stream(sim_stream *stream) {
    if (!stream) return SIM_OK;
    sim_lock();
    drain(stream);
    sim_stream **link = &streams;
    while (*link && *link != stream) link = &(*link)->next;
    const int32_t known = *link == stream;
    if (known) {
        *link = stream->next;
        sim_device.counters.streams--;
        free(stream);
    }
    sim_unlock();
    return known ? SIM_OK : SIM_INVALID;
}

int32_t sim_create_event(sim_event **out) {
    sim_lock();
    int32_t code = sim_enter("event");
    sim_event *event = code == SIM_OK ? calloc(1, sizeof *event) : NULL;
    if (code == SIM_OK && !event) code = SIM_NO_MEMORY;
    if (code == SIM_OK) {
        *out = event;
        sim_device.counters.events++;
    }
    sim_unlock();
    return code;
}

static int32_t is_pending(const sim_event *event) { return event->done < event->recorded; }

/* The first stream on which something queued names `event`; NULL if there is none. */
static sim_stream *stream_naming(const sim_event *event) {
    for (sim_stream *s = &standard; s; s = s == &standard ? streams : s->next)
        for (const command *c = s->first; c; c = c->next)
            if (c->event == event) return s;
    return NULL;
}

int32_t sim_destroy_event(sim_event *event) {
    if (!event) return SIM_OK;
    sim_lock();
    for (sim_stream *s; (s = stream_naming(event)) && do_first(s);) {}
    sim_device.counters.events--;
    free(event);
    sim_unlock();
    return SIM_OK;
}

int32_t sim_record(sim_event *event, sim_stream *stream) {
    sim_lock();
    int32_t code = sim_enter("record");
    command *c = code == SIM_OK ? command_of(RECORD, NULL, 0) : NULL;
    if (code == SIM_OK && !c) code = SIM_NO_MEMORY;
    if (code == SIM_OK) {
        event->stream = real(stream);
        event->polls = 0;
        c->event = event;
        c->number = ++event->recorded;
        queue(event->stream, c);
    }
    sim_unlock();
    return code;
}

int32_t sim_wait_on_stream(sim_stream *stream, sim_event *event) {
    sim_lock();
    int32_t code = sim_enter("record");
    const int32_t matters = code == SIM_OK && (is_pending(event) || event->error != SIM_OK);
    command *c = matters ? command_of(AWAIT, NULL, 0) : NULL;
    if (matters && !c) code = SIM_NO_MEMORY;
    if (c) {
        c->event = event;
        c->number = event->recorded;
        queue(real(stream), c);
    }
    sim_unlock();
    return code;
}

int32_t sim_poll(sim_event *event) {
    sim_lock();
    int32_t code = sim_enter("poll");
    sim_device.counters.polls++;
    if (code == SIM_OK && event->polls++ >= sim_device.polls_until_done)
        while (is_pending(event) && do_first(event->stream)) {}
    const int64_t early = sim_device.polls_until_done + sim_device.late_polls;
    const int32_t late = sim_device.late_polls && event->polls <= early;
    if (code == SIM_OK) code = is_pending(event) || late ? SIM_NOT_READY : event->error;
    sim_unlock();
    return code;
}

int32_t sim_wait(sim_event *event) {
    sim_lock();
    int32_t code = sim_enter("wait");
    sim_device.counters.waits++;
    while (is_pending(event) && do_first(event->stream)) {}
    if (code == SIM_OK && is_pending(event)) code = SIM_FAILED; /* two streams wait for each other */
    if (code == SIM_OK) code = sim_is_lost() ? SIM_LOST : event->error;
    sim_unlock();
    return code;
}

int32_t sim_synchronize(sim_stream *stream) {
    sim_lock();
    const int32_t code = sim_enter("wait");
    sim_device.counters.waits++;
    const int32_t error = drain(real(stream));
    sim_unlock();
    return code != SIM_OK ? code : error;
}

int32_t sim_synchronize_device(void) {
    sim_lock();
    int32_t code = sim_enter("wait");
    sim_device.counters.device_synchronisations++;
    while (sim_do_any()) {}
    for (sim_stream *s = streams; s; s = s->next)
        if (s->error != SIM_OK && code == SIM_OK) code = s->error;
    sim_unlock();
    return code;
}

int64_t sim_queued(sim_stream *stream) {
    sim_lock();
    const int64_t n = real(stream)->queued;
    sim_unlock();
    return n;
}

/* --- work --- */

/* Memory of the host that is not pinned is read at once; before it is written, the stream is waited for. */
static int32_t stop_for_copy(command *c, sim_stream *stream) {
    sim_device.counters.pageable_copies++;
    if (sim_is_on_device(c->to)) {
        c->staged = malloc((size_t)c->bytes + 1);
        if (!c->staged) return SIM_NO_MEMORY;
        memcpy(c->staged, c->from, (size_t)c->bytes);
        c->from = c->staged;
        queue(stream, c);
        return SIM_OK;
    }
    queue(stream, c);
    return drain(stream);
}

int32_t sim_copy(void *to, const void *from, int64_t bytes, sim_stream *stream) {
    sim_lock();
    int32_t code = sim_enter("copy");
    const int up = sim_is_on_device(to), down = sim_is_on_device(from);
    if (code == SIM_OK && (bytes < 0 || !to || !from || !(up || down))) code = SIM_INVALID;
    if (code == SIM_OK && ((up && !sim_holds(to, bytes)) || (down && !sim_holds(from, bytes))))
        code = SIM_INVALID;
    command *c = code == SIM_OK ? command_of(COPY, NULL, 0) : NULL;
    if (code == SIM_OK && !c) code = SIM_NO_MEMORY;
    if (code == SIM_OK) {
        sim_counters *n = &sim_device.counters;
        c->to = to;
        c->from = from;
        c->bytes = bytes;
        if (up && !down) n->bytes_up += bytes, n->copies_up++;
        if (down && !up) n->bytes_down += bytes, n->copies_down++;
        if ((up && down) || sim_is_pinned(up ? from : to, bytes)) queue(real(stream), c);
        else if ((code = stop_for_copy(c, real(stream))) == SIM_NO_MEMORY && !c->staged) free_command(c);
    }
    sim_unlock();
    return code;
}

int32_t sim_launch(int32_t (*kernel)(void *arguments), const void *arguments, int64_t bytes,
                   sim_stream *stream) {
    sim_lock();
    int32_t code = sim_enter("launch");
    command *c = code == SIM_OK ? command_of(KERNEL, arguments, bytes) : NULL;
    if (code == SIM_OK && !c) code = SIM_NO_MEMORY;
    if (code == SIM_OK) {
        c->kernel = kernel;
        sim_device.counters.launches++;
        queue(real(stream), c);
    }
    sim_unlock();
    return code;
}

int32_t sim_produce(void *to, const void *from, int64_t bytes, sim_stream *stream) {
    sim_lock();
    int32_t code = sim_enter("launch");
    if (code == SIM_OK && !sim_holds(to, bytes)) code = SIM_INVALID;
    command *c = code == SIM_OK ? command_of(COPY, from, bytes) : NULL;
    if (code == SIM_OK && !c) code = SIM_NO_MEMORY;
    if (code == SIM_OK) {
        c->to = to;
        c->from = c->arguments;
        c->bytes = bytes;
        sim_device.counters.launches++;
        queue(real(stream), c);
    }
    sim_unlock();
    return code;
}

/* --- operators of two phases --- */

int32_t sim_prepare(const sim_operator *operator_, const void *arguments, int64_t bytes,
                    int64_t *workspace_bytes, sim_executor **out) {
    sim_lock();
    int32_t code = sim_enter("prepare");
    if (code == SIM_OK && sim_is_removed(operator_->name)) code = SIM_NO_OPERATOR;
    sim_executor *executor = code == SIM_OK ? calloc(1, sizeof *executor) : NULL;
    if (executor) executor->arguments = malloc((size_t)bytes + 1);
    if (code == SIM_OK && (!executor || !executor->arguments)) code = SIM_NO_MEMORY;
    if (code == SIM_OK) {
        if (bytes > 0) memcpy(executor->arguments, arguments, (size_t)bytes);
        executor->operator_ = operator_;
        *workspace_bytes = executor->workspace_bytes = operator_->workspace_bytes(arguments);
        sim_device.counters.executors++;
        *out = executor;
    } else free(executor);
    sim_unlock();
    return code;
}

static void free_executor(sim_executor *executor) {
    sim_device.counters.executors--;
    free(executor->arguments);
    free(executor);
}

int32_t sim_discard(sim_executor *executor) {
    if (!executor) return SIM_OK;
    sim_lock();
    free_executor(executor);
    sim_unlock();
    return SIM_OK;
}

/* Whether work of another stream that is not done uses this memory as its workspace. */
static int32_t is_in_use(const sim_stream *own, const char *at, int64_t bytes) {
    for (const sim_stream *s = &standard; s; s = s == &standard ? streams : s->next)
        for (const command *c = s == own ? NULL : s->first; c; c = c->next) {
            const char *start = c->workspace;
            if (c->kind == OPERATOR && start < at + bytes && at < start + c->bytes) return 1;
        }
    return 0;
}

static int32_t check_workspace(const sim_executor *executor, void *workspace, int64_t bytes,
                               const sim_stream *s) {
    if (!executor->workspace_bytes) return SIM_OK;
    if (!workspace || !sim_is_on_device(workspace)) return SIM_NO_WORKSPACE;
    if (bytes < executor->workspace_bytes || !sim_holds(workspace, bytes)) return SIM_SMALL_WORKSPACE;
    if ((uintptr_t)workspace % SIM_ALIGNMENT) return SIM_MISALIGNED;
    return is_in_use(s, workspace, bytes) ? SIM_WORKSPACE_IN_USE : SIM_OK;
}

int32_t sim_execute(sim_executor *executor, void *workspace, int64_t workspace_bytes, sim_stream *stream) {
    if (!executor) return SIM_INVALID;
    sim_lock();
    int32_t code = sim_enter("execute");
    if (code == SIM_OK) code = check_workspace(executor, workspace, workspace_bytes, real(stream));
    command *c = code == SIM_OK ? command_of(OPERATOR, NULL, 0) : NULL;
    if (code == SIM_OK && !c) code = SIM_NO_MEMORY;
    if (code == SIM_OK) {
        c->work = executor->operator_->work;
        c->arguments = executor->arguments;
        c->workspace = workspace;
        c->bytes = workspace_bytes;
        executor->arguments = NULL;
        sim_device.counters.launches++;
        queue(real(stream), c);
    }
    free_executor(executor);
    sim_unlock();
    return code;
}

/* --- the worker --- */

static void *work_on(void *unused) {
    for (;;) {
        pthread_mutex_lock(&bell);
        while (!rings && works) pthread_cond_wait(&has_work, &bell);
        rings = 0;
        const int32_t goes_on = works;
        pthread_mutex_unlock(&bell);
        if (!goes_on) return unused;
        int32_t did = 1;
        while (did) {
            sim_lock();
            did = sim_do_any();
            sim_unlock();
        }
    }
}

int32_t sim_work_in_background(int32_t on) {
    if (!on == !works) return SIM_OK;
    pthread_mutex_lock(&bell);
    works = !!on;
    pthread_cond_signal(&has_work);
    pthread_mutex_unlock(&bell);
    if (!on) return pthread_join(worker, NULL) ? SIM_FAILED : SIM_OK;
    if (!pthread_create(&worker, NULL, work_on, NULL)) {
        ring();
        return SIM_OK;
    }
    works = 0;
    return SIM_FAILED;
}
