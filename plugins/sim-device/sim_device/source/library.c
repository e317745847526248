/* A device's library behind engine_sampler.h: the table, contexts, programs and what is promised for them. */
#include "library_internal.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifndef SIM_KERNELS
#define SIM_KERNELS ""
#endif

enum { MOST_TABLES = 64, FIRST_SELECTOR = 64 };

enum {
    CAN_PROMISE = ES_EXACT | ES_DETERMINISTIC | ES_BATCH_INVARIANT | ES_READS_ONLY | ES_ANY_STRIDE |
    ES_ROW_FAULTS | ES_MASKS | ES_LOGPROBS | ES_SURVIVORS | ES_ON_DEVICE
};

const es_api *sim_kernels;
static sim_settings current;
static int32_t is_configured;
static _Atomic int64_t live_contexts;

/* --- errors --------------------------------------------------------------------------------------------- */

int32_t refuse(es_context *context, int32_t code, const char *format, ...) {
    const int32_t before = snprintf(context->error, sizeof context->error, "sim: ");
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(context->error + before, sizeof context->error - (size_t)before, format, arguments);
    va_end(arguments);
    return code;
}

static int32_t code_of(int32_t code) {
    switch (code) {
    case SIM_OK: return ES_OK;
    case SIM_LOST: return ES_DEVICE;
    case SIM_NO_MEMORY: return ES_NO_MEMORY;
    case SIM_NO_OPERATOR: return ES_UNSUPPORTED;
    case SIM_NOT_READY:
    case SIM_FAILED: return ES_BUSY;
    default: return ES_INVALID;
    }
}

int32_t refuse_device(es_context *context, const char *what, int32_t code) {
    return code == SIM_OK ? ES_OK : refuse(context, code_of(code), "%s: %s", what, sim_name_of(code));
}

void *grown(void *array, int64_t n, int64_t size) {
    return realloc(array, (size_t)(n > 0 ? n : 1) * (size_t)size);
}

int64_t padded(int64_t bytes) { return (bytes + SIM_ALIGNMENT - 1) / SIM_ALIGNMENT * SIM_ALIGNMENT; }

/* --- settings ------------------------------------------------------------------------------------------- */

void sim_default_settings(sim_settings *out) {
    const uint64_t none = 1u << ES_OP_FUNCTION | 1u << ES_OP_INFILL; /* host code; texts of the vocabulary */
    *out = (sim_settings){
        .samplers = ~none,
        .selectors = ~(uint64_t)0,
        .promises = CAN_PROMISE,
        .types = 7,
        .max_survivors = 1024,
        .most_programs = MOST_PROGRAMS,
    };
}

void sim_configure(const sim_settings *settings) {
    current = *settings;
    is_configured = 1;
}

int64_t sim_contexts(void) { return live_contexts; }

int32_t sim_use_kernels(const char *path) {
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    int32_t (*get)(uint32_t, const es_api **) = NULL;
    if (library) *(void **)&get = dlsym(library, "es_get_api");
    const es_api *api = NULL;
    if (!get || get(ES_ABI, &api) != ES_OK || api->size < sizeof *api) return SIM_INVALID;
    sim_kernels = api;
    return SIM_OK;
}

/* --- contexts ------------------------------------------------------------------------------------------- */

static void free_context(es_context *context) {
    for (int32_t i = 0; i < context->n_plans; i++)
        if (context->plans[i].number) release_plan(context, context->plans[i].number);
    if (context->uploads) sim_synchronize(context->uploads);
    free_masks(context);
    for (int32_t i = 0; i < STAGINGS; i++) free_staging(&context->stagings[i]);
    free_requests(context);
    sim_destroy_event(context->uploaded);
    sim_destroy_stream(context->uploads);
    if (context->kernels) sim_kernels->close(context->kernels);
    free(context->plans);
    free(context->records);
    free(context);
    live_contexts--;
}

static int32_t fill_context(es_context *context) {
    const es_options options = {.size = sizeof options, .num_threads = 1, .device = {1, 0}};
    int32_t code = refuse_device(context, "entering a thread", sim_enter_thread());
    if (code == ES_OK) code = refuse_device(context, "a stream", sim_create_stream(&context->uploads));
    if (code == ES_OK) code = refuse_device(context, "an event", sim_create_event(&context->uploaded));
    if (code != ES_OK) return code;
    context->records = grown(NULL, MOST_RECORDS, sizeof *context->records);
    if (!context->records) return refuse(context, ES_NO_MEMORY, "no memory for a context");
    const es_program nothing = {sizeof nothing, 0, NULL};
    code = sim_kernels->open(&options, &context->kernels);
    if (code == ES_OK) code = sim_kernels->compile(context->kernels, &nothing, &context->nothing);
    return code == ES_OK ? ES_OK : refuse(context, code, "the packaged kernels do not open");
}

