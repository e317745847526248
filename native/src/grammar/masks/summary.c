/* Computing summaries by walking tries. */
#include "grammar/masks/summary.h"

#include "grammar/base/bits.h"
#include "grammar/base/characters.h"

enum {
    FEW = 1024,        /* tokens that are kept as a list */
    MAX_NODES = 1 << 24,
    DENSE = 4096,      /* tokens after one place that are not merged with others */
    MIN_NODES = 6 /* nodes below a node for which it pays off to check whether they can be told at once */
};

/* Record the borders of `e`, which can end here; `border` has everything but guard and entry. */
static void note_border(es_vocabulary *v, int32_t e, eg_border border) {
    eg_summaries *s = v->summaries;
    eg_reading readings[EG_MAX_READINGS];
    const int count = eg_expression_readings(&v->expressions, e, readings);
    eg_work(&v->fault, 2 + count);
    for (int i = 0; i < count; i++) {
        border.guard = readings[i].guard;
        border.entry = readings[i].entry;
        EG_PUSH(s->pool, s->borders, border);
    }
}

/* The child of the last exit passed on the path to the level `depth`, or -1. */
static int32_t exit_before(const eg_level *levels, int32_t depth) {
    const int32_t end = depth ? levels[depth - 1].end : -1;
    return end < 0 ? -1 : levels[end + 1].node;
}

/* Record that the tokens at and below `node`, a dead child of the level `depth`, are left over: for every
 * level up to there at which the expression can end, once per child. */
static void note_dead(es_vocabulary *v, int32_t depth, int32_t node) {
    eg_level *levels = v->summaries->levels.at;
    for (int32_t d = levels[depth].end; d >= 0; d = d ? levels[d - 1].end : -1) {
        const int32_t child = d == depth ? node : levels[d + 1].node;
        if (levels[d].noted == child) continue;
        levels[d].noted = child;
        const int32_t after = d == depth ? EG_EMPTY : levels[d + 1].expression;
        const eg_border border = {
            0, v->tries.byte.at[child], -1, child, d + 1, exit_before(levels, d), levels[d].node, after};
        note_border(v, levels[d].expression, border);
    }
}

/* Record the tokens that end at `node`, where the derivative is `e`. */
static void note_own(es_vocabulary *v, int32_t node, int32_t e, int32_t depth) {
    eg_summaries *s = v->summaries;
    const int32_t *tokens = v->tries.tokens.at + v->tries.first_token.at[node];
    const int32_t count = v->tries.own.at[node];
    if (eg_node(&v->expressions, e)->over) {
        const int32_t before = exit_before(s->levels.at, depth);
        for (int32_t i = 0; i < count; i++)
            note_border(v, e, (eg_border){0, -1, -1, tokens[i], depth, before, -1, EG_EMPTY});
        return;
    }
    EG_RESERVE(s->pool, s->tokens, count);
    for (int32_t i = 0; i < count; i++) s->tokens.at[s->tokens.count++] = tokens[i];
}

static void enter_level(es_vocabulary *v, int32_t depth, int32_t node, int32_t e) {
    const eg_expression *x = eg_node(&v->expressions, e);
    eg_level *levels = v->summaries->levels.at;
    const bool ends = depth && x->nullable;
    const eg_level above = depth ? levels[depth - 1] : (eg_level){.end = -1};
    levels[depth] = (eg_level){x->steps, e, node, ends ? depth : above.end, -1};
}

/* Whether `e` can be continued after all characters on the paths below `node`. */
static bool continues_below(es_vocabulary *v, int32_t e, int32_t node) {
    const uint64_t below = v->tries.below.at[node];
    const int32_t height = v->tries.height.at[node];
    if (below & (EG_MALFORMED | EG_INSIDE)) return false;
    if (height < 255 && eg_expression_outlasts(&v->expressions, e, below, height)) return true;
    return !eg_expression_counts_characters(&v->expressions, e) &&
           !(below & ~eg_expression_unchanged_after(&v->expressions, e));
}

