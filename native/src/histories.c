/* Drawn tokens join the histories, and the numbers that draw them (engine_sampler_histories.h). */
#include "engine_sampler_histories.h"

#include "engine_sampler_numbers.h"

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

void es_histories_draws(int64_t n, const uint64_t *seeds, const int64_t *positions, uint32_t stream,
                        uint32_t draw, uint64_t *numbers) {
    for (int64_t i = 0; i < n; i++) numbers[i] = es_draw64(seeds[i], positions[i], stream, draw);
}

/* Lengths are found as by the Z algorithm: of those before it, one needs only what lies within a repeat. */
int64_t es_histories_repeats(int64_t n, const int64_t *tokens, int64_t limit, int64_t least, int64_t *known,
                             int64_t *places, int64_t *lengths) {
    const int64_t *last = tokens + n - 1, kept = limit < n ? limit : n;
    int64_t left = 0, right = 0, count = 0; /* what is before the last `left` repeats up to `right` */
    for (int64_t i = 0; i < kept; i++) known[i] = 0;
    for (int64_t i = 1; i < n; i++) {
        int64_t length = 0;
        if (i < right) {
            length = known[i - left];
            if (length > right - i) length = right - i;
        } else if (least > 0) {
            while (i < n && last[-i] != *last) i++;
            if (i == n) break;
        }
        if (i + length >= right) {
            while (length < limit && i + length < n && last[-(i + length)] == last[-length]) length++;
            left = i;
            right = i + length;
        }
        if (i < kept) known[i] = length;
        if (length >= least) {
            places[count] = i;
            lengths[count++] = length;
        }
    }
    return count;
}
