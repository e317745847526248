"""top_p over rows so flat that the candidates do not reach p: find the last token that stays, without
sorting the row.

Tokens are counted by distance from the maximum, eight bins a bit (`tally`). What the tokens of a bin weigh
lies between two bounds, and what all weigh is known, so the bins in which p may be reached are few
(`interval`). Their weights are summed in 1,024 finer bins, beside the weight of all tokens before them
(`spread` and `bin_of`). The tokens of the bin in which p is reached are gathered and sorted, beside the
weight of all before it (`collect`, and `few.rank`), and `close` finds the last one. All sums are of integers,
so neither the order of blocks nor that of atomic additions matters. What follows the top_p depends on logits
alone: a bound and a scale.

A row takes part from `interval` on if its `state` is 1. `close` sets it to 2 once the row's bounds are
known, or to 0 if the bin holds more tokens than there is room for: then `whole.resolve` finds the token.
"""

import triton
import triton.language as tl

from .few import COARSE, MIN_P, TEMPERATURE, TOP_P
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

BINS = tl.constexpr(1024)
NOWHERE = tl.constexpr(-1)
"""In the place of an interval: p is not reached, every token stays."""


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
def tally(logits, index, bitmask, edit_ids, edit_values, spans, scales, best,
          tokens, faults, counts, leasts, greedy, depths, tallies, masses,
          row_stride, mask_stride, edit_stride, spans_stride, tiles, vocab,
          TILE: tl.constexpr, OPS: tl.constexpr,
          CAPACITY: tl.constexpr, ALONE: tl.constexpr, GREEDY: tl.constexpr,
          MASKED: tl.constexpr, EDITED: tl.constexpr, HEATED: tl.constexpr):  # fmt: skip
    """Add the number of the tile's tokens in each coarse bin to `tallies` [row, 256], int32, which `chain`
    has emptied; grid (rows, tiles). If a min_p comes before, what passes it gives the tile's `masses`."""
    row, tile = tl.program_id(0), tl.program_id(1)
    if takes_part(tokens, faults, counts, leasts, greedy, row, CAPACITY, ALONE, GREEDY):
        peak = value_of_key(tl.load(best + row))
        ids = tile * TILE + tl.arange(0, TILE)
        edits = row.to(tl.int64) * edit_stride
        source = logits + tl.load(index + row) * row_stride
        values = read(source, bitmask + row.to(tl.int64) * mask_stride,
                      edit_ids + edits, edit_values + edits, spans + row * spans_stride,
                      tl.load(scales + row) if HEATED else 1.0, tile, ids, ids >= 0, vocab,
                      MASKED, EDITED, HEATED)  # fmt: skip
        y = distance_of(values, peak)
        weighs = y > -31.0
        if filters(OPS):
            weighs = weighs & (key_of(values, ids) <= bound_before(peak, depths, row, OPS))
            tl.store(masses + row * tiles + tile, tl.sum(tl.where(weighs, weight_at(y), 0), 0))
        numbers = tl.histogram(coarse_bin(tl.where(weighs, y, 0.0)), COARSE, mask=weighs)
        tl.atomic_add(tallies + row * COARSE + tl.arange(0, COARSE), numbers, mask=numbers > 0, sem="relaxed")


@triton.jit
def filters(OPS: tl.constexpr):
    """Whether a min_p comes before the top_p."""
    return OPS[0] == MIN_P or (OPS[0] == TEMPERATURE and OPS[1] == MIN_P)


@triton.jit
def coarse_bin(y):
    """The coarse bin of a distance above −32: number n holds −n/8 and what is above −(n + 1)/8."""
    return (y * -8.0).to(tl.int32)


