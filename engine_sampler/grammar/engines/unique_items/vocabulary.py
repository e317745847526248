"""The tokens of a tokenizer as parts of JSON texts.

White space between the parts of JSON says nothing about items, and many tokens differ by it alone. So tokens
are found by what is left of them without it, which depends on whether they begin within a string.
"""

from __future__ import annotations

import re
from array import array
from bisect import bisect_left
from collections.abc import Iterable, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from ....tokenizer import Tokenizer
from ...program.rules import UNIQUE_MARK
from ..token_texts import texts_of

_MANY, _FEW, _VERY_FEW = 10_000, 500, 150
"""Of more tokens than `_MANY`, those that a mask has are not looked for; more than `_FEW` are not listed; the
bytes that follow in up to `_VERY_FEW` are."""

_HEAD = re.compile(rb'(?:[^"\\]|\\.|\\\Z)*', re.DOTALL)
"""What stands before the end of a string, from within it on."""

_WORD = re.compile(rb"[-+.0-9A-Za-z]*")
"""What stands before the end of a number or constant, from within it on."""

_STRING_OR_SPACE = re.compile(rb'"(?:[^"\\]|\\.)*(?:"|\\?\Z)|[ \t\r\n]+', re.DOTALL)

_OUTSIDE = re.compile(rb"[-+.0-9eEtrufalsn{}\[\],: \t\r\n]*")
"""What stands outside of strings."""

_WHOLE = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)

_ENDED = re.compile(rb',[^,\]} ]*([,\]} ]|"")')
"""What follows an item up to the end of another one, of a text with quotes in place of strings."""

Mask = npt.NDArray[np.uint8]
Range: TypeAlias = "tuple[int, int]"

_WHOLE_NUMBER = re.compile(rb" ?[1-9][0-9]*")

_BEGINNINGS = [bytes((byte,)) for byte in b'"-0123456789tfn[{']


def head_of(data: bytes, within_string: bool) -> int:
    """How many bytes of a token stand before the end of the string, or of the number or constant, in which it
    begins."""
    found = (_HEAD if within_string else _WORD).match(data)
    assert found is not None
    return found.end()


def _bare(data: bytes, within_string: bool) -> bytes:
    """A token without white space outside of strings; a blank stands for what may end a number."""
    at = head_of(data, True) if within_string else -1
    rest = data[at + 1 :]

    def shorter(found: re.Match[bytes]) -> bytes:
        text = found.group()
        if text[:1] == b'"':
            return text
        before = rest[: found.start()][-1:]
        return b" " if before.isalnum() or (not before and not within_string) else b""

    return data[: at + 1] + _STRING_OR_SPACE.sub(shorter, rest)


def _without_strings(data: bytes) -> bytes:
    return _STRING_OR_SPACE.sub(b"", data)


class TokenIds:
    """Some tokens, such that those of them that a mask has are found fast.

    ids  the tokens
    """

    def __init__(self, ids: Sequence[int]) -> None:
        self.ids = np.array(ids, np.int64)
        self._bytes, self._bits = self.ids >> 3, (self.ids & 7).astype(np.uint8)

    def places(self, mask: Mask) -> list[int]:
        """The places in `ids` of those that a mask has."""
        found: list[int] = np.flatnonzero(mask[self._bytes] >> self._bits & 1).tolist()
        return found

    def allowed(self, mask: Mask) -> list[int]:
        """Those that a mask has."""
        return [int(self.ids[place]) for place in self.places(mask)]


class Index:
    """Tokens by a text for each, in order.

    tokens  in the order of their texts
    texts   these, one for each token
    """

    def __init__(self, texts: Iterable[tuple[bytes, int]]) -> None:
        ordered = sorted(texts)
        self.texts = [text for text, _ in ordered]
        self.tokens = TokenIds([token_id for _, token_id in ordered])
        self._ids = array("i", [token_id for _, token_id in ordered])

    def among(self, mask: Mask) -> Matching:
        """Those that a mask has."""
        if len(self.texts) > _MANY or len(places := self.tokens.places(mask)) > _FEW:
            return Matching(self.texts, self._ids, mask.tobytes())
        return Matching([self.texts[place] for place in places], [self._ids[place] for place in places])


