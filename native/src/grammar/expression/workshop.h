/* Where grammars are compiled: tables of expressions that no other call uses.
 *
 * What is compiled in a workshop needs no lock; its expressions then join those of the vocabulary. A
 * workshop is kept for the next grammar, so that its memory is there already, and begins with the
 * expressions that most programs begin with, so that they are not read again.
 */
#pragma once

#include "grammar/expression/expression.h"

/* Expressions with which the code of many programs begins. */
typedef struct eg_beginning {
    eg_pool pool;
    const int32_t *code;
    int64_t length;
    eg_expressions expressions; /* what it was read into */
    int32_t *numbers;           /* of its nodes there, as of eg_expressions_read */
    int32_t count;
    eg_import import;           /* all of them, in the vocabulary's table ... */
    int64_t generation;         /* ... of this generation */
} eg_beginning;

/* Read the code, which is copied; it may fault. False if there is no memory. */
bool eg_beginning_open(eg_beginning *b, eg_fault *fault, const int32_t *code, int64_t length,
                       int32_t longest_token);
void eg_beginning_close(eg_beginning *b);

/* Have all of it in the table `to` of some generation. */
void eg_beginning_import(eg_beginning *b, eg_expressions *to, int64_t generation);

typedef struct eg_workshop {
    eg_fault fault;
    eg_pool pool;
    eg_expressions expressions;
    const eg_beginning *begun; /* with which they begin; or NULL */
} eg_workshop;

/* A workshop with limited memory; NULL if there is none. */
eg_workshop *eg_workshop_new(size_t limit, const char *name);

/* Have it begin as a program's `code` does, with `b`, which may be NULL, if that is so; it may fault. */
void eg_workshop_begin(eg_workshop *w, const eg_beginning *b, const int32_t *code, int64_t length,
                       int32_t longest_token);

/* Give back the memory of expressions; whether little enough is left to keep it. */
bool eg_workshop_clear(eg_workshop *w);

/* It may be NULL. */
void eg_workshop_close(eg_workshop *w);
