"""The substrings of a given text as an expression: for `%regex {"substring_chars": ...}`."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from ...errors import GrammarError, GrammarLimitError
from ...program.expression import Expression, automaton
from ...program.free_text import utf8

_WORD = re.compile(r"\w+|\s+|[^\w\s]+")

MAX_WORK = 250_000
"""The most positions in the text, over all states of the automaton."""


def substring_expression(value: Any) -> Expression:
    """The expression of `{"substring_chunks": [...]}`, `{"substring_chars": "..."}`, or
    `{"substring_words": "..."}`, whose chunks are words, blanks in a row, and what is between these; or of
    `{"type": "substring", "chunks": [...]}`, which may have `chars` or `words` as well.

    It matches any number of whole chunks that follow each other in the list, from any one on, and the empty
    text. Raises GrammarError for any other value, and GrammarLimitError.
    """
    if isinstance(value, dict) and len(value) == 2 and value.get("type") == "substring":
        value = {f"substring_{key}": chunks for key, chunks in value.items() if key != "type"}
    if isinstance(value, dict) and len(value) == 1:
        [(key, chunks)] = value.items()
        if key == "substring_chars" and isinstance(chunks, str):
            return _substrings(list(map(utf8, chunks)))
        are_texts = isinstance(chunks, list) and all(isinstance(chunk, str) for chunk in chunks)
        if key == "substring_chunks" and are_texts:
            return _substrings(list(map(utf8, chunks)))
        if key == "substring_words" and isinstance(chunks, str):
            return _substrings(list(map(utf8, _WORD.findall(chunks))))
    raise GrammarError(
        "%regex takes substring_chunks, a list of texts, substring_words or substring_chars, a text"
    )


def _substrings(chunks: Sequence[bytes]) -> Expression:
    """A state is the set of positions in the text that a reading from any chunk boundary may have reached."""
    text = b"".join(chunks)
    boundaries, at = {0}, 0
    for chunk in chunks:
        at += len(chunk)
        boundaries.add(at)
    sets = [tuple(sorted(boundaries))]
    numbers = {sets[0]: 0}
    states = []
    work = 0
    for positions in sets:  # it grows during the loop
        work += len(positions)
        if work > MAX_WORK:
            raise GrammarLimitError(f"the substrings of a text take more than {MAX_WORK} steps")
        following: dict[int, list[int]] = {}
        for position in positions:
            if position < len(text):
                following.setdefault(text[position], []).append(position + 1)
        edges = []
        for byte, after in sorted(following.items()):
            number = numbers.setdefault(tuple(after), len(numbers))
            if number == len(sets):
                sets.append(tuple(after))
            edges.append((byte, byte, number))
        states.append((not boundaries.isdisjoint(positions), tuple(edges)))
    return automaton(tuple(states))
