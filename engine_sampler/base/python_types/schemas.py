"""`schema_of`: the JSON Schema of a type."""

from __future__ import annotations

import importlib.util
import inspect
import sys
from typing import Any

from ..errors import INTERRUPTIONS, quoted, text_of
from ..json_text import is_described
from .definitions import Definitions


def schema_of(described: Any) -> dict[str, Any]:
    """The JSON Schema of a type: of a function, that of its arguments.

    described  a pydantic model or `TypeAdapter` (what it says of itself); a dataclass, `TypedDict`,
               `NamedTuple`, `Enum`, `Literal`, union, `list[...]` and the like, or a builtin type: as
               pydantic's `TypeAdapter` says where pydantic is installed, else as `reading` says, which
               describes the same values; a function or method: an object of its arguments

    Raises ValueError for anything else, and for types whose values are not JSON.
    """
    if not is_described(described):
        raise ValueError(f"{quoted(described)} is no type whose values have a JSON Schema")
    if inspect.isroutine(described):
        from .functions import arguments_of

        return arguments_of(described)
    definitions = Definitions()
    return definitions.completed(part_of(described, definitions))


def part_of(described: Any, definitions: Definitions) -> dict[str, Any]:
    """The schema of a type within a document whose `$defs` are `definitions`. Raises as `schema_of`."""
    own = _own(described)
    if own is None:
        own = _pydantic(described)
    if own is not None:
        return definitions.included(own)
    from .reading import read

    return read(described, definitions)


def _own(described: Any) -> dict[str, Any] | None:
    """What a model of pydantic's, or one of its adapters, says of itself; None for other types."""
    method: Any = None
    if isinstance(described, type):
        method = getattr(described, "model_json_schema", None)
        if method is None and hasattr(described, "__fields__"):
            method = getattr(described, "schema", None)  # pydantic 1
    elif type(described).__name__ == "TypeAdapter":
        method = getattr(described, "json_schema", None)
    return _called(method, described) if callable(method) else None


def _called(method: Any, described: Any) -> dict[str, Any]:
    try:
        schema = method()
    except INTERRUPTIONS:
        raise
    except BaseException as error:
        raise ValueError(f"{quoted(described)} has no JSON Schema: {text_of(error)}") from error
    if not isinstance(schema, dict):
        raise ValueError(f"{quoted(described)} gives {quoted(schema)} as its JSON Schema, no object")
    return schema


def _pydantic(described: Any) -> dict[str, Any] | None:
    """What pydantic says of a type; None where it is missing, or refuses the type, as it does
    `typing.TypedDict` before Python 3.12."""
    if "pydantic" not in sys.modules and importlib.util.find_spec("pydantic") is None:
        return None
    import pydantic  # type: ignore[import-not-found,unused-ignore]

    if not hasattr(pydantic, "TypeAdapter"):  # pydantic 1
        return None
    try:
        return pydantic.TypeAdapter(described).json_schema()
    except (pydantic.errors.PydanticUserError, NameError):
        return None
    except RecursionError:
        raise ValueError(f"{quoted(described)} is nested too deeply") from None
