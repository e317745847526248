"""top_p over rows so flat that the candidates do not reach p: find the last token that stays, without
sorting the row.

`chain` says between which distances from the maximum p should be reached: `intervals`. One pass over the row
sums up what all tokens weigh, and those nearer than these, and lists the tokens between them (`spread`). The
weights of these are spread over 1,024 bins. By the sums, p is reached in one of them; its tokens are sorted,
and the last one is found (`close`). All sums are of integers, so neither the order of
blocks nor that of atomic additions matters. What follows the top_p depends on logits alone: a bound and a
scale.

`close` sets a row's `state` to KNOWN once its bounds are known, or to NOT_HERE if it takes no part. If p is
reached elsewhere, as in a few rows in a hundred whose sample is not like the whole, the state is ELSEWHERE,
and a second launch weighs the row again around the next interval on that side, by one program. If p is not
reached there either, or if there are more tokens than there is room for, `whole.resolve` finds the token.
"""

import triton
import triton.language as tl

from .aim import NO_PART, bound_before, filters
from .few import BINS, MIN_P, TEMPERATURE, TOP_P, sort_by_counting
from .many import drawn_from
from .numbers import (
    NO_KEY,
    distance_of,
    heated,
    in_lines,
    kernel,
    key_of_number,
    min_p_bound,
    share_limit,
    value_of_key,
    weight_at,
    weight_of,
    within,
)
from .reading import read
from .scan import places_of

NOT_HERE, KNOWN, ELSEWHERE = tl.constexpr(0), tl.constexpr(2), tl.constexpr(3)
"""What the state of a row says of its cut."""
MOST_LANES = tl.constexpr(256)
COUNTED = tl.constexpr(1 << 48)
"""Added to the weight of a token that is counted: a chunk weighs less."""


@triton.jit
def bin_at(y, nearer, farther):
    """The fine bin of a distance in the interval, which ascends as y descends: of a width that is a power of
    two, so that 512 to 1,024 of them are the interval's."""
    wide = tl.maximum(nearer - farther, 2.0**-20)
    exponent = (wide.to(tl.int32, bitcast=True) >> 23) - 127
    each = ((127 + 9 - exponent) << 23).to(tl.float32, bitcast=True)
    number = ((nearer - y) * each).to(tl.int32)
    return tl.minimum(tl.maximum(number, 0), BINS - 1)


@triton.jit
def packed(values, ids):
    """A logit and its id as one number: for what is a key for one token in thirty only."""
    return (values.to(tl.int32, bitcast=True).to(tl.int64) << 32) | ids.to(tl.int64)


@triton.jit
def listed_at(listing, places, length):
    """(the logits, the ids) at some places of a list; −inf behind its end."""
    pairs = tl.load(listing + places, mask=places < length, other=0)
    values = (pairs >> 32).to(tl.int32).to(tl.float32, bitcast=True)
    return tl.where(places < length, values, float("-inf")), (pairs & 0xFFFFFFFF).to(tl.int32)


