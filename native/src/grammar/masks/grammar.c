/* Compiling grammars, and the memory of their tables. */
#include "grammar/masks/grammar.h"

#include <stdio.h>

enum {
    IMPORTED = 512, /* expressions that are added to the vocabulary's without releasing its lock */
    EMPTIES = 3     /* how often a grammar may empty the shared tables to make room for its expressions */
};

/* --- tables --- */

static void drop_tables(es_grammar *g) {
    g->states = (eg_states){0};
    g->masks = (eg_masks){0};
    g->generation = -1;
    eg_pool_clear(&g->tables);
}

/* Copy the parts of the given rules that linking and pruning change. */
static void copy_rules(es_grammar *g) {
    eg_rules *r = &g->rules;
    *r = g->given;
    const size_t edges = (size_t)r->edge_count * sizeof *r->edges;
    const size_t states = ((size_t)r->state_count + 1) * sizeof *r->first_edge;
    r->edges = eg_keep(&g->tables, g->given.edges, edges);
    r->first_edge = eg_keep(&g->tables, g->given.first_edge, states);
}

/* Make new tables, which use expressions of `x`; these may begin with `begun`. */
static void make_tables(es_grammar *g, eg_expressions *x, const eg_beginning *begun) {
    const eg_tokens *tokens = &g->vocabulary->tokens;
    copy_rules(g);
    eg_rules_link(&g->rules, x, begun, tokens);
    eg_rules_prune(&g->tables, &g->rules);
    eg_states_open(&g->states, &g->tables, x, tokens, &g->rules);
    eg_follower_open(&g->follower, &g->states);
    g->masks.follower = &g->follower;
    eg_places_open(&g->places, &g->states, &g->masks);
    g->built++;
}

/* The tables of `g` use those of its vocabulary. */
static void attach(es_grammar *g) {
    eg_follower_attach(&g->follower, g->vocabulary);
    g->generation = g->vocabulary->generation;
}

void eg_grammar_build(es_grammar *g, bool anew) {
    es_vocabulary *v = g->vocabulary;
    if (g->generation == v->generation && !anew) return;
    drop_tables(g);
    if (anew && v->fault.full != &g->tables) eg_vocabulary_empty(v);
    make_tables(g, &v->expressions, NULL);
    attach(g);
}

static int64_t weight_of(const es_grammar *g) { return (int64_t)(g->fixed.used + g->tables.used); }

/* Record the current weight of `g`. */
static void record_weight(es_grammar *g) {
    const int64_t now = weight_of(g);
    g->vocabulary->grammar_memory += now - g->weight;
    g->weight = now;
}

void eg_grammar_weigh(es_grammar *g) {
    es_vocabulary *v = g->vocabulary;
    record_weight(g);
    while (v->grammar_memory > v->max_grammar_memory) {
        es_grammar *heaviest = NULL;
        for (es_grammar *at = v->grammars; at; at = at->next)
            if (at != g && at != v->claimed && at->tables.blocks &&
                (!heaviest || at->weight > heaviest->weight))
                heaviest = at;
        if (!heaviest) return;
        drop_tables(heaviest);
        record_weight(heaviest);
    }
}

/* --- the vocabulary's grammars --- */

static void join_vocabulary(es_grammar *g) {
    es_vocabulary *v = g->vocabulary;
    g->next = v->grammars;
    if (g->next) g->next->before = g;
    v->grammars = g;
    eg_grammar_weigh(g);
}

static void leave_vocabulary(es_grammar *g) {
    es_vocabulary *v = g->vocabulary;
    if (g->before) g->before->next = g->next;
    else if (v->grammars == g) v->grammars = g->next;
    if (g->next) g->next->before = g->before;
    v->grammar_memory -= g->weight;
}

static void free_grammar(es_grammar *g) {
    es_vocabulary *v = g->vocabulary;
    pthread_mutex_lock(&v->lock);
    leave_vocabulary(g);
    pthread_mutex_unlock(&v->lock);
    drop_tables(g);
    eg_pool_clear(&g->fixed);
    free(g);
    eg_vocabulary_drop(v);
}

void eg_grammar_drop(es_grammar *g) {
    if (__atomic_sub_fetch(&g->references, 1, __ATOMIC_ACQ_REL) == 0) free_grammar(g);
}

void es_grammar_free(es_grammar *g) {
    if (g) eg_grammar_drop(g);
}

/* --- compiling, in a workshop --- */

/* Compile in the workshop `w`. Returns an es_grammar_code. */
static int32_t compile_in_workshop(es_grammar *g, eg_workshop *w, const es_grammar_program *program) {
    const es_vocabulary *v = g->vocabulary;
    const eg_beginning *beginning = __atomic_load_n(&v->beginning, __ATOMIC_ACQUIRE);
    w->fault.work = g->limits.max_work;
    if (setjmp(w->fault.out)) return w->fault.code;
    eg_workshop_begin(w, beginning, program->expressions, program->expressions_length, v->tokens.longest);
    eg_rules_copy(&g->fixed, &g->given, program, v->tokens.count);
    make_tables(g, &w->expressions, w->begun);
    return ES_GRAMMAR_OK;
}

/* Call `visit` with every number of an expression in the tables of `g`. */
static void visit_numbers(es_grammar *g, void (*visit)(void *to, int32_t *number), void *to) {
    eg_states *s = &g->states;
    for (int32_t t = 0; t < g->rules.terminal_count + g->rules.ignore_count; t++)
        visit(to, &g->rules.terminals[t].expression);
    for (int32_t i = 0; i < s->rows.cores.count; i++) visit(to, &s->rows.cores.at[i].lexer);
    for (int32_t i = 0; i < s->states.count; i++)
        for (int32_t k = 0; k < s->states.at[i].count; k++) {
            visit(to, &s->states.at[i].threads[k].expression);
            visit(to, &s->states.at[i].threads[k].guard);
        }
}

