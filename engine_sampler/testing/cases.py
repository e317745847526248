"""Random batches, the same in every run, for testing samplers."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, TypeVar

import numpy as np

from ..arithmetic import FLT_MAX, LOGIT_LIMIT
from ..base.arrays import padded

Random = np.random.Generator
T = TypeVar("T")

_KEPT = 20_000
"""Batches of up to so many tokens times parameter sets are kept for other laws."""


def times(rounds: int) -> int:
    """`rounds`, multiplied by ENGINE_SAMPLER_TEST_ROUNDS for a longer search; 0 counts as 1.

    Raises ValueError unless the variable is an integer.
    """
    factor = os.environ.get("ENGINE_SAMPLER_TEST_ROUNDS", "1")
    if not factor.isdecimal():
        raise ValueError(f"ENGINE_SAMPLER_TEST_ROUNDS={factor!r} is not allowed: an integer of at least 0")
    return rounds * max(1, int(factor))


@dataclass(frozen=True)
class Case:
    """One batch: float32 logits [n, vocab], and parameters, history and seed of each row."""

    logits: np.ndarray
    kinds: tuple[str, ...]
    params: tuple[Mapping[str, Any], ...]
    prompts: tuple[tuple[int, ...], ...]
    outputs: tuple[tuple[int, ...], ...]
    seeds: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.logits)

    @property
    def vocab_size(self) -> int:
        return int(self.logits.shape[1])

    @property
    def alive(self) -> np.ndarray:
        """bool [n, vocab]: tokens that are not removed."""
        alive: np.ndarray = self.logits > -np.inf
        return alive

    def take(self, which: Sequence[int]) -> Case:
        """Some of the rows, in the order of `which`."""

        def pick(values: Sequence[T]) -> tuple[T, ...]:
            return tuple(values[i] for i in which)

        return Case(
            self.logits[list(which)],
            pick(self.kinds),
            pick(self.params),
            pick(self.prompts),
            pick(self.outputs),
            pick(self.seeds),
        )

    def alone(self) -> Iterator[Case]:
        """Every row as a batch of its own."""
        return (self.take([i]) for i in range(len(self)))

    def reversed(self) -> Case:
        """The rows from last to first."""
        return self.take(range(len(self))[::-1])

    def with_output(self, token_ids: np.ndarray) -> Case:
        """The same batch with `token_ids` [n, k] added to the outputs."""
        outputs = (out + tuple(more) for out, more in zip(self.outputs, token_ids.tolist(), strict=True))
        return replace(self, outputs=tuple(outputs))

    def some_token_ids(self, k: int) -> np.ndarray:
        """Token ids to continue with, int64 [n, k]: few different ones, so that n-grams of the history
        recur."""
        return np.random.default_rng(len(self)).integers(0, min(self.vocab_size, 3), (len(self), k))

    def some_notes(self, k: int) -> np.ndarray:
        """A selector's notes for these tokens, float64 [n, k]."""
        return np.random.default_rng(len(self)).uniform(0, 10, (len(self), k))

    def compact(self, keep: np.ndarray, padding: int = 0) -> tuple[np.ndarray, np.ndarray]:
        """Only the columns `keep` [n, vocab]: logits and their ids; `padding` columns are added."""
        kept = [np.flatnonzero(row) for row in keep]
        ids = padded(kept, self.vocab_size, np.int64, max(map(len, kept)) + padding)
        return np.take_along_axis(with_padding(self.logits), ids, axis=1), ids

    def refuse(self, wrong: np.ndarray, what: str) -> None:
        """Raise AssertionError for the first True of `wrong`: [n], or [n, vocab] for "token 5 …"."""
        if not wrong.any():
            return
        i, *column = np.argwhere(wrong)[0].tolist()
        token = f"token {column[0]} " if column else ""
        raise AssertionError(
            f"{token}{what}, in row {i} of {len(wrong)}: "
            f"{self.kinds[i]}, vocabulary {self.vocab_size}, params {dict(self.params[i])}"
        )

    def thinned(self, share: float = 0.5) -> Case:
        """The same batch with about this share of the tokens, and the best one in any case."""
        best = self.logits == self.logits.max(axis=1, keepdims=True)
        first = best & (best.cumsum(axis=1) == 1)
        stay = np.random.default_rng(self.vocab_size).random(self.logits.shape) < share
        return replace(self, logits=np.where(stay | first, self.logits, np.float32(-np.inf)))

    def rolled(self) -> Case:
        """The same batch with the logits of other tokens."""
        return replace(self, logits=np.roll(self.logits, 1, axis=1))

    def spread(self, size: int) -> Case:
        """The same tokens in their order among `size` others that are removed."""
        ids = np.sort(np.random.default_rng(size).permutation(size)[: self.vocab_size])
        logits = np.full((len(self), size), -np.inf, np.float32)
        logits[:, ids] = self.logits

        def renamed(histories: tuple[tuple[int, ...], ...]) -> tuple[tuple[int, ...], ...]:
            return tuple(tuple(ids[list(history)].tolist()) for history in histories)

        return replace(self, logits=logits, prompts=renamed(self.prompts), outputs=renamed(self.outputs))

    def repeated(self, n: int) -> Case:
        """A batch of `n` rows: these rows again and again."""
        return self.take([i % len(self) for i in range(n)])

    def expect_equal(self, result: np.ndarray, expected: np.ndarray, where: str) -> None:
        """Raise AssertionError unless both float arrays [n, k] hold the same bits, NaN being equal."""
        same = (result == expected) & (np.signbit(result) == np.signbit(expected))
        same |= np.isnan(result) & np.isnan(expected)
        self.refuse(~same.all(axis=1), f"the result differs {where}")


