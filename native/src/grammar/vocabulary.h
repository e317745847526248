/* vocabulary.h: the tokens as tries, and what every grammar of one vocabulary shares. */
#ifndef ES_GRAMMAR_VOCABULARY_H
#define ES_GRAMMAR_VOCABULARY_H

#include <pthread.h>

#include "grammar/characters.h"
#include "engine_sampler_grammar.h"
#include "grammar/expression.h"

/* Nodes of all tries, each trie in pre-order: the children of node n begin at n + 1 and follow each
 * other at end[child], up to end[n]. Node 0 is the root of the trie of the whole vocabulary; others
 * hold what is left of some tokens behind their first bytes. The tokens that end at node n or below
 * it are tokens[first_token[n] .. first_token[end[n]]], those that end at n the first own[n] of them.
 */
typedef struct es_way {  /* to the node that is being added to a trie */
    int32_t node;
    es_within within;
} es_way;

typedef struct es_source {  /* a node that becomes part of another at `depth` of a new trie */
    int32_t node, depth;
    uint8_t byte;         /* of that one */
} es_source;

typedef struct es_tries {
    ES_VECTOR(uint8_t) byte;
    ES_VECTOR(int32_t) end;
    ES_VECTOR(int32_t) first_token;  /* one more than nodes in each trie */
    ES_VECTOR(int32_t) own;
    ES_VECTOR(uint16_t) depth;       /* bytes from its root */
    ES_VECTOR(uint8_t) height;       /* bytes to the deepest node below; 255 stands for more as well */
    ES_VECTOR(int32_t) tokens;
    ES_VECTOR(uint64_t) below;       /* the classes of the characters on the ways to nodes below; ES_WITHIN: */
                                     /* the node is inside of a character */
    ES_VECTOR(uint64_t) next;        /* es_bytes_fold of the children's bytes */
    ES_VECTOR(es_way) path;          /* by depth, while a trie is made */
    ES_VECTOR(es_source) sources;    /* a stack: what the trie is still to be made of, the next ones last */
} es_tries;

enum { ES_LONGEST_TOKEN = 60000 };   /* bytes; longer tokens are never allowed */

/* What is left of a token. */
typedef struct es_rest {
    const uint8_t *at;
    int32_t length;
    int32_t token;
} es_rest;

struct es_vocabulary {
    pthread_mutex_t lock;
    int64_t references;
    es_fault fault;
    es_pool pool;             /* what grammars share; emptied whole */
    es_pool own;              /* what stays */
    int32_t count, words;     /* tokens, and words of a mask */
    int32_t longest;          /* bytes of the longest token */
    uint8_t *bytes;
    int64_t *offsets;
    uint8_t *kinds;
    es_rest *sorted;          /* tokens that are text, in order of their bytes */
    int32_t sorted_count;
    int32_t *eos;
    int32_t eos_count;
    es_tries tries;
    int32_t root_children[256];  /* of node 0, by byte; 0 where there is none */
    int32_t own_nodes;        /* of the trie of the vocabulary; others are shared tables */
    int32_t own_tokens;
    es_expressions expressions;
    struct es_summaries *summaries;
    int64_t generation;       /* how often the shared tables were emptied */
};

/* A new trie of `count` sorted rests; returns its root. */
int32_t es_tries_add(es_pool *pool, es_tries *tries, const es_rest *rests, int32_t count);

/* A new trie of `sources`, which are nodes of others, and all below them; takes them off. They become the root
 * (their depth is 0), or children of it (1, by descending bytes). Returns the root. */
int32_t es_tries_merge(es_pool *pool, es_tries *tries);

void es_vocabulary_hold(es_vocabulary *v);
void es_vocabulary_drop(es_vocabulary *v);

/* Begin a call: take the lock and set what a fault needs. The caller does `if (setjmp(v->fault.out))`. */
void es_vocabulary_enter(es_vocabulary *v, int64_t max_work);
static inline void es_vocabulary_leave(es_vocabulary *v)
{
    pthread_mutex_unlock(&v->lock);
}

/* Empty the shared tables. Grammars see it by `generation` and make their own anew. */
void es_vocabulary_empty(es_vocabulary *v);

#endif
