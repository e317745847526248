/* Computing summaries by walking tries. */
#include "grammar/masks/summary.h"

#include "grammar/base/bits.h"
#include "grammar/base/characters.h"

enum {
    FEW = 1024,   /* tokens that are kept as a list */
    DENSE = 4096, /* tokens after one place that are not merged with others */
    MIN_NODES = 6 /* nodes below a node for which it pays off to check whether they can be told at once */
};

/* Record the borders of `e`, which can end here; `border` has everything but guard and entry. */
static void note_border(eg_summaries *s, int32_t e, eg_border border) {
    eg_reading readings[EG_MAX_READINGS];
    const int count = eg_expression_readings(s->expressions, e, readings);
    eg_work(s->pool->fault, 2 + count);
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
static void note_left_over(eg_summaries *s, int32_t depth, int32_t node) {
    eg_level *levels = s->levels.at;
    for (int32_t d = levels[depth].end; d >= 0; d = d ? levels[d - 1].end : -1) {
        const int32_t child = d == depth ? node : levels[d + 1].node;
        if (levels[d].noted == child) continue;
        levels[d].noted = child;
        const int32_t after = d == depth ? EG_EMPTY : levels[d + 1].expression;
        const eg_border border = {
            0, s->tries->byte.at[child], -1, child, d + 1, exit_before(levels, d), levels[d].node, after};
        note_border(s, levels[d].expression, border);
    }
}

/* Record the tokens that end at `node`, where the derivative is `e`. */
static void note_tokens_at(eg_summaries *s, int32_t node, int32_t e, int32_t depth) {
    const int32_t *tokens = s->tries->tokens.at + s->tries->first_token.at[node];
    const int32_t count = s->tries->own.at[node];
    if (eg_node(s->expressions, e)->over) {
        const int32_t before = exit_before(s->levels.at, depth);
        for (int32_t i = 0; i < count; i++)
            note_border(s, e, (eg_border){0, -1, -1, tokens[i], depth, before, -1, EG_EMPTY});
        return;
    }
    EG_APPEND(s->pool, s->tokens, tokens, count);
}

static void enter_level(eg_summaries *s, int32_t depth, int32_t node, int32_t e) {
    const eg_expression *x = eg_node(s->expressions, e);
    eg_level *levels = s->levels.at;
    const bool ends = depth && x->nullable;
    const eg_level above = depth ? levels[depth - 1] : (eg_level){.end = -1};
    levels[depth] = (eg_level){x->steps, e, node, ends ? depth : above.end, -1};
}

/* Whether `e` can be continued after all characters on the paths below `node`. */
static bool continues_below(eg_summaries *s, int32_t e, int32_t node) {
    const uint64_t below = s->tries->below.at[node];
    const int32_t height = s->tries->height.at[node];
    if (below & (EG_MALFORMED | EG_INSIDE)) return false;
    if (height < 255 && eg_expression_outlasts(s->expressions, e, below, height)) return true;
    return !eg_expression_counts_characters(s->expressions, e) &&
           !(below & ~eg_expression_unchanged_after(s->expressions, e));
}

static void note_tokens_below(eg_summaries *s, int32_t node) {
    const eg_tries *t = s->tries;
    const int32_t from = t->first_token.at[node], count = t->first_token.at[t->end.at[node]] - from;
    eg_work(s->pool->fault, count / 16);
    EG_APPEND(s->pool, s->tokens, t->tokens.at + from, count);
}

/* Walk the nodes from..to, which are children of the level 0 and everything below them. */
static void walk_nodes(eg_summaries *s, int32_t from, int32_t to) {
    eg_level *levels = s->levels.at;
    const uint8_t *bytes = s->tries->byte.at;
    const uint16_t *depths = s->tries->depth.at;
    const int32_t *ends = s->tries->end.at, *own = s->tries->own.at;
    const int32_t top = depths[from];
    for (int32_t i = from; i < to;) {
        eg_work(s->pool->fault, 1);
        const int32_t depth = depths[i] - top;
        eg_level *level = &levels[depth];
        int32_t next = level->steps ? level->steps[bytes[i]] : -1;
        if (next < 0) {
            next = eg_step(s->expressions, level->expression, bytes[i]);
            level->steps = eg_node(s->expressions, level->expression)->steps;
        }
        if (next == EG_EMPTY) {
            if (level->end >= 0) note_left_over(s, depth, i);
            i = ends[i];
            continue;
        }
        if (ends[i] - i > MIN_NODES && continues_below(s, next, i)) {
            note_tokens_below(s, i);
            i = ends[i];
            continue;
        }
        enter_level(s, depth + 1, i, next);
        if (own[i]) note_tokens_at(s, i, next, depth + 1);
        i++;
    }
}

/* Walk what is below `root` with `e`: tokens that end inside go to `tokens`, exits to `borders`. */
static void walk_trie(eg_summaries *s, int32_t e, int32_t root) {
    s->tokens.count = s->borders.count = 0;
    EG_RESERVE(s->pool, s->levels, s->vocabulary->longest + 2);
    enter_level(s, 0, root, e);
    if (root) {
        if (s->tries->end.at[root] > root + 1) walk_nodes(s, root + 1, s->tries->end.at[root]);
        return;
    }
    const eg_bytes first = *eg_first(s->expressions, e);
    for (int byte = 0; byte < 256; byte++) {
        const int32_t child = s->tries->root_children[byte];
        if (child && eg_bytes_has(&first, byte)) walk_nodes(s, child, s->tries->end.at[child]);
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
static void keep_group(eg_summaries *s, eg_group *g, const eg_border *borders, int32_t count) {
    eg_pool *pool = s->pool;
    *g = (eg_group){.guard = borders[0].guard, .entry = borders[0].entry, .number = s->groups++};
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

/* Find the places with many tokens after their dead exits. There are few such places, so one pass adds up
 * the tokens of each. */
static void find_dense_places(eg_summaries *s, eg_group *g) {
    const int32_t count = eg_exit_count(g);
    int64_t all = 0;
    for (int32_t i = 0; i < g->byte_count; i++)
        for (int32_t k = g->bytes[i].begin; k < g->bytes[i].end && g->bytes[i].after == EG_EMPTY; k++)
            all += tokens_at(s->tries, g->exits[k].child);
    if (all <= DENSE || !count) return;
    eg_work(s->pool->fault, 4 * (int64_t)count);
    eg_map_release(s->pool, &s->ranks);
    g->dense_places = eg_take(s->pool, (size_t)(all / DENSE) * sizeof *g->dense_places);
    for (int32_t i = 0; i < g->byte_count; i++)
        for (int32_t k = g->bytes[i].begin; k < g->bytes[i].end && g->bytes[i].after == EG_EMPTY; k++) {
            const uint64_t key = eg_pair(g->exits[k].place, 0);
            const int32_t have = eg_map_get(&s->ranks, key, 0);
            const int32_t now = have + tokens_at(s->tries, g->exits[k].child);
            if (have <= DENSE && now > DENSE) g->dense_places[g->dense_count++] = g->exits[k].place;
            eg_map_put(s->pool, &s->ranks, key, now);
        }
}

static bool same_group(const eg_border *a, const eg_border *b) {
    return a->guard == b->guard && a->entry == b->entry;
}

static void keep_groups(eg_summaries *s, eg_summary *summary) {
    const int32_t count = s->borders.count;
    eg_border *borders = s->borders.at;
    if (!count) return;
    eg_work(s->pool->fault, 4 * count + 2 * eg_sorting(count));
    eg_sort(borders, count, sizeof *borders, compare_borders);
    for (int32_t i = 0; i < count; i++)
        summary->group_count += !i || !same_group(&borders[i], &borders[i - 1]);
    summary->groups = eg_take(s->pool, (size_t)summary->group_count * sizeof *summary->groups);
    for (int32_t i = 0, group = 0; i < count; group++) {
        int32_t end = i + 1;
        while (end < count && same_group(&borders[end], &borders[i])) end++;
        keep_group(s, &summary->groups[group], borders + i, end - i);
        summary->groups[group].repeats &= summary->group_count == 1;
        find_dense_places(s, &summary->groups[group]);
        i = end;
    }
}

static int32_t keep_summary(eg_summaries *s, int32_t e, int32_t node, const eg_summary *summary) {
    EG_PUSH(s->pool, s->list, *summary);
    eg_map_put(s->pool, &s->by_place, eg_pair(e, node), s->list.count - 1);
    return s->list.count - 1;
}

/* The derivative of `e` by the first `length` bytes of a token. */
static int32_t derive_prefix(eg_summaries *s, int32_t e, int32_t token, int32_t length) {
    const uint8_t *bytes = s->vocabulary->bytes + s->vocabulary->offsets[token];
    eg_work(s->pool->fault, 2 + length);
    for (int32_t i = 0; i < length && e != EG_EMPTY; i++) e = eg_step(s->expressions, e, bytes[i]);
    return e;
}

/* The summary of the whole vocabulary for `e`, which differs from `open` only in that it cannot end as
 * early: the same, without the borders that come too early. */
static int32_t summary_without_early_ends(eg_summaries *s, int32_t e, int32_t open) {
    const int32_t number = eg_summary_of(s, open, 0);
    eg_summary summary = s->list.at[number];
    s->borders.count = 0;
    for (int32_t i = 0; i < summary.group_count; i++) {
        const eg_group *g = &summary.groups[i];
        for (int32_t k = 0; k < g->final_count; k++)
            if (derive_prefix(s, e, g->finals[k], g->final_depths[k]) != EG_EMPTY)
                EG_PUSH(s->pool, s->borders,
                        (eg_border){g->guard, -1, -1, g->finals[k], g->final_depths[k], -1, -1, EG_EMPTY});
        for (int32_t b = 0; b < g->byte_count; b++)
            for (int32_t k = g->bytes[b].begin; k < g->bytes[b].end; k++) {
                const eg_exit *exit = &g->exits[k];
                const int32_t token = s->tries->tokens.at[s->tries->first_token.at[exit->child]];
                if (!eg_node(s->expressions, derive_prefix(s, e, token, exit->depth - 1))->nullable) continue;
                EG_PUSH(s->pool, s->borders,
                        (eg_border){g->guard, g->bytes[b].byte, -1, exit->child, exit->depth, -1, exit->place,
                                    g->bytes[b].after == EG_EMPTY ? EG_EMPTY : EG_MIXED});
            }
    }
    summary.groups = NULL;
    summary.group_count = 0;
    keep_groups(s, &summary);
    return keep_summary(s, e, 0, &summary);
}

int32_t eg_summary_of(eg_summaries *s, int32_t e, int32_t node) {
    int32_t known = eg_map_get(&s->by_place, eg_pair(e, node), -1);
    if (known >= 0) return known;
    const int32_t open = node ? e : eg_expression_without_minimum(s->expressions, e);
    if (open != e) return summary_without_early_ends(s, e, open);
    walk_trie(s, e, node);
    eg_summary summary = {.count = s->tokens.count};
    if (summary.count <= FEW) {
        summary.tokens = eg_keep(s->pool, s->tokens.at, (size_t)summary.count * sizeof *summary.tokens);
    } else {
        eg_work(s->pool->fault, summary.count / 4);
        summary.bits = eg_take_zeroed(s->pool, (size_t)s->vocabulary->words * sizeof *summary.bits);
        eg_set_bits(summary.bits, s->tokens.at, summary.count);
    }
    keep_groups(s, &summary);
    return keep_summary(s, e, node, &summary);
}

eg_summaries *eg_summaries_open(eg_pool *pool, eg_expressions *expressions, const eg_tokens *vocabulary,
                                eg_tries *tries) {
    eg_summaries *s = eg_take(pool, sizeof *s);
    *s = (eg_summaries){.pool = pool, .expressions = expressions, .vocabulary = vocabulary, .tries = tries};
    return s;
}
