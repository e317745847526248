"""The candidates of a row, found and put in order by one program: what `scan.summarize`, `scan.gather` and
`few.sort_candidates` do, in one launch, for chains that want few. `sample_within_top_k` also runs the chain
on them.

Each program reads back only its own writes, after a barrier; programs share nothing.
"""

import triton
import triton.language as tl

from .few import cut_down, drawn_or_first
from .numbers import NO_KEY, kernel, key_of_number, order_of_bound, value_of, value_of_key
from .reading import LogitRow
from .scan import (
    RowSummaries,
    Scanned,
    hot_of,
    in_fours,
    in_runs,
    maxima_of,
    peak_fault_and_key,
    places_of_fours,
    read_hot,
    summary_of,
)
from .whole import list_first

SEARCHED_AT_ONCE = tl.constexpr(512)
"""How many logits are looked at at once where whole rows are searched."""
RANKED_AT_ONCE = tl.constexpr(64)
"""How many candidates are compared with as many at once."""


@triton.jit
def store_passing(by_id, places, values, ids, least, CAPACITY: tl.constexpr):
    """The keys of `values` that are not below `least` in their places, as far as there are."""
    tl.store(by_id + places, key_of_number(values, ids), mask=(values >= least) & (places < CAPACITY))


@triton.jit
def list_passing(source, hot, hot_count, bound, by_id,
                 TILE: tl.constexpr, GROUP: tl.constexpr, CAPACITY: tl.constexpr, AT_ONCE: tl.constexpr,
                 MASKED: tl.constexpr, EDITED: tl.constexpr, HEATED: tl.constexpr):  # fmt: skip
    """How many tokens in the `hot_count` groups `hot` of a `LogitRow` pass `bound`; the keys of the first
    CAPACITY of them in `by_id`. AT_ONCE groups are read at a time, by ascending ids, and keys put in places
    that are counted, so that they are found by id. The bound is a logit's, so that ids need not be looked
    at."""
    least = value_of(order_of_bound(bound))
    slots, inside = slots_of(GROUP, AT_ONCE)
    count = 0
    for start in range(0, hot_count, AT_ONCE):
        values, ids = read_hot(source, hot, start + slots, inside, hot_count, TILE, GROUP, MASKED, EDITED,
                               HEATED)  # fmt: skip
        a, b, c, d = in_fours(values)
        first, second, third, fourth = in_fours(ids)
        place, next_place, third_place, last_place, added = places_of_fours(
            a >= least, b >= least, c >= least, d >= least
        )
        store_passing(by_id, count + place, a, first, least, CAPACITY)
        store_passing(by_id, count + next_place, b, second, least, CAPACITY)
        store_passing(by_id, count + third_place, c, third, least, CAPACITY)
        store_passing(by_id, count + last_place, d, fourth, least, CAPACITY)
        count += added
    return count


@triton.jit
def slots_of(GROUP: tl.constexpr, AT_ONCE: tl.constexpr):
    """Which of AT_ONCE groups a thread reads, and which of its ids, as `in_runs`."""
    numbers = in_runs(GROUP * AT_ONCE)
    PART: tl.constexpr = 4 * numbers.shape[0]
    if PART > GROUP:
        slots, inside = numbers // GROUP, numbers % GROUP
    else:
        starts = PART * tl.arange(0, numbers.shape[1])[None, :, None]
        slots = starts // GROUP
        inside = starts % GROUP + (numbers - starts)
    return slots, inside


@triton.jit
def put_in_order(by_id, ordered, count, CAPACITY: tl.constexpr):
    """The `count` keys `by_id`, as this program has listed them, in ascending order in `ordered`."""
    lanes = tl.arange(0, CAPACITY)
    tl.store(by_id + lanes, NO_KEY, mask=lanes >= count)
    tl.debug_barrier()
    steps = tl.arange(0, RANKED_AT_ONCE)
    for first in range(0, count, RANKED_AT_ONCE):
        mine = first + steps
        keys = tl.load(by_id + mine, mask=mine < count, other=NO_KEY)
        # One thread has few of these and many of the others, so that it adds up most of the comparisons.
        smaller = tl.full((RANKED_AT_ONCE, RANKED_AT_ONCE), 0, tl.int32)
        for start in range(0, count, RANKED_AT_ONCE):
            others = tl.load(by_id + start + steps)
            smaller += (others[:, None] < keys[None, :]).to(tl.int32)
        tl.store(ordered + tl.sum(smaller, 0), keys, mask=mine < count)


