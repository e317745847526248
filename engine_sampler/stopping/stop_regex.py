"""stop_regex: any of the request's stop patterns ends it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from ..contract import Param, TextCriteria, Vocabulary
from ..contract.values import texts
from ._patterns import PatternMatcher

_matcher = lru_cache(maxsize=64)(PatternMatcher)


def _patterns(value: Any) -> tuple[str, ...]:
    """`value` as patterns, each tried."""
    patterns = texts(value)
    _matcher(patterns, False)
    return patterns


class StopRegexCriteria(TextCriteria):
    """Ends a request as soon as its text holds a match of one of the patterns `stop_regex`; stop_reason is
    the pattern.

    Patterns are Python's, over characters, found anywhere in the output. The byte that completes any match
    ends the text, so repetition at a pattern's end takes the least it can: `a+` stops at the first a. The
    text ends before the match, or behind it with `include_stop_str_in_output`. What may still become a
    match is held back: with a pattern such as `(.|\\n)*x` that is everything. Anchors and lookarounds are
    refused, and so are patterns that match the empty text.

    stop_regex  the criterion's own patterns, in place of the request's.
    """

    name = "stop_regex"
    params = (Param("stop_regex", tuple, (), convert=_patterns, doc="patterns whose match ends a request"),)

    def __init__(self, stop_regex: str | Sequence[str] | None = None) -> None:
        self.stop_regex = None if stop_regex is None else self.params[0].check(stop_regex)

    def matcher(self, params: Mapping[str, Any], vocabulary: Vocabulary) -> PatternMatcher:
        patterns = params["stop_regex"] if self.stop_regex is None else self.stop_regex
        return _matcher(patterns, bool(params.get("include_stop_str_in_output", False)))
