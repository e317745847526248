/* The rows of an LALR parser: a state, and the row below it on the stack.
 *
 * The lexer tries every terminal of a state. Which of them the parser can accept also depends on the rows
 * below, since LALR merges the look-aheads of all uses of a rule. This is determined first and passed to the
 * lexer.
 */
#include "grammar/parser/lalr.h"

#include "grammar/base/bits.h"

/* What a state does with each terminal, and with the end of the text, which is the last bit of these sets. */
typedef struct eg_action_sets {
    uint32_t *shifts;  /* the terminals it shifts */
    int32_t *rules;    /* the rules that it reduces before others ... */
    uint32_t *reduced; /* [rule_count][words] ... and for which terminals */
    int32_t rule_count;
} eg_action_sets;

static int32_t open_words(const eg_rows *r) { return r->rules->terminal_count / 32 + 1; }

/* The index in `sets` of the rule of a reduction. */
static int32_t reduction_of(eg_rows *r, eg_action_sets *sets, int32_t action) {
    int32_t i = 0;
    while (i < sets->rule_count && sets->rules[i] != -1 - action) i++;
    if (i == sets->rule_count) sets->rules[sets->rule_count++] = -1 - action;
    eg_work(r->pool->fault, 1 + i);
    return i;
}

static void add_action(eg_rows *r, eg_action_sets *sets, int32_t bit, int32_t action) {
    uint32_t *set = sets->shifts;
    if (action < 0) set = sets->reduced + (int64_t)reduction_of(r, sets, action) * open_words(r);
    eg_set_bit(set, bit);
}

static const eg_action_sets *action_sets_of(eg_rows *r, int32_t state) {
    if (r->lalr_sets[state]) return r->lalr_sets[state];
    const eg_lalr_state *of = &r->rules->lalr->states[state];
    const size_t words = (size_t)open_words(r);
    eg_action_sets *sets = eg_take(r->pool, sizeof *sets);
    *sets = (eg_action_sets){
        .rules = eg_take(r->pool, ((size_t)of->actions.count + 1) * sizeof *sets->rules)};
    for (int32_t i = 0; i < of->actions.count; i++)
        if (of->actions.at[2 * i + 1] < 0) reduction_of(r, sets, of->actions.at[2 * i + 1]);
    if (of->end < 0) reduction_of(r, sets, of->end);
    const size_t size = words * sizeof *sets->shifts;
    sets->shifts = eg_take_zeroed(r->pool, size);
    sets->reduced = eg_take_zeroed(r->pool, (size_t)sets->rule_count * size);
    for (int32_t i = 0; i < of->actions.count; i++)
        add_action(r, sets, of->actions.at[2 * i], of->actions.at[2 * i + 1]);
    if (of->end < 0 || of->end == EG_LALR_ACCEPT) add_action(r, sets, r->rules->terminal_count, of->end);
    return r->lalr_sets[state] = sets;
}

/* The row of a state above another row; its other fields are computed on demand. */
static int32_t row_above(eg_rows *r, int32_t state, int32_t below) {
    const eg_item item = {state, 0, below};
    const uint64_t hash = eg_hash_ints(&item.state, 3, 23);
    int32_t id;
    for (eg_probe p = eg_probe_at(&r->rows_by_content, hash); (id = eg_probe_next(&p)) >= 0;)
        if (!memcmp(r->rows.at[id].items, &item, sizeof item)) return id;
    eg_row row = {.core = -1, .open = -1, .count = 1, .items = eg_keep(r->pool, &item, sizeof item)};
    EG_PUSH(r->pool, r->rows, row);
    id = r->rows.count - 1;
    eg_set_add(r->pool, &r->rows_by_content, hash, id);
    return id;
}

static bool find_pair(const eg_pairs *pairs, int32_t key, int32_t *value) {
    for (int32_t i = 0; i < pairs->count; i++)
        if (pairs->at[2 * i] == key) return *value = pairs->at[2 * i + 1], true;
    return false;
}

