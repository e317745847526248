"""Our LALR analysis computes the tables of lark's own, with equal states united."""

from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest
from lark.common import ParserConf
from lark.exceptions import LarkError
from lark.load_grammar import load_grammar
from lark.parsers.lalr_analysis import LALR_Analyzer, Shift

from engine_sampler.grammar.errors import GrammarError, GrammarLimitError
from engine_sampler.grammar.lark.contextual import rules_from_lalr
from engine_sampler.grammar.lark.contextual.lalr_tables import tables_of

DATA = Path(__file__).parents[2] / "data"
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
    "terminals used alike": 'start: item+\nitem: word | "(" item* ")" | word "=" word\n'
    'word: A | B | C | "d" | pair\npair: (A | B) ":" (C | "d")',
    "terminals used alike, but twice in a rule": 'start: (pair | A "+" A)+\npair: (A | B) (A | B)\n',
    "terminals used alike in rules of other priorities": "start: x | y\nx.2: A | B\ny.1: A | C | D",
    "terminals used alike where one rule begins another": "start: (x | y A)+\nx: A | B | y\ny: B C | B D",
    "c_like": (DATA / "c_like.lark").read_text("utf-8"),
    "sql_like": (DATA / "sql_like.lark").read_text("utf-8"),
}

Row = dict[str, tuple[str, Any]]


TERMINALS = 'A: "a"\nB: "b"\nC: "c"\nD: "d"\n'


def compiled(text: str) -> list[Any]:
    grammar, _ = load_grammar(text, "the test", [], False)
    return grammar.compile(["start"], set())[1]


def tables_of_lark(rules: list[Any]) -> tuple[int, Callable[[int], Row]]:
    analysis: Any = LALR_Analyzer(ParserConf(rules, {}, ["start"]))
    analysis.compute_lalr()
    table = analysis.parse_table

    def row(state: int) -> Row:
        actions = table.states[state].items()
        return {name: ("shift", to) if kind is Shift else reduction(to) for name, (kind, to) in actions}

    return table.start_states["start"], row


def reduction(rule: Any) -> tuple[str, Any]:
    return "reduce", (rule.origin.name, len(rule.expansion))


def our_tables(rules: list[Any]) -> tuple[int, Callable[[int], Row]]:
    tables = tables_of(rules, "start")

    def row(number: int) -> Row:
        state = tables.states[number]
        actions = state.actions | state.gotos | ({} if state.end is None else {"$END": state.end})
        return {
            name: ("shift", to) if to >= 0 else ("reduce", tables.rules[-1 - to])
            for name, to in actions.items()
        }

    return tables.first, row


def assert_the_tables_are_those_of_lark(rules: list[Any]) -> None:
    """Wherever texts lead in lark's tables, they lead to the same actions in ours."""
    (first, our_row), (first_of_lark, row_of_lark) = our_tables(rules), tables_of_lark(rules)
    pairs = {(first, first_of_lark): None}
    for ours, of_lark in (waiting := list(pairs)):
        row, expected = our_row(ours), row_of_lark(of_lark)
        assert row.keys() == expected.keys()
        for name, (kind, to) in row.items():
            other_kind, other = expected[name]
            assert kind == other_kind
            if kind == "reduce":
                assert to == other
            elif (to, other) not in pairs:
                pairs[to, other] = None
                waiting.append((to, other))


@pytest.mark.parametrize("name", GRAMMARS)
def test_the_tables_are_those_of_lark(name: str) -> None:
    assert_the_tables_are_those_of_lark(compiled(TERMINALS + GRAMMARS[name]))


@pytest.mark.quick_share(4)
@pytest.mark.parametrize("tens", range(20))
def test_the_tables_of_random_grammars_are_those_of_lark(tens: int) -> None:
    for seed in range(10 * tens, 10 * tens + 10):
        compare_random_tables(Random(seed))


def compare_random_tables(random: Random) -> None:
    sides = ["start", "x", "y", "z"][: random.randint(1, 4)]

    def expansion() -> str:
        words = []
        for _ in range(random.choice([1, 1, 1, 2, 2, 3])):
            some = random.sample("ABCD", random.randint(1, 4))
            words.append(
                random.choice([random.choice(sides), f"({' | '.join(some)})", random.choice("ABCD")])
            )
        return " ".join(words)

    text = "\n".join(f"{side}: {' | '.join(expansion() for _ in range(3))}" for side in sides)
    try:
        rules = compiled(TERMINALS + text)
        tables_of_lark(rules)
    except LarkError:
        with pytest.raises(LarkError):
            tables_of(compiled(TERMINALS + text), "start")
    else:
        assert_the_tables_are_those_of_lark(rules)


def test_terminals_that_are_used_alike_share_their_states() -> None:
    names = [f"K{number}" for number in range(100)]
    terminals = "".join(f'{name}: "{name}"\n' for name in names)
    text = f"start: item+\nitem: {' | '.join(names)} | {' | '.join(f'{name} item' for name in names)}\n"
    assert len(tables_of(compiled(text + terminals), "start").states) < 10


def test_a_conflict_names_its_rules() -> None:
    text = 'start: x "c" | y "c"\nx: "a"\ny: "a"'
    with pytest.raises(GrammarError, match=r"before C, the text may be reduced .*: x : A; y : A|not LALR"):
        rules_from_lalr(text)


def test_a_rule_that_is_defined_twice_is_refused() -> None:
    rules = compiled('start: "a"')
    with pytest.raises(Exception, match="Rules defined twice: <start : A>"):
        tables_of([*rules, *rules], "start")


def test_states_with_too_many_items_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("engine_sampler.grammar.lark.contextual.lalr_analysis.MAX_ITEMS", 12)
    with pytest.raises(GrammarLimitError, match="the parser's states have more than 12 items"):
        rules_from_lalr(GRAMMARS["left recursion"])
