/* The state of a text, byte by byte.
 *
 * A text can usually be read in several ways at once. Each is a thread: a row of the parser and, within it,
 * either a terminal in progress with its derivative, or no terminal yet. Threads are independent of each
 * other, so a state is a set of threads, and what may follow a state is what may follow any of them. States
 * are interned by content, and their steps are remembered.
 */
#pragma once

#include "grammar/base/tokens.h"
#include "grammar/parser/parser.h"

typedef struct eg_thread {
    int32_t row;
    int32_t terminal;   /* in progress; EG_ANY: all that the row expects; EG_LEXING: a lexer */
    int32_t expression; /* its derivative; -1 */
    int32_t guard;      /* what the text from here on must not begin with */
} eg_thread;

typedef struct eg_state {
    eg_thread *threads; /* ascending */
    int32_t count;
    bool accepting;     /* the text may end here */
    int32_t *steps;     /* [256] the state after each byte, or EG_UNKNOWN; NULL: only in `by_byte` */
} eg_state;

/* Of eg_thread.terminal; EG_NARROW: like EG_ANY, without wide terminals (never in a state). */
enum { EG_ANY = -1, EG_LEXING = -2, EG_NARROW = -3 };
/* States: not known, none, of the empty text, after EOS. */
enum { EG_UNKNOWN = -2, EG_DEAD = -1, EG_START = 0, EG_ENDED = 1 };

typedef struct eg_states {
    eg_rows rows;
    const eg_tokens *tokens;
    EG_VECTOR(eg_state) states;
    EG_VECTOR(eg_thread) work; /* a stack of threads of the state under construction */
    bool filtering;            /* only the bytes `wanted` (eg_bytes_fold) can come next: ... */
    uint64_t wanted;           /* ... threads that accept none of them are not pushed, only recorded here */
    bool filtered_out;
    EG_VECTOR(int32_t) begun;  /* a count, then as many pairs of a terminal and its derivative */
    eg_map begun_by_byte;      /* (core, byte, plus 256 for EG_NARROW) to an offset in `begun` */
    eg_set by_content;
    eg_map by_byte;            /* (state, byte) to state */
    eg_map by_token;           /* (state, token) to state */
} eg_states;

void eg_states_open(eg_states *s, eg_pool *pool, eg_expressions *expressions, const eg_tokens *tokens,
                    eg_rules *rules);

/* The index of `thread` in a state; -1. */
int32_t eg_state_find(const eg_states *s, int32_t state, const eg_thread *thread);

/* The state of the threads on `work` from `base` on, which are popped; EG_DEAD if there are none. */
int32_t eg_state_intern(eg_states *s, int32_t base);

/* Sort the states' threads, and the states, after the numbers of expressions in them have changed. */
void eg_states_renumber(eg_states *s);

/* Discard the unfinished work of a call that faulted. */
static inline void eg_states_reset(eg_states *s) {
    s->work.count = 0;
    s->filtering = false;
}

/* The state after a byte, or a special token; EG_DEAD if it cannot follow. */
int32_t eg_state_step(eg_states *s, int32_t state, int byte);
int32_t eg_state_special(eg_states *s, int32_t state, int32_t token);

/* Prepare for many steps from `state`: they are looked up in a table of its own. */
void eg_state_widen(eg_states *s, int32_t state);

/* The state after a token of any kind but EOS. */
int32_t eg_state_token(eg_states *s, int32_t state, int32_t token);

/* Push on `work` what the thread becomes after `byte`, with the rows that begin there. */
void eg_thread_step(eg_states *s, eg_thread thread, int byte);

/* The same for a thread that begins in `row` with one of its terminals; `guard` is the one after the byte. */
void eg_thread_read(eg_states *s, int32_t row, int32_t terminal, int32_t guard, int byte);

/* Push what follows in `row` after `token`, read as a whole, if it is one of its terminal `terminal`. */
void eg_thread_special(eg_states *s, int32_t row, int32_t terminal, int32_t token);

/* The row after an entry of a lexer: after an ignored one, the same row. */
static inline int32_t eg_row_after(eg_rows *r, int32_t row, int32_t entry) {
    return entry & EG_IGNORED ? row : eg_row_advance(r, row, entry >> EG_ENTRY_BITS);
}

/* Whether the text may stop at the thread: end, if the row accepts, or continue with a special token. */
static inline bool eg_thread_stops(const eg_states *s, const eg_thread *t) {
    return t->terminal == EG_ANY && !eg_guard_bars_end(s->rows.expressions, t->guard);
}

/* Push the threads that begin in `row` under `guard`; none if nothing could follow. */
void eg_thread_begin(eg_states *s, int32_t row, int32_t guard);

/* Sort the threads on `work` from `base` on, drop duplicates, and join those that are at a beginning. */
void eg_threads_sort(eg_states *s, int32_t base);
