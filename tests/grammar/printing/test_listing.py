"""Programs listed as engines read them."""

from __future__ import annotations

from engine_sampler.grammar import Grammar
from engine_sampler.grammar.printing.listing import Listing
from engine_sampler.grammar.program import expression as e
from engine_sampler.grammar.program.operations import any_clear, clause, clear, set_bit
from engine_sampler.grammar.program.rules import ACCEPT, Edge, Rules, repeated, sequence

SCHEMA = {
    "type": "object",
    "properties": {"a": {"const": 1}, "b": {"const": 2}},
    "required": ["a"],
    "additionalProperties": False,
}


def lines(grammar: Grammar) -> list[str]:
    return Listing(grammar.program).text().splitlines()


def test_every_state_is_a_line_with_the_states_after_it() -> None:
    assert lines(Grammar.from_lark('start: "x" tail\ntail: A\nA: /[a-c]+/')) == [
        "start:",
        '  0: "x" → 2',
        "  1: end",
        "  2: tail → 1",
        "tail:",
        "  0: A → 1",
        "  1: end",
        '"x": x',
        "A: [a-c]+",
    ]


def test_edges_show_what_they_do_with_registers() -> None:
    rules = Rules()
    a = rules.terminal("A", e.literal(b"a"))
    rules.start = rules.rule("start")
    edges = [
        Edge(a, 0, (clear(0), set_bit(0))),
        Edge(a, 0, (any_clear([0, 2]), clause((1, True), (3, False)))),
        Edge(ACCEPT, 0),
    ]
    rules.define_automaton(rules.start, [edges], 4)
    counted = rules.rule("counted")
    rules.define(counted, repeated(a, 2, 300))
    rules.define(rules.rule("open"), sequence(repeated(a, 3)))
    text = Listing(rules.program()).text()
    assert "A → 0 [b0 = 0, b0 := 1], A → 0 [b0 = 0 or b2 = 0, b1 = 1 or b3 = 0], end" in text
    assert "[c0 := 0, c0 + 1 ≤ 300]" in text
    assert "end [c0 ≥ 2, c0 := 0]" in text
    assert "c0 + 1, up to 3" in text


def test_terminals_of_one_name_are_told_apart() -> None:
    shown = lines(Grammar.from_json_schema(SCHEMA))
    assert 'KEY "a": "a"' in shown
    assert 'KEY "b": "b"' in shown
    assert any('KEY "a" → ' in line and 'KEY "b" → ' in line for line in shown)
    rules = Rules()
    for text in (b"a", b"b"):
        rules.terminal("A", e.repeat(e.literal(text)))
    assert Listing(rules.program()).text() == "A #0: a*\nA #1: b*"


def test_special_and_ignored_terminals_say_so() -> None:
    shown = lines(Grammar.from_lark('start: "x" <[3,7]>\n%ignore " "'))
    assert any(line.endswith(": <[3,7]>") for line in shown)
    assert any(line.endswith(":    (ignored)") for line in shown)


def test_symbols_without_names_have_numbers() -> None:
    rules = Rules()
    rules.start = rules.rule("start")
    rules.define(rules.start, rules.terminal("A", e.literal(b"a")))
    program = rules.program()
    object.__setattr__(program, "rule_names", ())
    object.__setattr__(program, "terminal_names", ())
    assert Listing(program).text() == "rule_0:\n  0: TERMINAL_0 → 1\n  1: end\nTERMINAL_0: a"
