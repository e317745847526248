"""The substrings of a given text as an expression: for `%regex {"substring_chars": ...}`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..errors import GrammarError, GrammarLimitError
from ..program.expression import Expression, automaton

MAX_WORK = 250_000
"""How many places in the text are followed at most, over all states of the automaton."""


def substring_expression(wanted: Any) -> Expression:
    """The expression of `{"substring_chunks": [...]}` or `{"substring_chars": "..."}`.

    Chunks are taken whole, one after the other as they stand, from any one on; or no one.
    Raises GrammarError for anything else, and GrammarLimitError.
    """
    if isinstance(wanted, dict) and len(wanted) == 1:
        [(key, chunks)] = wanted.items()
        if key == "substring_chars" and isinstance(chunks, str):
            return _substrings([character.encode() for character in chunks])
        whole = isinstance(chunks, list) and all(isinstance(chunk, str) for chunk in chunks)
        if key == "substring_chunks" and whole:
            return _substrings([chunk.encode() for chunk in chunks])
    raise GrammarError("%regex takes substring_chunks, a list of texts, or substring_chars, a text")


def _substrings(chunks: Sequence[bytes]) -> Expression:
    """A state is the places of the text where one may stand, having begun between any two chunks."""
    text = b"".join(chunks)
    between, at = {0}, 0
    for chunk in chunks:
        at += len(chunk)
        between.add(at)
    waiting = [tuple(sorted(between))]
    numbers = {waiting[0]: 0}
    states = []
    work = 0
    for places in waiting:  # which grows
        work += len(places)
        if work > MAX_WORK:
            raise GrammarLimitError(f"the substrings of a text take more than {MAX_WORK} steps")
        following: dict[int, list[int]] = {}
        for place in places:
            if place < len(text):
                following.setdefault(text[place], []).append(place + 1)
        edges = []
        for byte, after in sorted(following.items()):
            number = numbers.setdefault(tuple(after), len(numbers))
            if number == len(waiting):
                waiting.append(tuple(after))
            edges.append((byte, byte, number))
        states.append((any(place in between for place in places), tuple(edges)))
    return automaton(tuple(states))
