"""Where `flat` should look for the cut of a top_p, from a sample of the row.

Nothing depends on it but the time it takes: `flat.close` proves that the cut lies where it was looked for,
and looks elsewhere if it does not.
"""

import triton
import triton.language as tl

from .numbers import (
    NO_KEY,
    distance_of,
    heated,
    key_of,
    min_p_bound,
)
from .reading import allowed_by, limited, read_raw

COARSE = tl.constexpr(256)
"""The bins of distances: of an eighth of a bit, from the maximum down to where nothing weighs anything."""
UNKNOWN, NO_PART = tl.constexpr(2.0), tl.constexpr(3.0)
"""In the place of the nearer end of an interval: nothing is known; the row takes no part."""
MIN_P, TEMPERATURE = tl.constexpr(4), tl.constexpr(1)
RUNS, RUN, AT_ONCE = tl.constexpr(256), tl.constexpr(32), tl.constexpr(2048)
"""The sample: this many runs of this many ids, all over the row; and how many are read at once."""
WIDTHS = tl.constexpr(32)


@triton.jit
def coarse_bin(y):
    """The coarse bin of a distance above −32: number n holds −n/8 and what is above −(n + 1)/8."""
    return (y * -8.0).to(tl.int32)


@triton.jit
def filters(OPS: tl.constexpr):
    """Whether a min_p comes before the top_p."""
    return OPS[0] == MIN_P or (OPS[0] == TEMPERATURE and OPS[1] == MIN_P)


@triton.jit
def bound_before(peak, depth, OPS: tl.constexpr):
    """The last key that passes a min_p before the top_p; the samplers before it are that and a leading
    temperature."""
    bound = tl.full((), NO_KEY, tl.int64)
    if filters(OPS):
        bound = min_p_bound(peak, depth)
    return bound


@triton.jit
def interval_around(source, words, scale, peak, total, share, depth, vocab, room, OPS: tl.constexpr,
                    MASKED: tl.constexpr, HEATED: tl.constexpr):  # fmt: skip
    """(nearer end, farther end) of an interval of distances in which a share of the int64 `total` should be
    reached; as wide as it may be to hold about `room` tokens. Edits are not looked at."""
    stride = tl.maximum(vocab // RUNS, RUN)
    counts = tl.full((COARSE,), 0, tl.int32)
    lanes = tl.arange(0, AT_ONCE)
    bound = bound_before(peak, depth, OPS)
    for start in range(0, RUNS * RUN, AT_ONCE):
        places = start + lanes
        ids = places // RUN * stride + places % RUN
        values = limited(read_raw(source, ids, ids >= 0, vocab))
        if MASKED:
            values = tl.where(allowed_by(words, ids, ids >= 0, vocab), values, float("-inf"))
        if HEATED:
            values = heated(values, scale)
        y = distance_of(values, peak)
        # An edit may have made the peak of what is none here.
        weighs = (y > -31.0) & (y <= 0.0) & (key_of(values, ids) <= bound)
        counts += tl.histogram(coarse_bin(tl.where(weighs, y, 0.0)), COARSE, mask=weighs)
    bins = tl.arange(0, COARSE)
    times = stride.to(tl.float32) * (1.0 / RUN)
    weights = counts.to(tl.float32) * tl.exp2(bins.to(tl.float32) * -0.125 + 29.9375) * times
    upto = tl.cumsum(weights, 0)
    sampled = tl.sum(weights, 0)
    mass = total.to(tl.float32)
    if filters(OPS):
        mass = sampled
    # What comes after a bin is known better than what comes before: it is many small weights.
    beyond = (1.0 - share.to(tl.float32)) * mass
    after = sampled - upto
    centre = tl.minimum(tl.sum((after > beyond).to(tl.int32), 0), COARSE - 1)
    widths = tl.arange(0, WIDTHS)
    near = tl.abs(bins - centre)[:, None] <= widths[None, :]
    numbers = tl.sum(tl.where(near, counts[:, None], 0), 0).to(tl.float32) * times
    width = tl.maximum(tl.sum((numbers <= room).to(tl.int32), 0) - 1, 0)
    nearer = tl.minimum((width - centre).to(tl.float32) * 0.125, 0.0)
    farther = (centre + width + 1).to(tl.float32) * -0.125
    if width < 2:
        # The place inside the bin, and a width, in steps of 1/64 of a bit, by the tokens of three bins.
        here = tl.sum(tl.where(bins == centre, after + weights, 0.0), 0) - beyond
        step = tl.sum(tl.where(bins == centre, weights, 0.0), 0) * 0.125
        place = (
            centre.to(tl.float32) * -0.125 - tl.sum((steps_of(8) * step < here).to(tl.int32), 0) * 0.015625
        )
        density = tl.max(tl.where(widths == 1, numbers, 0.0), 0) * (2.0 * 8.0 / 3.0 * 0.015625)
        wide = tl.sum((steps_of(16) * density <= room).to(tl.int32), 0) * 0.015625
        nearer, farther = tl.minimum(place + wide, 0.0), place - wide
    # Where few tokens come before the cut, a sample says little of it, but all of them are few.
    from_top = tl.cumsum(counts, 0).to(tl.float32) * times
    if tl.max(tl.where(bins <= centre, from_top, 0.0), 0) * 2.0 <= room:
        nearer = 0.0
        farther = tl.sum((from_top <= room).to(tl.int32), 0).to(tl.float32) * -0.125
    return nearer, farther


@triton.jit
def steps_of(count: tl.constexpr):
    """1.0, 2.0, …"""
    return tl.arange(0, count).to(tl.float32) + 1.0
