/* Places: counting the tokens that begin in terminals, and in parts of several terminals, with budgets. */
#include "grammar/masks/place.h"

/* The budget of a thread at a level: that of its terminal, or of the part that its row is within; 0: none. */
static int32_t budget_of(const eg_places *p, const eg_thread *t, int32_t level) {
    const eg_rows *r = &p->states->rows;
    if (t->terminal >= 0 && !r->rules->terminals[t->terminal].ignored) {
        const int32_t budget = eg_budget(r->rules, t->terminal, level);
        return budget < 0 ? -budget : budget;
    }
    const int32_t *parts = eg_core_of(r, t->row)->parts;
    return parts ? parts[level] : 0;
}

static int32_t levels_of(const eg_places *p) { return p->states->rows.rules->budget_levels; }

static bool has_budgets(const eg_places *p, int32_t state) {
    const eg_state *s = &p->states->states.at[state];
    for (int32_t i = 0; i < s->count; i++)
        for (int32_t level = 0; level < levels_of(p); level++)
            if (budget_of(p, &s->threads[i], level)) return true;
    return false;
}

/* Subtract the least number from those of `after`; returns it. */
static int32_t take_least(eg_places *p) {
    int32_t least = EG_NO_BUDGET;
    for (int32_t i = 0; i < p->after.count; i++) least = p->after.at[i] < least ? p->after.at[i] : least;
    for (int32_t i = 0; i < p->after.count; i++) p->after.at[i] -= p->after.at[i] < EG_NO_BUDGET ? least : 0;
    return least;
}

/* The place in `state` with the numbers of `after`. While all threads spend alike, it shares those of
 * `from`. */
static int32_t intern_place(eg_places *p, const eg_place *from, int32_t state, bool exceeded) {
    eg_pool *pool = p->states->rows.pool;
    eg_place place = {state, p->spent.count, p->after.count, take_least(p), exceeded};
    const int32_t *spent = p->after.at;
    const size_t size = (size_t)place.count * sizeof *spent;
    const uint64_t hash = eg_hash_ints(spent, place.count, eg_pair(place.least, state));
    int32_t id;
    eg_work(pool->fault, 4 + place.count / 2);
    for (eg_probe at = eg_probe_at(&p->by_content, hash); (id = eg_probe_next(&at)) >= 0;) {
        const eg_place *known = &p->list.at[id];
        if (known->state == state && known->least == place.least && known->count == place.count &&
            known->exceeded == exceeded && eg_same(p->spent.at + known->begin, spent, size))
            return id;
    }
    if (from->count == place.count && eg_same(p->spent.at + from->begin, spent, size)) {
        place.begin = from->begin;
    } else {
        EG_APPEND(pool, p->spent, spent, place.count);
    }
    EG_PUSH(pool, p->list, place);
    eg_set_add(pool, &p->by_content, hash, p->list.count - 1);
    return p->list.count - 1;
}

/* --- counting --- */

/* Let `after` have a number for each thread of `state` at each level: none yet. */
static void begin_after(eg_places *p, int32_t state) {
    const int32_t room = has_budgets(p, state) ? p->states->states.at[state].count * levels_of(p) : 0;
    p->after.count = 0;
    EG_RESERVE(p->states->rows.pool, p->after, room);
    for (int32_t i = 0; i < room; i++) p->after.at[i] = EG_NO_BUDGET;
    p->after.count = room;
}

/* A thread of `state` can have come about by spending this many tokens; the least number counts, since with it
 * the text can go on in the most ways. */
static void note_spent(eg_places *p, int32_t state, const eg_thread *t, int32_t level, int32_t spent) {
    const int32_t i = eg_state_find(p->states, state, t);
    if (i < 0) return;
    int32_t *at = &p->after.at[i * levels_of(p) + level];
    if (spent < *at) *at = spent;
}

/* What thread `i` before has spent at a level. */
static int32_t spent_before(const eg_places *p, int32_t i, int32_t level) {
    return p->before.count ? p->before.at[i * levels_of(p) + level] : EG_NO_BUDGET;
}

