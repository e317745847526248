"""The arithmetic contract, in NumPy: same logits, parameters, history, seed and position give the
same token on every exact backend, for any batch, thread count and SIMD width.

This docstring is the specification; another exact backend computes the same, bit for bit.

General
    Between samplers the state is the float32 row, nothing wider. Elementwise steps are single IEEE
    operations in the order written: no fused multiply-add, no fast-math, no flush-to-zero
    (`require_ieee` probes). A sampler computes the same on any ascending subset of ids that holds
    all surviving ones: deleting −inf columns changes nothing.
    No libm, no float sum in library order steers a token. Scalars use `log2_64` and `exp2_64`: a
    bit split and a fixed float64 Horner polynomial; pow(x, e) = exp2_64(e·log2_64(x)).
    A raw row with NaN, +inf or a logit above 2^100 is a row error; a logit below −2^100 reads as
    −inf. Finite edits clamp to ±FLT_MAX (`settle`); every transform skips −inf. Order and equality
    of logits ignore the sign of zero. Ties: logit descending, then id ascending, everywhere.

Weights (`distances`, `weights`)
    y = (l − max)·float32(log2 e). y < −31: weight 0. n = rint(y) to nearest even; r = y − n.
    p = ((c5·r + c4)·r² + (c3·r + c2))·r² + (c1·r + c0), wf = p·2^(n+30), w = rint(wf), an integer;
    c0 = 1, c1 = 6.931470036506653e-1, c2 = 2.4022242426872253e-1, c3 = 5.550733581185341e-2,
    c4 = 9.671512991189957e-3, c5 = 1.326472731307149e-3, each as float32.
    Sums of weights are integers, so blocks, lanes, threads and shards do not matter. A token below
    2^−31 of the likeliest has weight 0 and is never drawn; total variation from the real softmax
    is at most V·2^−31 + 1e−6.
    Weights are not monotone in l to the last unit: weight cuts keep the longest prefix in (logit
    desc, id asc) order that passes (`keep_heavy` in `ranking`).
    Mass thresholds have an absolute slack of 2^−20 (`mass_reaching`, `mass_within`), weight
    thresholds a relative one, so that exact boundaries do not hang on rounding.

Entropy (`information`, `log2_mass`)
    d = −y bits; u = rint(float32(w·d)), 0 where w = 0; S = Σw, E = Σu as int64,
    L = log2_64(S) − 30; entropy H = L + E/S bits.

Logprobs (`log_total`, `row_logprobs`)
    ln Σ exp(l) = float64(max) + (log2_64(S) − 30)·ln 2, S the sum of the weights; the logprob of a token
    is float32(float64(l) − that). Tokens are listed in (logit desc, id asc) order; the rank of a token is
    one more than the tokens before it. Removed tokens have −inf and the rank after all others.

Random numbers (`philox4x32`, `draw64`)
    Philox4x32-10. key = [seed low, seed high]; counter = [draw, stream, position low, position
    high]; r = x0 | x1 << 32. position = len(prompt) + len(output), the index of the token being
    drawn. stream = 0 for the selector; for a sampler the first four little-endian bytes of
    sha256(name), 0 becoming 1. The drawn token is the first surviving id, ascending, whose
    cumulative weight exceeds (r·S) >> 64. A coin with probability q shows heads if
    (r >> 11) < q·2^53. Child i ≥ 1 of a group of n has seed Philox(seed, [i, 0xFFFFFFFF, 0, 0]).

Rules of single samplers stand in their own docstrings.
"""

# Plugins may import any of these names. For sorting and cutting rows, use the functions of `ranking`:
# `descending`, `first_columns` and `top_columns` order columns; `keep_leading`, `keep_prefix`, `keep_heavy`
# and `keep_above_best` return the mask of a truncation.
from .given import GivenLogprobs, RowGiven, given_logprobs
from .integer_weights import (
    FLT_MAX,
    GREEDY_BELOW,
    LN_2,
    LOG2_E,
    LOGIT_LIMIT,
    LOWEST_BITS,
    MASS_SLACK,
    ONE_WEIGHT,
    WEIGHT_TERMS,
    distances,
    entropy_bits,
    information,
    log2_mass,
    mass_reaching,
    mass_within,
    pick_by_weight,
    require_ieee,
    settle,
    weight_of_share,
    weights,
)
from .logits import SUPPORTED, EmptyRow, LogitRows, OnStream, RowFault, checked_row, peaked_row
from .logprobs import Logprobs, RowLogprobs, gather, log_softmax, log_sum_exp, log_total, row_logprobs
from .philox import (
    SELECTOR_STREAM,
    DrawsAhead,
    child_seed,
    coin,
    draw64,
    philox4x32,
    scale_draw,
    stream_of,
)
from .ranking import (
    NARROW,
    descending,
    first_columns,
    keep_above_best,
    keep_first,
    keep_heavy,
    keep_leading,
    keep_prefix,
    reorder,
    sort_keys,
    top_columns,
)
from .scalars import EXP2_TERMS, LOG2_TERMS, SQRT_HALF, exp2_64, log2_64, power

__all__ = [
    "EXP2_TERMS",
    "FLT_MAX",
    "GREEDY_BELOW",
    "LN_2",
    "LOG2_E",
    "LOG2_TERMS",
    "LOGIT_LIMIT",
    "LOWEST_BITS",
    "MASS_SLACK",
    "NARROW",
    "ONE_WEIGHT",
    "SELECTOR_STREAM",
    "SQRT_HALF",
    "SUPPORTED",
    "WEIGHT_TERMS",
    "DrawsAhead",
    "EmptyRow",
    "GivenLogprobs",
    "LogitRows",
    "Logprobs",
    "OnStream",
    "RowFault",
    "RowGiven",
    "RowLogprobs",
    "checked_row",
    "child_seed",
    "coin",
    "descending",
    "distances",
    "draw64",
    "entropy_bits",
    "exp2_64",
    "first_columns",
    "gather",
    "given_logprobs",
    "information",
    "keep_above_best",
    "keep_first",
    "keep_heavy",
    "keep_leading",
    "keep_prefix",
    "log2_64",
    "log2_mass",
    "log_softmax",
    "log_sum_exp",
    "log_total",
    "mass_reaching",
    "mass_within",
    "peaked_row",
    "philox4x32",
    "pick_by_weight",
    "power",
    "reorder",
    "require_ieee",
    "row_logprobs",
    "scale_draw",
    "settle",
    "sort_keys",
    "stream_of",
    "top_columns",
    "weight_of_share",
    "weights",
]
