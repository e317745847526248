"""Copies of matchers are forks."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from engine_sampler import Tokenizer
from engine_sampler.grammar import Grammar
from engine_sampler.grammar.engines.reference import ReferenceGrammar
from engine_sampler.requests.phases.opening import OpeningMatcher

BYTES = Tokenizer([*(bytes([i]) for i in range(256)), b"<eos>"], [256])


def matcher_of(grammar: Grammar) -> Any:
    return grammar.compile(BYTES).matcher()


def reference_matcher(grammar: Grammar) -> Any:
    return ReferenceGrammar(grammar.program, BYTES.token_bytes, [256]).matcher()


MATCHERS: dict[str, Callable[[], Any]] = {
    "default": lambda: matcher_of(Grammar.from_regex("ab+")),
    "reference": lambda: reference_matcher(Grammar.from_regex("ab+")),
    "keys": lambda: matcher_of(Grammar.from_json_object()),
    "opening": lambda: OpeningMatcher(matcher_of(Grammar.from_regex("ab+")), [(1, 2)]),
}


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy], ids=["copy", "deepcopy"])
@pytest.mark.parametrize("name", MATCHERS)
def test_a_copy_of_a_matcher_shares_nothing(name: str, copied: Callable[[Any], Any]) -> None:
    matcher = MATCHERS[name]()
    first = b"{" if name == "keys" else b"a"
    other = copied(matcher)
    assert type(other) is type(matcher)
    assert other.accept(first[0])
    assert matcher.accept(first[0])
    assert copied({"one": [other]})["one"][0].accept(b"}"[0] if name == "keys" else b"b"[0])
