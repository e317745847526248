"""The options of a choice with the parts that many of them begin with written once.

An option moves only past others that begin with other characters: the same one stays preferred.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import NamedTuple

from ..work import spend

OTHER = -1
"""The key of a part that is never shared."""

_MAX_PREFIXES = 100
"""The most prefixes that one option is split into; the rest of it is not shared."""

Rows = Sequence[list[int]]
"""For each option a key for each of its parts: parts with different keys have no character in common."""


class Piece(NamedTuple):
    """The parts `start` to `end` of an option, then one of `rests`; None: the option ends there."""

    option: int
    start: int
    end: int
    rests: list[Piece] | None


def with_shared_prefixes(rows: Rows) -> list[Piece]:
    """The options as pieces, which are preferred in the same order."""
    return _split(rows, range(len(rows)), 0, 0)


def _split(rows: Rows, options: Iterable[int], at: int, depth: int) -> list[Piece]:
    """The options from their part `at` on."""
    split: list[Piece] = []
    has_end = False
    for begins, some in groupby(options, lambda option: rows[option][at : at + 1] > [OTHER]):
        run = list(some)
        spend(1 + len(run) // 2)
        if begins and depth < _MAX_PREFIXES:
            groups: dict[int, list[int]] = {}
            for option in run:
                groups.setdefault(rows[option][at], []).append(option)
            split += [_behind_prefix(rows, group, at, depth) for group in groups.values()]
            continue
        for option in run:
            is_end = len(rows[option]) == at
            if not (is_end and has_end):  # one end is enough
                split.append(Piece(option, at, len(rows[option]), None))
            has_end |= is_end
    return split


def _behind_prefix(rows: Rows, options: list[int], at: int, depth: int) -> Piece:
    """Options with the same part `at`."""
    first = rows[options[0]]
    if len(options) == 1:
        return Piece(options[0], at, len(first), None)
    end = at + 1
    while first[end : end + 1] > [OTHER] and all(rows[one][end : end + 1] == [first[end]] for one in options):
        end += 1
    return Piece(options[0], at, end, _split(rows, options, end, depth + 1))
