"""Random schemas that nest the keywords in each other."""

from __future__ import annotations

import random
from typing import Any

NAMES = "abcde"
LEAVES: tuple[Any, ...] = (
    True,
    False,
    {"const": 1},
    {"const": "a"},
    {"const": [1]},
    {"enum": [0, "a", None, [1, 2], {"a": 1}]},
    {"type": "integer"},
    {"type": ["string", "array"]},
    {"type": "object"},
    {"minItems": 2},
    {"maxItems": 3},
    {"minProperties": 1},
    {"maxProperties": 3},
    {"required": ["a", "c"]},
    {"pattern": "^a|b$"},
    {"format": "date"},
    {"minLength": 3},
    {"minimum": 3},
    {"multipleOf": 7},
    {"uniqueItems": True},
    {"propertyNames": {"maxLength": 3}},
    {"dependentRequired": {"a": ["b"], "b": ["c"]}},
)


def random_schema(rng: random.Random) -> dict[str, Any]:
    """A schema of up to five levels; its definitions refer to each other."""
    definitions = {name: _nested(rng, 3, ("d", "e")) for name in ("d", "e")}
    return {"allOf": [_nested(rng, rng.randint(2, 5), ("d", "e"))], "$defs": definitions}


def _nested(rng: random.Random, depth: int, references: tuple[str, ...]) -> Any:
    def inner() -> Any:
        return _nested(rng, depth - 1, references)

    def several() -> list[Any]:
        return [inner() for _ in range(rng.randint(1, 3))]

    def named() -> dict[str, Any]:
        return {name: inner() for name in rng.sample(NAMES, rng.randint(1, 3))}

    if depth <= 0 or rng.random() < 0.15:
        return {"$ref": f"#/$defs/{rng.choice(references)}"} if rng.random() < 0.15 else rng.choice(LEAVES)
    makers = (
        lambda: {"if": inner(), "then": inner()},
        lambda: {"if": inner(), "then": inner(), "else": inner()},
        lambda: {"contains": inner(), "minContains": rng.randint(0, 3)},
        lambda: {"contains": inner(), "maxContains": rng.randint(1, 4)},
        lambda: {"unevaluatedItems": rng.choice((False, inner()))},
        lambda: {"unevaluatedProperties": rng.choice((False, inner()))},
        lambda: {"not": inner()},
        lambda: {"dependentSchemas": named()},
        lambda: {"anyOf": several()},
        lambda: {"oneOf": several()},
        lambda: {"allOf": several()},
        lambda: {"prefixItems": several()},
        lambda: {"items": inner()},
        lambda: {"properties": named()},
        lambda: {"patternProperties": {"^a": inner(), "[b-d]": inner()}},
        lambda: {"additionalProperties": inner()},
    )
    schema: dict[str, Any] = {}
    for _ in range(rng.randint(1, 3)):
        schema.update(rng.choice(makers)())
    return schema
