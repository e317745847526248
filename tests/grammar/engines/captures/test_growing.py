"""Captures of texts that grow: what is told is in the end, however the text is cut and taken back."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine_sampler.grammar import Grammar, GrammarLimitError
from engine_sampler.grammar.engines.captures import GrowingCaptures, growing_captures

from .test_captures import ASSIGNMENTS, LEXERS
from .test_random_grammars import grammars, read

LISTS = {
    "assignments": (ASSIGNMENTS, ["a=1", "bc = (d=2)", ",", " ", "e=(f=(g=3))"]),
    "right": ('start: i ";" start | i\ni[capture]: p | p "," i\np[capture]: /[a-c]/', ["a", "b", ",", ";"]),
    "left": ('start: l\nl: i | l ";" i\ni[capture]: p | i "," p\np[capture]: /[a-c]/', ["a", "b", ",", ";"]),
    "nested": ('start: x*\nx[capture]: "(" y* ")"\ny[capture="z"]: x | "a"', ["(", ")", "()", "a", "(a"]),
    "wrapped": (
        'start: v (";" v)*\nv[capture]: w\nw[capture]: u | "[" v ("," v)* "]"\nu[capture]: /[a-z]+/ "."',
        ["a.", "[", "]", ",", ";", "b."],
    ),
    "empty": ('start: (e "a" f ";")*\ne[capture]: "x"?\nf[capture]: e*', ["a;", "x", "a", ";", "xa;"]),
    "open": (
        'start: (a | b)*\na[capture]: c ";"\nb[capture]: c ","\nc[capture]: /[x-z]/*',
        ["x", "y", ";", ","],
    ),
    "ended": ('start: (t | ";")*\nt[suffix="!", stop_capture="m", capture]: /[a-z]*/', ["a", "!", ";", "b!"]),
}  # fmt: skip
"""Grammars, each with pieces of its texts."""

Told = list[tuple[int, str, int, int]]
"""When which capture was told: the name, and where it begins and ends."""


def growing(grammar: Grammar) -> GrowingCaptures:
    found = growing_captures(grammar.program)
    assert found is not None
    return found


def told_of(grammar: Grammar, pieces: list[str], turns: list[int]) -> Counter[tuple[str, int, int]]:
    """The captures that are told of some pieces, some of which are taken back and come again, and the
    rest."""
    captures, told = growing(grammar), Told()
    lengths = [0]
    at = 0
    for turn in [*turns, *[0] * len(pieces)]:
        if turn and at:
            at = max(0, at - turn)
            del lengths[at + 1 :]
            captures = captures.fork() if turn % 2 else captures
            captures.shrink(lengths[-1])
            told = [one for one in told if one[0] <= lengths[-1]]
        elif at < len(pieces):
            new = captures.feed(pieces[at].encode())
            at += 1
            lengths.append(len(captures.data))
            told += [(lengths[-1], name, one.start, one.end) for name, one in new]
    final = grammar.captures(bytes(captures.data))
    found = Counter(one[1:] for one in told)
    found += Counter((name, one.start, one.end) for name, one in captures.rest(final))
    return found


def expected(grammar: Grammar, text: str) -> Counter[tuple[str, int, int]]:
    found = grammar.captures(text).items()
    return Counter((name, one.start, one.end) for name, captures in found for one in captures)


@pytest.mark.parametrize("name", LISTS)
@settings(deadline=None, max_examples=40)
@given(data=st.data())
def test_what_is_told_while_a_text_grows_is_what_it_has(name: str, data: st.DataObject) -> None:
    text, words = LISTS[name]
    lexer: Any = data.draw(st.sampled_from(LEXERS if name == "assignments" else LEXERS[:1]))
    grammar = Grammar.from_lark(text, lexer=lexer)
    pieces: list[str] = []
    for word in data.draw(st.lists(st.sampled_from(words), max_size=14)):
        if grammar.check("".join([*pieces, word])).viable:
            pieces.append(word)
    turns = data.draw(st.lists(st.sampled_from([0, 0, 0, 1, 2, 5]), max_size=20))
    assert told_of(grammar, pieces, turns) == expected(grammar, "".join(pieces))


@settings(deadline=None, max_examples=15)
@given(grammars, st.text("ab", max_size=9), st.lists(st.sampled_from([0, 0, 1, 3]), max_size=9))
def test_so_it_is_with_random_grammars(naive: Any, text: str, turns: list[int]) -> None:
    grammar = read(naive)
    if grammar is None or not grammar.check(text).viable:
        return
    try:
        found = told_of(grammar, list(text), turns)
    except GrammarLimitError:
        return
    assert found == expected(grammar, text)


@pytest.mark.parametrize("lexer", LEXERS)
def test_a_capture_is_told_when_no_more_text_can_change_it(lexer: Any) -> None:
    captures = growing(Grammar.from_lark(ASSIGNMENTS, lexer=lexer))
    told = [
        (at, [one.text for _, one in captures.feed(c.encode())]) for at, c in enumerate("a=1, b=(c=22),d=3")
    ]
    early, late = ["(c=22)", "b=(c=22)"], [(13, ["(c=22)", "b=(c=22)"])]
    if lexer == "contextual":  # whose parser ends a rule with what follows it
        assert [one for one in told if one[1]] == [(3, ["1", "a=1"]), (12, ["22", "c=22"]), *late]
    else:
        assert [one for one in told if one[1]] == [(3, ["1", "a=1"]), (12, ["22", "c=22", *early])]


def test_of_an_open_choice_nothing_is_told_before_it_is_decided() -> None:
    captures = growing(Grammar.from_lark(LISTS["open"][0]))
    assert captures.feed(b"xy") == []
    assert [(name, one.text) for name, one in captures.feed(b";")] == [("c", "xy"), ("a", "xy;")]


@pytest.mark.parametrize(
    ("name", "text"),
    [("left", "a;b,a;"), ("right", "a;b,a;"), ("nested", "(a(a))"), ("wrapped", "[a.,[b.]];")],
)
def test_the_work_is_linear_in_the_text(name: str, text: str) -> None:
    used = []
    for count in (20, 80):
        captures = growing(Grammar.from_lark(LISTS[name][0]))
        left = captures.steps_left
        for byte in (text * count).encode():
            captures.feed(bytes((byte,)))
        assert captures.steps_left > 0
        used.append(left - captures.steps_left)
    assert used[1] < 5 * used[0] + 10_000


def test_a_text_that_takes_too_long_is_told_no_more_of(monkeypatch: pytest.MonkeyPatch) -> None:
    module = "engine_sampler.grammar.engines.captures.growing"
    monkeypatch.setattr(f"{module}.capture_steps", lambda units: 20)
    captures = growing(Grammar.from_lark(LISTS["nested"][0]))
    assert captures.feed(b"(a)" * 9) == []
    assert captures.feed(b"(a)") == []


def test_texts_that_leave_the_grammar_are_told_no_more_of_until_that_is_taken_back() -> None:
    captures = growing(Grammar.from_lark(LISTS["nested"][0]))
    assert len(captures.feed(b"(a)")) == 2
    assert captures.feed(b"b(a)") == []
    captures.shrink(3)
    assert len(captures.feed(b"()")) == 1


def test_a_grammar_without_captures_has_no_growing_ones() -> None:
    assert growing_captures(Grammar.from_regex("a").program) is None
