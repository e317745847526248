/* Workshops, and what their expressions begin with. */
#include "grammar/expression/workshop.h"

enum { KEPT = 1 << 20 }; /* bytes of a workshop that is kept */

/* --- what programs begin with --- */

bool eg_beginning_open(eg_beginning *b, eg_fault *fault, const int32_t *code, int64_t length,
                       int32_t longest_token) {
    b->pool = (eg_pool){.fault = fault, .limit = SIZE_MAX, .name = "all"};
    b->code = eg_keep(&b->pool, code, (size_t)length * sizeof *code);
    b->length = length;
    b->generation = -1;
    b->numbers = eg_take(&b->pool, (size_t)length * sizeof *b->numbers + 1);
    eg_expressions_open(&b->expressions, &b->pool, longest_token);
    b->count = eg_expressions_read(&b->expressions, b->code, length, (eg_reading_place){0}, b->numbers,
                                   length);
    eg_set_widen(&b->pool, &b->expressions.by_content); /* there is room for those of a program */
    eg_set_widen(&b->pool, &b->expressions.literals_by_content);
    if (!eg_import_open(&b->import, &b->expressions, NULL)) return false;
    for (int32_t e = 0; e < b->expressions.nodes.count; e++) eg_import_need(&b->import, e);
    return true;
}

void eg_beginning_close(eg_beginning *b) {
    if (!b) return;
    eg_import_close(&b->import);
    eg_pool_clear(&b->pool);
    free(b);
}

void eg_beginning_import(eg_beginning *b, eg_expressions *to, int64_t generation) {
    if (b->generation != generation) eg_import_restart(&b->import);
    b->generation = generation;
    eg_import_some(&b->import, to, INT32_MAX);
}

/* --- workshops --- */

eg_workshop *eg_workshop_new(size_t limit, const char *name) {
    eg_workshop *w = calloc(1, sizeof *w);
    if (w) w->pool = (eg_pool){.fault = &w->fault, .limit = limit, .name = name};
    return w;
}

void eg_workshop_begin(eg_workshop *w, const eg_beginning *b, const int32_t *code, int64_t length,
                       int32_t longest_token) {
    const bool begins = b && length >= b->length && eg_same(code, b->code, (size_t)b->length * sizeof *code);
    w->begun = begins ? b : NULL;
    if (begins) {
        eg_expressions_copy(&w->expressions, &w->pool, &b->expressions);
        return;
    }
    eg_pool_clear(&w->pool);
    eg_expressions_open(&w->expressions, &w->pool, longest_token);
}

bool eg_workshop_clear(eg_workshop *w) {
    eg_pool_clear_blocks(&w->pool);
    return w->pool.used <= KEPT;
}

void eg_workshop_close(eg_workshop *w) {
    if (!w) return;
    eg_pool_clear(&w->pool);
    free(w);
}
