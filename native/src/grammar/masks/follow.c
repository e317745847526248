/* Walking the tries with summaries and the parser. */
#include "grammar/masks/follow.h"

enum { SMALL = 48 }; /* tries with fewer nodes are walked rather than summarized */

void eg_follow_node(eg_follower *f, eg_token_set *set, int32_t node) {
    const eg_tries *t = &f->vocabulary->tries;
    eg_token_set_add(&f->sets, set, t->tokens.at + t->first_token.at[node], t->own.at[node]);
}

void eg_follow_terminal(eg_follower *f, eg_token_set *set, int32_t row, int32_t terminal, int32_t e,
                        int32_t node) {
    es_vocabulary *v = f->vocabulary;
    e = eg_expression_bounded(&v->expressions, e, v->tokens.longest);
    const int32_t whole = eg_expression_looser(&v->expressions, e);
    /* Below the root a token of a lexer may belong to two nodes. */
    const bool apart = whole != e && (terminal != EG_LEXING || !node);
    if (apart && eg_follow_corrected(f, set, row, terminal, e, whole, node)) return;
    const int32_t number = eg_summary_of(v->summaries, e, node);
    const eg_summary summary = v->summaries->list.at[number];
    if (summary.bits) eg_token_set_add_bits(&f->sets, set, summary.bits, NULL, 0);
    else eg_token_set_add(&f->sets, set, summary.tokens, summary.count);
    for (int32_t i = 0; i < summary.group_count; i++) {
        eg_group *g = &summary.groups[i];
        eg_rows *r = &f->states->rows;
        const int32_t next = terminal == EG_LEXING ? eg_row_after(r, row, g->entry)
                                                   : eg_row_advance(r, row, terminal);
        if (next >= 0) eg_follow_exits(f, set, next, g);
    }
}

/* Add from summaries what a thread allows below `node`, which has many nodes below it. What is not wide is
 * pushed instead and walked together with others, so that a position reached by several readings of a text
 * is checked once. */
static void follow_thread(eg_follower *f, eg_token_set *set, eg_thread thread, int32_t node) {
    eg_states *s = f->states;
    eg_rows *r = &s->rows;
    const eg_expressions *x = &f->vocabulary->expressions;
    const int32_t lexer = eg_core_of(r, thread.row)->lexer;
    if (thread.terminal == EG_ANY && lexer >= 0) {
        const bool guarded = eg_bytes_meet(eg_first(x, lexer), eg_first(x, thread.guard));
        thread = (eg_thread){thread.row, EG_LEXING, lexer, guarded ? thread.guard : EG_EMPTY};
    }
    if (thread.terminal != EG_ANY) {
        if (thread.guard == EG_EMPTY && eg_node(x, thread.expression)->wide)
            eg_follow_terminal(f, set, thread.row, thread.terminal, thread.expression, node);
        else EG_PUSH(r->pool, s->work, thread);
        return;
    }
    const int32_t core = r->rows.at[thread.row].core;
    eg_work(r->pool->fault, 2 + r->cores.at[core].expected_count);
    const uint64_t next = f->vocabulary->tries.next.at[node];
    const bool guarded = eg_bytes_meet(&r->cores.at[core].first, eg_first(x, thread.guard));
    if (!guarded && eg_bytes_fold(&r->cores.at[core].narrow) & next)
        EG_PUSH(r->pool, s->work, (eg_thread){thread.row, EG_NARROW, -1, EG_EMPTY});
    for (int32_t i = 0; i < r->cores.at[core].expected_count; i++) {
        const int32_t terminal = r->cores.at[core].expected[i];
        const int32_t e = r->rules->terminals[terminal].expression;
        if (e <= EG_EMPTY || !(eg_bytes_fold(eg_first(x, e)) & next)) continue;
        const bool apart = guarded && eg_bytes_meet(eg_first(x, e), eg_first(x, thread.guard));
        if (!apart && eg_node(x, e)->wide) eg_follow_terminal(f, set, thread.row, terminal, e, node);
        else if (guarded)
            EG_PUSH(r->pool, s->work, (eg_thread){thread.row, terminal, e, apart ? thread.guard : EG_EMPTY});
    }
}

