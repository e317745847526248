"""Arguments of a call in Python: `city="Paris", days=3, exact=True`.

The schema of a function's arguments declares the keywords. Each comes at most once, all required ones
included. Values are those of JSON as Python writes them: `True`, `False`, `None`, and strings without the
escapes that mean something else there (`\\/`, and halves of surrogate pairs).
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from keyword import kwlist
from typing import Any, cast

from ..errors import GrammarError, UnsupportedKeywordError
from ..program.expression import LITERAL, UNION, Expression, both, concat, literal, optional, union, without
from ..program.rules import Rules
from ..regex.pattern import pattern_expression
from ..schema import add_schema
from .members import Member, Separators, add_members
from .parameters import CallContext, members_of, object_schema
from .readings import SHARED

_STRINGS = ("KEY", "STRING")
"""The terminals of JSON that are strings."""
_CONSTANTS = {b"true": b"True", b"false": b"False", b"null": b"None"}
_STRING = r'"([^\x00-\x1f"\\]|\\["\\bfnrt]|\\u([0-9a-cefA-CEF][0-9a-fA-F]{3}|[dD][0-7][0-9a-fA-F]{2}))*"'
_NAME = "[A-Za-z_][A-Za-z0-9_]*"


def add_keywords(schema: Any, call: CallContext) -> int:
    """Add the arguments of a call that are valid under `schema` to the rules, and return their symbol.

    Raises GrammarError, and UnsupportedKeywordError for a name that Python does not allow.
    """
    if call.excludes:
        raise GrammarError("excludes is not supported in this style")
    schema = object_schema(schema)
    shared = {key: schema[key] for key in SHARED if key in schema}
    named, required, rest = members_of(schema, pattern_expression(_NAME))
    members = []
    for name, one in named.items():
        if not name.isidentifier() or not name.isascii() or name in kwlist:
            raise UnsupportedKeywordError(f"the parameter {name!r} is not a name in Python")
        members.append(_member(literal(name.encode()), one, shared, call, name in required))
    taken = union(*(literal(name.encode()) for name in (*named, *kwlist)))
    others = [_member(without(names, taken), one, shared, call, False) for names, one in rest]
    comma = call.rules.terminal("COMMA", concat(literal(b","), optional(literal(b" "))))
    in_order = call.options.key_order == "schema"
    return add_members(call.rules, members, others, Separators(comma), in_order=in_order)


def _member(
    name: Expression, schema: Any, shared: Mapping[str, Any], call: CallContext, is_required: bool
) -> Member:
    whole = {**shared, **schema} if isinstance(schema, dict) else schema
    value = add_schema(whole, cast(Rules, _AsPython(call.rules)), call.options)
    return Member(call.rules.terminal("OPENING", concat(name, literal(b"="))), value, is_required)


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
