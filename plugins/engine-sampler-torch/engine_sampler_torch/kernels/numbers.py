"""Numbers of the arithmetic contract inside kernels: order, temperature, weights.

Every operation here rounds once. That needs `enable_fp_fusion=False` at every launch (no multiply-add is
formed) and operations that PTX rounds correctly: add, sub, mul, conversions and, in float64, ceil and floor.
Nothing is divided, and no exp or log is taken. The tests read the PTX of every kernel for the opposite.
"""

import functools

import triton
import triton.language as tl

kernel = functools.partial(
    triton.jit,
    do_not_specialize_on_alignment=[
        "index", "bitmask", "edit_ids", "edit_values", "scales", "later_scales", "needs",
        "greedy", "ks", "shares", "reaches", "crossings", "depths", "leasts", "draws",
        "changes", "factors", "inverses", "frequencies", "presences",
    ],
)  # fmt: skip
"""`triton.jit` for what is launched. A step's inputs lie anywhere in one packed buffer: whether their
addresses happen to be multiples of 16 must not decide whether a kernel is compiled anew."""

LOG2_E = tl.constexpr(1.4426950408889634)
LIMIT = tl.constexpr(
    1.2676506002282294e30
)  # 2^100: logits above are refused, logits below −2^100 are removed
FLT_MAX = tl.constexpr(3.4028234663852886e38)
SLACK = tl.constexpr(9.5367431640625e-07)  # 2^−20
NO_KEY = tl.constexpr(0x7FFFFFFFFFFFFFFF)
"""The key of no token; greater than every key."""
NAN_ORDER = tl.constexpr(0x7FC00000)
REMOVED = tl.constexpr(-2139095041)
"""The order of −inf."""
EVERY_KEY = tl.constexpr(0x7F7FFFFFFFFFFFFF)
"""A bound that the keys of all tokens pass: the logit before −inf, and every id."""
NO_BOUND = tl.constexpr(-1 << 63)
"""A bound that no key passes."""

_C0 = tl.constexpr(1.0)
_C1 = tl.constexpr(6.931470036506653e-1)
_C2 = tl.constexpr(2.4022242426872253e-1)
_C3 = tl.constexpr(5.550733581185341e-2)
_C4 = tl.constexpr(9.671512991189957e-3)
_C5 = tl.constexpr(1.326472731307149e-3)
_TO_INTEGER = tl.constexpr(12582912.0)  # 1.5·2^23: adding and subtracting it rounds |x| < 2^22 half to even
TO_INTEGER_64 = tl.constexpr(6755399441055744.0)  # 1.5·2^52: the same in float64 for |x| < 2^51
_TO_NATURAL = tl.constexpr(8388608.0)  # 2^23: the same for 0 ≤ x < 2^23


@triton.jit
def order_of(values):
    """int32 that ascend with float32 `values`; −0 as +0. NaN of either sign is above +inf."""
    return tl.where(values != values, NAN_ORDER, order_of_number(values))


@triton.jit
def order_of_number(values):
    """`order_of` what is not NaN."""
    # −0 + 0 = +0.
    bits = (values + 0.0).to(tl.int32, bitcast=True)
    return bits ^ ((bits >> 31) & 0x7FFFFFFF)


@triton.jit
def value_of(order):
    """The float32 value of an `order_of`."""
    bits = order ^ ((order >> 31) & 0x7FFFFFFF)
    return bits.to(tl.float32, bitcast=True)


@triton.jit
def key_of(values, ids):
    """int64 keys that ascend in (logit desc, id asc) order; `NO_KEY` for removed tokens."""
    return tl.where(values > float("-inf"), key_of_number(values, ids), NO_KEY)


@triton.jit
def key_of_number(values, ids):
    """`key_of` what is neither removed nor NaN."""
    return ((~order_of_number(values)).to(tl.int64) << 32) | ids.to(tl.int64)


@triton.jit
def within(values, ids, bound):
    """Whether `key_of` is at most the key `bound`, by floats, which takes half of the instructions. What is
    removed counts as within some bounds."""
    edge = value_of_key(bound)
    last = tl.minimum(bound & 0xFFFFFFFF, 0x7FFFFFFF).to(tl.int32)
    return (values > edge) | ((values == edge) & (ids <= last))


