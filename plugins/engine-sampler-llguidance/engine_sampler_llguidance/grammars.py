"""What requests ask for, in llguidance's dialect of Lark."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from llguidance import LLMatcher, StructTag, regex_to_lark

from engine_sampler import Tokenizer


def lark_of(name: str, value: Any, params: Mapping[str, Any], tokenizer: Tokenizer) -> str:
    """The grammar of the structured parameter `name`. Raises ValueError and RecursionError."""
    if name == "grammar":
        return str(value)
    if name == "regex":
        return f"start: /{regex_to_lark(value)}/"
    if name == "choice":
        texts = " | ".join(json.dumps(text, ensure_ascii=False) for text in value)
        return f"start: CHOICE\nCHOICE: {texts}"
    options = _json_options(params)
    if name == "structural_tag":
        return _lark_of_tags(json.loads(value), options, tokenizer)
    schema = {"type": "object"} if name == "json_object" else json.loads(value)
    return f"start: %json {json.dumps(_with_options(schema, options))}"


def unenforced_in(name: str, value: Any, params: Mapping[str, Any]) -> list[str]:
    """What a schema asks for that llguidance leaves out, if the request wants to know."""
    if name != "json_schema" or params["unsupported"] != "warn":
        return []
    grammar = LLMatcher.grammar_from_json_schema(value, overrides={"lenient": True})
    return LLMatcher.validate_grammar_with_warnings(grammar)[1]


def _json_options(params: Mapping[str, Any]) -> dict[str, Any]:
    """The options of a request as llguidance's `x-guidance`."""
    whitespace = params["whitespace"]
    options: dict[str, Any] = {}
    if whitespace in ("compact", 0):
        options["whitespace_flexible"] = False
    elif isinstance(whitespace, int):
        options["whitespace_pattern"] = rf"[ \n\r\t]{{0,{whitespace}}}"
    elif whitespace not in (None, "any"):
        options["whitespace_pattern"] = whitespace
    if params["unsupported"] != "error":
        options["lenient"] = True
    return options


def _with_options(schema: Any, options: Mapping[str, Any]) -> Any:
    if schema is True:
        schema = {}
    if not options or not isinstance(schema, dict):
        return schema
    given = schema.get("x-guidance")
    return {**schema, "x-guidance": {**(given if isinstance(given, dict) else {}), **options}}


def _lark_of_tags(tag: Any, options: Mapping[str, Any], tokenizer: Tokenizer) -> str:
    """The grammar of a structural tag with `structures` and `triggers`."""
    try:
        triggers = [str(trigger) for trigger in tag["triggers"]]
        tags = [
            StructTag(
                trigger=next(trigger for trigger in triggers if one["begin"].startswith(trigger)),
                begin=one["begin"],
                grammar=_with_options(one["schema"], options),
                end=one["end"],
            )
            for one in tag["structures"]
        ]
        return StructTag.to_grammar(tags, assume_special=bool(tokenizer.special_ids(triggers)))
    except (KeyError, TypeError, AttributeError, StopIteration, AssertionError) as error:
        raise ValueError(
            'llguidance takes {"triggers": [...], "structures": [{"begin", "schema", "end"}, ...]}, '
            "where each begin has one of the triggers"
        ) from error
