"""stop_regex: end the request at a match of any of its stop patterns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from ...contract import Param, TextCriteria, Vocabulary
from ...contract.values import stop_texts

if TYPE_CHECKING:
    from .patterns import PatternMatcher

MAX_PATTERN_BYTES = 4096
"""The limit on all patterns together, since they are compiled before any scheduler can refuse them."""


@lru_cache(maxsize=64)
def pattern_matcher(patterns: tuple[str, ...], include: bool) -> PatternMatcher:
    """What finds these patterns."""
    from .patterns import PatternMatcher  # few requests need it

    return PatternMatcher(patterns, include)


def patterns(value: Any) -> tuple[str, ...]:
    """`value` as patterns; compiles them, so that a bad one is refused."""
    texts = stop_texts(value)
    if sum(len(text.encode()) for text in texts) > MAX_PATTERN_BYTES:
        raise ValueError(f"patterns of at most {MAX_PATTERN_BYTES:,} bytes in all")
    pattern_matcher(texts, False)
    return texts


class StopRegexCriteria(TextCriteria):
    """Ends a request as soon as its text contains a match of one of the patterns `stop_regex`; stop_reason is
    the pattern.

    Patterns use Python's syntax, over characters, and match anywhere in the output. The first byte that
    completes any match ends the text, so a repetition at the end of a pattern is minimal: `a+` stops at the
    first a. The text ends before the match, or after it with `include_stop_str_in_output`. Text that may
    still become a match is held back: with a pattern such as `(.|\\n)*x`, that is all of it, up to 64 KiB.
    Beyond that the oldest text is streamed; a match that begins in it still ends the text, which then keeps
    what has been streamed. Anchors and lookarounds are refused, and so are patterns that match the empty
    text.

    stop_regex  the criterion's own patterns, in place of the request's.
    """

    name = "stop_regex"
    params = (
        Param(
            "stop_regex", tuple, (), convert=patterns, limit=1024, doc="patterns whose match ends a request"
        ),
    )
    examples = ({"stop_regex": r"[abc]{2}"},)

    def __init__(self, stop_regex: str | Sequence[str] | None = None) -> None:
        self.stop_regex = None if stop_regex is None else self.params[0].check(stop_regex)

    def matcher(self, params: Mapping[str, Any], vocabulary: Vocabulary) -> PatternMatcher:
        asked = params["stop_regex"] if self.stop_regex is None else self.stop_regex
        return pattern_matcher(asked, bool(params.get("include_stop_str_in_output", False)))
