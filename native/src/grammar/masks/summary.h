/* What a terminal does with all tokens, whatever its grammar.
 *
 * Walking a trie with an expression finds the tokens that end before the terminal does, and the exits:
 * positions inside other tokens at which it can end. Summaries are shared by all grammars of a vocabulary,
 * since equal expressions are equal in all of them.
 */
#pragma once

#include "grammar/base/tokens.h"
#include "grammar/expression/expression.h"
#include "grammar/masks/tries.h"

/* A position inside tokens at which a terminal can end, and the child to which the tokens continue. */
typedef struct eg_exit {
    int32_t child;  /* a node */
    int32_t depth;  /* bytes up to and including it, from where the summary begins */
    int32_t before; /* the child of the nearest exit before this one on the path, or -1 */
    int32_t place;  /* the parent of the child */
    int32_t rank;   /* how many exits come before it whose bytes are in `again` of the group */
} eg_exit;

/* The exits to children of one byte. */
typedef struct eg_exits {
    uint8_t byte;
    int32_t after;      /* the derivative of the terminal by the byte; EG_MIXED: not always the same */
    int32_t begin, end; /* in `exits` of the group */
    int32_t rank;       /* the greatest of their ranks */
} eg_exits;

enum { EG_MIXED = -2, EG_DEAD_EXITS = 256 };

/* The exits under one guard; and the tokens after which the terminal ends for good, which are allowed if
 * anything can follow. */
typedef struct eg_group {
    int32_t guard;          /* the guard of the next terminal */
    int32_t entry;          /* of a lexer: what was read; else -1 */
    int32_t number;         /* unique among all groups */
    int32_t final_count;
    int32_t *finals;        /* tokens */
    int32_t *final_depths;
    int32_t *final_befores; /* as eg_exit.before */
    eg_exit *exits;
    eg_exits *bytes;        /* [byte_count] ascending */
    int32_t byte_count;
    int32_t *dense_places;  /* places with so many tokens after them that each is processed by itself */
    int32_t dense_count;
    bool repeats;           /* some exits come after others, and there is no other group */
    bool ranked;            /* the ranks are known, for ... */
    eg_bytes again;
} eg_group;

static inline int32_t eg_exit_count(const eg_group *g) {
    return g->byte_count ? g->bytes[g->byte_count - 1].end : 0;
}

/* What a terminal does with the tokens below a node. */
typedef struct eg_summary {
    int32_t count;   /* how many tokens end before it does */
    int32_t *tokens; /* those tokens, or NULL if there are many */
    uint32_t *bits;  /* the same tokens as a mask */
    eg_group *groups;
    int32_t group_count;
} eg_summary;

/* What becomes an exit or, where `byte` is -1, a token in `finals`. */
typedef struct eg_border {
    int32_t guard, byte, entry;
    int32_t child, depth, before, place;
    int32_t after;
} eg_border;

/* One level of a walk through a trie. */
typedef struct eg_level {
    const int32_t *steps; /* derivatives of the expression, once some are known */
    int32_t expression;   /* the derivative here */
    int32_t node;
    int32_t end;          /* the innermost level up to here at which it can end; -1: none */
    int32_t noted;        /* the last child for which a border was recorded */
} eg_level;

typedef struct eg_summaries {
    eg_pool *pool;
    eg_expressions *expressions;
    const eg_tokens *vocabulary;
    eg_tries *tries;
    eg_map by_place; /* (expression, node) to summary */
    /* (group, byte and rank) to the trie of what comes after those exits; the byte EG_DEAD_EXITS
     * stands for all exits where the terminal cannot continue. */
    eg_map roots;
    int32_t groups;  /* how many there are */
    EG_VECTOR(eg_summary) list;
    EG_VECTOR(int32_t) tokens;
    EG_VECTOR(eg_border) borders;
    EG_VECTOR(eg_level) levels;
    eg_map ranks;    /* of the group being ranked: node of an exit to its rank */
} eg_summaries;

enum { EG_MAX_RANK = 255 };

/* Empty summaries, in `pool`. */
eg_summaries *eg_summaries_open(eg_pool *pool, eg_expressions *expressions, const eg_tokens *vocabulary,
                                eg_tries *tries);

/* The number of the summary of `e` for what is below `node`. */
int32_t eg_summary_of(eg_summaries *s, int32_t e, int32_t node);

/* Compute the ranks of all exits of `g`, counting exits of the bytes `again`. */
void eg_group_rank(eg_summaries *s, eg_group *g, const eg_bytes *again);

/* The trie of everything after the exits of one byte (its index in `bytes`) that have this rank or more. */
int32_t eg_group_root(eg_summaries *s, const eg_group *g, int32_t byte, int32_t rank);

/* The trie of everything after the dead exits of this rank or more, except those of dense places. It starts
 * at the place, so it includes the byte of the exit. */
int32_t eg_group_dead_root(eg_summaries *s, const eg_group *g, int32_t rank);
