/* The tokens of a vocabulary as tries. */
#include "grammar/masks/vocabulary.h"

#include "grammar/masks/summary.h"
#include "grammar/masks/workshop.h"

enum { FEW_SOURCES = 32 }; /* up to this many are sorted by insertion */

/* --- tries --- */

static int compare_rests(const void *a, const void *b) {
    const eg_rest *x = a, *y = b;
    const int32_t shared = x->length < y->length ? x->length : y->length;
    const int order = memcmp(x->at, y->at, (size_t)shared);
    if (order) return order;
    if (x->length != y->length) return x->length < y->length ? -1 : 1;
    return (x->token > y->token) - (x->token < y->token);
}

static void add_node(eg_pool *pool, eg_tries *t, int byte, int32_t depth) {
    EG_PUSH(pool, t->depth, (uint16_t)depth);
    EG_PUSH(pool, t->byte, (uint8_t)byte);
    EG_PUSH(pool, t->end, 0);
    EG_PUSH(pool, t->own, 0);
    EG_PUSH(pool, t->height, 0);
    EG_PUSH(pool, t->below, 0);
    EG_PUSH(pool, t->next, 0);
    EG_PUSH(pool, t->first_token, t->tokens.count);
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
static void open_node(eg_pool *pool, eg_tries *t, int byte, int32_t depth) {
    eg_path_node *last = &t->path.at[depth];
    *last = (eg_path_node){.node = t->byte.count};
    if (depth) {
        last->utf8 = last[-1].utf8;
        eg_class_step(byte, &last->utf8);
    }
    add_node(pool, t, byte, depth);
    if (last->utf8.left) t->below.at[last->node] = EG_INSIDE;
}

/* Close all nodes of the path from `depth` up to the root: the trie is complete. */
static void close_trie(eg_pool *pool, eg_tries *t, int32_t depth) {
    while (depth >= 0) close_node(t, depth--);
    add_node(pool, t, 0, 0); /* so that first_token[end] is defined */
    t->end.at[t->end.count - 1] = t->byte.count;
}

int32_t eg_tries_add(eg_pool *pool, eg_tries *t, const eg_rest *rests, int32_t count) {
    int32_t deepest = 0;
    for (int32_t i = 0; i < count; i++)
        if (rests[i].length > deepest) deepest = rests[i].length;
    EG_RESERVE(pool, t->path, deepest + 1);
    const int32_t root = t->byte.count;
    open_node(pool, t, 0, 0);
    int32_t depth = 0;
    for (int32_t i = 0; i < count; i++) {
        const uint8_t *text = rests[i].at;
        const int32_t length = rests[i].length;
        int32_t shared = 0;
        if (i)
            for (const uint8_t *before = rests[i - 1].at; shared < depth && shared < length; shared++)
                if (before[shared] != text[shared]) break;
        while (depth > shared) close_node(t, depth--);
        for (; depth < length; depth++) open_node(pool, t, text[depth], depth + 1);
        EG_PUSH(pool, t->tokens, rests[i].token);
        t->own.at[t->path.at[depth].node]++;
    }
    close_trie(pool, t, depth);
    return root;
}

/* --- merging --- */

static void copy_tokens(eg_pool *pool, eg_tries *t, int32_t from, int32_t count) {
    EG_RESERVE(pool, t->tokens, count);
    for (int32_t i = from; i < from + count; i++) t->tokens.at[t->tokens.count++] = t->tokens.at[i];
}

/* Copy `node` and everything below it to `depth` of the path. */
static void copy_nodes(eg_pool *pool, eg_tries *t, int32_t node, int32_t depth) {
    const int32_t end = t->end.at[node], at = t->byte.count, deeper = depth - t->depth.at[node];
    const int32_t first = t->first_token.at[node], tokens = t->tokens.count - first;
    t->path.at[depth] = (eg_path_node){.node = at};
    eg_work(pool->fault, 2 * (int64_t)(end - node));
    copy_tokens(pool, t, first, t->first_token.at[end] - first);
    for (int32_t i = node; i < end; i++) {
        add_node(pool, t, t->byte.at[i], t->depth.at[i] + deeper);
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
static void count_sources(eg_pool *pool, eg_tries *t, int32_t base) {
    const int32_t count = t->sources.count - base;
    EG_RESERVE(pool, t->sources, count);
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
static void sort_sources(eg_pool *pool, eg_tries *t, int32_t base) {
    eg_source *s = t->sources.at + base;
    const int32_t count = t->sources.count - base;
    if (count > FEW_SOURCES) {
        count_sources(pool, t, base);
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
static void join_sources(eg_pool *pool, eg_tries *t, int32_t base) {
    const int32_t end = t->sources.count, depth = t->sources.at[base].depth;
    open_node(pool, t, t->sources.at[base].byte, depth);
    for (int32_t i = base; i < end; i++) {
        const int32_t node = t->sources.at[i].node;
        copy_tokens(pool, t, t->first_token.at[node], t->own.at[node]);
        t->own.at[t->path.at[depth].node] += t->own.at[node];
        for (int32_t c = node + 1; c < t->end.at[node]; c = t->end.at[c])
            EG_PUSH(pool, t->sources, (eg_source){c, depth + 1, t->byte.at[c]});
    }
    const int32_t count = t->sources.count - end;
    eg_work(pool->fault, 2 * (int64_t)count);
    memmove(t->sources.at + base, t->sources.at + end, (size_t)count * sizeof *t->sources.at);
    t->sources.count = base + count;
    sort_sources(pool, t, base);
}

int32_t eg_tries_merge(eg_pool *pool, eg_tries *t) {
    const int32_t root = t->byte.count;
    int32_t depth = -1;
    if (t->sources.count == 1 && !t->sources.at[0].depth) return t->sources.at[t->sources.count = 0].node;
    EG_RESERVE(pool, t->path, 1);
    if (!t->sources.count || t->sources.at[0].depth) open_node(pool, t, 0, ++depth);
    while (t->sources.count) {
        int32_t base = t->sources.count - 1;
        const eg_source next = t->sources.at[base];
        while (base && t->sources.at[base - 1].depth == next.depth &&
               t->sources.at[base - 1].byte == next.byte)
            base--;
        while (depth >= next.depth) close_node(t, depth--);
        EG_RESERVE(pool, t->path, next.depth + 1);
        eg_work(pool->fault, 2 + 2 * (int64_t)(t->sources.count - base));
        depth = next.depth;
        if (base < t->sources.count - 1) {
            join_sources(pool, t, base);
        } else {
            t->sources.count = base;
            copy_nodes(pool, t, next.node, depth);
        }
    }
    close_trie(pool, t, depth);
    return root;
}

/* --- taking the tokens --- */

static void take_tokens(es_vocabulary *v, const uint8_t *bytes, const int64_t *offsets, const uint8_t *kinds,
                        int32_t count) {
    v->count = count;
    v->words = (count + 31) / 32;
    v->bytes = eg_take(&v->own, (size_t)offsets[count] + 1);
    v->offsets = eg_take(&v->own, ((size_t)count + 1) * sizeof *v->offsets);
    v->kinds = eg_take(&v->own, (size_t)count + 1);
    eg_copy(v->bytes, bytes, (size_t)offsets[count]);
    eg_copy(v->offsets, offsets, ((size_t)count + 1) * sizeof *offsets);
    eg_copy(v->kinds, kinds, (size_t)count);
    v->sorted = eg_take(&v->own, ((size_t)count + 1) * sizeof *v->sorted);
    v->eos = eg_take(&v->own, ((size_t)count + 1) * sizeof *v->eos);
    for (int32_t i = 0; i < count; i++) {
        const int32_t length = (int32_t)(offsets[i + 1] - offsets[i]);
        if (kinds[i] & ES_TOKEN_EOS) v->eos[v->eos_count++] = i;
        if (kinds[i] || !length || length > EG_LONGEST_TOKEN) continue;
        if (length > v->longest) v->longest = length;
        v->sorted[v->sorted_count++] = (eg_rest){v->bytes + offsets[i], length, i};
    }
    eg_sort(v->sorted, v->sorted_count, sizeof *v->sorted, compare_rests);
}

/* --- forks --- */

/* A child has only the thread that forked it, so nobody would release a lock that another one held. All locks are
 * therefore taken before a fork, and no table is half changed in the child. */
static pthread_mutex_t all_lock = PTHREAD_MUTEX_INITIALIZER;
static es_vocabulary *all;

static void before_fork(void) {
    pthread_mutex_lock(&all_lock);
    for (es_vocabulary *v = all; v; v = v->next) pthread_mutex_lock(&v->lock);
}

static void after_fork(void) {
    for (es_vocabulary *v = all; v; v = v->next) pthread_mutex_unlock(&v->lock);
    pthread_mutex_unlock(&all_lock);
}

static void watch_forks(void) { pthread_atfork(before_fork, after_fork, after_fork); }

static void join_all(es_vocabulary *v) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, watch_forks);
    pthread_mutex_lock(&all_lock);
    v->next = all;
    if (all) all->before = v;
    all = v;
    pthread_mutex_unlock(&all_lock);
}

static void leave_all(es_vocabulary *v) {
    pthread_mutex_lock(&all_lock);
    if (v->before) v->before->next = v->next;
    else if (all == v) all = v->next;
    if (v->next) v->next->before = v->before;
    pthread_mutex_unlock(&all_lock);
}

/* --- opening and closing --- */

static void free_vocabulary(es_vocabulary *v) {
    leave_all(v);
    eg_workshop_close(v->workshop);
    eg_beginning_close(v->beginning);
    if (v->expressions.pool) eg_expressions_close(&v->expressions);
    if (v->summaries) eg_summaries_close(v);
    eg_tries *t = &v->tries;
    EG_FREE(&v->own, t->byte);
    EG_FREE(&v->own, t->end);
    EG_FREE(&v->own, t->first_token);
    EG_FREE(&v->own, t->own);
    EG_FREE(&v->own, t->height);
    EG_FREE(&v->own, t->depth);
    EG_FREE(&v->own, t->tokens);
    EG_FREE(&v->own, t->below);
    EG_FREE(&v->own, t->next);
    EG_FREE(&v->own, t->path);
    EG_FREE(&v->own, t->sources);
    eg_pool_clear(&v->pool);
    eg_pool_clear(&v->own);
    pthread_mutex_destroy(&v->lock);
    free(v);
}

/* False if memory ran out. */
static bool build(es_vocabulary *v, const uint8_t *bytes, const int64_t *offsets, const uint8_t *kinds,
                  int32_t count) {
    v->fault.work = INT64_MAX;
    if (setjmp(v->fault.out)) return false;
    take_tokens(v, bytes, offsets, kinds, count);
    v->marks = eg_take(&v->own, (size_t)v->words * sizeof *v->marks);
    memset(v->marks, 0, (size_t)v->words * sizeof *v->marks);
    eg_tries_add(&v->own, &v->tries, v->sorted, v->sorted_count);
    for (int32_t c = 1; c < v->tries.end.at[0]; c = v->tries.end.at[c])
        v->root_children[v->tries.byte.at[c]] = c;
    v->own_nodes = v->tries.byte.count;
    v->own_tokens = v->tries.tokens.count;
    eg_vocabulary_keep(v);
    eg_expressions_open(&v->expressions, &v->pool, v->longest);
    eg_summaries_open(v);
    return true;
}

es_vocabulary *es_vocabulary_new(const uint8_t *bytes, const int64_t *offsets, const uint8_t *kinds,
                                 int32_t count, int64_t shared_memory, int64_t grammar_memory) {
    es_vocabulary *v = calloc(1, sizeof *v);
    if (!v) return NULL;
    v->max_grammar_memory = grammar_memory;
    pthread_mutex_init(&v->lock, NULL);
    v->references = 1;
    v->pool = (eg_pool){.fault = &v->fault, .limit = (size_t)shared_memory, .name = "Limits.shared_memory"};
    v->own = (eg_pool){.fault = &v->fault, .limit = SIZE_MAX, .name = "all"};
    join_all(v);
    if (build(v, bytes, offsets, kinds, count)) return v;
    free_vocabulary(v);
    return NULL;
}

void es_vocabulary_free(es_vocabulary *v) {
    if (v) eg_vocabulary_drop(v);
}

void eg_vocabulary_hold(es_vocabulary *v) { __atomic_add_fetch(&v->references, 1, __ATOMIC_RELAXED); }

void eg_vocabulary_drop(es_vocabulary *v) {
    if (__atomic_sub_fetch(&v->references, 1, __ATOMIC_ACQ_REL) == 0) free_vocabulary(v);
}

void eg_vocabulary_enter(es_vocabulary *v, int64_t max_work) {
    pthread_mutex_lock(&v->lock);
    v->fault.work = max_work;
    v->fault.partial = false;
    v->fault.full = NULL;
    eg_expressions_reset(&v->expressions);
}

void eg_vocabulary_keep(es_vocabulary *v) {
    v->whole_nodes = v->tries.byte.count;
    v->whole_tokens = v->tries.tokens.count;
}

void eg_vocabulary_tidy(es_vocabulary *v) {
    const int32_t nodes = v->whole_nodes;
    v->tries.byte.count = v->tries.end.count = v->tries.own.count = nodes;
    v->tries.first_token.count = v->tries.height.count = v->tries.depth.count = nodes;
    v->tries.below.count = v->tries.next.count = nodes;
    v->tries.tokens.count = v->whole_tokens;
    v->tries.sources.count = 0;
}

void eg_vocabulary_empty(es_vocabulary *v) {
    eg_summaries_close(v);
    eg_expressions_close(&v->expressions);
    v->whole_nodes = v->own_nodes;
    v->whole_tokens = v->own_tokens;
    eg_vocabulary_tidy(v);
    eg_pool_clear(&v->pool);
    v->generation++;
    eg_expressions_open(&v->expressions, &v->pool, v->longest);
    eg_summaries_open(v);
}
