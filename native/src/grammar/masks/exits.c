/* What follows a terminal where it ends inside tokens. */
#include "grammar/masks/follow.h"

/* Whether `terminal`, beginning again at exits of `g`, has the same derivative there as the first one. It
 * then allows the same tokens and can end at the same places, except the first. `again` receives the bytes
 * of those exits. */
static bool begins_alike(eg_follower *f, const eg_group *g, int32_t terminal, eg_bytes *again) {
    eg_expressions *x = &f->vocabulary->expressions;
    const int32_t begin = f->states->rows.rules->terminals[terminal].expression;
    bool any = false;
    memset(again, 0, sizeof *again);
    if (begin < 0) return false;
    eg_work(eg_follower_pool(f)->fault, g->byte_count);
    for (int32_t i = 0; i < g->byte_count; i++) {
        if (g->bytes[i].after == EG_EMPTY) continue;
        const int32_t next = eg_step(x, begin, g->bytes[i].byte);
        if (next == EG_EMPTY) continue;
        if (next != g->bytes[i].after) return false;
        eg_bytes_add(again, g->bytes[i].byte);
        any = true;
    }
    return any;
}

/* Add what the threads on the stack from `base` on, which are popped, allow at and after the exits of one
 * byte. */
static void follow_byte(eg_follower *f, eg_token_set *set, const eg_group *g, int32_t byte, int32_t rank,
                        int32_t base) {
    const int32_t root = eg_group_root(f->vocabulary->summaries, g, byte, rank);
    eg_follow_node(f, set, root);
    eg_follow(f, set, base, root);
}

/* The rank of the exits of a place: it is the same for all of them. */
static int32_t rank_of_place(const eg_group *g, int32_t place) {
    for (int32_t i = 0; i < eg_exit_count(g); i++)
        if (g->exits[i].place == place) return g->exits[i].rank;
    return 0;
}

/* Add what may follow a terminal where it cannot continue: the threads from `base` on begin there. */
static void follow_dead_exits(eg_follower *f, eg_token_set *set, const eg_group *g, int32_t rank,
                              int32_t base) {
    eg_states *s = f->states;
    const int32_t end = s->work.count;
    for (int32_t i = -1; i < g->dense_count; i++) {
        if (i >= 0 && rank) eg_work(s->rows.pool->fault, eg_exit_count(g) / 4);
        if (i >= 0 && rank && rank_of_place(g, g->dense_places[i]) < rank) continue;
        for (int32_t k = base; k < end; k++) EG_PUSH(s->rows.pool, s->work, s->work.at[k]);
        eg_follow(f, set, end,
                  i < 0 ? eg_group_dead_root(f->vocabulary->summaries, g, rank) : g->dense_places[i]);
    }
}

/* Push what the thread becomes after `byte`, except for the terminals that begin `again`. */
static void step_except(eg_follower *f, eg_thread thread, int byte, const int32_t *again, int32_t count) {
    eg_states *s = f->states;
    if (!count || thread.terminal != EG_ANY) {
        eg_thread_step(s, thread, byte);
        return;
    }
    const int32_t core = s->rows.rows.at[thread.row].core;
    for (int32_t i = 0; i < s->rows.cores.at[core].expected_count; i++) {
        const int32_t terminal = s->rows.cores.at[core].expected[i];
        bool left = false;
        for (int32_t k = 0; k < count; k++) left |= again[k] == terminal;
        if (!left) eg_thread_read(s, thread.row, terminal, EG_EMPTY, byte);
    }
}

enum { MAX_AGAIN = 8, MAX_ROUNDS = 64 };

/* A row whose terminals begin at the exits of this rank or more. */
typedef struct eg_round {
    int32_t row, rank;
} eg_round;

typedef struct eg_rounds {
    eg_round at[MAX_ROUNDS];
    int32_t count;
} eg_rounds;

