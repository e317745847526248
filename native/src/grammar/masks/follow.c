/* Walking the tries with summaries and the parser. */
#include "grammar/masks/follow.h"

#include "grammar/base/bits.h"

enum {
    SMALL = 48,            /* tries with fewer nodes are walked rather than summarized */
    MANY = 64,             /* nodes below a node for which its state keeps a table of steps */
    COMPARE_BUDGET = 2000, /* nodes at which an expression is compared with a looser one */
    LISTED = 256,          /* tokens that are looked through in the time of comparing a node */
    PATIENCE = 1000        /* walks after which one that is not continued is given up */
};

static void add_own(eg_masks *m, eg_out *out, int32_t node) {
    const eg_tries *t = &eg_vocabulary_of(m)->tries;
    eg_out_add(m, out, t->tokens.at + t->first_token.at[node], t->own.at[node]);
}

/* Whether `terminal`, beginning again at exits of `g`, has the same derivative there as the first one. It
 * then allows the same tokens and can end at the same places, except the first. `again` receives the bytes of
 * those exits. */
static bool is_again(eg_masks *m, const eg_group *g, int32_t terminal, eg_bytes *again) {
    eg_expressions *x = &eg_vocabulary_of(m)->expressions;
    const int32_t begin = m->states.rows.rules->terminals[terminal].expression;
    bool any = false;
    memset(again, 0, sizeof *again);
    if (begin < 0) return false;
    eg_work(eg_pool_of(m)->fault, g->byte_count);
    for (int32_t i = 0; i < g->byte_count; i++) {
        if (g->bytes[i].after == EG_EMPTY) continue;
        const int32_t next = eg_step(x, begin, g->bytes[i].byte);
        if (next == EG_EMPTY) continue;
        if (next != g->bytes[i].after) return false;
        again->words[g->bytes[i].byte >> 6] |= (uint64_t)1 << (g->bytes[i].byte & 63);
        any = true;
    }
    return any;
}

/* Add what the threads on the stack from `base` on, which are popped, allow at and after the exits of one
 * byte. */
static void add_exits(eg_masks *m, eg_out *out, const eg_group *g, int32_t byte, int32_t rank, int32_t base) {
    const int32_t root = eg_group_root(eg_vocabulary_of(m), g, byte, rank);
    add_own(m, out, root);
    eg_follow(m, out, base, root);
}

/* The rank of the exits of a place: it is the same for all of them. */
static int32_t rank_of_place(const eg_group *g, int32_t place) {
    const int32_t count = g->byte_count ? g->bytes[g->byte_count - 1].end : 0;
    for (int32_t i = 0; i < count; i++)
        if (g->exits[i].place == place) return g->exits[i].rank;
    return 0;
}

/* Add what may follow a terminal where it cannot continue: the threads from `base` on begin there. */
static void add_dead_exits(eg_masks *m, eg_out *out, const eg_group *g, int32_t rank, int32_t base) {
    eg_states *s = &m->states;
    const int32_t end = s->work.count;
    for (int32_t i = -1; i < g->dense_count; i++) {
        if (i >= 0 && rank) eg_work(s->rows.pool->fault, g->bytes[g->byte_count - 1].end / 4);
        if (i >= 0 && rank && rank_of_place(g, g->dense_places[i]) < rank) continue;
        for (int32_t k = base; k < end; k++) EG_PUSH(s->rows.pool, s->work, s->work.at[k]);
        eg_follow(m, out, end, i < 0 ? eg_group_dead_root(eg_vocabulary_of(m), g, rank) : g->dense_places[i]);
    }
}

/* Push what the thread becomes after `byte`, except for the terminals that begin `again`. */
static void step_but(eg_masks *m, eg_thread thread, int byte, const int32_t *again, int32_t count) {
    eg_states *s = &m->states;
    if (!count || thread.terminal != EG_ANY) {
        eg_thread_step(s, thread, byte);
        return;
    }
    const int32_t core = s->rows.rows.at[thread.row].core;
    for (int32_t i = 0; i < s->rows.cores.at[core].expected_count; i++) {
        const int32_t terminal = s->rows.cores.at[core].expected[i];
        bool left = false;
        for (int32_t k = 0; k < count; k++) left |= again[k] == terminal;
        if (!left) eg_thread_read(s, thread.row, terminal, EG_EMPTY, byte);
    }
}

enum { MAX_AGAIN = 8, MAX_ROUNDS = 64 };

