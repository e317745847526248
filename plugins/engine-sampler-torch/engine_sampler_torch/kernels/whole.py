"""Rows for which the candidates do not suffice: the whole chain by searching the row, one program a row.

The exact answer to anything, flat, tied or adversarial, at the price of ten to forty passes over the row by
one program. What remains of a row is described by two keys: a token remains if its key does not exceed `cut`
before the temperature, and `late` after it. Each sampler that cuts finds its last token: first the order of
its logit, four bits a pass, by the number or the weight of the tokens up to sixteen pivots; then its id
among those that tie. Nothing is written but the token, or what `list_first` lists.
"""

import triton
import triton.language as tl

from .few import MIN_P, TEMPERATURE, TOP_K, TOP_P
from .numbers import (
    NO_BOUND,
    NO_KEY,
    heated,
    kernel,
    key_of,
    min_p_bound,
    scaled_draw,
    share_limit,
    value_of,
    value_of_key,
    weight_of,
)
from .reading import read


@triton.jit
def remaining(source, words, edit_ids, edit_values, spans, lead, scale, cut, late, tile, ids, live, vocab,
              MASKED: tl.constexpr, EDITED: tl.constexpr, HEATED: tl.constexpr):  # fmt: skip
    """The keys of `ids` as they are now; `NO_KEY` for what has been removed."""
    values = read(source, words, edit_ids, edit_values, spans, lead, tile, ids, live, vocab,
                  MASKED, EDITED, HEATED)  # fmt: skip
    keys = key_of(values, ids)
    values = tl.where(keys <= cut, values, float("-inf"))
    keys = key_of(heated(values, scale), ids)
    return tl.where(keys <= late, keys, NO_KEY)


@triton.jit
def counted(keys, peak, weighed):
    """What each token adds: its weight, or 1; 0 if it is removed."""
    ones = (keys != NO_KEY).to(tl.int64)
    return tl.where(weighed, weight_of(value_of_key(keys), peak), ones)


@triton.jit
def last_within(source, words, edit_ids, edit_values, spans, lead, scale, cut, late, vocab,
                peak, weighed, limit, crossing,
                SPAN: tl.constexpr, TILE: tl.constexpr,
                MASKED: tl.constexpr, EDITED: tl.constexpr, HEATED: tl.constexpr):  # fmt: skip
    """The key of the last token that stays if the tokens inside `limit` do, by number or by weight, and with
    `crossing` the one that exceeds it too; `NO_KEY` if nothing exceeds it."""
    lanes = tl.arange(0, TILE)
    pivots = tl.arange(0, 16).to(tl.int64)
    prefix = tl.full((), -0x80000000, tl.int64)
    below = tl.full((), 0, tl.int64)
    exceeded = tl.full((), 1, tl.int1)
    bits = tl.full((), 28, tl.int64)
    while bits >= 0:
        edges = prefix + ((pivots + 1) << bits) - 1
        sums = tl.full((16,), 0, tl.int64)
        for start in range(0, vocab, TILE):
            ids = start + lanes
            keys = remaining(source, words, edit_ids, edit_values, spans, lead, scale, cut, late,
                             start // SPAN,
                             ids, ids >= 0, vocab, MASKED, EDITED, HEATED)  # fmt: skip
            adds = counted(keys, peak, weighed)
            sums += tl.sum(tl.where((keys >> 32)[None, :] <= edges[:, None], adds[None, :], 0), 1)
        chosen = tl.sum((sums <= limit).to(tl.int32), 0)
        exceeded = exceeded & (chosen < 16)
        chosen = tl.minimum(chosen, 15)
        below = tl.maximum(below, tl.max(tl.where(pivots < chosen, sums, 0), 0))
        prefix += chosen.to(tl.int64) << bits
        bits -= 4
    unit = tl.where(weighed, weight_of(value_of(~prefix.to(tl.int32)), peak), 1)
    last = (prefix << 32) - 1
    before = below
    for start in range(0, vocab, TILE):
        ids = start + lanes
        keys = remaining(source, words, edit_ids, edit_values, spans, lead, scale, cut, late, start // SPAN,
                         ids, ids >= 0, vocab, MASKED, EDITED, HEATED)  # fmt: skip
        tied = (keys >> 32) == prefix
        upto = before + tl.cumsum(tied.to(tl.int64), 0) * unit
        stays = tied & (upto - tl.where(crossing, unit, 0) <= limit)
        last = tl.maximum(last, tl.max(tl.where(stays, keys, -1 << 63), 0))
        before += tl.sum(tied.to(tl.int64), 0) * unit
    return tl.where(exceeded, last, NO_KEY)


@triton.jit
def total_of(source, words, edit_ids, edit_values, spans, lead, scale, cut, late, vocab, peak, weighed,
             SPAN: tl.constexpr, TILE: tl.constexpr,
             MASKED: tl.constexpr, EDITED: tl.constexpr, HEATED: tl.constexpr):  # fmt: skip
    """The weight of what remains, or the number of its tokens, int64."""
    lanes = tl.arange(0, TILE)
    sums = tl.full((TILE,), 0, tl.int64)
    for start in range(0, vocab, TILE):
        ids = start + lanes
        keys = remaining(source, words, edit_ids, edit_values, spans, lead, scale, cut, late, start // SPAN,
                         ids, ids >= 0, vocab, MASKED, EDITED, HEATED)  # fmt: skip
        sums += counted(keys, peak, weighed)
    return tl.sum(sums, 0)


