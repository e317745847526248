"""Arrays whose items must differ, beside other alternatives that may allow the same arrays."""

from __future__ import annotations

import json
import os
import random
import re
from itertools import product
from typing import Any

import pytest

from engine_sampler import Tokenizer
from engine_sampler.grammar import Grammar
from engine_sampler.grammar.engines.unique_items import UniqueItems
from engine_sampler.grammar.errors import GrammarError
from engine_sampler.grammar.schema.listed import identity

from ...both_engines import allowed, every_engine

ROUNDS = int(os.environ.get("ENGINE_SAMPLER_TEST_ROUNDS", "1"))
PIECES = [b'","', b'["', b'["a","', b'"]', b"1,1", b'a"', b'{"t":[', b"1]", b",1", b"<end>"]
TOKENS = [*(bytes((byte,)) for byte in b'[]{}":,ab012tk e.-rufls'), *PIECES]
TOKENIZER = Tokenizer(TOKENS, [len(TOKENS) - 1])
MOST_TOKENS = 200

ITEMS: tuple[Any, ...] = (
    {"type": "string"},
    {"type": "integer", "minimum": 0},
    {"type": ["integer", "string"]},
    {"type": "string", "pattern": "^[ab]$"},
    {"enum": ["a", "b", 1]},
    {"type": ["boolean", "integer"]},
    {"type": "number", "minimum": -1, "maximum": 2},
    {
        "type": "object",
        "properties": {"k": {"type": "integer"}, "t": {"type": "string"}},
        "required": [],
        "additionalProperties": False,
    },
    {"type": "array", "items": {"enum": [1, 2, "a"]}, "maxItems": 2, "uniqueItems": True},
    {"type": ["array", "string"], "items": {"type": "integer"}, "maxItems": 2},
)
CONSTANTS: tuple[Any, ...] = (
    ["a", "a"],
    ["a", "b"],
    [1, 1, 2],
    [1],
    [],
    "a",
    [["a"], ["a"]],
    {"t": ["a", "a"]},
)
VALUES = [list(items) for n in range(3) for items in product(("a", "b", 1, 2, True), repeat=n)]
INSTANCES: list[Any] = [*VALUES, "a", 1, {}, [1, 1, 2], *({"t": one} for one in VALUES)]
NESTED: list[Any] = [
    {},
    {"k": 1},
    {"k": 2},
    {"k": 1, "t": "a"},
    {"t": "a", "k": 1},
    [],
    [1],
    [1, 2],
    [2, 1],
    [1, 1],
]
INSTANCES += [list(items) for items in product(NESTED, repeat=2)]
INSTANCES += [{"t": one, "k": 1} for one in VALUES] + [{"k": 2, "t": one} for one in VALUES]


def random_schema(rng: random.Random, depth: int) -> dict[str, Any]:
    """A small schema, with arrays whose items must differ in it."""
    kind = rng.randrange(9 if depth else 3)
    if kind < 3:
        return random_array(rng) if kind else {"const": rng.choice(CONSTANTS)}
    parts = [random_schema(rng, depth - 1) for _ in range(2)]
    if kind < 6:
        return {("anyOf", "oneOf", "allOf")[kind - 3]: parts}
    if kind == 6:
        return {"if": parts[0], "then": parts[1], "else": random_schema(rng, depth - 1)}
    if kind == 7:
        return {"$ref": "#/$defs/shared"}
    k = rng.choice(({"const": 1}, {"const": 2}, {"type": "integer"}))
    return {
        "type": "object",
        "properties": {"t": parts[0], "k": k},
        "required": rng.choice((["k"], ["t"], [])),
        "additionalProperties": False,
    }


def random_array(rng: random.Random) -> dict[str, Any]:
    """The schema of an array, most of them of items that differ."""
    found = {"type": "array", "items": rng.choice(ITEMS), "uniqueItems": rng.random() < 0.8}
    if rng.random() < 0.3:
        found["minItems"] = rng.choice((1, 2))
    if rng.random() < 0.3:
        found["maxItems"] = rng.choice((1, 3))
    return found


