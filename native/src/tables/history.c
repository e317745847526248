#include "tables/history.h"

#include <stdlib.h>
#include <string.h>

#include "engine_sampler_numbers.h"

/* With more new tokens than this, a table is rebuilt, in time linear in the tokens. */
#define FEW 32

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

static int64_t doubled(int64_t capacity, int64_t need) {
    capacity = most(capacity, 64);
    while (capacity < need) capacity *= 2;
    return capacity;
}

/* Reallocate the array that the pointer at `array` holds; without memory it is unchanged. */
static int grow(void *array, int64_t capacity, size_t size) {
    void *old, *new;
    memcpy(&old, array, sizeof old);
    new = realloc(old, (size_t)capacity * size);
    if (!new) return -1;
    memcpy(array, &new, sizeof new);
    return 0;
}

/* Where the newest `reach` tokens (-1: all) at or after `start` begin. */
static int64_t window_begin(int64_t length, int64_t start, int64_t reach) {
    return reach < 0 || reach > length ? start : most(start, length - reach);
}

/* --- sorting --- */

/* Items are token ids of 32 bits, or `wide`: a token's id in the high half, its place in the low one. `wide` is
 * a constant wherever these are called. */

static inline uint64_t item_at(const void *items, int64_t i, int wide) {
    return wide ? ((const uint64_t *)items)[i] : ((const uint32_t *)items)[i];
}

static inline void set_item(void *items, int64_t i, uint64_t item, int wide) {
    if (wide) ((uint64_t *)items)[i] = item;
    else ((uint32_t *)items)[i] = (uint32_t)item;
}

static inline void insertion_sort(void *items, int64_t n, int wide) {
    for (int64_t i = 1; i < n; i++) {
        const uint64_t item = item_at(items, i, wide);
        int64_t to = i;
        for (; to > 0 && item_at(items, to - 1, wide) > item; to--)
            set_item(items, to, item_at(items, to - 1, wide), wide);
        set_item(items, to, item, wide);
    }
}

enum { DIGIT = 10 }; /* the most bits of a pass: its counts stay in the fastest cache */

/* One stable pass over the `bits` bits at `shift`. */
static inline void radix_pass(const void *from, void *to, int64_t n, int shift, int bits, int wide) {
    int64_t starts[(1 << DIGIT) + 1] = {0};
    const uint64_t last = ((uint64_t)1 << bits) - 1;
    for (int64_t i = 0; i < n; i++) starts[1 + (item_at(from, i, wide) >> shift & last)]++;
    for (uint64_t digit = 0; digit < last; digit++) starts[digit + 1] += starts[digit];
    for (int64_t i = 0; i < n; i++) {
        const uint64_t item = item_at(from, i, wide);
        set_item(to, starts[item >> shift & last]++, item, wide);
    }
}

/* Sort items [n] by token; places, if there are any, are already ascending. spare [n]. Returns the array that
 * then holds the items. */
static inline void *sort_items(void *items, void *spare, int64_t n, int wide) {
    const int low = wide ? 32 : 0;
    uint64_t top = 0;
    int sorted = 1, width = 0;
    for (int64_t i = 0; i < n; i++) {
        sorted &= i == 0 || item_at(items, i, wide) >= item_at(items, i - 1, wide);
        top |= item_at(items, i, wide) >> low;
    }
    if (sorted) return items;
    if (n <= FEW) {
        insertion_sort(items, n, wide);
        return items;
    }
    while (top >> width) width++;
    const int passes = (width + DIGIT - 1) / DIGIT, bits = (width + passes - 1) / passes;
    for (int shift = 0; shift < width; shift += bits) {
        radix_pass(items, spare, n, low + shift, bits, wide);
        void *const swapped = items;
        items = spare;
        spare = swapped;
    }
    return items;
}

/* The tokens at first .. first + n - 1 with their places, sorted by token, then by place. `memory` has room for
 * 2 n of them; the result lies in one of its halves. */
static const uint64_t *sort_tokens(uint64_t *memory, const int64_t *tokens, int64_t first, int64_t n) {
    for (int64_t i = 0; i < n; i++) memory[i] = (uint64_t)tokens[first + i] << 32 | (uint64_t)(first + i);
    return sort_items(memory, memory + n, n, 1);
}

static int32_t token_of(uint64_t item) { return (int32_t)(item >> 32); }
static int32_t place_of(uint64_t item) { return (int32_t)item; }

