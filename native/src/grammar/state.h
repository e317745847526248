/* state.h: where a text stands, byte by byte.
 *
 * A text can usually be read in several ways at once; each is a thread: a row of the parser, and within
 * it either a terminal under way, with the expression of what is still to come, or no terminal yet.
 * Threads do not know of each other, so a state is a set of threads, and what may follow a state is what
 * may follow any of them. States are kept by content, and so are their steps.
 */
#ifndef ES_GRAMMAR_STATE_H
#define ES_GRAMMAR_STATE_H

#include "grammar/row.h"

typedef struct es_thread {
    int32_t row;
    int32_t terminal;    /* under way; -1: any that the row expects may begin; ES_LEXER: see es_lexer */
    int32_t expression;  /* what is left of it; -1 */
    int32_t guard;       /* what the text from here on must not begin with */
} es_thread;

typedef struct es_state {
    es_thread *threads;  /* ascending */
    int32_t count;
    bool accepting;      /* the text may end here */
} es_state;

/* Of es_thread.terminal; ES_NARROW: as ES_ANY, but for wide ones (never in a state). */
enum { ES_ANY = -1, ES_LEXER = -2, ES_NARROW = -3 };
enum { ES_DEAD = -1, ES_START = 0, ES_OVER = 1 };  /* no state; of an empty text; behind EOS */

typedef struct es_states {
    es_rows rows;
    ES_VECTOR(es_state) states;
    ES_VECTOR(es_thread) work;  /* threads of the state in the making, as a stack */
    bool picky;                 /* only the bytes `wanted` (es_bytes_fold) can come next: threads that go on ... */
    uint64_t wanted;            /* ... with none of them are not pushed, and noted here */
    bool left_out;
    ES_VECTOR(int32_t) begun;   /* a count, and so many pairs of a terminal and what is left of it behind a byte */
    es_map begun_by_byte;       /* (core, byte, or that and 256 for ES_NARROW) to a place in `begun` */
    es_set by_content;
    es_map by_byte;             /* (state, byte) to state */
    es_map by_token;            /* (state, token) to state */
} es_states;

void es_states_open(es_states *s, es_pool *pool, es_vocabulary *vocabulary, es_rules *rules);
void es_states_close(es_states *s);

/* Forget what a call that faulted had begun. */
static inline void es_states_reset(es_states *s)
{
    s->work.count = 0;
    s->picky = false;
}

/* The state behind a byte, or a special token; ES_DEAD if it cannot follow. */
int32_t es_state_step(es_states *s, int32_t state, int byte);
int32_t es_state_special(es_states *s, int32_t state, int32_t token);

/* The state behind a token, of any kind but EOS. */
int32_t es_state_token(es_states *s, int32_t state, int32_t token);

/* Push on `work` what the thread becomes behind `byte`, with the rows that begin there. */
void es_thread_step(es_states *s, es_thread thread, int byte);

/* The same of a thread that begins in `row` with one of its terminals; `guard` is that behind the byte. */
void es_thread_read(es_states *s, int32_t row, int32_t terminal, int32_t guard, int byte);

/* The row behind an entry of a lexer: behind an ignored one the same. */
static inline int32_t es_row_behind(es_rows *r, int32_t row, int32_t entry)
{
    return entry & ES_IGNORED ? row : es_row_advance(r, row, entry >> ES_ENTRY_BITS);
}

/* Whether the text may stop where the thread stands: end, if the row says so, or go on with a special token. */
static inline bool es_thread_stops(const es_states *s, const es_thread *t)
{
    return t->terminal == ES_ANY && !es_guard_bars_end(&s->rows.vocabulary->expressions, t->guard);
}

/* The threads that begin in `row` under `guard`: pushes none where nothing could follow. */
void es_thread_begin(es_states *s, int32_t row, int32_t guard);

/* Sort the threads on `work` from `base` on, drop doubles, and join those that only begin. */
void es_threads_sort(es_states *s, int32_t base);

#endif
