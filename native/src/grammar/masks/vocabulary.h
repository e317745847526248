/* What all grammars of one vocabulary share. */
#pragma once

#include <pthread.h>

#include "engine_sampler_grammar.h"
#include "grammar/expression/workshop.h"
#include "grammar/masks/summary.h"

struct es_vocabulary {
    pthread_mutex_t lock;
    es_vocabulary *next, *before; /* of all vocabularies of the process */
    int64_t references;
    eg_fault fault;
    eg_pool pool;                 /* what grammars share; emptied as a whole */
    eg_pool own;                  /* what stays */
    eg_tokens tokens;
    int32_t *eos;                 /* the tokens that end a text */
    int32_t eos_count;
    uint32_t *marks;              /* [tokens.words] all 0 except while a mask's tokens are sorted out */
    eg_tries tries;
    eg_expressions expressions;
    eg_summaries *summaries;
    eg_beginning *beginning;      /* of many programs; or NULL */
    eg_workshop *workshop;        /* an idle one; or NULL */
    int64_t generation;           /* how often the shared tables were emptied */
    const es_matcher *claimant;   /* whose unfinished work must not be destroyed, ... */
    const es_grammar *claimed;    /* ... its grammar, ... */
    int patience;                 /* ... and how often others still wait for it */
    es_grammar *grammars;
    int64_t grammar_memory;       /* bytes of all grammars' tables ... */
    int64_t max_grammar_memory;   /* ... and how many they may be */
};

void eg_vocabulary_hold(es_vocabulary *v);
void eg_vocabulary_drop(es_vocabulary *v);

/* Begin a call: take the lock and prepare for faults. The caller does `if (setjmp(v->fault.out))`. */
void eg_vocabulary_enter(es_vocabulary *v, int64_t max_work);
static inline void eg_vocabulary_leave(es_vocabulary *v) { pthread_mutex_unlock(&v->lock); }

/* Empty the shared tables. Grammars notice by `generation` and rebuild their own. */
void eg_vocabulary_empty(es_vocabulary *v);

/* An idle workshop, or a new one; NULL if there is no memory. And keep it for the next grammar, or close
 * it. */
eg_workshop *eg_vocabulary_take_workshop(es_vocabulary *v);
void eg_vocabulary_keep_workshop(es_vocabulary *v, eg_workshop *w);
