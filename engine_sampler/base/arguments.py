"""Checks of arguments that a caller may have confused: the errors name the argument, its value, and what is
allowed."""

from __future__ import annotations

import errno
import os
from collections.abc import Collection, Iterable, Mapping
from typing import Any, TypeVar

import numpy as np

from .errors import ParameterError, described

T = TypeVar("T")


def not_allowed(name: str, value: Any, allowed: str) -> ParameterError:
    """The error for an argument that is something else than what is allowed."""
    return ParameterError(f"{name}={described(value)} is not allowed: {allowed}")


def instance_of(kinds: type[T] | tuple[type[T], ...], name: str, value: Any, allowed: str) -> T:
    """`value`, if it is of one of these types."""
    if not isinstance(value, kinds):
        raise not_allowed(name, value, allowed)
    return value


def one_of(names: Collection[str], name: str, value: Any) -> str:
    """`value`, if it is one of these texts."""
    if not isinstance(value, str) or value not in names:
        raise not_allowed(name, value, f"one of {', '.join(map(repr, names))}")
    return value


def with_attributes(attributes: Iterable[str], name: str, value: Any, allowed: str) -> None:
    """Raise unless `value` has all these attributes: what a library's object is known by."""
    if not all(hasattr(value, attribute) for attribute in attributes):
        raise not_allowed(name, value, allowed)


def integer_of(name: str, value: Any, low: int | None = None) -> int:
    """`value` as an integer, of at least `low`."""
    is_integer = isinstance(value, (int, np.integer)) and not isinstance(value, bool)
    if not is_integer or (low is not None and value < low):
        raise not_allowed(name, value, "an integer" + ("" if low is None else f" of at least {low}"))
    return int(value)


def entries_of(name: str, value: Any, allowed: str) -> list[Any]:
    """The entries of a list, or of anything else that has some but a text, bytes or a mapping."""
    if not isinstance(value, Iterable) or isinstance(value, (str, bytes, Mapping)) or _is_scalar(value):
        raise not_allowed(name, value, allowed)
    return list(value)


def integers_of(name: str, value: Any, allowed: str = "a list of token ids") -> list[int]:
    """A list of integers."""
    entries = entries_of(name, value, allowed)
    if not all(isinstance(entry, (int, np.integer)) and not isinstance(entry, bool) for entry in entries):
        raise not_allowed(name, value, allowed)
    return [int(entry) for entry in entries]


def array_of(name: str, value: Any, kinds: str, dimensions: int, allowed: str) -> np.ndarray:
    """`value` as an array of this many dimensions, with a dtype of one of these kinds (`np.dtype.kind`)."""
    try:
        array = np.asarray(value)
    except ValueError:  # rows of different lengths
        raise not_allowed(name, value, allowed) from None
    if array.ndim != dimensions or array.dtype.kind not in kinds:
        raise not_allowed(name, value, allowed)
    return array


def file_of(path: str | os.PathLike[str]) -> str:
    """The path of a file that exists; raises FileNotFoundError, which names it."""
    file = os.fspath(path)
    if not os.path.isfile(file):
        raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT), file)
    return file


def _is_scalar(value: Any) -> bool:
    """Whether it is an array without a dimension, which cannot be iterated."""
    return isinstance(value, (np.ndarray, np.generic)) and value.ndim == 0
