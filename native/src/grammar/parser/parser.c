/* Earley rows, and their cores. */
#include "grammar/parser/parser.h"

#include "grammar/parser/completion.h"
#include "grammar/parser/items.h"
#include "grammar/parser/lalr.h"

/* --- completion --- */

static bool is_nullable(const eg_rules *g, int32_t symbol) {
    return symbol >= 0 ? g->terminals[symbol].nullable : g->rules[-1 - symbol].nullable;
}

/* Close the items under completion and nullable symbols. Those that can still read something are then moved
 * to the front and counted. */
static int32_t close_items(eg_rows *r) {
    const eg_rules *g = r->rules;
    for (int32_t k = 0; k < r->work.count; k++) {
        const eg_item item = r->work.at[k];
        const int32_t rule = g->rule_of[item.state];
        for (int32_t i = g->first_edge[item.state]; i < g->first_edge[item.state + 1]; i++) {
            const eg_edge *e = &g->edges[i];
            if (e->symbol != EG_ACCEPT && !is_nullable(g, e->symbol)) continue;
            const int32_t registers = eg_registers_after(r, e, rule, item.registers);
            if (registers < 0) continue;
            if (e->symbol == EG_ACCEPT) eg_items_complete(r, rule, item.origin);
            else eg_items_add(r, e->target, registers, item.origin);
        }
    }
    int32_t kept = 0;
    for (int32_t k = 0; k < r->work.count; k++) {
        const int32_t state = r->work.at[k].state;
        bool reads = false;
        for (int32_t i = g->first_edge[state]; i < g->first_edge[state + 1] && !reads; i++)
            reads = g->edges[i].symbol != EG_ACCEPT;
        if (reads) r->work.at[kept++] = r->work.at[k];
    }
    return kept;
}

/* --- prediction --- */

static int compare_transitions(const void *a, const void *b) {
    const eg_transition *x = a, *y = b;
    return (x->symbol > y->symbol) - (x->symbol < y->symbol);
}

static eg_transition *keep_transitions(eg_rows *r, const eg_transition *from, int32_t count) {
    eg_transition *out = eg_keep(r->pool, from, (size_t)count * sizeof *out);
    eg_sort(out, count, sizeof *out, compare_transitions);
    return out;
}

/* Collect the transitions of the item, and predict the rules among them. */
static void predict(eg_rows *r, const eg_item item, bool own) {
    const eg_rules *g = r->rules;
    for (int32_t i = g->first_edge[item.state]; i < g->first_edge[item.state + 1]; i++) {
        const eg_edge *e = &g->edges[i];
        if (e->symbol == EG_ACCEPT) continue;
        const int32_t registers = eg_registers_after(r, e, g->rule_of[item.state], item.registers);
        if (registers < 0) continue;
        const eg_transition transition = {e->symbol, {e->target, registers, EG_SELF}};
        if (e->symbol >= 0) {
            EG_PUSH(r->pool, r->terminal_work, transition);
            if (!own) r->terminal_work.at[r->terminal_work.count - 1].next.origin = 0; /* only expected */
        } else {
            const int32_t rule = -1 - e->symbol;
            if (own) EG_PUSH(r->pool, r->rule_work, transition);
            if (r->predicted[rule] != r->stamp) {
                r->predicted[rule] = r->stamp;
                eg_items_add(r, g->rules[rule].first, 0, EG_SELF);
            }
        }
        if (own && is_nullable(g, e->symbol)) eg_items_add(r, e->target, registers, EG_SELF);
    }
}

/* Note the parts whose rest begins with terminal `t`. */
static void note_parts(eg_rows *r, eg_core *core, int32_t t) {
    const int32_t levels = r->rules->budget_levels;
    for (int32_t level = 0; level < levels; level++) {
        const int32_t budget = eg_budget(r->rules, t, level);
        if (budget >= 0) continue;
        if (!core->parts) core->parts = eg_take_zeroed(r->pool, (size_t)levels * sizeof *core->parts);
        if (core->parts[level] < -budget) core->parts[level] = -budget;
    }
}

/* Let terminal `t` come next. */
static void expect(eg_rows *r, eg_core *core, int32_t t) {
    const eg_rules *g = r->rules;
    core->expected[core->expected_count++] = t;
    core->looks |= g->terminals[t].looks && !g->terminals[t].ignored;
    if (g->has_parts) note_parts(r, core, t);
    const int32_t e = g->terminals[t].expression;
    if (e < 0) {
        core->special = true;
        return;
    }
    eg_bytes_unite(&core->first, eg_first(r->expressions, e));
    if (!eg_node(r->expressions, e)->wide) eg_bytes_unite(&core->narrow, eg_first(r->expressions, e));
}

