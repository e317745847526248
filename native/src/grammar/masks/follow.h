/* The tokens that threads allow, composed from summaries and the parser.
 *
 * Most of a mask depends on one terminal alone: the tokens that end before the terminal does. They are found
 * once per expression by walking the trie of all tokens (a summary, shared by all grammars), together with
 * the positions inside tokens at which the terminal can end. Only there is the parser consulted, for the
 * remainders of those tokens, grouped by their first byte.
 */
#pragma once

#include "grammar/masks/token_set.h"
#include "grammar/masks/vocabulary.h"
#include "grammar/parser/state.h"

/* A walk through the vocabulary's trie that is continued by the next call. */
typedef struct eg_walk {
    int32_t state;             /* at the root */
    int32_t node;              /* the next one; 0: there is no walk */
    int32_t *path;             /* the states on the path to it, by depth */
    EG_VECTOR(int32_t) tokens; /* found so far */
    int64_t last;              /* when it was called for; 0: it is free */
} eg_walk;

enum { EG_WALKS = 16 }; /* how many are kept unfinished */

typedef struct eg_follower {
    eg_states *states;
    es_vocabulary *vocabulary;
    eg_token_sets sets;
    int64_t budget;              /* nodes left to walk before `exhausted` */
    bool exhausted;
    int64_t compare_budget;      /* nodes at which a looser expression may still be compared */
    int32_t *path;               /* nodes of a path through a trie */
    EG_VECTOR(int32_t) wrong;    /* a stack of tokens to remove from sets under construction */
    eg_walk walks[EG_WALKS + 1]; /* the last one is not kept */
    int64_t walked;              /* how often any was called for */
} eg_follower;

/* Follow the texts of `states`, in its pool; before use, it gets a vocabulary. */
void eg_follower_open(eg_follower *f, eg_states *states);
void eg_follower_attach(eg_follower *f, es_vocabulary *vocabulary);

/* Add the tokens below `node` that any of the threads on the stack from `base` on allows, and pop the
 * threads. Gives up when `budget` is used up, and sets `exhausted`. */
void eg_follow(eg_follower *f, eg_token_set *set, int32_t base, int32_t node);

/* Add the special tokens that a thread allows. */
void eg_follow_special(eg_follower *f, eg_token_set *set, eg_thread thread);

/* Add the tokens that a state allows, byte by byte; false if more than `max_steps` steps between states
 * were not known before. Its time is bounded by the number of nodes, however many readings a text has, but
 * texts may have so many states that few steps are ever known. A call that does not finish is continued by
 * the next one for the same state. */
bool eg_follow_bytewise(eg_follower *f, eg_token_set *set, int32_t state, int64_t max_steps);

/* The mask of `state` is kept: the walk that found its tokens is no longer needed. */
void eg_follow_done(eg_follower *f, int32_t state);

/* --- for the parts of this module --- */

static inline eg_pool *eg_follower_pool(const eg_follower *f) { return f->states->rows.pool; }

/* Add the tokens that end at `node`. */
void eg_follow_node(eg_follower *f, eg_token_set *set, int32_t node);

/* Add the tokens below `node` that a terminal allows whose derivative is `e`. */
void eg_follow_terminal(eg_follower *f, eg_token_set *set, int32_t row, int32_t terminal, int32_t e,
                        int32_t node);

/* Add what may follow a terminal that ended at the exits of `g`: `row` is the one after it. */
void eg_follow_exits(eg_follower *f, eg_token_set *set, int32_t row, eg_group *g);

/* Add what may follow `e`, starting from the looser `whole`. If the two differ in too many places, nothing
 * is added and `whole` is not tried again. */
bool eg_follow_corrected(eg_follower *f, eg_token_set *set, int32_t row, int32_t terminal, int32_t e,
                         int32_t whole, int32_t node);