@triton.jit
def first_above(source, words, edit_ids, edit_values, spans, lead, scale, cut, late, vocab, peak, target,
                SPAN: tl.constexpr, TILE: tl.constexpr,
                MASKED: tl.constexpr, EDITED: tl.constexpr, HEATED: tl.constexpr):  # fmt: skip
    """The first id whose cumulative weight exceeds `target`, int64: as many ids come before it."""
    lanes = tl.arange(0, TILE)
    before = tl.full((), 0, tl.int64)
    token = tl.full((), 0, tl.int64)
    for start in range(0, vocab, TILE):
        ids = start + lanes
        keys = remaining(source, words, edit_ids, edit_values, spans, lead, scale, cut, late, start // SPAN,
                         ids, ids >= 0, vocab, MASKED, EDITED, HEATED)  # fmt: skip
        weights = weight_of(value_of_key(keys), peak)
        token += tl.sum((before + tl.cumsum(weights, 0) <= target).to(tl.int64), 0)
        before += tl.sum(weights, 0)
    return token


@triton.jit
def best_of(source, words, edit_ids, edit_values, spans, lead, scale, cut, late, vocab,
            SPAN: tl.constexpr, TILE: tl.constexpr,
            MASKED: tl.constexpr, EDITED: tl.constexpr, HEATED: tl.constexpr):  # fmt: skip
    """The first remaining id in (logit desc, id asc) order, int64."""
    lanes = tl.arange(0, TILE)
    best = tl.full((TILE,), NO_KEY, tl.int64)
    for start in range(0, vocab, TILE):
        ids = start + lanes
        keys = remaining(source, words, edit_ids, edit_values, spans, lead, scale, cut, late, start // SPAN,
                         ids, ids >= 0, vocab, MASKED, EDITED, HEATED)  # fmt: skip
        best = tl.minimum(best, keys)
    return tl.min(best, 0) & 0xFFFFFFFF


@kernel()
def resolve(logits, index, bitmask, edit_ids, edit_values, spans, faults, best, tokens,
            scales, greedy, ks, shares, reaches, crossings, depths, leasts, draws,
            row_stride, mask_stride, edit_stride, spans_stride, vocab, operations, count, drawn,
            SPAN: tl.constexpr, TILE: tl.constexpr,
            MASKED: tl.constexpr, EDITED: tl.constexpr, HEATED: tl.constexpr):  # fmt: skip
    """The token of a sound row that has none yet; grid (rows,). All other programs end at once.

    `operations` are `count` numbers of four bits: a run-time value, so that one compilation serves every
    chain.
    """
    row = tl.program_id(0)
    if (tl.load(tokens + row) < 0) & (tl.load(faults + row) == 0):
        source = logits + tl.load(index + row) * row_stride
        words = bitmask + row.to(tl.int64) * mask_stride
        changed_ids = edit_ids + row.to(tl.int64) * edit_stride
        changes = edit_values + row.to(tl.int64) * edit_stride
        ends = spans + row * spans_stride
        lead = tl.load(scales + row) if HEATED else 1.0
        first = tl.load(best + row)
        yes = row >= 0
        chosen = row < 0
        scale = tl.full((), 1.0, tl.float32)
        cut = tl.full((), NO_KEY, tl.int64)
        late = tl.full((), NO_KEY, tl.int64)
        for i in range(count):
            operation = (operations >> (4 * i)) & 15
            peak = heated(value_of_key(first), scale)
            by_weight = operation == TOP_P
            crossing = yes
            limit = tl.full((), 0, tl.int64)
            least = tl.full((), 1, tl.int64)
            bound = tl.full((), NO_KEY, tl.int64)
            if operation == TEMPERATURE:
                chosen = chosen | (tl.load(greedy + row) != 0)
                cut = tl.minimum(cut, late)
                late = tl.full((), NO_KEY, tl.int64)
                if not HEATED or i > 0:
                    scale = tl.load(scales + row)
            if operation == TOP_K:
                limit = tl.load(ks + row) - 1
            if by_weight:
                total = total_of(source, words, changed_ids, changes, ends, lead, scale, cut, late, vocab,
                                 peak, yes,
                                 SPAN, TILE, MASKED, EDITED, HEATED)  # fmt: skip
                limit = share_limit(tl.load(shares + row), tl.load(reaches + row) != 0, total)
                crossing = tl.load(crossings + row) != 0
                least = tl.load(leasts + row)
            if operation == MIN_P:
                bound = min_p_bound(peak, tl.load(depths + row))
                least = tl.load(leasts + row)
            if (by_weight | (operation == TOP_K)) & ~chosen:
                bound = last_within(source, words, changed_ids, changes, ends, lead, scale, cut, late, vocab,
                                    peak, by_weight, limit, crossing, SPAN, TILE, MASKED, EDITED,
                                    HEATED)  # fmt: skip
            if ((least > 1) | ~crossing) & ~chosen:
                enough = last_within(source, words, changed_ids, changes, ends, lead, scale, cut, late, vocab,
                                     peak, ~yes, least - 1, yes, SPAN, TILE, MASKED, EDITED,
                                     HEATED)  # fmt: skip
                bound = tl.maximum(bound, enough)
            late = tl.minimum(late, bound)
        token = first & 0xFFFFFFFF
        if ~chosen:
            if drawn != 0:
                peak = heated(value_of_key(first), scale)
                total = total_of(source, words, changed_ids, changes, ends, lead, scale, cut, late, vocab,
                                 peak, yes,
                                 SPAN, TILE, MASKED, EDITED, HEATED)  # fmt: skip
                target = scaled_draw(tl.load(draws + row), total)
                token = first_above(source, words, changed_ids, changes, ends, lead, scale, cut, late,
                                    vocab, peak,
                                    target, SPAN, TILE, MASKED, EDITED, HEATED)  # fmt: skip
            else:
                token = best_of(source, words, changed_ids, changes, ends, lead, scale, cut, late, vocab,
                                SPAN, TILE, MASKED, EDITED, HEATED)  # fmt: skip
        tl.store(tokens + row, token)


