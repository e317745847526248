"""banned_strings: take back text that contains one of these strings, and go another way."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from ..contract import Param, TextCriteria, TextMatch, TextMatcher, Vocabulary
from ..contract.values import stop_texts
from ..tokenizer.pieces import unfinished_bytes
from ._strings import StringMatcher


class BannedStringsCriteria(TextCriteria):
    """Keeps the strings `banned_strings` out of the text, whatever the case of their letters.

    When one is complete, the request goes back to the token in which it begins. That token is removed
    there, and another one is drawn with new random numbers; bans add up at each position. Text that may
    still be taken back is not streamed. `StepResult.rewinds` tells the engine how many tokens of its
    earlier steps are undone.

    Strings are found in the bytes of the output, in any tokenization. A letter and its lower case are
    equal if both have the same number of bytes in UTF-8. After max(20, 2 · strings and patterns) rewinds
    without a token that stays, the match stays, with a warning in the log and in `Record.unenforced`. So
    does a match that the request cannot avoid: its grammar, a phase or its other parameters leave nothing
    else. A token that `accept` adds takes nothing back, but goes with a later match. A stop string
    that cuts the match off ends the request.

    Source: koboldcpp, exllamav3, and the server of ik_llama.cpp.
    """

    name = "banned_strings"
    takes_back = True
    params = (
        Param(
            "banned_strings", tuple, (), convert=stop_texts, limit=4096,
            doc="texts that are taken back when they come, in any case of letters",
        ),
    )  # fmt: skip
    examples = ({"banned_strings": ["ab", "X."]}, {"banned_strings": ["É"]})

    def matcher(self, params: Mapping[str, Any], vocabulary: Vocabulary) -> TextMatcher:
        return _matcher(params["banned_strings"])


class AnyCaseMatcher(TextMatcher):
    """Finds strings whatever the case of their letters.

    The state is that of a `StringMatcher` in the text in lower case, and the bytes of a character that is
    not complete.
    """

    start = (0, b"")

    def __init__(self, strings: Sequence[str]) -> None:
        self._lower = StringMatcher([lower(string.encode()).decode() for string in strings])

    def advance(self, state: tuple[int, bytes], data: bytes) -> tuple[tuple[int, bytes], TextMatch | None]:
        old, begun = state
        text = begun + data
        whole = len(text) - unfinished_bytes(text)
        new, match = self._lower.advance(old, lower(text[:whole]))
        if match is not None:
            match = TextMatch(match.end - len(begun), match.text_end - len(begun), match.reason)
        return (new, text[whole:]), match

    def held(self, state: tuple[int, bytes]) -> int:
        return self._lower.held(state[0]) + len(state[1])


_matcher = lru_cache(maxsize=64)(AnyCaseMatcher)


def lower(data: bytes) -> bytes:
    """UTF-8 in lower case, with every character where it was: one whose lower case has another number of
    bytes stays, and so do bytes that are no character."""
    if data.isascii():
        return data.lower()
    text = data.decode("utf-8", "surrogateescape")
    return b"".join(map(_lower_character, text))


@lru_cache(maxsize=4096)
def _lower_character(character: str) -> bytes:
    data, small = (part.encode("utf-8", "surrogateescape") for part in (character, character.lower()))
    return small if len(small) == len(data) else data
