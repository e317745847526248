"""How every kernel reads logits: as the chain sees them, after limits, mask, edits and a leading temperature.

Nothing is written back: each kernel that needs a logit reads it and lays mask and edits over it again, which
costs less than a second copy of the row. A tile is the ids `ids` (any shape) of which the lanes `live` count.
"""

from typing import Any, NamedTuple

import triton
import triton.language as tl

from .numbers import LIMIT, heated


class LogitRow(NamedTuple):
    """A row of logits as the chain reads it, in a kernel.

    logits                  where it begins; `words`: its mask.
    edit_ids, edit_values   its edits; `spans`: how many of them lie before each tile.
    scale                   what a leading temperature multiplies logits by; `vocab`: how many tokens it has.
    """

    logits: Any
    words: Any
    edit_ids: Any
    edit_values: Any
    spans: Any
    scale: Any
    vocab: Any


@triton.jit
def read_raw(row, ids, live, vocab):
    """float32 logits of `ids` in the row at `row`; −inf outside the vocabulary and where not `live`."""
    return tl.load(row + ids, mask=live & (ids < vocab), other=float("-inf")).to(tl.float32)


@triton.jit
def limited(raw):
    """A logit below −2^100 reads as −inf."""
    return tl.where(raw < -LIMIT, float("-inf"), raw)


@triton.jit
def allowed_by(words, ids, live, vocab):
    """Whether the bit of each id is set in the mask at `words`."""
    word = tl.load(words + (ids >> 5), mask=live & (ids < vocab), other=0)
    return ((word >> (ids & 31)) & 1) != 0


@triton.jit
def edited(values, ids, edit_ids, edit_values, low, high):
    """`values`, with the edits number `low` to `high` − 1 of this row in the place of their ids. A removed
    token stays removed. The loop is short: an engine's edits are spread over all tiles of a row."""
    removed = values == float("-inf")
    for i in range(low, high):
        values = tl.where(ids == tl.load(edit_ids + i).to(tl.int32), tl.load(edit_values + i), values)
    return tl.where(removed, float("-inf"), values)


@triton.jit
def edited_anywhere(values, ids, edit_ids, edit_values, low, high):
    """`edited` for ids from different tiles: `low` and `high`, of a shape that stretches to theirs, say for
    each which edits are its tile's. Each id is searched for among them, by halves."""
    most = tl.max(high - low)
    left, right = low + ids * 0, high + ids * 0
    end = right
    while most > 0:
        middle = (left + right) >> 1
        is_open = left < right
        before = is_open & (tl.load(edit_ids + middle, mask=is_open, other=0) < ids)
        left = tl.where(before, middle + 1, left)
        right = tl.where(is_open & ~before, middle, right)
        most >>= 1
    inside = left < end
    hit = inside & (tl.load(edit_ids + left, mask=inside, other=-1) == ids) & (values > float("-inf"))
    return tl.where(hit, tl.load(edit_values + left, mask=hit, other=0.0), values)


@triton.jit
def read(row, words, edit_ids, edit_values, spans, scale, tile, ids, live, vocab,
         MASKED: tl.constexpr, EDITED: tl.constexpr, HEATED: tl.constexpr):  # fmt: skip
    """float32 logits of `ids`, which lie in tile number `tile` of the row, as the chain finds them."""
    values = limited(read_raw(row, ids, live, vocab))
    if MASKED:
        values = tl.where(allowed_by(words, ids, live, vocab), values, float("-inf"))
    if EDITED:
        low, high = tl.load(spans + tile), tl.load(spans + tile + 1)
        values = edited(values, ids, edit_ids, edit_values, low, high)
    if HEATED:
        values = heated(values, scale)
    return values