/* Record that `next` follows where the terminals of `round` begin again; false if there is no room. */
static bool note_round(eg_rounds *rounds, const eg_round round, int32_t next) {
    if (next < 0) return true;
    for (int32_t i = 0; i < rounds->count; i++)
        if (rounds->at[i].row == next && rounds->at[i].rank <= round.rank + 1) return true;
    if (rounds->count == MAX_ROUNDS || round.rank + 1 >= EG_MAX_RANK) return false;
    rounds->at[rounds->count++] = (eg_round){next, round.rank + 1};
    return true;
}

/* Find the terminals of the round's row that begin `again` at exits of `g`, and record what follows them. */
static int32_t find_repeating_terminals(eg_follower *f, eg_group *g, const eg_round round, eg_rounds *rounds,
                                        int32_t *again) {
    eg_rows *r = &f->states->rows;
    const int32_t core = r->rows.at[round.row].core;
    int32_t count = 0;
    eg_work(r->pool->fault, r->cores.at[core].expected_count);
    for (int32_t i = 0; i < r->cores.at[core].expected_count && count < MAX_AGAIN; i++) {
        const int32_t terminal = r->cores.at[core].expected[i];
        eg_bytes bytes;
        if (!begins_alike(f, g, terminal, &bytes)) continue;
        const bool same = g->ranked && !memcmp(&bytes, &g->again, sizeof bytes);
        if (!same && rounds->count > 1) continue; /* pending rounds use other ranks */
        if (!same) eg_group_rank(f->vocabulary->summaries, g, &bytes);
        if (note_round(rounds, round, eg_row_advance(r, round.row, terminal))) again[count++] = terminal;
    }
    return count;
}

/* Add the tokens of `g` after which its terminal ends for good, if it has begun often enough. */
static void add_finals(eg_follower *f, eg_token_set *set, const eg_group *g, int32_t rank) {
    const eg_tries *t = &f->vocabulary->tries;
    const int32_t exits = rank ? eg_exit_count(g) : 0;
    for (int32_t i = 0; i < g->final_count; i++) {
        eg_work(eg_follower_pool(f)->fault, 1 + exits / 8);
        int32_t have = 0;
        for (int32_t k = 0; rank && k < g->byte_count; k++)
            for (int32_t n = g->bytes[k].begin; n < g->bytes[k].end; n++)
                if (g->exits[n].child == g->final_befores[i])
                    have = g->exits[n].rank + eg_bytes_has(&g->again, t->byte.at[g->exits[n].child]);
        if (have >= rank) eg_token_set_add(&f->sets, set, &g->finals[i], 1);
    }
}

/* Add what may follow in `round` at the exits of `g`; records further rounds. */
static void follow_round(eg_follower *f, eg_token_set *set, eg_group *g, const eg_round round,
                         eg_rounds *rounds) {
    eg_states *s = f->states;
    const int32_t base = s->work.count;
    eg_thread_begin(s, round.row, g->guard);
    const int32_t end = s->work.count;
    int32_t again[MAX_AGAIN], count = 0;
    if (end == base + 1 && g->repeats && g->entry < 0 && s->work.at[base].guard == EG_EMPTY)
        count = find_repeating_terminals(f, g, round, rounds, again);
    if (end > base) {
        add_finals(f, set, g, round.rank);
        follow_dead_exits(f, set, g, round.rank, base);
    }
    for (int32_t i = 0; i < g->byte_count && end > base; i++) {
        if (g->bytes[i].after == EG_EMPTY || (round.rank && g->bytes[i].rank < round.rank)) continue;
        const int byte = g->bytes[i].byte;
        const bool left = count && eg_bytes_has(&g->again, byte);
        for (int32_t k = base; k < end; k++) step_except(f, s->work.at[k], byte, again, left ? count : 0);
        if (s->work.count > end) follow_byte(f, set, g, i, round.rank, end);
    }
    s->work.count = base;
}

void eg_follow_exits(eg_follower *f, eg_token_set *set, int32_t row, eg_group *g) {
    eg_rounds rounds = {{{row, 0}}, 1};
    for (int32_t i = 0; i < rounds.count; i++) follow_round(f, set, g, rounds.at[i], &rounds);
}
