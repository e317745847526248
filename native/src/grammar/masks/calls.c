/* Calls on matchers: their work, and the memory that they share. */
#include <stdio.h>

#include "grammar/masks/matcher.h"

/* Find the matcher's places again in tables that were built since. */
static void find_places_again(es_matcher *m) {
    es_grammar *g = m->grammar;
    int32_t place = EG_START;
    if (m->built == g->built) return;
    for (int64_t i = 0; i < m->count; i++) {
        eg_accept *a = &m->accepts[i];
        const int64_t begin = i ? m->accepts[i - 1].end : 0;
        if (a->token < 0) place = eg_place_bytes(&g->places, place, m->bytes + begin, a->end - begin);
        else if (g->vocabulary->tokens.kinds[a->token] & ES_TOKEN_EOS) place = EG_ENDED;
        else place = eg_place_token(&g->places, place, a->token);
        a->place = place;
    }
    m->built = g->built;
}

/* How much a call that may do `work` can use. */
static int64_t work_allowed(const es_matcher *m, const es_grammar_work *work) {
    int64_t most = m->grammar->limits.max_work;
    if (!work) return most;
    if (work->each < most) most = work->each;
    if (work->all < most) most = work->all;
    return most < 0 ? 0 : most;
}

/* Subtract what a call has used of `most` from `work`, at least one step. Unfinished calls add up, to a
 * limit; returns the code of the call. */
static int64_t charge_work(es_matcher *m, es_grammar_work *work, int64_t most, int64_t code) {
    const int64_t left = m->grammar->vocabulary->fault.work, used = most - (left < 0 ? 0 : left);
    if (!work) return code;
    work->all -= used > 0 ? used : 1;
    if (code != -(int64_t)ES_GRAMMAR_UNFINISHED || m->waits) return code;
    m->carried += used;
    if (m->carried <= m->grammar->limits.max_carried) return code;
    snprintf(m->error, sizeof m->error,
             "the limit of work in all steps of a text (Limits.carried) is reached");
    return -(int64_t)ES_GRAMMAR_LIMIT;
}

enum {
    EMPTIES = 8,  /* how often memory may run out before a call finishes */
    PATIENCE = 64 /* calls of others that wait for a matcher which is not called any more */
};

/* Two texts whose tables do not fit into memory together could destroy each other's unfinished work for
 * ever. So the first that does not finish claims the memory: until it does, the others wait. */
static void claim_memory(es_matcher *m, bool unfinished) {
    es_vocabulary *v = m->grammar->vocabulary;
    if (!unfinished) m->emptied = 0;
    if (v->claimant && v->claimant != m) return;
    v->claimant = unfinished ? m : NULL;
    v->claimed = unfinished ? m->grammar : NULL;
    v->patience = PATIENCE;
}

/* Whether `m`, for which there is no memory, must leave the shared tables as they are. */
static bool must_wait(const es_matcher *m) {
    es_vocabulary *v = m->grammar->vocabulary;
    if (!v->claimant || v->claimant == m) return false;
    if (v->patience-- > 0) return true;
    v->claimant = NULL;
    v->claimed = NULL;
    return false;
}

/* Perform `task`, which may do `most`, under the vocabulary's lock. If memory runs out, all tables are
 * emptied and the task is tried once more. Tables that have to be built first are never left unfinished:
 * that takes no longer than the grammar is long. For this, the call borrows the work that it may not do
 * otherwise. */
static int64_t perform(es_matcher *m, eg_task *task, void *arguments, int64_t most) {
    es_vocabulary *v = m->grammar->vocabulary;
    const int64_t more = m->grammar->limits.max_work - most;
    volatile int64_t borrowed = 0;
    volatile int tries = 0;
    if (setjmp(v->fault.out)) {
        v->fault.work -= borrowed;
        borrowed = 0;
        const bool full = v->fault.code == ES_GRAMMAR_MEMORY;
        m->waits = full && more > 0 && v->fault.full != &m->grammar->tables && must_wait(m);
        if (!full || m->waits || tries++ || m->emptied++ >= EMPTIES) {
            eg_copy(m->error, v->fault.text, sizeof m->error);
            eg_states_reset(&m->grammar->states);
            eg_tries_tidy(&v->tries);
            return -(int64_t)(m->waits ? ES_GRAMMAR_UNFINISHED : v->fault.code);
        }
    }
    eg_expressions_reset(&v->expressions);
    eg_tries_tidy(&v->tries);
    v->fault.partial = false;
    v->fault.work += borrowed = more;
    eg_grammar_build(m->grammar, tries > 0);
    v->fault.work -= more;
    borrowed = 0;
    v->fault.partial = more > 0;
    eg_states_reset(&m->grammar->states);
    find_places_again(m);
    return task(m, arguments);
}

int64_t eg_matcher_call(es_matcher *m, eg_task *task, void *arguments, es_grammar_work *work) {
    es_grammar *g = m->grammar;
    es_vocabulary *v = g->vocabulary;
    const int64_t most = work_allowed(m, work);
    eg_vocabulary_enter(v, most);
    m->waits = m->waits && most < g->limits.max_work && must_wait(m);
    if (m->waits) {
        eg_vocabulary_leave(v);
        return -(int64_t)ES_GRAMMAR_UNFINISHED;
    }
    const int64_t generation = v->generation, before = (int64_t)v->pool.used;
    const int64_t out = charge_work(m, work, most, perform(m, task, arguments, most));
    if (generation != v->generation || generation != g->shared_generation) g->shared = 0;
    if (generation == v->generation) g->shared += (int64_t)v->pool.used - before;
    g->shared_generation = v->generation;
    if (!m->waits) claim_memory(m, out == -(int64_t)ES_GRAMMAR_UNFINISHED);
    eg_grammar_weigh(g);
    eg_vocabulary_leave(v);
    return out;
}

void eg_matcher_release(es_matcher *m) {
    es_vocabulary *v = m->grammar->vocabulary;
    if (__atomic_load_n(&v->claimant, __ATOMIC_RELAXED) == m) {
        eg_vocabulary_enter(v, 0);
        claim_memory(m, false);
        eg_vocabulary_leave(v);
    }
}
