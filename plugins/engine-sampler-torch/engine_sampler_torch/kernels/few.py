"""Rows of few candidates: put them in order, then run the whole chain on them, one program a row.

`sort_candidates` reads the keys that `gather` wrote and writes two copies, one in (logit desc, id asc) order
and one by id. `chain` only reads these, so no program reads what it wrote itself.
"""

import triton
import triton.language as tl

from .aim import NO_PART, UNKNOWN, interval_around
from .certificate import bounds_of
from .numbers import (
    EVERY_KEY,
    NO_BOUND,
    NO_KEY,
    distance_of,
    heated,
    id_of_key,
    kernel,
    key_of,
    min_p_bound,
    scaled_draw,
    share_limit,
    value_of_key,
    weight_of,
)

TEMPERATURE = tl.constexpr(1)
TOP_K = tl.constexpr(2)
TOP_P = tl.constexpr(3)
MIN_P = tl.constexpr(4)
BINS = tl.constexpr(1024)
"""The finer bins in which `flat` adds up weights."""


@triton.jit
def sort_by_counting(candidates, ordered, by_id, mine, count, LANES: tl.constexpr, STEP: tl.constexpr,
                     BY_ID: tl.constexpr):  # fmt: skip
    """Put the LANES candidates number `mine` of `count` in their places, counted STEP by STEP; without BY_ID,
    only those in order."""
    steps = tl.arange(0, STEP)
    keys = tl.load(candidates + mine, mask=mine < count, other=NO_KEY)
    smaller = tl.full((LANES, STEP), 0, tl.int32)
    for start in range(0, count, STEP):
        others = tl.load(candidates + start + steps, mask=start + steps < count, other=NO_KEY)
        smaller += (others[None, :] < keys[:, None]).to(tl.int32)
        if BY_ID:
            # The id of NO_KEY is above all others as an unsigned number.
            before = others.to(tl.uint32)[None, :] < keys.to(tl.uint32)[:, None]
            smaller += tl.where(before, 1 << 16, 0)
    places = tl.sum(smaller, 1)
    tl.store(ordered + (places & 0xFFFF), keys, mask=mine < count)
    if BY_ID:
        tl.store(by_id + (places >> 16), keys, mask=mine < count)


@kernel()
def sort_candidates(candidates, counts, ordered, by_id,
                    CAPACITY: tl.constexpr, LANES: tl.constexpr, STEP: tl.constexpr):  # fmt: skip
    """Sort by counting: the place of a key is the number of smaller ones. Grid (rows, CAPACITY / LANES).
    Keys are distinct, so every place is written once. Nothing is written for a row with more than CAPACITY
    candidates. Both places are counted in one number, by the key in its lower half, by the id above."""
    row = tl.program_id(0)
    mine = tl.program_id(1) * LANES + tl.arange(0, LANES)
    count = tl.load(counts + row)
    at = row.to(tl.int64) * CAPACITY
    if (count <= CAPACITY) & (tl.program_id(1) * LANES < count):
        sort_by_counting(candidates + at, ordered + at, by_id + at, mine, count, LANES, STEP, True)


