"""Plain definitions are read to the trees that lark's loader builds; all others are left to lark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import lark
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lark.exceptions import LarkError
from lark.load_grammar import load_grammar

from engine_sampler.grammar.errors import GrammarError
from engine_sampler.grammar.lark.grammar import load
from engine_sampler.grammar.lark.plain_definitions import plain_definitions
from engine_sampler.grammar.lark.statements import Scan

from ...examples import examples
from .oracle import LIBRARY

LARKS_OWN = Path(lark.__file__).parent / "grammars"


def described(grammar: Any) -> list[Any]:
    """All that a loaded grammar says, with the first positions of its literals: those of later ones with the
    same text may be left out."""
    trees = [tree for *_, tree, _ in grammar.rule_defs] + [tree for _, (tree, _) in grammar.term_defs]
    places: dict[str, tuple[int, int]] = {}
    for token in [token for tree in trees if tree for token in tree.scan_values(_is_token)]:
        place = token.line, token.column
        places[str(token)] = min(places.get(str(token), place), place)
    rules = [
        (str(name), tuple(map(str, parameters)), _tree(tree, places), vars(options))
        for name, parameters, tree, options in grammar.rule_defs
    ]
    return [rules, [(name, _tree(tree, places), priority) for name, (tree, priority) in grammar.term_defs]]


def _is_token(node: Any) -> bool:
    return isinstance(node, lark.Token)


def _tree(node: Any, places: dict[str, tuple[int, int]]) -> Any:
    if isinstance(node, lark.Tree):
        return node.data, [_tree(child, places) for child in node.children]
    if _is_token(node):
        return node.type, str(node), places[str(node)]
    return node and (type(node).__name__, node.name, getattr(node, "filter_out", None))


def as_lark_reads_it(text: str) -> Any:
    try:
        return described(load_grammar(text, "the grammar", [], False)[0])
    except (LarkError, AssertionError, OSError):
        return None


def as_it_is_read_here(text: str) -> Any:
    try:
        return described(load(text, None, [], None, None).grammar)
    except GrammarError:
        return None


FILES = [
    path
    for path in sorted([*LIBRARY.glob("*.lark"), *LARKS_OWN.glob("*.lark")])
    if "%import" not in path.read_text()  # what is imported has other positions here
]


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_the_definitions_of_a_file_are_those_that_lark_reads(path: Path) -> None:
    text = path.read_text()
    assert len(plain_definitions(Scan(text))) >= 2
    assert as_it_is_read_here(text) == as_lark_reads_it(text)


PLAIN = {
    "a rule": 'start: "a" b [C] (b | "c"i)* -> name | /x/s+ | b? "a".."c"\nb:\nC: "c"',
    "modifiers": '!?start: "a"\n?b.2: "b"\n_c: "c"\n?!d: "d"\n!e.10: "e"',
    "a priority of a terminal": 'start: A\nA.3: "a" | "b"',
    "counts": 'start: "a"~2 "b"~1..3 ("c" "d") ~ 2 .. 4',
    "lines": 'start: "a" // one\n  // two\n  | "b" \\\n "c"\n\n# three\n  | "d"\r\nb: "x"\r\n',
    "an empty alternative": 'start:\n  | "a" |\nb: (|"c") []',
    "terminals of terminals": 'start: AB\nA: "a"\nAB: A (B | "c")+ [A]\nB: A "b" | /x/ A~2',
}


@pytest.mark.parametrize("name", PLAIN)
def test_it_is_read_as_lark_reads_it(name: str) -> None:
    text = PLAIN[name]
    assert set(plain_definitions(Scan(text))) == {s.defines for s in Scan(text).statements}
    assert as_it_is_read_here(text) == as_lark_reads_it(text) is not None


LEFT_TO_LARK = {
    "a template": "start: t{A}\nt{x}: x\nA: /a/",
    "an extended rule": 'start: a\na: "a"\n%extend a: "b"',
    "an overridden terminal": 'start: A\nA: "a"\n%override A: "b"',
    "terminals in a circle": 'start: A\nA: B\nB: "b" A',
    "part of an extended terminal": 'start: AB\nA: "a"\nAB: A "b"\n%extend AB: "c"',
    "parts of parts of a terminal": 'start: A\nA: B\nB: C "b"\nC: "c"\n%override B: "d"',
    "part of an ignored terminal": 'start: "x"\nA: "a"\n%ignore A | "b"',
    "a lazy rule": "start: a\na[lazy]: A\nA: /a/",
    "a question mark before a letter": 'start: "a"?b\nb: "b"',
    "an alias in brackets": 'start: ("a" -> a)\na: "a"',
    "a rule in a terminal": 'start: A\nA: a\na: "a"',
    "a form feed": 'start: "a"\f | "b"',
    "a carriage return": 'start: "a"\r | "b"',
    "a repetition of a repetition": 'start: "a"+*',
    "a colon in a body": 'start: "a" b: "b"',
    "a modifier that stands alone": '! start: "a"',
    "an inlined rule with a question mark": '?_start: "a"',
    "a bracket that is not closed": 'start: ("a"',
    "an alias of a terminal": 'start: A\nA: "a" -> b',
    "a name with both cases": "start: aB",
}


@pytest.mark.parametrize("name", LEFT_TO_LARK)
def test_it_is_left_to_lark(name: str) -> None:
    text = LEFT_TO_LARK[name]
    left = {statement.defines for statement in Scan(text).statements} - plain_definitions(Scan(text)).keys()
    assert left - {""}
    if "lazy" not in text:
        assert as_it_is_read_here(text) == as_lark_reads_it(text)


WORDS = [
    "a",
    "b",
    "A",
    "B",
    "_b",
    '"x"',
    '"y"i',
    "/z/",
    "/z|/i",
    "(",
    ")",
    "[",
    "]",
    "|",
    "*",
    "+",
    "?",
    "~2",
    "~1..2",
]
WORDS += [
    "..",
    "->",
    ":",
    ".",
    "!",
    "2",
    "{",
    "}",
    ",",
    "%ignore",
    "%extend",
    "\n",
    "\n | ",
    " ",
    "// c\n",
    "\\\n",
]
BODY = st.lists(st.sampled_from([*WORDS[:22], "\n | ", " ", " ", " "]), max_size=8).map(" ".join)
TEXT = st.lists(st.sampled_from(WORDS + [" "] * 20), max_size=12).map("".join)
STATEMENT = st.tuples(st.sampled_from(["a", "b", "?a.2", "A", "B.1", "!_b", "start", ""]), BODY | TEXT)


@settings(deadline=None, max_examples=examples(60))
@given(st.lists(STATEMENT, max_size=4))
def test_any_text_is_read_as_lark_reads_it(statements: list[tuple[str, str]]) -> None:
    text = "\n".join(f"{head}: {body}" if head else body for head, body in statements)
    assert as_it_is_read_here(text) == as_lark_reads_it(text)