@triton.jit
def list_first(source, k, listing, SPAN: tl.constexpr, TILE: tl.constexpr,
               MASKED: tl.constexpr, EDITED: tl.constexpr, HEATED: tl.constexpr):  # fmt: skip
    """The key of the k-th token of a `LogitRow` that has more, and the keys of the first k in `listing`, by
    id. The order of its logit is found bit by bit: little code, which each chain compiles for itself."""
    lanes = tl.arange(0, TILE)
    prefix = tl.full((), -0x80000000, tl.int64)
    above = tl.full((), 0, tl.int64)
    bit = tl.full((), 1 << 31, tl.int64)
    while bit > 0:
        ones = tl.full((TILE,), 0, tl.int32)
        for start in range(0, source.vocab, TILE):
            values = read(source.logits, source.words, source.edit_ids, source.edit_values, source.spans,
                          source.scale, start // SPAN, start + lanes, lanes >= 0, source.vocab, MASKED,
                          EDITED, HEATED)  # fmt: skip
            keys = key_of(values, start + lanes)
            ones += ((keys >> 32) < prefix + bit).to(tl.int32)
        count = tl.sum(ones, 0).to(tl.int64)
        above = tl.where(count < k, count, above)
        prefix += tl.where(count < k, bit, 0)
        bit >>= 1
    last = tl.full((), NO_BOUND, tl.int64)
    before, tied_before = 0, 0
    for start in range(0, source.vocab, TILE):
        values = read(source.logits, source.words, source.edit_ids, source.edit_values, source.spans,
                      source.scale, start // SPAN, start + lanes, lanes >= 0, source.vocab, MASKED, EDITED,
                      HEATED)  # fmt: skip
        keys = key_of(values, start + lanes)
        tied = ((keys >> 32) == prefix).to(tl.int32)
        first = (tied != 0) & (tied_before + tl.cumsum(tied, 0) <= k - above)
        stays = ((keys >> 32) < prefix) | first
        tl.store(listing + before + tl.cumsum(stays.to(tl.int32), 0) - 1, keys, mask=stays)
        last = tl.maximum(last, tl.max(tl.where(stays, keys, NO_BOUND), 0))
        before += tl.sum(stays.to(tl.int32), 0)
        tied_before += tl.sum(tied, 0)
    return last


@kernel()
def recut(logits, index, bitmask, edit_ids, edit_values, spans, scales, faults, ks, last, counts,
          row_stride, mask_stride, edit_stride, spans_stride, vocab,
          SPAN: tl.constexpr, TILE: tl.constexpr, CAPACITY: tl.constexpr,
          MASKED: tl.constexpr, EDITED: tl.constexpr, HEATED: tl.constexpr):  # fmt: skip
    """Prepare `gather` to run again: for a row with more candidates than places, the exact key of its k-th
    token and an empty counter; for all other rows, a bound that nothing passes. Grid (rows,)."""
    row = tl.program_id(0)
    bound = tl.full((), NO_BOUND, tl.int64)
    if (tl.load(counts + row) > CAPACITY) & (tl.load(faults + row) == 0):
        edits = row.to(tl.int64) * edit_stride
        every = tl.full((), NO_KEY, tl.int64)
        bound = last_within(logits + tl.load(index + row) * row_stride,
                            bitmask + row.to(tl.int64) * mask_stride,
                            edit_ids + edits, edit_values + edits, spans + row * spans_stride,
                            tl.load(scales + row) if HEATED else 1.0, 1.0, every, every, vocab,
                            0.0, row < 0, tl.load(ks + row) - 1, row >= 0,
                            SPAN, TILE, MASKED, EDITED, HEATED)  # fmt: skip
        tl.store(counts + row, 0)
    tl.store(last + row, bound)