static void note_all(es_vocabulary *v, int32_t node) {
    eg_summaries *s = v->summaries;
    const eg_tries *t = &v->tries;
    const int32_t from = t->first_token.at[node], count = t->first_token.at[t->end.at[node]] - from;
    eg_work(&v->fault, count / 16);
    EG_RESERVE(s->pool, s->tokens, count);
    eg_copy(s->tokens.at + s->tokens.count, t->tokens.at + from, (size_t)count * sizeof *t->tokens.at);
    s->tokens.count += count;
}

/* Walk the nodes from..to, which are children of the level 0 and everything below them. */
static void walk_nodes(es_vocabulary *v, int32_t from, int32_t to) {
    eg_summaries *s = v->summaries;
    eg_level *levels = s->levels.at;
    const uint8_t *bytes = v->tries.byte.at;
    const uint16_t *depths = v->tries.depth.at;
    const int32_t *ends = v->tries.end.at, *own = v->tries.own.at;
    const int32_t top = depths[from];
    for (int32_t i = from; i < to;) {
        eg_work(&v->fault, 1);
        const int32_t depth = depths[i] - top;
        eg_level *level = &levels[depth];
        int32_t next = level->steps ? level->steps[bytes[i]] : -1;
        if (next < 0) {
            next = eg_step(&v->expressions, level->expression, bytes[i]);
            level->steps = eg_node(&v->expressions, level->expression)->steps;
        }
        if (next == EG_EMPTY) {
            if (level->end >= 0) note_dead(v, depth, i);
            i = ends[i];
            continue;
        }
        if (ends[i] - i > MIN_NODES && continues_below(v, next, i)) {
            note_all(v, i);
            i = ends[i];
            continue;
        }
        enter_level(v, depth + 1, i, next);
        if (own[i]) note_own(v, i, next, depth + 1);
        i++;
    }
}

/* Walk what is below `root` with `e`: tokens that end inside go to `tokens`, exits to `borders`. */
static void walk(es_vocabulary *v, int32_t e, int32_t root) {
    eg_summaries *s = v->summaries;
    s->tokens.count = s->borders.count = 0;
    EG_RESERVE(s->pool, s->levels, v->longest + 2);
    enter_level(v, 0, root, e);
    if (root) {
        if (v->tries.end.at[root] > root + 1) walk_nodes(v, root + 1, v->tries.end.at[root]);
        return;
    }
    const eg_bytes first = *eg_first(&v->expressions, e);
    for (int byte = 0; byte < 256; byte++) {
        const int32_t child = v->root_children[byte];
        if (child && eg_bytes_has(&first, byte)) walk_nodes(v, child, v->tries.end.at[child]);
    }
}

static int compare_borders(const void *a, const void *b) {
    const eg_border *x = a, *y = b;
    if (x->guard != y->guard) return x->guard < y->guard ? -1 : 1;
    if (x->entry != y->entry) return x->entry < y->entry ? -1 : 1;
    if (x->byte != y->byte) return x->byte < y->byte ? -1 : 1;
    return (x->child > y->child) - (x->child < y->child);
}

