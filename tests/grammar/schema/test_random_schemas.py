"""Random schemas: the grammar accepts exactly the values that a validator accepts, and has no dead ends."""

from __future__ import annotations

import json
import random
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from engine_sampler.grammar.engines.reference import ReferenceGrammar
from engine_sampler.grammar.errors import GrammarError, GrammarLimitError, UnsupportedKeywordError
from engine_sampler.grammar.schema.compiling import rules_from_schema

from ...conftest import example_count

Validator = pytest.importorskip("jsonschema").Draft202012Validator

KEYS = st.sampled_from(["a", "b", "ab"])
SCALARS = st.sampled_from([None, True, False, 0, 1, 2, 1.5, -3, "", "a", "b", "ab"])
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from(["a", "b", "ab", "x"]), inner, max_size=3),
    ),
    max_leaves=6,
)
COUNTS = st.integers(0, 2)


def keywords(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    """One keyword, or a few that belong together."""
    lists = st.lists(inner, min_size=1, max_size=3)
    by_keyword = {
        "enum": st.lists(VALUES, min_size=1, max_size=3),
        "const": VALUES,
        "properties": st.dictionaries(KEYS, inner, min_size=1, max_size=2),
        "patternProperties": st.dictionaries(st.sampled_from(["^a", "b$"]), inner, min_size=1),
        "required": st.lists(KEYS, min_size=1, max_size=2, unique=True),
        "propertyNames": st.sampled_from([{"pattern": "^a"}, {"maxLength": 1}, {"not": {"const": "a"}}]),
        "dependentRequired": st.dictionaries(KEYS, st.lists(KEYS, min_size=1, max_size=2, unique=True)),
        "dependentSchemas": st.dictionaries(KEYS, inner, min_size=1, max_size=1),
        "prefixItems": st.lists(inner, min_size=1, max_size=2),
        **dict.fromkeys(("minProperties", "maxProperties", "minItems", "maxItems"), COUNTS),
        **dict.fromkeys(("additionalProperties", "items", "contains", "not"), inner),
        **dict.fromkeys(("unevaluatedProperties", "unevaluatedItems"), inner),
        **dict.fromkeys(("allOf", "anyOf", "oneOf"), lists),
    }
    single = [st.fixed_dictionaries({name: values}) for name, values in by_keyword.items()]
    return st.one_of(
        *single,
        st.fixed_dictionaries({"if": inner, "then": inner, "else": inner}),
        st.fixed_dictionaries({"contains": inner, "minContains": COUNTS, "maxContains": COUNTS}),
        st.fixed_dictionaries({"items": st.just({"enum": [1, "a", True]}), "uniqueItems": st.just(True)}),
    )


LEAVES = st.sampled_from(
    [
        True,
        False,
        {"type": "string"},
        {"type": ["integer", "array"]},
        {"type": "object"},
        {"minimum": 1},
        {"multipleOf": 1.5},
        {"maxLength": 1},
        {"pattern": "^a"},
        {"const": "a"},
        {"enum": [1, "a", True]},
    ]
)
SCHEMAS = st.recursive(
    LEAVES,
    lambda inner: st.builds(lambda a, b, c: {**a, **b, **c}, *[keywords(inner)] * 2, st.just({})),
    max_leaves=6,
)
relaxed = settings(max_examples=example_count(150), deadline=None, suppress_health_check=list(HealthCheck))


def matcher_of(schema: Any) -> Any:
    """The schema's matcher; None if there is no valid value."""
    try:
        return ReferenceGrammar(rules_from_schema(schema).program(), ()).matcher()
    except (UnsupportedKeywordError, GrammarLimitError):
        assume(False)
    except GrammarError:
        return None


@given(SCHEMAS, st.lists(VALUES, min_size=8, max_size=12))
@relaxed
def test_a_value_is_accepted_if_and_only_if_it_is_valid(schema: Any, values: list[Any]) -> None:
    matcher = matcher_of(schema)
    for value in values:
        fork = matcher and matcher.fork()
        found = bool(fork and fork.accept_bytes(json.dumps(value).encode()) and fork.is_accepting())
        assert found == Validator(schema).is_valid(value), value


@given(SCHEMAS, st.integers(0, 1 << 32))
@relaxed
def test_every_accepted_prefix_can_be_completed_to_a_valid_value(schema: Any, seed: int) -> None:
    matcher = matcher_of(schema)
    assume(matcher is not None)
    choose = random.Random(seed)
    text = bytearray()
    while not matcher.is_accepting() or choose.random() < (0.7 if len(text) < 30 else 0):
        letters = [*b'{}[]:,"abx012.tfn']
        choose.shuffle(letters)
        if len(text) > 30:
            letters = [*b'}]":,', *letters]
        for byte in (*letters, *range(256)):
            fork = matcher.fork()
            if fork.accept_bytes(bytes((byte,))):
                break
        else:
            assert matcher.is_accepting(), bytes(text)
            break
        matcher = fork
        text.append(byte)
        assume(len(text) < 100)
    assert Validator(schema).is_valid(json.loads(text)), bytes(text)
