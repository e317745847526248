"""The one pass over all logits of a step, and the small kernels around it.

Grid (rows, tiles) unless said otherwise. A program writes only places of its own, with plain stores, and no
program reads what another of the same launch has written: launches on one stream are the only order needed.
"""

import triton
import triton.language as tl

from .numbers import (
    EVERY_KEY,
    LIMIT,
    NO_BOUND,
    NO_KEY,
    REMOVED,
    heated,
    kernel,
    key_of,
    order_of,
    value_of,
    value_of_key,
    weight_of,
)
from .reading import allowed_by, edited, edited_anywhere, limited, read, read_raw


@kernel()
def count_edits(edit_ids, spans, edit_stride, edits, spans_stride, TILE: tl.constexpr, STEP: tl.constexpr):
    """spans[row, t] = how many edited ids lie before tile t; grid (rows, tiles + 1)."""
    row, tile = tl.program_id(0), tl.program_id(1)
    lanes = tl.arange(0, STEP)
    before = 0
    for start in range(0, edits, STEP):
        places = start + lanes
        ids = tl.load(edit_ids + row.to(tl.int64) * edit_stride + places, mask=places < edits, other=NO_KEY)
        before += tl.sum((ids < tile * TILE).to(tl.int32), 0)
    tl.store(spans + row * spans_stride + tile, before)


@triton.jit
def greater_of(a, b):
    """The greater of two; NaN if one is."""
    return tl.maximum(a, b, propagate_nan=tl.PropagateNan.ALL)


@triton.jit
def orders_of(values):
    """int32 [groups], the order of the greatest of `values` [groups, parts, vector]. Values of one vector are
    compared as they were read, two at once where they are of 16 bits; only what is left of each is turned
    into an integer."""
    return tl.max(order_of(tl.reduce(values, 2, greater_of)), 1)


