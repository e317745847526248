/* Where grammars are compiled, and what their expressions begin with. */
#include "grammar/masks/workshop.h"

enum {
    KEPT = 1 << 20,       /* bytes of a workshop that is kept */
    MOST_COMMON = 1 << 16 /* int32 of code that may be common to programs */
};

/* --- what programs begin with --- */

void eg_beginning_close(eg_beginning *b) {
    if (!b) return;
    eg_import_close(&b->import);
    if (b->expressions.pool) eg_expressions_close(&b->expressions);
    free(b);
}

/* Read the code into `b`, with the lock held. Returns an es_grammar_code. */
static int32_t read_beginning(es_vocabulary *v, eg_beginning *b, const int32_t *code, int64_t length) {
    if (setjmp(v->fault.out)) return v->fault.code;
    int32_t *kept = eg_take(&v->own, (size_t)length * sizeof *kept + 1);
    eg_copy(kept, code, (size_t)length * sizeof *kept);
    b->code = kept;
    b->length = length;
    b->generation = -1;
    b->numbers = eg_take(&v->own, (size_t)length * sizeof *b->numbers + 1);
    eg_expressions_open(&b->expressions, &v->own, v->longest);
    b->count = eg_expressions_read(&b->expressions, kept, length, (eg_reading_place){0}, b->numbers, length);
    eg_set_widen(&v->own, &b->expressions.by_content); /* there is room for those of a program */
    eg_set_widen(&v->own, &b->expressions.literals_by_content);
    if (!eg_import_open(&b->import, &b->expressions, NULL)) return ES_GRAMMAR_MEMORY;
    for (int32_t e = 0; e < b->expressions.nodes.count; e++) eg_import_need(&b->import, e);
    return ES_GRAMMAR_OK;
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

void eg_beginning_import(eg_beginning *b, es_vocabulary *v) {
    if (b->generation != v->generation) eg_import_restart(&b->import);
    b->generation = v->generation;
    eg_import_some(&b->import, &v->expressions, INT32_MAX);
}

/* --- workshops --- */

void eg_workshop_close(es_vocabulary *w) {
    if (!w) return;
    if (w->expressions.pool) eg_expressions_close(&w->expressions);
    eg_pool_clear(&w->pool);
    free(w);
}

es_vocabulary *eg_workshop_open(es_vocabulary *v) {
    es_vocabulary *w = __atomic_exchange_n(&v->workshop, NULL, __ATOMIC_ACQ_REL);
    if (w) return w;
    w = calloc(1, sizeof *w);
    if (!w) return NULL;
    w->count = v->count;
    w->words = v->words;
    w->longest = v->longest;
    w->kinds = v->kinds;
    w->pool = (eg_pool){.fault = &w->fault, .limit = v->pool.limit, .name = v->pool.name};
    return w;
}

void eg_workshop_begin(es_vocabulary *w, const es_vocabulary *v, const es_grammar_program *program) {
    eg_beginning *b = __atomic_load_n(&v->beginning, __ATOMIC_ACQUIRE);
    const bool begins = b && program->expressions_length >= b->length &&
                        eg_same(program->expressions, b->code, (size_t)b->length * sizeof *b->code);
    w->begun = begins ? b : NULL;
    if (begins) {
        eg_expressions_copy(&w->expressions, &w->pool, &b->expressions);
        return;
    }
    if (w->expressions.pool) eg_expressions_close(&w->expressions);
    eg_expressions_open(&w->expressions, &w->pool, w->longest);
}

void eg_workshop_keep(es_vocabulary *w, es_vocabulary *v) {
    eg_pool_clear(&w->pool);
    if (w->pool.used <= KEPT) w = __atomic_exchange_n(&v->workshop, w, __ATOMIC_ACQ_REL);
    eg_workshop_close(w);
}
