"""What masks refuse of templates' texts, and what parsers read otherwise: each with its reason."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple


class Difference(NamedTuple):
    """A kind of text that a mask refuses, or that a parser misreads.

    families  whose templates write it
    pattern   what occurs in it
    reason    why
    """

    families: tuple[str, ...]
    pattern: str
    reason: str


_LITERALS = r"[:\[{ \n>](True|False|None)|\{'|\['"
_IN_XML = ("minicpm_5", "nemotron_3", "qwen_3_5", "qwen_3_coder", "seed_oss", "step_3_5")
REFUSED = (
    Difference(_IN_XML, _LITERALS, "values as Python writes them, within XML"),
    Difference(("lfm_2",), r"'|\{\"", "strings in single quotes, and JSON within Python"),
    Difference(("gemma_4",), "None", "None for null"),
    Difference(("minimax_m3",), r"<item>\]", "nothing for null"),
    Difference(("minicpm_5",), "CDATA", "strings as CDATA"),
)
"""Of masks."""
MISREAD = (
    Difference(_IN_XML, _LITERALS, "values as Python writes them, within XML"),
    Difference(("lfm_2",), r"true|false|null|\n", "JSON within Python, and line breaks in strings"),
    Difference(("gemma_4",), "None", "None for null"),
    Difference(("minimax_m3",), r"", "nothing for null"),
)
"""Of parsers."""


def reasons(differences: tuple[Difference, ...], family: str, text: str) -> Iterator[Difference]:
    """The known reasons why a text may be refused or misread."""
    for one in differences:
        if family in one.families and re.search(one.pattern, text):
            yield one
