/* The tokens that a state allows, found byte by byte. */
#include "grammar/masks/follow.h"

enum {
    MANY = 64,      /* nodes below a node for which its state keeps a table of steps */
    PATIENCE = 1000 /* walks after which one that is not continued is given up */
};

/* The walk through the vocabulary's trie with `state`: one that was not finished, or a new one. While as
 * many as are kept are under way, others begin again with each call, until one of those ends or is given
 * up. */
static eg_walk *find_walk(eg_follower *f, int32_t state) {
    eg_walk *oldest = &f->walks[0];
    f->walked++;
    for (int i = 0; i < EG_WALKS; i++) {
        eg_walk *walk = &f->walks[i];
        if (walk->node && walk->state == state) return walk;
        if (walk->last < oldest->last) oldest = walk;
    }
    eg_walk *walk = !oldest->last || f->walked - oldest->last > PATIENCE ? oldest : &f->walks[EG_WALKS];
    if (!walk->path)
        walk->path = eg_take(eg_follower_pool(f),
                             ((size_t)f->vocabulary->tokens.longest + 1) * sizeof *walk->path);
    walk->path[0] = walk->state = state;
    walk->node = 1;
    walk->tokens.count = 0;
    return walk;
}

bool eg_follow_bytewise(eg_follower *f, eg_token_set *set, int32_t state, int64_t max_steps) {
    eg_states *s = f->states;
    es_vocabulary *v = f->vocabulary;
    const eg_tries *t = &v->tries;
    const int64_t known = s->by_byte.count;
    eg_walk *walk = find_walk(f, state);
    walk->last = f->walked;
    eg_state_widen(s, state);
    while (walk->node < t->end.at[0]) {
        const int32_t i = walk->node, depth = t->depth.at[i], own = t->own.at[i];
        eg_work(&v->fault, 1 + own / 16);
        const int32_t next = eg_state_step(s, walk->path[depth - 1], t->byte.at[i]);
        if (s->by_byte.count - known > max_steps) return false;
        if (next >= 0) {
            if (t->end.at[i] - i > MANY) eg_state_widen(s, next);
            EG_APPEND(eg_follower_pool(f), walk->tokens, t->tokens.at + t->first_token.at[i], own);
        }
        walk->path[depth] = next;
        walk->node = next < 0 ? t->end.at[i] : i + 1;
    }
    eg_token_set_add(&f->sets, set, walk->tokens.at, walk->tokens.count);
    return true;
}

void eg_follow_done(eg_follower *f, int32_t state) {
    for (int i = 0; i <= EG_WALKS; i++) {
        eg_walk *walk = &f->walks[i];
        if (walk->state != state) continue;
        EG_RELEASE(eg_follower_pool(f), walk->tokens);
        walk->node = 0;
        walk->last = 0;
    }
}