@kernel()
def interval(
    tokens,
    faults,
    counts,
    leasts,
    greedy,
    shares,
    reaches,
    tallies,
    masses,
    state,
    limits,
    below,
    places,
    bins,
    tiles,
    TILES: tl.constexpr,
    CAPACITY: tl.constexpr,
    ALONE: tl.constexpr,
    GREEDY: tl.constexpr,
):
    """The coarse bins in which p may be reached, in `places`, and `limits`; empty `bins` and `below`. Grid
    (rows,)."""
    row = tl.program_id(0)
    part = takes_part(tokens, faults, counts, leasts, greedy, row, CAPACITY, ALONE, GREEDY)
    tl.store(state + row, part.to(tl.int32))
    if part:
        parts = tl.arange(0, TILES)
        total = tl.sum(tl.load(masses + row * tiles + parts, mask=parts < tiles, other=0), 0)
        limit = share_limit(tl.load(shares + row), tl.load(reaches + row) != 0, total)
        lanes = tl.arange(0, COARSE)
        numbers = tl.load(tallies + row * COARSE + lanes).to(tl.int64)
        edges = lanes.to(tl.float32) * -0.125
        # The weights of a bin's edges, with room for what the polynomial is not monotonic.
        most, least = weight_at(edges), weight_at(edges - 0.125)
        most += (most >> 18) + 1
        least = tl.maximum(least - (least >> 18) - 1, 0)
        most_upto, least_upto = tl.cumsum(numbers * most, 0), tl.cumsum(numbers * least, 0)
        most_after = tl.max(most_upto, 0) - most_upto
        least_after = tl.max(least_upto, 0) - least_upto
        inside = tl.minimum(most_upto, total - least_after) <= limit
        maybe = tl.maximum(least_upto, total - most_after) <= limit
        start = tl.sum(inside.to(tl.int32), 0)
        end = tl.minimum(tl.sum(maybe.to(tl.int32), 0), COARSE - 1)
        start = tl.minimum(start, end)
        tl.store(limits + row, limit)
        tl.store(places + row, tl.where(total <= limit, NOWHERE, start | (end << 8)))
        tl.store(below + row, tl.full((), 0, tl.int64))
        lanes = tl.arange(0, BINS)
        tl.store(bins + row.to(tl.int64) * BINS + lanes, tl.full((BINS,), 0, tl.int64))


@triton.jit
def bin_at(y, place):
    """The fine bin of a distance within the coarse ones of `place`, which ascends as y descends; −1 before
    them, BINS after them."""
    start, end = place & 255, place >> 8
    fine = 4
    for count in tl.static_range(8):
        fine = tl.where(end - start < (128 >> count), 8 << count, fine)
    coarse = coarse_bin(tl.where(y > -31.0, y, -31.0))
    number = ((start.to(tl.float32) * -0.125 - y) * (fine * 8).to(tl.float32)).to(tl.int32)
    number = tl.minimum(tl.maximum(number, 0), BINS - 1)
    return tl.where(coarse < start, -1, tl.where(coarse > end, BINS, number))


@kernel()
def spread(logits, index, bitmask, edit_ids, edit_values, spans, scales, best, first, state, places, depths,
           below, bins,
           row_stride, mask_stride, edit_stride, spans_stride, tiles, vocab,
           TILE: tl.constexpr, OPS: tl.constexpr,
           MASKED: tl.constexpr, EDITED: tl.constexpr, HEATED: tl.constexpr):  # fmt: skip
    """Add the weight of each token in the interval to its bin, and of all before it to `below`, by atomic
    additions of int64; grid (rows, tiles)."""
    row, tile = tl.program_id(0), tl.program_id(1)
    place = tl.load(places + row)
    if (tl.load(state + row) == 1) & (place != NOWHERE):
        peak = value_of_key(tl.load(best + row))
        greatest = distance_of(value_of_key(tl.load(first + row * tiles + tile)), peak)
        if bin_at(greatest, place) < BINS:
            ids = tile * TILE + tl.arange(0, TILE)
            edits = row.to(tl.int64) * edit_stride
            source = logits + tl.load(index + row) * row_stride
            values = read(source, bitmask + row.to(tl.int64) * mask_stride,
                          edit_ids + edits, edit_values + edits, spans + row * spans_stride,
                          tl.load(scales + row) if HEATED else 1.0, tile, ids, ids >= 0, vocab,
                          MASKED, EDITED, HEATED)  # fmt: skip
            y = distance_of(values, peak)
            weights = weight_at(y)
            if filters(OPS):
                weights = tl.where(key_of(values, ids) <= bound_before(peak, depths, row, OPS), weights, 0)
            number = bin_at(y, place)
            tl.atomic_add(below + row, tl.sum(tl.where(number < 0, weights, 0), 0), sem="relaxed")
            at = bins + row.to(tl.int64) * BINS + number
            tl.atomic_add(at, weights, mask=(number >= 0) & (number < BINS) & (weights > 0), sem="relaxed")