def is_valid(value: Any, schema: Any, whole: Any) -> bool:
    """Whether a value is valid under a schema, of the keywords that `random_schema` writes."""

    def holds(part: Any, one: Any = value) -> bool:
        return is_valid(one, part, whole)

    if "const" in schema or "enum" in schema:
        return identity(value) in map(identity, schema.get("enum", [schema.get("const")]))
    if "$ref" in schema and not holds(whole["$defs"]["shared"]):
        return False
    for keyword, enough in (("anyOf", any), ("allOf", all), ("oneOf", lambda found: sum(found) == 1)):
        if keyword in schema and not enough([holds(part) for part in schema[keyword]]):
            return False
    if "if" in schema and not holds(schema["then" if holds(schema["if"]) else "else"]):
        return False
    types = schema.get("type", [])
    if types and not types_of(value) & set([types] if isinstance(types, str) else types):
        return False
    if isinstance(value, str):
        return re.search(schema.get("pattern", ""), value) is not None
    if isinstance(value, list):
        if schema.get("uniqueItems") and len(set(map(identity, value))) < len(value):
            return False
        if not schema.get("minItems", 0) <= len(value) <= schema.get("maxItems", len(value)):
            return False
        return all(holds(schema.get("items", {}), one) for one in value)
    if isinstance(value, dict) and "properties" in schema:
        properties = schema["properties"]
        return value.keys() >= set(schema["required"]) and all(
            name in properties and holds(properties[name], one) for name, one in value.items()
        )
    if type(value) in (int, float):
        return schema.get("minimum", value) <= value <= schema.get("maximum", value)
    return True


def types_of(value: Any) -> set[str]:
    """The types that a value has."""
    if type(value) in (int, float):
        return {"number", "integer"} if value == int(value) else {"number"}
    return {{str: "string", bool: "boolean", list: "array", dict: "object"}[type(value)]}


def grammar_of(rng: random.Random) -> tuple[Any, Grammar] | None:
    """A random schema and its grammar; None if it is refused, or remembers nothing."""
    schema = {**random_schema(rng, 2), "$defs": {"shared": random_schema(rng, 0)}}
    try:
        grammar = Grammar.from_json_schema(schema, whitespace="compact")
    except GrammarError as error:
        if not str(error).startswith(("uniqueItems is not supported", "no value is valid")):
            raise
        return None
    return schema, grammar


@pytest.mark.quick_share(3)
@every_engine
@pytest.mark.parametrize("seed", [5, 6, 7])
def test_walks_end_in_valid_values_and_no_valid_value_is_refused(engine: Any, seed: int) -> None:
    rng = random.Random(seed)
    remembering = 0
    for _ in range(40 * ROUNDS):
        found = grammar_of(rng)
        if found is None or not found[1].program.unique_items:
            continue
        remembering += 1
        schema, grammar = found
        compiled = engine(grammar.program, TOKENS, TOKENIZER.eos_token_ids)
        for value in rng.sample(INSTANCES, 40):
            matcher = UniqueItems(grammar.program, TOKENIZER).matcher(compiled.matcher())
            text = json.dumps(value, separators=(",", ":")).encode()
            accepted = matcher.accept_bytes(text) and matcher.is_accepting()
            assert accepted == is_valid(value, schema, schema), json.dumps([schema, value])
        for _ in range(2):
            text = walked(UniqueItems(grammar.program, TOKENIZER).matcher(compiled.matcher()), rng, schema)
            assert is_valid(json.loads(text), schema, schema), (schema, text)
    assert remembering > 3 * ROUNDS


def walked(matcher: Any, rng: random.Random, schema: Any) -> bytes:
    """A text along the masks; after some tokens, those that end something are preferred."""
    text = b""
    for count in range(MOST_TOKENS):
        choices = sorted(allowed(matcher, len(TOKENS)))
        assert choices, (schema, text)
        if count > 10:
            choices = [one for one in choices if TOKENS[one] in (b"<end>", b"]", b"}", b'"')] or choices
        token = rng.choice(choices)
        assert matcher.accept(token), (schema, text, TOKENS[token])
        if token == len(TOKENS) - 1:
            return text
        text += TOKENS[token]
    raise AssertionError(f"{schema} does not end: {text!r}")
