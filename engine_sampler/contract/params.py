"""`Param`: one request parameter, its type, neutral value and bounds."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Set
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..base.errors import ParameterError, quoted
from ..base.giving_way import in_slices

MAX_SIZE = 65_536
"""The limit on texts and collections for which none is declared."""


@dataclass(frozen=True)
class Param:
    """One request parameter: its name, type, neutral value and bounds.

    type      float, int, bool or str for scalars; any other type (dict, list, tuple, object) for
              values that `convert` turns into an immutable form.
    neutral   the value that changes nothing, bit for bit. If it is None, None is an allowed value.
    low, high  inclusive bounds of a number; `low_open` excludes `low` itself.
    choices   the allowed values of a string or integer.
    switch    whether a non-neutral value turns the owner on. A threshold that only matters together
              with another parameter has switch=False.
    convert   called with a value of a composite type; returns the normalised, hashable value, or
              raises ValueError or TypeError with a description of what is allowed.
    doc       one line for listings.
    limit     how much of it one request may ask of a scheduler by default, in the terms of `size`: the
              work and memory that a value can cost must be bounded. None: for a number, no limit; for any
              other value, `MAX_SIZE`. `RequestLimits` raises or lowers it for a scheduler.
    everything  the number, if there is one, that asks for the whole vocabulary.
    """

    name: str
    type: type
    neutral: Any
    low: float | None = None
    high: float | None = None
    low_open: bool = False
    choices: tuple[Any, ...] | None = None
    switch: bool = True
    convert: Callable[[Any], Any] | None = None
    doc: str = ""
    limit: int | None = None
    everything: int | None = None

    @property
    def default_limit(self) -> int | None:
        """`limit`, or what holds in place of None."""
        return MAX_SIZE if self.limit is None and self.type not in (int, float, bool) else self.limit

    @property
    def annotation(self) -> Any:
        """The type that a signature shows."""
        return self.type | None if self.neutral is None and self.type is not object else self.type

    def size(self, value: Any, vocab_size: int) -> float:
        """What `limit` bounds, of a value in normal form: the number itself if the parameter is one; the
        bytes of a text, in UTF-8; of a collection the sum of its entries, of a mapping with its keys, where a
        number or any other object counts as 1. None has size 0."""
        if self.everything is not None and value == self.everything:
            return vocab_size
        is_number = self.type in (int, float) and value is not None
        return float(value) if is_number else _size(value)

    def check(self, value: Any) -> Any:
        """Return `value` in its normal form, or raise `ParameterError` stating what is allowed."""
        if value is None and self.neutral is None:
            return None
        try:
            checked = self.convert(value) if self.convert else self._scalar(value)
        except OverflowError:
            raise self.error(value, self.allowed()) from None
        except RecursionError:
            raise self.error(value, "it is nested too deeply") from None
        except (TypeError, ValueError) as error:
            raise self.error(value, str(error)) from None
        if self.choices is not None and checked not in self.choices:
            raise self.error(value, "one of " + ", ".join(map(repr, self.choices)))
        is_number = isinstance(checked, (int, float)) and not isinstance(checked, bool)
        if is_number and not self._inside(checked):
            raise self.error(value, self.allowed())
        return checked

    def error(self, value: Any, allowed: str) -> ParameterError:
        """The error for `value`, which names the parameter and states what is allowed."""
        return ParameterError(f"{self.name}={quoted(value)} is not allowed: {allowed}")

    def allowed(self) -> str:
        """The allowed values as text."""
        if self.choices is not None:
            return "one of " + ", ".join(map(repr, self.choices))
        kind = {int: "an integer", float: "a finite number", bool: "True or False", str: "a string"}
        text = kind.get(self.type, f"a {self.type.__name__}")
        if self.low is not None:
            text += f" {'above' if self.low_open else 'of at least'} {self.low:g}"
        if self.high is not None:
            text += f"{' and' if self.low is not None else ' of'} at most {self.high:g}"
        return text + (", or None" if self.neutral is None else "")

    def _scalar(self, value: Any) -> Any:
        is_bool = isinstance(value, (bool, np.bool_))
        if self.type is bool and is_bool:
            return bool(value)
        if self.type is str and isinstance(value, str):
            return value
        if self.type is int and not is_bool:
            is_whole = isinstance(value, (float, np.floating)) and float(value).is_integer()
            if is_whole or isinstance(value, (int, np.integer)):
                if abs(value) < 2**63:
                    return int(value)
                raise ValueError("a 64-bit integer")
        if self.type is float and not is_bool and isinstance(value, (int, float, np.number)):
            number = float(value)
            if math.isfinite(number):
                return number
        raise TypeError(self.allowed())

    def _inside(self, value: float) -> bool:
        if self.low is not None and (value < self.low or (self.low_open and value == self.low)):
            return False
        return self.high is None or value <= self.high


def _size(value: Any) -> int:
    if isinstance(value, str):
        return len(value) if value.isascii() else len(value.encode("utf-8", "surrogatepass"))
    if isinstance(value, (tuple, list, Set)):
        return sum(map(_sum_of_sizes, in_slices(value))) if len(value) > _FEW else _sum_of_sizes(value)
    if isinstance(value, Mapping):
        return _size((*value, *value.values()))
    if isinstance(value, (bytes, bytearray)):
        return len(value)
    return 0 if value is None else 1


def _sum_of_sizes(values: Collection[Any]) -> int:
    return sum([1 if type(value) in _NUMBERS else _size(value) for value in values])


_NUMBERS = (int, float)
_FEW = 64
