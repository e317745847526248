/* vocabulary.c: see vocabulary.h. */
#include "vocabulary.h"

#include "summary.h"

/* --- tries --------------------------------------------------------------------------------------------- */

static int compare_rests(const void *a, const void *b)
{
    const es_rest *x = a, *y = b;
    const int32_t shared = x->length < y->length ? x->length : y->length;
    const int order = memcmp(x->at, y->at, (size_t)shared);
    if (order) return order;
    if (x->length != y->length) return x->length < y->length ? -1 : 1;
    return (x->token > y->token) - (x->token < y->token);
}

void es_sort_rests(es_rest *rests, int32_t count)
{
    es_sort(rests, count, sizeof *rests, compare_rests);
}

static void add_node(es_pool *pool, es_tries *t, int byte, int32_t depth)
{
    ES_PUSH(pool, t->depth, (uint16_t)depth);
    ES_PUSH(pool, t->byte, (uint8_t)byte);
    ES_PUSH(pool, t->end, 0);
    ES_PUSH(pool, t->own, 0);
    ES_PUSH(pool, t->height, 0);
    ES_PUSH(pool, t->first_token, t->tokens.count);
}

/* The node at `depth` of the path has no more nodes below it. */
static void close_node(es_tries *t, int32_t depth)
{
    const int32_t node = t->path.at[depth], height = t->height.at[node];
    t->end.at[node] = t->byte.count;
    if (!depth) return;
    uint8_t *above = &t->height.at[t->path.at[depth - 1]];
    if (*above <= height) *above = (uint8_t)(height < 255 ? height + 1 : 255);
}

int32_t es_tries_add(es_pool *pool, es_tries *t, const es_rest *rests, int32_t count)
{
    int32_t deepest = 0;
    for (int32_t i = 0; i < count; ++i)
        if (rests[i].length > deepest) deepest = rests[i].length;
    ES_RESERVE(pool, t->path, deepest + 1);
    int32_t *path = t->path.at;
    const int32_t root = t->byte.count;
    add_node(pool, t, 0, 0);
    path[0] = root;
    int32_t depth = 0;
    for (int32_t i = 0; i < count; ++i) {
        const uint8_t *text = rests[i].at;
        const int32_t length = rests[i].length;
        int32_t shared = 0;
        if (i)
            for (const uint8_t *before = rests[i - 1].at; shared < depth && shared < length; ++shared)
                if (before[shared] != text[shared]) break;
        while (depth > shared) close_node(t, depth--);
        while (depth < length) {
            path[depth + 1] = t->byte.count;
            add_node(pool, t, text[depth], depth + 1);
            ++depth;
        }
        ES_PUSH(pool, t->tokens, rests[i].token);
        t->own.at[path[depth]]++;
    }
    while (depth >= 0) close_node(t, depth--);
    add_node(pool, t, 0, 0);  /* so that first_token[end] can be asked */
    t->end.at[t->end.count - 1] = t->byte.count;
    return root;
}

/* --- opening and closing ---------------------------------------------------------------------------------- */

static void take_tokens(es_vocabulary *v, const uint8_t *bytes, const int64_t *offsets, const uint8_t *kinds,
                        int32_t count)
{
    v->count = count;
    v->words = (count + 31) / 32;
    v->bytes = es_take(&v->own, (size_t)offsets[count] + 1);
    v->offsets = es_take(&v->own, ((size_t)count + 1) * sizeof *v->offsets);
    v->kinds = es_take(&v->own, (size_t)count + 1);
    es_copy(v->bytes, bytes, (size_t)offsets[count]);
    es_copy(v->offsets, offsets, ((size_t)count + 1) * sizeof *offsets);
    es_copy(v->kinds, kinds, (size_t)count);
    v->sorted = es_take(&v->own, ((size_t)count + 1) * sizeof *v->sorted);
    v->eos = es_take(&v->own, ((size_t)count + 1) * sizeof *v->eos);
    for (int32_t i = 0; i < count; ++i) {
        const int32_t length = (int32_t)(offsets[i + 1] - offsets[i]);
        if (kinds[i] & ES_TOKEN_EOS) v->eos[v->eos_count++] = i;
        if (kinds[i] || !length || length > ES_LONGEST_TOKEN) continue;
        if (length > v->longest) v->longest = length;
        v->sorted[v->sorted_count++] = (es_rest){v->bytes + offsets[i], length, i};
    }
    es_sort_rests(v->sorted, v->sorted_count);
}

