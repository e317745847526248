/* How often each token has occurred, for requests with penalties: kept from one step to the next, so that a step
 * costs what is new. */
#ifndef ASCEND_HISTORIES_H
#define ASCEND_HISTORIES_H

#include <engine_sampler.h>

#include <stdbool.h>
#include <stdint.h>

typedef struct ascend_count {
    int64_t id; /* -1: nothing here */
    int32_t prompt, output;
} ascend_count;

typedef struct ascend_history {
    ascend_count *cells; /* [room], by hash; NULL: nothing is known */
    int64_t room, used; /* room is a power of two; how many different tokens */
    int64_t prompt_length, length;
    uint64_t changed; /* at which notice */
} ascend_history;

typedef struct ascend_histories {
    ascend_history *of_slots; /* [n] */
    int32_t n;
    uint64_t notices;
} ascend_histories;

/* Take notice of changes. What there is no memory for is not known from then on. */
void ascend_notice(ascend_histories *histories, const es_changes *changes);
/* What is known of a slot's request; NULL if nothing is. */
const ascend_history *ascend_history_of(const ascend_histories *histories, int32_t slot);
/* How often `id` has occurred; zeros if it has not. */
ascend_count ascend_count_of(const ascend_history *history, int64_t id);
void ascend_forget_all(ascend_histories *histories);
/* Whether penalties change anything for a request. */
bool ascend_is_penalized(const es_params *params);

#endif
