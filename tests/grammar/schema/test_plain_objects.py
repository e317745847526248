"""Objects whose plan is read off the schema are those that the formula of the schema leads to."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest

from engine_sampler.grammar.errors import GrammarError
from engine_sampler.grammar.schema.compiling import rules_from_schema
from engine_sampler.grammar.schema.document import Document
from engine_sampler.grammar.schema.keywords.all_types import KEYWORDS
from engine_sampler.grammar.schema.nodes import Expander
from engine_sampler.grammar.schema.plain_objects import plain_object

from .judging import Judge

NAMES = ("a", "b", 'say "c"', "é", "\ud800")
VALUES: tuple[Any, ...] = (None, 1, "x", {}, {"a": 1}, {"b": None})


def _read(schema: Any) -> Any:
    expander = Expander(Document(schema), KEYWORDS, "error", "assert", None)
    return plain_object(expander.root(), expander)


def _random_schema(rng: random.Random, depth: int = 2) -> Any:
    if not depth or rng.random() < 0.3:
        return rng.choice([True, False, {"type": "integer"}, {"type": ["string", "null"]}, {"enum": []}])
    schema: dict[str, Any] = {"type": "object"}
    names = rng.sample(NAMES, rng.randrange(3))
    schema["properties"] = {name: _random_schema(rng, depth - 1) for name in names}
    schema["required"] = [rng.choice(NAMES[:4]) for _ in range(rng.randrange(3))]
    schema["additionalProperties"] = _random_schema(rng, depth - 1)
    left = rng.sample(sorted(schema), rng.randint(2, 4))
    return {key: schema[key] for key in {"type", *left}}


def _by_formula(schema: Any) -> Any:
    """The same schema in a form that is not plain."""
    if not isinstance(schema, dict):
        return schema
    schema = dict(schema)
    if "properties" in schema:
        schema["properties"] = {name: _by_formula(one) for name, one in schema["properties"].items()}
    if "additionalProperties" in schema:
        schema["additionalProperties"] = _by_formula(schema["additionalProperties"])
    return schema | {"minProperties": 0} if schema.get("type") == "object" else schema


def _random_object(rng: random.Random) -> dict[str, Any]:
    return {name: rng.choice(VALUES) for name in rng.sample(NAMES[:4], rng.randrange(4))}


@pytest.mark.parametrize("seed", range(40))
def test_a_plain_object_is_the_one_that_its_formula_leads_to(seed: int) -> None:
    rng = random.Random(seed)
    schema = _random_schema(rng)
    try:
        plain = Judge(schema)
    except GrammarError as error:
        with pytest.raises(GrammarError, match=error.text):
            rules_from_schema(_by_formula(schema))
        return
    other = Judge(_by_formula(schema))
    for _ in range(60):
        text = json.dumps(_random_object(rng), ensure_ascii=False)
        assert plain.accepts(text) == other.accepts(text), (schema, text)


def test_only_what_says_no_more_than_its_keys_is_plain() -> None:
    assert _read({"type": "object"}).required == ()
    assert _read({"type": "object", "title": "T", "required": ["a", "a"]}).required == ("a",)
    for schema in ({}, {"properties": {}}, {"type": ["object"]}, {"type": "object", "minProperties": 1}):
        assert _read(schema) is None


def test_what_an_impossible_object_says_of_other_keys_does_not_matter() -> None:
    impossible = {"type": "string", "anyOf": [{"type": "object"}]}
    members = {"a": impossible, "b": {"type": "string", "$ref": "https://example.com/other"}}
    schema = {"items": {"type": "object", "properties": members, "required": ["a"]}}
    assert Judge(schema).accepts("[]")
    assert not Judge(schema).begins('[{"')


def test_keys_come_in_the_order_of_the_schema() -> None:
    schema = {"type": "object", "required": ["z"], "properties": {"c": {}, "a": {"type": "null"}}}
    assert list(_read(schema).shape().names) == ["c", "a", "z"]


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ({"type": "object", "properties": []}, "properties must be an object"),
        ({"type": "object", "required": [1]}, "required must be an array of strings"),
        ({"type": "object", "additionalProperties": 1}, "must be an object or a boolean"),
    ],
)
def test_faults_of_its_keywords_are_named(schema: Any, message: str) -> None:
    with pytest.raises(GrammarError, match=message):
        rules_from_schema(schema)


def test_draft_3_writes_required_in_the_schema_of_the_key() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "object", "required": True}}}
    with pytest.warns(UserWarning, match="required: true has no effect"):
        assert Judge(schema).accepts('{"a":{}}')


@pytest.mark.parametrize("combined", ["allOf", "anyOf", "oneOf"])
def test_a_combination_of_one_part_means_the_part(combined: str) -> None:
    part = {"type": "object", "properties": {"a": {"type": "integer"}}}
    schema = {"properties": {"x": part, "y": {combined: [part]}}, "type": "object"}
    assert rules_from_schema(schema).rule_names.count("object") == 3  # with that of any value


def test_a_combination_that_leads_back_to_itself_is_refused() -> None:
    with pytest.raises(GrammarError, match="leads back to itself"):
        rules_from_schema({"allOf": [{"$ref": "#"}]})
