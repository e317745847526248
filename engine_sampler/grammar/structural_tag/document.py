"""A structural tag as it is given: an object or JSON text, in one of two forms."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ..errors import GrammarError, GrammarLimitError
from ..work import spend, spend_on_each
from .fields import REQUIRED, Fields


def json_of(name: str, text: str) -> Any:
    """The value of JSON text. Raises GrammarError, with the name of what it is."""
    spend(len(text) // 32)
    try:
        return json.loads(text)
    except RecursionError:
        raise GrammarLimitError(f"{name} is nested too deeply") from None
    except json.JSONDecodeError as error:
        raise GrammarError(f"{name} is not JSON: {error.msg}", error.lineno, error.colno) from None
    except ValueError as error:  # digits beyond what Python converts
        raise GrammarError(f"{name} is not JSON: {error}") from None


def _read(tag: Any) -> Mapping[str, Any]:
    if isinstance(tag, str):
        tag = json_of("the structural tag", tag)
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