/* The terminals that may come next, without duplicates, and the bytes they begin with. */
static void keep_expected(eg_rows *r, eg_core *core) {
    const eg_rules *g = r->rules;
    const int32_t count = r->terminal_work.count;
    core->expected = eg_take(r->pool, ((size_t)count + (size_t)g->ignore_count) * sizeof *core->expected);
    for (int32_t i = 0; i < count + g->ignore_count; i++) {
        const int32_t t = i < count ? r->terminal_work.at[i].symbol : g->ignore[i - count];
        const int32_t last = core->expected_count ? core->expected[core->expected_count - 1] : -1;
        if (t != last) expect(r, core, t);
    }
}

/* The core of the `count` items in `work`; with `beginning`, the start rule is predicted. */
static int32_t add_core(eg_rows *r, int32_t count, bool beginning, uint64_t hash) {
    eg_core core = {.key_count = count, .lexer = -1};
    core.key = eg_take(r->pool, 2 * (size_t)count * sizeof *core.key);
    for (int32_t i = 0; i < count; i++) {
        core.key[2 * i] = r->work.at[i].state;
        core.key[2 * i + 1] = r->work.at[i].registers;
    }
    eg_items_begin(r);
    r->rule_work.count = r->terminal_work.count = 0;
    if (beginning) {
        r->predicted[r->rules->start] = r->stamp;
        eg_items_add(r, r->rules->rules[r->rules->start].first, 0, EG_SELF);
    }
    for (int32_t i = 0; i < count; i++) predict(r, (eg_item){core.key[2 * i], core.key[2 * i + 1], 0}, false);
    for (int32_t k = 0; k < r->work.count; k++) predict(r, r->work.at[k], true);
    eg_sort(r->terminal_work.at, r->terminal_work.count, sizeof(eg_transition), compare_transitions);
    keep_expected(r, &core);
    int32_t kept = 0;
    for (int32_t i = 0; i < r->terminal_work.count; i++)
        if (r->terminal_work.at[i].next.origin == EG_SELF)
            r->terminal_work.at[kept++] = r->terminal_work.at[i];
    core.terminal_count = kept;
    core.terminals = keep_transitions(r, r->terminal_work.at, kept);
    core.rule_count = r->rule_work.count;
    core.rules = keep_transitions(r, r->rule_work.at, r->rule_work.count);
    EG_PUSH(r->pool, r->cores, core);
    if (!beginning) eg_set_add(r->pool, &r->cores_by_content, hash, r->cores.count - 1);
    return r->cores.count - 1;
}

/* --- rows --- */

/* The core of ascending items: those with equal state and registers count once. */
static int32_t intern_core(eg_rows *r, const eg_item *items, int32_t count) {
    r->work.count = 0;
    uint64_t hash = 13;
    for (int32_t i = 0; i < count; i++) {
        if (i && items[i].state == items[i - 1].state && items[i].registers == items[i - 1].registers)
            continue;
        EG_PUSH(r->pool, r->work, items[i]);
        hash = eg_mix(hash ^ eg_pair(items[i].state, items[i].registers));
    }
    int32_t id;
    for (eg_probe p = eg_probe_at(&r->cores_by_content, hash); (id = eg_probe_next(&p)) >= 0;) {
        const eg_core *core = &r->cores.at[id];
        bool same = core->key_count == r->work.count;
        for (int32_t i = 0; i < core->key_count && same; i++)
            same = core->key[2 * i] == r->work.at[i].state && core->key[2 * i + 1] == r->work.at[i].registers;
        if (same) return id;
    }
    return add_core(r, r->work.count, false, hash);
}

/* The row of the first `count` items under construction; -1 if nothing can follow. */
static int32_t intern_row(eg_rows *r, int32_t count) {
    const bool accepting = r->accepting;
    if (!count && !accepting) return -1;
    eg_sort(r->work.at, count, sizeof(eg_item), eg_items_compare);
    const uint64_t hash = eg_hash_ints(&r->work.at->state, 3 * (int64_t)count, accepting);
    int32_t id;
    for (eg_probe p = eg_probe_at(&r->rows_by_content, hash); (id = eg_probe_next(&p)) >= 0;) {
        const eg_row *row = &r->rows.at[id];
        if (row->count == count && row->accepting == accepting &&
            eg_same(row->items, r->work.at, (size_t)count * sizeof(eg_item)))
            return id;
    }
    eg_row row = {.count = count, .accepting = accepting};
    row.items = eg_keep(r->pool, r->work.at, (size_t)count * sizeof *row.items);
    row.core = intern_core(r, row.items, count);
    EG_PUSH(r->pool, r->rows, row);
    eg_set_add(r->pool, &r->rows_by_content, hash, r->rows.count - 1);
    return r->rows.count - 1;
}

/* --- advancing --- */

int32_t eg_row_advance(eg_rows *r, int32_t row, int32_t terminal) {
    const uint64_t key = eg_pair(row, terminal);
    int32_t next = eg_map_get(&r->next, key, -2);
    if (next != -2) return next;
    if (r->rules->lalr) {
        next = eg_lalr_advance(r, row, terminal);
    } else if (r->rules->terminals[terminal].ignored) {
        next = row;
    } else {
        eg_items_begin(r);
        const eg_core *core = eg_core_of(r, row);
        eg_items_advance(r, row, terminal, core->terminals, core->terminal_count);
        next = intern_row(r, close_items(r));
    }
    eg_map_put(r->pool, &r->next, key, next);
    return next;
}

