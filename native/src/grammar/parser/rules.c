/* Copying, linking and pruning a grammar's rules. */
#include "grammar/parser/rules.h"

/* --- copying --- */

static void *copy_ints(eg_pool *pool, const int32_t *from, int64_t count) {
    void *out = eg_take(pool, ((size_t)count + 1) * sizeof *from);
    eg_copy(out, from, (size_t)count * sizeof *from);
    return out;
}

static void check(eg_pool *pool, bool good, const char *what) {
    if (!good) eg_fail(pool->fault, ES_GRAMMAR_INVALID, "the program's %s are inconsistent", what);
}

/* Whether the operations begin..end are complete and use only the registers of `rule`. */
static bool operations_fit(const eg_rules *r, const eg_rule *rule, int32_t begin, int32_t end) {
    while (begin < end) {
        const int32_t length = r->operations[begin], *op = r->operations + begin + 1;
        if (length < 2 || length > end - begin - 1) return false;
        const int kind = op[0];
        const int32_t counters = rule->words - rule->counters, bits = 32 * rule->counters;
        if (kind < EG_CLEAR || kind > EG_CLAUSE) return false;
        if (kind == EG_CLAUSE) {
            for (int32_t i = 1; i < length; i++)
                if (op[i] < 0 || op[i] >> 1 >= bits) return false;
        } else {
            const bool on_bits = kind == EG_CLEAR || kind == EG_SET;
            const int32_t wanted = on_bits || kind == EG_RESET ? 2 : 3;
            if (length != wanted || op[1] < 0 || op[1] >= (on_bits ? bits : counters)) return false;
        }
        begin += length + 1;
    }
    return begin == end;
}

static void copy_states(eg_pool *pool, eg_rules *r, const es_grammar_program *p) {
    r->state_count = (int32_t)p->states_length - 1;
    r->edge_count = (int32_t)(p->edges_length / 4);
    r->first_edge = copy_ints(pool, p->states, p->states_length);
    r->edges = copy_ints(pool, p->edges, p->edges_length);
    r->operations = copy_ints(pool, p->operations, p->operations_length);
    r->rule_of = eg_take(pool, ((size_t)r->state_count + 1) * sizeof *r->rule_of);
    check(pool, r->first_edge[0] == 0 && r->first_edge[r->state_count] == r->edge_count, "states");
    for (int32_t s = 0, rule = 0; s < r->state_count; s++) {
        while (rule + 1 < r->rule_count && r->rules[rule + 1].first <= s) rule++;
        r->rule_of[s] = rule;
        check(pool, r->first_edge[s] <= r->first_edge[s + 1], "states");
    }
    for (int32_t s = 0; s < r->state_count; s++)
        for (int32_t i = r->first_edge[s]; i < r->first_edge[s + 1]; i++) {
            const eg_edge *e = &r->edges[i];
            const bool known = e->symbol == EG_ACCEPT ||
                               (e->symbol < r->terminal_count && e->symbol >= -r->rule_count);
            check(pool,
                  known && e->target >= 0 && e->target < r->state_count &&
                      r->rule_of[e->target] == r->rule_of[s],
                  "edges");
            check(pool,
                  e->begin >= 0 && e->begin <= e->end && e->end <= p->operations_length &&
                      operations_fit(r, &r->rules[r->rule_of[s]], e->begin, e->end),
                  "operations");
        }
}

static void copy_terminals(eg_pool *pool, eg_rules *r, const es_grammar_program *p, int32_t vocabulary) {
    const size_t all = (size_t)(p->terminals_length + p->ignore_length);
    r->terminal_count = (int32_t)p->terminals_length;
    r->terminals = eg_take_zeroed(pool, (all + 1) * sizeof *r->terminals);
    r->terminal_nodes = eg_take(pool, (all + 1) * sizeof *r->terminal_nodes);
    eg_copy(r->terminal_nodes, p->terminals, (size_t)p->terminals_length * sizeof *r->terminal_nodes);
    r->special_starts = copy_ints(pool, p->special_starts, p->terminals_length + 1);
    r->special_ids = copy_ints(pool, p->special_ids, p->special_ids_length);
    r->ignore = copy_ints(pool, p->ignore, p->ignore_length);
    r->ignore_count = (int32_t)p->ignore_length;
    check(pool, r->special_starts[0] == 0 && r->special_starts[r->terminal_count] == p->special_ids_length,
          "special tokens");
    for (int32_t t = 0; t < r->terminal_count; t++)
        check(pool, r->special_starts[t] <= r->special_starts[t + 1] && r->terminal_nodes[t] >= -1,
              "terminals");
    for (int64_t i = 0; i < p->special_ids_length; i++)
        if (r->special_ids[i] < 0 || r->special_ids[i] >= vocabulary)
            eg_fail(pool->fault, ES_GRAMMAR_UNSUPPORTED,
                    "the grammar names token %d, the vocabulary has tokens 0..%d", r->special_ids[i],
                    vocabulary - 1);
    for (int32_t i = 0; i < r->ignore_count; i++) {
        const int32_t given = r->ignore[i], own = r->terminal_count + i;
        check(pool, given >= 0 && given < r->terminal_count && r->terminal_nodes[given] >= 0,
              "ignored terminals");
        r->terminal_nodes[own] = r->terminal_nodes[given];
        r->terminals[own].ignored = true;
        r->ignore[i] = own;
    }
}

