"""Values of JSON as a matcher remembers them, such that equal values are equal in Python."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import TypeAlias

Value: TypeAlias = "bytes | tuple[Value, ...] | frozenset[tuple[bytes, Value]]"
"""A scalar as `scalar_value` writes it, the items of an array, or the keys and values of an object."""


@lru_cache(maxsize=16)
def ascending_scalars(values: frozenset[Value]) -> list[bytes]:
    """The scalars among values in order, those with a common beginning side by side."""
    return sorted(one for one in values if isinstance(one, bytes))


@lru_cache(maxsize=64)
def keys_of(objects: frozenset[Value]) -> frozenset[Value]:
    """The keys of objects."""
    return frozenset(key for one in objects if isinstance(one, frozenset) for key, _ in one)


@lru_cache(maxsize=64)
def members_of(objects: frozenset[Value], key: bytes) -> frozenset[Value]:
    """The values that objects have for a key."""
    return frozenset(
        value for one in objects if isinstance(one, frozenset) for name, value in one if name == key
    )


@lru_cache(maxsize=64)
def elements_of(arrays: frozenset[Value], index: int, others: frozenset[Value]) -> frozenset[Value]:
    """The items of arrays at an index, and other values."""
    found: Iterable[Value] = (one[index] for one in arrays if isinstance(one, tuple) and len(one) > index)
    return others.union(found) if arrays else others


@lru_cache(maxsize=64)
def of_kind(values: frozenset[Value], kind: type) -> frozenset[Value]:
    """The arrays (`tuple`) or the objects (`frozenset`) among values."""
    return frozenset(one for one in values if isinstance(one, kind))
