from __future__ import annotations

import re

import pytest

from engine_sampler.grammar import Grammar, GrammarError, GrammarSource, clear_grammar_cache
from engine_sampler.grammar.grammar import remember_grammar

SOURCES = [
    GrammarSource("json_schema", '{"type": "integer", "minimum": 3}'),
    GrammarSource("json_object", True),
    GrammarSource("regex", "[a-c]{2,9}"),
    GrammarSource("choice", ("yes", "no")),
    GrammarSource("lark", 'start: "a"+'),
    GrammarSource("gbnf", 'root ::= "a"+'),
    GrammarSource("library", "arithmetic"),
    GrammarSource("structural_tag", '{"structures": [], "triggers": []}'),
]


@pytest.mark.parametrize("source", SOURCES, ids=lambda source: source.kind)
def test_a_source_that_has_been_read_is_found_in_the_cache(source: GrammarSource) -> None:
    clear_grammar_cache()
    found, key = source.find()
    assert found is None
    assert key is not None
    read = source.read()
    assert source.find() == (read, None)
    assert source.find()[0] is read


def test_a_grammar_that_was_built_elsewhere_can_be_put_under_its_key() -> None:
    clear_grammar_cache()
    _, key = GrammarSource("regex", "x+").find()
    grammar = Grammar.from_json_object()
    remember_grammar(key, grammar)
    assert Grammar.from_regex("x+") is grammar
    clear_grammar_cache()


def test_finding_gbnf_does_not_read_it(monkeypatch: pytest.MonkeyPatch) -> None:
    clear_grammar_cache()
    monkeypatch.setattr("engine_sampler.grammar.lark.grammar.rules_from_gbnf", None)
    found, key = GrammarSource("text", 'root ::= "a" | "b"').find()
    assert found is None
    assert key is not None


def test_a_grammar_that_imports_files_is_never_cached() -> None:
    source = GrammarSource("lark", "%import common.WORD\nstart: WORD")
    assert source.find() == source.find() == (None, None)
    assert source.read() == source.read()


@pytest.mark.parametrize(
    ("source", "message"),
    [
        (GrammarSource("xml", "<a/>"), "kind='xml' is not allowed: one of json_schema"),
        (GrammarSource("choice", ()), "choices=[] is not allowed"),
        (GrammarSource("regex", "a" * (3 << 20)), "the limit is 2097152"),
    ],
)
def test_what_can_be_refused_without_reading_is_refused_by_find(source: GrammarSource, message: str) -> None:
    with pytest.raises(GrammarError, match=re.escape(message)):
        source.find()
