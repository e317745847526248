"""Draw from rows of any number of tokens: the weight of each tile, then the tile, then the token inside it.
Where the estimates of `certificate` leave one token only, it is drawn without weighing the row.

With BOUNDED, only rows of `state` 2 are drawn from (see `flat`), and of these the tokens whose keys do not
exceed `cuts` before a later temperature and `lates` after it.
"""

import triton
import triton.language as tl

from .certificate import bounds_of
from .numbers import (
    NO_KEY,
    heated,
    in_lines,
    kernel,
    scaled_draw,
    upto,
    value_of_key,
    weight_of,
    within,
)
from .reading import LogitRow, read
from .scan import first_key, peak_fault_and_key


@triton.jit
def bounded(values, ids, cut, late, scale):
    """`values` without those beyond the bounds, times `scale`."""
    values = heated(tl.where(within(values, ids, cut), values, float("-inf")), scale)
    return tl.where(within(values, ids, late), values, float("-inf"))


@kernel()
def decide(logits, index, bitmask, edit_ids, edit_values, spans, scales,
           highest, first, alive, estimates, greedy, draws,
           peaks, faults, best, tokens,
           row_stride, mask_stride, edit_stride, spans_stride, tiles, vocab,
           TILE: tl.constexpr, GROUP: tl.constexpr, TILES: tl.constexpr, DOUBT: tl.constexpr,
           GREEDY: tl.constexpr,
           MASKED: tl.constexpr, EDITED: tl.constexpr, HEATED: tl.constexpr):  # fmt: skip
    """A draw from whole rows that have been scanned; grid (rows,). `peaks` and `faults` as in `summarize`;
    `best`: a key with the row's greatest logit. `tokens`: what is drawn, where the estimates of the tiles
    leave one token only; else −1, for `weigh` and `draw`. One tile is read: where the draw should fall."""
    row = tl.program_id(0)
    source = logits + tl.load(index + row) * row_stride
    words = bitmask + row.to(tl.int64) * mask_stride
    edits = row.to(tl.int64) * edit_stride
    scale = tl.load(scales + row) if HEATED else 1.0
    bits = tl.load(draws + row)
    places = tl.arange(0, TILES)
    inside = places < tiles
    shares = tl.load(estimates + row * tiles + places, mask=inside, other=0.0)
    firsts = tl.load(first + row * tiles + places, mask=inside, other=NO_KEY)
    highest_raw, fault, key = peak_fault_and_key(row, highest, first, alive, tiles, TILES, MASKED, EDITED)
    token = tl.full((), -1, tl.int64)
    undecided = fault == 0
    if GREEDY:
        settled = undecided & (tl.load(greedy + row) != 0)
        if settled:
            at = LogitRow(source, words, edit_ids + edits, edit_values + edits, spans + row * spans_stride,
                          scale, vocab)  # fmt: skip
            key = first_key(key, at, TILE, GROUP, MASKED, EDITED, HEATED)
            token = key & 0xFFFFFFFF
            undecided = row < 0
    tl.store(peaks + row, highest_raw)
    tl.store(faults + row, fault.to(tl.int64))
    tl.store(best + row, key)
    if undecided:
        peak = value_of_key(key)
        least, most = bounds_of(shares, firsts, peak, TILE, DOUBT)
        middle = (least + most) >> 1
        target = scaled_draw(bits, tl.sum(middle, 0))
        tile = tl.minimum(tl.sum((tl.cumsum(middle, 0) <= target).to(tl.int32), 0), tiles - 1)
        ids = tile * TILE + in_lines(TILE)
        values = read(source, words, edit_ids + edits, edit_values + edits, spans + row * spans_stride,
                      scale, tile, ids, ids >= 0, vocab, MASKED, EDITED, HEATED)  # fmt: skip
        weights = weight_of(values, peak)
        sums, mass = upto(weights), tl.sum(tl.sum(weights, 1), 0)
        # How far the draw reaches into this tile falls with what lies before it and grows with the rest.
        least_before = tl.sum(tl.where(places < tile, least, 0), 0)
        most_before = tl.sum(tl.where(places < tile, most, 0), 0)
        least_after = tl.sum(tl.where(places > tile, least, 0), 0)
        most_after = tl.sum(tl.where(places > tile, most, 0), 0)
        low = scaled_draw(bits, most_before + mass + least_after) - most_before
        high = scaled_draw(bits, least_before + mass + most_after) - least_before
        count = how_many(sums <= low)
        if (low >= 0) & (high < mass) & (count == how_many(sums <= high)):
            token = (tile * TILE + count).to(tl.int64)
    tl.store(tokens + row, token)