static int32_t open_on_device(const es_options *options, es_context **out) {
    es_context *context = calloc(1, sizeof *context);
    if (!context) return ES_NO_MEMORY;
    live_contexts++;
    context->settings = current;
    const int32_t code = fill_context(context);
    if (code == ES_OK) {
        *out = context;
        return ES_OK;
    }
    if (options->why && options->why_bytes > 0)
        snprintf(options->why, (size_t)options->why_bytes, "%s", context->error);
    free_context(context);
    return code;
}

static int32_t open_context(const es_options *options, es_context **out) {
    *out = NULL;
    if (options->size < sizeof *options) return ES_INVALID;
    if (options->device.type != SIM_DEVICE_TYPE || options->device.id) return ES_UNSUPPORTED;
    if (!sim_kernels && sim_use_kernels(SIM_KERNELS) != SIM_OK) return ES_UNSUPPORTED;
    const int32_t had_entered = sim_has_entered();
    const int32_t code = open_on_device(options, out);
    if (!had_entered) sim_leave_thread();
    return code;
}

static void close_context(es_context *context) {
    const int32_t had_entered = sim_has_entered();
    sim_enter_thread();
    free_context(context);
    if (!had_entered) sim_leave_thread();
}

static const char *error_of(const es_context *context) { return context->error; }

static const char *target_of(const es_context *context) {
    (void)context;
    return "simulated";
}

static int32_t enter_thread(es_context *context) {
    return refuse_device(context, "entering a thread", sim_enter_thread());
}

/* --- programs ------------------------------------------------------------------------------------------- */

static const es_op *op_at(const es_program *of, int32_t i) {
    return (const es_op *)(const void *)((const char *)of->ops + (size_t)i * of->ops->size);
}

/* Cuts that can be made again in what they have left: by ranks, or by the peak. */
static int32_t is_repeatable(int32_t kind) { return kind == ES_OP_TOP_K || kind == ES_OP_MIN_P; }

static int32_t is_truncation(int32_t kind) { return kind >= ES_OP_TOP_N_SIGMA && kind <= ES_OP_XTC; }

/* Where a cut keeps all ties, nothing may follow it but the same cut on the host. */
static int32_t check_ties(es_context *context, const es_program *from, program *out) {
    int32_t truncations = 0, repeatable = 0;
    for (int32_t i = 0; i < from->n_ops; i++) {
        truncations += is_truncation(op_at(from, i)->kind);
        repeatable += is_repeatable(op_at(from, i)->kind);
    }
    if (context->settings.ties != ES_TIES_KEPT || !truncations) return ES_OK;
    out->keeps_ties = 1;
    return repeatable == from->n_ops ? ES_OK
                                     : refuse(context, ES_UNSUPPORTED, "more than cuts that keep ties");
}

static int32_t read_program(es_context *context, const es_program *from, program *out) {
    const sim_settings *s = &context->settings;
    *out = (program){.selector = -1};
    if (from->n_ops < 0 || from->n_ops > MOST_OPS)
        return refuse(context, ES_UNSUPPORTED, "%d steps are more than %d", from->n_ops, MOST_OPS);
    for (int32_t i = 0; i < from->n_ops; i++) {
        const int32_t kind = op_at(from, i)->kind;
        const int32_t selects = kind >= FIRST_SELECTOR;
        const uint64_t bit = kind < 0 || kind >= 128 ? 0 : (uint64_t)1 << kind % FIRST_SELECTOR;
        if (!(bit & (selects ? s->selectors : s->samplers)))
            return refuse(context, ES_UNSUPPORTED, "step %d is of kind %d, which this device lacks", i, kind);
        if (selects && i != from->n_ops - 1) return refuse(context, ES_INVALID, "a selector before the end");
        if (s->random && selects && kind != ES_OP_DIST && kind != ES_OP_GREEDY)
            return refuse(context, ES_UNSUPPORTED, "selector %d needs random numbers of its own", kind);
        if (selects) out->selector = kind;
        out->has_dry |= kind == ES_OP_DRY;
        out->has_top_k |= kind == ES_OP_TOP_K;
    }
    return check_ties(context, from, out);
}

static uint32_t promises_for(const sim_settings *s, const program *asked) {
    uint32_t promises = s->promises & CAN_PROMISE;
    const int32_t is_drawn = !asked || asked->selector == ES_OP_DIST;
    if (is_drawn && s->random != ES_RANDOM_NONE && s->random != ES_RANDOM_BITS)
        promises &= ~(uint32_t)ES_EXACT;
    return promises;
}

int64_t random_width(const sim_settings *s, int64_t vocab_size) {
    return s->random_width && s->random_width < vocab_size ? s->random_width : 0;
}

static int32_t type_bit(uint8_t code, uint8_t bits) {
    if (bits == 16) return code == 2 ? 2 : code == 4 ? 4 : 0;
    return code == 2 && bits == 32 ? 1 : 0;
}

