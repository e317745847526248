"""What stands for a terminal in a text that is rewritten for lark: special tokens and other forms."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from ...errors import GrammarLimitError
from ...work import spend
from ..statements import Lines, Word

MAX_TOKEN_IDS = 300_000
"""The most ids in all the `<[...]>` of a grammar."""

_IDS = re.compile(r"<\[(\^?)([\d,-]+)\]>")
_ANY_TOKEN = "<[*]>"
_ID_RANGE = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?")


@dataclass(frozen=True)
class Placeholder:
    """The meaning of a terminal of the rewritten text: `value` is a name, token ids or a JSON value.

    kind   "token", "ids", "other" (any token but these ids and names), "json", "number", "lark" (a text),
           "named", "regex", "operators" (an `OperatorTerminal`), "expression" (an `Expression`), "rule" (a
           `RegularRule`), "bounded" or "ended" (a `BoundedText`, which is split)
    word   the word that the user wrote
    """

    kind: str
    word: Word
    value: Any

    @property
    def is_token(self) -> bool:
        """Whether it stands for one token."""
        return self.kind in ("token", "ids", "other")


class SpecialTokens:
    """Reads the special tokens of a text, as names or by their ids."""

    def __init__(self, text: Lines) -> None:
        self._text = text
        self._id_lists: dict[str, tuple[int, ...]] = {}
        self._left = MAX_TOKEN_IDS

    def placeholder(self, word: Word) -> Placeholder:
        """What `<...>` means. Raises GrammarError."""
        if word.text.startswith("!"):
            named = self.placeholder(word._replace(text=word.text[1:]))
            if named.kind == "other":
                raise self._text.error(f"{word.text} excludes twice", word.start)
            return Placeholder("other", word, named.value if named.kind == "ids" else (named.value,))
        if word.text == _ANY_TOKEN:
            return Placeholder("other", word, ())
        if match := _IDS.fullmatch(word.text):
            if word.text not in self._id_lists:
                self._id_lists[word.text] = self._ids(match[2], word)
            return Placeholder("other" if match[1] else "ids", word, self._id_lists[word.text])
        if word.text.startswith("<[^"):
            raise self._text.error(f"{word.text} is not a list of token ids", word.start)
        bracketed = word.text.startswith("<[") and word.text.endswith("]>")
        return Placeholder("token", word, word.text[1:-1] if bracketed else word.text)

    def _ids(self, listed: str, word: Word) -> tuple[int, ...]:
        ids: set[int] = set()
        left = self._left
        for piece in listed.split(","):
            match = _ID_RANGE.fullmatch(piece)
            if match is None:
                raise self._text.error(f"{word.text} is not a list of token ids", word.start)
            low, high = int(match[1]), int(match[2] or match[1])
            left -= max(0, high - low + 1)
            if left < 0:
                text = f"the grammar lists more than {MAX_TOKEN_IDS} token ids"
                raise GrammarLimitError(text, *self._text.location(word.start))
            ids.update(range(low, high + 1))
        self._left -= len(ids)
        spend(len(ids) // 8)
        return tuple(sorted(ids))
