"""The one pass over all logits of a step, and the small kernels around it.

Grid (rows, tiles) unless said otherwise. A program writes only places of its own, with plain stores, and no
program reads what another of the same launch has written: launches on one stream are the only order needed.
"""

from typing import Any, NamedTuple

import triton
import triton.language as tl

from .certificate import share_of
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
    order_of_bound,
    upto,
    value_of,
    value_of_key,
)
from .reading import LogitRow, allowed_by, edited, edited_anywhere, limited, read, read_raw


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
         highest, first, alive, maxima, estimates,
         row_stride, mask_stride, edit_stride, spans_stride, tiles, vocab,
         TILE: tl.constexpr, GROUP: tl.constexpr, VECTOR: tl.constexpr,
         MASKED: tl.constexpr, EDITED: tl.constexpr, HEATED: tl.constexpr,
         GROUPED: tl.constexpr, ESTIMATED: tl.constexpr):  # fmt: skip
    """Read one tile of a row. Per tile: `highest`, the order of the greatest raw logit (NaN above all);
    `first`, the key of the tile's greatest logit as the chain sees it, with the first id of its group in the
    place of its own; `alive`, whether a token is left before the edits; with ESTIMATED, `estimates`, its
    share (see `certificate`). Per group of GROUP ids: `maxima`, the order of its greatest logit as the chain
    sees it.

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
        orders = orders_of(values)
    if EDITED:
        orders = order_of(limited(value_of(orders)))
        tl.store(alive + at, (tl.max(orders, 0) > REMOVED).to(tl.int32))
        low, high = tl.load(spans + row * spans_stride + tile), tl.load(spans + row * spans_stride + tile + 1)
        values = limited(values)
        if low < high:
            edits = row.to(tl.int64) * edit_stride
            values = edited(values, ids, edit_ids + edits, edit_values + edits, low, high)
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
    if ESTIMATED:
        if HEATED:
            scale = tl.load(scales + row)
            values = heated(values, scale) if EDITED else values * scale
        tl.store(estimates + at, share_of(values, greatest))


@triton.jit
def peak_fault_and_key(row, highest, first, alive, tiles, TILES: tl.constexpr,
                       MASKED: tl.constexpr, EDITED: tl.constexpr):  # fmt: skip
    """(the greatest raw logit, the number of the fault, the key of the first token, with the first id of its
    group in the place of its own) of a row that has been scanned."""
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
    return peak, fault, key


@triton.jit
def first_key(key, source, TILE: tl.constexpr, GROUP: tl.constexpr,
              MASKED: tl.constexpr, EDITED: tl.constexpr, HEATED: tl.constexpr):  # fmt: skip
    """The least key in the group of GROUP ids of the `LogitRow` that begins with the id of `key`."""
    start = (key & 0xFFFFFFFF).to(tl.int32)
    ids = start + tl.arange(0, GROUP)
    tile = tl.minimum(start, source.vocab - 1) // TILE
    values = read(source.logits, source.words, source.edit_ids, source.edit_values, source.spans,
                  source.scale, tile, ids, ids >= 0, source.vocab, MASKED, EDITED, HEATED)  # fmt: skip
    return tl.min(key_of(values, ids), 0)


@triton.jit
def in_runs(COUNT: tl.constexpr):
    """0 to COUNT − 1 as [runs, threads, 4]: each thread has neighbours, in runs of four, and counts them
    alone."""
    THREADS: tl.constexpr = 256 if COUNT >= 1024 else COUNT // 4
    threads = tl.arange(0, THREADS)[None, :, None] * (COUNT // THREADS)
    return threads + tl.arange(0, COUNT // THREADS // 4)[:, None, None] * 4 + tl.arange(0, 4)[None, None, :]


@triton.jit
def in_fours(values):
    """The first, second, third and fourth of each run of `values` [runs, threads, 4], which stay with the
    threads that have them."""
    even, odd = tl.split(tl.reshape(values, (values.shape[0], values.shape[1], 2, 2)))
    first, third = tl.split(even)
    second, fourth = tl.split(odd)
    return first, second, third, fourth


@triton.jit
def places_of_fours(a, b, c, d):
    """(the number of each that is set among the set flags of runs, a to d as `in_fours` divides them, in the
    order of `in_runs`; how many there are)."""
    second = a.to(tl.int32)
    third = second + b.to(tl.int32)
    fourth = third + c.to(tl.int32)
    runs = fourth + d.to(tl.int32)
    threads = tl.sum(runs, 0)
    place = (tl.cumsum(threads, 0) - threads)[None, :] + (tl.cumsum(runs, 0) - runs)
    return place, place + second, place + third, place + fourth, tl.sum(threads, 0)


@triton.jit
def places_of(wanted):
    """(the number of each of the `wanted` [lines, columns] among them, line by line; how many there are)."""
    ones = wanted.to(tl.int32)
    return upto(ones) - 1, tl.sum(tl.sum(ones, 1), 0)


@triton.jit
def maxima_of(maxima, groups, GROUPS: tl.constexpr):
    """The maxima of all groups of a row, as `in_runs`."""
    numbers = in_runs(GROUPS)
    return tl.load(maxima + numbers, mask=numbers < groups, other=REMOVED)


@triton.jit
def hot_of(orders, key, fault, need, hot, COARSE: tl.constexpr, WHOLE: tl.constexpr):
    """(A bound that at least the first `need` tokens of the row pass, all with WHOLE; how many groups hold
    such tokens, none if the row is faulty), for the `maxima_of` a row, of which `key` has the greatest. The
    numbers of these groups, ascending, in `hot`."""
    bound = tl.full((), EVERY_KEY, tl.int64)
    RUNS: tl.constexpr = orders.shape[0] * orders.shape[1]
    COARSER: tl.constexpr = RUNS if COARSE <= RUNS else 4 * RUNS
    if not WHOLE:
        coarser = tl.reshape(tl.max(orders, 2) if COARSE <= RUNS else orders, (COARSER,))
        bound = nth_best(coarser, value_of_key(key), need)
    least = tl.where(fault == 0, order_of_bound(bound), 0x7FFFFFFF)
    a, b, c, d = in_fours(orders)
    a, b, c, d = a >= least, b >= least, c >= least, d >= least
    place, second, third, fourth, count = places_of_fours(a, b, c, d)
    numbers, _, _, _ = in_fours(in_runs(4 * RUNS))
    tl.store(hot + place, numbers.to(tl.int16), mask=a)
    tl.store(hot + second, (numbers + 1).to(tl.int16), mask=b)
    tl.store(hot + third, (numbers + 2).to(tl.int16), mask=c)
    tl.store(hot + fourth, (numbers + 3).to(tl.int16), mask=d)
    return bound, count


class Scanned(NamedTuple):
    """What `scan` has written of all rows, in a kernel, and how many tiles and groups a row has."""

    highest: Any
    first: Any
    alive: Any
    maxima: Any
    tiles: Any
    groups: Any


class RowSummaries(NamedTuple):
    """Where `summarize` writes what it describes, of all rows."""

    peaks: Any
    faults: Any
    best: Any
    last: Any
    hot: Any
    tokens: Any


@triton.jit
def summary_of(row, source, scanned, summary, needs, need,
               TILE: tl.constexpr, GROUP: tl.constexpr,
               TILES: tl.constexpr, GROUPS: tl.constexpr, COARSE: tl.constexpr, WHOLE: tl.constexpr,
               MASKED: tl.constexpr, EDITED: tl.constexpr, HEATED: tl.constexpr,
               GROUPED: tl.constexpr, NEEDS: tl.constexpr, BEST: tl.constexpr):  # fmt: skip
    """What `summarize` writes into `summary`, of a `LogitRow` that has been `scanned`. (How many groups are
    in `hot`, the bound `last`), without GROUPED (0, a bound that every token passes)."""
    # Everything whose address is known at once is asked for at once.
    if GROUPED:
        orders = maxima_of(scanned.maxima + row * scanned.groups, scanned.groups, GROUPS)
        if NEEDS:
            need = tl.minimum(tl.load(needs + row), need).to(tl.int32)
    peak, fault, key = peak_fault_and_key(row, scanned.highest, scanned.first, scanned.alive, scanned.tiles,
                                          TILES, MASKED, EDITED)  # fmt: skip
    # The first token's group is on its way while the bound is searched for.
    best_key = first_key(tl.where(fault == 0, key, source.vocab), source, TILE, GROUP, MASKED, EDITED, HEATED)
    tl.store(summary.peaks + row, peak)
    tl.store(summary.faults + row, fault.to(tl.int64))
    bound = tl.full((), EVERY_KEY, tl.int64)
    count = 0
    if GROUPED:
        bound, count = hot_of(orders, key, fault, need, summary.hot + row * scanned.groups, COARSE, WHOLE)
        tl.store(summary.last + row, bound)
    key = tl.where(fault == 0, best_key, key)
    tl.store(summary.best + row, key)
    token = tl.full((), -1, tl.int64)
    if BEST:
        token = tl.where(fault == 0, key & 0xFFFFFFFF, -1)
    tl.store(summary.tokens + row, token)
    return count, bound


@kernel()
def summarize(logits, index, bitmask, edit_ids, edit_values, spans, scales,
              highest, first, alive, maxima, needs,
              peaks, faults, best, last, counts, hot, hot_counts, tokens,
              row_stride, mask_stride, edit_stride, spans_stride, tiles, vocab,
              groups, need,
              TILE: tl.constexpr, GROUP: tl.constexpr,
              TILES: tl.constexpr, GROUPS: tl.constexpr, COARSE: tl.constexpr, WHOLE: tl.constexpr,
              MASKED: tl.constexpr, EDITED: tl.constexpr, HEATED: tl.constexpr,
              GROUPED: tl.constexpr, NEEDS: tl.constexpr, BEST: tl.constexpr):  # fmt: skip
    """What is known of a row after the scan; grid (rows,). `peaks`, `faults`: the greatest raw logit, and
    whether the row is faulty. `best`: the key of its first token, for which the group that holds it is read
    again. `last`: what `gather` compares with, a bound that at least the first `need` tokens pass, or with
    WHOLE all; `hot`: the numbers of the `hot_counts` groups that hold such tokens, ascending. `tokens`
    is −1 and `counts` 0 until later kernels write them; with BEST, `tokens` is the first token."""
    row = tl.program_id(0)
    edits = row.to(tl.int64) * edit_stride
    source = LogitRow(logits + tl.load(index + row) * row_stride, bitmask + row.to(tl.int64) * mask_stride,
                      edit_ids + edits, edit_values + edits, spans + row * spans_stride,
                      tl.load(scales + row) if HEATED else 1.0, vocab)  # fmt: skip
    scanned = Scanned(highest, first, alive, maxima, tiles, groups)
    summary = RowSummaries(peaks, faults, best, last, hot, tokens)
    count, _ = summary_of(row, source, scanned, summary, needs, need, TILE, GROUP, TILES, GROUPS, COARSE,
                          WHOLE, MASKED, EDITED, HEATED, GROUPED, NEEDS, BEST)  # fmt: skip
    tl.store(counts + row, 0)
    if GROUPED:
        tl.store(hot_counts + row, count)


@triton.jit
def nth_best(orders, peak, need):
    """A key that the logits of the `need` greatest of some maxima do not exceed; `orders`: of these, of which
    `peak` is the greatest. Maxima of disjoint groups are logits, so at least `need` logits pass it. If fewer
    groups have a token, a bound that every token passes.

    A radix select, eight bits a round, on the distance from the greatest as a float with five bits of
    exponent, down from that of the farthest, and eleven of mantissa: the bound lies at most one in 2,048 of
    this distance too far. Distances are rounded when they are taken, which keeps their order; a logit at most
    D away by its rounded distance is above peak − D·(1 + 2^−22), and not below what that is rounded to."""
    active = orders > REMOVED
    # Within ±2^126 no distance overflows. A bound below that might miss what lies beyond.
    peak = tl.minimum(tl.maximum(peak, -FARTHEST), FARTHEST)
    far = peak - tl.maximum(value_of(orders), -FARTHEST)
    bits = tl.where(active, far, 0.0).to(tl.int32, bitcast=True)
    lowest = tl.maximum((tl.max(bits, 0) >> 23) - 31, 0) << 11
    code = tl.maximum((bits >> 12) - lowest, 0)
    high, before = nth_digit(code >> 8, active, need)
    low, _ = nth_digit(code & 255, active & (code >> 8 == high), need - before)
    edge = tl.where(high < 256, (((high << 8) + low + lowest + 1) << 12) - 1, 0)
    threshold = peak - edge.to(tl.float32, bitcast=True) * BEYOND
    bound = ((~order_of(threshold)).to(tl.int64) << 32) | 0xFFFFFFFF
    return tl.where((high < 256) & (threshold > -FARTHEST), bound, EVERY_KEY)


BEYOND, FARTHEST = tl.constexpr(1.0 + 2.0**-22), tl.constexpr(2.0**126)


@triton.jit
def nth_digit(digits, active, need):
    """(the digit of the `need`-th of the `active` in ascending order, how many have smaller ones); 256 if
    there are fewer."""
    upto = tl.cumsum(tl.histogram(digits, 256, mask=active), 0)
    # Both in one number, of the last digit that does not suffice: there are fewer than 2^16.
    smaller = ((tl.arange(0, 256) + 1) << 16) + upto
    last = tl.max(tl.where(upto < need, smaller, 0), 0)
    return last >> 16, last & 0xFFFF


@triton.jit
def read_hot(source, hot, places, inside, count, TILE: tl.constexpr, GROUP: tl.constexpr,
             MASKED: tl.constexpr, EDITED: tl.constexpr, HEATED: tl.constexpr):  # fmt: skip
    """(the logits, their ids) of tokens number `inside` of the groups number `places` of the `count` in
    `hot`, of a `LogitRow`; −inf beyond these."""
    live = places < count
    chosen = tl.load(hot + places, mask=live, other=0).to(tl.int32)
    ids = chosen * GROUP + inside
    values = limited(read_raw(source.logits, ids, live, source.vocab))
    if MASKED:
        values = tl.where(allowed_by(source.words, ids, live, source.vocab), values, float("-inf"))
    if EDITED:
        lines = chosen // (TILE // GROUP)
        low, high = tl.load(source.spans + lines), tl.load(source.spans + lines + 1)
        values = edited_anywhere(values, ids, source.edit_ids, source.edit_values, low, high)
    if HEATED:
        values = heated(values, source.scale)
    return values, ids


@triton.jit
def append(items, wanted, listing, length, LIST: tl.constexpr):
    """Add the `wanted` of `items` [lines, columns] to a list, as far as they fit, and their number to its
    `length`. Programs get places from an integer counter, each once: their order does not matter, since what
    is listed is sorted."""
    places, added = places_of(wanted)
    if added > 0:
        places += tl.atomic_add(length, added, sem="relaxed")
        tl.store(listing + places, items, mask=wanted & (places < LIST))


@kernel()
def gather(logits, index, bitmask, edit_ids, edit_values, spans, scales,
           last, counts, hot, hot_counts, candidates,
           row_stride, mask_stride, edit_stride, spans_stride, tiles, vocab, programs,
           TILE: tl.constexpr, GROUP: tl.constexpr, STEP: tl.constexpr, CAPACITY: tl.constexpr,
           MASKED: tl.constexpr, EDITED: tl.constexpr, HEATED: tl.constexpr):  # fmt: skip
    """The keys of the tokens that pass the bound `last`, in any order: `candidates` [CAPACITY] and how many
    there are in `counts`, which may be more than fit. Grid (rows, programs): each program reads STEP of the
    groups `hot` at a time."""
    row, number = tl.program_id(0), tl.program_id(1)
    edits = row.to(tl.int64) * edit_stride
    source = LogitRow(logits + tl.load(index + row) * row_stride, bitmask + row.to(tl.int64) * mask_stride,
                      edit_ids + edits, edit_values + edits, spans + row * spans_stride,
                      tl.load(scales + row) if HEATED else 1.0, vocab)  # fmt: skip
    groups = tiles * (TILE // GROUP)
    bound = tl.load(last + row)
    count = tl.load(hot_counts + row)
    count = tl.where(bound == NO_BOUND, 0, count)
    for start in range(number * STEP, count, programs * STEP):
        values, ids = read_hot(source, hot + row * groups, start + tl.arange(0, STEP)[:, None],
                               tl.arange(0, GROUP)[None, :], count, TILE, GROUP, MASKED, EDITED,
                               HEATED)  # fmt: skip
        keys = key_of(values, ids)
        append(keys, keys <= bound, candidates + row.to(tl.int64) * CAPACITY, counts + row, CAPACITY)
