"""Markers: sequences of token ids, or texts however they are divided into tokens."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from ...contract import Vocabulary
from ...contract.values import Phrase
from .symbols import Symbols, SymbolTable

MAX_READ = 4096
"""The most tokens at the end of a prompt in which a text is looked for."""

MAX_BACK = 4
"""How many tokens are read for each symbol of a text, some of which have no bytes."""


class Marker(NamedTuple):
    """One marker of a phase.

    number   the number of the end that it belongs to.
    ids      its token ids; () for a text.
    symbols  those of a text; "" for token ids.
    """

    number: int
    ids: tuple[int, ...] = ()
    symbols: Symbols = ""


class Match(NamedTuple):
    """A marker that ends in the newest token.

    number      the number of its end.
    start       the index of the token in which it begins.
    is_aligned  whether it begins with that token, and ends with the newest.
    """

    number: int
    start: int
    is_aligned: bool = True


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
        return [Marker(number, phrase)]
    table = SymbolTable.of(vocabulary.need_tokenizer(parameter))
    if prefers_token and (tokens := table.single(phrase)):
        return [Marker(number, (token,)) for token in tokens]
    return [Marker(number, symbols=table.parse(phrase))]


class Markers:
    """The markers of a phase.

    watched  int64, ascending: the tokens after which one may be complete.
    """

    def __init__(self, markers: Sequence[Marker], vocabulary: Vocabulary) -> None:
        self._of_ids = [marker for marker in markers if marker.ids]
        self._of_text = [marker for marker in markers if marker.symbols]
        self._table = None
        if self._of_text:
            self._table = SymbolTable.of(vocabulary.need_tokenizer("phases"))
        self._is_watched = np.zeros(vocabulary.size, bool)
        for marker in markers:
            ids = self._completing(marker)
            self._is_watched[ids[ids < vocabulary.size]] = True
        self.watched = np.flatnonzero(self._is_watched)
        self._beside = np.empty(0, np.int64), self.watched
        self._longest = max((len(marker.symbols) for marker in self._of_text), default=0)

    def _completing(self, marker: Marker) -> np.ndarray:
        if self._table is None or marker.ids:
            return np.array(marker.ids[-1:], np.int64)
        return self._table.completing(marker.symbols)

    def watched_with(self, token_ids: np.ndarray) -> np.ndarray:
        """`watched` and other tokens, int64, ascending: the same array for the same one, which siblings
        have."""
        before, merged = self._beside
        if before is not token_ids:
            either = self._is_watched.copy()
            either[token_ids] = True
            merged = np.flatnonzero(either)
            self._beside = token_ids, merged
        return merged

    def match(self, tokens: np.ndarray, begin: int) -> Match | None:
        """The first marker that ends in the last of `tokens`, and lies in those from `begin` on."""
        if len(tokens) <= begin or not self._is_watched[tokens[-1]]:
            return None
        for marker in self._of_ids:
            start = len(tokens) - len(marker.ids)
            if start >= begin and tokens[start:].tolist() == list(marker.ids):
                return Match(marker.number, start)
        return self._match_in(self._pieces(tokens, begin), len(tokens)) if self._of_text else None

    def latest(self, tokens: np.ndarray) -> int:
        """The length of the longest beginning of `tokens` at whose end a marker is complete; 0 without
        any."""
        ends = [_latest_ids(marker.ids, tokens) for marker in self._of_ids]
        if self._of_text and self._table is not None:
            first = max(0, len(tokens) - MAX_READ)
            pieces = [self._table.symbols(token_id) for token_id in tokens[first:].tolist()]
            text, lengths = "".join(pieces), np.cumsum([len(piece) for piece in pieces], dtype=np.int64)
            for marker in self._of_text:
                if (place := text.rfind(marker.symbols)) >= 0:
                    ends.append(first + 1 + int(np.searchsorted(lengths, place + len(marker.symbols))))
        return max(ends, default=0)

    def beginning(self, tokens: np.ndarray, begin: int) -> tuple[Marker, int] | None:
        """The marker of which the most symbols, or ids, but not all, are the end of `tokens` from `begin` on,
        and how many these are; None if there is none."""
        longest, most = None, 0
        for marker in self._of_ids:
            tail = tokens[max(begin, len(tokens) - len(marker.ids)) :].tolist()
            for count in range(min(len(tail), len(marker.ids) - 1), most, -1):
                if tail[len(tail) - count :] == list(marker.ids[:count]):
                    longest, most = marker, count
                    break
        text = "".join(self._pieces(tokens, begin))
        for marker in self._of_text:
            for count in range(min(len(text), len(marker.symbols) - 1), most, -1):
                if text.endswith(marker.symbols[:count]):
                    longest, most = marker, count
                    break
        return None if longest is None else (longest, most)

    def _match_in(self, pieces: Sequence[Symbols], length: int) -> Match | None:
        """The first marker that ends in the last of `pieces`, which are those of the last of `length`
        tokens."""
        text, newest = "".join(pieces), len(pieces[-1])
        for marker in self._of_text:
            size = len(marker.symbols)
            place = text.find(marker.symbols, max(0, len(text) - newest - size + 1))
            if place >= 0:
                start, is_first = _token_of(pieces, place)
                return Match(
                    marker.number, length - len(pieces) + start, is_first and place + size == len(text)
                )
        return None

    def _pieces(self, tokens: np.ndarray, begin: int) -> list[Symbols]:
        """The symbols of the last tokens, as many as a text may stand in."""
        if self._table is None:
            return []
        first = max(begin, len(tokens) - MAX_BACK * self._longest)
        pieces: list[Symbols] = []
        count = 0
        for token_id in reversed(tokens[first:].tolist()):
            pieces.append(self._table.symbols(token_id))
            count += len(pieces[-1]) if len(pieces) > 1 else 0
            if count >= self._longest:
                break
        return pieces[::-1]


def _latest_ids(ids: Sequence[int], tokens: np.ndarray) -> int:
    """The length of the longest beginning of `tokens` that ends with `ids`; 0 without any."""
    ends = 1 + np.flatnonzero(tokens == ids[-1])
    ends = ends[ends >= len(ids)]
    for back, token_id in enumerate(reversed(ids), 1):
        ends = ends[tokens[ends - back] == token_id]
    return int(ends[-1]) if len(ends) else 0


def _token_of(pieces: Iterable[Symbols], place: int) -> tuple[int, bool]:
    """The number of the piece with the symbol at `place`, and whether that is its first."""
    for number, piece in enumerate(pieces):
        if place < len(piece):
            return number, place == 0
        place -= len(piece)
    raise AssertionError("the place is beyond the pieces")
