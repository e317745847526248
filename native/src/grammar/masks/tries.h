/* Texts of tokens as tries. */
#pragma once

#include "grammar/base/characters.h"
#include "grammar/base/memory.h"

/* The text of a token. */
typedef struct eg_token_text {
    const uint8_t *at;
    int32_t length;
    int32_t token;
} eg_token_text;

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
    eg_pool *pool;
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
    int32_t root_children[256];     /* of node 0, by byte; 0 if there is none */
    int32_t own_nodes;              /* of the vocabulary's trie: others come after it */
    int32_t own_tokens;
    int32_t whole_nodes;            /* of all tries but one that is being added */
    int32_t whole_tokens;
} eg_tries;

/* Begin with the trie of the vocabulary, whose texts are sorted. */
void eg_tries_open(eg_tries *t, eg_pool *pool, const eg_token_text *texts, int32_t count);

/* A new trie of `sources`, which are nodes of other tries, and everything below them; pops them. They become
 * the root (at depth 0) or children of it (at depth 1, by descending byte). Returns the root. */
int32_t eg_tries_merge(eg_tries *t);

/* Count the trie that was added last as complete. */
void eg_tries_keep(eg_tries *t);

/* Drop the trie that a fault has left incomplete. */
void eg_tries_tidy(eg_tries *t);

/* Drop all but the trie of the vocabulary. */
void eg_tries_empty(eg_tries *t);

/* The tokens at `node` and below it. */
static inline const int32_t *eg_tokens_below(const eg_tries *t, int32_t node, int32_t *count) {
    *count = t->first_token.at[t->end.at[node]] - t->first_token.at[node];
    return t->tokens.at + t->first_token.at[node];
}

/* The tokens that end at `node`. */
static inline const int32_t *eg_tokens_at(const eg_tries *t, int32_t node, int32_t *count) {
    *count = t->own.at[node];
    return t->tokens.at + t->first_token.at[node];
}