@kernel()
def chain(logits, index, bitmask,
          ordered, by_id, counts, last, faults, first, masses, intervals, bins, listed, tokens,
          scales, greedy, ks, shares, reaches, crossings, depths, leasts, draws,
          row_stride, mask_stride, tiles, vocab, room,
          CAPACITY: tl.constexpr, TILES: tl.constexpr, OPS: tl.constexpr, SORTED: tl.constexpr,
          LEADING: tl.constexpr, DRAWN: tl.constexpr, WEIGHED: tl.constexpr, GREEDY: tl.constexpr,
          ESTIMATED: tl.constexpr, FLAT: tl.constexpr, ALONE: tl.constexpr, TILE: tl.constexpr,
          DOUBT: tl.constexpr, MASKED: tl.constexpr):  # fmt: skip
    """The samplers OPS in order on the candidates of a row, then the choice; grid (rows,).

    Candidates are the first tokens of the row in order, all that pass `last`. `closed`: what remains of the
    row lies within them. `dirty`: some cut left more than that. `lost`: the answer needs more than the
    candidates, and `tokens` stays −1, for `resolve`. A cut that lies beyond the candidates changes nothing
    here: all cuts before the first change of temperature keep prefixes of one order, so a later, shorter one
    decides. That change is operation number SORTED; the cuts before it are found by their places alone. The
    first token stays in any case, so the greatest logit is known throughout.

    With ESTIMATED, `masses` are what the scan estimates of the tiles, so that a top_p knows the weight of the
    row between two bounds. If both do not cut at the same token, the answer is lost. With WEIGHED alone they
    are the weights of the tiles, in rows that such estimates have left without a token.

    With FLAT, `intervals`: the distances between which `flat` is to look for the cut, by these bounds or by a
    sample of the row, with empty `bins` and `listed`; NO_PART for rows that have a token, or a min_keep. With
    ALONE, the top_p is the only cut: one that reaches beyond the candidates keeps at least as many tokens.
    """
    row = tl.program_id(0)
    nearer, farther = tl.full((), UNKNOWN, tl.float32), tl.full((), UNKNOWN, tl.float32)
    surely = tl.full((), 1, tl.int32)
    if WEIGHED:
        parts = tl.arange(0, TILES)
        weights_of = tl.load(masses + row * tiles + parts, mask=parts < tiles, other=0)
        firsts = tl.load(first + row * tiles + parts, mask=parts < tiles, other=NO_KEY)
    else:
        weights_of, firsts = row, row  # not looked at
    # Everything is asked for at once: what is read inside a step would be waited for in every one.
    is_greedy = tl.load(greedy + row) != 0
    scale, k, depth, fewest = (
        tl.load(scales + row),
        tl.load(ks + row),
        tl.load(depths + row),
        tl.load(leasts + row),
    )
    share, reach = tl.load(shares + row), tl.load(reaches + row) != 0
    crossing, bits = tl.load(crossings + row) != 0, tl.load(draws + row)
    lanes = tl.arange(0, CAPACITY)
    at = row.to(tl.int64) * CAPACITY
    s, t = tl.load(ordered + at + lanes), tl.load(by_id + at + lanes)  # in order, and by id
    best, bound = tl.load(ordered + at), tl.load(last + row)
    count = tl.load(counts + row)
    lost = (count > CAPACITY) | (tl.load(faults + row) != 0)
    if WEIGHED and not ESTIMATED:
        lost = lost | (tl.load(tokens + row) >= 0)
    if not lost:
        t, peak, lost, nearer, farther, surely = cut_down(
            s, t, value_of_key(best), count, bound, is_greedy, scale, k, share, reach, crossing, depth,
            fewest, weights_of, firsts, CAPACITY, OPS, SORTED, LEADING, WEIGHED, GREEDY, ESTIMATED, FLAT,
            ALONE, TILE, DOUBT)  # fmt: skip
        if not lost:
            tl.store(tokens + row, drawn_or_first(t, peak, bits, DRAWN))
    if FLAT:
        part = lost & (tl.load(faults + row) == 0) & (fewest <= tl.maximum(surely, 1))
        if GREEDY:
            part = part & ~is_greedy
        if part:
            if nearer == UNKNOWN:
                highest = value_of_key(tl.min(firsts, 0))
                least_of, most_of = bounds_of(weights_of, firsts, highest, TILE, DOUBT)
                nearer, farther = interval_around(logits + tl.load(index + row) * row_stride,
                                                  bitmask + row.to(tl.int64) * mask_stride, scale, highest,
                                                  tl.sum(least_of + most_of, 0) >> 1, share, depth, vocab,
                                                  room, OPS, MASKED, LEADING)  # fmt: skip
            empty = tl.full((BINS,), 0, tl.int64)
            tl.store(bins + row.to(tl.int64) * BINS + tl.arange(0, BINS), empty)
            tl.store(listed + row, 0)
        tl.store(intervals + 2 * row, tl.where(part, nearer, NO_PART))
        tl.store(intervals + 2 * row + 1, farther)


