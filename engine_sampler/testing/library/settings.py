"""Parameters at random, over all that their declarations allow."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from ...backends.library.programs import Part
from ...contract import Param, ParameterError, Selector

Random = np.random.Generator

_TRIES = 20
"""How often values that are not allowed together are drawn again."""


def random_settings(
    random: Random, parts: Iterable[Part], known: Mapping[str, Param], size: int
) -> dict[str, Any]:
    """Values for the parameters of `parts`, in normal form, with which every sampler has something to do."""
    neutral = {name: param.neutral for name, param in known.items()}
    drawn: dict[str, Any] = {}
    for owner in dict.fromkeys(parts):
        for attempt in range(_TRIES + 1):
            own = _drawn(random, owner, known, size, example=attempt == _TRIES)
            if _is_allowed(owner, {**neutral, **own}):
                drawn |= own
                break
    if "min_keep" in known and random.random() < 0.2:
        drawn["min_keep"] = int(random.choice([0, 1, 2, 5, 40, size, 2 * size]))
    return drawn


def _is_allowed(owner: Part, values: Mapping[str, Any]) -> bool:
    try:
        owner.check(values)
    except ParameterError:
        return False
    return isinstance(owner, Selector) or owner.is_active(values)


def _drawn(
    random: Random, owner: Part, known: Mapping[str, Param], size: int, *, example: bool
) -> dict[str, Any]:
    if owner.examples and (example or random.random() < 0.15):
        chosen = owner.examples[random.integers(len(owner.examples))].params
        return {name: known[name].check(value) for name, value in chosen.items() if name in known}
    drawn: dict[str, Any] = {}
    for param in owner.params:
        if param.name in known and (param.switch or random.random() < 0.7):
            value = random_value(random, param, size)
            if value is not None:
                drawn[param.name] = param.check(value)
    return drawn


def random_value(random: Random, param: Param, size: int) -> Any:
    """A value that `param` allows; None leaves it out."""
    special = _SPECIAL.get(param.name)
    if special is not None:
        return special(random, size)
    if param.choices is not None:
        return param.choices[random.integers(len(param.choices))]
    if param.type is bool:
        return bool(random.random() < 0.7)
    if param.type is float:
        return _number(random, param)
    if param.type is int:
        return _integer(random, param, size)
    return None


_AT_LIMITS = 0.15
"""How often a number is one of its bounds, or next to it."""


def _number(random: Random, param: Param) -> float:
    low = -np.inf if param.low is None else float(param.low)
    high = np.inf if param.high is None else float(param.high)
    if random.random() < _AT_LIMITS:
        bounds = [low, np.nextafter(low, np.inf), high, np.nextafter(high, -np.inf), 1e-300, 1e6]
        value = float(random.choice([bound for bound in bounds if np.isfinite(bound)]))
    elif low >= 0 and high <= 1:
        power = 10.0 ** -random.uniform(0, 5)
        value = float(random.choice([random.random(), random.random(), power, 1 - power]))
    else:
        value = float(10 ** random.uniform(-3, random.choice([0.7, 0.7, 3])))
        signed = low < 0 and random.random() < 0.4
        value = -value if signed else value
        if low >= 1:
            value += low
    low_open = np.nextafter(low, np.inf) if param.low_open else low
    return float(np.clip(value, low_open, high))


def _integer(random: Random, param: Param, size: int) -> int:
    low = 0 if param.low is None else int(param.low)
    high = 2**62 if param.high is None else int(param.high)
    if random.random() < _AT_LIMITS:
        value = int(random.choice([low, low + 1, min(high, 2**31 - 1), size - 1, size, size + 1]))
    else:
        value = int(2 ** random.uniform(0, np.log2(size + 8)))
        value = int(random.integers(0, 9)) if random.random() < 0.6 else value
    return max(low, min(value, high))


def _ids(random: Random, size: int, most: int = 40) -> list[int]:
    some: list[int] = random.integers(0, size, int(random.integers(1, most))).tolist()
    few: list[int] = random.integers(0, min(size, 6), 3).tolist()
    return some if random.random() < 0.5 else few


def _allowed(random: Random, size: int) -> list[int]:
    share = random.choice([0.01, 0.5, 0.97])
    return [*np.flatnonzero(random.random(size) < share).tolist(), int(random.integers(size))]


def _biases(random: Random, size: int) -> dict[int, float]:
    ids = _ids(random, size)
    values = random.choice([-100.0, -1.5, -0.0, 1e-42, 0.7, 100.0, -np.inf, 3.1], len(ids))
    return dict(zip(ids, values.tolist(), strict=True))


def _words(random: Random, size: int) -> list[list[int]]:
    few = min(size, 4)
    return [
        random.integers(0, few, int(random.integers(1, 5))).tolist() for _ in range(random.integers(1, 7))
    ]


def _breakers(random: Random, size: int) -> list[Any] | None:
    return None if random.random() < 0.4 else _words(random, size)


_SPECIAL: Mapping[str, Callable[[Random, int], Any]] = {
    "allowed_token_ids": _allowed,
    "logit_bias": _biases,
    "bad_words": _words,
    "dry_sequence_breakers": _breakers,
    "no_repeat_ngram_size": lambda random, size: int(random.choice([1, 2, 3, 4, 20, 33, 40, 70])),
    "dry_allowed_length": lambda random, size: int(random.choice([0, 1, 2, 3, 4, 30, 40, 70])),
    "mirostat": lambda random, size: None,  # the selector is chosen by its name
    "adaptive_target": lambda random, size: float(random.choice([0.0, 1.0, random.random()])),
    "xtc_probability": lambda random, size: float(random.choice([0.3, 0.5, 1.0, random.random()])),
    "temperature": lambda random, size: float(
        random.choice([random.uniform(0.05, 2), 10 ** random.uniform(-5, 6), 10 ** random.uniform(0, 1), 0])
    ),
    "dynatemp_range": lambda random, size: float(random.choice([0, random.random(), random.uniform(0, 5)])),
}
"""Parameters that are not numbers, or whose best places to look are not evenly spread."""
