#include "histories.h"

#include <stdlib.h>

bool ascend_is_penalized(const es_params *params) {
    const bool counts = params->frequency_penalty != 0 || params->presence_penalty != 0;
    return (params->repetition_penalty != 1 && params->repetition_reach != 0) ||
           (counts && params->counting_reach != 0);
}

/* The cell of a token, or the free one where it belongs; `room` is more than there are tokens. */
static ascend_count *cell_of(ascend_count *cells, int64_t room, int64_t id) {
    uint64_t at = (uint64_t)id * 0x9E3779B97F4A7C15u >> 20;
    while (cells[at & (uint64_t)(room - 1)].id != id && cells[at & (uint64_t)(room - 1)].id != -1) at++;
    return &cells[at & (uint64_t)(room - 1)];
}

static void forget(ascend_history *history) {
    free(history->cells);
    history->cells = NULL;
    history->room = history->used = history->length = 0;
}

/* Room for `more` other tokens; false, with nothing known any more, if there is no memory. */
static bool make_room(ascend_history *history, int64_t more) {
    int64_t room = history->room ? history->room : 64;
    while (room < 2 * (history->used + more)) room *= 2;
    if (room == history->room) return true;
    ascend_count *cells = malloc((size_t)room * sizeof *cells);
    if (!cells) {
        forget(history);
        return false;
    }
    for (int64_t i = 0; i < room; i++) cells[i] = (ascend_count){.id = -1};
    for (int64_t i = 0; i < history->room; i++)
        if (history->cells[i].id != -1) *cell_of(cells, room, history->cells[i].id) = history->cells[i];
    free(history->cells);
    history->cells = cells;
    history->room = room;
    return true;
}

/* Count the tokens of a slot from number `first` on. */
static void count_from(ascend_history *history, const es_table *table, int32_t slot, int64_t first) {
    const int64_t *tokens = table->tokens + table->offsets[slot];
    const int64_t length = table->lengths[slot];
    if (!make_room(history, length - first)) return;
    for (int64_t i = first; i < length; i++) {
        ascend_count *cell = cell_of(history->cells, history->room, tokens[i]);
        history->used += cell->id == -1;
        cell->id = tokens[i];
        if (i < history->prompt_length) cell->prompt++;
        else cell->output++;
    }
    history->length = length;
}

static const es_params *params_of(const es_table *table, int32_t slot) {
    const char *at = (const char *)table->params + (size_t)slot * table->params->size;
    return (const es_params *)(const void *)at;
}

static void notice_one(ascend_history *history, const es_changes *changes, int32_t i) {
    const es_table *table = changes->table;
    const int32_t slot = changes->slots[i], kind = changes->kinds[i];
    if (kind == ES_GREW) {
        if (history->cells && changes->befores[i] == history->length)
            count_from(history, table, slot, history->length);
        else forget(history);
        return;
    }
    forget(history);
    if (kind == ES_LEFT || !ascend_is_penalized(params_of(table, slot))) return;
    history->prompt_length = table->prompt_lengths[slot];
    count_from(history, table, slot, 0);
}

void ascend_notice(ascend_histories *histories, const es_changes *changes) {
    const int32_t capacity = changes->table->capacity;
    histories->notices++;
    if (capacity > histories->n) {
        ascend_history *more = realloc(histories->of_slots, (size_t)capacity * sizeof *more);
        if (!more) {
            ascend_forget_all(histories);
            return;
        }
        for (int32_t i = histories->n; i < capacity; i++) more[i] = (ascend_history){0};
        histories->of_slots = more;
        histories->n = capacity;
    }
    for (int32_t i = 0; i < changes->n; i++) {
        ascend_history *history = &histories->of_slots[changes->slots[i]];
        notice_one(history, changes, i);
        history->changed = histories->notices;
    }
}

const ascend_history *ascend_history_of(const ascend_histories *histories, int32_t slot) {
    if (slot < 0 || slot >= histories->n || !histories->of_slots[slot].cells) return NULL;
    return &histories->of_slots[slot];
}

ascend_count ascend_count_of(const ascend_history *history, int64_t id) {
    const ascend_count *cell = cell_of(history->cells, history->room, id);
    return cell->id == id ? *cell : (ascend_count){.id = id};
}

void ascend_forget_all(ascend_histories *histories) {
    for (int32_t i = 0; i < histories->n; i++) forget(&histories->of_slots[i]);
    free(histories->of_slots);
    histories->of_slots = NULL;
    histories->n = 0;
}
