"""JSON as Python writes it: `True`, `False`, `None`, and strings between single quotes."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, cast

from ..program.expression import CONCAT, EMPTY, LITERAL, UNION, Expression, both, concat, literal, union
from ..program.rules import Rules
from ..regex.pattern import pattern_expression

_STRINGS = ("KEY", "STRING")
"""The terminals of JSON that are strings."""
_CONSTANTS = {b"true": b"True", b"false": b"False", b"null": b"None"}
ESCAPED = r'\\["\\bfnrt]|\\u([0-9a-cefA-CEF][0-9a-fA-F]{3}|[dD][0-7][0-9a-fA-F]{2})'
"""An escape in JSON and in Python, as a pattern."""
_STRING = rf'"([^\x00-\x1f"\\]|{ESCAPED})*"'
_SINGLE = rf"([^\x00-\x1f\"'\\]|{ESCAPED})*"


def in_python(rules: Rules, values: str) -> Rules:
    """Rules to which the terminals of JSON are added as Python writes them, too.

    values  "constants" may be Python's as well as JSON's; "all": strings, too; "only": all must be literals
            in Python, whose strings have other escapes; "": these rules
    """
    return cast(Rules, _InPython(rules, values)) if values else rules


class _InPython:
    """All of the rules but their terminals of JSON."""

    def __init__(self, rules: Rules, values: str) -> None:
        self.__dict__.update(_rules=rules, _values=values)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._rules, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._rules, name, value)

    def terminal(self, name: str, expression: Expression) -> int:
        """The symbol of a terminal."""
        words = expression[1] if expression[0] == UNION else (expression,)
        if name in _STRINGS and self._values != "constants":
            single = _between_single_quotes(expression)
            if self._values == "only":
                expression = both(expression, _pattern(_STRING))
            expression = union(expression, single)
        elif all(word[0] == LITERAL and word[1] in _CONSTANTS for word in words):
            expression = union(expression, *(literal(_CONSTANTS[word[1]]) for word in words))
        return self._rules.terminal(name, expression)


def _between_single_quotes(expression: Expression) -> Expression:
    """Strings of JSON in other quotes, but for those that contain any."""
    parts = expression[1] if expression[0] == CONCAT else (expression,)
    if parts[0][0] != LITERAL or parts[-1][0] != LITERAL:
        return EMPTY
    if len(parts) == 1:
        body = literal(parts[0][1][1:-1])
        is_plain = not any(byte in b"\"'\\" for byte in body[1])
        return concat(literal(b"'"), body, literal(b"'")) if is_plain else EMPTY
    body = concat(literal(parts[0][1][1:]), *parts[1:-1], literal(parts[-1][1][:-1]))
    return concat(literal(b"'"), both(body, _pattern(_SINGLE)), literal(b"'"))


@lru_cache(maxsize=2)
def _pattern(pattern: str) -> Expression:
    return pattern_expression(pattern)