@triton.jit
def cut_down(s, t, peak, count, bound, is_greedy, scale, k, share, reach, crossing, depth, fewest,
             weights_of, firsts,
             CAPACITY: tl.constexpr, OPS: tl.constexpr, SORTED: tl.constexpr, LEADING: tl.constexpr,
             WEIGHED: tl.constexpr, GREEDY: tl.constexpr, ESTIMATED: tl.constexpr, FLAT: tl.constexpr,
             ALONE: tl.constexpr, TILE: tl.constexpr, DOUBT: tl.constexpr):  # fmt: skip
    """The samplers OPS on the `count` candidates of a sound row, `s` in order and `t` by id, `peak` the logit
    of the first: (what remains of `t`, the peak by then, whether the answer is `lost`, and what FLAT asks
    for: the distances between which the cut lies, and how many tokens stay for sure), as `chain` says it.

    Before operation number SORTED what remains are the first `left` of `s`, so that only they are counted."""
    nearer, farther = tl.full((), UNKNOWN, tl.float32), tl.full((), UNKNOWN, tl.float32)
    surely = tl.full((), 1, tl.int32)
    lanes = tl.arange(0, CAPACITY)
    s, t = tl.where(lanes < count, s, NO_KEY), tl.where(lanes < count, t, NO_KEY)
    left = count
    lost = count < 0
    closed = bound == EVERY_KEY
    dirty = bound != bound
    for i in tl.static_range(len(OPS)):
        least = 1
        keep = left
        decided = closed
        if i == SORTED:
            s, t = first_in_order(s, t, left)
        remain = (lanes < left) if i < SORTED else (s != NO_KEY)
        if OPS[i] == TEMPERATURE:
            if i > 0 or not LEADING:
                lost = lost | ~closed
                s = key_of(heated(value_of_key(s), scale), id_of_key(s))
                t = key_of(heated(value_of_key(t), scale), id_of_key(t))
                peak = heated(peak, scale)
            if GREEDY:
                keep = tl.where(is_greedy, 1, left)
                decided = decided | is_greedy
                # What was cut before kept the first token, and a greedy row is not scaled.
                lost = lost & ~is_greedy
        if OPS[i] == TOP_K:
            keep = tl.minimum(k, left.to(tl.int64)).to(tl.int32)
            decided = decided | (k <= left)
        if OPS[i] == TOP_P:
            weights = tl.where(remain, weight_of(value_of_key(s), peak), 0)
            upto = tl.cumsum(weights, 0)
            mass = tl.sum(weights, 0)
            crossed = upto - tl.where(crossing, weights, 0)
            total, most = mass, mass
            if WEIGHED:
                least_of, most_of = weights_of, weights_of
                if ESTIMATED:
                    least_of, most_of = bounds_of(weights_of, firsts, peak, TILE, DOUBT)
                total = tl.where(closed, mass, tl.maximum(tl.sum(least_of, 0), mass))
                most = tl.where(closed, mass, tl.maximum(tl.sum(most_of, 0), mass))
                lost = lost | (dirty & ~closed)
            else:
                lost = lost | ~closed
            limit = share_limit(share, reach, total)
            keep = tl.sum(((crossed <= limit) & remain).to(tl.int32), 0)
            reached = mass > limit
            if ESTIMATED:
                limit = share_limit(share, reach, most)
                kept = tl.sum(((crossed <= limit) & remain).to(tl.int32), 0)
                differs = ~closed & ~lost & ((kept != keep) | ((mass > limit) != reached))
                lost = lost | differs
            if FLAT:
                y = distance_of(value_of_key(s), peak)
                near = (lanes >= keep - 1) & (lanes <= kept) & remain
                known = differs & (mass > limit)
                nearer = tl.where(known, tl.max(tl.where(near, y, -64.0), 0), nearer)
                farther = tl.where(known, tl.min(tl.where(near, y, 0.0), 0), farther)
                if ALONE:
                    surely = tl.where(differs, keep, count)
            decided = decided | reached
            least = fewest
        if OPS[i] == MIN_P:
            floor = min_p_bound(peak, depth)
            keep = tl.sum(((s <= floor) & remain).to(tl.int32), 0)
            decided = decided | (floor <= bound)
            least = fewest
        decided = decided & (closed | (least <= left))
        keep = tl.maximum(keep, tl.minimum(least, left).to(tl.int32))
        keep = tl.where(decided, keep, left)
        if i >= SORTED and (OPS[i] != TEMPERATURE or GREEDY):
            s, t = first_of(s, t, keep, left)
        left = keep
        if OPS[i] != TEMPERATURE:
            dirty = dirty | ~decided
        closed = decided
    if len(OPS) <= SORTED:
        s, t = first_in_order(s, t, left)
    return t, peak, lost | ~closed, nearer, farther, surely