static void copy_budgets(eg_pool *pool, eg_rules *r, const es_grammar_program *p) {
    const int64_t count = r->terminal_count, levels = count ? p->budgets_length / count : 0;
    check(pool, levels > 0 && levels <= EG_MAX_LEVELS && levels * count == p->budgets_length, "budgets");
    check(pool, !p->parser_length, "budgets");
    r->budget_levels = (int32_t)levels;
    r->budgets = eg_take_zeroed(pool, (size_t)((count + r->ignore_count) * levels) * sizeof *r->budgets);
    eg_copy(r->budgets, p->budgets, (size_t)p->budgets_length * sizeof *r->budgets);
    for (int64_t i = 0; i < p->budgets_length; i++) {
        check(pool, r->budgets[i] > INT32_MIN, "budgets");
        r->has_parts |= r->budgets[i] < 0;
    }
}

/* --- the tables of an LALR parser --- */

typedef struct table_reader {
    eg_pool *pool;
    const int32_t *at, *end;
} table_reader;

static int32_t read_int(table_reader *s, int64_t low, int64_t high) {
    const bool there = s->at < s->end && *s->at >= low && *s->at <= high;
    check(s->pool, there, "parser's tables");
    return *s->at++;
}

static eg_pairs read_pairs(table_reader *s, int64_t first_end, int64_t second_low, int64_t second_end) {
    eg_pairs out = {NULL, read_int(s, 0, (s->end - s->at) / 2)};
    out.at = s->at;
    for (int32_t i = 0; i < out.count; i++) {
        read_int(s, 0, first_end - 1);
        read_int(s, second_low, second_end - 1);
    }
    return out;
}

/* Lists of pairs, each of which is as in read_pairs(). */
static eg_pairs *read_lists(table_reader *s, int64_t first_end, int64_t second_low, int64_t second_end,
                            int32_t *count) {
    *count = read_int(s, 0, s->end - s->at);
    eg_pairs *out = eg_take(s->pool, ((size_t)*count + 1) * sizeof *out);
    for (int32_t i = 0; i < *count; i++) out[i] = read_pairs(s, first_end, second_low, second_end);
    return out;
}

static void copy_lalr(eg_pool *pool, eg_rules *r, const es_grammar_program *p) {
    const int32_t *kept = copy_ints(pool, p->parser, p->parser_length);
    table_reader s = {pool, kept, kept + p->parser_length};
    eg_lalr *l = eg_take(pool, sizeof *l);
    check(pool, r->terminal_count < INT32_MAX >> EG_ENTRY_BITS, "terminals");
    l->state_count = read_int(&s, 1, p->parser_length);
    l->rule_count = read_int(&s, 0, p->parser_length);
    l->first = read_int(&s, 0, l->state_count - 1);
    l->rules = s.at;
    for (int32_t i = 0; i < 2 * l->rule_count; i++) read_int(&s, 0, INT32_MAX);
    int32_t action_lists, lexers;
    const eg_pairs *actions = read_lists(&s, r->terminal_count, -(int64_t)l->rule_count, l->state_count,
                                         &action_lists);
    const eg_pairs *entries = read_lists(&s, r->terminal_count, 0, 4, &lexers);
    l->states = eg_take(pool, (size_t)l->state_count * sizeof *l->states);
    for (int32_t i = 0; i < l->state_count; i++) {
        eg_lalr_state *state = &l->states[i];
        state->actions = actions[read_int(&s, 0, (int64_t)action_lists - 1)];
        state->gotos = read_pairs(&s, INT32_MAX, 0, l->state_count);
        state->end = read_int(&s, -(int64_t)l->rule_count, EG_LALR_ACCEPT);
        state->lexer = read_int(&s, 0, (int64_t)lexers - 1);
        state->entries = entries[state->lexer];
    }
    check(pool, s.at == s.end, "parser's tables");
    r->lalr = l;
}

