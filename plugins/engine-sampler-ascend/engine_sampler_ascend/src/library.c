/* engine_sampler's table for Ascend NPUs: greedy, top_k and temperature exactly, from the few best tokens of each
 * row; or, opened with the instruction set "operators", whatever CANN's own sampling operators do. */
#include "context.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { REPEATED_INITIALISATION = 100002, NPU = 12 };

static bool begins(const char *text, const char *beginning) {
    return text && strncmp(text, beginning, strlen(beginning)) == 0;
}

/* What depends on the chip. */
static void read_chip(es_context *context) {
    const char *name = context->cann.aclrtGetSocName();
    context->is_ieee = begins(name, "Ascend910B") || begins(name, "Ascend910_93") ||
                       begins(name, "Ascend950");
    context->filters = context->is_ieee;
    snprintf(context->target, sizeof context->target, "%s, %s", name ? name : "unknown chip",
             context->exact ? "exact" : "operators");
}

static int32_t start(const es_context *context, char *why, size_t size) {
    const aclError begun = context->cann.aclInit(
        NULL); /* never ended: others in this process use CANN, too */
    if (begun == 0 || begun == REPEATED_INITIALISATION) return ES_OK;
    snprintf(why, size, "aclInit returned %d: %s", (int)begun, context->cann.aclGetRecentErrMsg());
    return ascend_code(begun);
}

/* Tell the host why. */
static int32_t refuse_to_open(const es_options *options, int32_t code, const char *why) {
    const bool asks = options->size >= offsetof(es_options, why_bytes) + sizeof options->why_bytes;
    if (asks && options->why && options->why_bytes > 0)
        snprintf(options->why, (size_t)options->why_bytes, "%s", why);
    return code;
}

static void close_context(es_context *context) {
    ascend_thread thread;
    ascend_enter(context, &thread); /* if it fails, so do the calls below, and nothing more can be done */
    for (int i = 0; i < MOST_PLANS; i++)
        if (context->plans[i].number) ascend_free_plan(context, &context->plans[i]);
    if (context->last_axis) context->cann.aclDestroyIntArray(context->last_axis);
    if (context->anchor) context->cann.aclrtFree(context->anchor);
    ascend_leave(context, &thread);
    ascend_forget_all(&context->histories);
    cann_unload(&context->cann);
    free(context);
}

static int32_t open_context(const es_options *options, es_context **out) {
    char why[400];
    const bool exact = !options->isa || strcmp(options->isa, "exact") == 0;
    if (options->device.type != NPU || options->device.id < 0)
        return refuse_to_open(options, ES_UNSUPPORTED, "it serves NPUs, DLPack's type 12");
    if (!exact && strcmp(options->isa, "operators") != 0)
        return refuse_to_open(options, ES_UNSUPPORTED, "it knows the ways \"exact\" and \"operators\"");
    es_context *context = calloc(1, sizeof *context);
    if (!context) return ES_NO_MEMORY;
    context->exact = exact;
    context->device = options->device.id;
    int32_t code = cann_load(&context->cann, why, sizeof why) ? ES_OK : ES_UNSUPPORTED;
    if (code == ES_OK) code = start(context, why, sizeof why);
    if (code != ES_OK) {
        cann_unload(&context->cann);
        free(context);
        return refuse_to_open(options, code, why);
    }
    read_chip(context);
    *out = context;
    return ES_OK;
}

static int32_t update(es_context *context, const es_changes *changes) {
    ascend_notice(&context->histories, changes);
    return ES_OK;
}

static const char *error_of(const es_context *context) { return context->error; }

static const char *target_of(const es_context *context) { return context->target; }

/* --- tickets --- */

static int32_t finish(es_context *context, ascend_plan *plan, int32_t code) {
    if (code == ES_OK) ascend_write_results(context, plan);
    else context->cann.aclrtSynchronizeStream(plan->run.stream); /* it may still use the host's memory */
    ascend_end_run(context, &plan->run);
    return code;
}

static int32_t wait_for(es_context *context, uint64_t ticket) {
    ascend_plan *plan = ascend_plan_of_ticket(context, ticket);
    if (!plan) return ascend_refuse(context, ES_INVALID, "no such ticket");
    const aclError status = context->cann.aclrtSynchronizeEvent(plan->run.event);
    return finish(context, plan, ascend_checked(context, "aclrtSynchronizeEvent", status));
}

static int32_t poll(es_context *context, uint64_t ticket) {
    ascend_plan *plan = ascend_plan_of_ticket(context, ticket);
    if (!plan) return ascend_refuse(context, ES_INVALID, "no such ticket");
    aclrtEventRecordedStatus recorded = 0;
    const aclError status = context->cann.aclrtQueryEventStatus(plan->run.event, &recorded);
    if (status == 0 && recorded != ACL_EVENT_RECORDED_STATUS_COMPLETE) return ES_BUSY;
    return finish(context, plan, ascend_checked(context, "aclrtQueryEventStatus", status));
}

/* --- calls that need the device --- */

#define ON_DEVICE(context, call)                       \
    do {                                               \
        ascend_thread thread;                          \
        int32_t code = ascend_enter(context, &thread); \
        if (code != ES_OK) return code;                \
        code = call;                                   \
        ascend_leave(context, &thread);                \
        return code;                                   \
    } while (0)

static int32_t prepare_here(es_context *context, const es_shape *shape, es_plan *plan) {
    ON_DEVICE(context, ascend_prepare(context, shape, plan));
}

static int32_t release_here(es_context *context, uint32_t plan) {
    ON_DEVICE(context, ascend_release(context, plan));
}

static int32_t run_here(es_context *context, es_batch *batch) {
    ON_DEVICE(context, ascend_run_batch(context, batch));
}

static int32_t wait_here(es_context *context, uint64_t ticket) {
    ON_DEVICE(context, wait_for(context, ticket));
}

static int32_t poll_here(es_context *context, uint64_t ticket) { ON_DEVICE(context, poll(context, ticket)); }

static int32_t allocate_here(es_context *context, int32_t memory, int64_t bytes, void **out) {
    ON_DEVICE(context, ascend_allocate(context, memory, bytes, out));
}

static int32_t deallocate_here(es_context *context, int32_t memory, void *pointer) {
    ON_DEVICE(context, ascend_deallocate(context, memory, pointer));
}

static int32_t read_rows_here(es_context *context, const es_tensor *logits, const int64_t *rows, int64_t n,
                              void *stream, void *out) {
    ON_DEVICE(context, ascend_read_rows(context, logits, rows, n, stream, out));
}

static int32_t copy_here(es_context *context, void *to, const void *from, int64_t bytes, int32_t to_device,
                         void *stream) {
    ON_DEVICE(context, ascend_copy_block(context, to, from, bytes, to_device, stream));
}

static const es_api api = {
    .size = sizeof(es_api),
    .abi = ES_ABI,
    .name = "ascend",
    .version = "0.1",
    .open = open_context,
    .close = close_context,
    .error = error_of,
    .query = ascend_query,
    .compile = ascend_compile,
    .run = run_here,
    .wait = wait_here,
    .poll = poll_here,
    .prepare = prepare_here,
    .release = release_here,
    .allocate = allocate_here,
    .deallocate = deallocate_here,
    .update = update,
    .read_rows = read_rows_here,
    .copy = copy_here,
    .target = target_of,
};

int32_t es_get_api(uint32_t host_abi, const es_api **out) {
    if (host_abi >> 16 != ES_ABI_MAJOR) return ES_UNSUPPORTED;
    *out = &api;
    return ES_OK;
}
