/* follow.h: the tokens that threads allow, put together from summaries and from what the parser says. */
#ifndef ES_GRAMMAR_FOLLOW_H
#define ES_GRAMMAR_FOLLOW_H

#include "grammar/mask.h"

/* Add the tokens below `node` that any of the threads on the stack from `base` on allows; takes them
 * off. Gives up where `patience` ends: `tired` says so. */
void es_follow(es_masks *m, es_out *out, int32_t base, int32_t node);

/* Add the special tokens that a thread allows. */
void es_follow_special(es_masks *m, es_out *out, es_thread thread);

/* Add the tokens that a state allows, byte by byte: it takes its time, and never more than there are nodes,
 * however many readings a text has. */
void es_follow_plainly(es_masks *m, es_out *out, int32_t state);

#endif
