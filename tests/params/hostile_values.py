"""Values that a JSON body from a client may contain, chosen to break a reader."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from hypothesis import strategies as st


def nested(depth: int, kind: type = list) -> Any:
    """A list or an object inside another, `depth` times."""
    value: Any = [] if kind is list else {}
    for _ in range(depth):
        value = [value] if kind is list else {"a": value}
    return value


DEEP = (nested(100), nested(5_000), nested(5_000, dict))
HUGE = (10**400, -(10**400), 10**5_000, 2**63, 2**64, -1, 1e308, -1e308, 5e-324, float("inf"), float("nan"))
TEXTS = (
    "[" * 100_000,
    "{" * 100_000,
    "9" * 5_000,
    "\ud800",
    "",
    "1_0",
    "05",
    "\u0663",
    "false",
    "a" * 70_000,
    "(" * 3000,
)
FLAT = (*HUGE, *TEXTS, None, True, False, 0, 1, 0.5, [], {}, {"9" * 5_000: 1}, {"": None}, [[1, 2]], [[]])

ALL = (*FLAT, *DEEP)


class Hidden:
    """Number `index` of `ALL`, which Hypothesis could not print."""

    def __init__(self, index: int) -> None:
        self.index = index

    def __repr__(self) -> str:
        return f"Hidden({self.index})"


def revealed(value: Any) -> Any:
    """`value` with what is hidden in it."""
    if isinstance(value, Hidden):
        return ALL[value.index]
    if isinstance(value, list):
        return [revealed(entry) for entry in value]
    return {key: revealed(entry) for key, entry in value.items()} if isinstance(value, dict) else value


scalars = (
    st.integers(0, len(ALL) - 1).map(Hidden)
    | st.integers(-3, 50)
    | st.floats(-2, 2)
    | st.booleans()
    | st.text(max_size=5)
)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=4,
)


def bodies(keys: list[str]) -> st.SearchStrategy[dict[str, Any]]:
    """Bodies with some of `keys` and an unknown one now and then, to be `revealed`."""
    names = st.sampled_from(keys) | st.text(max_size=6)
    return st.dictionaries(names, values, min_size=1, max_size=3)


_PARAMETERS = {
    "type": "object",
    "properties": {"city": {"type": "string", "maxLength": 9}, "list": {"items": {"$ref": "#/$defs/n"}}},
    "required": ["city"],
    "$defs": {"n": {"anyOf": [{"type": "null"}, {"type": "number", "multipleOf": 0.5}]}},
}
_SYNTAX = {"syntax": "lark", "definition": "start: /a+/"}
_TAG = {"begin": "<f=a>", "content": {"type": "json_schema", "json_schema": _PARAMETERS}, "end": "</f>"}
DIALECTS: tuple[dict[str, Any], ...] = (
    {
        "tools": [
            {"type": "function", "function": {"name": "f", "description": "x", "parameters": _PARAMETERS}},
            {"type": "custom", "custom": {"name": "c", "format": {"type": "grammar", "grammar": _SYNTAX}}},
        ],
        "tool_choice": {
            "type": "allowed_tools",
            "allowed_tools": {
                "mode": "required",
                "tools": [{"type": "function", "function": {"name": "f"}}],
            },
        },
    },
    {
        "tools": [
            {"type": "function", "name": "f", "parameters": _PARAMETERS, "strict": True},
            {"type": "custom", "name": "c", "format": {"type": "grammar", **_SYNTAX}},
        ],
        "text": {"format": {"type": "json_schema", "name": "n", "schema": _PARAMETERS, "strict": True}},
        "reasoning": {"effort": "low", "summary": "auto"},
    },
    {
        "tools": [{"name": "f", "description": "x", "input_schema": _PARAMETERS}],
        "tool_choice": {"type": "any", "disable_parallel_tool_use": True},
        "thinking": {"type": "enabled", "budget_tokens": 5},
    },
    {"output_config": {"format": {"type": "json_schema", "schema": _PARAMETERS}}},
    {"format": _PARAMETERS, "options": {"temperature": 0.1}},
    {"grammar": {"type": "json", "value": _PARAMETERS}},
    {
        "grammar": 'root ::= "a"',
        "grammar_lazy": True,
        "grammar_triggers": [{"type": "word", "value": "ab"}, {"type": 0, "value": "a", "token": 97}],
    },
    {"guided_decoding": {"guide_type": "json_schema", "guide": "{}"}},
    {"structured_outputs": {"json": {"$ref": "u:a"}, "resources": {"u:a": _PARAMETERS}, "draft": "7"}},
    {
        "structural_tag": {
            "format": {
                "type": "sequence",
                "elements": [
                    {"type": "triggered_tags", "triggers": ["<f"], "tags": [_TAG], "at_least_one": True},
                    {"type": "or", "elements": [{"type": "const_string", "value": "x"}]},
                    {
                        "type": "tag",
                        "begin": "<",
                        "content": {"type": "any_text", "max_tokens": 3},
                        "end": ">",
                    },
                ],
            }
        }
    },
    {"phases": [{"tokens": 3, "params": {"top_p": 0.5}}, {"tokens": 1, "force": [1, 2], "then": 0}]},
    {"thinking": {"start": ["<t>"], "end": "</t>", "starts_inside": True}, "thinking_token_budget": 3},
    {"functions": [{"name": "f", "parameters": _PARAMETERS}], "function_call": {"name": "f"}},
)
"""Bodies of servers' interfaces, whose values are objects within each other."""


def replaced(body: Any, value: Any) -> Iterator[Any]:
    """Copies of a body, each with `value` in another place: of each value, at any depth."""
    if not isinstance(body, dict | list):
        return
    for key in body if isinstance(body, dict) else range(len(body)):
        for part in (value, *replaced(body[key], value)):
            other = body.copy()
            other[key] = part
            yield other