/* A row whose terminals begin at the exits of this rank or more. */
typedef struct eg_round {
    int32_t row, rank;
} eg_round;

typedef struct eg_rounds {
    eg_round at[MAX_ROUNDS];
    int32_t count;
} eg_rounds;

/* Record that `next` follows where the terminals of `round` begin again; false if there is no room. */
static bool note_round(eg_rounds *rounds, const eg_round round, int32_t next) {
    if (next < 0) return true;
    for (int32_t i = 0; i < rounds->count; i++)
        if (rounds->at[i].row == next && rounds->at[i].rank <= round.rank + 1) return true;
    if (rounds->count == MAX_ROUNDS || round.rank + 1 >= EG_MAX_RANK) return false;
    rounds->at[rounds->count++] = (eg_round){next, round.rank + 1};
    return true;
}

/* Find the terminals of the round's row that begin `again` at exits of `g`, and record what follows them. */
static int32_t find_again(eg_masks *m, eg_group *g, const eg_round round, eg_rounds *rounds, int32_t *again) {
    eg_rows *r = &m->states.rows;
    const int32_t core = r->rows.at[round.row].core;
    int32_t count = 0;
    eg_work(r->pool->fault, r->cores.at[core].expected_count);
    for (int32_t i = 0; i < r->cores.at[core].expected_count && count < MAX_AGAIN; i++) {
        const int32_t terminal = r->cores.at[core].expected[i];
        eg_bytes bytes;
        if (!is_again(m, g, terminal, &bytes)) continue;
        const bool same = g->ranked && !memcmp(&bytes, &g->again, sizeof bytes);
        if (!same && rounds->count > 1) continue; /* pending rounds use other ranks */
        if (!same) eg_group_rank(eg_vocabulary_of(m), g, &bytes);
        if (note_round(rounds, round, eg_row_advance(r, round.row, terminal))) again[count++] = terminal;
    }
    return count;
}

/* Add the tokens of `g` after which its terminal ends for good, if it has begun often enough. */
static void add_finals(eg_masks *m, eg_out *out, const eg_group *g, int32_t rank) {
    const eg_tries *t = &eg_vocabulary_of(m)->tries;
    const int32_t exits = rank && g->byte_count ? g->bytes[g->byte_count - 1].end : 0;
    for (int32_t i = 0; i < g->final_count; i++) {
        eg_work(eg_pool_of(m)->fault, 1 + exits / 8);
        int32_t have = 0;
        for (int32_t k = 0; rank && k < g->byte_count; k++)
            for (int32_t n = g->bytes[k].begin; n < g->bytes[k].end; n++)
                if (g->exits[n].child == g->final_befores[i])
                    have = g->exits[n].rank + eg_bytes_has(&g->again, t->byte.at[g->exits[n].child]);
        if (have >= rank) eg_out_add(m, out, &g->finals[i], 1);
    }
}

/* Add what may follow in `round` at the exits of `g`; records further rounds. */
static void add_round(eg_masks *m, eg_out *out, eg_group *g, const eg_round round, eg_rounds *rounds) {
    eg_states *s = &m->states;
    const int32_t base = s->work.count;
    eg_thread_begin(s, round.row, g->guard);
    const int32_t end = s->work.count;
    int32_t again[MAX_AGAIN], count = 0;
    if (end == base + 1 && g->repeats && g->entry < 0 && s->work.at[base].guard == EG_EMPTY)
        count = find_again(m, g, round, rounds, again);
    if (end > base) {
        add_finals(m, out, g, round.rank);
        add_dead_exits(m, out, g, round.rank, base);
    }
    for (int32_t i = 0; i < g->byte_count && end > base; i++) {
        if (g->bytes[i].after == EG_EMPTY || (round.rank && g->bytes[i].rank < round.rank)) continue;
        const int byte = g->bytes[i].byte;
        const bool left = count && eg_bytes_has(&g->again, byte);
        for (int32_t k = base; k < end; k++) step_but(m, s->work.at[k], byte, again, left ? count : 0);
        if (s->work.count > end) add_exits(m, out, g, i, round.rank, end);
    }
    s->work.count = base;
}

/* Add what may follow a terminal that ended at the exits of `g`: `row` is the one after it. */
static void add_group(eg_masks *m, eg_out *out, int32_t row, eg_group *g) {
    eg_rounds rounds = {{{row, 0}}, 1};
    for (int32_t i = 0; i < rounds.count; i++) add_round(m, out, g, rounds.at[i], &rounds);
}