/* Note what the threads on `work` from `base` on have spent, which thread `i` became by reading in `terminal`;
 * pop them. With `begun`, it has begun that terminal; with `first`, a token has begun in it. */
static void note_pushed(eg_places *p, int32_t state, int32_t base, int32_t i, int32_t terminal, bool begun,
                        bool first) {
    eg_states *s = p->states;
    const eg_rules *g = s->rows.rules;
    eg_work(s->rows.pool->fault, 2 * (int64_t)(s->work.count - base));
    for (int32_t level = 0; level < g->budget_levels; level++) {
        const bool begins = begun && eg_budget(g, terminal, level) > 0;
        const int32_t before = begins ? EG_NO_BUDGET : spent_before(p, i, level);
        const int32_t spent = before == EG_NO_BUDGET ? first : before + first;
        for (int32_t k = base; k < s->work.count; k++) {
            const eg_thread t = s->work.at[k];
            if (budget_of(p, &t, level)) note_spent(p, state, &t, level, spent);
        }
    }
    s->work.count = base;
}

/* Whether reading in a terminal may spend a budget. */
static bool is_counted(const eg_rules *g, int32_t terminal) {
    return g->has_parts || eg_budget(g, terminal, 0);
}

/* Note what the threads of `next` have spent that follow from thread `i`, `t`, by a byte. */
static void note_step(eg_places *p, int32_t next, int32_t i, const eg_thread *t, int byte, bool first) {
    eg_states *s = p->states;
    eg_rows *r = &s->rows;
    const int32_t base = s->work.count;
    if (t->terminal != EG_ANY) {
        if (!is_counted(r->rules, t->terminal)) return;
        eg_thread_step(s, *t, byte);
        note_pushed(p, next, base, i, t->terminal, false, first);
        return;
    }
    const int32_t guard = eg_guard_step(r->expressions, t->guard, byte);
    const int32_t count = guard < 0 ? 0 : eg_core_of(r, t->row)->expected_count;
    eg_work(r->pool->fault, count);
    for (int32_t k = 0; k < count; k++) {
        const int32_t terminal = eg_core_of(r, t->row)->expected[k];
        if (!is_counted(r->rules, terminal)) continue;
        eg_thread_read(s, t->row, terminal, guard, byte);
        note_pushed(p, next, base, i, terminal, true, first);
    }
}

/* Compute in `after` what the threads of `next`, the state after `byte`, have spent; `before` holds it for
 * `state`. With `first`, a token begins with the byte. */
static void count_byte(eg_places *p, int32_t state, int32_t next, int byte, bool first) {
    eg_states *s = p->states;
    begin_after(p, next);
    if (!p->after.count) return;
    const int32_t count = s->states.at[state].count;
    eg_work(s->rows.pool->fault, 4 * (int64_t)count + p->after.count);
    for (int32_t i = 0; i < count; i++) {
        const eg_thread t = s->states.at[state].threads[i];
        note_step(p, next, i, &t, byte, first);
    }
}

/* Copy the numbers of `after` to `before`. */
static void copy_after_to_before(eg_places *p) {
    p->before.count = 0;
    EG_RESERVE(p->states->rows.pool, p->before, p->after.count);
    eg_copy(p->before.at, p->after.at, (size_t)p->after.count * sizeof *p->after.at);
    p->before.count = p->after.count;
}

/* Turn the numbers of `after`, of `state`, into those of `other`, with none for other threads. */
static void restrict_spent(eg_places *p, int32_t state, int32_t other) {
    const int32_t levels = levels_of(p);
    copy_after_to_before(p);
    begin_after(p, other);
    for (int32_t i = 0; i < p->after.count / levels; i++) {
        const int32_t known = eg_state_find(p->states, state, &p->states->states.at[other].threads[i]);
        for (int32_t level = 0; level < levels && known >= 0; level++)
            p->after.at[i * levels + level] = spent_before(p, known, level);
    }
}

