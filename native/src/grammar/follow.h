/* follow.h: the tokens that threads allow, put together from summaries and from what the parser says. */
#ifndef ES_GRAMMAR_FOLLOW_H
#define ES_GRAMMAR_FOLLOW_H

#include "grammar/mask.h"

/* Add the tokens below `node` that any of the threads on the stack from `base` on allows; takes them
 * off. Gives up where `patience` ends: `tired` says so. */
void eg_follow(eg_masks *m, eg_out *out, int32_t base, int32_t node);

/* Add the special tokens that a thread allows. */
void eg_follow_special(eg_masks *m, eg_out *out, eg_thread thread);

/* Add the tokens that a state allows, byte by byte: it takes its time, and never more than there are nodes,
 * however many readings a text has. */
void eg_follow_bytewise(eg_masks *m, eg_out *out, int32_t state);

#endif
