"""Our LALR analysis computes the tables of lark's own, state by state."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from lark.common import ParserConf
from lark.load_grammar import load_grammar
from lark.parsers.lalr_analysis import LALR_Analyzer, Shift

from engine_sampler.grammar.errors import GrammarError, GrammarLimitError
from engine_sampler.grammar.lark.lalr import rules_from_lalr
from engine_sampler.grammar.lark.lalr_tables import tables_of

DATA = Path(__file__).parents[1] / "data"
GRAMMARS = {
    "left recursion": 'start: start "+" item | item\nitem: "a" | "(" start ")"',
    "right recursion": 'start: item "+" start | item\nitem: "a"',
    "empty rules": 'start: a b c "."\na: "a"?\nb: a a\nc: b | "c"',
    "mutual recursion": 'start: x | y\nx: y "a" | "a"\ny: "b" x? "c"',
    "dangling else": 'start: "if" start | "if" start "else" start | "x"',
    "priorities": 'start: x | y\nx.2: "a"\ny.1: "a"',
    "a rule in progress that begins again": 'start: a "z"\na: "x" a "y" | "x" a | "w"',
    "rings of rules that end each other": 'start: a "." | "(" b ")" | "[" c "]"\n'
    'a: "x" b | "p"\nb: "y" c | "q" a?\nc: "w" a b | "v"',
    "c_like": (DATA / "c_like.lark").read_text("utf-8"),
    "sql_like": (DATA / "sql_like.lark").read_text("utf-8"),
}

Row = dict[str, tuple[str, Any]]


def compiled(text: str) -> list[Any]:
    grammar, _ = load_grammar(text, "the test", [], False)
    return grammar.compile(["start"], set())[1]


def in_order(first: Any, actions: Callable[[Any], Row]) -> list[Row]:
    """The rows of all states, numbered as they are found from the first one on."""
    numbers, found = {first: 0}, []
    for state in (order := [first]):
        row: Row = {}
        for name, (kind, value) in sorted(actions(state).items()):
            if kind == "shift" and value not in numbers:
                numbers[value] = len(order)
                order.append(value)
            row[name] = (kind, numbers[value] if kind == "shift" else value)
        found.append(row)
    return found


def tables_of_lark(rules: list[Any]) -> list[Row]:
    analysis: Any = LALR_Analyzer(ParserConf(rules, {}, ["start"]))
    analysis.compute_lalr()
    table = analysis.parse_table

    def actions(state: int) -> Row:
        row = table.states[state].items()
        return {name: ("shift" if kind is Shift else "reduce", to) for name, (kind, to) in row}

    return in_order(table.start_states["start"], actions)


def our_tables(rules: list[Any]) -> list[Row]:
    tables = tables_of(rules, "start")

    def actions(number: int) -> Row:
        state = tables.states[number]
        all_actions = state.actions | state.gotos | ({} if state.end is None else {"$END": state.end})
        return {
            name: ("shift", to) if to >= 0 else ("reduce", rules[-1 - to]) for name, to in all_actions.items()
        }

    return in_order(tables.first, actions)


@pytest.mark.parametrize("name", GRAMMARS)
def test_the_tables_are_those_of_lark(name: str) -> None:
    rules = compiled(GRAMMARS[name])
    assert our_tables(rules) == tables_of_lark(rules)


def test_a_conflict_names_its_rules() -> None:
    text = 'start: x "c" | y "c"\nx: "a"\ny: "a"'
    with pytest.raises(GrammarError, match=r"before C, the text may be reduced .*: x : A; y : A|not LALR"):
        rules_from_lalr(text)


def test_a_rule_that_is_defined_twice_is_refused() -> None:
    rules = compiled('start: "a"')
    with pytest.raises(Exception, match="Rules defined twice: <start : A>"):
        tables_of([*rules, *rules], "start")


def test_states_with_too_many_items_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine_sampler.grammar.lark.lalr_analysis.MAX_ITEMS", 20)
    with pytest.raises(GrammarLimitError, match="the parser's states have more than 20 items"):
        rules_from_lalr(GRAMMARS["left recursion"])
