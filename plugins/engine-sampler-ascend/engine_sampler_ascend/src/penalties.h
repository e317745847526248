/* Penalties on the best tokens of a row. They only lower logits here, so that tokens which are not known stay below
 * the lowest that is; rows where they could raise one are declined. */
#ifndef ASCEND_PENALTIES_H
#define ASCEND_PENALTIES_H

#include "histories.h"

typedef struct ascend_penalties {
    float factor; /* of repetition */
    double frequency, presence;
    bool repetition_in_prompt, counting_in_prompt; /* beside the output */
    bool repeats, counts; /* which of them are on */
} ascend_penalties;

/* Read what a request asks for; false if this is nothing that only lowers logits, by counts of its whole history. */
bool ascend_read_penalties(const es_params *params, const ascend_history *history, ascend_penalties *out);
float ascend_penalized(float logit, const ascend_penalties *penalties, ascend_count count);

#endif