@triton.jit
def first_in_order(s, t, left):
    """The first `left` ≥ 1 tokens of a row, given twice: `s` in order, `t` by id."""
    lanes = tl.arange(0, s.shape[0])
    last = tl.max(tl.where(lanes < left, s, NO_BOUND), 0)
    return tl.where(lanes < left, s, NO_KEY), tl.where(t <= last, t, NO_KEY)


@triton.jit
def drawn_or_first(t, peak, bits, DRAWN: tl.constexpr):
    """The token of a row whose tokens `t` remain, by id: one by weight, or the first."""
    return drawn(t, peak, bits) if DRAWN else tl.min(t, 0) & 0xFFFFFFFF


@triton.jit
def first_of(s, t, keep, left):
    """Remove all but the first `keep` ≥ 1 of the `left` tokens of a row, given twice: `s` in descending
    logits, `t` by id. Removed lanes hold `NO_KEY`. A temperature may have made logits of `s` equal that were
    not, so ties are taken in the order of ids from `t`."""
    number = tl.cumsum((s != NO_KEY).to(tl.int32), 0)
    at_cut = tl.max(tl.where((s != NO_KEY) & (number == keep), s >> 32, -0x80000000), 0)
    above = tl.sum(((s >> 32) < at_cut).to(tl.int32), 0)
    tied = (t >> 32) == at_cut
    number = tl.cumsum(tied.to(tl.int32), 0)
    upto = tl.max(tl.where(tied & (number == keep - above), t, -1 << 63), 0)
    upto = tl.where(keep >= left, NO_KEY, upto)
    return tl.where(s <= upto, s, NO_KEY), tl.where(t <= upto, t, NO_KEY)


@triton.jit
def drawn(t, peak, bits):
    """The first of the tokens `t`, by id, whose cumulative weight exceeds (r·S) >> 64; `peak`: their greatest
    logit."""
    weights = weight_of(value_of_key(t), peak)
    target = scaled_draw(bits, tl.sum(weights, 0))
    beyond = tl.cumsum(weights, 0) > target
    # No removed token is the first of these, and as an unsigned number its id is above all others.
    ids = tl.where(beyond, t, NO_KEY).to(tl.uint32)
    return tl.min(ids, 0).to(tl.int64)


@kernel()
def emit(ordered, by_id, counts, faults, ks, ids, values, vocab,
         CAPACITY: tl.constexpr, WIDTH: tl.constexpr):  # fmt: skip
    """The first k candidates of a row, by id, and padding after them: `ids` and `values` [WIDTH]; grid
    (rows,)."""
    row = tl.program_id(0)
    count = tl.load(counts + row)
    count = tl.where(tl.load(faults + row) == 0, count, 0)
    lanes = tl.arange(0, CAPACITY)
    at = row.to(tl.int64) * CAPACITY
    k = tl.load(ks + row)
    # With fewer than k candidates, every one stays.
    upto = tl.load(ordered + at + k - 1, mask=k <= count, other=NO_KEY)
    keys = tl.load(by_id + at + lanes, mask=lanes < count, other=NO_KEY)
    stays = (keys <= upto) & (keys != NO_KEY)
    place = tl.cumsum(stays.to(tl.int32), 0) - 1
    out = row.to(tl.int64) * WIDTH
    tl.store(ids + out + place, keys & 0xFFFFFFFF, mask=stays)
    tl.store(values + out + place, value_of_key(keys), mask=stays)
    kept = tl.sum(stays.to(tl.int32), 0)
    rest = tl.arange(0, WIDTH)
    tl.store(ids + out + rest, tl.full((WIDTH,), 0, tl.int64) + vocab, mask=rest >= kept)
    tl.store(values + out + rest, tl.full((WIDTH,), float("-inf"), tl.float32), mask=rest >= kept)
