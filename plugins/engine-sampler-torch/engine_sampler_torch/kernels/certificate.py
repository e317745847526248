"""What the approximate weights of a row decide for certain.

While `scan` reads a tile it also adds up its share: of each group of its tokens the sum of 2^z,
z = (v − G)·log2 e, where v is a logit after a leading temperature and G the group's greatest; then the sum
of these, each times 2^((G − M)·log2 e), M the tile's greatest. No token is made of shares, only bounds: they
need not be the same on every card. The place of a tile is (M − P)·log2 e, P the row's greatest.

How far share · 2^(30 + place) is from the sum of the contract's weights w. Let u = 2^−24 and
t = (v − P)·log2 e in real numbers, with log2 e as float32, and g = 2^(30 + t).

1. v is the same float as in the contract: the bare product equals `heated`, which clamps only what edits can
   make so large. y of the contract rounds twice, each relative to a distance: |y − t| ≤ 2u·|t|. So do the
   three distances here, whose sum is about t: 4u·|t| in all, to first order.
2. Only |t| < 32 matters: where y < −31 the weight is 0. (1) is below 128u bits, a factor of 128u·ln 2.
3. Powers: 2.2e−7 for the polynomial of the contract; 2^−20 for each exp2 here, which is four times what
   ex2.approx and v_exp_f32 promise. Where they flush, z is below −31 (5), or so near to 0 that 2^z is 1.
4. The sum of positive terms: u for each addition that a term goes through, in any order of each of the three
   axes: fewer than VECTOR + GROUP / VECTOR + TILE / GROUP; 4u for the products with the places.
5. Where the sum of distances is below −31: at most TILE · 2^−31 beside a share of about 1 or more.
6. w is rint of its float: it differs from g by at most min(1/2, g) more, and so a tile of mass m by at most
   min(TILE / 2, m).

`relative_doubt` adds up (1) to (5), with 6 % for products of these and for the float64 here; (6) is absolute.
"""

import math

import triton
import triton.language as tl

from .numbers import LOG2_E, NO_KEY, distance_of, value_of_key

ONE_WEIGHT = tl.constexpr(1 << 30)


def relative_doubt(tile: int, group: int, vector: int) -> float:
    """How far the estimate of a tile may be from its weight, relative to it and before rounding."""
    additions = vector + group // vector + tile // group
    unit, polynomial, power = 2.0**-24, 2.2e-7, 2.0**-20
    return 1.06 * ((128 * math.log(2) + additions + 4) * unit + polynomial + 3 * power + tile * 2.0**-31)


@triton.jit
def share_of(values, greatest):
    """The share of `values` [groups, parts, vector], of which `greatest` [groups] are the greatest of each
    group: first of each group relative to that, so that no thread waits for those of other groups; then
    together. 0 if all are −inf."""
    floors = tl.where(greatest > float("-inf"), greatest, 0.0)
    powers = tl.exp2((values - floors[:, None, None]) * LOG2_E)
    shares = tl.sum(tl.sum(powers, 2), 1)
    most = tl.max(greatest, 0)
    places = tl.where(greatest > float("-inf"), (greatest - most) * LOG2_E, -64.0)
    return tl.sum(shares * tl.exp2(places), 0)


@triton.jit
def bounds_of(shares, firsts, peak, TILE: tl.constexpr, DOUBT: tl.constexpr):
    """(least, most), int64: between them lies the weight of each tile, of which `firsts` are the keys of the
    best tokens and `peak` the greatest logit of the row."""
    place = distance_of(value_of_key(firsts), peak)
    weighs = (firsts != NO_KEY) & (place > -31.0)
    mass = (shares * tl.exp2(tl.where(weighs, place, 0.0))).to(tl.float64) * ONE_WEIGHT
    mass = tl.where(weighs, mass, 0.0)
    most = mass * (1.0 + DOUBT)
    most += tl.minimum(most, TILE / 2)
    least = mass * (1.0 - DOUBT)
    least -= tl.minimum(mass * (1.0 + DOUBT), TILE / 2)
    return tl.maximum(least, 0.0).to(tl.int64), tl.where(weighs, most.to(tl.int64) + 1, 0)