/* Make a group of borders under one guard, ascending. */
static void keep_group(es_vocabulary *v, eg_group *g, const eg_border *borders, int32_t count) {
    eg_pool *pool = &v->pool;
    *g = (eg_group){.guard = borders[0].guard, .entry = borders[0].entry, .number = v->summaries->groups++};
    while (g->final_count < count && borders[g->final_count].byte < 0) g->final_count++;
    g->finals = eg_take(pool, (size_t)g->final_count * sizeof *g->finals);
    g->final_depths = eg_take(pool, (size_t)g->final_count * sizeof *g->final_depths);
    g->final_befores = eg_take(pool, (size_t)g->final_count * sizeof *g->final_befores);
    for (int32_t i = 0; i < g->final_count; i++) {
        g->finals[i] = borders[i].child;
        g->final_depths[i] = borders[i].depth;
        g->final_befores[i] = borders[i].before;
    }
    borders += g->final_count;
    count -= g->final_count;
    for (int32_t i = 0; i < count; i++) g->byte_count += !i || borders[i].byte != borders[i - 1].byte;
    g->bytes = eg_take(pool, (size_t)g->byte_count * sizeof *g->bytes);
    g->exits = eg_take(pool, (size_t)count * sizeof *g->exits);
    eg_exits *of = g->bytes - 1;
    for (int32_t i = 0; i < count; i++) {
        const eg_border *b = &borders[i];
        if (!i || b->byte != borders[i - 1].byte) *++of = (eg_exits){(uint8_t)b->byte, b->after, i, i, 0};
        if (of->after != b->after) of->after = EG_MIXED;
        of->end = i + 1;
        g->exits[i] = (eg_exit){b->child, b->depth, b->before, b->place, 0};
        g->repeats |= b->before >= 0;
    }
}

/* How many tokens end at `node` or below. */
static int32_t tokens_at(const eg_tries *t, int32_t node) {
    return t->first_token.at[t->end.at[node]] - t->first_token.at[node];
}

/* Find the places with many tokens after their dead exits. There are few such places, so one pass adds up the
 * tokens of each. */
static void find_dense_places(es_vocabulary *v, eg_group *g) {
    eg_summaries *s = v->summaries;
    const int32_t count = g->byte_count ? g->bytes[g->byte_count - 1].end : 0;
    int64_t all = 0;
    for (int32_t i = 0; i < g->byte_count; i++)
        for (int32_t k = g->bytes[i].begin; k < g->bytes[i].end && g->bytes[i].after == EG_EMPTY; k++)
            all += tokens_at(&v->tries, g->exits[k].child);
    if (all <= DENSE || !count) return;
    eg_work(&v->fault, 4 * (int64_t)count);
    eg_map_free(s->pool, &s->ranks);
    g->dense_places = eg_take(s->pool, (size_t)(all / DENSE) * sizeof *g->dense_places);
    for (int32_t i = 0; i < g->byte_count; i++)
        for (int32_t k = g->bytes[i].begin; k < g->bytes[i].end && g->bytes[i].after == EG_EMPTY; k++) {
            const uint64_t key = eg_pair(g->exits[k].place, 0);
            const int32_t have = eg_map_get(&s->ranks, key, 0);
            const int32_t now = have + tokens_at(&v->tries, g->exits[k].child);
            if (have <= DENSE && now > DENSE) g->dense_places[g->dense_count++] = g->exits[k].place;
            eg_map_put(s->pool, &s->ranks, key, now);
        }
}

static bool is_dense(const eg_group *g, int32_t place) {
    for (int32_t i = 0; i < g->dense_count; i++)
        if (g->dense_places[i] == place) return true;
    return false;
}

static bool same_group(const eg_border *a, const eg_border *b) {
    return a->guard == b->guard && a->entry == b->entry;
}

static void keep_groups(es_vocabulary *v, eg_summary *summary) {
    const int32_t count = v->summaries->borders.count;
    eg_border *borders = v->summaries->borders.at;
    if (!count) return;
    eg_work(&v->fault, 4 * count + 2 * eg_sorting(count));
    eg_sort(borders, count, sizeof *borders, compare_borders);
    for (int32_t i = 0; i < count; i++)
        summary->group_count += !i || !same_group(&borders[i], &borders[i - 1]);
    summary->groups = eg_take(&v->pool, (size_t)summary->group_count * sizeof *summary->groups);
    for (int32_t i = 0, group = 0; i < count; group++) {
        int32_t end = i + 1;
        while (end < count && same_group(&borders[end], &borders[i])) end++;
        keep_group(v, &summary->groups[group], borders + i, end - i);
        summary->groups[group].repeats &= summary->group_count == 1;
        find_dense_places(v, &summary->groups[group]);
        i = end;
    }
}

