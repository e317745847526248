/* Copying expressions from one table to another, where equal ones may exist already. */
#include "grammar/expression/kinds.h"
#include "grammar/expression/make.h"

enum { FIXED = 4 }; /* EG_EMPTY, EG_EPSILON, EG_ANYTHING and its bytes have the same numbers everywhere */

bool eg_import_open(eg_import *i, const eg_expressions *from, const eg_import *before) {
    *i = (eg_import){.from = from, .before = before, .first = before ? before->from->nodes.count : FIXED};
    i->next = i->first;
    i->numbers = malloc((size_t)from->nodes.count * sizeof *i->numbers);
    i->needed = calloc((size_t)from->nodes.count, 1);
    if (i->numbers && i->needed) return true;
    eg_import_close(i);
    return false;
}

void eg_import_close(eg_import *i) {
    free(i->numbers);
    free(i->needed);
}

void eg_import_restart(eg_import *i) {
    i->next = i->first;
    i->is_marked = false;
}

void eg_import_need(eg_import *i, int32_t e) {
    if (e >= 0) i->needed[e] = 1;
}

/* What `n` consists of is needed. */
static void need_operands(eg_import *i, const eg_expression *n) {
    const int32_t *list = i->from->lists.at + n->members;
    switch (eg_kinds[n->kind].shape) {
    case EG_OF_TWO: i->needed[n->operands[1]] = 1; /* fall through */
    case EG_OF_ONE: i->needed[n->operands[0]] = 1; break;
    case EG_OF_MEMBERS:
        for (int32_t k = 0; k < n->count; k++) i->needed[list[k]] = 1;
        break;
    case EG_OF_ENTRIES:
        for (int32_t k = 1; k < n->count; k += 2) i->needed[list[k]] = 1;
        break;
    case EG_OF_TEXT:
    case EG_OF_SET:
    case EG_OF_STATE: break;
    }
}

/* Operands come before what they are part of. */
static void mark_needed(eg_import *i) {
    for (int32_t e = i->from->nodes.count - 1; e >= i->first; e--)
        if (i->needed[e]) need_operands(i, &i->from->nodes.at[e]);
    if (i->before) eg_copy(i->numbers, i->before->numbers, (size_t)i->first * sizeof *i->numbers);
    i->is_marked = true;
}

int32_t eg_import_number(const eg_import *i, int32_t e) { return e < FIXED ? e : i->numbers[e]; }

static int32_t import_literal(const eg_import *i, eg_expressions *to, const eg_expression *n) {
    const int32_t at = to->text.count, before = to->nodes.count;
    EG_APPEND(to->pool, to->text, i->from->text.at + n->text, n->length);
    const int32_t out = eg_make_literal(to, at, n->length);
    if (to->nodes.count == before) to->text.count = at; /* already known */
    return out;
}

/* Members ascend; those of a lexer, every other one of which is an entry, are in its order. */
static int32_t import_list(const eg_import *i, eg_expressions *to, const eg_expression *n) {
    const bool lexer = eg_kinds[n->kind].shape == EG_OF_ENTRIES;
    const int32_t base = to->scratch.count;
    EG_RESERVE(to->pool, to->scratch, n->count);
    for (int32_t k = 0; k < n->count; k++) {
        const int32_t member = eg_member(i->from, n, k);
        to->scratch.at[base + k] = lexer && k % 2 == 0 ? member : eg_import_number(i, member);
    }
    to->scratch.count += n->count;
    if (!lexer) eg_sort_members(to, base);
    const int32_t out = eg_intern_list(to, n->kind, to->scratch.at + base, to->scratch.count - base);
    to->scratch.count = base;
    return out;
}

static int32_t import_automaton(const eg_import *i, eg_expressions *to, const eg_expression *n) {
    const eg_automaton *given = &i->from->automata.at[n->automaton];
    int32_t a = eg_find_automaton(to, given);
    if (a < 0) {
        eg_automaton made = *given;
        made.steps = eg_keep(to->pool, given->steps, (size_t)given->count * 256 * sizeof *given->steps);
        made.accepts = eg_keep(to->pool, given->accepts, (size_t)given->count);
        EG_PUSH(to->pool, to->automata, made);
        a = to->automata.count - 1;
    }
    return eg_intern(to, EG_AUTOMATON, a, n->state, 0);
}

static int32_t import_node(const eg_import *i, eg_expressions *to, const eg_expression *n) {
    const int32_t *o = n->operands;
    const eg_kind_number kind = n->kind;
    switch (eg_kinds[kind].shape) {
    case EG_OF_TEXT: return import_literal(i, to, n);
    case EG_OF_SET: return eg_intern(to, kind, eg_intern_set(to, &i->from->sets.at[n->set]), 0, 0);
    case EG_OF_ONE: return eg_intern(to, kind, eg_import_number(i, o[0]), o[1], o[2]);
    case EG_OF_TWO: return eg_intern(to, kind, eg_import_number(i, o[0]), eg_import_number(i, o[1]), 0);
    case EG_OF_STATE: return import_automaton(i, to, n);
    case EG_OF_MEMBERS:
    case EG_OF_ENTRIES: break;
    }
    return import_list(i, to, n);
}

/* The members of a list, the bytes of a literal, and each row of an automaton as much as 16 of them. */
static int32_t size_of(const eg_import *i, const eg_expression *n) {
    switch (eg_kinds[n->kind].shape) {
    case EG_OF_TEXT:
    case EG_OF_MEMBERS:
    case EG_OF_ENTRIES: return n->operands[1];
    case EG_OF_STATE: return 16 * i->from->automata.at[n->automaton].count;
    case EG_OF_SET:
    case EG_OF_ONE:
    case EG_OF_TWO: break;
    }
    return 0;
}

bool eg_import_some(eg_import *i, eg_expressions *to, int32_t most) {
    if (!i->is_marked) mark_needed(i);
    for (; i->next < i->from->nodes.count && most > 0; i->next++) {
        const eg_expression *n = &i->from->nodes.at[i->next];
        if (!i->needed[i->next]) continue;
        const int32_t e = i->numbers[i->next] = import_node(i, to, n);
        if (n->emptiness) to->nodes.at[e].emptiness = n->emptiness;
        most -= 1 + size_of(i, n) / 16;
    }
    return i->next == i->from->nodes.count;
}
