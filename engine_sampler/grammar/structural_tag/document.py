"""A structural tag as it is given: an object or JSON text in one of two forms, and its objects' fields."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from ...base.errors import quoted
from ..errors import GrammarError, GrammarLimitError
from ..program.json_text import loaded_json
from ..work import spend_on_each

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


def _read(tag: Any) -> Mapping[str, Any]:
    if isinstance(tag, str):
        tag = loaded_json("the structural tag", tag)
    if not isinstance(tag, dict) or tag.get("type", "structural_tag") != "structural_tag":
        raise GrammarError('a structural tag must be an object of the type "structural_tag"')
    return tag


def format_of(tag: Any) -> Any:
    """The format of a structural tag in either form, an object or JSON text. Raises GrammarError."""
    tag = _read(tag)
    if "structures" not in tag:
        return Fields(tag, "the structural tag").take(type=(str, ""), format=(dict, REQUIRED))[1]
    fields = Fields(tag, "the structural tag")
    _, structures, triggers = fields.take(
        type=(str, ""), structures=(list, REQUIRED), triggers=(list, REQUIRED)
    )
    tags = []
    for number, one in enumerate(spend_on_each(structures, 3)):
        begin, schema, end = Fields(one, f"structures[{number}]").take(
            begin=(str, REQUIRED), schema=((dict, bool, str), REQUIRED), end=(str, REQUIRED)
        )
        tags.append({"begin": begin, "content": {"type": "json_schema", "json_schema": schema}, "end": end})
    return {"type": "triggered_tags", "triggers": triggers, "tags": tags}


@contextmanager
def limits_named() -> Iterator[None]:
    """Say of a GrammarLimitError of the block that names no format that it is about the structural tag."""
    try:
        yield
    except GrammarLimitError as error:
        if not error.text.startswith(("format", "the format", "the structural tag")):
            error.text = f"the structural tag: {error.text}"
        raise