static void add_terminal(eg_masks *m, eg_out *out, int32_t row, int32_t terminal, int32_t e, int32_t node);

/* Remove tokens from `out`. */
static void remove_tokens(eg_masks *m, eg_out *out, const int32_t *tokens, int32_t count) {
    eg_work(eg_pool_of(m)->fault, count + (int64_t)out->removed.count / 4 + out->tokens.count / 4);
    if (out->bits)
        EG_RESERVE(eg_pool_of(m), out->removed, count); /* nothing faults while tokens are marked */
    uint32_t *marks = eg_vocabulary_of(m)->marks;
    eg_set_bits(marks, tokens, count);
    eg_clear_bits(marks, out->removed.at, out->removed.count);
    for (int32_t i = 0; i < count && out->bits; i++)
        if (eg_has_bit(out->bits, tokens[i]) && eg_has_bit(marks, tokens[i]))
            out->removed.at[out->removed.count++] = tokens[i];
    eg_set_bits(marks, tokens, count);
    int32_t kept = 0;
    for (int32_t i = 0; i < out->tokens.count; i++)
        if (!eg_has_bit(marks, out->tokens.at[i])) out->tokens.at[kept++] = out->tokens.at[i];
    out->tokens.count = kept;
    eg_clear_bits(marks, tokens, count);
}

/* Remove the tokens at and below `node` from `out`. */
static void remove_below(eg_masks *m, eg_out *out, int32_t node) {
    const eg_tries *t = &eg_vocabulary_of(m)->tries;
    const int32_t begin = t->first_token.at[node], end = t->first_token.at[t->end.at[node]];
    m->compare_budget -= (out->tokens.count + out->removed.count) / LISTED;
    remove_tokens(m, out, t->tokens.at + begin, end - begin);
}

/* Record in `wrong` the tokens at and below `node` that end inside `e`, the derivative there. */
static void note_within(eg_masks *m, int32_t node, int32_t e) {
    es_vocabulary *v = eg_vocabulary_of(m);
    const eg_tries *t = &v->tries;
    eg_work(&v->fault, 2);
    if (eg_node(&v->expressions, e)->over) return;
    for (int32_t i = 0; i < t->own.at[node]; i++)
        EG_PUSH(eg_pool_of(m), m->wrong, t->tokens.at[t->first_token.at[node] + i]);
    for (int32_t c = node + 1; c < t->end.at[node]; c = t->end.at[c]) {
        const int32_t next = eg_step(&v->expressions, e, t->byte.at[c]);
        if (next != EG_EMPTY) note_within(m, c, next);
    }
}

/* Recompute the tokens at and below the node path[depth], which `thread` reaches along the path. */
static void add_along(eg_masks *m, eg_out *out, const eg_thread *thread, const int32_t *path, int32_t depth) {
    eg_states *s = &m->states;
    const eg_tries *t = &eg_vocabulary_of(m)->tries;
    const int32_t base = s->work.count;
    EG_PUSH(s->rows.pool, s->work, *thread);
    int32_t begin = base;
    for (int32_t i = 0; i <= depth; i++) {
        const int32_t end = s->work.count;
        for (int32_t k = begin; k < end; k++) eg_thread_step(s, s->work.at[k], t->byte.at[path[i]]);
        begin = end;
    }
    eg_threads_sort(s, begin);
    if (s->work.count > begin) {
        add_own(m, out, path[depth]);
        eg_follow(m, out, begin, path[depth]);
    }
    s->work.count = base;
}

/* Where `e` and the looser `whole` disagree on whether they can continue or end, recompute the tokens. `path`
 * holds the nodes below the first one; `ended`: on the way there, what is read could end, so that more may have
 * begun. Tokens that a lexer's parser cannot accept are recorded in `wrong`. */
