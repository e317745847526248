/* Samplers of a third party, in C. */
#include <engine_sampler.h>

/* Add values[0]·(token mod 7), negated if a coin shows tails, and subtract values[1] for every token that the
 * state has counted. */
ES_EXPORT int32_t tilt(const es_row *row, float *logits, const int32_t *ids, int64_t n, void *state) {
    const float step = (float)row->values[0], fee = (float)row->values[1];
    const float sign = row->draw(row, 0) & 1 ? 1.0f : -1.0f;
    const float counted = state ? (float)*(const int64_t *)state : 0.0f;
    for (int64_t i = 0; i < n; i++) {
        const int64_t token = ids ? ids[i] : i;
        logits[i] = logits[i] + sign * step * (float)(token % 7) - fee * counted;
    }
    return 0;
}

/* Subtract from every token of the history: 1 for the prompt, 2 for the output. */
ES_EXPORT int32_t recall(const es_row *row, float *logits, const int32_t *ids, int64_t n, void *state) {
    (void)state;
    for (int64_t i = 0; i < n; i++)
        for (int64_t j = 0; j < row->length; j++)
            if (row->token_ids[j] == (ids ? ids[i] : i)) {
                logits[i] -= j < row->prompt_length ? 1.0f : 2.0f;
                break;
            }
    return 0;
}

ES_EXPORT int32_t refuse(const es_row *row, float *logits, const int32_t *ids, int64_t n, void *state) {
    (void)row, (void)logits, (void)ids, (void)n, (void)state;
    return 1;
}
