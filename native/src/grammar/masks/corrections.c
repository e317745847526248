/* Tokens found with a looser expression, corrected where the expression itself differs from it. */
#include "grammar/masks/follow.h"

enum {
    COMPARE_BUDGET = 2000, /* nodes at which an expression is compared with a looser one */
    LISTED = 256           /* tokens that are looked through in the time of comparing a node */
};

/* Remove the tokens at and below `node`. */
static void remove_below(eg_follower *f, eg_token_set *set, int32_t node) {
    const eg_tries *t = &f->vocabulary->tries;
    const int32_t begin = t->first_token.at[node], end = t->first_token.at[t->end.at[node]];
    f->compare_budget -= (set->tokens.count + set->removed.count) / LISTED;
    eg_token_set_remove(&f->sets, set, t->tokens.at + begin, end - begin);
}

/* Record in `wrong` the tokens at and below `node` that end inside `e`, the derivative there. */
static void note_wrong(eg_follower *f, int32_t node, int32_t e) {
    es_vocabulary *v = f->vocabulary;
    const eg_tries *t = &v->tries;
    eg_work(&v->fault, 2);
    if (eg_node(&v->expressions, e)->over) return;
    for (int32_t i = 0; i < t->own.at[node]; i++)
        EG_PUSH(eg_follower_pool(f), f->wrong, t->tokens.at[t->first_token.at[node] + i]);
    for (int32_t c = node + 1; c < t->end.at[node]; c = t->end.at[c]) {
        const int32_t next = eg_step(&v->expressions, e, t->byte.at[c]);
        if (next != EG_EMPTY) note_wrong(f, c, next);
    }
}

/* Recompute the tokens at and below the node path[depth], which `thread` reaches along the path. */
static void add_along_path(eg_follower *f, eg_token_set *set, const eg_thread *thread, const int32_t *path,
                           int32_t depth) {
    eg_states *s = f->states;
    const eg_tries *t = &f->vocabulary->tries;
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
        eg_follow_node(f, set, path[depth]);
        eg_follow(f, set, begin, path[depth]);
    }
    s->work.count = base;
}

/* Where `e` and the looser `whole` disagree on whether they can continue or end, recompute the tokens.
 * `path` holds the nodes below the first one; `ended`: on the way there, what is read could end, so that
 * more may have begun. Tokens that a lexer's parser cannot accept are recorded in `wrong`. */
static void correct_below(eg_follower *f, eg_token_set *set, const eg_thread *thread, int32_t node, int32_t e,
                          int32_t whole, int32_t *path, int32_t depth, bool ended) {
    es_vocabulary *v = f->vocabulary;
    eg_expressions *x = &v->expressions;
    const eg_tries *t = &v->tries;
    const eg_bytes differing = eg_expression_differing_bytes(x, e, whole);
    for (int32_t c = node + 1; c < t->end.at[node] && f->compare_budget >= 0; c = t->end.at[c]) {
        if (!eg_bytes_has(&differing, t->byte.at[c])) continue;
        f->compare_budget--;
        const int32_t inner = eg_step(x, e, t->byte.at[c]), outer = eg_step(x, whole, t->byte.at[c]);
        eg_work(&v->fault, 2);
        if (inner == outer || outer == EG_EMPTY) continue;
        /* Where the outer expression has ended, the parser accepts nothing. */
        if (thread->terminal == EG_LEXING && inner == EG_EMPTY && !ended) {
            note_wrong(f, c, outer);
            continue;
        }
        const int32_t height = t->height.at[c];
        if (inner != EG_EMPTY && height < 255 &&
            eg_expression_bounded(x, inner, height) == eg_expression_bounded(x, outer, height))
            continue;
        path[depth] = c;
        if (inner != EG_EMPTY && eg_node(x, inner)->nullable == eg_node(x, outer)->nullable &&
            eg_node(x, inner)->over == eg_node(x, outer)->over) {
            correct_below(f, set, thread, c, inner, outer, path, depth + 1,
                          ended || eg_node(x, inner)->nullable);
            continue;
        }
        remove_below(f, set, c);
        if (inner != EG_EMPTY || ended) add_along_path(f, set, thread, path, depth);
    }
}

bool eg_follow_corrected(eg_follower *f, eg_token_set *set, int32_t row, int32_t terminal, int32_t e,
                         int32_t whole, int32_t node) {
    eg_token_set *aside = eg_token_set_take(&f->sets);
    if (!aside) return false;
    eg_follow_terminal(f, aside, row, terminal, whole, node);
    const eg_thread thread = {row, terminal, e, EG_EMPTY};
    int32_t *path = f->path + (f->sets.depth - 1) * (f->vocabulary->tokens.longest + 1);
    const int64_t left = f->compare_budget;
    const int32_t base = f->wrong.count;
    f->compare_budget = COMPARE_BUDGET;
    correct_below(f, aside, &thread, node, e, whole, path, 0, false);
    const bool corrected = f->compare_budget >= 0;
    f->compare_budget = left;
    if (corrected) {
        eg_token_set_remove(&f->sets, aside, f->wrong.at + base, f->wrong.count - base);
        eg_token_set_add_set(&f->sets, set, aside);
    } else {
        eg_expression_forget_looser(&f->vocabulary->expressions, e);
    }
    f->wrong.count = base;
    f->sets.depth--;
    return corrected;
}
