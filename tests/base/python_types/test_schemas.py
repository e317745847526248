"""The JSON Schemas of types, which pydantic says."""

from __future__ import annotations

import dataclasses
import datetime
import enum
import json
import typing
import uuid
from typing import Any

import pydantic
import pytest
from typing_extensions import NotRequired, TypedDict

from engine_sampler import SamplingParams
from engine_sampler.base.json_text import json_text
from engine_sampler.base.python_types import schema_of, schemas
from engine_sampler.contract import ParameterError
from engine_sampler.grammar import Grammar, GrammarError


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclasses.dataclass
class Person:
    name: str
    age: int = 0
    friends: list[Person] = dataclasses.field(default_factory=list)


class Movie(TypedDict):
    title: str
    colour: NotRequired[Colour]


class Point(typing.NamedTuple):
    x: float
    y: float = 0.0


class Answer(pydantic.BaseModel):
    reason: str
    score: int = pydantic.Field(ge=0, le=10)


@pytest.mark.parametrize(
    ("described", "valid", "invalid"),
    [
        (int, "1", "null"),
        (list[int], "[1, 2]", '["a"]'),
        (set[str], '["a", "b"]', '["a", "a"]'),
        (tuple[float, int], "[1.5, 2]", "[1.5]"),
        (dict[str, bool], '{"a": true}', '{"a": 1}'),
        (int | None, "null", '"a"'),
        (typing.Literal["a", 1, None], "null", '"b"'),
        (Colour, '"red"', '"pink"'),
        (datetime.date, '"2026-01-31"', '"2026-01-32"'),
        (uuid.UUID, '"00000000-0000-0000-0000-000000000000"', '"0"'),
        (Person, '{"name": "a", "friends": [{"name": "b"}]}', '{"name": "a", "friends": [{}]}'),
        (Movie, '{"title": "a", "colour": "red"}', '{"title": "a", "colour": "pink"}'),
        (Point, "[1.5]", "[]"),
        (tuple[Colour, Answer], '["red", {"reason": "", "score": 1}]', '["red", {"score": 1}]'),
        (Answer, '{"reason": "a", "score": 10}', '{"reason": "a", "score": 11}'),
        (pydantic.TypeAdapter(list[Answer]), "[]", '[{"reason": "a", "score": 11}]'),
    ],
    ids=repr,
)
def test_a_type_has_the_schema_of_its_values(described: Any, valid: str, invalid: str) -> None:
    grammar = Grammar.from_json_schema(described, unsupported="warn")
    assert grammar.check(valid).valid
    assert not grammar.check(invalid).valid
    assert json.loads(json_text(described)) == schema_of(described)


def test_two_classes_of_one_name_are_told_apart() -> None:
    first = dataclasses.make_dataclass("Made", [("value", int)])
    second = dataclasses.make_dataclass("Made", [("value", str)])
    text = Grammar.from_type(tuple[first, second, first])  # type: ignore[valid-type]
    assert text.check('[{"value": 1}, {"value": "a"}, {"value": 2}]').valid
    assert not text.check('[{"value": 1}, {"value": 1}, {"value": 2}]').valid


def test_a_model_is_a_parameter_of_requests() -> None:
    assert SamplingParams(json_schema=Answer) == SamplingParams(json_schema=Answer.model_json_schema())
    body = {"response_format": Answer}
    assert SamplingParams.from_dict(body).json_schema == SamplingParams(json_schema=Answer).json_schema


class Unlike:
    pass


@pytest.mark.parametrize(
    ("described", "error"),
    [
        (Unlike, "Unlike.* has no JSON Schema"),
        (5, "5 is not a type"),
        (["a"], "is not a type"),
        (list[Unlike], "has no JSON Schema"),
        (enum.Enum("Odd", {"one": object}), "has no JSON Schema"),
    ],
    ids=["class", "number", "list", "nested", "odd"],
)
def test_what_has_no_schema_is_refused_by_name(described: Any, error: str) -> None:
    with pytest.raises(ValueError, match=error):
        schema_of(described)


def test_where_pydantic_is_missing_it_is_asked_for_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schemas.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(GrammarError, match=r"Person.*needs pydantic: pip install pydantic"):
        Grammar.from_json_schema(Person)
    with pytest.raises(ParameterError, match=r"tools=.*needs pydantic"):
        SamplingParams.from_dict({"tools": [Person], "tool_choice": "required", "tool_family": "hermes"})
    assert schema_of(Model) == Model.model_json_schema()


class Model:
    """As pydantic's models: it says its own schema."""

    @classmethod
    def model_json_schema(cls) -> dict[str, Any]:
        return {
            "type": "object",
            "properties": {"colour": {"$ref": "#/$defs/Colour"}},
            "required": ["colour"],
            "$defs": {"Colour": {"enum": ["green"]}},
        }


def test_types_within_a_schema_keep_their_references() -> None:
    schema = {"type": "object", "properties": {"a": Model, "b": list[Person]}, "required": ["a"]}
    grammar = Grammar.from_json_schema(schema)
    assert grammar.check('{"a": {"colour": "green"}, "b": [{"name": "x", "friends": [{"name": "y"}]}]}').valid
    assert not grammar.check('{"a": {"colour": "red"}}').valid
    assert json_text(schema) == json_text(schema)


class Failing:
    @classmethod
    def model_json_schema(cls) -> Any:
        raise RuntimeError("not today")


class Lying:
    @classmethod
    def model_json_schema(cls) -> Any:
        return "object"


@pytest.mark.parametrize(
    ("described", "error"), [(Failing, "not today"), (Lying, "gives 'object'")], ids=["failing", "lying"]
)
def test_a_model_that_fails_is_named(described: Any, error: str) -> None:
    with pytest.raises(ValueError, match=error):
        schema_of(described)
