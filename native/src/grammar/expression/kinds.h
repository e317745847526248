/* What the kinds of expressions are: a new one gets its number and names of operands in expression.h, and
 * its line in the table of kinds.c. */
#pragma once

#include "grammar/expression/expression.h"

/* What the operands are. */
typedef enum eg_shape {
    EG_OF_TEXT,    /* text, length */
    EG_OF_SET,     /* set */
    EG_OF_ONE,     /* an expression, and two numbers */
    EG_OF_TWO,     /* two expressions */
    EG_OF_MEMBERS, /* expressions in `lists` */
    EG_OF_ENTRIES, /* pairs of an entry and an expression there */
    EG_OF_STATE    /* automaton, state */
} eg_shape;

typedef struct eg_kind {
    eg_shape shape;
    /* Find out what a new node can begin with, and its properties, from those of its operands. */
    void (*describe)(const eg_expressions *x, eg_expression *n, eg_bytes *first);
    /* The derivative by one of the bytes that it can begin with. */
    int32_t (*derive)(eg_expressions *x, const eg_expression *n, int byte);
    /* The number of the classes of bytes by which its derivatives are equal; NULL: it tells all of them
     * apart. */
    int32_t (*classes)(eg_expressions *x, const eg_expression *n);
} eg_kind;

extern const eg_kind eg_kinds[];
