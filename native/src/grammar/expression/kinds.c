/* What each kind of expression can begin with, its properties, and its derivatives. */
#include "grammar/expression/kinds.h"
#include "grammar/expression/make.h"

enum { WIDE_CLASS = 32, WIDE_LOOP = 2 }; /* bytes */
enum { FEW_MEMBERS = 8 };

static bool begins_widely(const eg_bytes *first) { return eg_bytes_count(first) > WIDE_LOOP; }

/* An expression has what its operands have within. */
static void take_over(eg_expression *n, const eg_expression *operand) {
    n->logical |= operand->logical;
    n->guards |= operand->guards;
}

static int32_t classes_of_first(eg_expressions *x, const eg_expression *n) {
    return eg_classes_of_set(x, &x->sets.at[n->first]);
}

static int32_t classes_of_operand(eg_expressions *x, const eg_expression *n) {
    return eg_classes_of(x, n->of);
}

/* --- texts --- */

static void describe_literal(const eg_expressions *x, eg_expression *n, eg_bytes *first) {
    if (n->length) eg_bytes_add(first, x->text.at[n->text]);
    n->nullable = !n->length;
}

static int32_t derive_literal(eg_expressions *x, const eg_expression *n, int byte) {
    (void)byte;
    return eg_make_literal(x, n->text + 1, n->length - 1);
}

static void describe_class(const eg_expressions *x, eg_expression *n, eg_bytes *first) {
    *first = x->sets.at[n->set];
    n->wide = eg_bytes_count(first) > WIDE_CLASS;
}

static int32_t derive_class(eg_expressions *x, const eg_expression *n, int byte) {
    (void)x, (void)n, (void)byte;
    return EG_EPSILON;
}

static const int32_t *steps_of_state(const eg_expressions *x, const eg_expression *n) {
    return x->automata.at[n->automaton].steps + (int64_t)n->state * 256;
}

static void describe_automaton(const eg_expressions *x, eg_expression *n, eg_bytes *first) {
    const int32_t *steps = steps_of_state(x, n);
    for (int byte = 0; byte < 256; byte++)
        if (steps[byte] >= 0) eg_bytes_add(first, byte);
    n->nullable = x->automata.at[n->automaton].accepts[n->state];
    n->wide = begins_widely(first);
}

static int32_t derive_automaton(eg_expressions *x, const eg_expression *n, int byte) {
    const int32_t next = steps_of_state(x, n)[byte];
    return next < 0 ? EG_EMPTY : eg_intern(x, EG_AUTOMATON, n->automaton, next, 0);
}

static int32_t classes_of_automaton(eg_expressions *x, const eg_expression *n) {
    return eg_classes_by_value(x, steps_of_state(x, n));
}

/* --- sequences --- */

/* The derivative of what is repeated, or comes first: a class of characters is derived once, wherever it
 * occurs. */
static int32_t derive_part(eg_expressions *x, int32_t e, int byte) {
    const eg_expression *n = &x->nodes.at[e];
    if (n->kind != EG_UNION || n->count <= FEW_MEMBERS || !eg_bytes_has(eg_first(x, e), byte))
        return eg_derive(x, e, byte);
    eg_work(x->pool->fault, 2);
    return eg_derive_once(x, e, byte);
}

static void describe_concat(const eg_expressions *x, eg_expression *n, eg_bytes *first) {
    const eg_expression *head = eg_node(x, n->head), *tail = eg_node(x, n->tail);
    *first = x->sets.at[head->first];
    if (head->nullable) eg_bytes_unite(first, &x->sets.at[tail->first]);
    n->nullable = head->nullable && tail->nullable;
    n->wide = head->wide || (head->nullable && tail->wide);
    take_over(n, head);
    take_over(n, tail);
}

static int32_t derive_concat(eg_expressions *x, const eg_expression *n, int byte) {
    const int32_t out = eg_make_concat(x, derive_part(x, n->head, byte), n->tail);
    return eg_node(x, n->head)->nullable ? eg_union(x, out, eg_derive(x, n->tail, byte)) : out;
}

static int32_t classes_of_concat(eg_expressions *x, const eg_expression *n) {
    const int32_t out = eg_classes_of(x, n->head);
    return eg_node(x, n->head)->nullable ? eg_meet_classes(x, out, eg_classes_of(x, n->tail)) : out;
}

