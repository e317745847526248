/* engine_sampler_histories.h: drawn tokens join the histories of many requests; the numbers that draw them.
 *
 * What a scheduler does to every row before and after the draw, in one call: no signal handler of the host's
 * interpreter can run in the middle of it. Whatever only a few requests need is left to the host.
 */
#ifndef ENGINE_SAMPLER_HISTORIES_H
#define ENGINE_SAMPLER_HISTORIES_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#if defined(__GNUC__)
#pragma GCC visibility push(default)
#endif

/* The text between the two marks is also the host's cffi definition: plain declarations only. */
/* cdef: begin */

/* The histories of all requests. The history of a slot is tokens[offsets[slot] .. + lengths[slot]), and `notes`
 * parallels the tokens. */
typedef struct es_histories {
    int64_t *tokens;
    double *notes;
    const int64_t *offsets;
    int64_t *lengths;
    int64_t *positions;     /* the index of the next token, for the random numbers */
    const int64_t *limits;  /* the length from which on a request must be checked */
    const uint8_t *always;  /* 1: it must be checked after every token */
    const uint8_t *watched; /* [vocab_size], 1: a request that draws this token must be checked */
    int64_t vocab_size;
} es_histories;

/* Append tokens[i] with notes[i] to the history of slots[i], for every i below n. The slots are all different, and
 * each has room for its token. due[i] is then 1 if the request must be checked, else 0. Returns how many must be;
 * or -1, and nothing has changed, if a token is not in the vocabulary. */
int64_t es_histories_append(const es_histories *histories, int64_t n, const int64_t *slots,
                            const int64_t *tokens, const double *notes, uint8_t *due);

/* numbers[i] = 64 random bits for the token at positions[i] of a request with seeds[i], for every i below n:
 * number `draw` of a stream. */
void es_histories_draws(int64_t n, const uint64_t *seeds, const int64_t *positions, uint32_t stream,
                        uint32_t draw, uint64_t *numbers);

/* Where the end of a history of n tokens occurs earlier in it. For every i from 1 to n - 1, length(i) is how
 * many tokens before the last i are the last ones, in the same order; at most `limit` count. places[] are all i
 * with a length of at least `least`, ascending, lengths[] their lengths; both have room for n. Returns how many
 * there are. `known` is room for the lesser of limit and n to work in. The work is in proportion to n, whatever
 * repeats. */
int64_t es_histories_repeats(int64_t n, const int64_t *tokens, int64_t limit, int64_t least, int64_t *known,
                             int64_t *places, int64_t *lengths);

/* cdef: end */

#if defined(__GNUC__)
#pragma GCC visibility pop
#endif
#ifdef __cplusplus
}
#endif
#endif
