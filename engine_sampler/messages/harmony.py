"""The headers of harmony's messages: to which channel a message goes, and which function it calls."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from .alphabet import MarkerAlphabet
from .arguments import argument_begins
from .objects import followed
from .templates import FAILED, PARTIAL, Found, Part

MAX_HEADER = 512
"""Maximum length of a header."""

_RECIPIENT = re.compile(r"\bto=([\w.:/-]{1,270})")
_WORD = re.compile(r"\s*(\w+)")

_BUILT_IN = ("assistant", "python", "browser", "container")
"""To whom messages go that are no calls of functions."""


class HarmonyHeader:
    """Finds headers: `<|start|>assistant<|channel|>commentary to=functions.f <|constrain|>json<|message|>`.

    The name in a match is that of the function it calls; its id says what the message is: "thoughts",
    "content", "call", "trigger" (a call whose arguments are no JSON), or "other" (a message that is neither
    for the user nor a call of one of the functions).

    functions   the functions that are known; None: none
    is_first    whether it begins with ` to=functions.f`, after what the prompt ends with
    only_known  whether other functions cannot be called
    customs     the custom tools among them, whose input is any text
    is_plain    False: there is more to a header than its beginning
    """

    is_plain = False

    def __init__(
        self,
        alphabet: MarkerAlphabet,
        functions: Collection[str] | None,
        is_first: bool,
        only_known: bool,
        customs: Collection[str] = (),
    ) -> None:
        self._functions, self._only_known, self._customs = functions or (), only_known, customs
        self._arguments = argument_begins("json", alphabet, "")
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
        found = self._read(text[at:end], end + len(self._message))
        if found.id != "call" or found.name in self._customs:
            return found
        called = followed(found, text, self._arguments)
        return found._replace(id="trigger") if called.end == FAILED else called

    def _may_begin(self, text: str, at: int) -> bool:
        return any(
            text.startswith(one, at) or one.startswith(text[at : at + len(one)]) for one in self._beginnings
        )

    def _read(self, header: str, end: int) -> Found:
        _before, mark, after = header.rpartition(self._channel)
        channel = _WORD.match(after)
        recipient = _RECIPIENT.search(header)
        if not mark or channel is None:
            return Found(FAILED)
        if recipient is None or channel[1] == "final":
            return Found(end, "", "thoughts" if channel[1] == "analysis" else "content")
        name = recipient[1].removeprefix("functions.")
        is_builtin = name == recipient[1] and name.partition(".")[0] in _BUILT_IN
        is_call = name in self._functions or not (is_builtin or self._only_known)
        return Found(end, name, "call" if is_call else "other")