/* The bytes with which any thread on the stack from `base` on can continue. */
static eg_bytes first_bytes_of(const eg_follower *f, int32_t base) {
    const eg_states *s = f->states;
    eg_bytes out = {{0}};
    for (int32_t i = base; i < s->work.count; i++) {
        const eg_thread *t = &s->work.at[i];
        const eg_core *core = eg_core_of(&s->rows, t->row);
        eg_bytes_unite(&out, t->expression >= 0      ? eg_first(&f->vocabulary->expressions, t->expression)
                             : t->terminal == EG_ANY ? &core->first
                                                     : &core->narrow);
    }
    return out;
}

/* Whether any of the threads on the stack from `base` to `end` survives the byte of `node`. The resulting
 * threads are left on the stack if they can continue to a child of the node. */
static bool step_to(eg_follower *f, int32_t base, int32_t end, int32_t node) {
    eg_states *s = f->states;
    const eg_tries *t = &f->vocabulary->tries;
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
static int32_t skip_run(eg_follower *f, eg_token_set *set, int32_t node) {
    const eg_tries *t = &f->vocabulary->tries;
    for (;; node++) {
        const int32_t child = node + 1, end = t->end.at[node];
        if (end == child || t->end.at[child] != end || t->byte.at[child] != t->byte.at[node]) return node;
        if (t->next.at[child] && t->next.at[child] != t->next.at[node]) return node;
        eg_follow_node(f, set, child);
    }
}

/* Add what the threads on the stack from `base` to `end` allow at and below `node`. */
static void follow_child(eg_follower *f, eg_token_set *set, int32_t base, int32_t end, int32_t node) {
    eg_states *s = f->states;
    if (!step_to(f, base, end, node)) return;
    eg_follow_node(f, set, node);
    if (s->work.count == end) return;
    eg_threads_sort(s, end);
    const bool as_many = s->work.count - end == end - base;
    if (as_many && eg_same(s->work.at + base, s->work.at + end, (size_t)(end - base) * sizeof *s->work.at))
        node = skip_run(f, set, node);
    eg_follow(f, set, end, node);
}

void eg_follow(eg_follower *f, eg_token_set *set, int32_t base, int32_t node) {
    eg_states *s = f->states;
    const es_vocabulary *v = f->vocabulary;
    const eg_tries *t = &v->tries;
    int32_t begin = base;
    f->exhausted |= --f->budget < 0;
    eg_work(eg_follower_pool(f)->fault, 2 + s->work.count - base);
    if (t->end.at[node] - node > SMALL && !f->exhausted) {
        begin = s->work.count;
        for (int32_t i = base; i < begin; i++) follow_thread(f, set, s->work.at[i], node);
    }
    const int32_t end = s->work.count;
    const eg_bytes bytes = first_bytes_of(f, begin);
    if (!node)
        for (int i = 0; i < 4; i++)
            for (uint64_t rest = bytes.words[i]; rest && end > begin && !f->exhausted; rest &= rest - 1) {
                const int32_t child = v->tries.root_children[64 * i + __builtin_ctzll(rest)];
                if (child) follow_child(f, set, begin, end, child);
            }
    else
        for (int32_t c = node + 1; c < t->end.at[node] && end > begin && !f->exhausted; c = t->end.at[c])
            if (eg_bytes_has(&bytes, t->byte.at[c])) follow_child(f, set, begin, end, c);
    s->work.count = base;
}

void eg_follow_special(eg_follower *f, eg_token_set *set, eg_thread thread) {
    const eg_rows *r = &f->states->rows;
    const eg_core *core = eg_core_of(r, thread.row);
    for (int32_t i = 0; i < core->expected_count && core->special; i++) {
        const int32_t terminal = core->expected[i];
        const int32_t begin = r->rules->special_starts[terminal];
        if (r->rules->terminals[terminal].expression >= 0) continue;
        eg_token_set_add(&f->sets, set, r->rules->special_ids + begin,
                         r->rules->special_starts[terminal + 1] - begin);
    }
}

/* --- opening --- */

void eg_follower_open(eg_follower *f, eg_states *states) {
    eg_pool *pool = states->rows.pool;
    *f = (eg_follower){.states = states, .sets = {.pool = pool, .words = states->tokens->words}};
    f->path = eg_take(pool, EG_SETS * ((size_t)states->tokens->longest + 1) * sizeof *f->path);
}

void eg_follower_attach(eg_follower *f, es_vocabulary *vocabulary) {
    f->vocabulary = vocabulary;
    f->sets.marks = vocabulary->marks;
}
