"""The rows of groups of sequences, and values that are given for each row or for each group."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from .errors import UnsupportedTypeError
from .fields import Field, check_lengths, check_unmasked, frozen, host_array, ids_field


def spans_of(sizes: Iterable[int]) -> list[tuple[int, int]]:
    """(start, end) of consecutive parts with these sizes."""
    ends = np.cumsum(list(sizes)).tolist()
    return list(zip([0, *ends[:-1]], ends, strict=True))


def row_values(field: Field, values: Any, sizes: Sequence[int]) -> np.ndarray | None:
    """The checked values of a field for each row of groups with these sizes; None for None."""
    checked = field.check(values)
    return None if checked is None else for_each_row(field, checked, sizes)


def for_each_row(field: Field, values: np.ndarray, sizes: Sequence[int]) -> np.ndarray:
    """`values` for each row, given for each row or for each group."""
    if len(values) == len(sizes):
        values = frozen(np.repeat(values, sizes))
    check_lengths(sum(sizes), {field.name: values}, "the batch")
    return values


def ids_of_groups(name: str, values: Any) -> list[np.ndarray]:
    """The ids of each group."""
    check_unmasked(name, values)
    try:
        groups = list(values)
    except TypeError as error:
        raise UnsupportedTypeError(
            f"{name}={values!r} is not allowed: a list with an array of ids per group"
        ) from error
    return [ids_in(name, ids) for ids in groups]


def ids_in(name: str, values: Any) -> np.ndarray:
    """int64 [n], checked ids of sequences."""
    array = host_array(name, values, "iu", "int")
    if not array.size:
        return np.zeros(0, np.int64)
    checked = ids_field(name).check(array)
    assert checked is not None
    return checked
