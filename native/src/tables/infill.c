#include "tables/infill.h"

#include <stdlib.h>
#include <string.h>

#include "engine_sampler_numbers.h"

/* A token that has text, and where its bytes are. */
typedef struct es_piece {
    const uint8_t *bytes;
    uint64_t head; /* the first eight bytes, big-endian */
    int32_t size;
    int32_t place; /* its index in the order given */
} es_piece;

/* The tokens that begin with a token's bytes: first .. last of the sorted pieces. */
typedef struct es_range {
    int32_t first, last;
} es_range;

#define NONE INT32_MAX

/* The working arrays of one call, in the scratch memory. */
typedef struct es_merger {
    int64_t *mass;    /* [n], by place */
    es_piece *sorted; /* [m] */
    es_piece *spare;  /* [m] */
    es_range *ranges; /* [m], by sorted index */
    int32_t *index;   /* [n], by place: sorted index, or -1 without text */
    int32_t *living;  /* [2·m] a tournament tree: the lowest living place below each node, or NONE */
    int64_t m;
} es_merger;

/* --- scratch --- */

#define BYTES_PER_TOKEN \
    (sizeof(int64_t) + 2 * sizeof(es_piece) + sizeof(es_range) + sizeof(int32_t) + 2 * sizeof(int32_t))

static int scratch_reserve(es_infill_scratch *scratch, int64_t n) {
    if (n <= scratch->capacity) return 0;
    int64_t capacity = scratch->capacity ? scratch->capacity : 256;
    while (capacity < n) capacity *= 2;
    free(scratch->memory);
    scratch->memory = malloc((size_t)capacity * BYTES_PER_TOKEN);
    scratch->capacity = scratch->memory ? capacity : 0;
    return scratch->memory ? 0 : -1;
}

void es_infill_free(es_infill_scratch *scratch) {
    free(scratch->memory);
    scratch->memory = NULL;
    scratch->capacity = 0;
}

static es_merger merger_of(const es_infill_scratch *scratch) {
    const int64_t n = scratch->capacity;
    es_merger merger;
    merger.mass = scratch->memory; /* wide members first, so that every array is aligned */
    merger.sorted = (es_piece *)(merger.mass + n);
    merger.spare = merger.sorted + n;
    merger.ranges = (es_range *)(merger.spare + n);
    merger.index = (int32_t *)(merger.ranges + n);
    merger.living = merger.index + n;
    merger.m = 0;
    return merger;
}

/* --- sorting pieces by their bytes --- */

static es_piece piece_of(const es_params *params, int32_t id, int32_t place) {
    const int64_t begin = id ? params->text_ends[id - 1] : 0;
    es_piece piece = {params->text + begin, 0, (int32_t)(params->text_ends[id] - begin), place};
    for (int32_t i = 0; i < 8; i++) {
        piece.head = piece.head << 8 | (i < piece.size ? piece.bytes[i] : 0);
    }
    return piece;
}

static int piece_above(const es_piece *a, const es_piece *b) {
    if (a->head != b->head) return a->head > b->head;
    const int32_t shorter = a->size < b->size ? a->size : b->size;
    const int order = shorter > 8 ? memcmp(a->bytes + 8, b->bytes + 8, (size_t)shorter - 8) : 0;
    return order ? order > 0 : a->size > b->size;
}

static int piece_begins(const es_piece *whole, const es_piece *start) {
    return start->size <= whole->size && memcmp(start->bytes, whole->bytes, (size_t)start->size) == 0;
}

static void merge_runs(const es_piece *from, es_piece *to, int64_t low, int64_t middle, int64_t high) {
    int64_t a = low, b = middle;
    for (int64_t i = low; i < high; i++) {
        const int second = a == middle || (b < high && piece_above(&from[a], &from[b]));
        to[i] = second ? from[b++] : from[a++];
    }
}

/* Merge sort of sorted[first .. last), which have the same head. */
static void sort_by_tails(es_merger *merger, int64_t first, int64_t last) {
    es_piece *from = merger->sorted, *to = merger->spare;
    for (int64_t width = 1; width < last - first; width *= 2) {
        for (int64_t low = first; low < last; low += 2 * width) {
            const int64_t middle = low + width < last ? low + width : last;
            const int64_t high = middle + width < last ? middle + width : last;
            merge_runs(from, to, low, middle, high);
        }
        es_piece *swapped = from;
        from = to;
        to = swapped;
    }
    if (from != merger->sorted) memcpy(to + first, from + first, (size_t)(last - first) * sizeof *to);
}