def cases(params: Sequence[Mapping[str, Any]], vocab_sizes: Sequence[int], rounds: int) -> Iterator[Case]:
    """For every size and each of `times(rounds)` a batch, with a row of each kind for each of `params`."""
    for size in vocab_sizes:
        for number in range(times(rounds)):
            small = len(params) * size <= _KEPT
            case = (_rows_again if small else _rows)(len(params), size, number)
            yield replace(case, logits=case.logits.copy(), params=_for_each_kind(params))


def make_case(params: Sequence[Mapping[str, Any]], vocab_size: int, random: Random) -> Case:
    """A batch with a row of each kind for each entry of `params`."""
    kinds = (*KINDS,) * len(params)
    logits = [KINDS[kind](random, vocab_size) for kind in kinds]
    prompts = tuple(_history(random, vocab_size, 30) for _ in kinds)
    outputs = tuple(_history(random, vocab_size, 20) for _ in kinds)
    seeds = tuple(random.integers(0, 2**63, len(kinds)).tolist())
    given = _for_each_kind(params)
    return Case(np.stack(logits).astype(np.float32), kinds, given, prompts, outputs, seeds)


def _rows(count: int, vocab_size: int, number: int) -> Case:
    """`make_case` for `count` empty parameter sets."""
    return make_case([{}] * count, vocab_size, np.random.default_rng([vocab_size, number]))


_rows_again = lru_cache(maxsize=64)(_rows)
"""Every law of every kit asks for the same rows. The logits must not be changed."""


def _for_each_kind(params: Sequence[Mapping[str, Any]]) -> tuple[Mapping[str, Any], ...]:
    return tuple(given for given in params for _ in KINDS)


def with_padding(logits: np.ndarray) -> np.ndarray:
    """The rows of `logits` [n, vocab] with a removed column after them: [n, vocab + 1]."""
    wide = np.full_like(logits, -np.inf, shape=(len(logits), logits.shape[1] + 1))
    wide[:, :-1] = logits
    return wide


def _history(random: Random, vocab_size: int, most: int) -> tuple[int, ...]:
    """Up to `most` token ids, often none; mostly from a few ids, so that n-grams come back."""
    length = max(0, int(random.integers(-most // 4, most + 1)))
    few = random.integers(0, min(vocab_size, 3), length)
    return tuple(np.where(random.random(length) < 0.9, few, random.integers(0, vocab_size, length)).tolist())


# --- kinds of rows -------------------------------------------------------------------------------


def _leave(random: Random, row: np.ndarray, count: int) -> np.ndarray:
    removed = random.permutation(len(row))[max(1, count) :]
    row[removed] = -np.inf
    return row


def _gaps(random: Random, size: int) -> np.ndarray:
    """Steps of up to 3 bits, so that longer rows reach far below the lightest weight."""
    return random.permutation(-np.cumsum(random.random(size) * 2))


KINDS: Mapping[str, Callable[[Random, int], np.ndarray]] = {
    "peaked": lambda random, size: random.normal(0, 10, size),
    "plain": lambda random, size: random.normal(0, 2, size),
    "flat": lambda random, size: random.normal(0, 0.05, size),
    "constant": lambda random, size: np.full(size, -3.5),
    "tied": lambda random, size: random.integers(-2, 3, size).astype(float),
    "falling": _gaps,
    "half removed": lambda random, size: _leave(random, random.normal(0, 3, size), size // 2),
    "mostly removed": lambda random, size: _leave(random, random.normal(0, 3, size), 5),
    "single": lambda random, size: _leave(random, random.normal(0, 3, size), 1),
    "signed zero": lambda random, size: random.choice([-0.0, 0.0], size),
    "wide": lambda random, size: random.uniform(-1, 1, size) * float(LOGIT_LIMIT),
    "extreme": lambda random, size: random.choice([-float(FLT_MAX), 0.0, 1.0, float(FLT_MAX)], size),
}
"""Rows as they come from models and from earlier samplers, by name."""
