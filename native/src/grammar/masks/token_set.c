/* Sets of tokens under construction. */
#include "grammar/masks/token_set.h"

#include "grammar/base/bits.h"

eg_token_set *eg_token_set_take(eg_token_sets *all) {
    if (all->depth == EG_SETS) return NULL;
    eg_token_set *set = &all->at[all->depth++];
    set->bits = NULL;
    set->removed.count = set->tokens.count = 0;
    return set;
}

void eg_token_set_add(eg_token_sets *all, eg_token_set *set, const int32_t *tokens, int32_t count) {
    if (!count) return;
    eg_work(all->pool->fault, 1 + count / 16);
    EG_APPEND(all->pool, set->tokens, tokens, count);
}

void eg_token_set_unshare(eg_token_sets *all, eg_token_set *set) {
    const size_t size = (size_t)all->words * sizeof *set->own;
    eg_work(all->pool->fault, (int64_t)size / 128 + set->removed.count);
    if (!set->own) set->own = eg_take(all->pool, size);
    if (!set->bits) memset(set->own, 0, size);
    else if (set->bits != set->own) eg_copy(set->own, set->bits, size);
    eg_clear_bits(set->own, set->removed.at, set->removed.count);
    set->removed.count = 0;
    set->bits = set->own;
}

void eg_token_set_add_bits(eg_token_sets *all, eg_token_set *set, const uint32_t *bits,
                           const int32_t *removed, int32_t count) {
    if (!set->bits) {
        set->bits = bits;
        set->removed.count = 0;
        EG_APPEND(all->pool, set->removed, removed, count);
        return;
    }
    if (set->bits == bits && !set->removed.count) return;
    eg_token_set_unshare(all, set);
    eg_work(all->pool->fault, all->words / 16 + count);
    eg_set_bits(all->marks, removed, count);
    for (int32_t i = 0; i < all->words; i++) set->own[i] |= bits[i] & ~all->marks[i];
    eg_clear_bits(all->marks, removed, count);
}

void eg_token_set_add_set(eg_token_sets *all, eg_token_set *set, const eg_token_set *more) {
    if (more->bits) eg_token_set_add_bits(all, set, more->bits, more->removed.at, more->removed.count);
    if (more->bits && set->bits == more->own) eg_token_set_unshare(all, set);
    eg_token_set_add(all, set, more->tokens.at, more->tokens.count);
}

void eg_token_set_remove(eg_token_sets *all, eg_token_set *set, const int32_t *tokens, int32_t count) {
    uint32_t *marks = all->marks;
    eg_work(all->pool->fault, count + (int64_t)set->removed.count / 4 + set->tokens.count / 4);
    if (set->bits) EG_RESERVE(all->pool, set->removed, count); /* nothing faults while tokens are marked */
    eg_set_bits(marks, tokens, count);
    eg_clear_bits(marks, set->removed.at, set->removed.count);
    for (int32_t i = 0; i < count && set->bits; i++)
        if (eg_has_bit(set->bits, tokens[i]) && eg_has_bit(marks, tokens[i]))
            set->removed.at[set->removed.count++] = tokens[i];
    eg_set_bits(marks, tokens, count);
    int32_t kept = 0;
    for (int32_t i = 0; i < set->tokens.count; i++)
        if (!eg_has_bit(marks, set->tokens.at[i])) set->tokens.at[kept++] = set->tokens.at[i];
    set->tokens.count = kept;
    eg_clear_bits(marks, tokens, count);
}

void eg_token_set_unite(eg_token_sets *all, eg_token_set *set) {
    int32_t kept = 0;
    for (int32_t i = 0; i < set->tokens.count; i++) {
        const int32_t token = set->tokens.at[i];
        if (eg_has_bit(all->marks, token)) continue;
        eg_set_bit(all->marks, token);
        set->tokens.at[kept++] = token;
    }
    eg_clear_bits(all->marks, set->tokens.at, kept);
    set->tokens.count = kept;
}
