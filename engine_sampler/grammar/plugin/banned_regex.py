"""banned_regex: take back text that matches one of these patterns, and go another way."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ...contract import Param, TextCriteria, TextMatcher, Vocabulary
from .stop_regex import pattern_matcher, patterns


class BannedRegexCriteria(TextCriteria):
    """Keeps matches of the patterns `banned_regex` out of the text, as `banned_strings` does with strings.

    Patterns and their limits are those of `stop_regex`. The case of letters counts unless a pattern says
    `(?i:…)`. The first byte that completes any match decides. The request goes back to the token in which
    the longest match that ends there begins. A match that may still come withholds at most the newest 4 KiB.
    One that begins before them goes back to the first token that has not been streamed.

    Source: the server of ik_llama.cpp.
    """

    name = "banned_regex"
    takes_back = True
    params = (
        Param(
            "banned_regex", tuple, (), convert=patterns, limit=1024,
            doc="patterns whose matches are taken back when they come",
        ),
    )  # fmt: skip
    examples = ({"banned_regex": r"[abc]{2}"},)

    def matcher(self, params: Mapping[str, Any], vocabulary: Vocabulary) -> TextMatcher:
        return pattern_matcher(params["banned_regex"], False)
