"""Conversions of values that several samplers take."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..contract.values import unique_token_ids

_INTEGERS = (int, np.integer)


def ids_or_one(value: Any) -> tuple[int, ...]:
    """Token ids without duplicates, from a collection or a single id; None and −1 are none."""
    if value is None:
        return ()
    if isinstance(value, _INTEGERS) and not isinstance(value, bool):
        return unique_token_ids(() if value == -1 else (value,))
    return unique_token_ids(value)


def count_and_number(value: Any, low: float, high: float, allowed: str) -> tuple[int, float]:
    """`value`, a pair of an integer of at least 0 and a number of `low` to `high`; raises ValueError with the
    text `allowed` for anything else."""
    pair: tuple[Any, ...] = tuple(value) if isinstance(value, (tuple, list)) else ()
    if len(pair) != 2 or any(isinstance(member, (bool, str)) for member in pair):
        raise ValueError(allowed)
    count, number = pair
    is_count = isinstance(count, _INTEGERS) and 0 <= count < 2**53
    if not is_count or not isinstance(number, (int, float, np.number)) or not low <= number <= high:
        raise ValueError(allowed)
    return int(count), float(number)
