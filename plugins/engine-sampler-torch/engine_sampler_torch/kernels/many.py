"""Draw from rows of any number of tokens: the weight of each tile, then the tile, then the token inside it.

With BOUNDED, only rows of `state` 2 are drawn from (see `flat`), and of these the tokens whose keys do not
exceed `cuts` before a later temperature and `lates` after it.
"""

import triton
import triton.language as tl

from .numbers import NO_KEY, heated, kernel, key_of, scaled_draw, value_of_key, weight_of
from .reading import read


@triton.jit
def bounded(values, ids, cut, late, scale):
    """`values` without those beyond the bounds, times `scale`."""
    values = heated(tl.where(key_of(values, ids) <= cut, values, float("-inf")), scale)
    return tl.where(key_of(values, ids) <= late, values, float("-inf"))


@kernel()
def weigh(logits, index, bitmask, edit_ids, edit_values, spans, scales, first, faults, best, masses,
          state, cuts, lates, later_scales,
          row_stride, mask_stride, edit_stride, spans_stride, tiles, vocab,
          TILE: tl.constexpr, BOUNDED: tl.constexpr, LATER: tl.constexpr,
          MASKED: tl.constexpr, EDITED: tl.constexpr, HEATED: tl.constexpr):  # fmt: skip
    """masses[row, tile] = the weight of the tile, int64; grid (rows, tiles). A tile whose best token weighs
    nothing is not read."""
    row, tile = tl.program_id(0), tl.program_id(1)
    scale = tl.load(later_scales + row) if LATER else 1.0
    peak = heated(value_of_key(tl.load(best + row)), scale)
    greatest = heated(value_of_key(tl.load(first + row * tiles + tile)), scale)
    wanted = (weight_of(greatest, peak) > 0) & (tl.load(faults + row) == 0)
    if BOUNDED:
        wanted = wanted & (tl.load(state + row) == 2)
    mass = tl.full((), 0, tl.int64)
    if wanted:
        ids = tile * TILE + tl.arange(0, TILE)
        edits = row.to(tl.int64) * edit_stride
        source = logits + tl.load(index + row) * row_stride
        values = read(source, bitmask + row.to(tl.int64) * mask_stride,
                      edit_ids + edits, edit_values + edits, spans + row * spans_stride,
                      tl.load(scales + row) if HEATED else 1.0, tile, ids, ids >= 0, vocab,
                      MASKED, EDITED, HEATED)  # fmt: skip
        if BOUNDED:
            values = bounded(values, ids, tl.load(cuts + row), tl.load(lates + row), scale)
        mass = tl.sum(weight_of(values, peak), 0)
    tl.store(masses + row * tiles + tile, mass)


@kernel()
def draw(logits, index, bitmask, edit_ids, edit_values, spans, scales, faults, best, masses, greedy, draws,
         tokens,
         state, cuts, lates, later_scales,
         row_stride, mask_stride, edit_stride, spans_stride, tiles, vocab,
         TILE: tl.constexpr, TILES: tl.constexpr, GREEDY: tl.constexpr, BOUNDED: tl.constexpr,
         LATER: tl.constexpr,
         MASKED: tl.constexpr, EDITED: tl.constexpr, HEATED: tl.constexpr):  # fmt: skip
    """The first id whose cumulative weight exceeds (r·S) >> 64; grid (rows,). Only the tile that holds it is
    read."""
    row = tl.program_id(0)
    wanted = tl.load(faults + row) == 0
    if BOUNDED:
        wanted = wanted & (tl.load(state + row) == 2)
    if wanted:
        key = tl.load(best + row)
        token = key & 0xFFFFFFFF
        chosen = key == NO_KEY
        if GREEDY:
            chosen = tl.load(greedy + row) != 0
        if not chosen:
            scale = tl.load(later_scales + row) if LATER else 1.0
            peak = heated(value_of_key(key), scale)
            places = tl.arange(0, TILES)
            parts = tl.load(masses + row * tiles + places, mask=places < tiles, other=0)
            target = scaled_draw(tl.load(draws + row), tl.sum(parts, 0))
            before = tl.cumsum(parts, 0) <= target
            tile = tl.sum(before.to(tl.int32), 0)
            target -= tl.sum(tl.where(before, parts, 0), 0)
            ids = tile * TILE + tl.arange(0, TILE)
            edits = row.to(tl.int64) * edit_stride
            source = logits + tl.load(index + row) * row_stride
            values = read(source, bitmask + row.to(tl.int64) * mask_stride,
                          edit_ids + edits, edit_values + edits, spans + row * spans_stride,
                          tl.load(scales + row) if HEATED else 1.0, tile, ids, ids >= 0, vocab,
                          MASKED, EDITED, HEATED)  # fmt: skip
            if BOUNDED:
                values = bounded(values, ids, tl.load(cuts + row), tl.load(lates + row), scale)
            upto = tl.cumsum(weight_of(values, peak), 0)
            token = (tile * TILE + tl.sum((upto <= target).to(tl.int32), 0)).to(tl.int64)
        tl.store(tokens + row, token)
