"""Samplers whose C function differs from `apply`. The functions are callbacks, which C could not tell from
compiled ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from engine_sampler.arithmetic import coin
from engine_sampler.backends.library.header import contract

from .collection import breaks
from .right import Flip

LAW = "the_row_function_equals_apply"
FLT_MAX = np.finfo(np.float32).max


def in_c(change: Callable[[Any, np.ndarray, np.ndarray, Any], int]) -> Any:
    """The address of a C function that calls `change(row, logits, ids, state)`."""

    def call(row: Any, logits: Any, ids: Any, n: int, state: Any) -> int:
        values = np.frombuffer(contract().buffer(logits, 4 * n), np.float32)
        tokens = np.frombuffer(contract().buffer(ids, 4 * n), np.int32) if ids else np.arange(n)
        with np.errstate(all="ignore"):
            return change(row, values, tokens, state)

    callback = contract().callback("es_row_function", call)
    KEPT.append(callback)
    return callback


KEPT: list[Any] = []
"""Callbacks live as long as they are referenced."""


def add(logits: np.ndarray, tokens: np.ndarray, shift: float) -> None:
    """What `Tilt` does."""
    alive = logits > -np.inf
    logits += np.where(tokens % 2 == 0, np.float32(shift), np.float32(0))
    np.clip(logits, -FLT_MAX, FLT_MAX, out=logits, where=alive)


def tossed(row: Any, draw: int = 0) -> float:
    """What `Flip` adds."""
    heads = coin(np.array([row.draw(row, draw)], np.uint64), np.array([0.5]))[0]
    return row.values[0] * (1.0 if heads else -1.0)


def right(row: Any, logits: np.ndarray, tokens: np.ndarray, state: Any) -> int:
    add(logits, tokens, tossed(row))
    return 0


class FlipInC(Flip):
    """The right one."""

    row_function = in_c(right)


def ignores_ids(row: Any, logits: np.ndarray, tokens: np.ndarray, state: Any) -> int:
    add(logits, np.arange(len(logits)), tossed(row))
    return 0


@breaks(LAW)
class IgnoresIds(Flip):
    """Its C function takes columns for tokens."""

    row_function = in_c(ignores_ids)


def never_tosses(row: Any, logits: np.ndarray, tokens: np.ndarray, state: Any) -> int:
    add(logits, tokens, row.values[0])
    return 0


@breaks(LAW)
class NeverTosses(Flip):
    """Its C function leaves out the coin."""

    row_function = in_c(never_tosses)


def tosses_another(row: Any, logits: np.ndarray, tokens: np.ndarray, state: Any) -> int:
    add(logits, tokens, tossed(row, 1))
    return 0


@breaks(LAW)
class TossesAnotherCoin(Flip):
    """Its C function takes the second random number."""

    row_function = in_c(tosses_another)


def is_off_by_one_bit(row: Any, logits: np.ndarray, tokens: np.ndarray, state: Any) -> int:
    add(logits, tokens, tossed(row))
    logits[:] = np.where(np.abs(logits) < 100, np.nextafter(logits, np.float32(np.inf)), logits)
    return 0


@breaks(LAW)
class IsOffByOneBit(Flip):
    """Its C function rounds in another way."""

    row_function = in_c(is_off_by_one_bit)


def does_nothing(row: Any, logits: np.ndarray, tokens: np.ndarray, state: Any) -> int:
    return 0


@breaks(LAW)
class DoesNothingInC(Flip):
    """Its C function returns success and changes nothing."""

    row_function = in_c(does_nothing)


def always_fails(row: Any, logits: np.ndarray, tokens: np.ndarray, state: Any) -> int:
    return 1


@breaks(LAW)
class AlwaysFailsInC(Flip):
    """Its C function refuses every row."""

    row_function = in_c(always_fails)


def counts_tokens(row: Any, logits: np.ndarray, tokens: np.ndarray, state: Any) -> int:
    counted = contract().cast("int64_t *", state)[0]
    add(logits, tokens, row.values[0] * counted)
    return 0


class Counting(Flip):
    """Adds `tilt` once for every output token, which it counts in memory that C reads."""

    name = "counting"
    examples = ()
    row_function = in_c(counts_tokens)

    def new_state(self, params: Any, prompt_token_ids: np.ndarray) -> Any:
        return contract().new("int64_t *")

    def accept(self, state: Any, token_ids: Any) -> None:
        state[0] += len(token_ids)

    def rollback(self, state: Any, n: int) -> None:
        state[0] -= n

    def fork(self, state: Any) -> Any:
        return contract().new("int64_t *", state[0])

    def row_state(self, state: Any) -> int:
        return int(contract().cast("uintptr_t", state))

    def shift(self, rows: Any) -> np.ndarray:
        return rows["tilt"] * np.array([state[0] for state in rows.states])


def ignores_its_state(row: Any, logits: np.ndarray, tokens: np.ndarray, state: Any) -> int:
    add(logits, tokens, row.values[0] * (row.length - row.prompt_length) if row.length < 9 else 0.0)
    return 0


@breaks(LAW, "examples_hold")
class IgnoresItsState(Counting):
    """Its C function stops counting at nine tokens."""

    row_function = in_c(ignores_its_state)


@breaks(LAW, "examples_hold", "a_fork_is_independent")
class SharesTheMemoryOfAFork(Counting):
    """Its fork has the address of the parent's memory."""

    def fork(self, state: Any) -> Any:
        return _Moved(contract().new("int64_t *", state[0]), state)

    def row_state(self, state: Any) -> int:
        return super().row_state(getattr(state, "other", state))


class _Moved:
    """A state with memory of its own, which keeps that of another."""

    def __init__(self, own: Any, other: Any) -> None:
        self.own, self.other = own, other

    def __getitem__(self, i: int) -> int:
        return self.own[i]

    def __setitem__(self, i: int, value: int) -> None:
        self.own[i] = value
