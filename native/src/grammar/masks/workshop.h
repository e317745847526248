/* Where grammars are compiled: tables of expressions that no other call uses.
 *
 * A workshop is a vocabulary without tries. What is compiled there needs no lock; its expressions then join those
 * of the vocabulary (grammar.c). A workshop is kept for the next grammar, so that its memory is there already,
 * and begins with the expressions that most programs begin with, so that they are not read again.
 */
#ifndef ES_GRAMMAR_WORKSHOP_H
#define ES_GRAMMAR_WORKSHOP_H

#include "grammar/masks/vocabulary.h"

/* Expressions with which the code of many programs begins. */
struct eg_beginning {
    const int32_t *code;
    int64_t length;
    eg_expressions expressions; /* what it was read into */
    int32_t *numbers;           /* of its nodes there, as of eg_expressions_read */
    int32_t count;
    eg_import import;           /* all of them, in the vocabulary's table ... */
    int64_t generation;         /* ... of this generation */
};

void eg_beginning_close(eg_beginning *b);

/* Bring the vocabulary's table up to date, with its lock held. */
void eg_beginning_import(eg_beginning *b, es_vocabulary *v);

/* An idle workshop, or a new one; NULL if there is no memory. */
es_vocabulary *eg_workshop_open(es_vocabulary *v);

/* Have it begin as `program` does; it may fault. */
void eg_workshop_begin(es_vocabulary *workshop, const es_vocabulary *v, const es_grammar_program *program);

/* Keep a workshop for the next grammar, or close it; it may be NULL. */
void eg_workshop_keep(es_vocabulary *workshop, es_vocabulary *v);
void eg_workshop_close(es_vocabulary *workshop);

#endif