/* --- windows of the penalties --- */

static int window_reserve(es_window *window, int64_t need) {
    if (need <= window->capacity) return 0;
    const int64_t capacity = doubled(window->capacity, need);
    if (grow(&window->ids, capacity, sizeof *window->ids)) return -1;
    if (grow(&window->counts, capacity, sizeof *window->counts)) return -1;
    if (grow(&window->last, capacity, sizeof *window->last)) return -1;
    window->capacity = capacity;
    return 0;
}

/* The first entry whose id is at least `id`. */
static int64_t window_find(const es_window *window, int64_t id) {
    const int32_t *base = window->ids;
    for (int64_t n = window->n; n > 0;) {
        const int64_t half = (n + 1) / 2;
        base += base[half - 1] < id ? half : 0;
        n -= half;
    }
    return base - window->ids;
}

static void window_shift(es_window *window, int64_t from, int64_t to) {
    const size_t n = (size_t)(window->n - from);
    memmove(window->ids + to, window->ids + from, n * sizeof *window->ids);
    memmove(window->counts + to, window->counts + from, n * sizeof *window->counts);
    memmove(window->last + to, window->last + from, n * sizeof *window->last);
    window->n += to - from;
}

static int window_add(es_window *window, int64_t id, int64_t index) {
    if (window_reserve(window, window->n + 1)) return -1;
    const int64_t at = window_find(window, id);
    if (at == window->n || window->ids[at] != id) {
        window_shift(window, at, at + 1);
        window->ids[at] = (int32_t)id;
        window->counts[at] = 0;
    }
    window->counts[at]++;
    window->last[at] = index;
    return 0;
}

static void window_remove(es_window *window, int64_t id) {
    const int64_t at = window_find(window, id);
    if (--window->counts[at] == 0) window_shift(window, at + 1, at);
}

/* Replace the window by the tokens of sorted items [n]. */
static int window_fill(es_window *window, const uint64_t *items, int64_t n) {
    window->n = 0;
    for (int64_t i = 0; i < n; i++) {
        if (i == 0 || token_of(items[i - 1]) != token_of(items[i])) {
            if (window_reserve(window, window->n + 1)) return -1;
            window->ids[window->n] = token_of(items[i]);
            window->counts[window->n++] = 0;
        }
        window->counts[window->n - 1]++;
        window->last[window->n - 1] = place_of(items[i]);
    }
    return 0;
}

static int window_make(es_window *window, const es_span *span, int64_t first) {
    const int64_t n = span->length - first;
    uint64_t *memory = malloc(2 * (size_t)n * sizeof *memory);
    if (!memory) return -1;
    const int failed = window_fill(window, sort_tokens(memory, span->tokens, first, n), n);
    free(memory);
    window->first = first;
    window->end = span->length;
    return failed;
}

static int window_sync(es_window *window, const es_span *span, int64_t reach, int32_t output_only) {
    if (reach == 0) return 0;
    const int64_t start = output_only ? span->prompt_length : 0;
    const int64_t first = window_begin(span->length, start, reach);
    if (window->end < start) window->first = window->end = start;
    if (span->length - window->end > FEW) return window_make(window, span, first);
    for (; window->end < span->length; window->end++) {
        if (window_add(window, span->tokens[window->end], window->end)) return -1;
    }
    for (; window->first < first; window->first++) window_remove(window, span->tokens[window->first]);
    return 0;
}

/* --- occurrences of tokens --- */

/* The list of `token`, or the free slot where it belongs. */
static es_places *index_find(const es_index *index, int64_t token) {
    const int64_t mask = index->slots - 1;
    int64_t slot = (int64_t)((uint64_t)token * 0x9E3779B97F4A7C15u >> 32) & mask;
    while (index->lists[slot].n && index->lists[slot].token != token) slot = (slot + 1) & mask;
    return &index->lists[slot];
}

/* Make room for one more token: at most half of the table is in use. */
static int index_widen(es_index *index) {
    if (2 * (index->tokens + 1) <= index->slots) return 0;
    es_index wide = *index;
    wide.slots = doubled(0, 4 * index->slots);
    wide.lists = calloc((size_t)wide.slots, sizeof *wide.lists);
    if (!wide.lists) return -1;
    for (int64_t slot = 0; slot < index->slots; slot++) {
        if (index->lists[slot].n) *index_find(&wide, index->lists[slot].token) = index->lists[slot];
    }
    free(index->lists);
    *index = wide;
    return 0;
}