static int32_t keep_summary(es_vocabulary *v, int32_t e, int32_t node, const eg_summary *summary) {
    eg_summaries *s = v->summaries;
    EG_PUSH(&v->pool, s->list, *summary);
    eg_map_put(&v->pool, &s->by_place, eg_pair(e, node), s->list.count - 1);
    return s->list.count - 1;
}

/* The derivative of `e` by the first `length` bytes of a token. */
static int32_t derive_prefix(es_vocabulary *v, int32_t e, int32_t token, int32_t length) {
    const uint8_t *bytes = v->bytes + v->offsets[token];
    eg_work(&v->fault, 2 + length);
    for (int32_t i = 0; i < length && e != EG_EMPTY; i++) e = eg_step(&v->expressions, e, bytes[i]);
    return e;
}

/* The summary of the whole vocabulary for `e`, which differs from `open` only in that it cannot end as early:
 * the same, without the borders that come too early. */
static int32_t summary_of_late(es_vocabulary *v, int32_t e, int32_t open) {
    eg_summaries *s = v->summaries;
    const int32_t number = eg_summary_of(v, open, 0);
    eg_summary summary = s->list.at[number];
    s->borders.count = 0;
    for (int32_t i = 0; i < summary.group_count; i++) {
        const eg_group *g = &summary.groups[i];
        for (int32_t k = 0; k < g->final_count; k++)
            if (derive_prefix(v, e, g->finals[k], g->final_depths[k]) != EG_EMPTY)
                EG_PUSH(s->pool, s->borders,
                        (eg_border){g->guard, -1, -1, g->finals[k], g->final_depths[k], -1, -1, EG_EMPTY});
        for (int32_t b = 0; b < g->byte_count; b++)
            for (int32_t k = g->bytes[b].begin; k < g->bytes[b].end; k++) {
                const eg_exit *exit = &g->exits[k];
                const int32_t token = v->tries.tokens.at[v->tries.first_token.at[exit->child]];
                if (!eg_node(&v->expressions, derive_prefix(v, e, token, exit->depth - 1))->nullable)
                    continue;
                EG_PUSH(s->pool, s->borders,
                        (eg_border){g->guard, g->bytes[b].byte, -1, exit->child, exit->depth, -1, exit->place,
                                    g->bytes[b].after == EG_EMPTY ? EG_EMPTY : EG_MIXED});
            }
    }
    summary.groups = NULL;
    summary.group_count = 0;
    keep_groups(v, &summary);
    return keep_summary(v, e, 0, &summary);
}

int32_t eg_summary_of(es_vocabulary *v, int32_t e, int32_t node) {
    eg_summaries *s = v->summaries;
    int32_t known = eg_map_get(&s->by_place, eg_pair(e, node), -1);
    if (known >= 0) return known;
    const int32_t open = node ? e : eg_expression_without_minimum(&v->expressions, e);
    if (open != e) return summary_of_late(v, e, open);
    walk(v, e, node);
    eg_summary summary = {.count = s->tokens.count};
    if (summary.count <= FEW) {
        summary.tokens = eg_take(&v->pool, (size_t)summary.count * sizeof *summary.tokens);
        eg_copy(summary.tokens, s->tokens.at, (size_t)summary.count * sizeof *summary.tokens);
    } else {
        eg_work(&v->fault, summary.count / 4);
        summary.bits = eg_take(&v->pool, (size_t)v->words * sizeof *summary.bits);
        memset(summary.bits, 0, (size_t)v->words * sizeof *summary.bits);
        eg_set_bits(summary.bits, s->tokens.at, summary.count);
    }
    keep_groups(v, &summary);
    return keep_summary(v, e, node, &summary);
}

