"""Arguments of the constructors of `Grammar`: a wrong one is named, with its value and what is allowed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from engine_sampler.grammar import Grammar, GrammarError

from .lark.oracle import LIBRARY

WRONG: list[Any] = [[], {}, 3, b"x", True, 1.5, (1,)]
A_RULE, A_GBNF_RULE = 'start: "a"', 'root ::= "a"'
CONSTRUCTORS: dict[str, Any] = {
    "start": lambda value: Grammar.from_lark(A_RULE, start=value),
    "lexer": lambda value: Grammar.from_lark(A_RULE, lexer=value),
    "path": lambda value: Grammar.from_lark(A_RULE, path=value),
    "start of GBNF": lambda value: Grammar.from_gbnf(A_GBNF_RULE, start=value),
    "start of a text": lambda value: Grammar.from_text(A_RULE, start=value),
    "start of a text in GBNF": lambda value: Grammar.from_text(A_GBNF_RULE, start=value),
    "lexer of a text": lambda value: Grammar.from_text(A_RULE, lexer=value),
    "dialect": lambda value: Grammar.from_regex("a", dialect=value),
    "path of a file": Grammar.from_file,
}


@pytest.mark.parametrize("name", CONSTRUCTORS)
@pytest.mark.parametrize("value", WRONG, ids=repr)
def test_a_wrong_argument_is_named(name: str, value: Any) -> None:
    with pytest.raises(GrammarError) as caught:
        CONSTRUCTORS[name](value)
    assert str(caught.value).startswith(f"{name.split()[0]}={value!r} is not allowed: ")


@pytest.mark.parametrize("value", [None, 3, "folder", b"folder", [3], [None]], ids=repr)
def test_wrong_folders_are_named(value: Any) -> None:
    with pytest.raises(GrammarError, match=r"import_paths=.* is not allowed: "):
        Grammar.from_lark(A_RULE, import_paths=value)


@pytest.mark.parametrize(
    "value", [3, "x", [("X", "x")], {"X": 3}, {"X": None}, {3: "x"}, {"X": "\ud800"}], ids=ascii
)
def test_wrong_declarations_are_named(value: Any) -> None:
    with pytest.raises(GrammarError, match=r"declared=.* is not allowed: regular expressions"):
        Grammar.from_lark("start: X\n%declare X", declared=value)


@pytest.mark.parametrize("value", [None, 3, [], [3], ["\ud800"], [["a"]]], ids=ascii)
def test_wrong_choices_are_named(value: Any) -> None:
    with pytest.raises(GrammarError, match=r"choices=.* is not allowed: one or more strings"):
        Grammar.from_choices(value)


def test_paths_are_strings_or_paths(tmp_path: Path) -> None:
    (tmp_path / "words.lark").write_text('WORD: "a"')
    text = "%import words.WORD\nstart: WORD"
    for folder in (tmp_path, str(tmp_path)):
        assert Grammar.from_lark(text, import_paths=[folder]).check("a").valid
    assert Grammar.from_file(str(LIBRARY / "json.lark")) == Grammar.from_file(LIBRARY / "json.lark")