@triton.jit
def value_of_key(key):
    """The float32 logit of a key; −inf for `NO_KEY`."""
    value = value_of(~((key >> 32).to(tl.int32)))
    return tl.where(key == NO_KEY, float("-inf"), value)


@triton.jit
def id_of_key(key):
    return (key & 0xFFFFFFFF).to(tl.int32)


@triton.jit
def order_of_bound(bound):
    """The least order of logits that pass a bound for whole logits, whatever their ids."""
    return ~(bound >> 32).to(tl.int32)


@triton.jit
def heated(values, scale):
    """Logits times float32(1/T); an overflow becomes ±FLT_MAX, and what is removed stays removed."""
    scaled = tl.minimum(values * scale, FLT_MAX)
    return tl.where(values > float("-inf"), tl.maximum(scaled, -FLT_MAX), float("-inf"))


@triton.jit
def weight_of(values, peak):
    """w = rint(2^(y + 30)) as int64; 0 where y < −31 and for −inf."""
    return weight_at(distance_of(values, peak))


@triton.jit
def distance_of(values, peak):
    """y = (l − max)·log2 e, in bits below the maximum."""
    return (values - peak) * LOG2_E


@triton.jit
def weight_at(y):
    """The weight at a distance."""
    y = tl.where(y > -31.0, y, -31.0)  # where the result is 2^−1, which rounds to 0
    whole = y + _TO_INTEGER
    n = whole - _TO_INTEGER
    r = y - n
    p = r * _C5
    p = p + _C4
    square = r * r
    p = p * square
    low = r * _C3
    low = low + _C2
    p = p + low
    p = p * square
    low = r * _C1
    low = low + _C0
    p = p + low
    # 2^(n + 30): the bias is 127, and n stands in the last bits of `whole`, whose others are shifted out.
    power = ((whole.to(tl.int32, bitcast=True) + 157) << 23).to(tl.float32, bitcast=True)
    p = p * power
    p = tl.where(p < _TO_NATURAL, (p + _TO_NATURAL) - _TO_NATURAL, p)
    return p.to(tl.int32).to(tl.int64)


@triton.jit
def share_limit(p, reach, total):
    """The cumulative weight up to which tokens lie inside a share `p` of int64 `total`, as top_p counts
    them."""
    mass = total.to(tl.float64)
    reaching = tl.maximum(tl.ceil((p - SLACK) * mass).to(tl.int64), 1) - 1
    within = tl.floor((p + SLACK) * mass).to(tl.int64)
    return tl.where(reach, reaching, within)


@triton.jit
def min_p_bound(peak, depth):
    """The key of the last token that min_p lets pass: l ≥ float32(max + ln(min_p) − 2^−20)."""
    threshold = (peak.to(tl.float64) + depth - SLACK).to(tl.float32)
    return ((~order_of(threshold)).to(tl.int64) << 32) | 0xFFFFFFFF


@triton.jit
def scaled_draw(bits, total):
    """(r·S) >> 64 for the 64 bits r of int64 `bits`."""
    high = tl.umulhi(bits.to(tl.uint64, bitcast=True), total.to(tl.uint64, bitcast=True))
    return high.to(tl.int64, bitcast=True)


@triton.jit
def in_lines(COUNT: tl.constexpr):
    """0 to COUNT − 1 as [lines, columns] for `upto`."""
    WIDE: tl.constexpr = 128 if COUNT >= 128 else COUNT
    return tl.arange(0, COUNT // WIDE)[:, None] * WIDE + tl.arange(0, WIDE)[None, :]


@triton.jit
def upto(values):
    """The sums of integers [lines, columns] up to each place, line by line, itself included. A line is mostly
    one warp's, whose threads need no barrier between them; the warps wait once for each other."""
    lines = tl.sum(values, 1)
    return (tl.cumsum(lines, 0) - lines)[:, None] + tl.cumsum(values, 1)
