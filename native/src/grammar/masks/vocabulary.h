/* The tokens as tries, and what all grammars of one vocabulary share. */
#ifndef ES_GRAMMAR_VOCABULARY_H
#define ES_GRAMMAR_VOCABULARY_H

#include <pthread.h>

#include "engine_sampler_grammar.h"
#include "grammar/base/characters.h"
#include "grammar/expression/expression.h"

/* The node at one depth of the path that is being added to a trie. */
typedef struct eg_path_node {
    int32_t node;
    eg_utf8 utf8;
} eg_path_node;

/* A node that becomes part of another at `depth` of a new trie. */
typedef struct eg_source {
    int32_t node, depth;
    uint8_t byte; /* the byte of that other node */
} eg_source;

/* Nodes of all tries, each trie in pre-order: the children of node n begin at n + 1 and follow each other at
 * end[child], up to end[n]. Node 0 is the root of the trie of the whole vocabulary; other tries hold what is
 * left of some tokens after their first bytes. The tokens that end at node n or below it are
 * tokens[first_token[n] .. first_token[end[n]]); those that end at n are the first own[n] of them. */
typedef struct eg_tries {
    EG_VECTOR(uint8_t) byte;
    EG_VECTOR(int32_t) end;
    EG_VECTOR(int32_t) first_token; /* one more than nodes in each trie */
    EG_VECTOR(int32_t) own;
    EG_VECTOR(uint16_t) depth;      /* bytes from its root */
    EG_VECTOR(uint8_t) height;      /* bytes to the deepest node below; 255 means 255 or more */
    EG_VECTOR(int32_t) tokens;
    /* Classes of the characters on the paths to nodes below; EG_INSIDE: the node is inside a character. */
    EG_VECTOR(uint64_t) below;
    EG_VECTOR(uint64_t) next;       /* eg_bytes_fold of the children's bytes */
    EG_VECTOR(eg_path_node) path;   /* by depth, while a trie is built */
    EG_VECTOR(eg_source) sources;   /* a stack of what is still to be added to the trie, the next on top */
} eg_tries;

enum { EG_LONGEST_TOKEN = 60000 };   /* bytes; longer tokens are never allowed */

/* What is left of a token. */
typedef struct eg_rest {
    const uint8_t *at;
    int32_t length;
    int32_t token;
} eg_rest;

typedef struct eg_beginning eg_beginning;

struct es_vocabulary {
    pthread_mutex_t lock;
    es_vocabulary *next, *before; /* of all vocabularies of the process */
    int64_t references;
    eg_fault fault;
    eg_pool pool;               /* what grammars share; emptied as a whole */
    eg_pool own;                /* what stays */
    int32_t count, words;       /* number of tokens, and of words in a mask */
    int32_t longest;            /* bytes of the longest token */
    uint8_t *bytes;
    int64_t *offsets;
    uint8_t *kinds;
    eg_rest *sorted;            /* tokens that are text, in order of their bytes */
    int32_t sorted_count;
    int32_t *eos;
    int32_t eos_count;
    uint32_t *marks;            /* [words] all 0 except while a mask's tokens are sorted out */
    eg_tries tries;
    int32_t root_children[256]; /* of node 0, by byte; 0 if there is none */
    int32_t own_nodes;          /* of the vocabulary's trie; the nodes after them are shared tables */
    int32_t own_tokens;
    int32_t whole_nodes;        /* of all tries but one that is being added */
    int32_t whole_tokens;
    eg_expressions expressions;
    struct eg_summaries *summaries;
    eg_beginning *beginning;    /* of many programs; or NULL */
    const eg_beginning *begun;  /* in a workshop: with which its `expressions` begin; or NULL */
    es_vocabulary *workshop;    /* an idle one; or NULL */
    int64_t generation;         /* how often the shared tables were emptied */
    const es_matcher *claimant; /* whose unfinished work must not be destroyed, ... */
    const es_grammar *claimed;  /* ... its grammar, ... */
    int patience;               /* ... and how often others still wait for it */
    es_grammar *grammars;
    int64_t grammar_memory;     /* bytes of all grammars' tables ... */
    int64_t max_grammar_memory; /* ... and how many they may be */
};

/* A new trie of `count` sorted rests; returns its root. */
int32_t eg_tries_add(eg_pool *pool, eg_tries *tries, const eg_rest *rests, int32_t count);

/* A new trie of `sources`, which are nodes of other tries, and everything below them; pops them. They become
 * the root (at depth 0) or children of it (at depth 1, by descending byte). Returns the root. */
int32_t eg_tries_merge(eg_pool *pool, eg_tries *tries);

void eg_vocabulary_hold(es_vocabulary *v);
void eg_vocabulary_drop(es_vocabulary *v);

/* Begin a call: take the lock and prepare for faults. The caller does `if (setjmp(v->fault.out))`. */
void eg_vocabulary_enter(es_vocabulary *v, int64_t max_work);
static inline void eg_vocabulary_leave(es_vocabulary *v) { pthread_mutex_unlock(&v->lock); }

/* Count the trie that was added last as complete. */
void eg_vocabulary_keep(es_vocabulary *v);

/* Drop the trie that a fault has left incomplete. */
void eg_vocabulary_tidy(es_vocabulary *v);

/* Empty the shared tables. Grammars notice by `generation` and rebuild their own. */
void eg_vocabulary_empty(es_vocabulary *v);

#endif