/* Move a full list to the end of the pool with twice the room; its old space is not reused. */
static int index_move(es_index *index, es_places *list) {
    const int64_t room = list->n ? 2 * (int64_t)list->n : 1;
    if (index->used + room > index->capacity) {
        const int64_t capacity = doubled(index->capacity, index->used + room);
        if (grow(&index->pool, capacity, sizeof *index->pool)) return -1;
        index->capacity = capacity;
    }
    int32_t *to = index->pool + index->used;
    if (list->n) memcpy(to, index->pool + list->start, (size_t)list->n * sizeof *to);
    list->start = index->used;
    index->used += room;
    return 0;
}

static int index_sync(es_index *index, const es_span *span) {
    for (; index->end < span->length; index->end++) {
        const int64_t token = span->tokens[index->end];
        if (index_widen(index)) return -1;
        es_places *list = index_find(index, token);
        if ((list->n & (list->n - 1)) == 0 && index_move(index, list)) return -1;
        index->tokens += list->n == 0;
        list->token = (int32_t)token;
        index->pool[list->start + list->n++] = (int32_t)index->end;
    }
    return 0;
}

/* The positions of the token at `place`, and how many of them come before it. */
static const int32_t *earlier_places(const es_index *index, const int64_t *tokens, int64_t place,
                                     int64_t *n) {
    const es_places *list = index_find(index, tokens[place]);
    const int32_t *places = index->pool + list->start;
    *n = list->n;
    while (places[*n - 1] > place) (*n)--;
    (*n)--;
    return places;
}

/* --- repeats --- */

static int is_breaker(const uint8_t *heads, int64_t token) { return heads && heads[token] == 3; }

static int64_t sequence_begin(const es_sequences *sequences, int64_t i) {
    return i ? sequences->ends[i - 1] : 0;
}

static int64_t longest_sequence(const es_sequences *sequences) {
    int64_t longest = 0;
    for (int64_t i = 0; i < sequences->n; i++) {
        longest = most(longest, sequences->ends[i] - sequence_begin(sequences, i));
    }
    return longest;
}

/* The first breaker that begins with `head`. */
static int64_t first_of_head(const es_sequences *breakers, int64_t head) {
    int64_t low = 0, high = breakers->n;
    while (low < high) {
        const int64_t middle = (low + high) / 2;
        if (breakers->tokens[sequence_begin(breakers, middle)] < head) low = middle + 1;
        else high = middle;
    }
    return low;
}

/* The length of the longest breaker at `place`; 0 if there is none. */
static int64_t breaker_at(const es_sequences *breakers, const es_span *span, int64_t place) {
    const int64_t *at = span->tokens + place;
    for (int64_t i = first_of_head(breakers, *at); i < breakers->n; i++) {
        const int64_t *sequence = breakers->tokens + sequence_begin(breakers, i);
        const int64_t n = breakers->ends[i] - sequence_begin(breakers, i);
        if (*sequence != *at) break;
        if (n > span->length - place || sequence[n - 1] != at[n - 1]) continue;
        if (memcmp(sequence, at, (size_t)n * sizeof *at) == 0) return n;
    }
    return 0;
}

/* The breaker that begins last counts; of those that begin there, the longest. A breaker completed by new
 * tokens begins no further back than the longest breaker reaches. */
static void repeats_break(es_repeats *repeats, const es_span *span, const es_params *params) {
    if (!params->breaker_heads) return;
    if (!repeats->runs.end) repeats->longest_breaker = longest_sequence(&params->breakers);
    const int64_t lowest = most(repeats->breaker_place, repeats->runs.end + 1 - repeats->longest_breaker);
    for (int64_t place = span->length - 1; place >= lowest; place--) {
        if (!params->breaker_heads[span->tokens[place]]) continue;
        const int64_t n = breaker_at(&params->breakers, span, place);
        if (n) {
            repeats->breaker_place = place;
            repeats->breaker_end = place + n;
            return;
        }
    }
}

/* How many tokens follow the newest breaker in the window that starts at `first`. */
static int64_t repeats_unbroken(const es_repeats *repeats, int64_t length, int64_t first) {
    const int broken = repeats->breaker_end && repeats->breaker_place >= first;
    return length - (broken ? repeats->breaker_end : first);
}

/* The runs of the token at `newest`, from those of the token before it. Newest occurrence first, so that
 * run[j - 1] still belongs to the previous step. */