static void describe_repeat(const eg_expressions *x, eg_expression *n, eg_bytes *first) {
    const eg_expression *of = eg_node(x, n->of);
    *first = x->sets.at[of->first];
    n->nullable = n->low == 0 || of->nullable;
    n->wide = n->high == 1 ? of->wide : begins_widely(first);
    take_over(n, of);
}

static int32_t derive_repeat(eg_expressions *x, const eg_expression *n, int byte) {
    const int32_t next = derive_part(x, n->of, byte);
    if (next == EG_EMPTY) return EG_EMPTY;
    const int32_t low = n->low > 0 ? n->low - 1 : 0, high = n->high < 0 ? -1 : n->high - 1;
    return eg_make_concat(x, next, eg_make_repeat(x, n->of, low, high));
}

/* --- unions, intersections and complements --- */

static void describe_union(const eg_expressions *x, eg_expression *n, eg_bytes *first) {
    for (int32_t i = 0; i < n->count; i++) {
        const eg_expression *member = eg_node(x, x->lists.at[n->members + i]);
        eg_bytes_unite(first, &x->sets.at[member->first]);
        n->nullable |= member->nullable;
        n->wide |= member->wide;
        n->guarded |= member->guarded;
        take_over(n, member);
    }
}

static void describe_both(const eg_expressions *x, eg_expression *n, eg_bytes *first) {
    *first = EG_ALL_BYTES;
    n->nullable = n->logical = true;
    for (int32_t i = 0; i < n->count; i++) {
        const eg_expression *member = eg_node(x, x->lists.at[n->members + i]);
        eg_bytes_intersect(first, &x->sets.at[member->first]);
        n->nullable &= member->nullable;
        take_over(n, member);
    }
    n->wide = begins_widely(first);
}

static int32_t derive_union(eg_expressions *x, const eg_expression *n, int byte) {
    const int32_t base = x->scratch.count;
    const bool many = n->count > FEW_MEMBERS;
    eg_work(x->pool->fault, many ? 4 * (int64_t)n->count : n->count);
    for (int32_t i = 0; i < n->count; i++) {
        const int32_t e = x->lists.at[n->members + i];
        if (!eg_bytes_has(eg_first(x, e), byte)) continue;
        const int32_t next = many ? eg_derive_once(x, e, byte) : eg_derive(x, e, byte);
        eg_push_member(x, EG_UNION, next);
    }
    return eg_make_union(x, base);
}

static int32_t derive_both(eg_expressions *x, const eg_expression *n, int byte) {
    const int32_t base = x->scratch.count;
    eg_work(x->pool->fault, 4 * (int64_t)n->count);
    for (int32_t i = 0; i < n->count; i++) {
        const int32_t next = eg_derive_by_class(x, x->lists.at[n->members + i], byte);
        eg_push_member(x, EG_BOTH, next);
    }
    return eg_make_both(x, base);
}

static void describe_not(const eg_expressions *x, eg_expression *n, eg_bytes *first) {
    *first = EG_ALL_BYTES;
    n->nullable = !eg_node(x, n->of)->nullable;
    n->wide = n->logical = true;
    take_over(n, eg_node(x, n->of));
}

static int32_t derive_not(eg_expressions *x, const eg_expression *n, int byte) {
    return eg_make_negation(x, eg_derive(x, n->of, byte));
}

/* --- look-ahead --- */

static void describe_guarded(const eg_expressions *x, eg_expression *n, eg_bytes *first) {
    const eg_expression *of = eg_node(x, n->of);
    *first = x->sets.at[of->first];
    n->nullable = of->nullable;
    n->wide = of->wide;
    n->logical = n->kind == EG_GUARD || of->logical;
    n->guards = n->guarded = true;
}

static int32_t derive_guard(eg_expressions *x, const eg_expression *n, int byte) {
    const int32_t forbidden = eg_derive(x, n->forbidden, byte);
    if (eg_node(x, forbidden)->nullable) return EG_EMPTY;
    return eg_make_guard(x, eg_derive(x, n->of, byte), forbidden);
}

static int32_t classes_of_guard(eg_expressions *x, const eg_expression *n) {
    const int32_t classes = eg_classes_of(x, n->of);
    return eg_meet_classes(x, classes, eg_classes_of(x, n->forbidden));
}

