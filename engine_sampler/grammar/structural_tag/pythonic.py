"""Arguments of a call in Python: `city="Paris", days=3, exact=True`.

The schema of a function's arguments declares the keywords. Each comes at most once, all required ones
included. Values are those of JSON as Python writes them: `True`, `False`, `None`, and strings in either
quotes, without the escapes that mean something else there (`\\/`, and halves of surrogate pairs). Two more
forms are those of chat templates: JSON's constants within objects and lists, and strings that stand between
single quotes as they are, line breaks included.
"""

from __future__ import annotations

from functools import lru_cache
from keyword import kwlist
from typing import Any

from ...base.errors import quoted
from ..errors import GrammarError, UnsupportedKeywordError
from ..program.expression import Expression, both, concat, literal, optional, union
from ..regex.pattern import pattern_expression
from ..schema.formula import TRUE
from ..schema.objects import Literals, Region
from ..schema.scalars.strings import content_set
from .arguments import Arguments, Separators
from .parameters import CallContext
from .spellings import ESCAPED, in_python

_RAW = r"[^'\\]"
"""A character of a string that stands between single quotes as it is."""

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
        self._rules = in_python(call.rules, "only")
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
        """The symbols of a keyword's value: constants are Python's, while within lists and objects they may
        be JSON's; a string may stand between single quotes as it is."""
        values, terminal = self._arguments, self._rules.terminal
        symbols = values.json(literals, ("string", "number", "object", "array"))
        constants = tuple(values.constants(literals, ("boolean", "null")))
        if constants:
            symbols = (*symbols, terminal("CONSTANT", union(*constants)))
        strings = values.strings(literals)
        if strings is None:
            return symbols
        quote, raw = literal(b"'"), _RAW + "|" + ESCAPED + r"|\\'" if strings == TRUE else _RAW
        text = _repeated(raw) if strings == TRUE else both(content_set(strings), _repeated(raw))
        return (*symbols, terminal("TEXT", concat(quote, text, quote)))


@lru_cache(maxsize=2)
def _repeated(character: str) -> Expression:
    return pattern_expression(f"({character})*")