static void runs_step(int32_t *restrict run, const es_index *index, const int64_t *tokens, int64_t newest,
                      int64_t first) {
    int64_t n;
    const int32_t *restrict places = earlier_places(index, tokens, newest, &n);
    for (; n && places[n - 1] > first; n--) {
        const int64_t j = places[n - 1];
        run[j] = 1 + (run[j - 1] & -(tokens[j - 1] == tokens[newest - 1]));
    }
    if (n && places[n - 1] == first) run[first] = 1;
}

/* The same from the tokens alone: the Z function of the window read backwards. */
static void runs_make(int32_t *run, const int64_t *tokens, int64_t newest, int64_t first) {
    const int64_t size = newest - first + 1;
    /* The tokens ending at newest - left are known to repeat right - left tokens. */
    int64_t left = 0, right = 0;
    run[newest] = 0;
    for (int64_t back = 1; back < size; back++) {
        int64_t n = back < right ? least(right - back, run[newest - (back - left)]) : 0;
        while (back + n < size && tokens[newest - back - n] == tokens[newest - n]) n++;
        if (back + n > right) {
            left = back;
            right = back + n;
        }
        run[newest - back] = (int32_t)n;
    }
}

/* Runs need not cross the single tokens that `heads` marks as breakers, unless it is NULL, nor go further back
 * than the newest `reach` tokens (-1: all). */
static int runs_sync(es_runs *runs, const es_index *index, const es_span *span, const uint8_t *heads,
                     int64_t reach) {
    if (span->length > runs->capacity) {
        const int64_t capacity = doubled(runs->capacity, span->length);
        if (grow(&runs->run, capacity, sizeof *runs->run)) return -1;
        runs->capacity = capacity;
    }
    if (span->length - runs->end > FEW) {
        runs_make(runs->run, span->tokens, span->length - 1, window_begin(span->length, 0, reach));
        runs->end = span->length;
    }
    for (int64_t i = runs->end; i < span->length; i++) {
        runs->run[i] = 0;
        if (is_breaker(heads, span->tokens[i])) continue; /* no repeat extends across a breaker */
        runs_step(runs->run, index, span->tokens, i, window_begin(i + 1, 0, reach));
    }
    runs->end = span->length;
    return 0;
}

static int repeats_sync(es_repeats *repeats, const es_index *index, const es_span *span,
                        const es_params *params) {
    if (repeats->runs.end == span->length) return 0;
    repeats_break(repeats, span, params);
    return runs_sync(&repeats->runs, index, span, params->breaker_heads, params->dry_penalty_last_n);
}

/* Whether the tokens before an n-gram's last one are too many to compare at every place. */
static int is_long(int64_t n) { return n > FEW; }

/* --- notes of selectors --- */

static void surprise_sync(es_surprise *surprise, const es_span *span, const es_params *params) {
    if (!surprise->end) {
        surprise->mu = 2.0 * params->mirostat_tau;
        surprise->end = span->prompt_length;
    }
    for (; surprise->end < span->length; surprise->end++) {
        const double note = span->notes[surprise->end];
        if (note == note) surprise->mu -= params->mirostat_eta * (note - params->mirostat_tau);
    }
}

static void average_sync(es_average *average, const es_span *span, const es_params *params) {
    const double decay = params->adaptive_decay;
    if (!average->end) {
        average->weighted = params->adaptive_target / (1.0 - decay);
        average->total = 1.0 / (1.0 - decay);
        average->end = span->prompt_length;
    }
    for (; average->end < span->length; average->end++) {
        const double note = span->notes[average->end];
        if (note != note) continue;
        average->weighted = note + decay * average->weighted;
        average->total = 1.0 + decay * average->total;
    }
}

/* --- the history --- */

/* Discard the tokens, keep the memory. */
static void history_empty(es_history *history) {
    history->repeated.n = history->repeated.first = history->repeated.end = 0;
    history->counted.n = history->counted.first = history->counted.end = 0;
    if (history->index.tokens) {
        memset(history->index.lists, 0, (size_t)history->index.slots * sizeof *history->index.lists);
    }
    history->index.tokens = history->index.used = history->index.end = 0;
    history->repeats.runs.end = history->repeats.breaker_place = history->repeats.breaker_end = 0;
    history->grams.end = 0;
    history->surprise.end = history->average.end = 0;
}

