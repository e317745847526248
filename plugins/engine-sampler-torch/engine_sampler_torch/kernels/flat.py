"""top_p over rows so flat that the candidates do not reach p: find the last token that stays, without
sorting the row.

Weights are summed by distance from the maximum, first above sixteen pivots (`above` and `interval`), then,
within the interval in which p is reached, in 1,024 bins (`spread` and `bin_of`). The tokens of that bin are
gathered and sorted (`collect`, and `few.rank`), and `close` finds the last one. All sums are of integers, so
neither the order of blocks nor that of atomic additions matters. What follows the top_p depends on logits
alone: a bound and a scale.

A row takes part from `interval` on if its `state` is 1. `close` sets it to 2 once the row's bounds are
known, or to 0 if the bin holds more tokens than there is room for: then `whole.resolve` finds the token.
"""

import triton
import triton.language as tl

from .few import MIN_P, TEMPERATURE, TOP_P
from .numbers import (
    NO_KEY,
    distance_of,
    heated,
    kernel,
    key_of,
    min_p_bound,
    share_limit,
    value_of_key,
    weight_at,
    weight_of,
)
from .reading import read

PIVOTS = tl.constexpr(16)
"""The first fifteen are 1, 2, …, 15 bits below the maximum; the last is below every token that weighs
anything."""
BINS = tl.constexpr(1024)


@triton.jit
def bound_before(peak, depths, row, OPS: tl.constexpr):
    """The last key that passes a min_p before the top_p; the samplers before it are that and a leading
    temperature."""
    bound = tl.full((), NO_KEY, tl.int64)
    if OPS[0] == MIN_P:
        bound = min_p_bound(peak, tl.load(depths + row))
    if OPS[0] == TEMPERATURE and OPS[1] == MIN_P:
        bound = min_p_bound(peak, tl.load(depths + row))
    return bound


@triton.jit
def takes_part(tokens, faults, counts, leasts, greedy, row,
               CAPACITY: tl.constexpr, ALONE: tl.constexpr, GREEDY: tl.constexpr):  # fmt: skip
    """Whether a row is sound and without a token, and its min_keep asks for nothing. With ALONE, the top_p
    is the only cut, and as it reaches beyond the candidates, it keeps at least as many tokens as these
    are."""
    count = tl.load(counts + row)
    least = tl.load(leasts + row)
    part = (tl.load(tokens + row) < 0) & (tl.load(faults + row) == 0)
    kept = tl.where(count <= CAPACITY, count, 1) if ALONE else 1
    part = part & (least <= tl.maximum(kept, 1))
    if GREEDY:
        part = part & (tl.load(greedy + row) == 0)
    return part


@kernel()
def above(logits, index, bitmask, edit_ids, edit_values, spans, scales, best,
          tokens, faults, counts, leasts, greedy, depths, sums,
          row_stride, mask_stride, edit_stride, spans_stride, tiles, vocab,
          TILE: tl.constexpr, STEP: tl.constexpr, OPS: tl.constexpr,
          CAPACITY: tl.constexpr, ALONE: tl.constexpr, GREEDY: tl.constexpr,
          MASKED: tl.constexpr, EDITED: tl.constexpr, HEATED: tl.constexpr):  # fmt: skip
    """sums[row, tile] = the weight of the tile's tokens down to each pivot, int64 [16]; grid (rows,
    tiles)."""
    row, tile = tl.program_id(0), tl.program_id(1)
    if takes_part(tokens, faults, counts, leasts, greedy, row, CAPACITY, ALONE, GREEDY):
        peak = value_of_key(tl.load(best + row))
        bound = bound_before(peak, depths, row, OPS)
        edits = row.to(tl.int64) * edit_stride
        pivots = tl.arange(0, PIVOTS)
        floors = tl.where(pivots < PIVOTS - 1, -1.0 - pivots.to(tl.float32), -32.0)
        total = tl.full((PIVOTS,), 0, tl.int64)
        for start in range(0, TILE, STEP):
            ids = tile * TILE + start + tl.arange(0, STEP)
            source = logits + tl.load(index + row) * row_stride
            values = read(source, bitmask + row.to(tl.int64) * mask_stride,
                          edit_ids + edits, edit_values + edits, spans + row * spans_stride,
                          tl.load(scales + row) if HEATED else 1.0, tile, ids, ids >= 0, vocab,
                          MASKED, EDITED, HEATED)  # fmt: skip
            y = distance_of(values, peak)
            weights = tl.where(key_of(values, ids) <= bound, weight_at(y), 0)
            total += tl.sum(tl.where(y[None, :] >= floors[:, None], weights[None, :], 0), 1)
        tl.store(sums + (row * tiles + tile) * PIVOTS + pivots, total)


