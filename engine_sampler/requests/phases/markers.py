"""Markers: sequences of token ids, or texts however they are divided into tokens."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from ...contract import Vocabulary
from ...contract.values import Phrase
from .symbols import Symbols, SymbolTable

MAX_BACK = 4
"""How many tokens are read for each symbol of a text, some of which have no bytes."""


class Marker(NamedTuple):
    """One marker of a phase.

    number   the number of the end that it belongs to.
    symbols  token ids, or the symbols of a text.
    is_text  which of the two.
    """

    number: int
    symbols: tuple[int, ...]
    is_text: bool


class Match(NamedTuple):
    """A marker that ends in the newest token.

    number      the number of its end.
    start       the index of the token in which it begins.
    is_aligned  whether it begins with that token, and ends with the newest.
    """

    number: int
    start: int
    is_aligned: bool


def resolve_marker(
    parameter: str, number: int, phrase: Phrase, vocabulary: Vocabulary, prefers_token: bool
) -> list[Marker]:
    """The markers that a phrase stands for: one, or one for each token that is the text as a whole.

    prefers_token  whether a text that is one token is that token alone, and not the same text in pieces.

    Raises `ParameterError`, which names `parameter`, for ids outside the vocabulary, and for a text without a
    tokenizer.
    """
    if not isinstance(phrase, str):
        vocabulary.check_ids(parameter, phrase)
        return [Marker(number, phrase, is_text=False)]
    alphabet = SymbolTable.of(vocabulary.need_tokenizer(parameter))
    if prefers_token and (tokens := alphabet.single(phrase)):
        return [Marker(number, (token,), is_text=False) for token in tokens]
    return [Marker(number, alphabet.parse(phrase), is_text=True)]


class Markers:
    """The markers of a phase.

    watched  int64, ascending: the tokens after which one may be complete.
    """

    def __init__(self, markers: Sequence[Marker], vocabulary: Vocabulary) -> None:
        self._markers = markers
        self._alphabet = (
            SymbolTable.of(vocabulary.need_tokenizer("phases")) if any(m.is_text for m in markers) else None
        )
        watched = np.unique(np.concatenate([np.empty(0, np.int64), *map(self._completing, markers)]))
        self.watched = watched[watched < vocabulary.size]
        self._watched = frozenset(self.watched.tolist())
        self._longest = max((len(m.symbols) for m in markers if m.is_text), default=0)

    def _completing(self, marker: Marker) -> np.ndarray:
        if not marker.is_text:
            return np.array(marker.symbols[-1:], np.int64)
        assert self._alphabet is not None
        return self._alphabet.completing(marker.symbols)

    def match(self, tokens: np.ndarray, begin: int) -> Match | None:
        """The first marker that ends in the last of `tokens`, and lies in those from `begin` on."""
        if len(tokens) <= begin or int(tokens[-1]) not in self._watched:
            return None
        pieces = self._pieces(tokens, begin) if self._longest else []
        for marker in self._markers:
            if marker.is_text:
                match = _match_text(marker, pieces, len(tokens))
            else:
                match = _match_ids(marker, tokens, begin)
            if match is not None:
                return match
        return None

    def beginning(self, tokens: np.ndarray, begin: int) -> tuple[Marker, int] | None:
        """The marker of which the most symbols, but not all, are the end of `tokens` from `begin` on, and
        how many these are; None if there is none."""
        text = [symbol for piece in self._pieces(tokens, begin) for symbol in piece] if self._longest else []
        found = None
        for marker in self._markers:
            tail = (
                text if marker.is_text else tokens[max(begin, len(tokens) - len(marker.symbols)) :].tolist()
            )
            count = _overlap(tail, marker.symbols)
            if count and (found is None or count > found[1]):
                found = marker, count
        return found

    def _pieces(self, tokens: np.ndarray, begin: int) -> list[Symbols]:
        """The symbols of the last tokens, as many as a text may stand in."""
        assert self._alphabet is not None
        first = max(begin, len(tokens) - MAX_BACK * self._longest)
        pieces: list[Symbols] = []
        count = -len(self._alphabet.symbols(int(tokens[-1]))) if len(tokens) else 0
        for token_id in reversed(tokens[first:].tolist()):
            if count >= self._longest:
                break
            pieces.append(self._alphabet.symbols(token_id))
            count += len(pieces[-1])
        return pieces[::-1]


def _match_ids(marker: Marker, tokens: np.ndarray, begin: int) -> Match | None:
    start = len(tokens) - len(marker.symbols)
    if start < begin or tokens[start:].tolist() != list(marker.symbols):
        return None
    return Match(marker.number, start, True)


def _match_text(marker: Marker, pieces: Sequence[Symbols], length: int) -> Match | None:
    """The first place of a text that ends in the last of the pieces, which are those of the last tokens."""
    symbols = [symbol for piece in pieces for symbol in piece]
    size, count = len(marker.symbols), len(symbols)
    for end in range(max(count - len(pieces[-1]) + 1, size), count + 1):
        if tuple(symbols[end - size : end]) == marker.symbols:
            start, is_first = _token_of(pieces, end - size)
            return Match(marker.number, length - len(pieces) + start, is_first and end == count)
    return None


def _token_of(pieces: Iterable[Symbols], place: int) -> tuple[int, bool]:
    """The number of the piece with the symbol at `place`, and whether that is its first."""
    for number, piece in enumerate(pieces):
        if place < len(piece):
            return number, place == 0
        place -= len(piece)
    raise AssertionError("the place is beyond the pieces")


def _overlap(tail: Sequence[int], symbols: Sequence[int]) -> int:
    """How many of the first symbols, but not all, are the last of `tail`; the most there are."""
    for count in range(min(len(tail), len(symbols) - 1), 0, -1):
        if list(tail[len(tail) - count :]) == list(symbols[:count]):
            return count
    return 0