@kernel()
def find_candidates(logits, index, bitmask, edit_ids, edit_values, spans, scales,
                    highest, first, alive, maxima, needs,
                    peaks, faults, best, last, counts, hot, ordered, by_id, tokens,
                    row_stride, mask_stride, edit_stride, spans_stride, tiles, vocab,
                    groups, need,
                    TILE: tl.constexpr, GROUP: tl.constexpr,
                    TILES: tl.constexpr, GROUPS: tl.constexpr, COARSE: tl.constexpr, WHOLE: tl.constexpr,
                    CAPACITY: tl.constexpr, AT_ONCE: tl.constexpr,
                    MASKED: tl.constexpr, EDITED: tl.constexpr, HEATED: tl.constexpr,
                    NEEDS: tl.constexpr):  # fmt: skip
    """All that those three write but `hot_counts`; grid (rows,). After the keys `by_id`, CAPACITY places in
    all, stands NO_KEY."""
    row = tl.program_id(0)
    edits = row.to(tl.int64) * edit_stride
    source = LogitRow(logits + tl.load(index + row) * row_stride, bitmask + row.to(tl.int64) * mask_stride,
                      edit_ids + edits, edit_values + edits, spans + row * spans_stride,
                      tl.load(scales + row) if HEATED else 1.0, vocab)  # fmt: skip
    scanned = Scanned(highest, first, alive, maxima, tiles, groups)
    summary = RowSummaries(peaks, faults, best, last, hot, tokens)
    hot_count, bound = summary_of(row, source, scanned, summary, needs, need, TILE, GROUP, TILES, GROUPS,
                                  COARSE, WHOLE, MASKED, EDITED, HEATED, True, NEEDS, False)  # fmt: skip
    at = row.to(tl.int64) * CAPACITY
    tl.debug_barrier()
    count = list_passing(source, hot + row * groups, hot_count, bound, by_id + at, TILE, GROUP, CAPACITY,
                         AT_ONCE, MASKED, EDITED, HEATED)  # fmt: skip
    tl.store(counts + row, count)
    if count <= CAPACITY:
        put_in_order(by_id + at, ordered + at, count, CAPACITY)


@kernel()
def sample_within_top_k(logits, index, bitmask, edit_ids, edit_values, spans,
                        highest, first, alive, maxima,
                        peaks, faults, counts, hot, ordered, by_id, tokens,
                        scales, greedy, ks, shares, reaches, crossings, depths, leasts, draws,
                        row_stride, mask_stride, edit_stride, spans_stride, tiles, vocab,
                        groups, need,
                        TILE: tl.constexpr, GROUP: tl.constexpr,
                        TILES: tl.constexpr, GROUPS: tl.constexpr, COARSE: tl.constexpr, WHOLE: tl.constexpr,
                        CAPACITY: tl.constexpr, AT_ONCE: tl.constexpr,
                        OPS: tl.constexpr, SORTED: tl.constexpr, DRAWN: tl.constexpr, GREEDY: tl.constexpr,
                        MASKED: tl.constexpr, EDITED: tl.constexpr, HEATED: tl.constexpr):  # fmt: skip
    """The tokens of rows that a top_k cuts to at most half of CAPACITY before any sampler needs what whole
    rows weigh; grid (rows,). No answer is lost: all first k tokens of a row are among the candidates, and
    where more than CAPACITY pass the bound, the whole row is searched for the exact ones. `peaks` and
    `faults` as in `summarize`, `tokens` −1 for faulty rows; all else is written for this program alone."""
    row = tl.program_id(0)
    start = logits + tl.load(index + row) * row_stride
    # Everything whose address is known at once is asked for at once.
    scale, k = tl.load(scales + row), tl.load(ks + row)
    peak, fault, key = peak_fault_and_key(row, highest, first, alive, tiles, TILES, MASKED, EDITED)
    orders = maxima_of(maxima + row * groups, groups, GROUPS)
    tl.store(peaks + row, peak)
    tl.store(faults + row, fault.to(tl.int64))
    bound, hot_count = hot_of(orders, key, fault, tl.minimum(k, need).to(tl.int32), hot + row * groups,
                              COARSE, WHOLE)  # fmt: skip
    edits = row.to(tl.int64) * edit_stride
    source = LogitRow(start, bitmask + row.to(tl.int64) * mask_stride, edit_ids + edits, edit_values + edits,
                      spans + row * spans_stride, scale if HEATED else 1.0, vocab)  # fmt: skip
    at = row.to(tl.int64) * CAPACITY
    tl.debug_barrier()
    count = list_passing(source, hot + row * groups, hot_count, bound, by_id + at, TILE, GROUP, CAPACITY,
                         AT_ONCE, MASKED, EDITED, HEATED)  # fmt: skip
    if count > CAPACITY:
        tl.debug_barrier()  # these places are written again
        bound = list_first(source, k, by_id + at, TILE, SEARCHED_AT_ONCE, MASKED, EDITED, HEATED)
        count = k.to(tl.int32)
    tl.store(counts + row, count)
    token = tl.full((), -1, tl.int64)
    if count > 0:
        put_in_order(by_id + at, ordered + at, count, CAPACITY)
        lanes = tl.arange(0, CAPACITY)
        tl.debug_barrier()
        is_greedy = tl.load(greedy + row) != 0
        depth, fewest = tl.load(depths + row), tl.load(leasts + row)
        share, reach = tl.load(shares + row), tl.load(reaches + row) != 0
        crossing, bits = tl.load(crossings + row) != 0, tl.load(draws + row)
        s, t = tl.load(ordered + at + lanes), tl.load(by_id + at + lanes)
        t, peak, _, _, _, _ = cut_down(
            s, t, value_of_key(key), count, bound, is_greedy, scale, k, share, reach, crossing, depth,
            fewest, row, row, CAPACITY, OPS, SORTED, HEATED, False, GREEDY, False, False, False, TILE,
            0.0)  # fmt: skip
        token = drawn_or_first(t, peak, bits, DRAWN)
    tl.store(tokens + row, token)
