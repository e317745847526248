/* The items of a row under construction, and their registers. */
#include "grammar/parser/items.h"

#include "grammar/base/bits.h"

/* --- registers --- */

/* The number of registers that hold `count` words; 0 if all are 0, however many. */
static int32_t intern_registers(eg_rows *r, const int32_t *words, int32_t count) {
    while (count && !words[count - 1]) count--;
    if (!count) return 0;
    const uint64_t hash = eg_hash_ints(words, count, 11);
    int32_t id;
    for (eg_probe p = eg_probe_at(&r->registers_by_content, hash); (id = eg_probe_next(&p)) >= 0;) {
        const int32_t at = r->register_at.at[id];
        if (r->register_at.at[id + 1] - at == count &&
            !memcmp(r->words.at + at, words, (size_t)count * sizeof *words))
            return id;
    }
    EG_APPEND(r->pool, r->words, words, count);
    EG_PUSH(r->pool, r->register_at, r->words.count);
    id = r->register_at.count - 2;
    eg_set_add(r->pool, &r->registers_by_content, hash, id);
    return id;
}

/* Perform one operation on registers; false if it blocks the edge. */
static bool run_operation(int32_t *words, const eg_rule *rule, const int32_t *op, int32_t length) {
    uint32_t *bits = (uint32_t *)words;
    int32_t *counter = words + rule->counters + op[1];
    switch (op[0]) {
    case EG_CLEAR: return !eg_has_bit(bits, op[1]);
    case EG_SET: eg_set_bit(bits, op[1]); return true;
    case EG_COUNT: return *counter < op[2] && ++*counter;
    case EG_SATURATE: *counter += *counter < op[2]; return true;
    case EG_AT_LEAST: return *counter >= op[2];
    case EG_RESET: *counter = 0; return true;
    default:
        for (int32_t i = 1; i < length; i++)
            if (eg_has_bit(bits, op[i] >> 1) == (op[i] & 1)) return true;
        return false;
    }
}

int32_t eg_registers_after(eg_rows *r, const eg_edge *e, int32_t rule, int32_t registers) {
    eg_work(r->pool->fault, 1);
    if (e->begin == e->end) return registers;
    const eg_rules *g = r->rules;
    const int32_t count = g->rules[rule].words;
    if (r->values.room <= count) EG_RESERVE(r->pool, r->values, count + 1);
    int32_t *words = r->values.at;
    const int32_t at = r->register_at.at[registers], have = r->register_at.at[registers + 1] - at;
    eg_copy(words, r->words.at + at, (size_t)have * sizeof *words);
    memset(words + have, 0, (size_t)(count - have) * sizeof *words);
    for (int32_t i = e->begin; i < e->end; i += g->operations[i] + 1)
        if (!run_operation(words, &g->rules[rule], g->operations + i + 1, g->operations[i])) return -1;
    eg_work(r->pool->fault, count);
    return intern_registers(r, words, count);
}

/* --- the row under construction --- */

void eg_items_begin(eg_rows *r) {
    r->work.count = 0;
    r->accepting = false;
    r->completed.count = 0;
    if (++r->stamp == 0) {
        memset(r->stamps, 0, (size_t)r->slot_count * sizeof *r->stamps);
        memset(r->predicted, 0, (size_t)r->rules->rule_count * sizeof *r->predicted);
        r->stamp = 1;
    }
}

static void place_item(eg_rows *r, int32_t index) {
    const eg_item *i = &r->work.at[index];
    uint64_t at = eg_mix(eg_pair(i->state, i->origin) ^ (uint64_t)(uint32_t)i->registers << 20);
    for (;; at++) {
        const uint64_t slot = at & (uint64_t)(r->slot_count - 1);
        if (r->stamps[slot] == r->stamp) continue;
        r->stamps[slot] = r->stamp;
        r->slots[slot] = index;
        return;
    }
}

static void widen_slots(eg_rows *r) {
    const int32_t count = r->slot_count ? 2 * r->slot_count : 256;
    int32_t *slots = eg_take(r->pool, (size_t)count * sizeof *slots);
    uint32_t *stamps = eg_take_zeroed(r->pool, (size_t)count * sizeof *stamps);
    r->slots = slots;
    r->stamps = stamps;
    r->slot_count = count;
    if (!r->stamp) r->stamp = 1;
    for (int32_t i = 0; i < r->work.count; i++) place_item(r, i);
}

void eg_items_add(eg_rows *r, int32_t state, int32_t registers, int32_t origin) {
    eg_work(r->pool->fault, 1);
    if (2 * r->work.count >= r->slot_count) widen_slots(r);
    uint64_t at = eg_mix(eg_pair(state, origin) ^ (uint64_t)(uint32_t)registers << 20);
    for (;; at++) {
        const uint64_t slot = at & (uint64_t)(r->slot_count - 1);
        if (r->stamps[slot] != r->stamp) {
            EG_PUSH(r->pool, r->work, (eg_item){state, registers, origin});
            r->stamps[slot] = r->stamp;
            r->slots[slot] = r->work.count - 1;
            return;
        }
        const eg_item *i = &r->work.at[r->slots[slot]];
        if (i->state == state && i->registers == registers && i->origin == origin) return;
    }
}

int eg_items_compare(const void *a, const void *b) {
    const eg_item *x = a, *y = b;
    if (x->state != y->state) return x->state < y->state ? -1 : 1;
    if (x->registers != y->registers) return x->registers < y->registers ? -1 : 1;
    return (x->origin > y->origin) - (x->origin < y->origin);
}
