"""The headers of harmony's messages: to which channel a message goes, and which function it calls."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from .alphabet import MarkerAlphabet
from .templates import FAILED, PARTIAL, Found, Part

MAX_HEADER = 512
"""Maximum length of a header."""

_RECIPIENT = re.compile(r"\bto=([\w.:/-]{1,270})")
_WORD = re.compile(r"\s*(\w+)")


class HarmonyHeader:
    """Finds headers: `<|start|>assistant<|channel|>commentary to=functions.f <|constrain|>json<|message|>`.

    The name in a match is that of the function it calls; its id says what the message is: "thoughts",
    "content" or "call".

    names     the functions that may be called; None: any
    is_first  whether it begins with ` to=functions.f`, after what the prompt ends with
    is_plain  False: there is more to a header than its beginning
    """

    is_plain = False

    def __init__(self, alphabet: MarkerAlphabet, names: Collection[str] | None, is_first: bool) -> None:
        self._names = names
        self._start, self._channel, self._message = map(
            alphabet.encode, ("<|start|>", "<|channel|>", "<|message|>")
        )
        alphabet.encode("<|constrain|>")  # a character of its own, which ends the name before it
        self._beginnings = (" to=",) if is_first else (self._start, self._channel)

    @property
    def first(self) -> frozenset[str]:
        """The characters with which it may begin."""
        return frozenset(one[0] for one in self._beginnings)

    @property
    def beginnings(self) -> Sequence[Sequence[Part]]:
        """The texts of which one must stand at its beginning."""
        return [[Part("text", one)] for one in self._beginnings]

    def match(self, text: str, at: int) -> Found:
        """The header with which the text begins from `at` on."""
        if not self._may_begin(text, at):
            return Found(FAILED)
        end = text.find(self._message, at, at + MAX_HEADER)
        if end < 0:
            return Found(PARTIAL if len(text) - at < MAX_HEADER else FAILED)
        return self._read(text[at:end], end + len(self._message))

    def _may_begin(self, text: str, at: int) -> bool:
        return any(
            text.startswith(one, at) or one.startswith(text[at : at + len(one)]) for one in self._beginnings
        )

    def _read(self, header: str, end: int) -> Found:
        _before, mark, after = header.partition(self._channel)
        channel = _WORD.match(after)
        recipient = _RECIPIENT.search(header)
        if not mark or channel is None:
            return Found(FAILED)
        if recipient is None:
            return Found(end, "", "thoughts" if channel[1] == "analysis" else "content")
        name = recipient[1].removeprefix("functions.")
        if self._names is not None and name not in self._names:
            return Found(FAILED)
        return Found(end, name, "call")