class Matching:
    """The tokens of an index that a mask has, by the beginnings of their texts.

    texts, ids  their texts in order, and they
    mask        the mask, if there may be others among them
    """

    def __init__(self, texts: list[bytes], ids: Sequence[int], mask: bytes | None = None) -> None:
        self._texts, self._ids, self._mask = texts, ids, mask
        self.all = 0, len(texts)

    def beginning(self, text: bytes, within: Range) -> Range | None:
        """The range of those that begin so, which is in `within`; None if there are none."""
        low, high = within
        low = bisect_left(self._texts, text, low, high)
        if low == high or not self._texts[low].startswith(text):
            return None
        if text[-1] < 0xFF:
            high = bisect_left(self._texts, text[:-1] + bytes((text[-1] + 1,)), low, high)
        return (low, high) if self._mask is None or self._has_any(low, high, self._mask) else None

    def following(self, text: bytes, within: Range) -> set[int] | None:
        """The bytes that follow a beginning in a range; None if they may be many."""
        if within[1] - within[0] > _VERY_FEW:
            return None
        return {one[len(text)] for one in self._texts[within[0] : within[1]] if len(one) > len(text)}

    def _has_any(self, low: int, high: int, mask: bytes) -> bool:
        return any(mask[i >> 3] >> (i & 7) & 1 for i in self._ids[low:high])  # most often the first one

    def ids(self, within: Range) -> list[int]:
        """The tokens of a range."""
        found, mask = self._ids[within[0] : within[1]], self._mask
        return [i for i in found if mask is None or mask[i >> 3] >> (i & 7) & 1]

    def whole(self, text: bytes, within: Range) -> list[int]:
        """The tokens of a range with this text."""
        if self._texts[within[0]] != text:
            return []
        return self.ids((within[0], bisect_left(self._texts, text + b"\0", *within)))


class Boundaries:
    """Tokens with a comma outside of strings: an item may end in them, and another one begin.

    tokens   they
    classes  of each, the number of the text from the end of what it begins in on, without white space
    several  of each such text, whether another item ends in it
    """

    def __init__(self, rests: Iterable[tuple[bytes, int]]) -> None:
        numbers: dict[bytes, int] = {}
        found = [(token_id, numbers.setdefault(rest, len(numbers))) for rest, token_id in rests]
        self.tokens = TokenIds([token_id for token_id, _ in found])
        self.classes = [number for _, number in found]
        self.several = [_ENDED.search(_outlined(rest.removeprefix(b'"'))) is not None for rest in numbers]


def _outlined(text: bytes) -> bytes:
    """A text with a pair of quotes in place of each string, and one in place of one that has only begun."""
    return _STRING_OR_SPACE.sub(lambda found: _quotes(found.group()), text)


def _quotes(text: bytes) -> bytes:
    return text if text[:1] != b'"' else b'""' if _WHOLE.fullmatch(text) else b'"'


class TokenParts:
    """The tokens of a tokenizer by what they are in JSON.

    texts       the bytes of each
    marked      those with the byte `UNIQUE_MARK`
    within      those that may follow within a string
    ending      those of them in which it ends
    escaped     those that begin with a quote or a backslash, which may follow behind a backslash
    shifted     those of them with a comma outside of strings then
    between     those that may follow outside of strings
    unnumbered  those of them that are no whole number
    boundaries  by whether they begin within a string: those with a comma outside of strings
    openings    those in which an array begins that has an item and a comma
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.texts = tokenizer.token_bytes
        tokens = texts_of(tokenizer)
        self.marked = tokens.with_byte(UNIQUE_MARK).tolist()
        special = set(np.flatnonzero(~tokens.usual).tolist())
        quoted = [(i, self.texts[i]) for i in tokens.with_byte(b'"').tolist()]
        ends = {i for i, text in quoted if head_of(text, True) < len(text)}
        within = [
            (_bare(text, True) if i in ends else text, i)
            for i, text in enumerate(self.texts)
            if i not in special
        ]
        self.within = Index(within)
        self.ending = Index((text, i) for text, i in within if i in ends)
        self.escaped = Index(
            (t, i) for i, t in enumerate(self.texts) if t[:1] in (b'"', b"\\") and i not in special
        )
        self.shifted = TokenIds(
            [i for t, i in within if t[:1] in (b'"', b"\\") and _has_comma(self.texts[i][1:], True)]
        )
        between = [
            (_bare(text, False), i)
            for i, text in enumerate(self.texts)
            if i not in special and _OUTSIDE.fullmatch(_without_strings(text))
        ]
        self.between = Index(between)
        self.unnumbered = Index(pair for pair in between if not _WHOLE_NUMBER.fullmatch(pair[0]))
        self.boundaries = {
            True: Boundaries(
                (t[head_of(t, True) :], i) for t, i in within if i in ends and _has_comma(t, True)
            ),
            False: Boundaries((t[head_of(t, False) :], i) for t, i in between if _has_comma(t, False)),
        }
        self.openings = TokenIds([i for i in tokens.with_byte(b"[").tolist() if _opens(self.texts[i])])


def _has_comma(text: bytes, within_string: bool) -> bool:
    start = head_of(text, True) + 1 if within_string else 0
    return b"," in _without_strings(text[start:])


def _opens(text: bytes) -> bool:
    """Whether an array may begin in a token, and have an item and a comma."""
    at = text.find(b"[")
    while at >= 0:
        inner = text[at + 1 :].lstrip()
        if inner[:1] in _BEGINNINGS and b"," in _without_strings(inner):
            return True
        at = text.find(b"[", at + 1)
    return False


def parts_of(tokenizer: Tokenizer) -> TokenParts:
    """The tokens of a tokenizer, sorted once."""
    found: TokenParts = tokenizer.kept("token_parts", lambda: TokenParts(tokenizer))
    return found
