"""top_p over rows so flat that the candidates do not reach p: find the last token that stays, without
sorting the row.

`chain` says between which distances from the maximum p should be reached: `intervals`. One pass over the row
sums up what all tokens weigh, and those nearer than these, and lists the tokens between them (`spread`). The
weights of these are spread over 1,024 bins. By the sums, p is reached in one of them; its tokens are sorted,
and the last one is found (`close`). All sums are of integers, so neither the order of
blocks nor that of atomic additions matters. What follows the top_p depends on logits alone: a bound and a
scale.

`close` sets a row's `state` to 2 once its bounds are known, or to 0 if it takes no part. If p is reached
elsewhere, as in a few rows in a hundred whose sample is not like the whole, it weighs the row again around
the next interval on that side, by one program: some 60 µs. If p is not reached there either, or if there are
more tokens than there is room for, the state is 0, and `whole.resolve` finds the token.
"""

import triton
import triton.language as tl

from .aim import NO_PART, bound_before, filters
from .few import BINS, MIN_P, TEMPERATURE, TOP_P, ranked
from .many import drawn_from
from .numbers import (
    NO_KEY,
    distance_of,
    heated,
    in_lines,
    kernel,
    key_of,
    key_of_number,
    min_p_bound,
    share_limit,
    value_of_key,
    weight_at,
    weight_of,
)
from .reading import read
from .scan import append, places_of


@triton.jit
def bin_at(y, nearer, farther):
    """The fine bin of a distance in the interval, which ascends as y descends: of a width that is a power of
    two, so that 512 to 1,024 of them are the interval's."""
    wide = tl.maximum(nearer - farther, 2.0**-20)
    exponent = (wide.to(tl.int32, bitcast=True) >> 23) - 127
    each = ((127 + 9 - exponent) << 23).to(tl.float32, bitcast=True)
    number = ((nearer - y) * each).to(tl.int32)
    return tl.minimum(tl.maximum(number, 0), BINS - 1)


@triton.jit
def packed(values, ids):
    """A logit and its id as one number: for what is a key for one token in thirty only."""
    return (values.to(tl.int32, bitcast=True).to(tl.int64) << 32) | ids.to(tl.int64)


@triton.jit
def listed_at(listing, places, length):
    """(the logits, the ids) at some places of a list; −inf behind its end."""
    pairs = tl.load(listing + places, mask=places < length, other=0)
    values = (pairs >> 32).to(tl.int32).to(tl.float32, bitcast=True)
    return tl.where(places < length, values, float("-inf")), (pairs & 0xFFFFFFFF).to(tl.int32)