/* One stable pass over eight bits of the heads; none if they are the same in all pieces. */
static void sort_by_digit(es_merger *merger, int shift) {
    const es_piece *from = merger->sorted;
    int64_t starts[257] = {0};
    for (int64_t i = 0; i < merger->m; i++) starts[1 + (from[i].head >> shift & 255)]++;
    for (int digit = 0; digit < 256; digit++) {
        if (starts[digit + 1] == merger->m) return;
        starts[digit + 1] += starts[digit];
    }
    es_piece *to = merger->spare;
    for (int64_t i = 0; i < merger->m; i++) to[starts[from[i].head >> shift & 255]++] = from[i];
    merger->spare = merger->sorted;
    merger->sorted = to;
}

/* Sort by the bytes; pieces with the same bytes stay ordered by place. */
static void sort_pieces(es_merger *merger) {
    for (int shift = 0; shift < 64; shift += 8) sort_by_digit(merger, shift);
    for (int64_t first = 0, i = 1; i <= merger->m; i++) {
        if (i < merger->m && merger->sorted[i].head == merger->sorted[first].head) continue;
        sort_by_tails(merger, first, i);
        first = i;
    }
}

/* The pieces that begin with piece i follow it, and those equal to it surround it. Open ranges form a chain
 * in which each piece begins with the one outside it; `outside` holds that one until the range closes. */
static void find_ranges(es_merger *merger) {
    const es_piece *sorted = merger->sorted;
    es_range *ranges = merger->ranges;
    int32_t *outside = merger->living; /* unused until the tournament begins */
    int32_t open = -1;
    for (int32_t i = 0; i < merger->m; i++) {
        while (open >= 0 && !piece_begins(&sorted[i], &sorted[open])) {
            ranges[open].last = i - 1;
            open = outside[open];
        }
        const int equal = open >= 0 && sorted[open].size == sorted[i].size;
        ranges[i].first = equal ? ranges[open].first : i;
        outside[i] = open;
        open = i;
    }
    for (; open >= 0; open = outside[open]) ranges[open].last = (int32_t)merger->m - 1;
}

/* --- living places --- */

static int32_t lower(int32_t a, int32_t b) { return a < b ? a : b; }

static void living_fill(es_merger *merger) {
    int32_t *living = merger->living;
    for (int64_t i = 0; i < merger->m; i++) living[merger->m + i] = merger->sorted[i].place;
    for (int64_t i = merger->m - 1; i > 0; i--) living[i] = lower(living[2 * i], living[2 * i + 1]);
}

static void living_set(es_merger *merger, int32_t index, int32_t place) {
    int32_t *living = merger->living;
    int64_t i = merger->m + index;
    living[i] = place;
    for (i /= 2; i > 0; i /= 2) living[i] = lower(living[2 * i], living[2 * i + 1]);
}

/* The lowest living place in a range, or NONE. */
static int32_t living_lowest(const es_merger *merger, es_range range) {
    int32_t lowest = NONE;
    int64_t low = merger->m + range.first, high = merger->m + range.last + 1;
    for (; low < high; low /= 2, high /= 2) {
        if (low & 1) lowest = lower(lowest, merger->living[low++]);
        if (high & 1) lowest = lower(lowest, merger->living[--high]);
    }
    return lowest;
}

/* Merge the token at `place` with those that begin with it, in order of place, until it loses to one of
 * them. */
static void merge_token(es_merger *merger, int32_t place) {
    const int32_t index = merger->index[place];
    const es_range range = merger->ranges[index];
    int64_t *mass = merger->mass;
    if (range.first == range.last || merger->living[merger->m + index] == NONE) return;
    living_set(merger, index, NONE); /* it does not merge with itself */
    for (;;) {
        const int32_t other = living_lowest(merger, range);
        if (other == NONE) break;
        if (mass[other] > mass[place]) {
            mass[other] += mass[place];
            mass[place] = 0;
            return;
        }
        mass[place] += mass[other];
        mass[other] = 0;
        living_set(merger, merger->index[other], NONE);
    }
    living_set(merger, index, place);
}