@kernel()
def weigh(logits, index, bitmask, edit_ids, edit_values, spans, scales, first, faults, best, tokens, masses,
          state, cuts, lates, later_scales,
          row_stride, mask_stride, edit_stride, spans_stride, tiles, vocab,
          TILE: tl.constexpr, BOUNDED: tl.constexpr, LATER: tl.constexpr,
          MASKED: tl.constexpr, EDITED: tl.constexpr, HEATED: tl.constexpr):  # fmt: skip
    """masses[row, tile] = the weight of the tile, int64, in sound rows without a token; grid (rows,
    programs). A tile whose best token weighs nothing is not read."""
    row = tl.program_id(0)
    wanted = (tl.load(tokens + row) < 0) & (tl.load(faults + row) == 0)
    if BOUNDED:
        wanted = wanted & (tl.load(state + row) == 2)
    if wanted:
        scale = tl.load(later_scales + row) if LATER else 1.0
        peak = heated(value_of_key(tl.load(best + row)), scale)
        edits = row.to(tl.int64) * edit_stride
        source = logits + tl.load(index + row) * row_stride
        for tile in range(tl.program_id(1), tiles, tl.num_programs(1)):
            greatest = heated(value_of_key(tl.load(first + row * tiles + tile)), scale)
            mass = tl.full((), 0, tl.int64)
            if weight_of(greatest, peak) > 0:
                ids = tile * TILE + tl.arange(0, TILE)
                values = read(source, bitmask + row.to(tl.int64) * mask_stride,
                              edit_ids + edits, edit_values + edits, spans + row * spans_stride,
                              tl.load(scales + row) if HEATED else 1.0, tile, ids, ids >= 0, vocab,
                              MASKED, EDITED, HEATED)  # fmt: skip
                if BOUNDED:
                    values = bounded(values, ids, tl.load(cuts + row), tl.load(lates + row), scale)
                mass = tl.sum(weight_of(values, peak), 0)
            tl.store(masses + row * tiles + tile, mass)


@kernel()
def draw(logits, index, bitmask, edit_ids, edit_values, spans, scales, faults, best, masses, draws, tokens,
         state, cuts, lates, later_scales,
         row_stride, mask_stride, edit_stride, spans_stride, tiles, vocab,
         TILE: tl.constexpr, TILES: tl.constexpr, BOUNDED: tl.constexpr, LATER: tl.constexpr,
         MASKED: tl.constexpr, EDITED: tl.constexpr, HEATED: tl.constexpr):  # fmt: skip
    """The first id whose cumulative weight exceeds (r·S) >> 64, in rows that `weigh` has weighed; grid
    (rows,). Only the tile that holds it is read."""
    row = tl.program_id(0)
    wanted = (tl.load(tokens + row) < 0) & (tl.load(faults + row) == 0)
    if BOUNDED:
        wanted = wanted & (tl.load(state + row) == 2)
    if wanted:
        scale = tl.load(later_scales + row) if LATER else 1.0
        cut, late = tl.full((), NO_KEY, tl.int64), tl.full((), NO_KEY, tl.int64)
        if BOUNDED:
            cut, late = tl.load(cuts + row), tl.load(lates + row)
        edits = row.to(tl.int64) * edit_stride
        token = drawn_from(logits + tl.load(index + row) * row_stride,
                           bitmask + row.to(tl.int64) * mask_stride,
                           edit_ids + edits, edit_values + edits, spans + row * spans_stride,
                           tl.load(scales + row) if HEATED else 1.0,
                           masses + row * tiles, heated(value_of_key(tl.load(best + row)), scale),
                           tl.load(draws + row), cut, late, scale, tiles, vocab, TILE, TILES, BOUNDED,
                           MASKED, EDITED, HEATED)  # fmt: skip
        tl.store(tokens + row, token)


@triton.jit
def drawn_from(source, words, edit_ids, edit_values, spans, lead, masses, peak, bits, cut, late, scale,
               tiles, vocab,
               TILE: tl.constexpr, TILES: tl.constexpr, BOUNDED: tl.constexpr,
               MASKED: tl.constexpr, EDITED: tl.constexpr, HEATED: tl.constexpr):  # fmt: skip
    """The token that a draw chooses, int64, where the tiles weigh `masses`."""
    places = tl.arange(0, TILES)
    parts = tl.load(masses + places, mask=places < tiles, other=0)
    target = scaled_draw(bits, tl.sum(parts, 0))
    before = tl.cumsum(parts, 0) <= target
    tile = tl.sum(before.to(tl.int32), 0)
    target -= tl.sum(tl.where(before, parts, 0), 0)
    ids = tile * TILE + in_lines(TILE)
    values = read(source, words, edit_ids, edit_values, spans, lead, tile, ids, ids >= 0, vocab,
                  MASKED, EDITED, HEATED)  # fmt: skip
    if BOUNDED:
        values = bounded(values, ids, cut, late, scale)
    return (tile * TILE + how_many(upto(weight_of(values, peak)) <= target)).to(tl.int64)


@triton.jit
def how_many(flags):
    """How many of some flags [lines, columns] are set."""
    return tl.sum(tl.sum(flags.to(tl.int32), 1), 0)
