"""The fields of the objects that a structural tag is made of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..errors import GrammarError

NEEDED = object()
"""The default of a field that must be there."""


_NAMES = {str: "text", dict: "object", list: "list", bool: "boolean", int: "whole number", float: "number"}


class Fields:
    """The fields of an object of the tag; `path` says where it stands."""

    def __init__(self, given: Any, path: str) -> None:
        if not isinstance(given, dict):
            raise GrammarError(f"{path} is a {_NAMES.get(type(given), 'null')}, allowed is an object")
        self.given, self.path = given, path

    def take(self, **wanted: tuple[Any, Any]) -> list[Any]:
        """The values of the fields, each wanted as (its types, its default); no others may be there."""
        for name in self.given:
            if name not in wanted:
                raise GrammarError(f"{self.path} has the field {name!r}, allowed are {', '.join(wanted)}")
        return [self._take(name, types, default) for name, (types, default) in wanted.items()]

    def _take(self, name: str, types: Any, default: Any) -> Any:
        value = self.given.get(name, default)
        if value is NEEDED:
            raise GrammarError(f"{self.path} lacks the field {name!r}")
        if value is default:
            return value
        allowed = types if isinstance(types, tuple) else (types,)
        if not isinstance(value, allowed) or (isinstance(value, bool) and bool not in allowed):
            names = " or ".join(_NAMES[one] for one in allowed)
            raise GrammarError(
                f"{self.path}.{name} is a {_NAMES.get(type(value), 'null')}, allowed is {names}"
            )
        return value


def texts(values: Sequence[Any], path: str) -> frozenset[str]:
    """The values as texts; `path` says where they stand. Raises GrammarError for another value."""
    for value in values:
        if not isinstance(value, str):
            raise GrammarError(f"{path} has something else than texts in it")
        if not value:
            raise GrammarError(f"{path} has an empty text in it, which occurs everywhere")
    return frozenset(values)
