"""What pydantic says of types, and what is read without it, describes the same values."""

from __future__ import annotations

import typing
from typing import Any

import pytest

from engine_sampler import SamplingParams
from engine_sampler.base.python_types import schema_of, schemas
from engine_sampler.grammar import Grammar

from .test_schemas import Colour, Movie, Person, Point

pydantic = pytest.importorskip("pydantic")

TEXTS = [
    '{"name": "a"}',
    '{"name": "a", "age": 1, "friends": [{"name": "b"}]}',
    '{"name": "a", "friends": [{}]}',
    '{"age": 1}',
    '{"title": "a"}',
    '{"title": "a", "colour": "red"}',
    '{"title": "a", "colour": "pink"}',
    "[1.5, 2]",
    "[1.5]",
    "[]",
    '"red"',
    '"pink"',
    "1",
    "null",
    '["a", "b"]',
]

DESCRIBED = [Person, Movie, Point, Colour, int, list[Person], int | None, dict[str, int]]
DESCRIBED += [typing.Literal["red"], tuple[float, int]]


@pytest.mark.parametrize("described", DESCRIBED, ids=repr)
def test_both_describe_the_same_values(described: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = Grammar.from_json_schema(schema_of(described), unsupported="warn")
    monkeypatch.setattr(schemas, "_pydantic", lambda described: None)
    ours = Grammar.from_json_schema(schema_of(described), unsupported="warn")
    assert [ours.check(text).valid for text in TEXTS] == [theirs.check(text).valid for text in TEXTS]


def test_a_model_and_its_adapter_are_schemas() -> None:
    class Answer(pydantic.BaseModel):  # type: ignore[name-defined, misc]
        reason: str
        score: int = pydantic.Field(ge=0, le=10)

    adapter = pydantic.TypeAdapter(list[Answer])
    assert Grammar.from_type(Answer).check('{"reason": "a", "score": 10}').valid
    assert not Grammar.from_type(Answer).check('{"reason": "a", "score": 11}').valid
    assert Grammar.from_type(adapter).check('[{"reason": "a", "score": 10}]').valid
    assert SamplingParams(json_schema=Answer) == SamplingParams(json_schema=Answer.model_json_schema())
    body = {"response_format": Answer}
    assert SamplingParams.from_dict(body).json_schema == SamplingParams(json_schema=Answer).json_schema