@kernel()
def interval(tokens, faults, counts, leasts, greedy, shares, reaches, sums, state, limits, below, places,
             bins,
             tiles, TILES: tl.constexpr,
             CAPACITY: tl.constexpr, ALONE: tl.constexpr, GREEDY: tl.constexpr):  # fmt: skip
    """Between which pivots p is reached: `places` (16: nowhere, every token stays), the weight `below` which
    the tokens before weigh, and `limits`; empty `bins`. Grid (rows,)."""
    row = tl.program_id(0)
    part = takes_part(tokens, faults, counts, leasts, greedy, row, CAPACITY, ALONE, GREEDY)
    tl.store(state + row, part.to(tl.int32))
    if part:
        lines = tl.arange(0, TILES)[:, None]
        pivots = tl.arange(0, PIVOTS)
        parts = tl.load(sums + (row * tiles + lines) * PIVOTS + pivots[None, :], mask=lines < tiles, other=0)
        upto = tl.sum(parts, 0)
        limit = share_limit(tl.load(shares + row), tl.load(reaches + row) != 0, tl.max(upto, 0))
        place = tl.sum((upto <= limit).to(tl.int32), 0)
        tl.store(limits + row, limit)
        tl.store(places + row, place)
        tl.store(below + row, tl.max(tl.where(pivots < place, upto, 0), 0))
        lanes = tl.arange(0, BINS)
        tl.store(bins + row.to(tl.int64) * BINS + lanes, tl.full((BINS,), 0, tl.int64))


@triton.jit
def bin_at(y, place):
    """The bin of a distance within the interval number `place`, which ascends as y descends; −1 outside."""
    top = -place.to(tl.float32)
    last = place == PIVOTS - 1
    floor = tl.where(last, -32.0, top - 1.0)
    inside = (y >= floor) & ((y < top) | (place == 0))
    y = tl.where(inside, y, top)
    number = ((top - y) * tl.where(last, 60.0, 1024.0)).to(tl.int32)
    return tl.where(inside, tl.minimum(number, BINS - 1), -1)


@kernel()
def spread(logits, index, bitmask, edit_ids, edit_values, spans, scales, best, first, state, places, depths,
           bins,
           row_stride, mask_stride, edit_stride, spans_stride, tiles, vocab,
           TILE: tl.constexpr, OPS: tl.constexpr,
           MASKED: tl.constexpr, EDITED: tl.constexpr, HEATED: tl.constexpr):  # fmt: skip
    """Add the weight of each token in the interval to its bin, by atomic additions of int64; grid (rows,
    tiles)."""
    row, tile = tl.program_id(0), tl.program_id(1)
    place = tl.load(places + row)
    if (tl.load(state + row) == 1) & (place < PIVOTS):
        peak = value_of_key(tl.load(best + row))
        greatest = distance_of(value_of_key(tl.load(first + row * tiles + tile)), peak)
        if (greatest >= -1.0 - place.to(tl.float32)) | (place == PIVOTS - 1):
            ids = tile * TILE + tl.arange(0, TILE)
            edits = row.to(tl.int64) * edit_stride
            source = logits + tl.load(index + row) * row_stride
            values = read(source, bitmask + row.to(tl.int64) * mask_stride,
                          edit_ids + edits, edit_values + edits, spans + row * spans_stride,
                          tl.load(scales + row) if HEATED else 1.0, tile, ids, ids >= 0, vocab,
                          MASKED, EDITED, HEATED)  # fmt: skip
            y = distance_of(values, peak)
            number = bin_at(y, place)
            weights = weight_at(y)
            adds = (
                (number >= 0) & (key_of(values, ids) <= bound_before(peak, depths, row, OPS)) & (weights > 0)
            )
            at = bins + row.to(tl.int64) * BINS + tl.maximum(number, 0)
            tl.atomic_add(at, weights, mask=adds, sem="relaxed")


@kernel()
def bin_of(state, limits, below, places, bins, chosen, counts):
    """The bin in which p is reached, in `chosen`, and the weight `below` it; an empty counter for `collect`,
    and no candidates in rows that take no part. Grid (rows,)."""
    row = tl.program_id(0)
    tl.store(counts + row, 0)
    if (tl.load(state + row) == 1) & (tl.load(places + row) < PIVOTS):
        lanes = tl.arange(0, BINS)
        start = tl.load(below + row)
        upto = start + tl.cumsum(tl.load(bins + row.to(tl.int64) * BINS + lanes), 0)
        inside = upto <= tl.load(limits + row)
        tl.store(chosen + row, tl.sum(inside.to(tl.int32), 0))
        tl.store(below + row, tl.maximum(start, tl.max(tl.where(inside, upto, 0), 0)))