@triton.jit
def weigh_tiles(source, words, edit_ids, edit_values, spans, scale, first, peak, bound, nearer, farther,
                totals, masses, length, listing, start, step, tiles, vocab,
                TILE: tl.constexpr, CHUNK: tl.constexpr, VECTOR: tl.constexpr, FILTERED: tl.constexpr,
                LIST: tl.constexpr,
                MASKED: tl.constexpr, EDITED: tl.constexpr, HEATED: tl.constexpr):  # fmt: skip
    """What `spread` does for every `step`-th tile of a row from number `start` on; all pointers are the
    row's. With FILTERED, only tokens within `bound` weigh anything."""
    # A thread has the tokens of one place of the middle axis, which are summed up without the others.
    LANES: tl.constexpr = MOST_LANES if CHUNK // VECTOR >= MOST_LANES else CHUNK // VECTOR
    lanes = tl.arange(0, LANES)[None, :, None] * VECTOR + tl.arange(0, VECTOR)[None, None, :]
    lanes += tl.arange(0, CHUNK // VECTOR // LANES)[:, None, None] * (LANES * VECTOR)
    for tile in range(start, tiles, step):
        total, before = tl.full((), 0, tl.int64), tl.full((), 0, tl.int64)
        if distance_of(value_of_key(tl.load(first + tile)), peak) > -31.0:
            for part in range(0, TILE, CHUNK):
                ids = tile * TILE + part + lanes
                values = read(source, words, edit_ids, edit_values, spans, scale, tile, ids, ids >= 0, vocab,
                              MASKED, EDITED, HEATED)  # fmt: skip
                y = distance_of(values, peak)
                weights = weight_at(y)
                member = (y <= nearer) & (y >= farther)
                if FILTERED:
                    weights = tl.where(within(values, ids, bound), weights, 0)
                    member = member & (weights > 0)
                before += tl.sum(tl.sum(tl.sum(tl.where(y > nearer, weights, 0), 2), 0), 0)
                both = tl.sum(tl.sum(tl.sum(tl.where(member, weights | COUNTED, weights), 2), 0), 0)
                total += both & (COUNTED - 1)
                # Programs get places from an integer counter, each once: their order does not matter.
                added = (both >> 48).to(tl.int32)
                if added > 0:
                    place = tl.atomic_add(length, added, sem="relaxed")
                    if place + added <= LIST:
                        tl.store(listing + place + numbers_of(member), packed(values, ids), mask=member)
        tl.store(totals + tile, total)
        tl.store(masses + tile, before)


@triton.jit
def numbers_of(wanted):
    """The number of each of the `wanted` [parts, lanes, columns] among them, in any order."""
    ones = wanted.to(tl.int32)
    lines = tl.sum(ones, 2)
    each = tl.sum(lines, 0)
    before = (tl.cumsum(each, 0) - each)[None, :] + tl.cumsum(lines, 0) - lines
    return before[:, :, None] + tl.cumsum(ones, 2) - 1


@kernel()
def spread(logits, index, bitmask, edit_ids, edit_values, spans, scales, best, first, intervals, depths,
           totals, masses, listed, listing,
           row_stride, mask_stride, edit_stride, spans_stride, tiles, vocab,
           TILE: tl.constexpr, CHUNK: tl.constexpr, VECTOR: tl.constexpr, OPS: tl.constexpr,
           LIST: tl.constexpr,
           MASKED: tl.constexpr, EDITED: tl.constexpr, HEATED: tl.constexpr):  # fmt: skip
    """Per tile the weight of all tokens in `totals`, and of those before the interval in `masses`; the tokens
    in it in `listing` [LIST], in any order, `listed` of them: if these are more than fit, some are missing.
    Grid (rows, programs)."""
    row = tl.program_id(0)
    nearer, farther = tl.load(intervals + 2 * row), tl.load(intervals + 2 * row + 1)
    if nearer != NO_PART:
        peak = value_of_key(tl.load(best + row))
        edits = row.to(tl.int64) * edit_stride
        weigh_tiles(logits + tl.load(index + row) * row_stride, bitmask + row.to(tl.int64) * mask_stride,
                    edit_ids + edits, edit_values + edits, spans + row * spans_stride,
                    tl.load(scales + row) if HEATED else 1.0, first + row * tiles, peak,
                    bound_before(peak, tl.load(depths + row), OPS), nearer, farther,
                    totals + row * tiles, masses + row * tiles, listed + row,
                    listing + row.to(tl.int64) * LIST, tl.program_id(1), tl.num_programs(1), tiles, vocab,
                    TILE, CHUNK, VECTOR, filters(OPS), LIST, MASKED, EDITED, HEATED)  # fmt: skip


@triton.jit
def cut_between(nearer, farther, peak, most, best, share, reach, crossing,
                totals, masses, numbers, listed, members, candidates, ordered, tiles,
                TILE: tl.constexpr, TILES: tl.constexpr, LIST: tl.constexpr, ROOM: tl.constexpr,
                AT_ONCE: tl.constexpr, DRAWN: tl.constexpr):  # fmt: skip
    """(the state of a row whose tiles are weighed, the last key that stays, the interval in which it should
    be looked for elsewhere); no token beyond the key `most` stays, and the one of the key `best` does in any
    case. `numbers`: empty bins. With DRAWN, `masses` become the weights of what remains of each tile. All
    pointers are the row's. What a program has written itself, it reads behind a barrier."""
    state, cut = tl.full((), NOT_HERE, tl.int32), most
    parts = tl.arange(0, TILES)
    whole = tl.load(totals + parts, mask=parts < tiles, other=0)
    total = tl.sum(whole, 0)
    below = tl.sum(tl.load(masses + parts, mask=parts < tiles, other=0), 0)
    limit = share_limit(share, reach, total)
    length = tl.load(listed)
    wide = nearer - farther
    if total <= limit:  # p is not reached: every token stays
        state = tl.full((), KNOWN, tl.int32)
        if DRAWN:
            tl.store(masses + parts, whole, mask=parts < tiles)
    elif below > limit:
        state = tl.full((), ELSEWHERE, tl.int32)
        farther = nearer
        nearer = tl.minimum(nearer + 2.0 * wide, 0.0)
    elif length <= LIST:
        steps = in_lines(AT_ONCE)
        for start in range(0, length, AT_ONCE):
            values, _ = listed_at(members, start + steps, length)
            y = distance_of(values, peak)
            tl.atomic_add(numbers + bin_at(y, nearer, farther), weight_at(y), mask=y > -31.0, sem="relaxed")
        tl.debug_barrier()
        upto_bin = below + tl.cumsum(tl.load(numbers + tl.arange(0, BINS)), 0)
        bin = tl.sum((upto_bin <= limit).to(tl.int32), 0)
        below = tl.maximum(below, tl.max(tl.where(upto_bin <= limit, upto_bin, 0), 0))
        if bin == BINS:
            state = tl.full((), ELSEWHERE, tl.int32)
            nearer = farther
            farther -= wide
        else:
            count = 0
            for start in range(0, length, AT_ONCE):
                values, ids = listed_at(members, start + steps, length)
                y = distance_of(values, peak)
                chosen = (y > -31.0) & (bin_at(y, nearer, farther) == bin)
                places, added = places_of(chosen)
                places += count
                chosen = chosen & (places < ROOM)
                tl.store(candidates + places, key_of_number(values, ids), mask=chosen)
                count += added
            if count <= ROOM:
                state = tl.full((), KNOWN, tl.int32)
                tl.debug_barrier()
                for start in range(0, count, 128):
                    sort_by_counting(
                        candidates, ordered, candidates, start + tl.arange(0, 128), count, 128, 32, False
                    )
                tl.debug_barrier()
                lanes = tl.arange(0, ROOM)
                keys = tl.load(ordered + lanes, mask=lanes < count, other=NO_KEY)
                none = tl.load(ordered) - 1
                adds = weight_of(value_of_key(keys), peak)
                crossed = below + tl.cumsum(adds, 0) - tl.where(crossing, adds, 0)
                stays = (crossed <= limit) & (keys != NO_KEY)
                cut = tl.minimum(most, tl.maximum(none, tl.max(tl.where(stays, keys, -1 << 63), 0)))
                # The first token stays, also if it alone exceeds the limit.
                cut = tl.maximum(cut, best)
                if DRAWN:
                    for start in range(0, length, AT_ONCE):
                        values, ids = listed_at(members, start + steps, length)
                        tl.atomic_add(masses + ids // TILE, weight_of(values, peak),
                                      mask=(start + steps < length) & within(values, ids, cut),
                                      sem="relaxed")  # fmt: skip
    return state, cut, nearer, farther


@triton.jit
def finish(row, source, words, edit_ids, edit_values, spans, lead, peak, cut, late, masses,
           cuts, lates, tokens, depths, later_scales, draws, tiles, vocab,
           TILE: tl.constexpr, TILES: tl.constexpr, OPS: tl.constexpr, DRAWN: tl.constexpr,
           MASKED: tl.constexpr, EDITED: tl.constexpr, HEATED: tl.constexpr):  # fmt: skip
    """Draw the token of a row whose last key is known to be `cut`, or note what comes after the top_p."""
    if DRAWN:
        tl.debug_barrier()
        token = drawn_from(source, words, edit_ids, edit_values, spans, lead, masses, peak,
                           tl.load(draws + row), cut, late, 1.0, tiles, vocab, TILE, TILES, True,
                           MASKED, EDITED, HEATED)  # fmt: skip
        tl.store(tokens + row, token)
    else:
        passed = False
        for i in tl.static_range(len(OPS)):
            if OPS[i] == TOP_P:
                passed = True
            if OPS[i] == TEMPERATURE and (i > 0 or not HEATED):
                peak = heated(peak, tl.load(later_scales + row))
                cut = tl.minimum(cut, late)
                late = tl.full((), NO_KEY, tl.int64)
            if OPS[i] == MIN_P and passed:
                late = tl.minimum(late, min_p_bound(peak, tl.load(depths + row)))
        tl.store(cuts + row, cut)
        tl.store(lates + row, late)


@kernel()
def close(logits, index, bitmask, edit_ids, edit_values, spans, scales, best, first, intervals, totals,
          masses, bins, listed, listing, candidates, ordered, state, cuts, lates, tokens,
          shares, reaches, crossings, depths, later_scales, draws,
          row_stride, mask_stride, edit_stride, spans_stride, tiles, vocab,
          TILE: tl.constexpr, CHUNK: tl.constexpr, VECTOR: tl.constexpr, TILES: tl.constexpr,
          LIST: tl.constexpr, ROOM: tl.constexpr, AT_ONCE: tl.constexpr, OPS: tl.constexpr,
          DRAWN: tl.constexpr, AGAIN: tl.constexpr,
          MASKED: tl.constexpr, EDITED: tl.constexpr, HEATED: tl.constexpr):  # fmt: skip
    """The keys that what remains does not exceed: `cuts` before a later temperature, `lates` after it; grid
    (rows,). With DRAWN, the top_p is the last sampler, and the token is drawn. If p is reached just before or
    behind the interval, `intervals` become the next one, and `state` is ELSEWHERE. A second launch, with
    AGAIN, looks there in such rows, by one program; all others have nothing to do. What a program has written
    itself, it reads behind a barrier."""
    row = tl.program_id(0)
    nearer, farther = tl.load(intervals + 2 * row), tl.load(intervals + 2 * row + 1)
    wanted = tl.load(state + row) == ELSEWHERE if AGAIN else nearer != NO_PART
    if wanted:
        # Everything whose address is known at once is asked for at once.
        best_key, depth = tl.load(best + row), tl.load(depths + row)
        share, reach = tl.load(shares + row), tl.load(reaches + row) != 0
        crossing = tl.load(crossings + row) != 0
        source = logits + tl.load(index + row) * row_stride
        lead = tl.load(scales + row) if HEATED else 1.0
        words = bitmask + row.to(tl.int64) * mask_stride
        edits = row.to(tl.int64) * edit_stride
        members = listing + row.to(tl.int64) * LIST
        numbers = bins + row.to(tl.int64) * BINS
        room = row.to(tl.int64) * ROOM
        peak = value_of_key(best_key)
        most = bound_before(peak, depth, OPS)
        if AGAIN:
            tl.store(numbers + tl.arange(0, BINS), tl.full((BINS,), 0, tl.int64))
            tl.store(listed + row, 0)
            tl.debug_barrier()
            weigh_tiles(source, words, edit_ids + edits, edit_values + edits, spans + row * spans_stride,
                        lead, first + row * tiles, peak, most, nearer, farther, totals + row * tiles,
                        masses + row * tiles, listed + row, members, 0, 1, tiles, vocab,
                        TILE, CHUNK, VECTOR, filters(OPS), LIST, MASKED, EDITED, HEATED)  # fmt: skip
            tl.debug_barrier()
        known, cut, nearer, farther = cut_between(
            nearer, farther, peak, most, best_key, share, reach, crossing, totals + row * tiles,
            masses + row * tiles, numbers, listed + row, members, candidates + room, ordered + room, tiles,
            TILE, TILES, LIST, ROOM, AT_ONCE, DRAWN)  # fmt: skip
        if not AGAIN:
            tl.store(intervals + 2 * row, nearer)
            tl.store(intervals + 2 * row + 1, farther)
        tl.store(state + row, known)
        if known == KNOWN:
            finish(row, source, words, edit_ids + edits, edit_values + edits, spans + row * spans_stride,
                   lead, peak, cut, tl.full((), NO_KEY, tl.int64), masses + row * tiles, cuts, lates, tokens,
                   depths, later_scales, draws, tiles, vocab, TILE, TILES, OPS, DRAWN, MASKED, EDITED,
                   HEATED)  # fmt: skip
    elif not AGAIN:
        tl.store(state + row, NOT_HERE)
