/* vocabulary.h: the tokens as tries, and what every grammar of one vocabulary shares. */
#ifndef ES_GRAMMAR_VOCABULARY_H
#define ES_GRAMMAR_VOCABULARY_H

#include <pthread.h>

#include "engine_sampler_grammar.h"
#include "grammar/characters.h"
#include "grammar/expression.h"

/* Nodes of all tries, each trie in pre-order: the children of node n begin at n + 1 and follow each
 * other at end[child], up to end[n]. Node 0 is the root of the trie of the whole vocabulary; others
 * hold what is left of some tokens behind their first bytes. The tokens that end at node n or below
 * it are tokens[first_token[n] .. first_token[end[n]]], those that end at n the first own[n] of them.
 */
typedef struct eg_path_node { /* to the node that is being added to a trie */
    int32_t node;
    eg_utf8 utf8;
} eg_path_node;

typedef struct eg_source { /* a node that becomes part of another at `depth` of a new trie */
    int32_t node, depth;
    uint8_t byte; /* of that one */
} eg_source;

typedef struct eg_tries {
    EG_VECTOR(uint8_t) byte;
    EG_VECTOR(int32_t) end;
    EG_VECTOR(int32_t) first_token; /* one more than nodes in each trie */
    EG_VECTOR(int32_t) own;
    EG_VECTOR(uint16_t) depth;      /* bytes from its root */
    EG_VECTOR(uint8_t) height;      /* bytes to the deepest node below; 255 stands for more as well */
    EG_VECTOR(int32_t) tokens;
    EG_VECTOR(uint64_t) below;      /* classes of the characters on the paths to nodes below; EG_WITHIN: */
                                     /* the node is inside of a character */
    EG_VECTOR(uint64_t) next;       /* eg_bytes_fold of the children's bytes */
    EG_VECTOR(eg_path_node) path;   /* by depth, while a trie is made */
    EG_VECTOR(eg_source) sources;   /* a stack: what the trie is still to be made of, the next ones last */
} eg_tries;

enum { EG_LONGEST_TOKEN = 60000 };   /* bytes; longer tokens are never allowed */

/* What is left of a token. */
typedef struct eg_rest {
    const uint8_t *at;
    int32_t length;
    int32_t token;
} eg_rest;

struct es_vocabulary {
    pthread_mutex_t lock;
    int64_t references;
    eg_fault fault;
    eg_pool pool;               /* what grammars share; emptied whole */
    eg_pool own;                /* what stays */
    int32_t count, words;       /* tokens, and words of a mask */
    int32_t longest;            /* bytes of the longest token */
    uint8_t *bytes;
    int64_t *offsets;
    uint8_t *kinds;
    eg_rest *sorted;            /* tokens that are text, in order of their bytes */
    int32_t sorted_count;
    int32_t *eos;
    int32_t eos_count;
    eg_tries tries;
    int32_t root_children[256]; /* of node 0, by byte; 0 where there is none */
    int32_t own_nodes;          /* of the trie of the vocabulary; others are shared tables */
    int32_t own_tokens;
    eg_expressions expressions;
    struct eg_summaries *summaries;
    int64_t generation;         /* how often the shared tables were emptied */
};

/* A new trie of `count` sorted rests; returns its root. */
int32_t eg_tries_add(eg_pool *pool, eg_tries *tries, const eg_rest *rests, int32_t count);

/* A new trie of `sources`, which are nodes of others, and all below them; takes them off. They become the root
 * (their depth is 0), or children of it (1, by descending bytes). Returns the root. */
int32_t eg_tries_merge(eg_pool *pool, eg_tries *tries);

void eg_vocabulary_hold(es_vocabulary *v);
void eg_vocabulary_drop(es_vocabulary *v);

/* Begin a call: take the lock and set what a fault needs. The caller does `if (setjmp(v->fault.out))`. */
void eg_vocabulary_enter(es_vocabulary *v, int64_t max_work);
static inline void eg_vocabulary_leave(es_vocabulary *v) { pthread_mutex_unlock(&v->lock); }

/* Empty the shared tables. Grammars see it by `generation` and make their own anew. */
void eg_vocabulary_empty(es_vocabulary *v);

#endif
