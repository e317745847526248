/* Groups of exits: how often a terminal can have begun there, and the tries of what comes after them. */
#include "engine_sampler_grammar.h"
#include "grammar/masks/summary.h"

enum { MAX_NODES = 1 << 24 };

static bool is_dense(const eg_group *g, int32_t place) {
    for (int32_t i = 0; i < g->dense_count; i++)
        if (g->dense_places[i] == place) return true;
    return false;
}

/* Make the trie of the exits that were collected. */
static int32_t make_root(eg_summaries *s, uint64_t key) {
    if (s->tries->byte.count > MAX_NODES)
        eg_fail(s->pool->fault, ES_GRAMMAR_MEMORY, "the tries of token ends are full");
    const int32_t root = eg_tries_merge(s->tries);
    eg_map_put(s->pool, &s->roots, key, root);
    eg_tries_keep(s->tries);
    return root;
}

int32_t eg_group_root(eg_summaries *s, const eg_group *g, int32_t byte, int32_t rank) {
    const eg_exits *of = &g->bytes[byte];
    const uint64_t key = eg_pair(g->number, byte << 8 | rank);
    const int32_t root = eg_map_get(&s->roots, key, -1);
    if (root >= 0) return root;
    s->tries->sources.count = 0;
    eg_work(s->pool->fault, of->end - of->begin);
    for (int32_t i = of->begin; i < of->end; i++)
        if (!rank || g->exits[i].rank >= rank)
            EG_PUSH(s->tries->pool, s->tries->sources, (eg_source){.node = g->exits[i].child});
    return make_root(s, key);
}

int32_t eg_group_dead_root(eg_summaries *s, const eg_group *g, int32_t rank) {
    const uint64_t key = eg_pair(g->number, EG_DEAD_EXITS << 8 | rank);
    const int32_t root = eg_map_get(&s->roots, key, -1);
    if (root >= 0) return root;
    s->tries->sources.count = 0;
    eg_work(s->pool->fault, (int64_t)eg_exit_count(g) * (1 + g->dense_count / 8));
    for (int32_t i = g->byte_count - 1; i >= 0; i--)
        for (int32_t k = g->bytes[i].begin; k < g->bytes[i].end && g->bytes[i].after == EG_EMPTY; k++)
            if ((!rank || g->exits[k].rank >= rank) && !is_dense(g, g->exits[k].place))
                EG_PUSH(s->tries->pool, s->tries->sources,
                        (eg_source){g->exits[k].child, 1, g->bytes[i].byte});
    return make_root(s, key);
}

static int compare_exits(const void *a, const void *b) {
    const eg_exit *x = *(eg_exit *const *)a, *y = *(eg_exit *const *)b;
    return (x->child > y->child) - (x->child < y->child);
}

/* Nodes come after those on the path to them. */
void eg_group_rank(eg_summaries *s, eg_group *g, const eg_bytes *again) {
    const int32_t count = eg_exit_count(g);
    eg_work(s->pool->fault, 8 * count + eg_sorting(count));
    eg_exit **sorted = eg_take(s->pool, (size_t)count * sizeof *sorted);
    for (int32_t i = 0; i < count; i++) sorted[i] = &g->exits[i];
    eg_sort(sorted, count, sizeof *sorted, compare_exits);
    eg_map_release(s->pool, &s->ranks);
    for (int32_t i = 0; i < count; i++) {
        eg_exit *exit = sorted[i];
        const int32_t before = exit->before;
        exit->rank = 0;
        if (before >= 0) {
            const int32_t rank = eg_map_get(&s->ranks, eg_pair(before, 0), 0);
            exit->rank = rank + (rank < EG_MAX_RANK && eg_bytes_has(again, s->tries->byte.at[before]));
        }
        eg_map_put(s->pool, &s->ranks, eg_pair(exit->child, 0), exit->rank);
    }
    for (int32_t i = 0; i < g->byte_count; i++) {
        g->bytes[i].rank = 0;
        for (int32_t k = g->bytes[i].begin; k < g->bytes[i].end; k++)
            if (g->bytes[i].rank < g->exits[k].rank) g->bytes[i].rank = g->exits[k].rank;
    }
    g->number = s->groups++; /* tries that were made with other ranks are no longer valid */
    g->again = *again;
    g->ranked = true;
}