int32_t eg_row_join(eg_rows *r, int32_t a, int32_t b) {
    if (a == b) return a;
    const uint64_t key = a < b ? eg_pair(a, b) : eg_pair(b, a);
    int32_t row = eg_map_get(&r->joined, key, -1);
    if (row >= 0) return row;
    eg_items_begin(r);
    const int32_t both[2] = {a, b};
    for (int i = 0; i < 2; i++) {
        const eg_row *from = &r->rows.at[both[i]];
        r->accepting |= from->accepting;
        for (int32_t k = 0; k < from->count; k++)
            eg_items_add(r, from->items[k].state, from->items[k].registers, from->items[k].origin);
    }
    row = intern_row(r, r->work.count);
    eg_map_put(r->pool, &r->joined, key, row);
    return row;
}

/* Whether `terminal` is in the rest of the part at one of some levels. */
static bool is_rest(const eg_rules *g, int32_t terminal, int32_t levels) {
    bool found = false;
    for (int32_t level = 0; level < g->budget_levels; level++)
        found |= levels >> level & 1 && eg_budget(g, terminal, level) < 0;
    return found;
}

int32_t eg_row_without(eg_rows *r, int32_t row, int32_t levels) {
    const uint64_t key = eg_pair(row, levels);
    const int32_t known = eg_map_get(&r->without, key, -1);
    if (known >= 0) return known;
    const eg_core *from = eg_core_of(r, row);
    eg_core core = {.key = from->key, .key_count = from->key_count, .lexer = -1};
    core.rules = from->rules;
    core.rule_count = from->rule_count;
    core.terminals = from->terminals;
    core.terminal_count = from->terminal_count;
    const int32_t *expected = from->expected, count = from->expected_count;
    eg_work(r->pool->fault, 4 + count);
    core.expected = eg_take(r->pool, ((size_t)count + 1) * sizeof *core.expected);
    bool goes_on = r->rows.at[row].accepting; /* else ignored text alone would lead nowhere */
    for (int32_t i = 0; i < count; i++)
        goes_on |= !is_rest(r->rules, expected[i], levels) && !r->rules->terminals[expected[i]].ignored;
    for (int32_t i = 0; i < count && goes_on; i++)
        if (!is_rest(r->rules, expected[i], levels)) expect(r, &core, expected[i]);
    EG_PUSH(r->pool, r->cores, core);
    eg_row other = r->rows.at[row];
    other.core = r->cores.count - 1;
    EG_PUSH(r->pool, r->rows, other);
    eg_map_put(r->pool, &r->without, key, r->rows.count - 1);
    return r->rows.count - 1;
}

/* --- nullable rules --- */

/* Whether `rule` matches the empty string, as far as is known about the other rules. */
static bool can_be_empty(eg_rows *r, int32_t rule) {
    const eg_rules *g = r->rules;
    eg_items_begin(r);
    eg_items_add(r, g->rules[rule].first, 0, EG_SELF);
    for (int32_t k = 0; k < r->work.count; k++) {
        const eg_item item = r->work.at[k];
        for (int32_t i = g->first_edge[item.state]; i < g->first_edge[item.state + 1]; i++) {
            const eg_edge *e = &g->edges[i];
            if (e->symbol != EG_ACCEPT && !is_nullable(g, e->symbol)) continue;
            const int32_t registers = eg_registers_after(r, e, rule, item.registers);
            if (registers < 0) continue;
            if (e->symbol == EG_ACCEPT) return true;
            eg_items_add(r, e->target, registers, EG_SELF);
        }
    }
    return false;
}

static void find_nullable(eg_rows *r) {
    for (bool changed = true; changed;) {
        changed = false;
        for (int32_t i = r->rules->rule_count - 1; i >= 0; i--) {
            eg_rule *rule = &r->rules->rules[i];
            if (rule->nullable || !can_be_empty(r, i)) continue;
            changed = rule->nullable = true;
        }
    }
}

/* --- opening --- */

void eg_rows_open(eg_rows *r, eg_pool *pool, eg_expressions *expressions, eg_rules *rules) {
    memset(r, 0, sizeof *r);
    r->pool = pool;
    r->expressions = expressions;
    r->rules = rules;
    r->predicted = eg_take_zeroed(pool, (size_t)rules->rule_count * sizeof *r->predicted);
    EG_PUSH(pool, r->register_at, 0);
    EG_PUSH(pool, r->register_at, 0);
    EG_RESERVE(pool, r->words, 1);
    EG_RESERVE(pool, r->work, 1);
    if (rules->lalr) {
        eg_lalr_open(r);
        return;
    }
    find_nullable(r);
    const int32_t core = add_core(r, 0, true, 0);
    const eg_row beginning = {.core = core, .accepting = rules->rules[rules->start].nullable};
    EG_PUSH(pool, r->rows, beginning);
}
