"""Alternatives that are decided by what they say of each member accept what the schema's definition says."""

from __future__ import annotations

import json
import random
from typing import Any, Literal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from engine_sampler.grammar import Grammar, GrammarError, GrammarLimitError
from engine_sampler.grammar.schema import values as values_module
from engine_sampler.grammar.schema.alternatives import clauses, deciding
from engine_sampler.grammar.schema.compiling import rules_from_schema
from engine_sampler.grammar.schema.options import SchemaOptions

from ...both_engines import FASTEST
from ..judging import Judge
from .plain_definition import is_valid

KEYS = ["kind", "a", "b", "c"]
_BYTES = [*b'"{}[]:,"{}]]"",:0192-abckindonetwxyzluer.']
"""The bytes of short texts, those that end something more than once."""
SCALARS = [None, True, 0, 1, 6, "", "x", "xy", "one", "two"]


@pytest.fixture
def _decided(monkeypatch: pytest.MonkeyPatch) -> None:
    """Has every formula with a choice decided, not only those that multiply out to too many."""
    monkeypatch.setattr(values_module, "_MULTIPLYING", 0)


LEAVES = st.sampled_from(
    [
        True,
        {"type": "string"},
        {"type": "integer"},
        {"type": "string", "pattern": "^x"},
        {"pattern": "^one$"},
        {"const": "one"},
        {"enum": ["one", "two", 1]},
        {"maxLength": 1},
        {"type": ["integer", "null"]},
        {"not": {"const": "two"}},
    ]
)
MEMBERS = st.recursive(LEAVES, lambda inner: st.fixed_dictionaries({"items": inner}), max_leaves=2)


def _branch(properties: Any, required: Any, closed: bool, bounds: dict[str, int]) -> dict[str, Any]:
    branch: dict[str, Any] = {"properties": properties, **bounds}
    if required:
        branch["required"] = required
    if closed:
        branch["additionalProperties"] = False
    return branch


BRANCHES = st.builds(
    _branch,
    st.dictionaries(st.sampled_from(KEYS), MEMBERS, min_size=1, max_size=3),
    st.lists(st.sampled_from(KEYS), max_size=1),
    st.booleans(),
    st.sampled_from([{}, {}, {}, {"maxProperties": 1}, {"minProperties": 2}]),
)
COMBINED = st.one_of(
    st.builds(
        lambda keyword, branches: {keyword: branches},
        st.sampled_from(["oneOf", "oneOf", "anyOf"]),
        st.lists(BRANCHES, min_size=2, max_size=4),
    ),
    st.builds(
        lambda cases: {"allOf": [{"if": one, "then": other} for one, other in cases]},
        st.lists(st.tuples(BRANCHES, BRANCHES), min_size=1, max_size=3),
    ),
    st.builds(lambda branches: {"not": {"anyOf": branches}}, st.lists(BRANCHES, min_size=1, max_size=3)),
)
relaxed = settings(
    max_examples=20,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def _judge(schema: dict[str, Any], key_order: str) -> Judge | None:
    """The grammar of a schema; None if no value is valid."""
    try:
        return Judge(schema, key_order=key_order)
    except GrammarError as error:
        if str(error).startswith("no value is valid"):
            return None
        raise


def _values(random_numbers: random.Random) -> Any:
    """An object of some of the keys, and one more."""
    names = [name for name in [*KEYS, "z"] if random_numbers.random() < 0.45]
    random_numbers.shuffle(names)
    return {name: random_numbers.choice([*SCALARS, [], ["x"]]) for name in names}


@pytest.mark.usefixtures("_decided")
@pytest.mark.parametrize("key_order", ["any", "schema"])
@relaxed
@given(schema=COMBINED, seed=st.integers(0, 2**32))
def test_values_are_accepted_as_the_definition_says(
    key_order: Literal["any", "schema"], schema: dict[str, Any], seed: int
) -> None:
    schema = {"type": "object", **schema}
    random_numbers = random.Random(seed)
    objects = [_values(random_numbers) for _ in range(12)]
    judge = _judge(schema, key_order)
    for one in objects:
        accepts = judge is not None and judge.accepts_value(one)
        if key_order == "any" or accepts:
            assert accepts is is_valid(schema, one), one


@pytest.mark.usefixtures("_decided")
@pytest.mark.parametrize("key_order", ["any", "schema"])
@relaxed
@given(schema=COMBINED, seed=st.integers(0, 2**32))
def test_no_text_leads_to_a_dead_end_and_all_are_valid(
    key_order: Literal["any", "schema"], schema: dict[str, Any], seed: int
) -> None:
    schema = {"type": "object", **schema}
    options = SchemaOptions(key_order=key_order, whitespace="compact")
    try:
        rules = rules_from_schema(schema, options)
    except GrammarError:
        return
    random_numbers = random.Random(seed)
    matcher = FASTEST(rules.program(), ()).matcher()
    text = b""
    while not (matcher.is_accepting() and random_numbers.random() < 0.5) and len(text) < 60:
        tried = random_numbers.sample(_BYTES, len(_BYTES))
        byte = next((one for one in tried if matcher.accept_bytes(bytes([one]))), None)
        if byte is None:
            break
        text += bytes([byte])
    if len(text) < 60:
        assert matcher.is_accepting(), text
        assert is_valid(schema, json.loads(text)), text


NAMES = ["azure", "image", "docker", "project", "repository", "include", "local"]
SHARED = {
    "name": {"type": "string", "description": "of the service"},
    "env": {"type": "array", "items": {"type": "object", "properties": {"key": {"type": "string"}}}},
    "replicas": {"type": "integer"},
}
SERVICES: dict[str, Any] = {
    "type": "object",
    "oneOf": [
        {
            "properties": {
                **json.loads(json.dumps(SHARED)),
                name: {"type": "string"},
                f"{name}Of": {"type": "string"},
                "note": {"maxLength": 1},
            },
            "required": ["name", name],
        }
        for name in NAMES
    ],
}
"""Branches that share most of their keys, with equal schemas, and require one of their own."""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"name": "x", "image": "i"}', True),
        ('{"image": "i", "name": "x", "env": [{"key": "k"}], "replicas": 3}', True),
        ('{"name": "x", "image": "i", "docker": "d"}', False),
        ('{"name": "x", "image": "i", "docker": 5}', True),
        ('{"name": "x", "image": "i", "docker": "d", "dockerOf": 5}', True),
        ('{"name": "x", "image": "i", "env": [{"key": 5}]}', False),
        ('{"name": "x", "image": "i", "replicas": "3"}', False),
        ('{"name": "x"}', False),
    ],
)
def test_branches_may_share_most_of_their_keys(text: str, expected: bool) -> None:
    assert is_valid(SERVICES, json.loads(text)) is expected
    assert Grammar.from_json_schema(SERVICES).check(text).valid is expected


