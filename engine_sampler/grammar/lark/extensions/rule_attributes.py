"""What the attributes of a rule mean: how much it may take, and the sampling parameters that hold in it.

    text[max_chars=80]: /[^.]*/            at most so many characters: the others are not in the language
    text[max_tokens=20]: /[^.]*/           at most so many tokens may begin in it, see `Program.budgets`
    text[max_tokens=20, suffix="."]: /.*/  the end comes on top of these
    text[temperature=0.2]: ...             see `settings`

A rule with `max_chars` is one terminal, as a lazy one is: it may name terminals, not rules. So is one with
`max_tokens`, unless it names rules or other grammars: then see `program.part_budgets`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from ....contract import ParameterError
from ....params.phases import rule_parameters
from ...program.expression import ANYTHING, Expression, both, concat, literal, repeat, union, without
from ...program.unicode import ANY_CHARACTER
from ..statements import Lines, Word

BOUNDS = ("max_tokens", "max_chars")
"""The attributes that bound what a rule may take."""

_CONSTANTS = ("true", "false")

MAX_BOUND = 1_000_000
"""The highest of these bounds."""


class BoundedText(NamedTuple):
    """A rule as one terminal of bounded length, or as two if an end follows that is reported, or behind which
    tokens no longer count.

    text        the terminal of its text
    end         the terminal of what follows that, "" for none; not counted
    max_tokens  how many tokens may begin in the text, 0 for any number
    max_chars   how many characters it may have, 0 for any number
    reported    the name under which the end is reported, "" for none
    is_string   whether the end is written as a string: else it may depend on the text
    """

    text: str
    end: str
    max_tokens: int
    max_chars: int
    reported: str = ""
    is_string: bool = True

    @property
    def is_split(self) -> bool:
        """Whether the end is a terminal of its own."""
        return bool(self.end and (self.max_tokens or self.reported))

    def shortened(self, text: Expression) -> Expression:
        """Those texts that are short enough."""
        return both(text, repeat(ANY_CHARACTER, 0, self.max_chars)) if self.max_chars else text


def joined_value(words: list[Word], source: str) -> Word:
    """The value of an attribute as one word, whose `value` is what it means in JSON, None if nothing."""
    if len(words) == 1 and words[0].kind in ("string", "regexp", "name") and words[0].text not in _CONSTANTS:
        return words[0]
    start, end = words[0].start, words[-1].end
    text = source[start:end]
    try:
        value = json.loads(text)
    except ValueError:
        value = None
    return Word("value", text, start, end, value)


def bounds_of(attributes: Mapping[str, Word], lines: Lines) -> tuple[int, int]:
    """The most tokens and characters of a rule, 0 for any number. Raises GrammarError."""
    bounds = []
    for name in BOUNDS:
        word = attributes.get(name)
        bound = 0 if word is None else word.value
        if word is not None and (type(bound) is not int or not 1 <= bound <= MAX_BOUND):
            text = f"{name}={word.text} is not allowed: a whole number from 1 to {MAX_BOUND}"
            raise lines.error(text, word.start)
        bounds.append(bound)
    return bounds[0], bounds[1]


def text_before_end(text: Expression, end: bytes) -> Expression:
    """Those texts after which `end` is complete for the first time where it is whole: a text and the end are
    then what the lazy terminal of both is."""
    earlier = [concat(text, literal(end), ANYTHING)]
    for length in range(1, len(end)):
        if end.endswith(end[:length]):
            earlier.append(concat(text, literal(end[: len(end) - length])))
    return without(text, union(*earlier))


def settings_of(attributes: Mapping[str, Word], lines: Lines) -> dict[str, Any]:
    """The sampling parameters among some attributes, in their normal form. Raises GrammarError."""
    changeable = rule_parameters()
    settings = {}
    for name, word in attributes.items():
        if name in changeable:
            is_json = word.value is not None or word.text == "null"
            try:
                settings[name] = changeable[name].check(word.value if is_json else word.text)
            except ParameterError as error:
                raise lines.error(str(error), word.start) from None
    return settings
