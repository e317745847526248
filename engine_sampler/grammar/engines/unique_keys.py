"""JSON texts in which no object repeats a key.

A grammar cannot remember arbitrary keys. Where it matters that keys differ (`minProperties` with keys that
the schema does not name), a `UniqueKeysMatcher` follows the keys beside the engine's matcher, and removes the
tokens after which a key would occur twice. All others keep their verdict, so that the beginning of a key is
allowed whose only continuations are keys of the object.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ...contract import Work
from ...tokenizer import Tokenizer
from ..errors import GrammarLimitError
from .following import FollowingMatcher, given_work
from .token_texts import texts_of
from .unique_items.vocabulary import head_of

MAX_KEYS = 4096
"""The most keys of one object that are remembered."""

_QUOTE, _BACKSLASH = b'"'[0], b"\\"[0]
_STEPS_OF_A_TOKEN, _STEPS_OF_A_KEY = 1000, 20
"""What it takes to try a token, and to compare a key, in the steps of `contract.Work`."""

_QUOTES = 5
"""The most quotes of a token that are counted."""


class _Level(NamedTuple):
    """An array or an object that is open; `keys` is None in an array."""

    keys: frozenset[str] | None
    outer: _Level | None


class KeyPosition(NamedTuple):
    """A position in a JSON text.

    level     the innermost array or object
    expected  whether the next string is a key
    string    the bytes of the string so far, None outside of strings; in a value they are not needed: b""
    is_key    whether it is a key
    escaped   whether the last byte of the string was a backslash that begins an escape
    """

    level: _Level | None = None
    expected: bool = False
    string: bytes | None = None
    is_key: bool = False
    escaped: bool = False


def position_after(position: KeyPosition, data: bytes) -> KeyPosition | None:
    """The position after some bytes of a text that the grammar allows; None if a key repeats."""
    level, expected, string, is_key, escaped = position
    for byte in data:
        if string is not None:
            if byte == _QUOTE and not escaped:
                if is_key:
                    level = _with_key(level, string)
                    if level is None:
                        return None
                string = None
                continue
            escaped = byte == _BACKSLASH and not escaped
            string = string + bytes((byte,)) if is_key else b""
        elif byte == _QUOTE:
            string, is_key, escaped = b"", expected, False
        elif byte in b"{[":
            level, expected = _Level(frozenset() if byte == b"{"[0] else None, level), byte == b"{"[0]
        elif byte in b"}]":
            level, expected = level.outer if level else None, False
        elif byte == b","[0]:
            expected = level is not None and level.keys is not None
        elif byte == b":"[0]:
            expected = False
    return KeyPosition(level, expected, string, is_key, escaped)


def _with_key(level: _Level | None, text: bytes) -> _Level | None:
    """The object with one more key, as it is written; None if it has that key."""
    key = json.loads(b'"%s"' % text)
    if level is None or level.keys is None or key in level.keys:
        return None
    if len(level.keys) >= MAX_KEYS:
        raise GrammarLimitError(f"an object has more than {MAX_KEYS} keys (MAX_KEYS of unique_keys)")
    return level._replace(keys=level.keys | {key})


class _Tokens:
    """The tokens of a tokenizer that may end a key.

    endings  tokens that end a key which has begun before them, by the text that they add to it
    all      all tokens with a quote
    quotes   for each number of quotes, up to `_QUOTES`, the tokens that have as many or more
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.endings: dict[str, list[int]] = {}
        texts = tokenizer.token_bytes
        counts = {one: texts[one].count(b'"') for one in texts_of(tokenizer).with_byte(b'"').tolist()}
        self.quotes = [
            np.array([token_id for token_id, count in counts.items() if count >= least], np.int64)
            for least in range(_QUOTES + 1)
        ]
        self.all = self.quotes[1]
        for token_id in counts:
            data = tokenizer.token_bytes[token_id]
            text = _decoded(data[: head_of(data, True)])
            if text is not None:
                self.endings.setdefault(text, []).append(token_id)

    def candidates(self, position: KeyPosition) -> npt.NDArray[np.int64]:
        """The tokens after which a key may have been repeated."""
        level = position.level
        least = 2 if position.string is None else 3  # a key begins and ends, after the end of this string
        if position.string is None or not position.is_key or level is None:
            return self.quotes[least if _has_keys(level) else least + 2]
        text = _decoded(position.string)
        if text is None or "\ud800" <= text[-1:] <= "\udbff":  # within an escape, a character or a pair
            return self.all
        endings, keys = self.endings, level.keys or frozenset()
        ends = [t for key in keys if key.startswith(text) for t in endings.get(key[len(text) :], ())]
        return np.concatenate((self.quotes[least], np.array(ends, np.int64)))