static void correct(eg_masks *m, eg_out *out, const eg_thread *thread, int32_t node, int32_t e, int32_t whole,
                    int32_t *path, int32_t depth, bool ended) {
    es_vocabulary *v = eg_vocabulary_of(m);
    eg_expressions *x = &v->expressions;
    const eg_tries *t = &v->tries;
    const eg_bytes differing = eg_expression_differing_bytes(x, e, whole);
    for (int32_t c = node + 1; c < t->end.at[node] && m->compare_budget >= 0; c = t->end.at[c]) {
        if (!eg_bytes_has(&differing, t->byte.at[c])) continue;
        m->compare_budget--;
        const int32_t inner = eg_step(x, e, t->byte.at[c]), outer = eg_step(x, whole, t->byte.at[c]);
        eg_work(&v->fault, 2);
        if (inner == outer || outer == EG_EMPTY) continue;
        /* Where the outer expression has ended, the parser accepts nothing. */
        if (thread->terminal == EG_LEXING && inner == EG_EMPTY && !ended) {
            note_within(m, c, outer);
            continue;
        }
        const int32_t height = t->height.at[c];
        if (inner != EG_EMPTY && height < 255 &&
            eg_expression_bounded(x, inner, height) == eg_expression_bounded(x, outer, height))
            continue;
        path[depth] = c;
        if (inner != EG_EMPTY && eg_node(x, inner)->nullable == eg_node(x, outer)->nullable &&
            eg_node(x, inner)->over == eg_node(x, outer)->over) {
            correct(m, out, thread, c, inner, outer, path, depth + 1, ended || eg_node(x, inner)->nullable);
            continue;
        }
        remove_below(m, out, c);
        if (inner != EG_EMPTY || ended) add_along(m, out, thread, path, depth);
    }
}

/* Add what may follow `e`, starting from the looser `whole`. If the two differ in too many places, nothing is
 * added and `whole` is not tried again. */
static bool add_corrected(eg_masks *m, eg_out *out, int32_t row, int32_t terminal, int32_t e, int32_t whole,
                          int32_t node) {
    eg_out *aside = eg_out_take(m);
    if (!aside) return false;
    add_terminal(m, aside, row, terminal, whole, node);
    const eg_thread thread = {row, terminal, e, EG_EMPTY};
    int32_t *path = m->path + (m->depth - 1) * (eg_vocabulary_of(m)->longest + 1);
    const int64_t left = m->compare_budget;
    const int32_t base = m->wrong.count;
    m->compare_budget = COMPARE_BUDGET;
    correct(m, aside, &thread, node, e, whole, path, 0, false);
    const bool corrected = m->compare_budget >= 0;
    m->compare_budget = left;
    if (corrected) remove_tokens(m, aside, m->wrong.at + base, m->wrong.count - base);
    m->wrong.count = base;
    if (!corrected) {
        eg_expression_forget_looser(&eg_vocabulary_of(m)->expressions, e);
        m->depth--;
        return false;
    }
    if (aside->bits) eg_out_add_bits(m, out, aside->bits, aside->removed.at, aside->removed.count);
    if (aside->bits && out->bits == aside->own) eg_out_unshare(m, out);
    eg_out_add(m, out, aside->tokens.at, aside->tokens.count);
    m->depth--;
    return true;
}

/* Add the tokens below `node` that a terminal allows whose derivative is `e`. */
static void add_terminal(eg_masks *m, eg_out *out, int32_t row, int32_t terminal, int32_t e, int32_t node) {
    es_vocabulary *v = eg_vocabulary_of(m);
    e = eg_expression_bounded(&v->expressions, e, v->longest);
    const int32_t whole = eg_expression_looser(&v->expressions, e);
    /* Below the root a token of a lexer may belong to two nodes. */
    const bool apart = whole != e && (terminal != EG_LEXING || !node);
    if (apart && add_corrected(m, out, row, terminal, e, whole, node)) return;
    const int32_t number = eg_summary_of(v, e, node);
    const eg_summary summary = v->summaries->list.at[number];
    if (summary.bits) eg_out_add_bits(m, out, summary.bits, NULL, 0);
    else eg_out_add(m, out, summary.tokens, summary.count);
    for (int32_t i = 0; i < summary.group_count; i++) {
        eg_group *g = &summary.groups[i];
        eg_rows *r = &m->states.rows;
        const int32_t next = terminal == EG_LEXING ? eg_row_after(r, row, g->entry)
                                                   : eg_row_advance(r, row, terminal);
        if (next >= 0) add_group(m, out, next, g);
    }
}

/* Add from summaries what a thread allows below `node`, which has many nodes below it. What is not wide is
 * pushed instead and walked together with others, so that a position reached by several readings of a text is
 * checked once. */