void eg_rules_copy(eg_pool *pool, eg_rules *r, const es_grammar_program *p, int32_t vocabulary) {
    memset(r, 0, sizeof *r);
    check(pool,
          p->rules_length > 0 && p->rules_length % 3 == 0 && p->states_length > 1 &&
              p->states_length < INT32_MAX && p->edges_length % 4 == 0 && p->edges_length < INT32_MAX &&
              p->operations_length < INT32_MAX && p->terminals_length < INT32_MAX &&
              p->special_starts_length == p->terminals_length + 1,
          "lengths");
    r->rule_count = (int32_t)(p->rules_length / 3);
    r->start = p->start;
    check(pool, r->start >= 0 && r->start < r->rule_count, "rules");
    r->rules = eg_take(pool, (size_t)r->rule_count * sizeof *r->rules);
    for (int32_t i = 0; i < r->rule_count; i++) {
        const int32_t *given = p->rules + 3 * i;
        check(pool,
              given[0] >= (i ? r->rules[i - 1].first + 1 : 0) && given[0] < p->states_length - 1 &&
                  (i || !given[0]) && given[1] >= 0 && given[1] < 1 << 20 && given[2] >= 0 &&
                  given[2] < 1 << 16,
              "rules");
        const int32_t bits = (given[1] + 31) / 32;
        r->rules[i] = (eg_rule){given[0], bits + given[2], bits, false};
    }
    copy_terminals(pool, r, p, vocabulary);
    copy_states(pool, r, p);
    r->code = copy_ints(pool, p->expressions, p->expressions_length);
    r->code_length = p->expressions_length;
    if (p->budgets_length) copy_budgets(pool, r, p);
    if (p->parser_length) copy_lalr(pool, r, p);
}

/* --- linking --- */

void eg_rules_link(eg_rules *r, eg_expressions *x, const eg_beginning *begun, const eg_tokens *tokens) {
    int32_t *numbers = eg_take(x->pool, ((size_t)r->code_length + 1) * sizeof *numbers);
    eg_reading_place from = {0};
    if (begun) {
        from = (eg_reading_place){begun->length, begun->count};
        eg_copy(numbers, begun->numbers, (size_t)from.count * sizeof *numbers);
    }
    const int32_t count = eg_expressions_read(x, r->code, r->code_length, from, numbers, r->code_length + 1);
    for (int32_t t = 0; t < r->terminal_count + r->ignore_count; t++) {
        eg_terminal *terminal = &r->terminals[t];
        const int32_t node = r->terminal_nodes[t];
        check(x->pool, node < count, "terminals");
        const bool has_tokens = t < r->terminal_count && r->special_starts[t] < r->special_starts[t + 1];
        terminal->expression = has_tokens ? -1 : EG_EMPTY;
        if (node < 0) continue;
        int32_t e = numbers[node];
        if (!terminal->known) terminal->empty = eg_expression_is_empty(x, e);
        terminal->known = true;
        if (terminal->empty) e = EG_EMPTY;
        terminal->expression = terminal->ignored ? eg_longest(x, e) : e;
        int32_t endings[EG_MAX_ENDINGS];
        const bool empty = eg_expression_endings(x, e, endings) > 0;
        terminal->nullable = empty && endings[0] == EG_EMPTY;
        terminal->looks = empty && endings[0] != EG_EMPTY;
    }
    r->names_ordinary = false;
    for (int32_t i = 0; i < r->special_starts[r->terminal_count] && !r->names_ordinary; i++)
        r->names_ordinary = !tokens->kinds[r->special_ids[i]];
}

/* --- pruning --- */

/* Whether `symbol` matches a finite text, as far as is known. */
static bool is_productive(const eg_rules *r, const uint8_t *states, int32_t symbol) {
    if (symbol == EG_ACCEPT) return true;
    if (symbol < 0) return states[r->rules[-1 - symbol].first];
    return r->terminals[symbol].expression != EG_EMPTY;
}

void eg_rules_prune(eg_pool *pool, eg_rules *r) {
    uint8_t *good = eg_take_zeroed(pool, (size_t)r->state_count + 1);
    for (bool changed = true; changed;) {
        changed = false;
        eg_work(pool->fault, r->edge_count);
        for (int32_t s = r->state_count - 1; s >= 0; s--)
            for (int32_t i = r->first_edge[s]; i < r->first_edge[s + 1] && !good[s]; i++) {
                const eg_edge *e = &r->edges[i];
                changed |= good[s] = is_productive(r, good, e->symbol) &&
                                     (e->symbol == EG_ACCEPT || good[e->target]);
            }
    }
    if (!good[r->rules[r->start].first])
        eg_fail(pool->fault, ES_GRAMMAR_EMPTY, "no text at all matches the grammar");
    int32_t kept = 0, next = 0;
    for (int32_t s = 0; s < r->state_count; s++) {
        const int32_t begin = next;
        next = r->first_edge[s + 1];
        r->first_edge[s] = kept;
        for (int32_t i = begin; i < next; i++) {
            const eg_edge e = r->edges[i];
            if (is_productive(r, good, e.symbol) && (e.symbol == EG_ACCEPT || good[e.target]))
                r->edges[kept++] = e;
        }
    }
    r->first_edge[r->state_count] = kept;
    r->always_continues = !r->lalr;
    for (int32_t i = 0; i < kept; i++) r->always_continues &= r->edges[i].begin == r->edges[i].end;
    for (int32_t t = 0; t < r->terminal_count; t++) r->always_continues &= !r->terminals[t].looks;
}