/* The number of `place` at `i`. */
static int32_t spent_at(const eg_places *p, const eg_place *place, int32_t i) {
    const int32_t more = p->spent.at[place->begin + i];
    return more < EG_NO_BUDGET ? place->least + more : EG_NO_BUDGET;
}

/* Copy the numbers of `place` to `after`. */
static void load_spent(eg_places *p, const eg_place *place) {
    p->after.count = 0;
    EG_RESERVE(p->states->rows.pool, p->after, place->count);
    for (int32_t i = 0; i < place->count; i++) p->after.at[i] = spent_at(p, place, i);
    p->after.count = place->count;
}

/* The place after a byte from `place` on, before anything is dropped; -1 if it cannot follow. Places within
 * tokens are kept, so that a call that has used up its work gets further the next time. */
static int32_t place_after_byte(eg_places *p, int32_t place, int byte, bool first) {
    const uint64_t key = eg_pair(place, byte | first << 8);
    int32_t next = eg_map_get(&p->by_byte, key, -1);
    if (next >= 0) return next;
    const eg_place from = p->list.at[place];
    const int32_t state = eg_state_step(p->states, from.state, byte);
    if (state < 0) return -1;
    load_spent(p, &from);
    copy_after_to_before(p);
    count_byte(p, from.state, state, byte, first);
    next = intern_place(p, &from, state, false);
    eg_map_put(p->states->rows.pool, &p->by_byte, key, next);
    return next;
}

/* Compute in `after` what the threads of `next` have spent, the state after bytes from `place` on. */
static void count_bytes(eg_places *p, int32_t place, const uint8_t *bytes, int64_t length, bool token,
                        int32_t next) {
    begin_after(p, next);
    if (!p->after.count) return;
    for (int64_t i = 0; i < length && place >= 0; i++)
        place = place_after_byte(p, place, bytes[i], token && !i);
    if (place < 0) {
        begin_after(p, next); /* the token can only be read as a whole */
        return;
    }
    const eg_place *last = &p->list.at[place];
    load_spent(p, last);
    if (last->state != next) restrict_spent(p, last->state, next); /* the token can also be read as a whole */
}

/* Note what the threads of `next` have spent that follow from `place` by a token, read as a whole. */
static void count_whole(eg_places *p, const eg_place *place, int32_t token, int32_t next) {
    eg_states *s = p->states;
    eg_rows *r = &s->rows;
    if (!p->after.count) return;
    p->before.count = 0;
    EG_RESERVE(r->pool, p->before, place->count);
    for (int32_t i = 0; i < place->count; i++) p->before.at[i] = spent_at(p, place, i);
    p->before.count = place->count;
    for (int32_t i = 0; i < s->states.at[place->state].count; i++) {
        const eg_thread t = s->states.at[place->state].threads[i];
        if (!eg_thread_stops(s, &t) || !eg_core_of(r, t.row)->special) continue;
        for (int32_t k = 0; k < eg_core_of(r, t.row)->expected_count; k++) {
            const int32_t base = s->work.count, terminal = eg_core_of(r, t.row)->expected[k];
            eg_thread_special(s, t.row, terminal, token);
            note_pushed(p, next, base, i, terminal, true, true);
        }
    }
}

/* --- dropping --- */

/* Whether a text can go on from `state`, or end there. */
static bool can_go_on(eg_places *p, int32_t state) {
    return state >= 0 && (p->states->states.at[state].accepting ||
                          !eg_mask_is_empty(p->masks, eg_mask_of(p->masks, state)));
}

/* The levels at which a thread has spent its budget, a bit each. Its numbers do not grow beyond it, so that
 * places recur. */
static int32_t levels_spent(eg_places *p, int32_t i, const eg_thread *t) {
    int32_t found = 0;
    for (int32_t level = 0; level < levels_of(p); level++) {
        int32_t *at = &p->after.at[i * levels_of(p) + level];
        const int32_t budget = budget_of(p, t, level);
        if (!budget || *at == EG_NO_BUDGET || *at < budget) continue;
        *at = budget;
        found |= 1 << level;
    }
    return found;
}