static void add_thread(eg_masks *m, eg_out *out, eg_thread thread, int32_t node) {
    eg_states *s = &m->states;
    eg_rows *r = &s->rows;
    const eg_expressions *x = &eg_vocabulary_of(m)->expressions;
    const int32_t lexer = eg_core_of(r, thread.row)->lexer;
    if (thread.terminal == EG_ANY && lexer >= 0) {
        const bool guarded = eg_bytes_meet(eg_first(x, lexer), eg_first(x, thread.guard));
        thread = (eg_thread){thread.row, EG_LEXING, lexer, guarded ? thread.guard : EG_EMPTY};
    }
    if (thread.terminal != EG_ANY) {
        if (thread.guard == EG_EMPTY && eg_node(x, thread.expression)->wide)
            add_terminal(m, out, thread.row, thread.terminal, thread.expression, node);
        else EG_PUSH(r->pool, s->work, thread);
        return;
    }
    const int32_t core = r->rows.at[thread.row].core;
    eg_work(r->pool->fault, 2 + r->cores.at[core].expected_count);
    const uint64_t next = eg_vocabulary_of(m)->tries.next.at[node];
    const bool guarded = eg_bytes_meet(&r->cores.at[core].first, eg_first(x, thread.guard));
    if (!guarded && eg_bytes_fold(&r->cores.at[core].narrow) & next)
        EG_PUSH(r->pool, s->work, (eg_thread){thread.row, EG_NARROW, -1, EG_EMPTY});
    for (int32_t i = 0; i < r->cores.at[core].expected_count; i++) {
        const int32_t terminal = r->cores.at[core].expected[i];
        const int32_t e = r->rules->terminals[terminal].expression;
        if (e <= EG_EMPTY || !(eg_bytes_fold(eg_first(x, e)) & next)) continue;
        const bool apart = guarded && eg_bytes_meet(eg_first(x, e), eg_first(x, thread.guard));
        if (!apart && eg_node(x, e)->wide) add_terminal(m, out, thread.row, terminal, e, node);
        else if (guarded)
            EG_PUSH(r->pool, s->work, (eg_thread){thread.row, terminal, e, apart ? thread.guard : EG_EMPTY});
    }
}

/* The bytes with which any thread on the stack from `base` on can continue. */
static eg_bytes bytes_of(const eg_masks *m, int32_t base) {
    const eg_states *s = &m->states;
    eg_bytes out = {{0}};
    for (int32_t i = base; i < s->work.count; i++) {
        const eg_thread *t = &s->work.at[i];
        const eg_core *core = eg_core_of(&s->rows, t->row);
        eg_bytes_unite(&out, t->expression >= 0 ? eg_first(&eg_vocabulary_of(m)->expressions, t->expression)
                             : t->terminal == EG_ANY ? &core->first
                                                     : &core->narrow);
    }
    return out;
}

/* Whether any of the threads on the stack from `base` to `end` survives the byte of `node`. The resulting
 * threads are left on the stack if they can continue to a child of the node. */
static bool step_to(eg_masks *m, int32_t base, int32_t end, int32_t node) {
    eg_states *s = &m->states;
    const eg_tries *t = &eg_vocabulary_of(m)->tries;
    const int byte = t->byte.at[node];
    const bool leaf = t->end.at[node] == node + 1;
    s->filtering = true;
    s->wanted = t->next.at[node];
    s->filtered_out = false;
    for (int32_t i = base; i < end && !(leaf && s->filtered_out); i++) eg_thread_step(s, s->work.at[i], byte);
    s->filtering = false;
    return s->filtered_out || s->work.count > end;
}

/* After `node` the threads are unchanged. So they are after more of the same byte, as long as the same bytes
 * can come next, or none. Returns the last such node. */
static int32_t pass_run(eg_masks *m, eg_out *out, int32_t node) {
    const eg_tries *t = &eg_vocabulary_of(m)->tries;
    for (;; node++) {
        const int32_t child = node + 1, end = t->end.at[node];
        if (end == child || t->end.at[child] != end || t->byte.at[child] != t->byte.at[node]) return node;
        if (t->next.at[child] && t->next.at[child] != t->next.at[node]) return node;
        add_own(m, out, child);
    }
}

/* Add what the threads on the stack from `base` to `end` allow at and below `node`. */
static void add_child(eg_masks *m, eg_out *out, int32_t base, int32_t end, int32_t node) {
    eg_states *s = &m->states;
    if (!step_to(m, base, end, node)) return;
    add_own(m, out, node);
    if (s->work.count == end) return;
    eg_threads_sort(s, end);
    const bool as_many = s->work.count - end == end - base;
    if (as_many && eg_same(s->work.at + base, s->work.at + end, (size_t)(end - base) * sizeof *s->work.at))
        node = pass_run(m, out, node);
    eg_follow(m, out, end, node);
}

