/* Completing rules. */
#include "grammar/parser/completion.h"

#include "grammar/parser/items.h"

/* The first transition over `symbol` in an ascending list. */
static int32_t find_transition(const eg_transition *transitions, int32_t count, int32_t symbol) {
    int32_t low = 0;
    while (count > 0) {
        const int32_t half = count / 2;
        if (transitions[low + half].symbol < symbol) low += half + 1, count -= half + 1;
        else count = half;
    }
    return low;
}

/* The end of the items from `k` on with the same state as that one. A row may have thousands of them. */
static int32_t group_end(const eg_row *row, int32_t k) {
    const int32_t state = row->items[k].state;
    int32_t step = 1;
    while (k + step < row->count && row->items[k + step].state == state) step *= 2;
    int32_t low = k + step / 2 + 1, high = k + step < row->count ? k + step : row->count;
    while (low < high) {
        const int32_t middle = low + (high - low) / 2;
        if (row->items[middle].state == state) low = middle + 1;
        else high = middle;
    }
    return low;
}

/* The first edge of `state` over `symbol` from the edge `i` on; the end of its edges if there is none. */
static int32_t edge_over(const eg_rules *g, int32_t state, int32_t i, int32_t symbol) {
    while (i < g->first_edge[state + 1] && g->edges[i].symbol != symbol) i++;
    return i;
}

/* --- deterministic reductions --- */

/* If exactly one item of `row` can advance over `symbol` and its rule is complete right after: that rule (as
 * `state`) and its origin. Otherwise origin is -1. */
static eg_item leo_step(eg_rows *r, int32_t row, int32_t symbol) {
    const eg_rules *g = r->rules;
    const eg_item none = {-1, 0, -1};
    eg_item found = none;
    int32_t found_count = 0;
    const eg_row *from = &r->rows.at[row];
    for (int32_t k = 0, end; k < from->count; k = end) {
        const eg_item item = from->items[k];
        const int32_t last = g->first_edge[item.state + 1];
        end = group_end(from, k);
        eg_work(r->pool->fault, 2);
        for (int32_t i = g->first_edge[item.state]; (i = edge_over(g, item.state, i, symbol)) < last; i++) {
            if (found_count++ || end - k > 1 || g->edges[i].begin != g->edges[i].end) return none;
            found = (eg_item){g->edges[i].target, item.registers, item.origin};
        }
    }
    const eg_core *core = eg_core_of(r, row);
    for (int32_t i = find_transition(core->rules, core->rule_count, symbol);
         i < core->rule_count && core->rules[i].symbol == symbol; i++) {
        if (found_count++) return none;
        found = core->rules[i].next;
        found.origin = row;
    }
    if (!found_count) return none;
    const int32_t first = g->first_edge[found.state];
    const eg_edge *e = &g->edges[first];
    if (g->first_edge[found.state + 1] != first + 1 || e->symbol != EG_ACCEPT) return none;
    if (eg_registers_after(r, e, g->rule_of[found.state], found.registers) < 0) return none;
    return (eg_item){g->rule_of[found.state], 0, found.origin};
}

/* The topmost rule and origin completed when `rule` is completed in `origin`, following deterministic
 * reductions (Leo): the completions in between leave nothing in a row. */
static eg_item leo_top(eg_rows *r, int32_t rule, int32_t origin) {
    eg_item at = {rule, 0, origin};
    const int32_t base = r->leo_items.count;
    for (;;) {
        const uint64_t key = eg_pair(at.origin, at.state);
        const int32_t known = eg_map_get(&r->leo_by_rule, key, -1);
        if (known >= 0) {
            at = r->leo_items.at[known];
            break;
        }
        eg_work(r->pool->fault, 1);
        if (at.state == r->rules->start && at.origin == 0) break;
        const eg_item up = leo_step(r, at.origin, -1 - at.state);
        if (up.origin < 0) break;
        bool cycle = up.state == at.state && up.origin == at.origin;
        for (int32_t i = base; i < r->leo_items.count && !cycle; i++)
            cycle = r->leo_items.at[i].state == up.state && r->leo_items.at[i].origin == up.origin;
        if (cycle || r->leo_items.count - base > 1000) break;
        EG_PUSH(r->pool, r->leo_items, at);
        at = up;
    }
    for (int32_t i = base; i < r->leo_items.count; i++) { /* the whole path leads to the same top */
        const eg_item from = r->leo_items.at[i];
        r->leo_items.at[i] = at;
        eg_map_put(r->pool, &r->leo_by_rule, eg_pair(from.origin, from.state), i);
    }
    return at;
}

/* --- origins --- */

enum { MAX_WITHIN = 64 };

/* The arguments of origin_of(), and its caller's. */
typedef struct eg_completion {
    int32_t rule, row;
    int depth;
    const struct eg_completion *from;
} eg_completion;

/* Whether the origin of `rule` in `row` is being determined, or too many others are. */
static bool is_within(const eg_completion *from, int32_t rule, int32_t row) {
    if (from && from->depth == MAX_WITHIN) return true;
    for (; from; from = from->from)
        if (from->rule == rule && from->row == row) return true;
    return false;
}

static int32_t origin_of(eg_rows *r, int32_t rule, int32_t row, const eg_completion *from);