@kernel()
def scan(logits, index, bitmask, edit_ids, edit_values, spans, scales,
         highest, first, alive, maxima,
         row_stride, mask_stride, edit_stride, spans_stride, tiles, vocab,
         TILE: tl.constexpr, GROUP: tl.constexpr, VECTOR: tl.constexpr,
         MASKED: tl.constexpr, EDITED: tl.constexpr, HEATED: tl.constexpr,
         GROUPED: tl.constexpr):  # fmt: skip
    """Read one tile of a row. Per tile: `highest`, the order of the greatest raw logit (NaN above all);
    `first`, the key of the tile's greatest logit as the chain sees it, with the first id of its group in the
    place of its own; `alive`, whether a token is left before the edits. Per group of GROUP ids: `maxima`, the
    order of its greatest logit as the chain sees it.

    Limit and temperature keep the order of logits, so they are laid over the maxima alone."""
    row, tile = tl.program_id(0), tl.program_id(1)
    source = logits + tl.load(index + row) * row_stride
    groups = tl.arange(0, TILE // GROUP)
    parts = tl.arange(0, GROUP // VECTOR)
    ids = (tile * TILE + groups[:, None, None] * GROUP + parts[None, :, None] * VECTOR
           + tl.arange(0, VECTOR)[None, None, :])  # fmt: skip
    if (tile + 1) * TILE <= vocab:
        raw = tl.load(source + ids)
    else:
        raw = tl.load(source + ids, mask=ids < vocab, other=float("-inf"))
    raw = raw.to(tl.float32)
    at = row * tiles + tile
    orders = orders_of(raw)
    tl.store(highest + at, tl.max(orders, 0))
    values = raw
    if MASKED:
        words = bitmask + row.to(tl.int64) * mask_stride
        values = tl.where(allowed_by(words, ids, ids >= 0, vocab), values, float("-inf"))
    if EDITED:
        values = limited(values)
        tl.store(alive + at, tl.max(tl.max(tl.max((values > float("-inf")).to(tl.int32), 2), 1), 0))
        low, high = tl.load(spans + row * spans_stride + tile), tl.load(spans + row * spans_stride + tile + 1)
        edits = row.to(tl.int64) * edit_stride
        values = edited(values, ids, edit_ids + edits, edit_values + edits, low, high)
    if MASKED or EDITED:
        orders = orders_of(values)
    greatest = value_of(orders)
    if not EDITED:
        greatest = limited(greatest)
    if HEATED:
        greatest = heated(greatest, tl.load(scales + row))
    peaks = order_of(greatest)
    starts = tile * TILE + groups * GROUP
    keys = ((~peaks).to(tl.int64) << 32) | starts.to(tl.int64)
    tl.store(first + at, tl.min(tl.where(peaks > REMOVED, keys, NO_KEY), 0))
    if GROUPED:
        tl.store(maxima + at * (TILE // GROUP) + groups, peaks)


@kernel()
def begin(logits, index, bitmask, edit_ids, edit_values, spans, scales,
          highest, first, alive, maxima, needs,
          peaks, faults, best, last, counts, hot, hot_counts, tokens,
          row_stride, mask_stride, edit_stride, spans_stride, tiles, vocab,
          groups, need,
          TILE: tl.constexpr, GROUP: tl.constexpr,
          TILES: tl.constexpr, GROUPS: tl.constexpr, ROUNDS: tl.constexpr,
          MASKED: tl.constexpr, EDITED: tl.constexpr, HEATED: tl.constexpr,
          GROUPED: tl.constexpr, NEEDS: tl.constexpr, BEST: tl.constexpr):  # fmt: skip
    """What is known of a row after the scan; grid (rows,). `peaks`, `faults`: the greatest raw logit, and
    whether the row is faulty. `best`: the key of its first token, for which the group that holds it is read
    again. `last`: what `gather` compares with, a bound that at least the first `need` tokens pass, or with
    ROUNDS = 0 all; `hot`: the numbers of the `hot_counts` groups that hold such tokens, ascending. `tokens`
    is −1 and `counts` 0 until later kernels write them; with BEST, `tokens` is the first token."""
    row = tl.program_id(0)
    # Everything whose address is known at once is asked for at once.
    source = logits + tl.load(index + row) * row_stride
    scale = tl.load(scales + row) if HEATED else 1.0
    numbers = tl.arange(0, GROUPS)
    if GROUPED:
        orders = tl.load(maxima + row * groups + numbers, mask=numbers < groups, other=REMOVED)
        if NEEDS:
            need = tl.minimum(tl.load(needs + row), need).to(tl.int32)
    places = tl.arange(0, TILES)
    inside = places < tiles
    at = row * tiles + places
    peak = value_of(tl.max(tl.load(highest + at, mask=inside, other=REMOVED), 0))
    key = tl.min(tl.load(first + at, mask=inside, other=NO_KEY), 0)
    fault = tl.where(key == NO_KEY, 4 if EDITED else 3, 0)
    if EDITED and MASKED:
        left = tl.max(tl.load(alive + at, mask=inside, other=0), 0)
        fault = tl.where((fault != 0) & (left == 0), 3, fault)
    fault = tl.where(peak < -LIMIT, 2, fault)
    fault = tl.where(peak <= LIMIT, fault, 1)
    if fault == 0:
        start = (key & 0xFFFFFFFF).to(tl.int32)
        ids = start + tl.arange(0, GROUP)
        edits = row.to(tl.int64) * edit_stride
        values = read(source, bitmask + row.to(tl.int64) * mask_stride, edit_ids + edits, edit_values + edits,
                      spans + row * spans_stride, scale, start // TILE, ids, ids >= 0, vocab,
                      MASKED, EDITED, HEATED)  # fmt: skip
        key = tl.min(key_of(values, ids), 0)
    tl.store(peaks + row, peak)
    tl.store(faults + row, fault.to(tl.int64))
    tl.store(best + row, key)
    tl.store(counts + row, 0)
    token = tl.full((), -1, tl.int64)
    if BEST:
        token = tl.where(fault == 0, key & 0xFFFFFFFF, -1)
    tl.store(tokens + row, token)
    if GROUPED:
        bound = tl.full((), EVERY_KEY, tl.int64)
        if ROUNDS > 0:
            bound = nth_best(~orders, need, ROUNDS)
        tl.store(last + row, bound)
        passing = (orders > REMOVED) & ((~orders).to(tl.int64) << 32 <= bound)
        upto = tl.cumsum(passing.to(tl.int32), 0)
        tl.store(hot + row * groups + upto - 1, numbers.to(tl.int16), mask=passing)
        tl.store(hot_counts + row, tl.where(fault == 0, tl.max(upto, 0), 0))


@triton.jit
def nth_best(x, need, ROUNDS: tl.constexpr):
    """A key that the logits of the `need` greatest of some maxima do not exceed, exact in its first 8·ROUNDS
    bits; `x`: the complements of their orders. Maxima of disjoint groups are logits, so at least `need`
    logits pass it. If fewer groups have a token, a bound that every token passes. A radix select: each round
    counts the next eight bits."""
    active = x < ~REMOVED
    enough = tl.sum(active.to(tl.int32), 0) >= need
    digits = tl.arange(0, 256)
    prefix = 0
    for shift in tl.static_range(24, 24 - 8 * ROUNDS, -8):
        digit = (x >> 24) + 128 if shift == 24 else (x >> shift) & 255
        upto = tl.cumsum(tl.histogram(digit, 256, mask=active), 0)
        chosen = tl.minimum(tl.sum((upto < need).to(tl.int32), 0), 255)
        need -= tl.max(tl.where(digits < chosen, upto, 0), 0)
        active = active & (digit == chosen)
        prefix = chosen - 128 if shift == 24 else (prefix << 8) | chosen
    low: tl.constexpr = 32 - 8 * ROUNDS
    bound = ((prefix << low) | ((1 << low) - 1)).to(tl.int64) << 32
    return tl.where(enough, bound | 0xFFFFFFFF, EVERY_KEY)


@kernel()
def gather(logits, index, bitmask, edit_ids, edit_values, spans, scales,
           first, faults, best, last, counts, hot, hot_counts, candidates, masses,
           row_stride, mask_stride, edit_stride, spans_stride, tiles, vocab, programs,
           TILE: tl.constexpr, GROUP: tl.constexpr, STEP: tl.constexpr, CAPACITY: tl.constexpr,
           MASKED: tl.constexpr, EDITED: tl.constexpr, HEATED: tl.constexpr,
           WEIGHED: tl.constexpr):  # fmt: skip
    """The keys of the tokens that pass the bound `last`, in any order: `candidates` [CAPACITY] and how many
    there are in `counts`, which may be more than fit. Grid (rows, programs): each program reads STEP of the
    groups `hot` at a time. Places are handed out by an integer counter: their order does not matter, since
    `rank` sorts the keys.

    With WEIGHED, grid (rows, programs + tiles): the programs after the first give `masses`, the weight of one
    tile each."""
    row, number = tl.program_id(0), tl.program_id(1)
    source = logits + tl.load(index + row) * row_stride
    words = bitmask + row.to(tl.int64) * mask_stride
    changed_ids = edit_ids + row.to(tl.int64) * edit_stride
    changes = edit_values + row.to(tl.int64) * edit_stride
    ends = spans + row * spans_stride
    scale = tl.load(scales + row) if HEATED else 1.0
    if WEIGHED and number >= programs:
        tile = number - programs
        peak = value_of_key(tl.load(best + row))
        greatest = value_of_key(tl.load(first + row * tiles + tile))
        mass = tl.full((), 0, tl.int64)
        if (tl.load(faults + row) == 0) & (weight_of(greatest, peak) > 0):
            ids = tile * TILE + tl.arange(0, TILE)
            values = read(source, words, changed_ids, changes, ends, scale, tile, ids, ids >= 0, vocab,
                          MASKED, EDITED, HEATED)  # fmt: skip
            mass = tl.sum(weight_of(values, peak), 0)
        tl.store(masses + row * tiles + tile, mass)
    else:
        groups = tiles * (TILE // GROUP)
        bound = tl.load(last + row)
        count = tl.load(hot_counts + row)
        count = tl.where(bound == NO_BOUND, 0, count)
        for start in range(number * STEP, count, programs * STEP):
            places = start + tl.arange(0, STEP)
            chosen = tl.load(hot + row * groups + places, mask=places < count, other=0).to(tl.int32)
            live = places < count
            ids = chosen[:, None] * GROUP + tl.arange(0, GROUP)[None, :]
            values = limited(read_raw(source, ids, live[:, None], vocab))
            if MASKED:
                values = tl.where(allowed_by(words, ids, live[:, None], vocab), values, float("-inf"))
            if EDITED:
                lines = chosen // (TILE // GROUP)
                values = edited_anywhere(values, ids, changed_ids, changes, tl.load(ends + lines),
                                         tl.load(ends + lines + 1))  # fmt: skip
            if HEATED:
                values = heated(values, scale)
            keys = key_of(values, ids)
            passing = keys <= bound
            slots = tl.atomic_add(counts + row + ids * 0, tl.full(ids.shape, 1, tl.int32), mask=passing,
                                  sem="relaxed")  # fmt: skip
            fits = passing & (slots < CAPACITY)
            tl.store(candidates + row.to(tl.int64) * CAPACITY + tl.where(fits, slots, 0), keys, mask=fits)