void eg_follow(eg_masks *m, eg_out *out, int32_t base, int32_t node) {
    eg_states *s = &m->states;
    const es_vocabulary *v = eg_vocabulary_of(m);
    const eg_tries *t = &v->tries;
    int32_t begin = base;
    m->exhausted |= --m->budget < 0;
    eg_work(eg_pool_of(m)->fault, 2 + s->work.count - base);
    if (t->end.at[node] - node > SMALL && !m->exhausted) {
        begin = s->work.count;
        for (int32_t i = base; i < begin; i++) add_thread(m, out, s->work.at[i], node);
    }
    const int32_t end = s->work.count;
    const eg_bytes bytes = bytes_of(m, begin);
    if (!node)
        for (int i = 0; i < 4; i++)
            for (uint64_t rest = bytes.words[i]; rest && end > begin && !m->exhausted; rest &= rest - 1) {
                const int32_t child = v->root_children[64 * i + __builtin_ctzll(rest)];
                if (child) add_child(m, out, begin, end, child);
            }
    else
        for (int32_t c = node + 1; c < t->end.at[node] && end > begin && !m->exhausted; c = t->end.at[c])
            if (eg_bytes_has(&bytes, t->byte.at[c])) add_child(m, out, begin, end, c);
    s->work.count = base;
}

/* The walk through the vocabulary's trie with `state`: one that was not finished, or a new one. While as many as are
 * kept are under way, others begin again with each call, until one of those ends or is given up. */
static eg_walk *walk_of(eg_masks *m, int32_t state) {
    eg_walk *oldest = &m->walks[0];
    m->walked++;
    for (int i = 0; i < EG_WALKS; i++) {
        eg_walk *walk = &m->walks[i];
        if (walk->node && walk->state == state) return walk;
        if (walk->last < oldest->last) oldest = walk;
    }
    eg_walk *walk = !oldest->last || m->walked - oldest->last > PATIENCE ? oldest : &m->walks[EG_WALKS];
    if (!walk->path)
        walk->path = eg_take(eg_pool_of(m), ((size_t)eg_vocabulary_of(m)->longest + 1) * sizeof *walk->path);
    walk->path[0] = walk->state = state;
    walk->node = 1;
    walk->tokens.count = 0;
    return walk;
}

bool eg_follow_bytewise(eg_masks *m, eg_out *out, int32_t state, int64_t max_steps) {
    eg_states *s = &m->states;
    es_vocabulary *v = eg_vocabulary_of(m);
    const eg_tries *t = &v->tries;
    const int64_t known = s->by_byte.count;
    eg_walk *walk = walk_of(m, state);
    walk->last = m->walked;
    eg_state_widen(s, state);
    while (walk->node < t->end.at[0]) {
        const int32_t i = walk->node, depth = t->depth.at[i], own = t->own.at[i];
        eg_work(&v->fault, 1 + own / 16);
        const int32_t next = eg_state_step(s, walk->path[depth - 1], t->byte.at[i]);
        if (s->by_byte.count - known > max_steps) return false;
        if (next >= 0) {
            if (t->end.at[i] - i > MANY) eg_state_widen(s, next);
            EG_RESERVE(eg_pool_of(m), walk->tokens, own);
            eg_copy(walk->tokens.at + walk->tokens.count, t->tokens.at + t->first_token.at[i],
                    (size_t)own * sizeof *walk->tokens.at);
            walk->tokens.count += own;
        }
        walk->path[depth] = next;
        walk->node = next < 0 ? t->end.at[i] : i + 1;
    }
    eg_out_add(m, out, walk->tokens.at, walk->tokens.count);
    return true;
}

void eg_follow_done(eg_masks *m, int32_t state) {
    for (int i = 0; i <= EG_WALKS; i++) {
        eg_walk *walk = &m->walks[i];
        if (walk->state != state) continue;
        EG_FREE(eg_pool_of(m), walk->tokens);
        walk->node = 0;
        walk->last = 0;
    }
}

void eg_follow_special(eg_masks *m, eg_out *out, eg_thread thread) {
    const eg_rows *r = &m->states.rows;
    const eg_core *core = eg_core_of(r, thread.row);
    for (int32_t i = 0; i < core->expected_count && core->special; i++) {
        const int32_t terminal = core->expected[i];
        const int32_t begin = r->rules->special_starts[terminal];
        if (r->rules->terminals[terminal].expression >= 0) continue;
        eg_out_add(m, out, r->rules->special_ids + begin, r->rules->special_starts[terminal + 1] - begin);
    }
}
