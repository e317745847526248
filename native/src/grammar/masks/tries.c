/* Adding tries to a table, and merging them. */
#include "grammar/masks/tries.h"

enum { FEW_SOURCES = 32 }; /* up to this many are sorted by insertion */

/* --- adding --- */

static void add_node(eg_tries *t, int byte, int32_t depth) {
    EG_PUSH(t->pool, t->depth, (uint16_t)depth);
    EG_PUSH(t->pool, t->byte, (uint8_t)byte);
    EG_PUSH(t->pool, t->end, 0);
    EG_PUSH(t->pool, t->own, 0);
    EG_PUSH(t->pool, t->height, 0);
    EG_PUSH(t->pool, t->below, 0);
    EG_PUSH(t->pool, t->next, 0);
    EG_PUSH(t->pool, t->first_token, t->tokens.count);
}

/* Close the node at `depth` of the path: it has no more nodes below it. */
static void close_node(eg_tries *t, int32_t depth) {
    const int32_t node = t->path.at[depth].node, height = t->height.at[node];
    t->end.at[node] = t->byte.count;
    if (!depth) return;
    const int32_t above = t->path.at[depth - 1].node;
    if (t->height.at[above] <= height) t->height.at[above] = (uint8_t)(height < 255 ? height + 1 : 255);
    eg_utf8 utf8 = t->path.at[depth - 1].utf8;
    t->next.at[above] |= (uint64_t)1 << (t->byte.at[node] & 63);
    t->below.at[above] |= eg_class_step(t->byte.at[node], &utf8) | (t->below.at[node] & ~EG_INSIDE);
}

/* Open a node at `depth` of the path. */
static void open_node(eg_tries *t, int byte, int32_t depth) {
    eg_path_node *last = &t->path.at[depth];
    *last = (eg_path_node){.node = t->byte.count};
    if (depth) {
        last->utf8 = last[-1].utf8;
        eg_class_step(byte, &last->utf8);
    }
    add_node(t, byte, depth);
    if (last->utf8.left) t->below.at[last->node] = EG_INSIDE;
}

/* Close all nodes of the path from `depth` up to the root: the trie is complete. */
static void close_trie(eg_tries *t, int32_t depth) {
    while (depth >= 0) close_node(t, depth--);
    add_node(t, 0, 0); /* so that first_token[end] is defined */
    t->end.at[t->end.count - 1] = t->byte.count;
}

/* Add the trie of `count` sorted texts. */
static void add_trie(eg_tries *t, const eg_token_text *texts, int32_t count) {
    int32_t deepest = 0;
    for (int32_t i = 0; i < count; i++)
        if (texts[i].length > deepest) deepest = texts[i].length;
    EG_RESERVE(t->pool, t->path, deepest + 1);
    open_node(t, 0, 0);
    int32_t depth = 0;
    for (int32_t i = 0; i < count; i++) {
        const uint8_t *text = texts[i].at;
        const int32_t length = texts[i].length;
        int32_t shared = 0;
        if (i)
            for (const uint8_t *before = texts[i - 1].at; shared < depth && shared < length; shared++)
                if (before[shared] != text[shared]) break;
        while (depth > shared) close_node(t, depth--);
        for (; depth < length; depth++) open_node(t, text[depth], depth + 1);
        EG_PUSH(t->pool, t->tokens, texts[i].token);
        t->own.at[t->path.at[depth].node]++;
    }
    close_trie(t, depth);
}

/* --- merging --- */

static void copy_tokens(eg_tries *t, int32_t from, int32_t count) {
    EG_RESERVE(t->pool, t->tokens, count);
    for (int32_t i = from; i < from + count; i++) t->tokens.at[t->tokens.count++] = t->tokens.at[i];
}

/* Copy `node` and everything below it to `depth` of the path. */
static void copy_nodes(eg_tries *t, int32_t node, int32_t depth) {
    const int32_t end = t->end.at[node], at = t->byte.count, deeper = depth - t->depth.at[node];
    const int32_t first = t->first_token.at[node], tokens = t->tokens.count - first;
    t->path.at[depth] = (eg_path_node){.node = at};
    eg_work(t->pool->fault, 2 * (int64_t)(end - node));
    copy_tokens(t, first, t->first_token.at[end] - first);
    for (int32_t i = node; i < end; i++) {
        add_node(t, t->byte.at[i], t->depth.at[i] + deeper);
        const int32_t copy = at + i - node;
        t->end.at[copy] = t->end.at[i] + at - node;
        t->own.at[copy] = t->own.at[i];
        t->height.at[copy] = t->height.at[i];
        t->below.at[copy] = t->below.at[i];
        t->next.at[copy] = t->next.at[i];
        t->first_token.at[copy] = t->first_token.at[i] + tokens;
    }
}

