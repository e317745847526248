/* Matchers, and how each call on one is performed. */
#pragma once

#include "grammar/masks/grammar.h"

typedef struct eg_accept {
    int32_t place; /* after it */
    int32_t token; /* -1 for bytes */
    int64_t end;   /* of its bytes, in `bytes` */
} eg_accept;

struct es_matcher {
    es_grammar *grammar;
    int64_t built;   /* which tables the states belong to */
    eg_accept *accepts;
    int64_t count, room;
    uint8_t *bytes;  /* of accepts that are not tokens */
    int64_t bytes_room;
    int64_t carried; /* the work of its unfinished calls so far */
    int emptied;     /* how often memory has run out since its last call that finished */
    bool exceeded;   /* a budget has been exceeded */
    bool waits;      /* the last call stopped since the memory is another's */
    char error[256];
};

static inline int32_t eg_matcher_place(const es_matcher *m) {
    return m->count ? m->accepts[m->count - 1].place : EG_START;
}

static inline int32_t eg_matcher_state(const es_matcher *m) {
    return eg_place_state(&m->grammar->places, eg_matcher_place(m));
}

typedef int64_t eg_task(es_matcher *matcher, void *arguments);

/* Perform `task` for a matcher. What an unfinished call has added to the tables stays there, so the next one
 * gets further. Returns what the task returns, or a negated es_grammar_code. */
int64_t eg_matcher_call(es_matcher *m, eg_task *task, void *arguments, es_grammar_work *work);

/* Let others use the memory that the matcher may have claimed. */
void eg_matcher_release(es_matcher *m);
