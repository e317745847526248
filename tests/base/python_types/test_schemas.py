"""The JSON Schemas of types: what pydantic says where it is installed, and what is read without it."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import json
import typing
import uuid
from typing import Any

import pytest

from engine_sampler.base.json_text import json_text
from engine_sampler.base.python_types import schema_of, schemas
from engine_sampler.grammar import Grammar


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclasses.dataclass
class Person:
    name: str
    age: int = 0
    friends: list[Person] = dataclasses.field(default_factory=list)
    secret: int = dataclasses.field(default=0, init=False)


class Movie(typing.TypedDict, total=False):
    title: typing.Required[str] if hasattr(typing, "Required") else str  # type: ignore[valid-type]
    colour: Colour


class Point(typing.NamedTuple):
    x: float
    y: float = 0.0


Name = typing.NewType("Name", str)


@pytest.fixture(autouse=True)
def without_pydantic(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(schemas, "_pydantic", lambda described: None)


@pytest.mark.parametrize(
    ("described", "schema"),
    [
        (int, {"type": "integer"}),
        (None, {"type": "null"}),
        (list, {"type": "array"}),
        (dict, {"type": "object"}),
        (list[int], {"type": "array", "items": {"type": "integer"}}),
        (set[str], {"type": "array", "items": {"type": "string"}, "uniqueItems": True}),
        (tuple[int, ...], {"type": "array", "items": {"type": "integer"}}),
        (dict[str, bool], {"type": "object", "additionalProperties": {"type": "boolean"}}),
        (int | None, {"anyOf": [{"type": "integer"}, {"type": "null"}]}),
        (typing.Optional[int], {"anyOf": [{"type": "integer"}, {"type": "null"}]}),  # noqa: UP045
        (typing.Literal["a", 1, None], {"enum": ["a", 1, None]}),
        (typing.Annotated[int, "the age"], {"type": "integer", "description": "the age"}),
        (Name, {"type": "string"}),
        (Colour, {"enum": ["red", "blue"]}),
        (datetime.date, {"type": "string", "format": "date"}),
        (uuid.UUID, {"type": "string", "format": "uuid"}),
        (decimal.Decimal, {"type": "number"}),
        (
            Point,
            {
                "type": "array",
                "prefixItems": [{"type": "number"}, {"type": "number"}],
                "minItems": 1,
                "maxItems": 2,
            },
        ),
    ],
    ids=repr,
)
def test_a_type_has_the_schema_of_its_values(described: Any, schema: Any) -> None:
    assert schema_of(described) == schema if described is not None else json_text(None) == "null"


def test_a_dataclass_may_refer_to_itself() -> None:
    person = {
        "type": "object",
        "properties": {
            "name": {"type": "string"},
            "age": {"type": "integer"},
            "friends": {"type": "array", "items": {"$ref": "#/$defs/Person"}},
        },
        "required": ["name"],
    }
    assert schema_of(Person) == {"$ref": "#/$defs/Person", "$defs": {"Person": person}}
    assert schema_of(list[Person])["$defs"] == {"Person": person}


def test_a_typed_dict_requires_what_it_says() -> None:
    schema = schema_of(Movie)
    assert schema["properties"] == {"title": {"type": "string"}, "colour": {"$ref": "#/$defs/Colour"}}
    assert schema["$defs"] == {"Colour": {"enum": ["red", "blue"]}}
    assert schema.get("required", ["title"]) == ["title"]


def test_two_classes_of_one_name_are_told_apart() -> None:
    def made(kind: type) -> Any:
        return dataclasses.make_dataclass("Made", [("value", kind)])

    first, second = made(int), made(str)
    text = Grammar.from_type(tuple[first, second, first])  # type: ignore[valid-type]
    assert text.check('[{"value": 1}, {"value": "a"}, {"value": 2}]').valid
    assert not text.check('[{"value": 1}, {"value": 1}, {"value": 2}]').valid


class Unlike:
    pass


@pytest.mark.parametrize(
    ("described", "error"),
    [
        (Unlike, "Unlike.*is no type whose values have a JSON Schema"),
        (5, "5 is no type"),
        (["a"], "is no type"),
        (list[Unlike], "is no type"),
        (complex, "is no type"),
        (enum.Enum("Empty", {}), "without members"),
        (enum.Enum("Odd", {"one": object}), "are not JSON"),
    ],
    ids=["class", "number", "list", "nested", "complex", "empty", "odd"],
)
def test_what_has_no_schema_is_refused_by_name(described: Any, error: str) -> None:
    with pytest.raises(ValueError, match=error):
        schema_of(described)


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


def test_a_model_says_its_own_schema() -> None:
    assert schema_of(Model) == Model.model_json_schema()


def test_definitions_of_one_name_do_not_meet() -> None:
    schema = schema_of(tuple[Colour, Model])
    assert schema["prefixItems"][0] == {"$ref": "#/$defs/Colour"}
    assert schema["prefixItems"][1]["properties"] == {"colour": {"$ref": "#/$defs/Colour_2"}}
    assert Grammar.from_type(tuple[Colour, Model]).check('["red", {"colour": "green"}]').valid


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


def test_the_schema_of_every_type_is_json() -> None:
    for described in (Person, Movie, Point, Colour):
        assert json.loads(json_text(described)) == schema_of(described)