/* Push on `work` what is left of a thread that has spent its budgets at some levels: it can end its parts. */
static void push_rest(eg_states *s, eg_thread t, int32_t levels) {
    eg_rows *r = &s->rows;
    if (t.terminal >= 0 && !r->rules->terminals[t.terminal].ignored) return;
    t.row = eg_row_without(r, t.row, levels);
    if (t.terminal == EG_ANY) eg_thread_begin(s, t.row, t.guard);
    else if (eg_core_can_continue(eg_core_of(r, t.row)) || r->rows.at[t.row].accepting)
        EG_PUSH(r->pool, s->work, t);
}

/* Compute in `after` what the threads of `rest` have spent, which are those that `left` has. */
static void count_left(eg_places *p, int32_t rest) {
    copy_after_to_before(p);
    begin_after(p, rest);
    for (int32_t k = 0; k < p->left.count && p->after.count; k++) {
        const eg_left left = p->left.at[k];
        for (int32_t level = 0; level < levels_of(p); level++)
            if (budget_of(p, &left.thread, level))
                note_spent(p, rest, &left.thread, level, spent_before(p, left.from, level));
    }
}

/* The place in `state` with the numbers of `after`, without the threads that have spent their budgets if the
 * text can go on without them. */
static int32_t place_without_spent(eg_places *p, const eg_place *from, int32_t state) {
    eg_states *s = p->states;
    const int32_t base = s->work.count, levels = levels_of(p);
    bool spent = false;
    p->left.count = 0;
    for (int32_t i = 0; i < p->after.count / levels; i++) {
        const eg_thread t = s->states.at[state].threads[i];
        const int32_t begin = s->work.count, over = levels_spent(p, i, &t);
        if (over) push_rest(s, t, over);
        else EG_PUSH(s->rows.pool, s->work, t);
        spent |= over != 0;
        for (int32_t k = begin; k < s->work.count; k++) {
            const eg_left left = {s->work.at[k], i};
            EG_PUSH(s->rows.pool, p->left, left);
        }
    }
    if (!spent) {
        s->work.count = base;
        return intern_place(p, from, state, false);
    }
    const int32_t rest = eg_state_intern(s, base);
    if (!can_go_on(p, rest)) return intern_place(p, from, state, true);
    count_left(p, rest);
    return intern_place(p, from, rest, false);
}

int32_t eg_place_token(eg_places *p, int32_t place, int32_t token) {
    if (!p->list.count) return eg_state_token(p->states, place, token);
    const eg_tokens *t = p->states->tokens;
    const uint64_t key = eg_pair(place, token);
    const int32_t known = eg_map_get(&p->by_token, key, -2);
    if (known != -2) return known;
    const eg_place from = p->list.at[place];
    int32_t next = eg_state_token(p->states, from.state, token);
    if (next < 0) return EG_DEAD;
    if (t->kinds[token]) begin_after(p, next);
    else count_bytes(p, place, t->bytes + t->offsets[token], eg_token_length(t, token), true, next);
    count_whole(p, &from, token, next);
    next = place_without_spent(p, &from, next);
    eg_map_put(p->states->rows.pool, &p->by_token, key, next);
    return next;
}

int32_t eg_place_bytes(eg_places *p, int32_t place, const uint8_t *bytes, int64_t length) {
    const eg_place from = p->list.count ? p->list.at[place] : (eg_place){.state = place};
    int32_t next = from.state;
    for (int64_t i = 0; i < length && next >= 0; i++) next = eg_state_step(p->states, next, bytes[i]);
    if (next < 0 || !p->list.count) return next;
    count_bytes(p, place, bytes, length, false, next);
    return place_without_spent(p, &from, next);
}

/* --- opening --- */

void eg_places_open(eg_places *p, eg_states *states, eg_masks *masks) {
    *p = (eg_places){.states = states, .masks = masks};
    if (!states->rows.rules->budgets) return;
    const eg_place none = {0};
    intern_place(p, &none, EG_START, false);
    intern_place(p, &none, EG_ENDED, false);
}
