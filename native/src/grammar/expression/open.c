/* Tables of expressions: opened and copied; and the depth of recursions over them. */
#include "grammar/expression/make.h"

/* Tables that copies have too, and what is found again when it is needed. */
#define TABLES(DO) \
    DO(nodes) DO(sets) DO(lists) DO(text) DO(automata) DO(classes) DO(reaches) DO(steadies) DO(singles)
#define CONTENTS(DO) DO(by_content) DO(sets_by_content) DO(literals_by_content) DO(classes_by_content)
#define RESULTS(DO) DO(single) DO(class_meets) DO(goes_on) DO(derived)

enum { MAX_DEPTH = 4000 };

void eg_enter(eg_expressions *x) {
    eg_work(x->pool->fault, 4);
    if (++x->depth > MAX_DEPTH)
        eg_fail(x->pool->fault, ES_GRAMMAR_LIMIT, "an expression is nested more than %d deep", MAX_DEPTH);
}

void eg_expressions_open(eg_expressions *x, eg_pool *pool, int32_t longest_token) {
    memset(x, 0, sizeof *x);
    x->pool = pool;
    x->longest_token = longest_token;
    eg_open_classes(x);
    eg_intern_list(x, EG_UNION, NULL, 0); /* EG_EMPTY */
    eg_intern(x, EG_LITERAL, 0, 0, 0);    /* EG_EPSILON */
    const int32_t place = x->nodes.count;
    EG_PUSH(pool, x->nodes, (eg_expression){0}); /* EG_ANYTHING comes before what it repeats */
    const int32_t any = eg_intern(x, EG_CLASS, eg_intern_set(x, &EG_ALL_BYTES), 0, 0);
    eg_expression anything = eg_blank_node(EG_REPEAT, any, 0, -1);
    anything.bounded = anything.looser = place;
    eg_describe(x, &anything);
    x->nodes.at[place] = anything;
    const int32_t key[4] = {EG_REPEAT, any, 0, -1};
    eg_set_add(pool, &x->by_content, eg_hash_ints(key, 4, 1), place);
}

#define COPY_TABLE(name) \
    x->name.count = 0;   \
    EG_APPEND(pool, x->name, from->name.at, from->name.count);
#define COPY_SET(name) eg_set_copy(pool, &x->name, &from->name);
#define FORGET(name) eg_map_release(pool, &x->name);

void eg_expressions_copy(eg_expressions *x, eg_pool *pool, const eg_expressions *from) {
    x->pool = pool;
    TABLES(COPY_TABLE)
    CONTENTS(COPY_SET)
    RESULTS(FORGET)
    x->known_steps = from->known_steps;
    x->longest_token = from->longest_token;
    x->vain_explorations = x->vain_searches = 0;
    eg_expressions_reset(x);
}
