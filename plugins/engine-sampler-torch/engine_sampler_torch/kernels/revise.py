"""What penalties and biases make of the tokens that they list, kept on the device from step to step.

The lists of a request are in one of two tables of its slot, ascending by id. A step copies one to the other
with the newest token in its place, so no program reads what another of the same launch has written. Rows of
drafts have two tables of their own, which begin with that of their request.
"""

from collections.abc import Sequence

import triton
import triton.language as tl
from torch import Tensor

from .launching import launch
from .numbers import FLT_MAX, TO_INTEGER_64, kernel
from .reading import limited

PADDING = tl.constexpr(0x7FFFFFFF)
"""The id of an entry without a token: beyond every tile."""
STEP = 256
"""How many entries a program works on. A table has a multiple of this many, the last one of them without a
token."""

_DOWN, _UP = tl.constexpr(2.0**-150), tl.constexpr(2.0**150)
_TINY = tl.constexpr(2.0**-125)


@triton.jit
def divided(values, factors, inverses):
    """float32 `values` / `factors`, rounded once. `inverses` are float64(1 / factors).

    The product in float64 is off by less than 2^−51 of the quotient, and a quotient of numbers of 24 bits
    that is not a tie is at least 2^−49 of it away from one. A tie is possible among denormal numbers alone: a
    multiple of 2^−150 that is the quotient exactly."""
    quotients = values.to(tl.float64) * inverses
    ties = (quotients * _UP + TO_INTEGER_64) - TO_INTEGER_64
    is_tie = (tl.abs(quotients) < _TINY) & (ties * factors.to(tl.float64) == values.to(tl.float64) * _UP)
    return tl.where(is_tie, ties * _DOWN, quotients).to(tl.float32)


@triton.jit
def settled(values):
    """Within ±FLT_MAX."""
    return tl.maximum(tl.minimum(values, FLT_MAX), -FLT_MAX)


@kernel()
def revise(logits, changes, index, ids, seen, counted, biases, edit_ids, edit_values,
           factors, inverses, frequencies, presences, rows, width, row_stride, vocab,
           GROWS: tl.constexpr, STEP: tl.constexpr):  # fmt: skip
    """Bring the tables of a row up to date, and list its edits: grid (rows, width / STEP).

    changes  int64 [4, rows]: the number of the row's table plus 2^32 times that of the one to write; the
    token that joins its history, and those that leave the windows of the repetition penalty and of the other
    two, −1 for none.
    ids, seen, counted, biases  [tables, width]: the listed tokens, ascending; how often they are in each
    window; what is added to their logits.

    GROWS: histories matter. Without, tables stay as they are."""
    row, part = tl.program_id(0), tl.program_id(1)
    lanes = tl.arange(0, STEP)
    at = part * STEP + lanes
    tables = tl.load(changes + row)
    before = tables & 0xFFFFFFFF
    source = before * width + at
    joining = tl.load(changes + rows + row)
    place, known = 0, 0
    is_new = place > 0
    if GROWS:
        for start in range(0, width, STEP):
            some = tl.load(ids + before * width + start + lanes)
            place += tl.sum((some < joining).to(tl.int32), 0)
            known += tl.sum((some == joining).to(tl.int32), 0)
        is_new = (joining >= 0) & (known == 0)
        source -= (is_new & (at > place)).to(tl.int64)
    enters = is_new & (at == place)
    tokens = tl.where(enters, joining.to(tl.int32), tl.load(ids + source))
    bias = tl.where(enters, 0.0, tl.load(biases + source))
    raw = tl.load(
        logits + tl.load(index + row) * row_stride + tokens, mask=tokens < vocab, other=float("-inf")
    )
    values = limited(raw.to(tl.float32))
    lifted = tl.where(bias == float("-inf"), float("-inf"), settled(values + bias))
    values = tl.where((values > float("-inf")) & (bias != 0.0), lifted, values)
    if GROWS:
        left, uncounted = tl.load(changes + 2 * rows + row), tl.load(changes + 3 * rows + row)
        joins = (tokens == joining).to(tl.int32)
        times_seen = tl.where(enters, 0, tl.load(seen + source)) + joins - (tokens == left).to(tl.int32)
        times = tl.where(enters, 0, tl.load(counted + source)) + joins - (tokens == uncounted).to(tl.int32)
        factor = tl.load(factors + row)
        repeated = tl.where(values > 0, divided(values, factor, tl.load(inverses + row)), values * factor)
        values = tl.where((values > float("-inf")) & (times_seen > 0), settled(repeated), values)
        shift = times.to(tl.float64) * tl.load(frequencies + row) + tl.load(presences + row)
        lowered = settled(values - shift.to(tl.float32))
        values = tl.where((values > float("-inf")) & (times > 0), lowered, values)
        target = (tables >> 32) * width + at
        tl.store(ids + target, tokens)
        tl.store(biases + target, bias)
        tl.store(seen + target, times_seen)
        tl.store(counted + target, times)
    out = row.to(tl.int64) * width + at
    tl.store(edit_ids + out, tokens.to(tl.int64))
    tl.store(edit_values + out, values)


def revise_tables(
    logits: Tensor,
    changes: Tensor,
    index: Tensor,
    lists: Sequence[Tensor],
    edits: tuple[Tensor, Tensor],
    parameters: Sequence[Tensor],
    vocab_size: int,
) -> None:
    """Launch `revise` for the rows `index` (int64 [n]) of `logits`.

    lists       ids, seen and counted int32, biases float32, [tables, width] each.
    edits       what it writes for `sample`: int64 and float32 [n, width].
    parameters  factors float32, their inverses, frequencies and presences float64, [n] each; none if only
    biases matter, and the tables stay.
    """
    rows, width = len(index), lists[0].shape[1]
    unused = (edits[1],) * 4
    launch(revise, (rows, width // STEP), logits, changes, index, *lists, *edits, *(parameters or unused),
           rows, width, logits.stride(0), vocab_size, GROWS=bool(parameters), STEP=STEP, warps=4)  # fmt: skip
