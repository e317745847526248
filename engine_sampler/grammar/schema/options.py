"""How a JSON Schema is read, and how its values are written: options that cost nothing to import."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from ...base.errors import quoted
from ..errors import GrammarError
from .limits import MAX_DIGITS

WHITESPACE_PATTERN = r"[ \t]{0,2}(?:\r?\n[ \t]{0,120})?"
"""The default white space: a few blanks, then at most one line break with its indentation.

It admits pretty-printed documents (30 levels of four blanks, 120 of tabs), and it ends: a model that repeats
blanks or line breaks leaves it after at most 124 characters.
"""

MAX_WHITESPACE = 10_000
"""The largest number of white-space characters that may be given as the bound."""

MAX_NUMBER_DIGITS = 40
"""The default bound on the digits of a number before its point, and after it: more than a float or an integer
of 128 bits has. A model that repeats a digit leaves the number after so many."""

KeyOrder = Literal["any", "schema"]

DRAFTS = ("4", "6", "7", "2019-09", "2020-12")
"""The drafts of JSON Schema, by name."""

_CHOICES: Mapping[str, tuple[str, ...]] = {
    "unsupported": ("error", "warn", "ignore"),
    "formats": ("assert", "annotate"),
    "key_order": ("any", "schema"),
    "draft": DRAFTS,
}


def check_whitespace(whitespace: Any) -> None:
    """Raise GrammarError for what is neither text nor an allowed number."""
    is_number = isinstance(whitespace, int) and not isinstance(whitespace, bool)
    if not isinstance(whitespace, str) and not (is_number and 0 <= whitespace <= MAX_WHITESPACE):
        allowed = f"any, compact, a number from 0 to {MAX_WHITESPACE}, or a regular expression"
        raise GrammarError(f"whitespace={quoted(whitespace)} is not allowed: {allowed}")


def check_numbers(numbers: Any) -> None:
    """Raise GrammarError for what is neither "any" nor an allowed number of digits."""
    is_count = isinstance(numbers, int) and not isinstance(numbers, bool)
    if numbers != "any" and not (is_count and 1 <= numbers <= MAX_DIGITS):
        allowed = f"any, or a number of digits from 1 to {MAX_DIGITS}"
        raise GrammarError(f"numbers={quoted(numbers)} is not allowed: {allowed}")


@dataclass(frozen=True)
class SchemaOptions:
    """How a JSON Schema is read, and how its values are written.

    whitespace   the white space between tokens: "any" amount; "compact": none, but for one blank after a
                 comma or a colon; a number: up to so many characters; or a regular expression. The default
                 is `WHITESPACE_PATTERN`
    numbers      how numbers are written. A number: up to so many digits before the point, and after it, and
                 up to 3 of an exponent (more where the schema itself needs more), and integers without point
                 and exponent; "any": as RFC 8259 and JSON Schema have it, for which `1.0` and `1e5` are
                 integers. The default is `MAX_NUMBER_DIGITS`
    key_order    "any", or "schema": the keys that the schema names come first, in its order
    unsupported  "error" raises UnsupportedKeywordError for a keyword that cannot be enforced token by
                 token; "warn" issues a warning and ignores the keyword; "ignore" ignores it
    formats      "assert" enforces the formats in `formats.FORMATS`; "annotate" ignores all formats

    draft        of schemas that do not name theirs in `$schema`: a name in `DRAFTS`
    resources    schemas that a `$ref` may lead to, as JSON text, each behind its URI

    Raises ValueError for other values.
    """

    whitespace: str | int = WHITESPACE_PATTERN
    numbers: str | int = MAX_NUMBER_DIGITS
    key_order: KeyOrder = "any"
    unsupported: Literal["error", "warn", "ignore"] = "error"
    formats: Literal["assert", "annotate"] = "assert"
    draft: str = "2020-12"
    resources: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        for name, known in _CHOICES.items():
            if (value := getattr(self, name)) not in known:
                raise ValueError(f"{name} must be one of {known}, not {quoted(value)}")
        check_whitespace(self.whitespace)  # here, because True equals 1 where options are compared
        check_numbers(self.numbers)

    @property
    def digits(self) -> int | None:
        """The bound on the digits of numbers; None without one."""
        return self.numbers if isinstance(self.numbers, int) else None


DEFAULTS = SchemaOptions()


def schema_options(
    whitespace: str | int | None,
    numbers: str | int | None,
    key_order: Any,
    unsupported: Any = DEFAULTS.unsupported,
    formats: Any = DEFAULTS.formats,
    draft: Any = None,
    resources: tuple[tuple[str, str], ...] = (),
) -> SchemaOptions:
    """Options of which None means the default. Raises ValueError as `SchemaOptions` does."""
    chosen = (key_order, unsupported, formats)
    usual = (DEFAULTS.key_order, DEFAULTS.unsupported, DEFAULTS.formats)
    if whitespace is numbers is draft is None and chosen == usual and not resources:
        return DEFAULTS
    return SchemaOptions(
        DEFAULTS.whitespace if whitespace is None else whitespace,
        DEFAULTS.numbers if numbers is None else numbers,
        *chosen,
        DEFAULTS.draft if draft is None else draft,
        resources,
    )
