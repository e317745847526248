"""The fields of the objects of which a structural tag consists."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ...base.errors import quoted
from ..errors import GrammarError

REQUIRED = object()
"""The default of a field that must be present."""

_NAMES = {
    str: "a string",
    dict: "an object",
    list: "a list",
    bool: "a boolean",
    int: "a whole number",
    float: "a number",
}


class Fields:
    """The fields of one object of a tag; `path` locates the object in error messages."""

    def __init__(self, given: Any, path: str) -> None:
        if not isinstance(given, dict):
            raise GrammarError(f"{path} must be an object, not {_NAMES.get(type(given), 'null')}")
        self.given, self.path = given, path

    def take(self, **fields: tuple[Any, Any]) -> list[Any]:
        """The values of the fields, each declared as (types, default); other fields are an error."""
        for name in self.given:
            if name not in fields:
                known = ", ".join(fields)
                raise GrammarError(f"{self.path} has the unknown field {quoted(name)}: allowed are {known}")
        return [self._take(name, types, default) for name, (types, default) in fields.items()]

    def _take(self, name: str, types: Any, default: Any) -> Any:
        value = self.given.get(name, default)
        if value is REQUIRED:
            raise GrammarError(f"{self.path} lacks the field {quoted(name)}")
        if value is default:
            return value
        allowed = types if isinstance(types, tuple) else (types,)
        if not isinstance(value, allowed) or (isinstance(value, bool) and bool not in allowed):
            names = " or ".join(_NAMES[one] for one in allowed)
            raise GrammarError(f"{self.path}.{name} must be {names}, not {_NAMES.get(type(value), 'null')}")
        return value


def nonempty_strings(values: Sequence[Any], path: str) -> frozenset[str]:
    """The values, all nonempty strings. Raises GrammarError, with `path`, for anything else."""
    for value in values:
        if not isinstance(value, str):
            raise GrammarError(f"{path} must contain only strings")
        if not value:
            raise GrammarError(f"{path} contains an empty string, which occurs everywhere")
    return frozenset(values)
