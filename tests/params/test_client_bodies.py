"""Bodies that guidance 0.3, instructor 1.17 and pydantic-ai send for eleven models of pydantic: each becomes
a grammar that accepts the model's values and refuses others.

`client_bodies.json` has what each client adds to a request with one message, without messages and without
descriptions: of 109 bodies, the 68 that differ.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from engine_sampler import Grammar, SamplingParams

BODIES = json.loads(Path(__file__).with_name("client_bodies.json").read_text(encoding="utf-8"))

VALUES: dict[str, tuple[Any, list[dict[str, Any]]]] = {
    "Flat": ({"name": "Ada", "age": 36}, [{"age": "36"}, {"name": None}]),
    "Bounds": (
        {"score": 0.5, "count": 95, "code": "ABC"},
        [{"score": 1.5}, {"count": 100}, {"count": 7}, {"code": "AB"}, {"code": "abc"}],
    ),
    "Enums": (
        {"colour": "green", "size": 3, "flag": True},
        [{"colour": "pink"}, {"size": "3"}, {"flag": False}],
    ),
    "Nested": (
        {"address": {"street": "a", "zip": None}, "others": [{"street": "b", "zip": "1"}]},
        [{"others": []}, {"address": {"zip": "1"}}, {"others": [{"street": "b", "zip": "1"}] * 4}],
    ),
    "Optionals": ({"a": None, "b": "x", "c": 2.5}, [{"a": "1"}, {"b": 1}, {"c": None}]),
    "Node": (
        {"value": 1, "children": [{"value": 2, "children": []}]},
        [{"children": [{"value": "2", "children": []}]}, {"children": {}}],
    ),
    "Tagged": (
        {"pet": {"kind": "dog", "tricks": ["sit"]}},
        [{"pet": {"kind": "cat", "tricks": ["sit"]}}, {"pet": {"kind": "cow"}}],
    ),
    "Maps": (
        {"scores": {"a": 1.5}, "groups": {"b": [1, 2]}, "pairs": [1, "x"]},
        [{"scores": {"a": "1"}}, {"groups": {"b": 1}}, {"pairs": ["x", 1]}, {"pairs": [1]}],
    ),
    "Formats": (
        {
            "day": "2026-02-28",
            "at": "2026-02-28T12:00:00Z",
            "id": "123e4567-e89b-12d3-a456-426614174000",
            "price": "1.50",
            "took": "PT1H",
        },
        [{"day": "2026-02-30"}, {"at": "noon"}, {"id": "123"}, {"price": None}, {"took": "soon"}],
    ),
    "Sets": ({"tags": ["a", "b"], "picks": [1, 2]}, [{"tags": "a"}, {"picks": [1, 1]}]),
    "Strict": ({"text": "hi", "number": 3}, [{"text": 1}, {"more": 1}]),
}
"""For each model a value, and changes that make it a wrong one."""

WITHOUT_GRAMMAR = (
    "instructor json",
    "instructor md json",
    "instructor parallel tools",
    "pydantic ai prompted",
)
"""What leaves the form of the answer to the model, or asks for any object."""


def cases() -> list[Any]:
    return [
        pytest.param(entry["body"], model, id=f"{client}-{model}")
        for entry in BODIES
        for client in entry["clients"]
        for model in entry["models"]
    ]


def written(body: dict[str, Any], value: Any) -> str:
    """A value as the answer to a body: as it is, or as a call of the one tool."""
    if body.get("tool_choice") == "required":
        value = [{"name": body["tools"][0]["function"]["name"], "parameters": value}]
    return json.dumps(value)


@pytest.mark.parametrize(("body", "model"), cases())
def test_the_answer_to_a_body_is_a_value_of_its_model(body: dict[str, Any], model: str) -> None:
    params = SamplingParams.from_dict(body)
    if params.json_schema is None:
        is_object = body.get("response_format") == {"type": "json_object"}
        assert params.json_object is is_object
        return
    grammar = Grammar.from_json_schema(params.json_schema)
    right, changes = VALUES[model]
    assert grammar.check(written(body, right)).valid
    for change in changes:
        assert not grammar.check(written(body, right | change)).valid, change


def test_the_bodies_are_those_of_three_clients_and_eleven_models() -> None:
    pairs = [(client, model) for e in BODIES for client in e["clients"] for model in e["models"]]
    assert len(pairs) == len({*pairs}) == 109
    assert {model for _, model in pairs} == VALUES.keys()
    assert {client.split()[0] for client, _ in pairs} == {"guidance", "instructor", "pydantic"}