static int history_tables(es_history *history, const es_span *span, const es_params *params, uint32_t needs) {
    if (needs & ES_NEED_REPEATED &&
        window_sync(&history->repeated, span, params->repetition_reach, params->repetition_output_only))
        return -1;
    if (needs & ES_NEED_COUNTED &&
        window_sync(&history->counted, span, params->counting_reach, params->counting_output_only))
        return -1;
    if (needs & (ES_NEED_INDEX | ES_NEED_DRY) && index_sync(&history->index, span)) return -1;
    if (needs & ES_NEED_INDEX && is_long(params->no_repeat_ngram_size) &&
        runs_sync(&history->grams, &history->index, span, NULL, -1))
        return -1;
    if (needs & ES_NEED_DRY && repeats_sync(&history->repeats, &history->index, span, params)) return -1;
    if (needs & ES_NEED_MU) surprise_sync(&history->surprise, span, params);
    if (needs & ES_NEED_AVERAGE) average_sync(&history->average, span, params);
    return 0;
}

/* Replace the array that the pointer at `array` holds by a copy of n elements. */
static int copy_array(void *array, const void *from, int64_t n, int64_t capacity, size_t size) {
    void *copy = malloc((size_t)capacity * size), *old;
    if (!copy) return -1;
    memcpy(copy, from, (size_t)n * size);
    memcpy(&old, array, sizeof old);
    free(old);
    memcpy(array, &copy, sizeof copy);
    return 0;
}

static void window_copy(es_window *window, const es_window *from) {
    if (from->n == 0 || window_reserve(window, from->n)) return;
    memcpy(window->ids, from->ids, (size_t)from->n * sizeof *window->ids);
    memcpy(window->counts, from->counts, (size_t)from->n * sizeof *window->counts);
    memcpy(window->last, from->last, (size_t)from->n * sizeof *window->last);
    window->n = from->n;
    window->first = from->first;
    window->end = from->end;
}

static void index_copy(es_index *index, const es_index *from) {
    es_index copy = *from;
    copy.lists = NULL;
    copy.pool = NULL;
    if (from->tokens == 0) return;
    if (copy_array(&copy.lists, from->lists, from->slots, from->slots, sizeof *copy.lists)) return;
    if (copy_array(&copy.pool, from->pool, from->used, from->capacity, sizeof *copy.pool)) {
        free(copy.lists);
        return;
    }
    free(index->lists);
    free(index->pool);
    *index = copy;
}

void es_history_begin_as(es_history *history, uint64_t epoch, const es_span *span, const es_params *params,
                         const es_known_history *known) {
    const es_span *shared = &known->span;
    const es_params *theirs = known->params;
    if (shared->length > span->length || shared->prompt_length != span->prompt_length) return;
    if (memcmp(shared->tokens, span->tokens, (size_t)shared->length * sizeof *span->tokens)) return;
    history_empty(history);
    history->epoch = epoch;
    if (params->repetition_reach == theirs->repetition_reach &&
        params->repetition_output_only == theirs->repetition_output_only)
        window_copy(&history->repeated, &known->history->repeated);
    if (params->counting_reach == theirs->counting_reach &&
        params->counting_output_only == theirs->counting_output_only)
        window_copy(&history->counted, &known->history->counted);
    index_copy(&history->index, &known->history->index);
}

int es_history_sync(es_history *history, uint64_t epoch, const es_span *span, const es_params *params,
                    uint32_t needs) {
    if (history->epoch != epoch) history_empty(history);
    history->epoch = epoch;
    const int failed = history_tables(history, span, params, needs);
    if (failed) es_history_free(history);
    return failed;
}

static void window_free(es_window *window) {
    free(window->ids);
    free(window->counts);
    free(window->last);
}

void es_history_free(es_history *history) {
    window_free(&history->repeated);
    window_free(&history->counted);
    free(history->index.lists);
    free(history->index.pool);
    free(history->repeats.runs.run);
    free(history->grams.run);
    memset(history, 0, sizeof *history);
}

const es_window *es_history_repeated(const es_history *history) { return &history->repeated; }

const es_window *es_history_counted(const es_history *history) { return &history->counted; }

double es_history_mu(const es_history *history) { return history->surprise.mu; }

double es_history_average(const es_history *history) {
    return history->average.weighted / history->average.total;
}

/* --- tokens of a row --- */

