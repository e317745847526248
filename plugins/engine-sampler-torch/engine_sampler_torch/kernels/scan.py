"""The one pass over all logits of a step, and the small kernels around it.

Grid (rows, tiles) unless said otherwise. A program writes only places of its own, with plain stores, and no
program reads what another of the same launch has written: launches on one stream are the only order needed.
"""

import triton
import triton.language as tl

from .numbers import (
    EVERY_KEY,
    LIMIT,
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
from .reading import allowed_by, edited, limited, read, read_raw


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


@kernel()
def scan(logits, index, bitmask, edit_ids, edit_values, spans, scales,
         highest, first, alive, maxima,
         row_stride, mask_stride, edit_stride, spans_stride, tiles, vocab,
         TILE: tl.constexpr, GROUP: tl.constexpr,
         MASKED: tl.constexpr, EDITED: tl.constexpr, HEATED: tl.constexpr,
         GROUPED: tl.constexpr):  # fmt: skip
    """Read one tile of a row. Per tile: `highest`, the order of the greatest raw logit (NaN above all);
    `first`, the first key of the tile as the chain sees it; `alive`, whether a token is left before the
    edits. Per group of GROUP ids: `maxima`, the order of its greatest logit as the chain sees it."""
    row, tile = tl.program_id(0), tl.program_id(1)
    source = logits + tl.load(index + row) * row_stride
    groups = tl.arange(0, TILE // GROUP)
    ids = tile * TILE + groups[:, None] * GROUP + tl.arange(0, GROUP)[None, :]
    live = ids >= 0
    raw = read_raw(source, ids, live, vocab)
    at = row * tiles + tile
    tl.store(highest + at, tl.max(tl.max(order_of(raw), 1), 0))
    values = limited(raw)
    if MASKED:
        words = bitmask + row.to(tl.int64) * mask_stride
        values = tl.where(allowed_by(words, ids, live, vocab), values, float("-inf"))
    if EDITED:
        tl.store(alive + at, tl.max(tl.max((values > float("-inf")).to(tl.int32), 1), 0))
        low, high = tl.load(spans + row * spans_stride + tile), tl.load(spans + row * spans_stride + tile + 1)
        edits = row.to(tl.int64) * edit_stride
        values = edited(values, ids, edit_ids + edits, edit_values + edits, low, high)
    if HEATED:
        values = heated(values, tl.load(scales + row))
    order = order_of(values)
    peaks = tl.max(order, 1)
    peak = tl.max(peaks, 0)
    best = tl.min(tl.min(tl.where(order == peak, ids, 0x7FFFFFFF), 1), 0)
    key = ((~peak).to(tl.int64) << 32) | best.to(tl.int64)
    tl.store(first + at, tl.where(peak > REMOVED, key, NO_KEY))
    if GROUPED:
        tl.store(maxima + at * (TILE // GROUP) + groups, peaks)


@kernel()
def begin(highest, first, alive, maxima, needs,
          peaks, faults, best, last, counts, tokens,
          tiles, groups, need,
          TILES: tl.constexpr, GROUPS: tl.constexpr, ROUNDS: tl.constexpr,
          MASKED: tl.constexpr, EDITED: tl.constexpr, GROUPED: tl.constexpr, NEEDS: tl.constexpr,
          BEST: tl.constexpr):  # fmt: skip
    """What is known of a row after the scan; grid (rows,). `peaks`, `faults`: the greatest raw logit, and
    whether the row is faulty. `best`: the key of its first token. `last`: what `gather` compares with, a
    bound that at least the first `need` tokens pass, or with ROUNDS = 0 all. `tokens` is −1 and `counts` 0
    until later kernels write them; with BEST, `tokens` is the first token."""
    row = tl.program_id(0)
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
            if NEEDS:
                need = tl.minimum(tl.load(needs + row), need).to(tl.int32)
            bound = nth_best(maxima + row * groups, groups, need, GROUPS, ROUNDS)
        tl.store(last + row, bound)


@triton.jit
def nth_best(maxima, groups, need, GROUPS: tl.constexpr, ROUNDS: tl.constexpr):
    """A key that the logits of the `need` greatest of `maxima` do not exceed, exact in its first 8·ROUNDS
    bits. Maxima of disjoint groups are logits, so at least `need` logits pass it. If fewer groups have a
    token, a bound that every token passes. A radix select: each round counts the next eight bits."""
    places = tl.arange(0, GROUPS)
    x = ~tl.load(maxima + places, mask=places < groups, other=REMOVED)
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
           first, maxima, faults, best, last, counts, candidates, masses,
           row_stride, mask_stride, edit_stride, spans_stride, tiles, vocab,
           TILE: tl.constexpr, GROUP: tl.constexpr, CAPACITY: tl.constexpr,
           MASKED: tl.constexpr, EDITED: tl.constexpr, HEATED: tl.constexpr,
           WEIGHED: tl.constexpr):  # fmt: skip
    """The keys of the tokens that pass the bound `last`, in any order: `candidates` [CAPACITY] and how many
    there are in `counts`, which may be more than fit. With WEIGHED also `masses`, the weight of the whole
    tile; else only groups with a candidate are read. Places are handed out by an integer counter: their
    order does not matter, since `rank` sorts the keys."""
    row, tile = tl.program_id(0), tl.program_id(1)
    bound = tl.load(last + row)
    key = tl.load(first + row * tiles + tile)
    hot = key <= bound
    mass = tl.full((), 0, tl.int64)
    if WEIGHED:
        hot = key != NO_KEY
    if hot & (tl.load(faults + row) == 0):
        source = logits + tl.load(index + row) * row_stride
        edits = row.to(tl.int64) * edit_stride
        groups = tl.arange(0, TILE // GROUP)
        ids = tile * TILE + groups[:, None] * GROUP + tl.arange(0, GROUP)[None, :]
        live = ids >= 0
        if not WEIGHED:
            peaks = tl.load(maxima + (row * tiles + tile) * (TILE // GROUP) + groups)
            live = live & ((~peaks).to(tl.int64) << 32 <= bound)[:, None]
        scale = tl.load(scales + row) if HEATED else 1.0
        values = read(source, bitmask + row.to(tl.int64) * mask_stride, edit_ids + edits, edit_values + edits,
                      spans + row * spans_stride, scale, tile, ids, live, vocab, MASKED, EDITED,
                      HEATED)  # fmt: skip
        if WEIGHED:
            peak = value_of_key(tl.load(best + row))
            mass = tl.sum(tl.sum(weight_of(values, peak), 1), 0)
        keys = key_of(values, ids)
        passing = keys <= bound
        ones = tl.full(ids.shape, 1, tl.int32)
        places = tl.atomic_add(counts + row + ids * 0, ones, mask=passing, sem="relaxed")
        fits = passing & (places < CAPACITY)
        tl.store(candidates + row.to(tl.int64) * CAPACITY + tl.where(fits, places, 0), keys, mask=fits)
    if WEIGHED:
        tl.store(masses + row * tiles + tile, mass)
