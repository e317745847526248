/* Copying expressions from one table to another, where equal ones may exist already. */
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

/* Operands come before what they are part of. */
static void begin(eg_import *i) {
    const eg_expressions *x = i->from;
    for (int32_t e = x->nodes.count - 1; e >= i->first; e--) {
        const eg_expression *n = &x->nodes.at[e];
        if (!i->needed[e]) continue;
        switch (n->kind) {
        case CONCAT:
        case GUARD: i->needed[n->b] = 1; /* fall through */
        case NOT:
        case REPEAT:
        case LONGEST:
        case FUTURE:
        case WHOLE: i->needed[n->a] = 1; break;
        case UNION:
        case BOTH:
            for (int32_t k = 0; k < n->b; k++) i->needed[x->lists.at[n->a + k]] = 1;
            break;
        case LEXER:
        case LEXED:
            for (int32_t k = 1; k < n->b; k += 2) i->needed[x->lists.at[n->a + k]] = 1;
            break;
        default: break;
        }
    }
    if (i->before) eg_copy(i->numbers, i->before->numbers, (size_t)i->first * sizeof *i->numbers);
    i->is_marked = true;
}

int32_t eg_import_number(const eg_import *i, int32_t e) { return e < FIXED ? e : i->numbers[e]; }

static int32_t import_literal(const eg_import *i, eg_expressions *to, const eg_expression *n) {
    EG_RESERVE(to->pool, to->text, n->b);
    const int32_t at = to->text.count, before = to->nodes.count;
    eg_copy(to->text.at + at, i->from->text.at + n->a, (size_t)n->b);
    to->text.count += n->b;
    const int32_t out = eg_make_literal(to, at, n->b);
    if (to->nodes.count == before) to->text.count = at; /* already known */
    return out;
}

/* Members ascend; those of a lexer, every other one of which is an entry, are in its order. */
static int32_t import_list(const eg_import *i, eg_expressions *to, const eg_expression *n) {
    const bool lexer = n->kind == LEXER || n->kind == LEXED;
    const int32_t base = to->scratch.count;
    EG_RESERVE(to->pool, to->scratch, n->b);
    for (int32_t k = 0; k < n->b; k++) {
        const int32_t member = i->from->lists.at[n->a + k];
        to->scratch.at[base + k] = lexer && k % 2 == 0 ? member : eg_import_number(i, member);
    }
    to->scratch.count += n->b;
    if (!lexer) eg_make_sort_members(to, base);
    const int32_t out = eg_make_intern_list(to, n->kind, to->scratch.at + base, to->scratch.count - base);
    to->scratch.count = base;
    return out;
}

static int32_t import_automaton(const eg_import *i, eg_expressions *to, const eg_expression *n) {
    const eg_automaton *given = &i->from->automata.at[n->a];
    const size_t steps = (size_t)given->count * 256 * sizeof *given->steps;
    int32_t a = eg_make_find_automaton(to, given);
    if (a < 0) {
        eg_automaton made = *given;
        made.steps = eg_take(to->pool, steps);
        made.accepts = eg_take(to->pool, (size_t)given->count);
        eg_copy(made.steps, given->steps, steps);
        eg_copy(made.accepts, given->accepts, (size_t)given->count);
        EG_PUSH(to->pool, to->automata, made);
        a = to->automata.count - 1;
    }
    return eg_make_intern(to, AUTOMATON, a, n->b, 0);
}

static int32_t import_node(const eg_import *i, eg_expressions *to, const eg_expression *n) {
    switch (n->kind) {
    case LITERAL: return import_literal(i, to, n);
    case CLASS: return eg_make_intern(to, CLASS, eg_make_intern_set(to, &i->from->sets.at[n->a]), 0, 0);
    case CONCAT:
    case GUARD: return eg_make_intern(to, n->kind, eg_import_number(i, n->a), eg_import_number(i, n->b), 0);
    case NOT:
    case REPEAT:
    case LONGEST:
    case FUTURE:
    case WHOLE: return eg_make_intern(to, n->kind, eg_import_number(i, n->a), n->b, n->c);
    case AUTOMATON: return import_automaton(i, to, n);
    default: return import_list(i, to, n);
    }
}

/* The members of a list, the bytes of a literal, and each row of an automaton as much as 16 of them. */
static int32_t size_of(const eg_import *i, const eg_expression *n) {
    switch (n->kind) {
    case LITERAL:
    case UNION:
    case BOTH:
    case LEXER:
    case LEXED: return n->b;
    case AUTOMATON: return 16 * i->from->automata.at[n->a].count;
    default: return 0;
    }
}

bool eg_import_some(eg_import *i, eg_expressions *to, int32_t most) {
    if (!i->is_marked) begin(i);
    for (; i->next < i->from->nodes.count && most > 0; i->next++) {
        const eg_expression *n = &i->from->nodes.at[i->next];
        if (!i->needed[i->next]) continue;
        const int32_t e = i->numbers[i->next] = import_node(i, to, n);
        if (n->emptiness) to->nodes.at[e].emptiness = n->emptiness;
        most -= 1 + size_of(i, n) / 16;
    }
    return i->next == i->from->nodes.count;
}
