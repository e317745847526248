"""Arguments of a call in Python: `city="Paris", days=3, exact=True`.

The schema of a function's arguments declares the keywords. Each comes at most once, all required ones
included. Values are those of JSON as Python writes them: `True`, `False`, `None`, and strings without the
escapes that mean something else there (`\\/`, and halves of surrogate pairs).
"""

from __future__ import annotations

from functools import lru_cache
from keyword import kwlist
from typing import Any, cast

from ...base.errors import quoted
from ..errors import GrammarError, UnsupportedKeywordError
from ..program.expression import LITERAL, UNION, Expression, both, concat, literal, optional, union
from ..program.rules import Rules
from ..regex.pattern import pattern_expression
from ..schema.objects import Literals, Region
from .arguments import Arguments, Separators
from .parameters import CallContext

_STRINGS = ("KEY", "STRING")
"""The terminals of JSON that are strings."""
_CONSTANTS = {b"true": b"True", b"false": b"False", b"null": b"None"}
_STRING = r'"([^\x00-\x1f"\\]|\\["\\bfnrt]|\\u([0-9a-cefA-CEF][0-9a-fA-F]{3}|[dD][0-7][0-9a-fA-F]{2}))*"'
_NAMES = {"pattern": "^[A-Za-z_][A-Za-z0-9_]*$", "not": {"enum": kwlist}}
"""The names that Python allows, as a schema."""


def add_keywords(schema: Any, call: CallContext) -> int:
    """Add the arguments of a call that are valid under `schema` to the rules, and return their symbol.

    Raises GrammarError, and UnsupportedKeywordError for a name that Python does not allow.
    """
    if call.excludes:
        raise GrammarError("excludes is not supported in this style")
    return _Keywords(schema, call).add()


class _Keywords:
    """Writes the members of an object as keyword arguments: a `MemberWriter`."""

    def __init__(self, schema: Any, call: CallContext) -> None:
        self._rules = cast(Rules, _AsPython(call.rules))
        self._arguments = Arguments(schema, self._rules, call.options, _NAMES, {})
        for name in self._arguments.named(self._arguments.root):
            if not name.isidentifier() or not name.isascii() or name in kwlist:
                raise UnsupportedKeywordError(f"the parameter {quoted(name)} is not a name in Python")

    def add(self) -> int:
        """The symbol of all keywords."""
        comma = self._rules.terminal("COMMA", concat(literal(b","), optional(literal(b" "))))
        found = self._arguments.object(self._arguments.root, self, Separators(comma))
        self._arguments.finish()
        return found

    def opening(self, keys: str | Region) -> int:
        """The terminal of a keyword, with its `=`."""
        return self._rules.terminal("OPENING", concat(self._arguments.written_names(keys), literal(b"=")))

    def rest(self, keys: str | Region, literals: Literals) -> tuple[int, ...]:
        """The symbols of a keyword's value."""
        return self._arguments.json(literals)


class _AsPython:
    """Rules to which the terminals of JSON are added as Python writes them."""

    def __init__(self, rules: Rules) -> None:
        self._rules = rules

    def __getattr__(self, name: str) -> Any:
        return getattr(self._rules, name)

    def terminal(self, name: str, expression: Expression) -> int:
        """The symbol of a terminal."""
        words = expression[1] if expression[0] == UNION else (expression,)
        if name in _STRINGS:
            expression = both(expression, _strings())
        elif all(word[0] == LITERAL and word[1] in _CONSTANTS for word in words):
            expression = union(*(literal(_CONSTANTS[word[1]]) for word in words))
        return self._rules.terminal(name, expression)


@lru_cache(maxsize=1)
def _strings() -> Expression:
    return pattern_expression(_STRING)