def _has_keys(level: _Level | None) -> bool:
    """Whether an open object has any keys."""
    while level is not None and not level.keys:
        level = level.outer
    return level is not None


def _decoded(written: bytes) -> str | None:
    """The text of a string as it is written; None if that is not whole."""
    try:
        found: str = json.loads(b'"%s"' % written)
    except ValueError:
        return None
    return found


def _tokens_of(tokenizer: Tokenizer) -> _Tokens:
    return tokenizer.kept("key_tokens", lambda: _Tokens(tokenizer))


class _Search:
    """The search for the tokens after which a key of `position` would occur twice.

    untried   the tokens that are left to try
    repeated  those found so far
    """

    def __init__(self, position: KeyPosition, candidates: npt.NDArray[np.int64], words: Any) -> None:
        self.position = position
        allowed = (words[candidates >> 5] >> (candidates & 31)) & 1 == 1
        self.untried: list[int] = candidates[allowed].tolist()
        self.repeated: list[int] = []

    def finish(self, tokenizer: Tokenizer, spend: Callable[[int], None]) -> None:
        """Try the tokens that are left; `spend` counts the work."""
        keys = self.position.level.keys if self.position.level else None
        steps = _STEPS_OF_A_TOKEN + len(keys or ())
        while self.untried:
            spend(steps)
            token_id = self.untried[-1]
            if position_after(self.position, tokenizer.token_bytes[token_id]) is None:
                self.repeated.append(token_id)
            self.untried.pop()


class UniqueKeysMatcher(FollowingMatcher[KeyPosition]):
    """A matcher of JSON texts in which no object repeats a key; see `contract.BoundedMatcher`.

    matcher  the engine's matcher of the text
    bounded  whether that is
    """

    def __init__(
        self, matcher: Any, tokenizer: Tokenizer, positions: Sequence[KeyPosition] = (KeyPosition(),)
    ) -> None:
        super().__init__(matcher, tokenizer, positions)
        self._tokens = _tokens_of(tokenizer)
        self._search: _Search | None = None

    def __repr__(self) -> str:
        level = self._positions[-1].level
        keys = sorted(level.keys) if level is not None and level.keys else []
        return f"<UniqueKeysMatcher of {self.matcher!r}, keys so far {keys}>"

    def _refused(self, words: Any, spend: Callable[[int], None]) -> list[int]:
        """The tokens of a mask after which a key would occur twice."""
        position = self._positions[-1]
        if self._search is None or self._search.position is not position:
            keys = position.level.keys if position.level else None
            spend(_STEPS_OF_A_TOKEN + _STEPS_OF_A_KEY * len(keys or ()))
            self._search = _Search(position, self._tokens.candidates(position), words)
        self._search.finish(self._tokenizer, spend)
        return self._search.repeated

    def _after(self, data: bytes, spend: Callable[[int], None]) -> KeyPosition | None:
        return position_after(self._positions[-1], data)

    def fork(self) -> UniqueKeysMatcher:
        """An independent copy."""
        return UniqueKeysMatcher(self.matcher.fork(), self._tokenizer, self._positions)

    def validate(self, token_ids: Sequence[int]) -> int:
        """The number of leading tokens that could be accepted in turn; nothing changes."""
        position: KeyPosition | None = self._positions[-1]
        count = int(self.matcher.validate(token_ids))
        for number, token_id in enumerate(token_ids[:count]):
            if token_id not in self._tokenizer.eos_token_ids and position is not None:
                position = position_after(position, self._tokenizer.token_bytes[token_id])
            if position is None:
                return number
        return count

    def next_bytes(self, work: Work | None = None) -> bytes:
        """The bytes that may come next, ascending."""
        position = self._positions[-1]
        found: bytes = self.matcher.next_bytes(**given_work(work))
        return bytes(byte for byte in found if position_after(position, bytes((byte,))) is not None)