static int32_t query(es_context *context, const es_query *request, es_answer *answer) {
    const sim_settings *s = &context->settings;
    program asked = {.selector = -1};
    if (request->size < sizeof *request || answer->size < sizeof *answer)
        return refuse(context, ES_INVALID, "a query or an answer of another version");
    if (!(type_bit(request->code, request->bits) & (int32_t)s->types))
        return refuse(context, ES_UNSUPPORTED, "logits of code %u with %u bits", request->code,
                      request->bits);
    const int32_t code = request->program ? read_program(context, request->program, &asked) : ES_OK;
    if (code != ES_OK) return code;
    int64_t workspace;
    sim_executor *executor = NULL;
    const step_arguments none = {0};
    const int32_t prepared = sim_prepare(&step_operator, &none, sizeof none, &workspace, &executor);
    sim_discard(executor);
    if (prepared != SIM_OK) return refuse_device(context, "the operator of steps", prepared);
    answer->promises = promises_for(s, request->program ? &asked : NULL);
    answer->max_rows = s->max_rows;
    answer->max_top_k = s->max_top_k;
    answer->alignment = s->alignment;
    answer->max_survivors = s->max_survivors;
    answer->ties = asked.keeps_ties ? ES_TIES_KEPT : ES_TIES_BY_ID;
    answer->random = asked.selector == ES_OP_DIST ? s->random : ES_RANDOM_NONE;
    if (answer->random == ES_RANDOM_EXPONENTIAL) answer->random_width = random_width(s, request->vocab_size);
    return ES_OK;
}

static int32_t compile(es_context *context, const es_program *from, uint32_t *number) {
    program *out = &context->programs[context->n_programs];
    if ((int32_t)context->n_programs >= context->settings.most_programs ||
        context->n_programs == MOST_PROGRAMS)
        return refuse(context, ES_UNSUPPORTED, "more than %u programs", context->n_programs);
    int32_t code = read_program(context, from, out);
    if (code != ES_OK) return code;
    es_program samplers = *from;
    samplers.n_ops -= out->selector >= 0;
    code = sim_kernels->compile(context->kernels, from, &out->whole);
    if (code == ES_OK) code = sim_kernels->compile(context->kernels, &samplers, &out->samplers);
    if (code != ES_OK) return refuse(context, code, "%s", sim_kernels->error(context->kernels));
    *number = context->n_programs++;
    return ES_OK;
}

/* --- memory --------------------------------------------------------------------------------------------- */

static int32_t allocate(es_context *context, int32_t memory, int64_t bytes, void **out) {
    const int32_t code = memory == ES_MEMORY_PINNED ? sim_allocate_pinned(bytes, out)
                                                    : sim_allocate(bytes, out);
    return refuse_device(context, memory == ES_MEMORY_PINNED ? "pinned memory" : "memory", code);
}

static int32_t deallocate(es_context *context, int32_t memory, void *pointer) {
    const int32_t is_pinned = memory == ES_MEMORY_PINNED;
    return refuse_device(context, "memory given back",
                         is_pinned ? sim_deallocate_pinned(pointer) : sim_deallocate(pointer));
}

/* --- the table ------------------------------------------------------------------------------------------ */

static es_api table_of(const sim_settings *s) {
    es_api api = {
        .size = sizeof api,
        .abi = ES_ABI,
        .name = "sim",
        .version = "1.0",
        .open = open_context,
        .close = close_context,
        .error = error_of,
        .query = query,
        .compile = compile,
        .run = run_step,
        .wait = wait_for_step,
        .poll = poll_step,
        .prepare = prepare_plan,
        .release = release_plan,
        .allocate = allocate,
        .deallocate = deallocate,
        .enter_thread = enter_thread,
        .update = update_requests,
        .stage_masks = stage_masks,
        .read_rows = read_rows,
        .target = target_of,
        .copy = copy_memory,
    };
    if (s->synchronous) api.wait = NULL, api.poll = NULL;
    if (s->without & SIM_WITHOUT_POLL) api.poll = NULL;
    if (s->without & SIM_WITHOUT_ALLOCATE) api.allocate = NULL, api.deallocate = NULL;
    if (s->without & SIM_WITHOUT_ENTER_THREAD) api.enter_thread = NULL;
    if (s->without & SIM_WITHOUT_STAGE_MASKS) api.stage_masks = NULL;
    if (s->without & SIM_WITHOUT_READ_ROWS) api.read_rows = NULL;
    if (s->without & SIM_WITHOUT_TARGET) api.target = NULL;
    return api;
}

ES_EXPORT int32_t es_get_api(uint32_t host_abi, const es_api **out) {
    static es_api tables[MOST_TABLES];
    static int32_t n_tables;
    if (host_abi >> 16 != ES_ABI_MAJOR) return ES_UNSUPPORTED;
    if (!is_configured) {
        sim_default_settings(&current);
        is_configured = 1;
    }
    const es_api wanted = table_of(&current);
    int32_t i = 0;
    while (i < n_tables && memcmp(&tables[i], &wanted, sizeof wanted)) i++;
    if (i == MOST_TABLES) return ES_UNSUPPORTED;
    if (i == n_tables) tables[n_tables++] = wanted;
    *out = &tables[i];
    return ES_OK;
}
