"""A grammar that cannot be used is refused with the reason and its position."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from engine_sampler.grammar import Grammar
from engine_sampler.grammar.errors import GrammarError, GrammarLimitError
from engine_sampler.grammar.lark.grammar import rules_from_lark
from engine_sampler.grammar.lark.messages import limits_named
from engine_sampler.grammar.limits import Limits

WRONG = {
    "start: a: b": ("Unexpected colon", 1, 9),
    "start: b??": ("Misplaced operator", 1, 10),
    'start: "a"\n     | b??\nb: "b"': ("Expecting a value", 2, 10),
    "start: (": ("Unclosed parenthesis", 1, 9),
    'start: "a"\nstart: "b"': ("Rule 'start' defined more than once", 2, 1),
    'start: "a"\n     | other': ("Rule 'other' used but not defined (in rule start)", 2, 8),
    'start: "a"\n  foo bar': ("unexpected 'bar'", 2, 7),
    "%import common (WS\nstart: WS": ("unexpected end of line", 1, 19),
    'start: @ "a"': ("Unexpected input", 1, 8),
    "start: A\nA: B\nB: A": ("Recursion in terminal 'A'", 1, 8),
    r'start: "\xZZ"': ("the escapes of a literal cannot be read", 1, 8),
    r'start: "\ud800"': ("half of a surrogate pair is not text", 1, 8),
    'start: "ab".."c"': ("a range needs one character on each side", 1, 8),
    'start: "b".."a"': ("bad character range b-a", 1, 8),
    'start: "x" "a': ("the string is not closed", 1, 12),
    'start: "x"\nA: /a': ("the regular expression is not closed", 2, 4),
    "start: /(/": ("the terminal /(/: not a regular expression: missing )", 1, 8),
    'start: "x" A\nA: /(a)\\1/': ("the terminal A: a backreference", 2, 1),
    'start: A\nA: "x" D\n%declare D': ("a declared terminal cannot be part of another one", None, None),
    'start: "a"~3..2': ("a count cannot range from 3 to 2", 1, 12),
    'start: t{"a", "b"}\nt{x}: x': ("Wrong number of template arguments used for t", 1, 1),
    "start: t\nt{x}: x": ("the template 't' takes 1 arguments, not 0", 1, 8),
    'start: t{"a"}\nt{f}: f{"b"}': ("'f' is not a template", 2, 3),
    'start: A\nA: t{"a"}\nt{x}: x': ("a terminal cannot use a template", None, None),
    "%import nowhere.X\nstart: X": ("there is no grammar 'nowhere' to import", 1, 1),
    "%import common.NOPE\nstart: NOPE": ("Rule 'NOPE' used but not defined", 1, 16),
    "%import .near (x)\nstart: x": ("a relative import needs the path of this grammar's file", 1, 9),
    '%ignore SPACE\nstart: "a"': ("were marked to ignore but were not defined", 1, 9),
    '%override x: "a"\nstart: x': ("Cannot override a nonexisting rule x", 1, 11),
    'begin: "a"': ("there is no rule 'start' to start with: the first one is begin", 1, 1),
    "\n%import common.WS\nbegin: WS": (
        "there is no rule 'start' to start with: the first one is begin",
        3,
        1,
    ),
    "": ("there is no rule 'start' to start with", 1, 1),
    "start: 'a'": ('a text stands between double quotes: "a"', 1, 8),
    'start: b\nb = "a"': ("a colon defines a rule", 2, 3),
    'start: "a";': ("without a semicolon", 1, 11),
    "start: [a-z]+": ("a class of characters stands between slashes: /[a-z]+/", 1, 9),
    'start: "a" [0-9]+': ("a class of characters stands between slashes: /[0-9]+/", 1, 13),
    "%import common.NUMBR\nstart: NUMBR": ("common has no NUMBR: is NUMBER meant?", 1, 16),
    "%import json (valeu)\nstart: valeu": ("json has no valeu: is value meant?", 1, 15),
    "start: valeu\nvalue: /a/": ("is value meant?", 1, 8),
    'start: "a"\nws: " "\n%ignore ws': ("%ignore takes terminals, and ws is a rule", 2, 1),
    "start: A\nA: b\nb: /b/": ("the terminal A takes terminals, and b is a rule", 2, 4),
    "start: /(?<n>a)/": ('a named group is (?P<name>...), or (?<name>...) with dialect="ecma"', 1, 8),
    'start: "x"\n%ignore /"(?!"").*?"/': ("an ignored terminal cannot look at what follows it", 2, 1),
    'start: "x"\nB: /-+(?!>)/\n%ignore B': ("the terminal B: an ignored terminal cannot look", 2, 1),
}


@pytest.mark.parametrize("text", WRONG)
def test_an_error_gives_the_reason_and_the_position(text: str) -> None:
    reason, line, column = WRONG[text]
    with pytest.raises(GrammarError) as caught:
        rules_from_lark(text)
    assert reason in str(caught.value)
    assert (caught.value.line, caught.value.column) == (line, column)


def test_columns_refer_to_the_text_that_the_user_wrote() -> None:
    text = 'start: <|x|> %json {"a":\n  1} other'
    with pytest.raises(GrammarError, match="'other' used but not defined") as caught:
        rules_from_lark(text, special_tokens={"<|x|>": 0})
    assert (caught.value.line, caught.value.column) == (2, 6)
    text = 'start: <|x|> %json {"a":\n  1} )'
    with pytest.raises(GrammarError, match=r"unexpected '\)'") as caught:
        rules_from_lark(text)
    assert (caught.value.line, caught.value.column) == (2, 6)


def test_an_imported_terminal_that_cannot_be_used_is_named(tmp_path: object) -> None:
    (tmp_path / "mine.lark").write_text("BAD: /(a)\\1/\n")  # type: ignore[operator]
    with pytest.raises(GrammarError, match="the terminal BAD: a backreference") as caught:
        rules_from_lark('%import mine.BAD\nstart: "x" BAD', import_paths=[str(tmp_path)])
    assert caught.value.line is None


HOSTILE = {
    "start: " + "(" * 100_000 + '"a"' + ")" * 100_000: "nested more than 50 deep",
    'start: A60\nA0: "a"\n' + "\n".join(f"A{i}: A{i - 1}" for i in range(1, 61)): "nested more than 50 deep",
    'start: A30\nA0: "a"\n' + "\n".join(f"A{i}: A{i - 1} A{i - 1}" for i in range(1, 31)): "terminals grow",
    'start: t{"a"}\nt{x}: x t{t{x}}': "more than 250000 parts",
    "start: x\nx{y}: " + '"a" ' * 40_000: "needs more than 1200000 steps to be read",
    "start: /" + "a" * 250_000 + "/": "a word is longer than 250000",
    'start: "a"~' + "9" * 5000: "a number is longer than 100",
    'start: "a"{1,' + "9" * 5000 + "}": r"a number is longer than 100 characters \(line 1, column 11\)",
    "start." + "9" * 5000 + ': "a"': r"a number is longer than 100 characters \(line 1, column 7\)",
    "start: " + " " * 1_000_000 + '"a"': "longer than 1000000 characters",
    'start: "a"~1..1000001': "a count is above 1000000",
    "start: <[0-999999999]>": "more than 300000 token ids",
    "start: %json " + "[" * 100_000: "nested too deep",
    'start: %regex {"substring_chars": "' + "a" * 60_000 + '"}': "take more than 250000 steps",
}


@pytest.mark.quick_share(3)
@pytest.mark.parametrize("reason", HOSTILE.values(), ids=lambda reason: reason.replace(" ", "-"))
def test_a_grammar_that_would_take_too_long_is_refused_and_the_limit_named(reason: str) -> None:
    text = next(text for text, expected in HOSTILE.items() if expected == reason)
    with pytest.raises(GrammarLimitError, match=reason):
        rules_from_lark(text)


UNCLOSED = ['start: "' + "\\" * 50_001, "start: /" + "\\" * 50_000, 'start: "' + "\\" * 50_000 + "\n"]


@pytest.mark.parametrize("text", UNCLOSED, ids=["string", "expression", "line"])
def test_an_unclosed_literal_of_backslashes_is_found_quickly(text: str) -> None:
    with pytest.raises(GrammarError, match="is not closed"):
        rules_from_lark(text)


HARMLESS = {
    "counts of counts": 'start: (((a~1000)~1000)~0..1000)\na: "a"?',
    "a long count": 'start: A ("b" "c")~1..100000\nA: "a"~1..100000',
    "optional parts": "start: " + " ".join(f'"a{i}"?' for i in range(500)),
    "choices": "start: " + " ".join('("a"|"b")' for _ in range(300)),
    "a repeated choice": "start: (" + " | ".join(f'"a{i}" "b"?' for i in range(500)) + ")*",
    "a chain of rules": "start: a0\n" + "\n".join(f"a{i}: a{i + 1}?" for i in range(500)) + '\na500: "x"',
    "ambiguity": 'start: (a | a)*\na: ("a" | "a")*',
    "recursion": 'start: start | start start | start? "a" | ',
}


@pytest.mark.parametrize("name", HARMLESS)
def test_a_grammar_that_lark_would_expand_for_long_stays_small(name: str) -> None:
    program = rules_from_lark(HARMLESS[name]).program()
    assert len(program.edges) < 40 * len(HARMLESS[name])


MANY = " ".join('("a"|"b")' for _ in range(20))
LARGE = "start: b\nb: " + " | ".join(f'("a{i}" "b"?)~2..60' for i in range(2000))
FEW_STEPS = Limits(reading=100_000)


@pytest.mark.parametrize(
    ("text", "lexer", "message"),
    [
        (
            LARGE,
            "dynamic_complete",
            r"the rule b: the grammar needs more than .*line 2, column 1",
        ),
        (f"start: b\nb: {MANY}", "contextual", r"the rule b: the rules have more than .* symbols .*line 2"),
        (
            LARGE.replace(":", " ::=").replace("start", "root").replace("~2..60", "{2,60}"),
            None,
            "the rule b: the",
        ),
    ],
    ids=["steps", "symbols", "GBNF"],
)
def test_an_error_at_a_limit_names_the_rule(text: str, lexer: Any, message: str) -> None:
    read = Grammar.from_gbnf if lexer is None else partial(Grammar.from_lark, lexer=lexer)
    with pytest.raises(GrammarLimitError, match=message):
        read(text, limits=FEW_STEPS)


@pytest.mark.parametrize(
    ("text", "largest", "line"),
    [
        ('start: a\na: "x" | "y" | "z"\nb: "x"', "a", 2),
        ('start: "a"\n  !?long-name.2{x}: "b" "c" | "d" "e"', "long-name.2", 2),
        ('root ::= "a"\n\nlong.name ::= [a-z]+ [a-z]+', "long.name", 3),
        ('start: "a"\n%ignore /a long pattern/', "%ignore", 2),
        ("a" * 100 + ": x", "a" * 80 + "…", 1),
    ],
    ids=["lark", "a-template", "gbnf", "ignored", "a-long-name"],
)
def test_a_limit_names_the_largest_definition(text: str, largest: str, line: int) -> None:
    with pytest.raises(GrammarLimitError) as raised, limits_named(text):
        raise GrammarLimitError("too much")
    assert raised.value.text == f"too much; its largest definition is that of {largest}"
    assert raised.value.line == line


@pytest.mark.parametrize("text", ["", "\n" * 200_000, "a" * 200_000, "?" * 9, '{"a": 1}'], ids=range(5))
def test_a_limit_on_a_text_without_definitions_stays_as_it_is(text: str) -> None:
    with pytest.raises(GrammarLimitError, match=r"^too much$"), limits_named(text):
        raise GrammarLimitError("too much")
