"""Strings: JSON encodings, patterns, lengths, constants."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine_sampler.grammar.errors import GrammarError, GrammarLimitError
from engine_sampler.grammar.schema.formula import (
    AND,
    LENGTH,
    NOT,
    OR,
    PATTERN,
    WITHIN,
    Formula,
    conjunction,
    disjunction,
)
from engine_sampler.grammar.schema.scalars.matching import ValueMatcher
from engine_sampler.grammar.schema.scalars.strings import holds, string_set
from engine_sampler.grammar.schema.scalars.texts import ANY_BODY, PLAIN_BODY, bodies_of, quoted

from ....examples import examples
from ..judging import Judge, accepted

texts = st.text(st.sampled_from('ab"\\/\n\x00\x7f é\u2028😀'), max_size=4)
any_body, plain_body = ValueMatcher(ANY_BODY), ValueMatcher(PLAIN_BODY)

atoms = st.one_of(
    st.tuples(st.just(WITHIN), st.frozensets(texts, min_size=1, max_size=3)),
    st.tuples(st.just(LENGTH), st.integers(0, 2), st.integers(2, 4)),
    st.tuples(st.just(PATTERN), st.sampled_from(["^a", "b$", "é", "^[^a]*$", "^(a|😀)*$", r"[\n/]", "^.$"])),
)
formulas = st.builds(
    lambda join, parts: join(parts),
    st.sampled_from([conjunction, disjunction]),
    st.lists(st.one_of(atoms, atoms.map(lambda atom: (NOT, atom))), min_size=1, max_size=3),
)


def is_true(formula: Formula, text: str) -> bool:
    """Evaluate the formula part by part."""
    if formula[0] in (AND, OR):
        return (all if formula[0] == AND else any)(is_true(part, text) for part in formula[1])
    if formula[0] == NOT:
        return not is_true(formula[1], text)
    if formula[0] == WITHIN:
        return text in formula[1]
    if formula[0] == LENGTH:
        return formula[1] <= len(text) <= formula[2]
    return holds(formula, text)


@given(texts, st.booleans())
def test_every_string_matches_its_json_encoding(text: str, ascii_only: bool) -> None:
    body = json.dumps(text, ensure_ascii=ascii_only)[1:-1].encode()
    assert any_body.matches(body)
    assert plain_body.matches(body)
    assert ValueMatcher(bodies_of([text])).matches(body)


@given(formulas, st.lists(texts, min_size=3, max_size=6), st.booleans())
@settings(max_examples=examples(120), deadline=None)
def test_a_set_of_strings_contains_exactly_those_that_satisfy_the_formula(
    formula: Formula, candidates: list[str], ascii_only: bool
) -> None:
    matcher = ValueMatcher(string_set(formula))
    for text in candidates:
        assert matcher.matches(json.dumps(text, ensure_ascii=ascii_only).encode()) == is_true(formula, text)


@pytest.mark.parametrize(
    ("body", "good"),
    [
        (rb"\ud83d\ude00", True),
        (rb"\uD83D\uDE00", True),
        (rb"\ud83d", False),
        (rb"\ude00", False),
        (rb"\ud83d\u0041", False),
        (b"\xc3", False),
        (b"\xed\xa0\x80", False),
        (b"\n", False),
        (rb"\x", False),
        (rb"\/", True),
        (rb"\u004", False),
    ],
)
def test_an_unconstrained_string_follows_rfc_8259(body: bytes, good: bool) -> None:
    assert any_body.matches(body) == good


def test_an_escaped_ascii_letter_cannot_pass_for_another_key() -> None:
    schema = {"properties": {"a": {"type": "integer"}}, "type": "object"}
    assert accepted(schema, '{"a":1}', '{"\\u0061":"x"}', '{"b":"x"}') == ['{"a":1}', '{"b":"x"}']


def test_length_counts_code_points_however_they_are_written() -> None:
    good = ['"\U0001f600\U0001f600"', '"\\ud83d\\ude00a"', '"\\n\\u0041"']
    assert accepted({"type": "string", "minLength": 2, "maxLength": 2}, *good, '"a"', '"abc"') == good


def test_other_lengths_are_shorter_or_longer() -> None:
    texts = ['""', '"a"', '"aa"', '"aaa"', '"aaaa"']
    assert accepted({"type": "string", "not": {"minLength": 1, "maxLength": 2}}, *texts) == [
        texts[0],
        *texts[3:],
    ]
    assert accepted({"type": "string", "not": {"minLength": 3}}, *texts) == texts[:3]
    assert accepted({"type": "string", "not": {"maxLength": 3}}, *texts) == texts[4:]


@pytest.mark.parametrize("high", [(1 << 20) + 1, (1 << 31) - 1, 1 << 53, 10**30])
def test_a_maximum_may_be_of_any_size(high: int) -> None:
    assert accepted({"type": "string", "pattern": "a", "maxLength": high}, '"xa"', '"x"') == ['"xa"']
    assert accepted({"type": "array", "maxItems": high}, "[1]", "[") == ["[1]"]
    assert accepted({"type": "object", "maxProperties": high}, '{"a": 1}', "{") == ['{"a": 1}']


@pytest.mark.parametrize("keyword", ["minLength", "minItems", "minProperties"])
def test_a_minimum_beyond_all_texts_is_refused_by_name(keyword: str) -> None:
    with pytest.raises(GrammarLimitError, match=f"{keyword} is more than 2147483646"):
        Judge({keyword: (1 << 31) - 1})


def test_a_pattern_matches_anywhere_and_through_escapes() -> None:
    schema = {"type": "string", "pattern": 'a/"\u00e9'}
    good = ['"xa/\\"\u00e9y"', '"a\\/\\u0022\\u00E9"', '"a/\\"\\u00e9"']
    assert accepted(schema, *good, '"a/\\"e"') == good


def test_constants_that_other_keywords_rule_out_are_dropped() -> None:
    schema = {"enum": ["a", "bb", "ccc", 1], "minLength": 2, "pattern": "[ab]"}
    assert accepted(schema, '"a"', '"bb"', '"ccc"', "1") == ['"bb"', "1"]


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "string", "minLength": 3, "maxLength": 2},
        {"type": "string", "pattern": "^a", "allOf": [{"pattern": "^b"}]},
        {"type": "string", "enum": ["ab"], "not": {"pattern": "a"}},
        {"type": "string", "pattern": "^a{3}$", "maxLength": 2},
        {"const": "\ud800"},
    ],
)
def test_an_impossible_string_is_an_error_and_not_a_dead_end(schema: Any) -> None:
    with pytest.raises(GrammarError, match="no value is valid"):
        Judge(schema)


def test_many_constants_with_common_prefixes_stay_distinct() -> None:
    names = [f"https://example.org/{n}/{n % 7}" for n in range(3000)]
    matcher = ValueMatcher(quoted(bodies_of(sorted(names))))
    assert matcher.matches(b'"https://example.org/2999/3"')
    assert matcher.matches(b'"https:\\/\\/example.org/7/0"')
    assert not matcher.matches(b'"https://example.org/2999/4"')
    assert not matcher.matches(b'"https://example.org/"')