/* Pop the right side of a rule off the stack, and go to the state for its left side; -1 if there is none. */
static int32_t reduce(eg_rows *r, int32_t row, int32_t rule) {
    const eg_lalr *l = r->rules->lalr;
    eg_work(r->pool->fault, 1 + l->rules[2 * rule + 1]);
    for (int32_t i = 0; i < l->rules[2 * rule + 1] && row >= 0; i++) row = r->rows.at[row].items->origin;
    int32_t state;
    if (row < 0 || !find_pair(&l->states[r->rows.at[row].items->state].gotos, l->rules[2 * rule], &state))
        return -1;
    return row_above(r, state, row);
}

/* The number of the set of terminals at `at` in `opens`, which is at or after the end of `opens`; a new set
 * is moved there. */
static int32_t intern_open(eg_rows *r, int32_t at) {
    const int32_t words = open_words(r);
    const size_t size = (size_t)words * sizeof *r->opens.at;
    const uint64_t hash = eg_hash_ints((const int32_t *)r->opens.at + at, words, 29);
    int32_t id;
    for (eg_probe p = eg_probe_at(&r->opens_by_content, hash); (id = eg_probe_next(&p)) >= 0;)
        if (!memcmp(r->opens.at + (int64_t)id * words, r->opens.at + at, size)) return id;
    id = r->opens.count / words;
    memmove(r->opens.at + r->opens.count, r->opens.at + at, size);
    r->opens.count += words;
    eg_set_add(r->pool, &r->opens_by_content, hash, id);
    return id;
}

static bool is_pending(const eg_rows *r, int32_t row) {
    const int32_t mark = r->rows.at[row].mark;
    return mark < r->pending.count && r->pending.at[mark] == row;
}

static void add_pending(eg_rows *r, int32_t row) {
    r->rows.at[row].mark = r->pending.count;
    EG_PUSH(r->pool, r->pending, row);
}

/* Extend the set of the pending row `i` by what the rows that it reduces to can accept, as far as known.
 * Returns whether it has grown. */
static bool widen_open(eg_rows *r, int32_t i) {
    const int32_t words = open_words(r), row = r->pending.at[i];
    const eg_action_sets *sets = action_sets_of(r, r->rows.at[row].items->state);
    uint32_t *set = r->opens.at + r->opens.count + (int64_t)i * words;
    bool grown = false;
    for (int32_t k = 0; k < sets->rule_count; k++) {
        const int32_t next = reduce(r, row, sets->rules[k]);
        if (next < 0) continue;
        const eg_row *of = &r->rows.at[next];
        const int64_t at = of->open < 0 ? r->opens.count + (int64_t)of->mark * words
                                        : (int64_t)of->open * words;
        for (int32_t w = 0; w < words; w++) {
            const uint32_t more = sets->reduced[(int64_t)k * words + w] & r->opens.at[at + w] & ~set[w];
            set[w] |= more;
            grown |= more != 0;
        }
    }
    return grown;
}

/* The set of the terminals that `row` can accept. Rows may reduce to each other in cycles, before terminals
 * that the next row does not even have an action for. */
static const uint32_t *open_of(eg_rows *r, int32_t row) {
    const int32_t words = open_words(r);
    if (r->rows.at[row].open >= 0) return r->opens.at + (int64_t)r->rows.at[row].open * words;
    r->pending.count = 0;
    add_pending(r, row);
    for (int32_t i = 0; i < r->pending.count; i++) {
        const int32_t at = r->pending.at[i];
        const eg_action_sets *sets = action_sets_of(r, r->rows.at[at].items->state);
        for (int32_t k = 0; k < sets->rule_count; k++) {
            const int32_t next = reduce(r, at, sets->rules[k]);
            if (next >= 0 && r->rows.at[next].open < 0 && !is_pending(r, next)) add_pending(r, next);
        }
    }
    const int32_t count = r->pending.count, base = r->opens.count;
    EG_RESERVE(r->pool, r->opens, (int64_t)count * words);
    for (int32_t i = 0; i < count; i++) {
        const eg_action_sets *sets = action_sets_of(r, r->rows.at[r->pending.at[i]].items->state);
        eg_copy(r->opens.at + base + (int64_t)i * words, sets->shifts, (size_t)words * sizeof *sets->shifts);
    }
    for (bool grown = true; grown;) {
        grown = false;
        for (int32_t i = count - 1; i >= 0; i--) grown |= widen_open(r, i) && count > 1;
    }
    for (int32_t i = 0; i < count; i++) {
        const int32_t open = intern_open(r, base + i * words);
        r->rows.at[r->pending.at[i]].open = open;
    }
    return r->opens.at + (int64_t)r->rows.at[row].open * words;
}