static void free_vocabulary(es_vocabulary *v)
{
    if (v->expressions.pool) es_expressions_close(&v->expressions);
    if (v->summaries) es_summaries_close(v);
    es_tries *t = &v->tries;
    ES_FREE(&v->own, t->byte);
    ES_FREE(&v->own, t->end);
    ES_FREE(&v->own, t->first_token);
    ES_FREE(&v->own, t->own);
    ES_FREE(&v->own, t->height);
    ES_FREE(&v->own, t->depth);
    ES_FREE(&v->own, t->tokens);
    ES_FREE(&v->own, t->path);
    es_pool_clear(&v->pool);
    es_pool_clear(&v->own);
    pthread_mutex_destroy(&v->lock);
    free(v);
}

/* False where memory ran out on the way. */
static bool build(es_vocabulary *v, const uint8_t *bytes, const int64_t *offsets, const uint8_t *kinds,
                  int32_t count)
{
    v->fault.work = INT64_MAX;
    if (setjmp(v->fault.out)) return false;
    take_tokens(v, bytes, offsets, kinds, count);
    es_tries_add(&v->own, &v->tries, v->sorted, v->sorted_count);
    for (int32_t c = 1; c < v->tries.end.at[0]; c = v->tries.end.at[c]) v->root_children[v->tries.byte.at[c]] = c;
    v->own_nodes = v->tries.byte.count;
    v->own_tokens = v->tries.tokens.count;
    es_expressions_open(&v->expressions, &v->pool, v->longest);
    es_summaries_open(v);
    return true;
}

es_vocabulary *es_vocabulary_new(const uint8_t *bytes, const int64_t *offsets, const uint8_t *kinds,
                                 int32_t count, int64_t shared_memory)
{
    es_vocabulary *v = calloc(1, sizeof *v);
    if (!v) return NULL;
    pthread_mutex_init(&v->lock, NULL);
    v->references = 1;
    v->pool = (es_pool){.fault = &v->fault, .limit = (size_t)shared_memory, .name = "Limits.shared_memory"};
    v->own = (es_pool){.fault = &v->fault, .limit = SIZE_MAX, .name = "all"};
    if (build(v, bytes, offsets, kinds, count)) return v;
    free_vocabulary(v);
    return NULL;
}

void es_vocabulary_free(es_vocabulary *v)
{
    if (v) es_vocabulary_drop(v);
}

void es_vocabulary_hold(es_vocabulary *v)
{
    __atomic_add_fetch(&v->references, 1, __ATOMIC_RELAXED);
}

void es_vocabulary_drop(es_vocabulary *v)
{
    if (__atomic_sub_fetch(&v->references, 1, __ATOMIC_ACQ_REL) == 0) free_vocabulary(v);
}

void es_vocabulary_enter(es_vocabulary *v, int64_t max_work)
{
    pthread_mutex_lock(&v->lock);
    v->fault.work = max_work;
    v->fault.full = NULL;
    v->expressions.scratch.count = 0;
    v->expressions.depth = 0;
}

void es_vocabulary_empty(es_vocabulary *v)
{
    es_summaries_close(v);
    es_expressions_close(&v->expressions);
    v->tries.byte.count = v->tries.end.count = v->tries.own.count = v->own_nodes;
    v->tries.first_token.count = v->tries.height.count = v->tries.depth.count = v->own_nodes;
    v->tries.tokens.count = v->own_tokens;
    es_pool_clear(&v->pool);
    ++v->generation;
    es_expressions_open(&v->expressions, &v->pool, v->longest);
    es_summaries_open(v);
}