/* Sort many sources by descending byte: a counting sort. */
static void sort_by_counting(eg_tries *t, int32_t base) {
    const int32_t count = t->sources.count - base;
    EG_RESERVE(t->pool, t->sources, count);
    eg_source *to = t->sources.at + base;
    const eg_source *from = memcpy(to + count, to, (size_t)count * sizeof *to);
    int32_t at[256] = {0}, before = 0;
    for (int32_t i = 0; i < count; i++) at[from[i].byte]++;
    for (int byte = 255; byte >= 0; byte--) {
        const int32_t own = at[byte];
        at[byte] = before;
        before += own;
    }
    for (int32_t i = 0; i < count; i++) to[at[from[i].byte]++] = from[i];
}

/* Sort the sources from `base` on by descending byte; usually there are few. */
static void sort_sources(eg_tries *t, int32_t base) {
    eg_source *s = t->sources.at + base;
    const int32_t count = t->sources.count - base;
    if (count > FEW_SOURCES) {
        sort_by_counting(t, base);
        return;
    }
    for (int32_t i = 1; i < count; i++) {
        const eg_source one = s[i];
        int32_t at = i;
        for (; at && s[at - 1].byte < one.byte; at--) s[at] = s[at - 1];
        s[at] = one;
    }
}

/* Merge the sources from `base` on into one node: their tokens become its own, their children sources. */
static void join_sources(eg_tries *t, int32_t base) {
    const int32_t end = t->sources.count, depth = t->sources.at[base].depth;
    open_node(t, t->sources.at[base].byte, depth);
    for (int32_t i = base; i < end; i++) {
        const int32_t node = t->sources.at[i].node;
        copy_tokens(t, t->first_token.at[node], t->own.at[node]);
        t->own.at[t->path.at[depth].node] += t->own.at[node];
        for (int32_t c = node + 1; c < t->end.at[node]; c = t->end.at[c])
            EG_PUSH(t->pool, t->sources, (eg_source){c, depth + 1, t->byte.at[c]});
    }
    const int32_t count = t->sources.count - end;
    eg_work(t->pool->fault, 2 * (int64_t)count);
    memmove(t->sources.at + base, t->sources.at + end, (size_t)count * sizeof *t->sources.at);
    t->sources.count = base + count;
    sort_sources(t, base);
}

int32_t eg_tries_merge(eg_tries *t) {
    const int32_t root = t->byte.count;
    int32_t depth = -1;
    if (t->sources.count == 1 && !t->sources.at[0].depth) return t->sources.at[t->sources.count = 0].node;
    EG_RESERVE(t->pool, t->path, 1);
    if (!t->sources.count || t->sources.at[0].depth) open_node(t, 0, ++depth);
    while (t->sources.count) {
        int32_t base = t->sources.count - 1;
        const eg_source next = t->sources.at[base];
        while (base && t->sources.at[base - 1].depth == next.depth &&
               t->sources.at[base - 1].byte == next.byte)
            base--;
        while (depth >= next.depth) close_node(t, depth--);
        EG_RESERVE(t->pool, t->path, next.depth + 1);
        eg_work(t->pool->fault, 2 + 2 * (int64_t)(t->sources.count - base));
        depth = next.depth;
        if (base < t->sources.count - 1) {
            join_sources(t, base);
        } else {
            t->sources.count = base;
            copy_nodes(t, next.node, depth);
        }
    }
    close_trie(t, depth);
    return root;
}

/* --- opening and emptying --- */

void eg_tries_open(eg_tries *t, eg_pool *pool, const eg_token_text *texts, int32_t count) {
    *t = (eg_tries){.pool = pool};
    add_trie(t, texts, count);
    for (int32_t c = 1; c < t->end.at[0]; c = t->end.at[c]) t->root_children[t->byte.at[c]] = c;
    t->own_nodes = t->byte.count;
    t->own_tokens = t->tokens.count;
    eg_tries_keep(t);
}

void eg_tries_keep(eg_tries *t) {
    t->whole_nodes = t->byte.count;
    t->whole_tokens = t->tokens.count;
}

void eg_tries_tidy(eg_tries *t) {
    const int32_t nodes = t->whole_nodes;
    t->byte.count = t->end.count = t->own.count = t->first_token.count = nodes;
    t->height.count = t->depth.count = t->below.count = t->next.count = nodes;
    t->tokens.count = t->whole_tokens;
    t->sources.count = 0;
}

void eg_tries_empty(eg_tries *t) {
    t->whole_nodes = t->own_nodes;
    t->whole_tokens = t->own_tokens;
    eg_tries_tidy(t);
}
