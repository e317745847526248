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


REFUSED = (
    Difference(
        ("lfm_2", "minicpm_5", "seed_oss"),
        r"'[^'\n]*\"",
        "a double quote within single quotes, which masks want to be escaped",
    ),
    Difference(("minimax_m3",), r"<item>\]", "nothing for null"),
)
"""Of masks."""
MISREAD = (Difference(("minimax_m3",), r"", "nothing for null, which leaves the argument out"),)
"""Of parsers."""


def reasons(differences: tuple[Difference, ...], family: str, text: str) -> Iterator[Difference]:
    """The known reasons why a text may be refused or misread."""
    for one in differences:
        if family in one.families and re.search(one.pattern, text):
            yield one
