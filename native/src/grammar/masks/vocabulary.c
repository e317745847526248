/* Vocabularies: opened, emptied and closed, and what happens to them at a fork. */
#include "grammar/masks/vocabulary.h"

enum {
    LONGEST_TOKEN = 60000, /* bytes; longer tokens are never allowed */
    MOST_COMMON = 1 << 16  /* int32 of code that may be common to programs */
};

/* --- the tokens --- */

static int compare_texts(const void *a, const void *b) {
    const eg_token_text *x = a, *y = b;
    const int32_t shared = x->length < y->length ? x->length : y->length;
    const int order = memcmp(x->at, y->at, (size_t)shared);
    if (order) return order;
    if (x->length != y->length) return x->length < y->length ? -1 : 1;
    return (x->token > y->token) - (x->token < y->token);
}

static void copy_tokens(es_vocabulary *v, const uint8_t *bytes, const int64_t *offsets, const uint8_t *kinds,
                        int32_t count) {
    eg_tokens *t = &v->tokens;
    t->count = count;
    t->words = (count + 31) / 32;
    t->bytes = eg_keep(&v->own, bytes, (size_t)offsets[count]);
    t->offsets = eg_keep(&v->own, offsets, ((size_t)count + 1) * sizeof *offsets);
    t->kinds = eg_keep(&v->own, kinds, (size_t)count);
}

/* Make the trie of the tokens that are text, and list the others that end a text. */
static void sort_tokens(es_vocabulary *v) {
    eg_tokens *t = &v->tokens;
    eg_token_text *texts = eg_take(&v->own, ((size_t)t->count + 1) * sizeof *texts);
    int32_t count = 0;
    v->eos = eg_take(&v->own, ((size_t)t->count + 1) * sizeof *v->eos);
    for (int32_t i = 0; i < t->count; i++) {
        const int32_t length = eg_token_length(t, i);
        if (t->kinds[i] & ES_TOKEN_EOS) v->eos[v->eos_count++] = i;
        if (t->kinds[i] || !length || length > LONGEST_TOKEN) continue;
        if (length > t->longest) t->longest = length;
        texts[count++] = (eg_token_text){t->bytes + t->offsets[i], length, i};
    }
    eg_sort(texts, count, sizeof *texts, compare_texts);
    v->marks = eg_take_zeroed(&v->own, (size_t)t->words * sizeof *v->marks);
    eg_tries_open(&v->tries, &v->own, texts, count);
}

/* --- forks --- */

/* A child has only the thread that forked it, so nobody would release a lock that another one held. All
 * locks are therefore taken before a fork, and no table is half changed in the child. */
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

static void open_shared(es_vocabulary *v) {
    eg_expressions_open(&v->expressions, &v->pool, v->tokens.longest);
    v->summaries = eg_summaries_open(&v->pool, &v->expressions, &v->tokens, &v->tries);
}

static void free_vocabulary(es_vocabulary *v) {
    leave_all(v);
    eg_workshop_close(v->workshop);
    eg_beginning_close(v->beginning);
    eg_pool_clear(&v->pool);
    eg_pool_clear(&v->own);
    pthread_mutex_destroy(&v->lock);
    free(v);
}

/* False if memory ran out. */
static bool build_tables(es_vocabulary *v, const uint8_t *bytes, const int64_t *offsets, const uint8_t *kinds,
                         int32_t count) {
    v->fault.work = INT64_MAX;
    if (setjmp(v->fault.out)) return false;
    copy_tokens(v, bytes, offsets, kinds, count);
    sort_tokens(v);
    open_shared(v);
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
    if (build_tables(v, bytes, offsets, kinds, count)) return v;
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

/* --- calls --- */

void eg_vocabulary_enter(es_vocabulary *v, int64_t max_work) {
    pthread_mutex_lock(&v->lock);
    v->fault.work = max_work;
    v->fault.partial = false;
    v->fault.full = NULL;
    eg_expressions_reset(&v->expressions);
}

void eg_vocabulary_empty(es_vocabulary *v) {
    eg_tries_empty(&v->tries);
    eg_pool_clear(&v->pool);
    v->generation++;
    open_shared(v);
}

int64_t es_vocabulary_memory(es_vocabulary *v) {
    pthread_mutex_lock(&v->lock);
    const int64_t used = (int64_t)v->pool.used;
    eg_vocabulary_leave(v);
    return used;
}

void es_vocabulary_clear(es_vocabulary *v) {
    eg_vocabulary_enter(v, INT64_MAX);
    v->claimant = NULL;
    v->claimed = NULL;
    if (!setjmp(v->fault.out)) eg_vocabulary_empty(v);
    eg_vocabulary_leave(v);
    eg_workshop_close(__atomic_exchange_n(&v->workshop, NULL, __ATOMIC_ACQ_REL));
}

/* --- what programs begin with --- */

/* Read the code into `b`, with the lock held. Returns an es_grammar_code. */
static int32_t read_beginning(es_vocabulary *v, eg_beginning *b, const int32_t *code, int64_t length) {
    if (setjmp(v->fault.out)) return v->fault.code;
    const bool done = eg_beginning_open(b, &v->fault, code, length, v->tokens.longest);
    return done ? ES_GRAMMAR_OK : ES_GRAMMAR_MEMORY;
}

int32_t es_vocabulary_begin(es_vocabulary *v, const int32_t *expressions, int64_t length) {
    if (length < 0 || length > MOST_COMMON) return ES_GRAMMAR_INVALID;
    eg_beginning *b = calloc(1, sizeof *b);
    if (!b) return ES_GRAMMAR_MEMORY;
    eg_vocabulary_enter(v, INT64_MAX);
    const bool first = !v->beginning;
    const int32_t code = first ? read_beginning(v, b, expressions, length) : ES_GRAMMAR_OK;
    if (first && !code) __atomic_store_n(&v->beginning, b, __ATOMIC_RELEASE);
    else eg_beginning_close(b);
    eg_vocabulary_leave(v);
    return code;
}

eg_workshop *eg_vocabulary_take_workshop(es_vocabulary *v) {
    eg_workshop *w = __atomic_exchange_n(&v->workshop, NULL, __ATOMIC_ACQ_REL);
    return w ? w : eg_workshop_new(v->pool.limit, v->pool.name);
}

void eg_vocabulary_keep_workshop(es_vocabulary *v, eg_workshop *w) {
    if (eg_workshop_clear(w)) w = __atomic_exchange_n(&v->workshop, w, __ATOMIC_ACQ_REL);
    eg_workshop_close(w);
}