def _rules(count: int) -> dict[str, Any]:
    """Cases by a key that a schema need not have, of which each says something of many others."""
    return {
        "type": "object",
        "properties": {"kind": {"enum": [f"k{number}" for number in range(count)]}},
        "allOf": [
            {
                "if": {"properties": {"kind": {"const": f"k{number}"}}},
                "then": {
                    "properties": {f"m{number % 5}": {"enum": [number, -number]}, "size": {"minimum": 1}}
                },
            }
            for number in range(count)
        ],
    }


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"kind": "k3", "m3": 3}', True),
        ('{"m3": -3, "kind": "k3", "m4": "any"}', True),
        ('{"kind": "k3", "m3": 4}', False),
        ('{"kind": "k3", "size": 0}', False),
        ('{"kind": "k30"}', False),
        ('{"m3": 3}', False),
        ("{}", True),
    ],
)
def test_many_cases_may_depend_on_one_key(text: str, expected: bool) -> None:
    schema = _rules(28)
    assert is_valid(schema, json.loads(text)) is expected
    assert Grammar.from_json_schema(schema).check(text).valid is expected


def test_a_pattern_for_one_word_is_as_good_as_a_constant() -> None:
    words = [f"W{number}" for number in range(14)]
    schema = {
        "oneOf": [
            {
                "type": "object",
                "properties": {
                    "type": {"type": "string", "pattern": f"^{word}$"},
                    "value": {"type": "string"},
                },
                "required": ["type", *(["value"] if number % 2 else [])],
            }
            for number, word in enumerate(words)
        ]
    }
    grammar = Grammar.from_json_schema(schema)
    for number, word in enumerate(words):
        assert grammar.check(f'{{"type": "{word}", "value": "v"}}').valid
        assert grammar.check(f'{{"type": "{word}"}}').valid is (number % 2 == 0)
    assert not grammar.check('{"type": "W14"}').valid


def test_what_stays_too_many_is_refused_with_its_place(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (clauses, deciding):
        monkeypatch.setattr(module, "MAX_CLAUSES", 3)
    monkeypatch.setattr(values_module, "_MULTIPLYING", 0)
    with pytest.raises(GrammarLimitError, match="more than 3 alternatives for one value") as raised:
        Grammar.from_json_schema({"properties": {"service": SERVICES}})
    assert raised.value.pointer == "#/properties/service"
