"""Results as JSON, and back: objects of a few fields with numbers, texts, lists, arrays and each other.

NaN is null, infinities are the texts "inf" and "-inf", and bytes are in base64.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import fields
from typing import Any, ClassVar, TypeVar

import numpy as np

from .errors import ParameterError, quoted

VERSION = 1
"""Of what `to_dict` of results writes."""


Self = TypeVar("Self", bound="_PlainJson")


class _PlainJson:
    """A dataclass that can be written as JSON, as it says itself."""

    _READERS: ClassVar[Mapping[str, Callable[[Any], Any]]] = {}
    """What reads the fields that JSON has in another form. None stays None."""
    _LEFT_OUT: ClassVar[Collection[str]] = ()
    """The fields that are not written."""

    def to_dict(self) -> dict[str, Any]:
        """As JSON, which `from_dict` reads with the same bits."""
        return {"version": VERSION, **{name: _plain(name, getattr(self, name)) for name in self._written()}}

    @classmethod
    def from_dict(cls: type[Self], state: Mapping[str, Any]) -> Self:
        """What `to_dict` has written. Raises `ParameterError` for anything else."""
        with reading(cls, state):
            result = cls(**{name: cls._read(name, state[name]) for name in cls._written()})
            result._check_lengths()
        return result

    @classmethod
    def _written(cls) -> list[str]:
        names: list[str] = [field.name for field in fields(cls) if field.init]  # type: ignore[arg-type]
        return [name for name in names if name not in cls._LEFT_OUT]

    @classmethod
    def _read(cls, name: str, value: Any) -> Any:
        return value if value is None or name not in cls._READERS else cls._READERS[name](value)

    def _check_lengths(self) -> None:
        """Raise ValueError unless the arrays that have been read belong together."""


@contextmanager
def reading(kind: type, state: Any) -> Iterator[None]:
    """While `state` is read: whatever is wrong with it is a `ParameterError`."""
    try:
        if not isinstance(state, Mapping) or state.get("version") != VERSION:
            raise ValueError(f"an object of version {VERSION}")
        yield
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        raise ParameterError(
            f"state={quoted(state)} is not allowed: what {kind.__name__}.to_dict has given ({error})"
        ) from None


def integers(value: Any) -> np.ndarray:
    """A reader of int64 arrays. Raises TypeError for anything else than a list of integers."""
    if not isinstance(value, list) or any(type(entry) is not int for entry in value):
        raise TypeError(f"{quoted(value)} is no list of integers")
    return np.array(value, np.int64)


def floats(value: Any) -> np.ndarray:
    """A reader of float32 arrays."""
    return np.array([number(entry) for entry in value], np.float32)


def number(value: Any) -> float:
    """A reader of a number. Raises TypeError."""
    if value is None:
        return math.nan
    if value in ("inf", "-inf") or type(value) in (int, float):
        return float(value)
    raise TypeError(f"{quoted(value)} is no number")


def _plain(name: str, value: Any) -> Any:
    if value is None or isinstance(value, (str, bool, int)):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else None if math.isnan(value) else str(value)
    if isinstance(value, np.ndarray):
        return _plain(name, value.tolist())
    if isinstance(value, (list, tuple)):
        return [_plain(name, entry) for entry in value]
    if isinstance(value, Mapping):
        return {str(key): _plain(name, entry) for key, entry in value.items()}
    if isinstance(value, bytes):
        return base64.b64encode(value).decode("ascii")
    if hasattr(value, "to_dict"):
        return value.to_dict()
    raise ParameterError(f"{name}={quoted(value)} cannot be written as JSON")
