"""The attributes of a rule of EBNF, `name[capture="x", lazy, max_tokens=9, temperature=0.2] ::= ...`."""

from __future__ import annotations

import re
import warnings
from typing import NamedTuple

from ....base.errors import quoted
from ....params.phases import rule_parameters
from ...program.settings import Mark, Setting
from ..dialect import capture_name
from ..extensions.rule_attributes import BOUNDS, bounds_of, joined_value, settings_of
from ..statements import Lines, Word

_ATTRIBUTE = re.compile(r'[ \t]*([A-Za-z_]+)[ \t]*(?:=[ \t]*("[^"\r\n]*"|[\w.+-]+))?[ \t]*')
_ALLOWED = f"captures, lazy, {', '.join(BOUNDS)} and sampling parameters are allowed"


class Attributes(NamedTuple):
    """What is said about a rule.

    end         the position behind them
    capture     the name under which its matches are reported, None for no report
    mark        the sampling parameters that it sets, None for none
    is_lazy     whether it ends as early as it can
    max_tokens, max_chars   how much it may take, 0 for any number
    """

    end: int
    capture: str | None = None
    mark: Mark | None = None
    is_lazy: bool = False
    max_tokens: int = 0
    max_chars: int = 0

    @property
    def is_terminal(self) -> bool:
        """Whether the rule is one terminal."""
        return bool(self.is_lazy or self.max_chars)


def read_attributes(lines: Lines, at: int, rule: str) -> Attributes:
    """The attributes at a position of the text, of the rule of that name. Raises GrammarError."""
    text = lines.text
    words: dict[str, Word] = {}
    capture, is_lazy = None, False
    while text.startswith(("[", ","), at) and (attribute := _ATTRIBUTE.match(text, at + 1)):
        name, value = attribute[1], attribute[2]
        if value is not None and (name in BOUNDS or name in rule_parameters()):
            words[name] = joined_value([Word("value", value, *attribute.span(2))], text)
        elif name == "lazy" and value is None:
            is_lazy = True
        elif "capture" not in name:
            raise lines.error(
                f"a rule in EBNF has no attribute {quoted(name)}: {_ALLOWED}", attribute.start(1)
            )
        if name == "stop_capture":
            line, column = lines.location(attribute.start(1))
            where = f"line {line}, column {column}"
            warnings.warn(f"stop_capture={value} is left out ({where}): EBNF has no suffixes", stacklevel=2)
        if name == "capture":
            is_named = value is not None and value.startswith('"')
            capture = (
                capture_name(lines, Word("string", value, *attribute.span(2))) if is_named else value or rule
            )
        at = attribute.end()
        if text.startswith("]", at):
            at += 1
            break
    mark = None
    if settings := settings_of(words, lines):
        place = lines.location(next(iter(words.values())).start)
        mark = Mark(place, Setting(rule, tuple(sorted(settings.items()))))
    return Attributes(at, capture, mark, is_lazy, *bounds_of(words, lines))
