/* What tests of the host need: calls that fail on demand, and a count of live contexts. Only in libraries
 * compiled with -D TOY_FAULTS. */
#ifndef TOY_FAULTS_H
#define TOY_FAULTS_H

static struct {
    const char *call;
    int32_t skip, times, code, live;
} toy;

/* Let the next `skip` calls of `call` ("open", "query", "compile", "run") succeed, and make the `times` calls
 * after them fail with `code`. */
ES_EXPORT void toy_fail(const char *call, int32_t skip, int32_t times, int32_t code);

/* The number of open contexts. */
ES_EXPORT int32_t toy_live(void);

void toy_fail(const char *call, int32_t skip, int32_t times, int32_t code) {
    toy.call = call;
    toy.skip = skip;
    toy.times = times;
    toy.code = code;
}

int32_t toy_live(void) { return toy.live; }

static int32_t toy_fault(const char *call) {
    if (!toy.call || strcmp(toy.call, call) != 0 || toy.skip-- > 0) return ES_OK;
    return toy.times-- > 0 ? toy.code : ES_OK;
}

#define TOY_FAULT(call) toy_fault(call)
#define TOY_LIVES(change) ((void)(toy.live += (change)))
#endif