@kernel()
def bin_of(state, limits, below, places, bins, chosen, counts):
    """The bin in which p is reached, in `chosen`, and the weight `below` it; an empty counter for `collect`,
    and no candidates in rows that take no part. Grid (rows,)."""
    row = tl.program_id(0)
    tl.store(counts + row, 0)
    if (tl.load(state + row) == 1) & (tl.load(places + row) != NOWHERE):
        lanes = tl.arange(0, BINS)
        start = tl.load(below + row)
        upto = start + tl.cumsum(tl.load(bins + row.to(tl.int64) * BINS + lanes), 0)
        inside = upto <= tl.load(limits + row)
        tl.store(chosen + row, tl.sum(inside.to(tl.int32), 0))
        tl.store(below + row, tl.maximum(start, tl.max(tl.where(inside, upto, 0), 0)))


@kernel()
def collect(logits, index, bitmask, edit_ids, edit_values, spans, scales, best, first, state, places, depths,
            chosen, counts, candidates, masses,
            row_stride, mask_stride, edit_stride, spans_stride, tiles, vocab,
            TILE: tl.constexpr, CAPACITY: tl.constexpr, OPS: tl.constexpr,
            MASKED: tl.constexpr, EDITED: tl.constexpr, HEATED: tl.constexpr):  # fmt: skip
    """The keys of the tokens in the chosen bin, in any order, as `scan.gather` does, and the weight of those
    before it in `masses`; grid (rows, tiles)."""
    row, tile = tl.program_id(0), tl.program_id(1)
    place = tl.load(places + row)
    if (tl.load(state + row) == 1) & (place != NOWHERE):
        peak = value_of_key(tl.load(best + row))
        greatest = distance_of(value_of_key(tl.load(first + row * tiles + tile)), peak)
        bin = tl.load(chosen + row)
        mass = tl.full((), 0, tl.int64)
        if bin_at(greatest, place) <= bin:
            ids = tile * TILE + tl.arange(0, TILE)
            edits = row.to(tl.int64) * edit_stride
            source = logits + tl.load(index + row) * row_stride
            values = read(source, bitmask + row.to(tl.int64) * mask_stride,
                          edit_ids + edits, edit_values + edits, spans + row * spans_stride,
                          tl.load(scales + row) if HEATED else 1.0, tile, ids, ids >= 0, vocab,
                          MASKED, EDITED, HEATED)  # fmt: skip
            keys = key_of(values, ids)
            y = distance_of(values, peak)
            number = bin_at(y, place)
            if filters(OPS):
                number = tl.where(keys <= bound_before(peak, depths, row, OPS), number, BINS)
            mass = tl.sum(tl.where(number < bin, weight_at(y), 0), 0)
            # A tile has few of them: giving each a place of its own costs less than counting.
            member = (number == bin) & (keys != NO_KEY)
            ones = tl.full((TILE,), 1, tl.int32)
            slots = tl.atomic_add(counts + row + ids * 0, ones, mask=member, sem="relaxed")
            fits = member & (slots < CAPACITY)
            tl.store(candidates + row.to(tl.int64) * CAPACITY + tl.where(fits, slots, 0), keys, mask=fits)
        tl.store(masses + row * tiles + tile, mass)


@kernel()
def close(ordered, counts, state, limits, below, places, best, crossings, depths, scales, cuts, lates, masses,
          tiles, TILE: tl.constexpr, CAPACITY: tl.constexpr, OPS: tl.constexpr,
          HEATED: tl.constexpr):  # fmt: skip
    """The keys that what remains does not exceed: `cuts` before a later temperature, `lates` after it. Adds
    the weights of the bin's tokens that stay to `masses`. Grid (rows,)."""
    row = tl.program_id(0)
    if tl.load(state + row) == 1:
        peak = value_of_key(tl.load(best + row))
        cut = bound_before(peak, depths, row, OPS)
        count = tl.load(counts + row)
        reached = tl.load(places + row) != NOWHERE
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
            tile = ((keys & 0xFFFFFFFF) // TILE).to(tl.int32)
            tl.atomic_add(masses + row * tiles + tile, weights, mask=keys <= cut, sem="relaxed")
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
