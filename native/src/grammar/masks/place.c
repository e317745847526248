/* Places: counting the tokens that begin in terminals with budgets. */
#include "grammar/masks/place.h"

static int32_t budget_of(const eg_places *p, const eg_thread *t) {
    return t->terminal < 0 ? 0 : p->states->rows.rules->budgets[t->terminal];
}

static bool has_budgets(const eg_places *p, int32_t state) {
    const eg_state *s = &p->states->states.at[state];
    for (int32_t i = 0; i < s->count; i++)
        if (budget_of(p, &s->threads[i])) return true;
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

/* A thread of `state` can have come about by spending so many tokens; the least number counts, since with it
 * the text can go on in the most ways. */
static void note_spent(eg_places *p, int32_t state, const eg_thread *t, int32_t spent) {
    const int32_t i = eg_state_find(p->states, state, t);
    if (i >= 0 && spent < p->after.at[i]) p->after.at[i] = spent;
}

/* Note what the terminals with budgets that begin at `t` with `byte` have spent. */
static void note_begun(eg_places *p, const eg_thread *t, int32_t next, int byte, int32_t spent) {
    const eg_rows *r = &p->states->rows;
    const eg_core *core = eg_core_of(r, t->row);
    eg_work(r->pool->fault, core->expected_count);
    for (int32_t i = 0; i < core->expected_count; i++) {
        const int32_t terminal = core->expected[i];
        eg_thread begun = {t->row, terminal, r->rules->terminals[terminal].expression, t->guard};
        if (r->rules->budgets[terminal] && eg_thread_stay(p->states, &begun, byte))
            note_spent(p, next, &begun, spent);
    }
}

/* Compute in `after` what the threads of `next`, the state after `byte`, have spent; `before` holds it for
 * `state`. With `first`, a token begins with the byte. */
static void count_byte(eg_places *p, int32_t state, int32_t next, int byte, bool first) {
    eg_states *s = p->states;
    p->after.count = 0;
    if (!has_budgets(p, next)) return;
    const int32_t count = s->states.at[state].count, room = s->states.at[next].count;
    eg_work(s->rows.pool->fault, 4 * (int64_t)count + room);
    EG_RESERVE(s->rows.pool, p->after, room);
    for (int32_t i = 0; i < room; i++) p->after.at[i] = EG_NO_BUDGET;
    p->after.count = room;
    for (int32_t i = 0; i < count; i++) {
        eg_thread t = s->states.at[state].threads[i];
        if (t.terminal == EG_ANY) note_begun(p, &t, next, byte, first);
        else if (budget_of(p, &t) && eg_thread_stay(s, &t, byte))
            note_spent(p, next, &t, p->before.at[i] + first);
    }
}

/* Copy the numbers of `after` to `before`. */
static void copy_after_to_before(eg_places *p) {
    EG_RESERVE(p->states->rows.pool, p->before, p->after.count);
    eg_copy(p->before.at, p->after.at, (size_t)p->after.count * sizeof *p->after.at);
}

/* Turn the numbers of `after`, of `state`, into those of `other`, which has no other threads with budgets. */
static void restrict_spent(eg_places *p, int32_t state, int32_t other) {
    const int32_t count = has_budgets(p, other) ? p->states->states.at[other].count : 0;
    copy_after_to_before(p);
    EG_RESERVE(p->states->rows.pool, p->after, count);
    for (int32_t i = 0; i < count; i++) {
        const eg_thread *t = &p->states->states.at[other].threads[i];
        p->after.at[i] = budget_of(p, t) ? p->before.at[eg_state_find(p->states, state, t)] : EG_NO_BUDGET;
    }
    p->after.count = count;
}

/* Copy the numbers of `place` to `after`. */
static void load_spent(eg_places *p, const eg_place *place) {
    EG_RESERVE(p->states->rows.pool, p->after, place->count);
    for (int32_t i = 0; i < place->count; i++) {
        const int32_t more = p->spent.at[place->begin + i];
        p->after.at[i] = more < EG_NO_BUDGET ? place->least + more : EG_NO_BUDGET;
    }
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
    p->after.count = 0;
    if (!has_budgets(p, next)) return;
    for (int64_t i = 0; i < length; i++) place = place_after_byte(p, place, bytes[i], token && !i);
    const eg_place *last = &p->list.at[place];
    load_spent(p, last);
    if (last->state != next) restrict_spent(p, last->state, next); /* the token can also be read as a whole */
}

/* --- dropping --- */

/* Whether a text can go on from `state`, or end there. */
static bool can_go_on(eg_places *p, int32_t state) {
    return state >= 0 && (p->states->states.at[state].accepting ||
                          !eg_mask_is_empty(p->masks, eg_mask_of(p->masks, state)));
}

/* The place in `state` with the numbers of `after`, without the threads that have spent their budgets if the
 * text can go on without them. */
static int32_t place_without_spent(eg_places *p, const eg_place *from, int32_t state) {
    eg_states *s = p->states;
    const int32_t base = s->work.count;
    bool spent = false;
    for (int32_t i = 0; i < p->after.count; i++) {
        const eg_thread t = s->states.at[state].threads[i];
        const int32_t budget = budget_of(p, &t);
        const bool over = budget && p->after.at[i] >= budget;
        if (over) p->after.at[i] = budget; /* so that places recur */
        else EG_PUSH(s->rows.pool, s->work, t);
        spent |= over;
    }
    if (!spent) {
        s->work.count = base;
        return intern_place(p, from, state, false);
    }
    const int32_t rest = eg_state_intern(s, base);
    if (!can_go_on(p, rest)) return intern_place(p, from, state, true);
    restrict_spent(p, state, rest);
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
    count_bytes(p, place, t->bytes + t->offsets[token], eg_token_length(t, token), true, next);
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