/* Record `token` as the n-th if it is new, and `length` if it is longer. Returns the new n. */
static int64_t mark_token(es_marks *marks, int64_t n, int64_t token, int64_t length) {
    int32_t *mark = &marks->mark[token];
    if (!*mark) marks->ids[n++] = (int32_t)token;
    if (*mark <= length) *mark = (int32_t)length + 1;
    return n;
}

/* Sort the n marked tokens, write their lengths and clear the marks. */
static int64_t marks_gather(es_marks *marks, int64_t n) {
    const void *const ids = sort_items(marks->ids, marks->lengths, n, 0);
    if (ids != marks->ids) memcpy(marks->ids, ids, (size_t)n * sizeof *marks->ids);
    for (int64_t i = 0; i < n; i++) {
        int32_t *mark = &marks->mark[marks->ids[i]];
        marks->lengths[i] = *mark - 1;
        *mark = 0;
    }
    return n;
}

/* The repeat length from which the penalty no longer grows: base^j has passed FLT_MAX. */
static int64_t longest_useful(double base, int64_t allowed) {
    return base == 1 ? allowed : allowed + (int64_t)es_ceil(128 / es_log2(base)) + 1;
}

int64_t es_dry_tokens(const es_history *history, const es_span *span, const es_params *params,
                      es_marks *marks) {
    const int64_t first = window_begin(span->length, 0, params->dry_penalty_last_n);
    const int64_t newest = span->length - 1, allowed = params->dry_allowed_length;
    const uint8_t *const heads = params->breaker_heads;
    if (allowed > newest - first) return 0; /* no repeat in the window can be that long */
    const int64_t limit = least(repeats_unbroken(&history->repeats, span->length, first),
                                longest_useful(params->dry_base, allowed));
    if (limit < allowed) return 0;
    int64_t found = 0, n;
    if (allowed == 0) {
        for (int64_t i = first + 1; i <= newest; i++) {
            if (!is_breaker(heads, span->tokens[i])) found = mark_token(marks, found, span->tokens[i], 0);
        }
    }
    const int32_t *places = earlier_places(&history->index, span->tokens, newest, &n);
    for (; n && places[n - 1] >= first; n--) {
        const int64_t j = places[n - 1], next = span->tokens[j + 1];
        const int64_t length = least(least(history->repeats.runs.run[j], j - first + 1), limit);
        if (length >= allowed && !is_breaker(heads, next)) found = mark_token(marks, found, next, length);
    }
    return marks_gather(marks, found);
}

/* Whether the n - 1 tokens up to `place` are the span's last ones. */
static int gram_repeats(const es_history *history, const es_span *span, int64_t n, int64_t place) {
    if (is_long(n)) return history->grams.run[place] >= n - 1;
    const int64_t *tokens = span->tokens, newest = span->length - 1;
    int64_t back = 1;
    while (back < n - 1 && tokens[place - back] == tokens[newest - back]) back++;
    return back == n - 1;
}

int64_t es_ngram_tokens(const es_history *history, const es_span *span, const es_params *params,
                        es_marks *marks) {
    const int64_t *tokens = span->tokens, newest = span->length - 1, n = params->no_repeat_ngram_size;
    if (n < 1 || n > span->length) return 0;
    int64_t found = 0, earlier;
    if (n == 1) {
        for (int64_t i = 0; i <= newest; i++) found = mark_token(marks, found, tokens[i], 0);
        return marks_gather(marks, found);
    }
    const int32_t *places = earlier_places(&history->index, tokens, newest, &earlier);
    for (; earlier && places[earlier - 1] >= n - 2; earlier--) {
        const int64_t place = places[earlier - 1];
        if (gram_repeats(history, span, n, place)) found = mark_token(marks, found, tokens[place + 1], 0);
    }
    return marks_gather(marks, found);
}

int64_t es_bad_word_tokens(const es_span *span, const es_params *params, es_marks *marks) {
    const es_sequences *words = &params->bad_words;
    int64_t found = 0;
    for (int64_t i = 0; i < words->n; i++) {
        const int64_t *word = words->tokens + sequence_begin(words, i);
        const int64_t before = words->ends[i] - sequence_begin(words, i) - 1;
        if (before > span->length) continue;
        const int64_t *end = span->tokens + span->length;
        int64_t back = 1; /* the newest token first: most comparisons fail there */
        while (back <= before && word[before - back] == end[-back]) back++;
        if (back > before) found = mark_token(marks, found, word[before], 0);
    }
    return marks_gather(marks, found);
}