@triton.jit
def weigh_tiles(source, words, edit_ids, edit_values, spans, scale, first, peak, bound, nearer, farther,
                totals, masses, length, listing, start, step, tiles, vocab,
                TILE: tl.constexpr, CHUNK: tl.constexpr, VECTOR: tl.constexpr, OPS: tl.constexpr,
                LIST: tl.constexpr,
                MASKED: tl.constexpr, EDITED: tl.constexpr, HEATED: tl.constexpr):  # fmt: skip
    """What `spread` does for every `step`-th tile of a row from number `start` on; all pointers are the
    row's."""
    lines = tl.arange(0, CHUNK // VECTOR)[:, None] * VECTOR + tl.arange(0, VECTOR)[None, :]
    for tile in range(start, tiles, step):
        total, before = tl.full((), 0, tl.int64), tl.full((), 0, tl.int64)
        if distance_of(value_of_key(tl.load(first + tile)), peak) > -31.0:
            for part in range(0, TILE, CHUNK):
                ids = tile * TILE + part + lines
                values = read(source, words, edit_ids, edit_values, spans, scale, tile, ids, ids >= 0, vocab,
                              MASKED, EDITED, HEATED)  # fmt: skip
                y = distance_of(values, peak)
                weights = weight_at(y)
                if filters(OPS):
                    weights = tl.where(key_of(values, ids) <= bound, weights, 0)
                total += tl.sum(tl.sum(weights, 1), 0)
                before += tl.sum(tl.sum(tl.where(y > nearer, weights, 0), 1), 0)
                member = (y <= nearer) & (y >= farther) & (weights > 0)
                append(packed(values, ids), member, listing, length, LIST)
        tl.store(totals + tile, total)
        tl.store(masses + tile, before)


@kernel()
def spread(logits, index, bitmask, edit_ids, edit_values, spans, scales, best, first, intervals, depths,
           totals, masses, listed, listing,
           row_stride, mask_stride, edit_stride, spans_stride, tiles, vocab,
           TILE: tl.constexpr, CHUNK: tl.constexpr, VECTOR: tl.constexpr, OPS: tl.constexpr,
           LIST: tl.constexpr,
           MASKED: tl.constexpr, EDITED: tl.constexpr, HEATED: tl.constexpr):  # fmt: skip
    """Per tile the weight of all tokens in `totals`, and of those before the interval in `masses`; the tokens
    in it in `listing` [LIST], in any order, `listed` of them, which may be more than fit. Grid (rows,
    programs)."""
    row = tl.program_id(0)
    nearer, farther = tl.load(intervals + 2 * row), tl.load(intervals + 2 * row + 1)
    if nearer != NO_PART:
        peak = value_of_key(tl.load(best + row))
        edits = row.to(tl.int64) * edit_stride
        weigh_tiles(logits + tl.load(index + row) * row_stride, bitmask + row.to(tl.int64) * mask_stride,
                    edit_ids + edits, edit_values + edits, spans + row * spans_stride,
                    tl.load(scales + row) if HEATED else 1.0, first + row * tiles, peak,
                    bound_before(peak, tl.load(depths + row), OPS), nearer, farther,
                    totals + row * tiles, masses + row * tiles, listed + row,
                    listing + row.to(tl.int64) * LIST, tl.program_id(1), tl.num_programs(1), tiles, vocab,
                    TILE, CHUNK, VECTOR, OPS, LIST, MASKED, EDITED, HEATED)  # fmt: skip


@kernel()
def close(logits, index, bitmask, edit_ids, edit_values, spans, scales, best, first, intervals, totals,
          masses, bins, listed, listing, found, ordered, state, cuts, lates, tokens,
          shares, reaches, crossings, depths, later_scales, draws,
          row_stride, mask_stride, edit_stride, spans_stride, tiles, vocab,
          TILE: tl.constexpr, CHUNK: tl.constexpr, VECTOR: tl.constexpr, TILES: tl.constexpr,
          LIST: tl.constexpr, ROOM: tl.constexpr, AT_ONCE: tl.constexpr, OPS: tl.constexpr,
          DRAWN: tl.constexpr,
          MASKED: tl.constexpr, EDITED: tl.constexpr, HEATED: tl.constexpr):  # fmt: skip
    """The keys that what remains does not exceed: `cuts` before a later temperature, `lates` after it; grid
    (rows,). With DRAWN, the top_p is the last sampler, and the token is drawn: `masses` become the weights
    of what remains of each tile. If p is reached just before or behind the interval, this program looks
    there, once. What it has written itself, it reads behind a barrier."""
    row = tl.program_id(0)
    nearer, farther = tl.load(intervals + 2 * row), tl.load(intervals + 2 * row + 1)
    known = tl.full((), 0, tl.int32)
    if nearer != NO_PART:
        peak = value_of_key(tl.load(best + row))
        edits = row.to(tl.int64) * edit_stride
        source = logits + tl.load(index + row) * row_stride
        words = bitmask + row.to(tl.int64) * mask_stride
        lead = tl.load(scales + row) if HEATED else 1.0
        members = listing + row.to(tl.int64) * LIST
        numbers = bins + row.to(tl.int64) * BINS
        most = bound_before(peak, tl.load(depths + row), OPS)
        cut = most
        tries = tl.full((), 0, tl.int32)
        while tries < 2:
            if tries == 1:
                tl.store(numbers + tl.arange(0, BINS), tl.full((BINS,), 0, tl.int64))
                tl.store(listed + row, 0)
                tl.debug_barrier()
                weigh_tiles(source, words, edit_ids + edits, edit_values + edits, spans + row * spans_stride,
                            lead, first + row * tiles, peak, most, nearer, farther, totals + row * tiles,
                            masses + row * tiles, listed + row, members, 0, 1, tiles, vocab,
                            TILE, CHUNK, VECTOR, OPS, LIST, MASKED, EDITED, HEATED)  # fmt: skip
                tl.debug_barrier()
            tries += 1
            parts = tl.arange(0, TILES)
            at = row * tiles + parts
            whole = tl.load(totals + at, mask=parts < tiles, other=0)
            total = tl.sum(whole, 0)
            below = tl.sum(tl.load(masses + at, mask=parts < tiles, other=0), 0)
            limit = share_limit(tl.load(shares + row), tl.load(reaches + row) != 0, total)
            if total <= limit:  # p is not reached: every token stays
                known = tl.full((), 2, tl.int32)
                if DRAWN:
                    tl.store(masses + at, whole, mask=parts < tiles)
            else:
                length = tl.load(listed + row)
                steps = in_lines(AT_ONCE)
                inside = (below <= limit) & (length <= LIST)
                if inside:
                    for start in range(0, length, AT_ONCE):
                        values, _ = listed_at(members, start + steps, length)
                        y = distance_of(values, peak)
                        weights = weight_at(y)
                        tl.atomic_add(
                            numbers + bin_at(y, nearer, farther), weights, mask=weights > 0, sem="relaxed"
                        )
                    tl.debug_barrier()
                upto_bin = below + tl.cumsum(tl.load(numbers + tl.arange(0, BINS)), 0)
                bin = tl.sum((upto_bin <= limit).to(tl.int32), 0)
                below = tl.maximum(below, tl.max(tl.where(upto_bin <= limit, upto_bin, 0), 0))
                if inside & (bin < BINS):
                    mine = row.to(tl.int64) * ROOM
                    count = 0
                    for start in range(0, length, AT_ONCE):
                        values, ids = listed_at(members, start + steps, length)
                        y = distance_of(values, peak)
                        chosen = (y > -31.0) & (bin_at(y, nearer, farther) == bin)
                        places, added = places_of(chosen)
                        places += count
                        chosen = chosen & (places < ROOM)
                        tl.store(found + mine + places, key_of_number(values, ids), mask=chosen)
                        count += added
                    if count <= ROOM:
                        known = tl.full((), 2, tl.int32)
                        tl.debug_barrier()
                        for start in range(0, count, 128):
                            ranked(found + mine, ordered + mine, found, start + tl.arange(0, 128), count, 128,
                                   32, False)  # fmt: skip
                        tl.debug_barrier()
                        lanes = tl.arange(0, ROOM)
                        keys = tl.load(ordered + mine + lanes, mask=lanes < count, other=NO_KEY)
                        adds = weight_of(value_of_key(keys), peak)
                        crossed = below + tl.cumsum(adds, 0)
                        crossed -= tl.where(tl.load(crossings + row) != 0, adds, 0)
                        stays = (crossed <= limit) & (keys != NO_KEY)
                        none = tl.load(ordered + mine) - 1
                        cut = tl.minimum(most, tl.maximum(none, tl.max(tl.where(stays, keys, -1 << 63), 0)))
                        # The first token stays, also if it alone exceeds the limit.
                        cut = tl.maximum(cut, tl.load(best + row))
                        if DRAWN:
                            for start in range(0, length, AT_ONCE):
                                values, ids = listed_at(members, start + steps, length)
                                tl.atomic_add(masses + row * tiles + ids // TILE, weight_of(values, peak),
                                              mask=key_of(values, ids) <= cut, sem="relaxed")  # fmt: skip
                wide = nearer - farther
                if below > limit:
                    farther = nearer
                    nearer = tl.minimum(nearer + 2.0 * wide, 0.0)
                elif inside & (bin == BINS):
                    nearer = farther
                    farther -= wide
                else:
                    tries += 1
            if known == 2:
                tries += 1
        if known == 2:
            if DRAWN:
                tl.debug_barrier()
                token = drawn_from(source, words, edit_ids + edits, edit_values + edits,
                                   spans + row * spans_stride, lead, masses + row * tiles, peak,
                                   tl.load(draws + row), cut, tl.full((), NO_KEY, tl.int64), 1.0, tiles,
                                   vocab, TILE, TILES, True, MASKED, EDITED, HEATED)  # fmt: skip
                tl.store(tokens + row, token)
            else:
                late = tl.full((), NO_KEY, tl.int64)
                passed = False
                for i in tl.static_range(len(OPS)):
                    if OPS[i] == TOP_P:
                        passed = True
                    if OPS[i] == TEMPERATURE and (i > 0 or not HEATED):
                        peak = heated(peak, tl.load(later_scales + row))
                        cut = tl.minimum(cut, late)
                        late = tl.full((), NO_KEY, tl.int64)
                    if OPS[i] == MIN_P and passed:
                        late = tl.minimum(late, min_p_bound(peak, tl.load(depths + row)))
                tl.store(cuts + row, cut)
                tl.store(lates + row, late)
    tl.store(state + row, known)
