/* Drawn tokens join the histories, and the numbers that draw them (engine_sampler_histories.h). */
#include "engine_sampler_histories.h"

#include "numbers.h"

int64_t es_histories_append(const es_histories *histories, int64_t n, const int64_t *slots,
                            const int64_t *tokens, const double *notes, uint8_t *due) {
    for (int64_t i = 0; i < n; i++)
        if (tokens[i] < 0 || tokens[i] >= histories->vocab_size) return -1;
    int64_t count = 0;
    for (int64_t i = 0; i < n; i++) {
        const int64_t slot = slots[i], length = histories->lengths[slot] + 1;
        const int64_t cell = histories->offsets[slot] + length - 1;
        histories->tokens[cell] = tokens[i];
        histories->notes[cell] = notes[i];
        histories->positions[slot]++;
        /* Last: another thread may read the history meanwhile, the length first. */
        __atomic_store_n(&histories->lengths[slot], length, __ATOMIC_RELEASE);
        due[i] = histories->always[slot] || histories->watched[tokens[i]] ||
                 length >= histories->limits[slot];
        count += due[i];
    }
    return count;
}

void es_histories_draws(int64_t n, const uint64_t *seeds, const int64_t *positions, uint32_t stream, uint32_t draw,
                        uint64_t *numbers) {
    for (int64_t i = 0; i < n; i++) numbers[i] = es_draw64(seeds[i], positions[i], stream, draw);
}
