/* Reading a grammar's expressions from its program. */
#include "grammar/expression/make.h"

enum {
    LONG_LITERAL = 256, /* bytes; a longer one becomes parts, so that a step does not depend on it */
    MAX_AUTOMATON_STATES = 1 << 16
};

typedef struct reader {
    eg_expressions *x;
    const int32_t *code;
    int64_t at, length;
    const int32_t *numbers;
    int32_t count;
} reader;

static int32_t take_int(reader *r, int64_t low, int64_t high) {
    const int32_t value = r->at < r->length ? r->code[r->at++] : INT32_MIN;
    if (value < low || value > high)
        eg_fail(r->x->pool->fault, ES_GRAMMAR_INVALID, "malformed code of expressions at %lld",
                (long long)r->at);
    return value;
}

static int32_t take_node(reader *r) { return r->numbers[take_int(r, 0, (int64_t)r->count - 1)]; }

static int32_t read_literal(reader *r) {
    eg_expressions *x = r->x;
    const int32_t length = take_int(r, 0, r->length - r->at);
    eg_work(x->pool->fault, length / 2);
    EG_RESERVE(x->pool, x->text, length);
    const int32_t at = x->text.count;
    for (int32_t i = 0; i < length; i++) x->text.at[x->text.count++] = (uint8_t)take_int(r, 0, 255);
    const int32_t before = x->nodes.count;
    int32_t out = EG_EPSILON;
    for (int32_t end = length, begin; end > 0; end = begin) { /* parts, the last one first */
        begin = (end - 1) / LONG_LITERAL * LONG_LITERAL;
        out = eg_make_concat(x, eg_make_literal(x, at + begin, end - begin), out);
    }
    if (x->nodes.count == before) x->text.count = at; /* already known */
    return out;
}

/* Drop the transitions to states from which nothing is ever accepted. Returns whether the first state is not
 * such a state. */
static bool drop_dead_states(eg_expressions *x, eg_automaton *a) {
    uint8_t *alive = eg_keep(x->pool, a->accepts, (size_t)a->count);
    for (bool changed = true; changed;) {
        changed = false;
        for (int32_t s = a->count - 1; s >= 0; s--)
            for (int byte = 0; byte < 256 && !alive[s]; byte++) {
                const int32_t to = a->steps[(int64_t)s * 256 + byte];
                changed |= alive[s] = to >= 0 && alive[to];
            }
        eg_work(x->pool->fault, (int64_t)a->count * 16);
    }
    for (int64_t i = 0; i < (int64_t)a->count * 256; i++)
        if (a->steps[i] >= 0 && !alive[a->steps[i]]) a->steps[i] = -1;
    return alive[0];
}

int32_t eg_find_automaton(const eg_expressions *x, const eg_automaton *a) {
    for (int32_t i = 0; i < x->automata.count; i++) {
        const eg_automaton *known = &x->automata.at[i];
        if (known->hash == a->hash && known->count == a->count &&
            !memcmp(known->steps, a->steps, (size_t)a->count * 256 * sizeof *a->steps) &&
            !memcmp(known->accepts, a->accepts, (size_t)a->count))
            return i;
    }
    return -1;
}

static int32_t read_automaton(reader *r) {
    eg_expressions *x = r->x;
    const int64_t begin = r->at;
    const int32_t count = take_int(r, 1, MAX_AUTOMATON_STATES);
    eg_automaton made = {.count = count};
    made.steps = eg_take(x->pool, (size_t)count * 256 * sizeof *made.steps);
    made.accepts = eg_take(x->pool, (size_t)count);
    memset(made.steps, 0xff, (size_t)count * 256 * sizeof *made.steps);
    for (int32_t s = 0; s < count; s++) {
        made.accepts[s] = (uint8_t)take_int(r, 0, 1);
        for (int32_t ranges = take_int(r, 0, 256); ranges > 0; ranges--) {
            const int32_t low = take_int(r, 0, 255), high = take_int(r, low, 255),
                          to = take_int(r, 0, count - 1);
            for (int32_t byte = low; byte <= high; byte++) made.steps[(int64_t)s * 256 + byte] = to;
        }
    }
    if (!drop_dead_states(x, &made)) return EG_EMPTY;
    made.hash = eg_hash_ints(r->code + begin, r->at - begin, 5);
    const int32_t known = eg_find_automaton(x, &made);
    if (known >= 0) return eg_intern(x, EG_AUTOMATON, known, 0, 0);
    EG_PUSH(x->pool, x->automata, made);
    return eg_intern(x, EG_AUTOMATON, x->automata.count - 1, 0, 0);
}

static int32_t read_class(reader *r) {
    eg_bytes set = {{0}};
    for (int i = 0; i < 8; i++)
        set.words[i >> 1] |= (uint64_t)(uint32_t)take_int(r, INT32_MIN, INT32_MAX) << (32 * (i & 1));
    return eg_bytes_fold(&set) ? eg_intern(r->x, EG_CLASS, eg_intern_set(r->x, &set), 0, 0) : EG_EMPTY;
}

static int32_t read_concat(reader *r) {
    eg_expressions *x = r->x;
    const int32_t base = x->scratch.count;
    for (int32_t count = take_int(r, 0, r->length - r->at); count > 0; count--) {
        const int32_t part = take_node(r);
        EG_PUSH(x->pool, x->scratch, part);
    }
    int32_t out = EG_EPSILON;
    while (x->scratch.count > base) out = eg_make_concat(x, x->scratch.at[--x->scratch.count], out);
    return out;
}

/* Push the members of a union or intersection; returns where they begin on the stack. */
static int32_t push_members(reader *r, eg_kind_number kind) {
    const int32_t base = r->x->scratch.count;
    for (int32_t count = take_int(r, 0, r->length - r->at); count > 0; count--)
        eg_push_member(r->x, kind, take_node(r));
    return base;
}

static int32_t read_union(reader *r) { return eg_make_union(r->x, push_members(r, EG_UNION)); }

static int32_t read_both(reader *r) { return eg_make_both(r->x, push_members(r, EG_BOTH)); }

static int32_t read_not(reader *r) { return eg_make_negation(r->x, take_node(r)); }

static int32_t read_repeat(reader *r) {
    const int32_t of = take_node(r), low = take_int(r, 0, INT32_MAX), high = take_int(r, -1, INT32_MAX);
    return high >= 0 && low > high ? EG_EMPTY : eg_make_repeat(r->x, of, low, high);
}

static int32_t read_guard(reader *r) {
    const int32_t of = take_node(r);
    return eg_make_guard(r->x, of, take_node(r));
}

/* The kinds that programs contain. */
static int32_t (*const readers[])(reader *) = {
    [EG_LITERAL] = read_literal, [EG_CLASS] = read_class, [EG_CONCAT] = read_concat,
    [EG_UNION] = read_union,     [EG_BOTH] = read_both,   [EG_NOT] = read_not,
    [EG_REPEAT] = read_repeat,   [EG_GUARD] = read_guard, [EG_AUTOMATON] = read_automaton,
};

int32_t eg_expressions_read(eg_expressions *x, const int32_t *code, int64_t length, eg_reading_place from,
                            int32_t *numbers, int64_t room) {
    reader r = {x, code, from.at, length, numbers, from.count};
    while (r.at < length) {
        if (r.count == room)
            eg_fail(x->pool->fault, ES_GRAMMAR_INVALID, "there are more expressions than code");
        numbers[r.count] = readers[take_int(&r, EG_LITERAL, EG_AUTOMATON)](&r);
        r.count++;
    }
    return r.count;
}
