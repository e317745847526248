"""Alternatives of objects that are multiplied out: with few of them where the keys tell them apart."""

from __future__ import annotations

from typing import Any

import pytest

from engine_sampler.grammar import Grammar, GrammarLimitError

NAMES = [f"k{number}" for number in range(14)]


def _is_valid(schema: Any, text: str) -> bool:
    return Grammar.from_json_schema(schema).check(text).valid


BY_REQUIRED_KEY: dict[str, Any] = {
    "oneOf": [
        {"type": "object", "required": [name], "properties": {name: {"type": "integer"}}} for name in NAMES
    ]
}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"k0": 1}', True),
        ('{"k13": 1, "other": 2}', True),
        ('{"k3": 1, "k4": "a text"}', True),
        ('{"k3": 1, "k4": 2}', False),
        ('{"k3": "a text"}', False),
        ("{}", False),
    ],
)
def test_one_of_many_required_keys(text: str, expected: bool) -> None:
    assert _is_valid(BY_REQUIRED_KEY, text) is expected


BY_OPTIONAL_COUNTRY: dict[str, Any] = {
    "type": "object",
    "oneOf": [
        {
            "properties": {
                "country": {"enum": [name]},
                "state": {"enum": [f"s{number}", f"s{number + 1}"]},
                "code": {"type": "string"},
            }
        }
        for number, name in enumerate(NAMES)
    ],
}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"country": "k0"}', True),
        ('{"country": "k9", "state": "s9", "code": "x"}', True),
        ('{"state": "s10", "code": "x", "country": "k9"}', True),
        ('{"country": "k9", "state": "s8"}', False),
        ('{"country": "k9", "code": 1}', False),
        ('{"country": "another"}', False),
        ('{"state": "s0"}', True),
        ('{"state": "s1"}', False),
        ('{"state": "s14", "code": "x"}', True),
        ('{"code": "x"}', False),
        ("{}", False),
    ],
)
def test_one_of_many_values_of_a_key_that_may_be_absent(text: str, expected: bool) -> None:
    assert _is_valid(BY_OPTIONAL_COUNTRY, text) is expected


def test_alternatives_that_no_key_tells_apart_are_limited() -> None:
    texts = {"type": "string"}
    choices = [
        {"anyOf": [{"properties": {name: texts}, "required": [name]} for name in (f"a{n}", f"b{n}")]}
        for n in range(11)
    ]
    with pytest.raises(GrammarLimitError, match="more than 1024 alternatives for one value"):
        Grammar.from_json_schema({"type": "object", "allOf": choices})
