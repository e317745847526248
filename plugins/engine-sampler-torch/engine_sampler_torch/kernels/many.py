"""Draw from rows of any number of tokens: the weight of each tile, then the tile, then the token inside it."""

import triton
import triton.language as tl

from .numbers import NO_KEY, scaled_draw, value_of_key, weight_of
from .reading import read


@triton.jit
def weigh(logits, index, bitmask, edit_ids, edit_values, spans, scales, first, faults, best, masses,
          row_stride, mask_stride, edit_stride, spans_stride, tiles, vocab,
          TILE: tl.constexpr,
          MASKED: tl.constexpr, EDITED: tl.constexpr, HEATED: tl.constexpr):  # fmt: skip
    """masses[row, tile] = the weight of the tile, int64; grid (rows, tiles). A tile whose best token weighs nothing is
    not read."""
    row, tile = tl.program_id(0), tl.program_id(1)
    peak = value_of_key(tl.load(best + row))
    greatest = value_of_key(tl.load(first + row * tiles + tile))
    mass = tl.full((), 0, tl.int64)
    if (weight_of(greatest, peak) > 0) & (tl.load(faults + row) == 0):
        ids = tile * TILE + tl.arange(0, TILE)
        edits = row.to(tl.int64) * edit_stride
        values = read(logits + tl.load(index + row) * row_stride, bitmask + row.to(tl.int64) * mask_stride,
                      edit_ids + edits, edit_values + edits, spans + row * spans_stride,
                      tl.load(scales + row) if HEATED else 1.0, tile, ids, ids >= 0, vocab,
                      MASKED, EDITED, HEATED)  # fmt: skip
        mass = tl.sum(weight_of(values, peak), 0)
    tl.store(masses + row * tiles + tile, mass)


@triton.jit
def draw(logits, index, bitmask, edit_ids, edit_values, spans, scales, faults, best, masses, greedy, draws, tokens,
         row_stride, mask_stride, edit_stride, spans_stride, tiles, vocab,
         TILE: tl.constexpr, TILES: tl.constexpr, GREEDY: tl.constexpr,
         MASKED: tl.constexpr, EDITED: tl.constexpr, HEATED: tl.constexpr):  # fmt: skip
    """The first id whose cumulative weight exceeds (r·S) >> 64; grid (rows,). Only the tile that holds it is read."""
    row = tl.program_id(0)
    if tl.load(faults + row) == 0:
        key = tl.load(best + row)
        token = key & 0xFFFFFFFF
        chosen = key == NO_KEY
        if GREEDY:
            chosen = tl.load(greedy + row) != 0
        if not chosen:
            peak = value_of_key(key)
            places = tl.arange(0, TILES)
            parts = tl.load(masses + row * tiles + places, mask=places < tiles, other=0)
            target = scaled_draw(tl.load(draws + row), tl.sum(parts, 0))
            before = tl.cumsum(parts, 0) <= target
            tile = tl.sum(before.to(tl.int32), 0)
            target -= tl.sum(tl.where(before, parts, 0), 0)
            ids = tile * TILE + tl.arange(0, TILE)
            edits = row.to(tl.int64) * edit_stride
            values = read(logits + tl.load(index + row) * row_stride, bitmask + row.to(tl.int64) * mask_stride,
                          edit_ids + edits, edit_values + edits, spans + row * spans_stride,
                          tl.load(scales + row) if HEATED else 1.0, tile, ids, ids >= 0, vocab,
                          MASKED, EDITED, HEATED)  # fmt: skip
            upto = tl.cumsum(weight_of(values, peak), 0)
            token = (tile * TILE + tl.sum((upto <= target).to(tl.int32), 0)).to(tl.int64)
        tl.store(tokens + row, token)
