"""Rules that are copied into others keep their meaning."""

import pytest

from engine_sampler.grammar.errors import GrammarError
from engine_sampler.grammar.program.expression import literal
from engine_sampler.grammar.program.operations import clear, set_bit
from engine_sampler.grammar.program.rules import ACCEPT, Edge, Rules


def test_appended_rules_are_the_same_with_other_numbers() -> None:
    nested = Rules()
    opening, closing = (nested.terminal(name, literal(name.encode())) for name in "()")
    pair, inner = nested.rule("pair"), nested.rule("inner")
    once = clear(0), set_bit(0)
    nested.define_automaton(
        pair, [[Edge(opening, 1)], [Edge(inner, 1, once), Edge(closing, 2)], [Edge(ACCEPT, 2)]], 1
    )
    nested.define_automaton(inner, [[Edge(pair, 1)], [Edge(ACCEPT, 1)]], 0, 1)

    rules = Rules()
    rules.define_automaton(rules.rule("first"), [[Edge(ACCEPT, 0)]])
    assert rules.append(nested, [7, 5]) == 1
    assert rules.rule_names == ["first", "pair", "inner"]
    assert rules.automata() == [
        [[Edge(ACCEPT, 0)]],
        [[Edge(7, 1)], [Edge(inner - 1, 1, once), Edge(5, 2)], [Edge(ACCEPT, 2)]],
        [[Edge(pair - 1, 1)], [Edge(ACCEPT, 1)]],
    ]
    assert list(rules.program().rules) == [0, 0, 0, 1, 1, 0, 4, 0, 1]


def test_rules_that_lack_a_definition_are_not_appended() -> None:
    unfinished = Rules()
    unfinished.rule("later")
    with pytest.raises(GrammarError, match="later"):
        Rules().append(unfinished, [])
