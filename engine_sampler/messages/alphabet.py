"""The characters in which a parser reads: a token that is a marker is one character of its own.

Markers such as `<tool_call>` are tokens of many vocabularies. Only the token is the marker then, as in masks;
the same characters, spelled in other tokens, are text. A lone surrogate stands for such a token: decoded
UTF-8 contains none.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import suppress

from ..base.arguments import integer_of
from ..grammar.structural_tag.marks import split_marks
from ..tokenizer import Tokenizer
from .writing import escaped_json

SURROGATES = "\ud800-\udfff"
"""The characters of markers, in patterns."""

_FIRST, _COUNT = 0xD800, 0x800
_SURROGATE = re.compile(f"[{SURROGATES}]")


class MarkerAlphabet:
    """The characters for one tokenizer; without one, all markers are text.

    skip_special_tokens  whether special tokens that mark nothing have no text
    """

    def __init__(self, tokenizer: Tokenizer | None = None, skip_special_tokens: bool = True) -> None:
        self.tokenizer = tokenizer
        self.skips = bool(skip_special_tokens)
        self._ids = tokenizer.markers if tokenizer is not None else {}
        self._names: dict[str, str] = {}
        self._characters: dict[str, str] = {}
        self._by_id: dict[int, str] = {}

    def encode(self, text: str) -> str:
        """A text of a definition in these characters."""
        return "".join(self._mark(part) if is_mark else part for part, is_mark in split_marks(text))

    def _mark(self, name: str) -> str:
        ids = self._ids.get(name, ())
        if not ids or len(self._characters) == _COUNT:
            return name
        if name not in self._characters:
            character = self._characters[name] = chr(_FIRST + len(self._characters))
            self._names[character] = name
            self._by_id.update(dict.fromkeys(ids, character))
        return self._characters[name]

    def marked(self, text: str) -> str:
        """A text that is given by hand, in which the names of markers of the definition are these."""
        parts = split_marks(without_surrogates(text))
        return "".join(self._characters.get(part, part) if is_mark else part for part, is_mark in parts)

    def is_marker(self, text: str) -> bool:
        """Whether a text is the character of a marker."""
        return text in self._names

    @property
    def texts(self) -> dict[int, str | bytes]:
        """What tokens that are no markers add to any text, as far as `token` was asked for it."""
        if self.tokenizer is None:
            return {}
        kept: dict[int, str | bytes] = self.tokenizer.kept(f"texts of tokens, {self.skips}", dict)
        return kept

    def token(self, token_id: int, texts: dict[int, str | bytes]) -> str | bytes:
        """What a token adds to the text: characters, or bytes that are not whole characters. Unless it may be
        a marker, `texts` remembers it."""
        marker = self._by_id.get(integer_of("token id", token_id))
        if marker is not None:
            return marker
        assert self.tokenizer is not None
        data = self.tokenizer.text_bytes(token_id, self.skips)
        text: str | bytes = data
        with suppress(UnicodeDecodeError):
            text = data.decode()
        if token_id not in self.tokenizer.marker_ids:
            texts[token_id] = text
        return text

    def plain(self, text: str) -> str:
        """A text with the names of markers in their place."""
        return self._replaced(text, lambda found: self._names[found[0]])

    def json(self, text: str) -> str:
        """JSON with the names of markers in their place, which stand in strings."""
        return self._replaced(text, lambda found: escaped_json(self._names[found[0]]))

    def _replaced(self, text: str, name: Callable[[re.Match[str]], str]) -> str:
        if not self._names or text.isascii():
            return text
        return _SURROGATE.sub(name, text)


def without_surrogates(text: str) -> str:
    """A text that is given by hand, without halves of surrogate pairs: they have no UTF-8."""
    return text if text.isascii() else _SURROGATE.sub("\ufffd", text)