/* Make the trie of the exits that were collected. */
static int32_t make_root(es_vocabulary *v, uint64_t key) {
    if (v->tries.byte.count > MAX_NODES)
        eg_fail(&v->fault, ES_GRAMMAR_MEMORY, "the tries of token ends are full");
    const int32_t root = eg_tries_merge(&v->own, &v->tries);
    eg_map_put(v->summaries->pool, &v->summaries->roots, key, root);
    eg_vocabulary_keep(v);
    return root;
}

int32_t eg_group_root(es_vocabulary *v, const eg_group *g, int32_t byte, int32_t rank) {
    const eg_exits *of = &g->bytes[byte];
    const uint64_t key = eg_pair(g->number, byte << 8 | rank);
    const int32_t root = eg_map_get(&v->summaries->roots, key, -1);
    if (root >= 0) return root;
    v->tries.sources.count = 0;
    eg_work(&v->fault, of->end - of->begin);
    for (int32_t i = of->begin; i < of->end; i++)
        if (!rank || g->exits[i].rank >= rank)
            EG_PUSH(&v->own, v->tries.sources, (eg_source){.node = g->exits[i].child});
    return make_root(v, key);
}

int32_t eg_group_dead_root(es_vocabulary *v, const eg_group *g, int32_t rank) {
    const uint64_t key = eg_pair(g->number, EG_DEAD_EXITS << 8 | rank);
    const int32_t root = eg_map_get(&v->summaries->roots, key, -1);
    if (root >= 0) return root;
    v->tries.sources.count = 0;
    if (g->byte_count)
        eg_work(&v->fault, (int64_t)g->bytes[g->byte_count - 1].end * (1 + g->dense_count / 8));
    for (int32_t i = g->byte_count - 1; i >= 0; i--)
        for (int32_t k = g->bytes[i].begin; k < g->bytes[i].end && g->bytes[i].after == EG_EMPTY; k++)
            if ((!rank || g->exits[k].rank >= rank) && !is_dense(g, g->exits[k].place))
                EG_PUSH(&v->own, v->tries.sources, (eg_source){g->exits[k].child, 1, g->bytes[i].byte});
    return make_root(v, key);
}

static int compare_exits(const void *a, const void *b) {
    const eg_exit *x = *(eg_exit *const *)a, *y = *(eg_exit *const *)b;
    return (x->child > y->child) - (x->child < y->child);
}

/* Nodes come after those on the path to them. */
void eg_group_rank(es_vocabulary *v, eg_group *g, const eg_bytes *again) {
    eg_summaries *s = v->summaries;
    const int32_t count = g->byte_count ? g->bytes[g->byte_count - 1].end : 0;
    eg_work(&v->fault, 8 * count + eg_sorting(count));
    eg_exit **sorted = eg_take(s->pool, (size_t)count * sizeof *sorted);
    for (int32_t i = 0; i < count; i++) sorted[i] = &g->exits[i];
    eg_sort(sorted, count, sizeof *sorted, compare_exits);
    eg_map_free(s->pool, &s->ranks);
    for (int32_t i = 0; i < count; i++) {
        eg_exit *exit = sorted[i];
        const int32_t before = exit->before;
        exit->rank = 0;
        if (before >= 0) {
            const int32_t rank = eg_map_get(&s->ranks, eg_pair(before, 0), 0);
            exit->rank = rank + (rank < EG_MAX_RANK && eg_bytes_has(again, v->tries.byte.at[before]));
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

void eg_summaries_open(es_vocabulary *v) {
    v->summaries = eg_take(&v->pool, sizeof *v->summaries);
    *v->summaries = (eg_summaries){.pool = &v->pool};
}

void eg_summaries_close(es_vocabulary *v) {
    eg_summaries *s = v->summaries;
    EG_FREE(s->pool, s->list);
    EG_FREE(s->pool, s->tokens);
    EG_FREE(s->pool, s->borders);
    EG_FREE(s->pool, s->levels);
    eg_map_free(s->pool, &s->by_place);
    eg_map_free(s->pool, &s->roots);
    eg_map_free(s->pool, &s->ranks);
    v->summaries = NULL;
}
