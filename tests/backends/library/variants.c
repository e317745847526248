/* The toy vendor's library with a table that is slightly wrong. */
#define es_get_api toy_get_api
#include "toy_vendor.c"
#undef es_get_api

#ifndef ABI
#define ABI ES_ABI
#endif
#ifndef SIZE
#define SIZE sizeof(es_api)
#endif

/* A later minor version: a field after those of this header. */
typedef struct longer_api {
    es_api known;
    int32_t (*later)(void);
} longer_api;

#ifndef NO_SYMBOL
static longer_api table;
#endif

#ifdef MAX_ROWS
static int32_t few_at_once(es_context *context, const es_query *request, es_answer *answer) {
    const int32_t code = query(context, request, answer);
    answer->max_rows = MAX_ROWS;
    return code;
}

static int32_t run_few(es_context *context, es_batch *batch) {
    return batch->n > MAX_ROWS ? ES_INVALID : run(context, batch);
}
#endif

#ifdef PROMISES
static int32_t promise_less(es_context *context, const es_query *request, es_answer *answer) {
    const int32_t code = query(context, request, answer);
    answer->promises = PROMISES;
    return code;
}
#endif

#ifdef WRITES
static int32_t run_and_write(es_context *context, es_batch *batch) {
    const int32_t code = run(context, batch);
    float *logits = batch->logits.data;
    for (int64_t i = 0; i < batch->vocab_size; i++)
        logits[batch->rows[0] * batch->logits.strides[0] + i] += 1;
    return code;
}
#endif

#ifdef OFF_BY_ONE
static int32_t run_wrongly(es_context *context, es_batch *batch) {
    const int32_t code = run(context, batch);
    for (int32_t i = 0; i < batch->n; i++)
        if (batch->status[i] == ES_ROW_OK && batch->vocab_size > 1)
            batch->token_ids[batch->rows[i]] = (batch->token_ids[batch->rows[i]] + 1) % batch->vocab_size;
    return code;
}
#endif

#ifdef IMPOSSIBLE_LOGPROBS
static int32_t run_and_list_impossible_tokens(es_context *context, es_batch *batch) {
    const int32_t code = run(context, batch);
    if (batch->logprobs) batch->logprobs[0].token_ids[0] = batch->vocab_size;
    return code;
}
#endif

#ifdef STATUS /* the first row gets this status and no token, and no fault is counted */
static int32_t run_and_set_status(es_context *context, es_batch *batch) {
    const int32_t code = run(context, batch);
    batch->status[0] = STATUS;
    batch->token_ids[batch->rows[0]] = 5;
    batch->faults = 0;
    return code;
}
#endif

#ifdef TOKEN /* the first row draws this token */
static int32_t run_and_set_token(es_context *context, es_batch *batch) {
    const int32_t code = run(context, batch);
    batch->token_ids[batch->rows[0]] = TOKEN;
    return code;
}
#endif

#ifdef IDLE /* every run after the first succeeds without doing anything */
static int32_t run_once(es_context *context, es_batch *batch) {
    static int done;
    if (!done++) return run(context, batch);
    for (int32_t i = 0; i < batch->n; i++) batch->status[i] = ES_ROW_OK;
    batch->faults = 0;
    return ES_OK;
}
#endif

#ifdef LATE /* returns when it is told to, and writes everywhere before */
#include <time.h>

static volatile int32_t told, waiting, closed;

ES_EXPORT void late_return(void);
ES_EXPORT int32_t late_waiting(void);
ES_EXPORT int32_t late_closed(void);
void late_return(void) { told = 1; }
int32_t late_waiting(void) { return waiting; }
int32_t late_closed(void) { return closed; }

static int32_t run_late(es_context *context, es_batch *batch) {
    const struct timespec pause = {0, 1000000};
    waiting++;
    while (!told) nanosleep(&pause, NULL);
    const int32_t code = run(context, batch);
    for (int32_t i = 0; i < batch->n; i++) batch->token_ids[batch->rows[i]] = 7;
    for (int32_t i = 0; i < batch->n; i++) batch->notes[batch->rows[i]] = 7;
    waiting--;
    return code;
}

static void count_and_close(es_context *context) {
    closed++;
    close_context(context);
}
#endif

#ifdef WAIT

static int32_t run_later(es_context *context, es_batch *batch) {
    batch->ticket = 77;
    return run(context, batch);
}

static int32_t wait_for_all(es_context *context, uint64_t ticket) {
    (void)context;
    if (ticket != 77) return ES_INVALID;

    return WAIT;
}
#endif

#ifdef PRINTS
#include <stdio.h>
#endif

#ifdef CRASHES
static int32_t crash(es_context *context, es_batch *batch) {
    (void)context, (void)batch;
    abort();
}
#endif

#ifndef NO_SYMBOL
ES_EXPORT int32_t es_get_api(uint32_t host_abi, const es_api **out) {
#ifdef REFUSES
    (void)host_abi;
    return ES_UNSUPPORTED;
#endif
#ifdef PRINTS
    puts("hello");
    fflush(stdout);
#endif
    const es_api *toy_table = NULL;
    const int32_t code = toy_get_api(host_abi, &toy_table);
    if (code != ES_OK) return code;
    table.known = *toy_table;
    table.known.abi = ABI;
    table.known.size = SIZE;
#ifdef WITHOUT
    table.known.WITHOUT = NULL;
#endif
#ifdef MAX_ROWS
    table.known.query = few_at_once;
    table.known.run = run_few;
#endif
#ifdef PROMISES
    table.known.query = promise_less;
#endif
#ifdef WRITES
    table.known.run = run_and_write;
#endif
#ifdef OFF_BY_ONE
    table.known.run = run_wrongly;
#endif
#ifdef IMPOSSIBLE_LOGPROBS
    table.known.run = run_and_list_impossible_tokens;
#endif
#ifdef STATUS
    table.known.run = run_and_set_status;
#endif
#ifdef TOKEN
    table.known.run = run_and_set_token;
#endif
#ifdef IDLE
    table.known.run = run_once;
#endif
#ifdef LATE
    table.known.run = run_late;
    table.known.close = count_and_close;
#endif
#ifdef WAIT
    table.known.run = run_later;
    table.known.wait = wait_for_all;
#endif
#ifdef CRASHES
    table.known.run = crash;
#endif
    *out = &table.known;
    return ES_OK;
}
#endif
