/* Grammars: their tables, how those are built, and how much memory they use. */
#pragma once

#include "grammar/masks/place.h"

struct es_grammar {
    es_vocabulary *vocabulary;
    int64_t references;
    es_grammar_limits limits;
    eg_pool fixed;             /* the rules as given */
    eg_pool tables;            /* rows, states, masks; emptied as a whole */
    eg_rules given;
    eg_rules rules;            /* linked and pruned, in `tables` */
    eg_states states;
    eg_follower follower;
    eg_masks masks;
    eg_places places;
    int64_t generation;        /* of the shared tables that `tables` were built with; -1: there are none */
    int64_t built;             /* how often `tables` were built; 0: never */
    int64_t weight;            /* bytes of `fixed` and `tables` after the last call */
    int64_t shared;            /* bytes by which its calls have extended the shared tables ... */
    int64_t shared_generation; /* ... of this generation */
    es_grammar *next, *before; /* of the same vocabulary */
};

/* Build the tables if necessary; with `anew` in any case, and the shared tables as well if those ran out of
 * memory. */
void eg_grammar_build(es_grammar *g, bool anew);

/* Weigh the tables after a call. If all grammars together are too heavy, the heaviest others lose theirs,
 * which are built again when they are needed. */
void eg_grammar_weigh(es_grammar *g);

/* Give up a reference. */
void eg_grammar_drop(es_grammar *g);
