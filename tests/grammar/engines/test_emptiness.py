"""A grammar without any text: what is empty is named."""

from __future__ import annotations

import pytest

from engine_sampler.grammar import Grammar, GrammarError

from ...bytewise import every_engine, tokenizer_for


@every_engine
@pytest.mark.parametrize(
    ("grammar", "reason"),
    [
        (Grammar.from_lark('start: "x" A\nA: /a^b/'), "the terminal A matches nothing"),
        (Grammar.from_lark('start: start "a"'), "the rule start never comes to an end"),
        (Grammar.from_regex("a(?=b)"), "the terminal PATTERN matches nothing"),
    ],
)
def test_what_is_empty_is_named(engine: str, grammar: Grammar, reason: str) -> None:
    with pytest.raises(GrammarError, match=f"no text at all matches the grammar: {reason}"):
        grammar.compile(tokenizer_for(engine))