/* The lexer of a state whose parser can accept `open`. */
static int32_t lalr_lexer(eg_rows *r, const eg_lalr_state *of, const uint32_t *open) {
    int32_t *pairs = eg_take(r->pool, ((size_t)of->entries.count + 1) * 2 * sizeof *pairs);
    for (int32_t i = 0; i < of->entries.count; i++) {
        const int32_t terminal = of->entries.at[2 * i], e = r->rules->terminals[terminal].expression;
        int32_t kind = of->entries.at[2 * i + 1];
        if (kind & EG_KEYWORD) kind = EG_KEYWORD; /* a keyword is never ignored */
        if (!(kind & EG_IGNORED) && !eg_has_bit(open, terminal)) kind |= EG_CLOSED;
        pairs[2 * i] = terminal << EG_ENTRY_BITS | kind;
        pairs[2 * i + 1] = e < 0 ? EG_EMPTY : e;
    }
    return eg_lexer_of(r->expressions, pairs, of->entries.count);
}

static int32_t lalr_core(eg_rows *r, int32_t state, int32_t row) {
    const uint32_t *open = open_of(r, row);
    const eg_lalr_state *of = &r->rules->lalr->states[state];
    const uint64_t key = eg_pair(of->lexer, r->rows.at[row].open); /* `open` are terminals with an action */
    const int32_t known = eg_map_get(&r->lalr_cores, key, -1);
    if (known >= 0) return known;
    eg_expressions *x = r->expressions;
    eg_core core = {.lexer = lalr_lexer(r, of, open)};
    core.first = *eg_first(x, core.lexer);
    core.begins = eg_lexer_can_read(x, core.lexer);
    core.expected = eg_take(r->pool, ((size_t)of->actions.count + 1) * sizeof *core.expected);
    for (int32_t i = 0; i < of->actions.count; i++) {
        const int32_t terminal = of->actions.at[2 * i];
        if (r->rules->terminals[terminal].expression < 0 && eg_has_bit(open, terminal))
            core.expected[core.expected_count++] = terminal;
    }
    core.special = core.expected_count > 0;
    EG_PUSH(r->pool, r->cores, core);
    eg_map_put(r->pool, &r->lalr_cores, key, r->cores.count - 1);
    return r->cores.count - 1;
}

/* The row of a state after a shift, or the first row: a lexer begins there. */
static int32_t row_with_lexer(eg_rows *r, int32_t state, int32_t below) {
    const int32_t row = row_above(r, state, below);
    if (r->rows.at[row].core >= 0) return row;
    const bool accepting = eg_has_bit(open_of(r, row), r->rules->terminal_count);
    const int32_t core = lalr_core(r, state, row);
    r->rows.at[row].accepting = accepting;
    r->rows.at[row].core = core;
    return row;
}

int32_t eg_lalr_advance(eg_rows *r, int32_t row, int32_t terminal) {
    while (row >= 0) {
        int32_t action;
        if (!find_pair(&r->rules->lalr->states[r->rows.at[row].items->state].actions, terminal, &action))
            return -1;
        if (action >= 0) return row_with_lexer(r, action, row);
        row = reduce(r, row, -1 - action);
    }
    return -1;
}

void eg_lalr_open(eg_rows *r) {
    const eg_lalr *l = r->rules->lalr;
    r->lalr_sets = eg_take_zeroed(r->pool, (size_t)l->state_count * sizeof *r->lalr_sets);
    row_with_lexer(r, l->first, -1);
}
