"""A structural tag as it is given: an object or JSON text, in one of two forms."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from ..errors import GrammarError, GrammarLimitError
from ..program.json_text import loaded_json
from ..work import spend_on_each
from .fields import REQUIRED, Fields


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
