"""Random sizes, seeds, histories, parameters and rows, over all that a request may have."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ...contract import Param
from ..cases import KINDS, Case, Random

LARGEST = 131_072
"""The most tokens of a vocabulary that is tried."""

MOST_ROWS = 70

_AT_BOUNDARIES = 0.2
"""The share of rows that have a token exactly where a parameter may cut."""

_CELLS = 40_000
"""About the most logits of a batch: the more tokens, the fewer rows."""


def draw_size(random: Random, least: int = 1, most: int = LARGEST) -> int:
    """The size of a vocabulary: every order of magnitude alike, and often one around a power of 2."""
    size = int(np.exp(random.uniform(np.log(max(1, least)), np.log(most + 1))))
    if random.random() < 0.3:
        size = (1 << (size.bit_length() - 1)) + int(random.integers(-1, 2))
    return min(max(size, least), most)


def draw_sizes(random: Random, least: int = 1, most: int = LARGEST) -> tuple[int, int, int]:
    """A small, a middling and a large size between `least` and `most`."""
    small, middle = max(least, min(64, most)), max(least, min(3000, most))
    sizes = draw_size(random, least, small), draw_size(random, small, middle)
    large = most - int(random.integers(0, min(99, most - middle) + 1))
    return *sizes, large if random.random() < 0.7 else draw_size(random, max(middle, min(20_001, most)), most)


def draw_count(random: Random, size: int) -> int:
    """How many rows of `size` logits a batch has: 3 for a large vocabulary, else often few and at times
    MOST_ROWS."""
    most = min(MOST_ROWS, max(3, _CELLS // size))
    return 3 if most == 3 else 2 + int((most - 1) * random.random() ** 3)


def draw_seed(random: Random) -> int:
    """64 bits, of which few or many are set."""
    whole = int(random.integers(0, 2**64, dtype=np.uint64))
    return [whole, whole, whole | 1 << 63, whole >> 32, whole & ~(2**32 - 1), 0, 2**64 - 1][
        int(random.integers(7))
    ]


def draw_depth(random: Random, length: int) -> int:
    """How many of `length` tokens are rolled back: mostly a few, at times any number."""
    few = random.random() < 0.7
    return min(length, int(random.geometric(0.3)) - 1) if few else int(random.integers(length + 1))


def draw_history(random: Random, size: int, most: int) -> tuple[int, ...]:
    """Up to `most` token ids, often few or none; mostly repeats, so that n-grams recur."""
    length = int(most * random.random() ** 3)
    few = random.integers(0, size, 3)[random.integers(0, 3, length)]
    ids = np.where(random.random(length) < 0.85, few, random.integers(0, size, length))
    return tuple(ids.tolist())


def draw_row(random: Random, size: int, kind: str | None = None) -> tuple[str, np.ndarray]:
    """A kind of row, any if none is given, and float32 logits [size] of it."""
    kind = str(random.choice(list(_ROWS))) if kind is None else kind
    return kind, _ROWS[kind](random, size).astype(np.float32)


def draw_case(random: Random, params: Sequence[Mapping[str, Any]], size: int, most_tokens: int = 120) -> Case:
    """A batch of rows of any kinds for a vocabulary of `size`, each with one of `params`."""
    n = draw_count(random, size)
    chosen = tuple(params[int(i)] for i in random.integers(0, len(params), n))
    drawn = [draw_row(random, size, kind) for kind in _kinds_for(size, n)]
    for i in np.flatnonzero(random.random(n) < _AT_BOUNDARIES).tolist():
        drawn[i] = "steps of a parameter", _steps_of(random, size, chosen[i])
    kinds, rows = zip(*drawn, strict=True)
    return Case(
        np.stack(rows),
        kinds,
        chosen,
        tuple(draw_history(random, size, most_tokens) for _ in range(n)),
        tuple(draw_history(random, size, most_tokens) for _ in range(n)),
        tuple(draw_seed(random) for _ in range(n)),
    )


def _steps_of(random: Random, size: int, params: Mapping[str, Any]) -> np.ndarray:
    """Logits that lie below the greatest one by whole multiples of a parameter, in float32, so that a cut
    falls on a token exactly."""
    values = [v for v in params.values() if type(v) in (int, float) and 1e-30 < abs(v) < 1e6]
    step = np.float32(abs(values[int(random.integers(len(values)))]) if values else 1)
    peak = np.float32(random.normal(0, 3))
    row: np.ndarray = peak - random.integers(0, 4, size).astype(np.float32) * step
    return row


def _kinds_for(size: int, n: int) -> list[str | None]:
    """The kinds of `n` rows: any, but among the few rows of a large vocabulary those that differ most."""
    return [None] * n if size < 20_000 else ["few left", "many ties", None][:n]


def draw_value(random: Random, param: Param, like: Any) -> Any:
    """A value for `param` that is like another: a number within its bounds, a text with other letters."""
    if param.choices is not None:
        return param.choices[int(random.integers(len(param.choices)))]
    if param.type is bool:
        return bool(random.integers(2))
    if isinstance(like, str) and like:
        letters = list(like)
        at, letter = int(random.integers(len(letters))), str(random.choice(list("abcx\n é1")))
        letters[at : at + int(random.integers(2))] = [letter] * int(random.choice([1, 1, 3]))
        return "".join(letters)
    if param.type not in (int, float) or isinstance(like, bool) or not isinstance(like, (int, float)):
        return like
    scale = float(np.exp(random.normal(0, 1)))
    value = float(like) * scale if like else scale - 1
    low, high = (-1e30 if param.low is None else param.low), (1e30 if param.high is None else param.high)
    value = min(max(value, low), high)
    return round(value) if param.type is int else value


# --- kinds of rows -------------------------------------------------------------------------------


def _many_ties(random: Random, size: int) -> np.ndarray:
    """A few levels, the highest of which has as many tokens as any."""
    levels = -np.sort(random.exponential(6, int(random.integers(1, 5))))
    row: np.ndarray = random.choice(levels, size)
    return row


def _few_left(random: Random, size: int) -> np.ndarray:
    row = random.normal(0, 3, size)
    row[random.random(size) < random.choice([0.5, 0.9, 0.999])] = -np.inf
    row[int(random.integers(size))] = random.normal(0, 3)
    return row


def _far_apart(random: Random, size: int) -> np.ndarray:
    return random.normal(0, 1, size) * 10.0 ** random.uniform(-6, 30)


_ROWS: Mapping[str, Callable[[Random, int], np.ndarray]] = {
    **KINDS,
    "many ties": _many_ties,
    "few left": _few_left,
    "of any scale": _far_apart,
}