/* Call `visit` with what each item of `row` becomes over `symbol`. */
static void visit_advances(eg_rows *r, int32_t row, int32_t symbol,
                           void (*visit)(eg_rows *, int32_t state, int32_t registers, int32_t origin)) {
    const eg_rules *g = r->rules;
    for (int32_t k = 0, end; k < r->rows.at[row].count; k = end) {
        const int32_t state = r->rows.at[row].items[k].state, last = g->first_edge[state + 1];
        end = group_end(&r->rows.at[row], k);
        eg_work(r->pool->fault, 1 + last - g->first_edge[state]);
        for (int32_t i = g->first_edge[state]; (i = edge_over(g, state, i, symbol)) < last; i++) {
            eg_work(r->pool->fault, end - k);
            for (int32_t n = k; n < end; n++) {
                const eg_item item = r->rows.at[row].items[n];
                const int32_t registers = eg_registers_after(r, &g->edges[i], g->rule_of[state],
                                                             item.registers);
                if (registers >= 0) visit(r, g->edges[i].target, registers, item.origin);
            }
        }
    }
}

static void push_item(eg_rows *r, int32_t state, int32_t registers, int32_t origin) {
    EG_PUSH(r->pool, r->completed, (eg_item){state, registers, origin});
}

/* Push on `completed` the items that result from completing `here`. */
static void push_completed(eg_rows *r, const eg_completion *here) {
    const eg_rules *g = r->rules;
    const eg_item top = leo_top(r, here->rule, here->row);
    const int32_t symbol = -1 - top.state;
    EG_PUSH(r->pool, r->completed, (eg_item){here->rule, top.state == g->start && top.origin == 0, EG_SELF});
    visit_advances(r, top.origin, symbol, push_item);
    const eg_core core = *eg_core_of(r, top.origin);
    for (int32_t i = find_transition(core.rules, core.rule_count, symbol);
         i < core.rule_count && core.rules[i].symbol == symbol; i++) {
        eg_item next = core.rules[i].next;
        eg_work(r->pool->fault, 2);
        next.origin = origin_of(r, g->rule_of[next.state], top.origin, here);
        EG_PUSH(r->pool, r->completed, next);
    }
}

/* The row that stands for `row`, given the items on `completed` from `base` on: their first is the rule. */
static int32_t intern_origin(eg_rows *r, int32_t row, int32_t base) {
    eg_item *items = r->completed.at + base;
    int32_t count = r->completed.count - base, kept = 1;
    eg_work(r->pool->fault, eg_sorting(count));
    eg_sort(items + 1, count - 1, sizeof *items, eg_items_compare);
    for (int32_t i = 1; i < count; i++)
        if (kept == 1 || eg_items_compare(&items[i], &items[kept - 1])) items[kept++] = items[i];
    const uint64_t hash = eg_hash_ints(&items->state, 3 * (int64_t)kept, 29);
    int32_t id;
    for (eg_probe p = eg_probe_at(&r->origins_by_content, hash); (id = eg_probe_next(&p)) >= 0;) {
        const eg_origin *known = &r->origin_list.at[id];
        if (known->count == kept &&
            !memcmp(r->origin_items.at + known->begin, items, (size_t)kept * sizeof *items))
            return known->row;
    }
    EG_PUSH(r->pool, r->origin_list, (eg_origin){row, r->origin_items.count, kept});
    EG_APPEND(r->pool, r->origin_items, items, kept);
    eg_set_add(r->pool, &r->origins_by_content, hash, r->origin_list.count - 1);
    return row;
}

/* The row that stands for `row` as the origin of items that begin `rule` there: the first one in which
 * completing the rule results in the same items. So rows after texts of any length become the same row if
 * the same can follow: a row does not count the members of a list, nor the ways to split a text into them.
 */
static int32_t origin_of(eg_rows *r, int32_t rule, int32_t row, const eg_completion *from) {
    const eg_item top = leo_top(r, rule, row);
    if (top.state == rule) row = top.origin;
    const uint64_t key = eg_pair(row, rule);
    int32_t origin = eg_map_get(&r->origins, key, -1);
    if (origin >= 0) return origin;
    const eg_completion here = {rule, row, from ? from->depth + 1 : 0, from};
    eg_work(r->pool->fault, 4 + here.depth);
    if (is_within(from, rule, row)) return row;
    const int32_t base = r->completed.count;
    push_completed(r, &here);
    origin = intern_origin(r, row, base);
    r->completed.count = base;
    eg_map_put(r->pool, &r->origins, key, origin);
    return origin;
}

/* --- advancing and completing --- */

void eg_items_advance(eg_rows *r, int32_t row, int32_t symbol, const eg_transition *transitions,
                      int32_t transition_count) {
    const eg_rules *g = r->rules;
    visit_advances(r, row, symbol, eg_items_add);
    for (int32_t i = find_transition(transitions, transition_count, symbol);
         i < transition_count && transitions[i].symbol == symbol; i++) {
        const eg_item next = transitions[i].next;
        eg_items_add(r, next.state, next.registers, origin_of(r, g->rule_of[next.state], row, NULL));
    }
}

void eg_items_complete(eg_rows *r, int32_t rule, int32_t origin) {
    const eg_item top = leo_top(r, rule, origin);
    if (top.state == r->rules->start && top.origin == 0) r->accepting = true;
    const eg_core *core = eg_core_of(r, top.origin);
    eg_items_advance(r, top.origin, -1 - top.state, core->rules, core->rule_count);
}
