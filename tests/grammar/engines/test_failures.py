"""The largest part of a program is named."""

from __future__ import annotations

import pytest

from engine_sampler.grammar import Grammar
from engine_sampler.grammar.engines import failures
from engine_sampler.grammar.engines.failures import largest_part


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('start: A b\nA: "x"\nb: "a" "b" | "c" "d" "e" | "f" | "g" "h"', "the rule b"),
        ('start: A b\nA: /(abc|de[f-h]|ijkl{3,9}|~(mn)*)/\nb: "x"', "the terminal A"),
        ('start: A B\nA: "a"\nB: "bcdefghijklmnopqrstuvwxyz"', "the terminal B"),
    ],
    ids=["a-rule", "a-terminal", "a-literal"],
)
def test_it_is_a_rule_or_a_terminal(text: str, expected: str) -> None:
    assert largest_part(Grammar.from_lark(text).program) == expected


def test_a_pattern_is_one_terminal() -> None:
    assert largest_part(Grammar.from_regex("a(?=b)b|(?:[c-f]{3})+").program) == "the terminal PATTERN"


def test_automata_are_measured_as_well() -> None:
    program = Grammar.from_json_schema({"type": "integer", "minimum": 17, "maximum": 123456}).program
    assert largest_part(program) == "the terminal NUMBER"


def test_of_very_large_grammars_only_rules_are_compared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(failures, "_MAX_CODE", 3)
    text = 'start: A b\nA: "a long terminal, longer than the rules"\nb: "x"'
    assert largest_part(Grammar.from_lark(text).program) == "the rule start"