static void need_number(void *import, int32_t *number) { eg_import_need(import, *number); }

static void replace_number(void *import, int32_t *number) { *number = eg_import_number(import, *number); }

/* Import some more expressions under the lock; all of them again if the tables were emptied meanwhile. They
 * are emptied here if memory runs out, `empties` times at most in all calls. Returns an es_grammar_code,
 * ES_GRAMMAR_UNFINISHED if some are left. */
static int32_t import_some(es_grammar *g, eg_import *import, int *empties) {
    es_vocabulary *v = g->vocabulary;
    if (setjmp(v->fault.out)) {
        if (v->fault.code != ES_GRAMMAR_MEMORY || (*empties)-- == 0) return v->fault.code;
        eg_vocabulary_empty(v);
    }
    if (g->generation != v->generation) eg_import_restart(import);
    g->generation = v->generation;
    if (import->before) eg_beginning_import(v->beginning, &v->expressions, v->generation);
    return eg_import_some(import, &v->expressions, IMPORTED) ? ES_GRAMMAR_OK : ES_GRAMMAR_UNFINISHED;
}

/* The tables of `g` now belong to its vocabulary, whose lock is held. */
static void finish_move(es_grammar *g, eg_import *import) {
    es_vocabulary *v = g->vocabulary;
    visit_numbers(g, replace_number, import);
    g->states.rows.expressions = &v->expressions;
    g->fixed.fault = g->tables.fault = &v->fault;
    eg_states_renumber(&g->states);
    attach(g);
    join_vocabulary(g);
}

/* Move what was compiled in `w` to the vocabulary. Returns an es_grammar_code, with a message in `error`
 * (`room` bytes). */
static int32_t move_to_vocabulary(es_grammar *g, const eg_workshop *w, char *error, size_t room) {
    es_vocabulary *v = g->vocabulary;
    eg_import import;
    const eg_import *before = w->begun ? &w->begun->import : NULL;
    if (!eg_import_open(&import, &w->expressions, before)) return ES_GRAMMAR_MEMORY;
    visit_numbers(g, need_number, &import);
    int32_t code = ES_GRAMMAR_UNFINISHED;
    int empties = EMPTIES;
    while (code == ES_GRAMMAR_UNFINISHED) {
        eg_vocabulary_enter(v, INT64_MAX);
        code = import_some(g, &import, &empties);
        if (code == ES_GRAMMAR_OK) finish_move(g, &import);
        else if (code != ES_GRAMMAR_UNFINISHED) snprintf(error, room, "%s", v->fault.text);
        eg_vocabulary_leave(v);
    }
    eg_import_close(&import);
    return code;
}

static es_grammar *discard(es_grammar *g, eg_workshop *w, int32_t code, int32_t *out) {
    *out = code;
    if (g) {
        drop_tables(g);
        eg_pool_clear(&g->fixed);
    }
    free(g);
    eg_workshop_close(w);
    return NULL;
}

es_grammar *es_grammar_new(es_vocabulary *v, const es_grammar_program *program,
                           const es_grammar_limits *limits, int32_t *code, char *error, int64_t room) {
    es_grammar *g = calloc(1, sizeof *g);
    eg_workshop *w = eg_vocabulary_take_workshop(v);
    snprintf(error, (size_t)room, "out of memory");
    if (!g || !w) return discard(g, w, ES_GRAMMAR_MEMORY, code);
    g->vocabulary = v;
    g->references = 1;
    g->limits = *limits;
    g->generation = -1;
    g->fixed = (eg_pool){.fault = &w->fault, .limit = (size_t)limits->max_memory, .name = "Limits.memory"};
    g->tables = g->fixed;
    int32_t failed = compile_in_workshop(g, w, program);
    if (failed) snprintf(error, (size_t)room, "%s", w->fault.text);
    else failed = move_to_vocabulary(g, w, error, (size_t)room);
    if (failed) return discard(g, w, failed, code);
    eg_vocabulary_keep_workshop(v, w);
    eg_vocabulary_hold(v);
    *code = ES_GRAMMAR_OK;
    return g;
}

/* The bytes of the shared tables that calls of `g` have added, with the vocabulary's lock held. */
static int64_t shared_by(const es_grammar *g) {
    return g->shared_generation == g->vocabulary->generation ? g->shared : 0;
}

int64_t es_grammar_weight(es_grammar *g) {
    pthread_mutex_lock(&g->vocabulary->lock);
    const int64_t found = weight_of(g) + shared_by(g);
    pthread_mutex_unlock(&g->vocabulary->lock);
    return found;
}

void es_grammar_statistics(es_grammar *g, es_grammar_stats *out) {
    es_vocabulary *v = g->vocabulary;
    pthread_mutex_lock(&v->lock);
    *out = (es_grammar_stats){
        .memory = weight_of(g),
        .shared = (int64_t)(v->pool.used + v->own.used + (v->beginning ? v->beginning->pool.used : 0)),
        .rows = g->states.rows.rows.count,
        .states = g->states.states.count,
        .masks = g->masks.list.count,
        .rebuilt = g->built - 1,
        .expressions = shared_by(g),
        .all = v->grammar_memory,
    };
    pthread_mutex_unlock(&v->lock);
}