static int32_t derive_longest(eg_expressions *x, const eg_expression *n, int byte) {
    return eg_longest(x, eg_derive(x, n->of, byte));
}

static void describe_future(const eg_expressions *x, eg_expression *n, eg_bytes *first) {
    const eg_expression *of = eg_node(x, n->of);
    *first = of->nullable ? EG_ALL_BYTES : x->sets.at[of->first];
    n->nullable = of->nullable;
    n->wide = begins_widely(first);
    n->logical = of->logical;
}

/* The futures after `byte` that `guard` allows. */
static int32_t futures_beyond(eg_expressions *x, int32_t guard, int byte) {
    if (guard == EG_EMPTY) return EG_ANYTHING;
    const int32_t forbidden = eg_derive(x, guard, byte);
    if (eg_node(x, forbidden)->nullable) return EG_EMPTY;
    return eg_make_negation(x, eg_make_concat(x, forbidden, EG_ANYTHING));
}

/* A match that ended before `byte` counts if its look-ahead allows what follows. */
static int32_t derive_future(eg_expressions *x, const eg_expression *n, int byte) {
    int32_t endings[EG_MAX_ENDINGS];
    int32_t out = eg_make_future(x, eg_derive(x, n->of, byte));
    const int count = eg_expression_endings(x, n->of, endings);
    for (int i = 0; i < count; i++) out = eg_union(x, out, futures_beyond(x, endings[i], byte));
    return out;
}

static void describe_whole(const eg_expressions *x, eg_expression *n, eg_bytes *first) {
    *first = *eg_first(x, n->of);
    n->nullable = n->of == EG_ANYTHING;
    n->wide = begins_widely(first);
}

static int32_t derive_whole(eg_expressions *x, const eg_expression *n, int byte) {
    return eg_make_whole(x, eg_step(x, n->of, byte));
}

/* --- lexers --- */

/* What it can begin with is kept for a lexer that goes on: one that has ended begins with nothing. */
static void describe_lexer(const eg_expressions *x, eg_expression *n, eg_bytes *first) {
    for (int32_t i = n->members; i < n->members + n->count; i += 2) {
        const int32_t entry = x->lists.at[i], left = x->lists.at[i + 1];
        n->nullable |= eg_is_own(entry) && eg_node(x, left)->nullable;
        if (n->kind == EG_LEXER && entry != EG_TAKEN) eg_bytes_unite(first, eg_first(x, left));
    }
    n->wide = n->guards = n->guarded = true;
}

/* --- the table --- */

const eg_kind eg_kinds[] = {
    [EG_LITERAL] = {EG_OF_TEXT, describe_literal, derive_literal, classes_of_first},
    [EG_CLASS] = {EG_OF_SET, describe_class, derive_class, classes_of_first},
    [EG_CONCAT] = {EG_OF_TWO, describe_concat, derive_concat, classes_of_concat},
    [EG_UNION] = {EG_OF_MEMBERS, describe_union, derive_union, eg_classes_of_members},
    [EG_BOTH] = {EG_OF_MEMBERS, describe_both, derive_both, eg_classes_of_members},
    [EG_NOT] = {EG_OF_ONE, describe_not, derive_not, classes_of_operand},
    [EG_REPEAT] = {EG_OF_ONE, describe_repeat, derive_repeat, classes_of_operand},
    [EG_GUARD] = {EG_OF_TWO, describe_guarded, derive_guard, classes_of_guard},
    [EG_AUTOMATON] = {EG_OF_STATE, describe_automaton, derive_automaton, classes_of_automaton},
    [EG_LONGEST] = {EG_OF_ONE, describe_guarded, derive_longest, classes_of_operand},
    [EG_LEXER] = {EG_OF_ENTRIES, describe_lexer, eg_derive_lexer, NULL},
    [EG_LEXED] = {EG_OF_ENTRIES, describe_lexer, NULL, NULL}, /* it begins with nothing */
    [EG_FUTURE] = {EG_OF_ONE, describe_future, derive_future, NULL},
    [EG_WHOLE] = {EG_OF_ONE, describe_whole, derive_whole, classes_of_operand},
};

void eg_describe(eg_expressions *x, eg_expression *n) {
    eg_bytes first = {{0}};
    eg_kinds[n->kind].describe(x, n, &first);
    n->first = eg_intern_set(x, &first);
    n->over = !eg_bytes_fold(&first);
}
