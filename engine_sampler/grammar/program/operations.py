"""Operations on the edges of rules with registers: tests and changes of bits and counters (see `rules`)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

Operation: TypeAlias = tuple[int, ...]

CLEAR, SET, COUNT, SATURATE, AT_LEAST, RESET, CLAUSE = range(7)


def clear(bit: int) -> Operation:
    """Pass only if `bit` is 0."""
    return (CLEAR, bit)


def set_bit(bit: int) -> Operation:
    """Set `bit` to 1."""
    return (SET, bit)


def count(counter: int, high: int) -> Operation:
    """Add 1 to `counter`; pass only if the result is at most `high`."""
    return (COUNT, counter, high)


def saturate(counter: int, high: int) -> Operation:
    """Add 1 to `counter` unless it is already `high`."""
    return (SATURATE, counter, high)


def at_least(counter: int, low: int) -> Operation:
    """Pass only if `counter` is `low` or more."""
    return (AT_LEAST, counter, low)


def reset(counter: int) -> Operation:
    """Set `counter` to 0."""
    return (RESET, counter)


def clause(*values: tuple[int, bool]) -> Operation:
    """Pass only if at least one bit has the value given for it."""
    return (CLAUSE, *(bit << 1 | value for bit, value in values))


def any_clear(bits: Iterable[int]) -> Operation:
    """Pass only if at least one of the bits is 0."""
    return (CLAUSE, *[bit << 1 for bit in bits])