@kernel()
def collect(logits, index, bitmask, edit_ids, edit_values, spans, scales, best, first, state, places, depths,
            chosen, counts, candidates,
            row_stride, mask_stride, edit_stride, spans_stride, tiles, vocab,
            TILE: tl.constexpr, CAPACITY: tl.constexpr, OPS: tl.constexpr,
            MASKED: tl.constexpr, EDITED: tl.constexpr, HEATED: tl.constexpr):  # fmt: skip
    """The keys of the tokens in the chosen bin, in any order, as `scan.gather` does; grid (rows, tiles)."""
    row, tile = tl.program_id(0), tl.program_id(1)
    place = tl.load(places + row)
    if (tl.load(state + row) == 1) & (place < PIVOTS):
        peak = value_of_key(tl.load(best + row))
        greatest = distance_of(value_of_key(tl.load(first + row * tiles + tile)), peak)
        if (greatest >= -1.0 - place.to(tl.float32)) | (place == PIVOTS - 1):
            ids = tile * TILE + tl.arange(0, TILE)
            edits = row.to(tl.int64) * edit_stride
            source = logits + tl.load(index + row) * row_stride
            values = read(source, bitmask + row.to(tl.int64) * mask_stride,
                          edit_ids + edits, edit_values + edits, spans + row * spans_stride,
                          tl.load(scales + row) if HEATED else 1.0, tile, ids, ids >= 0, vocab,
                          MASKED, EDITED, HEATED)  # fmt: skip
            keys = key_of(values, ids)
            member = bin_at(distance_of(values, peak), place) == tl.load(chosen + row)
            member = member & (keys <= bound_before(peak, depths, row, OPS)) & (keys != NO_KEY)
            ones = tl.full((TILE,), 1, tl.int32)
            slots = tl.atomic_add(counts + row + ids * 0, ones, mask=member, sem="relaxed")
            fits = member & (slots < CAPACITY)
            tl.store(candidates + row.to(tl.int64) * CAPACITY + tl.where(fits, slots, 0), keys, mask=fits)


@kernel()
def close(ordered, counts, state, limits, below, places, best, crossings, depths, scales, cuts, lates,
          CAPACITY: tl.constexpr, OPS: tl.constexpr, HEATED: tl.constexpr):  # fmt: skip
    """The keys that what remains does not exceed: `cuts` before a later temperature, `lates` after it. Grid
    (rows,)."""
    row = tl.program_id(0)
    if tl.load(state + row) == 1:
        peak = value_of_key(tl.load(best + row))
        cut = bound_before(peak, depths, row, OPS)
        count = tl.load(counts + row)
        reached = tl.load(places + row) < PIVOTS
        if reached & (count <= CAPACITY):
            lanes = tl.arange(0, CAPACITY)
            at = ordered + row.to(tl.int64) * CAPACITY
            keys = tl.load(at + lanes, mask=lanes < count, other=NO_KEY)
            weights = weight_of(value_of_key(keys), peak)
            upto = tl.load(below + row) + tl.cumsum(weights, 0)
            crossing = tl.load(crossings + row) != 0
            stays = (upto - tl.where(crossing, weights, 0) <= tl.load(limits + row)) & (keys != NO_KEY)
            none = tl.load(at) - 1
            cut = tl.minimum(cut, tl.maximum(none, tl.max(tl.where(stays, keys, -1 << 63), 0)))
            # The first token stays, also if it alone exceeds the limit.
            cut = tl.maximum(cut, tl.load(best + row))
        late = tl.full((), NO_KEY, tl.int64)
        passed = False
        for i in tl.static_range(len(OPS)):
            if OPS[i] == TOP_P:
                passed = True
            if OPS[i] == TEMPERATURE and (i > 0 or not HEATED):
                peak = heated(peak, tl.load(scales + row))
                cut = tl.minimum(cut, late)
                late = tl.full((), NO_KEY, tl.int64)
            if OPS[i] == MIN_P and passed:
                late = tl.minimum(late, min_p_bound(peak, tl.load(depths + row)))
        tl.store(cuts + row, cut)
        tl.store(lates + row, late)
        tl.store(state + row, tl.where(reached & (count > CAPACITY), 0, 2))