/* --- the rule --- */

static int is_end(const es_ids *ends, int32_t id) {
    int64_t low = 0, high = ends->n;
    while (low < high) {
        const int64_t middle = (low + high) / 2;
        if (ends->ids[middle] < id) low = middle + 1;
        else high = middle;
    }
    return low < ends->n && ends->ids[low] == id;
}

static int first_byte(const es_piece *piece) { return (int)(piece->head >> 56); }

/* The pieces of text tokens, in order of place. Those whose first byte begins less mass than `need` altogether
 * are left out: merged in any way, none of them gets that much. */
static void collect_pieces(const es_params *params, es_merger *merger, int64_t n, const int32_t *ids,
                           const uint8_t *ends, int64_t need) {
    int64_t begun[256] = {0}, m = 0;
    for (int32_t place = 0; place < n; place++) {
        if (ends[place]) continue;
        const es_piece piece = piece_of(params, ids[place], place);
        if (!piece.size) continue;
        begun[first_byte(&piece)] += merger->mass[place];
        merger->spare[m++] = piece;
    }
    for (int64_t i = 0; i < m; i++) {
        if (begun[first_byte(&merger->spare[i])] >= need) merger->sorted[merger->m++] = merger->spare[i];
    }
}

/* Merge all text tokens with a common prefix that may get the mass `need`. A token merged into another has
 * mass 0, which no share accepts. */
static void merge_alike(const es_params *params, es_merger *merger, int64_t n, const int32_t *ids,
                        const uint8_t *ends, int64_t need) {
    collect_pieces(params, merger, n, ids, ends, need);
    if (!merger->m) return;
    sort_pieces(merger);
    find_ranges(merger);
    living_fill(merger);
    for (int64_t place = 0; place < n; place++) merger->index[place] = -1;
    for (int32_t i = 0; i < merger->m; i++) merger->index[merger->sorted[i].place] = i;
    for (int32_t place = 0; place < n; place++) {
        if (merger->index[place] >= 0) merge_token(merger, place);
    }
}

/* Text tokens with less than the mass `need` lose it; returns how many keep theirs. */
static int64_t drop_unlikely(int64_t *mass, int64_t n, const uint8_t *ends, int64_t need) {
    int64_t left = 0;
    for (int64_t i = 0; i < n; i++) {
        if (ends[i]) continue;
        if (mass[i] < need) mass[i] = 0;
        else left++;
    }
    return left;
}

/* Flag the tokens that end the text; their mass goes to *end_mass, that of the others to *text_mass. */
static void find_ends(const es_params *params, int64_t n, const int32_t *ids, const int64_t *mass,
                      uint8_t *ends, int64_t *end_mass, int64_t *text_mass) {
    *end_mass = *text_mass = 0;
    for (int64_t i = 0; i < n; i++) {
        ends[i] = (uint8_t)is_end(&params->text_end_token_ids, ids[i]);
        *(ends[i] ? end_mass : text_mass) += mass[i];
    }
}

int es_infill_keep(const es_params *params, int64_t n, const int32_t *ids, const int64_t *weights,
                   uint8_t *keep, es_infill_scratch *scratch) {
    if (scratch_reserve(scratch, n)) return -1;
    es_merger merger = merger_of(scratch);
    int64_t *mass = merger.mass;
    int64_t end_mass, text_mass;
    memcpy(mass, weights, (size_t)n * sizeof *mass);
    find_ends(params, n, ids, mass, keep, &end_mass, &text_mass);
    if (end_mass > text_mass / (3 * n)) return 0; /* 3·n·end_mass > text_mass, without overflow */
    const int64_t fifth = es_weight_of_share(0.2, end_mass + text_mass);
    merge_alike(params, &merger, n, ids, keep, fifth);
    const int64_t likely = drop_unlikely(mass, n, keep, fifth);
    if (!likely) return 0;
    int64_t rest = end_mass;
    for (int64_t i = 0; i < n; i++) rest += keep[i] ? 0 : mass[i];
    const int64_t need = es_weight_of_share(1.0 / (double)(likely + 1), rest);
    for (int64_t i = 0; i < n; i++) keep[i] |= mass[i] >= need;
    return 0;
}
