/* summary.h: what a terminal does with all tokens, whatever the grammar it is in.
 *
 * A walk through a trie with an expression finds the tokens that end before the terminal does, and the
 * exits: places inside other tokens at which it can be over. Summaries are shared by all grammars of a
 * vocabulary, since equal expressions are equal in all of them.
 */
#ifndef ES_GRAMMAR_SUMMARY_H
#define ES_GRAMMAR_SUMMARY_H

#include "grammar/vocabulary.h"

/* A place at which a terminal can be over inside tokens that it does not cover, and go on to a child. */
typedef struct eg_exit {
    int32_t child;  /* a node */
    int32_t depth;  /* bytes up to and with it, from where the summary begins */
    int32_t before; /* the child of the exit that lies nearest before this one on the way, or -1 */
    int32_t place;  /* the node that it is a child of */
    int32_t rank;   /* how many exits lie before it whose bytes are in `again` of the group */
} eg_exit;

/* The exits to children of one byte. */
typedef struct eg_exits {
    uint8_t byte;
    int32_t after;      /* what is left of the terminal behind the byte; EG_MIXED: not always the same */
    int32_t begin, end; /* in `exits` of the group */
    int32_t rank;       /* the greatest of theirs */
} eg_exits;

enum { EG_MIXED = -2, EG_DEAD_EXITS = 256 };

/* The exits under one guard; and the tokens behind which the terminal is over for good, which are
 * allowed if anything can follow. */
typedef struct eg_group {
    int32_t guard;          /* that the next terminal is under */
    int32_t entry;          /* of a lexer: what was read; else -1 */
    int32_t number;         /* of the group, among all */
    int32_t final_count;
    int32_t *finals;        /* tokens */
    int32_t *final_depths;
    int32_t *final_befores; /* as eg_exit.before */
    eg_exit *exits;
    eg_exits *bytes;        /* [byte_count] ascending */
    int32_t byte_count;
    int32_t *dense_places;  /* places after which so many tokens begin that each is checked by itself */
    int32_t dense_count;
    bool repeats;           /* some exits lie behind others, and there is no other group */
    bool ranked;            /* the ranks are known, for ... */
    eg_bytes again;
} eg_group;

/* What a terminal does with the tokens below a node. */
typedef struct eg_summary {
    int32_t count;   /* tokens that end before it does */
    int32_t *tokens; /* those tokens, or NULL where they are many */
    uint32_t *bits;  /* the same as a mask */
    eg_group *groups;
    int32_t group_count;
} eg_summary;

typedef struct eg_border { /* what becomes an exit, or, where `byte` is -1, a token in `finals` */
    int32_t guard, byte, entry;
    int32_t child, depth, before, place;
    int32_t after;
} eg_border;

typedef struct eg_level {   /* of a walk through a trie */
    const int32_t *steps; /* of the expression, once some are known */
    int32_t expression;   /* what is left here */
    int32_t node;
    int32_t end;          /* the innermost level up to here at which it can be over; -1: none */
    int32_t noted;        /* the last child before which a border was noted */
} eg_level;

typedef struct eg_summaries {
    eg_map by_place; /* (expression, node) to summary */
    eg_map roots;    /* (group, byte and rank) to the trie of what lies behind those exits; the byte */
                          /* EG_DEAD_EXITS stands for all at which the terminal cannot go on */
    int32_t groups;  /* how many there are */
    EG_VECTOR(eg_summary) list;
    EG_VECTOR(int32_t) tokens;
    EG_VECTOR(eg_border) borders;
    EG_VECTOR(eg_level) levels;
    eg_map ranks;    /* of the group that is being ranked: node of an exit to its rank */
    eg_pool *pool;
} eg_summaries;

enum { EG_MAX_RANK = 255 };

void eg_summaries_open(es_vocabulary *v);
void eg_summaries_close(es_vocabulary *v);

/* The number of the summary of `e` for what lies below `node`. */
int32_t eg_summary_of(es_vocabulary *v, int32_t e, int32_t node);

/* Find the ranks of all exits of `g`, where exits of the bytes `again` count. */
void eg_group_rank(es_vocabulary *v, eg_group *g, const eg_bytes *again);

/* The trie of all that lies behind the exits of one byte (its place in `bytes`) that have this rank or
 * more. */
int32_t eg_group_root(es_vocabulary *v, const eg_group *g, int32_t byte, int32_t rank);

/* The trie of all that lies behind the dead exits of this rank or more, but those of crowds: from the
 * place on, so with the byte of the exit. */
int32_t eg_group_dead_root(es_vocabulary *v, const eg_group *g, int32_t rank);

#endif
