/* The tokens that threads allow, composed from summaries and the parser. */
#ifndef ES_GRAMMAR_FOLLOW_H
#define ES_GRAMMAR_FOLLOW_H

#include "grammar/masks/mask.h"

/* Add the tokens below `node` that any of the threads on the stack from `base` on allows, and pop the
 * threads. Gives up when `budget` is used up, and sets `exhausted`. */
void eg_follow(eg_masks *m, eg_out *out, int32_t base, int32_t node);

/* Add the special tokens that a thread allows. */
void eg_follow_special(eg_masks *m, eg_out *out, eg_thread thread);

/* Add the tokens that a state allows, byte by byte; false if more than `max_steps` steps between states were not
 * known before. Its time is bounded by the number of nodes, however many readings a text has, but texts may have
 * so many states that few steps are ever known. A call that does not finish is continued by the next one for the
 * same state. */
bool eg_follow_bytewise(eg_masks *m, eg_out *out, int32_t state, int64_t max_steps);

/* The mask of `state` is kept: the walk that found its tokens is no longer needed. */
void eg_follow_done(eg_masks *m, int32_t state);

#endif
