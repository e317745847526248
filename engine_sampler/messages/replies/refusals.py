"""What a server answers to a request that is not allowed: errors name what the client has sent."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from ...contract import ParameterError
from ...grammar.bodies.tools.requests import functions_of
from ...grammar.errors import GrammarError
from ...params.openai import RENAMED

_NAMED = re.compile(r"(?:unknown parameter:? '?)?(\w[\w.\[\]]*)(?==|: |'| is | has | requires )")
_IN_A_LIST = re.compile(r"#/items/anyOf/(\d+)/properties/parameters")
"""Where the parameters of a function stand in the schema of calls without a family (`call_list`)."""

_LINE_IN_A_LIST = re.compile(r", line \d+, column \d+\)\n.*", re.DOTALL)
"""A place in the text of that schema, which the client has not written."""

_OF_A_TOOL = re.compile(r": tools: the parameters of ('[^']*'|\"[^\"]*\")(?=: )")
"""What names a tool that `tools[1].function.parameters` names already."""

_FORMATS = ("response_format", "text.format", "output_config.format", "output_format")
"""Where a `response_format` may be."""

_KINDS = {
    "json_schema": ("json",),
    "regex": ("regex",),
    "grammar": ("grammar", "ebnf"),
    "choice": ("choice",),
}
"""What other interfaces call the parameters of ours."""

_INNER = {
    "json_schema": "json_schema.schema schema json value",
    "regex": "regex value schema pattern grammar",
}
_INNER["grammar"] = "grammar ebnf value schema pattern"
"""Where their values may be in a `response_format`."""

_ELSEWHERE = {"json_schema": "grammar.value.schema grammar.value format", "regex": "grammar.value"}


def _paths_of(name: str) -> tuple[str, ...]:
    """Where in bodies a structured parameter may come from."""
    paths = [f"{form}.{key}" for form in _FORMATS for key in _INNER.get(name, "").split()]
    for kind in _KINDS[name]:
        paths += [f"structured_outputs.{kind}", f"guided_{kind}", f"guided_decoding.{kind}", kind]
    return *paths, "guided_decoding_guide", *_ELSEWHERE.get(name, "").split()


_STRUCTURED = {name: _paths_of(name) for name in _KINDS}
_PATHS: Mapping[str, tuple[str, ...]] = {
    **_STRUCTURED,
    "structural_tag": (*_STRUCTURED["json_schema"], *_STRUCTURED["regex"], *_FORMATS),
    "logprobs": ("top_logprobs",),
    **{ours: tuple(one for one in RENAMED if RENAMED[one] == ours) for ours in RENAMED.values()},
}
"""Where in bodies parameters may come from, the first of which is there."""

_EXTRA = ("extra_args", "vllm_xargs")
"""Where any parameter may be."""


def error_body(error: BaseException, body: Any = None) -> dict[str, Any]:
    """The body of the answer to a request that is not allowed, for HTTP 400: what is wrong, and with which
    parameter.

    body  that of the request: what it says in other names than those of parameters is named as it says it,
          such as `top_logprobs`, `response_format.json_schema.schema` or `tools[1].function.parameters`
    """
    text = str(error)
    named = _NAMED.match(text)
    name = named[1] if named else None
    if named and isinstance(body, Mapping):
        name, text = _as_sent(named[1], text, error, body)
    return {
        "error": {"message": text, "type": "invalid_request_error", "param": name, "code": None},
    }


def _as_sent(name: str, text: str, error: BaseException, body: Mapping[str, Any]) -> tuple[str, str]:
    """The name under which a body gives a parameter, and the message with it."""
    is_given = body.get(name) is not None and not (name == "logprobs" and body[name] is True)
    if is_given:
        return name, text
    sent = None
    if name in ("json_schema", "structural_tag"):
        sent = _tool_in(text, error, body)
    paths = (*_PATHS.get(name, ()), *(f"{key}.{name}" for key in _EXTRA))
    sent = sent or next((path for path in paths if _value_at(body, path) is not None), None)
    if sent is None:
        return name, text
    rest = text[len(name) :]
    place, _, why = rest.removeprefix(": ").partition(": ")
    if place.startswith("format") and " " not in place:  # a place in our structural tag
        rest = f": {why}"
    if _IN_A_LIST.search(rest):
        rest = _LINE_IN_A_LIST.sub(")", _IN_A_LIST.sub("#", rest))
    return sent, sent + _OF_A_TOOL.sub("", rest, count=1)


def _value_at(body: Any, path: str) -> Any:
    for key in path.split("."):
        body = body.get(key) if isinstance(body, Mapping) else None
    return body


def _tool_in(text: str, error: BaseException, body: Mapping[str, Any]) -> str | None:
    """The schema of the tool in whose calls an error is; None if it is not in a call."""
    key = "tools" if body.get("tools") else "functions"
    try:
        names = list(functions_of(body.get(key)))
    except ParameterError:  # they were not read
        return None
    tag = error.__cause__.tag if isinstance(error.__cause__, GrammarError) else None
    in_a_list = _IN_A_LIST.search(text)
    if in_a_list is not None:
        index: int | None = int(in_a_list[1])
    else:
        said = _chosen_name(body) if tag is None else " ".join(_texts(tag))
        named = [number for number, name in enumerate(names) if _stands_in(said, name)]
        index = max(named, key=lambda number: len(names[number]), default=None)
    if index is None or index >= len(names):
        return key if tag is not None and names else None
    tool = body[key][index]
    kinds = ("function", "custom") if key == "tools" and isinstance(tool, Mapping) else ()
    inner = "".join(f".{kind}" for kind in kinds if kind in tool)
    schema = ".input_schema" if isinstance(tool, Mapping) and "input_schema" in tool else ".parameters"
    return f"{key}[{index}]{inner}" + (schema if inner != ".custom" else "")


def _stands_in(text: str, name: str) -> bool:
    """Whether a name stands in a text, not as a part of another word."""
    at = text.find(name)
    while at >= 0:
        around = text[at - 1 : at] + text[at + len(name) :][:1]
        if not any(one.isalnum() or one == "_" for one in around):
            return True
        at = text.find(name, at + 1)
    return False


def _chosen_name(body: Mapping[str, Any]) -> str:
    """The name of the function that a body demands to be called."""
    choice = body.get("tool_choice") or body.get("function_call")
    named = choice.get("function", choice) if isinstance(choice, Mapping) else None
    name = named.get("name") if isinstance(named, Mapping) else None
    return name if isinstance(name, str) else ""


def _texts(part: Any) -> Iterator[str]:
    """The texts of a tag, but for those of schemas."""
    if isinstance(part, str):
        yield part
    elif isinstance(part, Mapping):
        for key, value in part.items():
            if key != "json_schema":
                yield from _texts(value)
    elif isinstance(part, list):
        for value in part:
            yield from _texts(value)
