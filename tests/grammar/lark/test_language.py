"""The language of a grammar is the one that lark accepts."""

from __future__ import annotations

import functools
import gc
import json
from itertools import product
from pathlib import Path

import lark
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from engine_sampler.grammar.errors import GrammarError
from engine_sampler.grammar.lark.grammar import rules_from_lark

from ...conftest import example_count
from .oracle import DATA, Language, Oracle, language_of, ours, small_grammars, spoiled

ALL = sorted(path.stem for path in DATA.glob("*.lark"))
LARK = Path(lark.__file__).parent / "grammars"

patient = settings(deadline=None, max_examples=example_count(30), suppress_health_check=list(HealthCheck))


@pytest.mark.quick_share(2)
@pytest.mark.parametrize("name", ALL)
def test_examples_are_accepted_exactly_where_lark_accepts_them(name: str) -> None:
    examples = json.loads((DATA / f"{name}.examples.json").read_text(encoding="utf-8"))
    language, oracle = languages(name)
    for kind, expected in (("accept", True), ("reject", False)):
        for example in examples[kind]:
            assert (language(example), oracle(example)) == (expected, expected), example


@pytest.mark.parametrize("name", ["ambiguous", "calculator"])
@patient
@given(data=st.data())
def test_random_texts_are_accepted_exactly_where_lark_accepts_them(name: str, data: st.DataObject) -> None:
    check_against_lark(name, data, 25)


@settings(patient, max_examples=6)
@given(data=st.data())
def test_random_texts_of_a_large_grammar_are_accepted_exactly_where_lark_accepts_them(
    data: st.DataObject,
) -> None:
    check_against_lark("sql_like", data, 12)


@functools.cache
def languages(name: str) -> tuple[Language, Oracle]:
    """The language of a grammar of the test data, and lark's."""
    text = (DATA / f"{name}.lark").read_text(encoding="utf-8")
    return ours(text), Oracle(text)


def check_against_lark(name: str, data: st.DataObject, budget: int) -> None:
    """Compare a random text with lark, and the same text after a random edit."""
    language, oracle = languages(name)
    text = oracle.text(data.draw, budget)
    assert language(text) == oracle(text)
    text = spoiled(data.draw, text)
    assert language(text) == oracle(text)


SHORT = ["".join(some) for length in range(5) for some in product("ab", repeat=length)]
SHORT += ["A", "aB", "ab-_b", "_", "a_b", "a__b", "_ab_", "a-_-b", "a_-a", "b_b_", "__"]


@settings(patient, max_examples=example_count(40))
@given(text=small_grammars())
def test_any_small_grammar_has_the_language_that_lark_gives_it(text: str) -> None:
    try:
        oracle = Oracle(text)
        rules = rules_from_lark(text)
    except (lark.exceptions.LarkError, GrammarError):
        assume(False)  # an empty terminal, or a lookahead that decides the order of preference
    language = language_of(rules)
    assert {short for short in SHORT if language(short)} == {short for short in SHORT if oracle(short)}


def test_a_terminal_may_be_empty_which_lark_refuses() -> None:
    language = ours('start: A "b" A\nA: /a*/')
    assert all(map(language, ["b", "ab", "baa"]))
    assert not language("")


def test_strings_that_follow_each_other_in_a_terminal_are_words() -> None:
    language = ours('start: A+\nA: "a" "b" | B "c" | ("d" "e") "f" | "x"i | "g" "h"i\nB: "ab" "a"')
    assert all(map(language, ["ab", "abac", "abacab", "def", "X", "gH"]))
    assert not any(map(language, ["a", "aba", "ac", "de", "G"]))


def test_what_was_read_of_a_text_is_freed_without_the_collector() -> None:
    text = "start: " + " ".join(f'"{i}" B' for i in range(500)) + "\nB: /b+/"
    rules_from_lark(text)
    gc.collect()
    gc.disable()
    try:
        before = len(gc.get_objects())
        rules_from_lark(text)
        assert len(gc.get_objects()) - before < 200
    finally:
        gc.enable()


@pytest.mark.parametrize(
    ("ignored", "valid", "invalid"),
    [
        (r"/--(?!\+)[^\n]*\n/", ["x--a\nx", "x--\nx"], ["x--+a\nx", "x--a"]),
        ('/"(?!")[^"]*"/', ['x"a"x'], ['x""x', 'x""a"x']),
        (r"/(?!if\b)[a-w]+[.]/", ["xa.x", "xiff.x"], ["xif.x"]),
    ],
)
def test_an_ignored_terminal_may_look_ahead_within_its_own_text(ignored, valid, invalid) -> None:
    text = f'start: A+\nA: "x"\n%ignore {ignored}'
    language, oracle = ours(text), Oracle(text)
    assert all(language(one) and oracle(one) for one in valid)
    assert not any(language(one) or oracle(one) for one in invalid)


def test_a_lookahead_holds_wherever_its_terminal_ends() -> None:
    text = "start: A B?\nA: /[0-9]+(?![0-9])/\nB: /[0-9]+/"
    assert ours(text)("12")
    text = "start: A B\nA: /[0-9]+(?![0-9])/\nB: /[0-9]+/"
    assert Oracle(text)("12")  # as "1", after which lark does not see the 2, and "2"
    assert not ours(text)("12")


BLOCKS = {"%declare _INDENT _DEDENT": '_INDENT: "{"\n_DEDENT: "}"'}
REAL = {
    "lark.lark": (
        "start",
        {},
        ['start: "a"\n', 'a: b | c -> d\n%ignore /x/i\n%import a.b (c)\nT.2: "x"~1..3\n?x{a}: [a]+ // c\n'],
        ["start", "a: (b\n", "A:: b\n", "%import\n", 'a: "b\n'],
    ),
    "python.lark": (
        "file_input",
        BLOCKS,
        [
            "x = 1\n",
            "f(a, *b)[1:2].c += lambda x: y if z else 0.5j\n",
            "# a\nif x:\n{y\n}z\n",
            "x = 0\\\n + 1\n",
        ],
        ["x = \n", "1x y\n", "f(\n", "if x:\ny\n", "x = 01\n", "x = 'a\n'\n"],
    ),
}


@pytest.mark.parametrize("name", REAL)
def test_the_grammars_packaged_with_lark_have_their_language(name: str) -> None:
    start, given, right, wrong = REAL[name]
    text = (LARK / name).read_text(encoding="utf-8")
    ours(text, start=start)
    for declared, meaning in given.items():  # terminals that lark leaves to a custom lexer
        text = text.replace(declared, meaning)
    for language in (ours(text, start=start), Oracle(text, start)):
        assert all(map(language, right))
        assert not any(map(language, wrong))


LONG = [f"{a}{b}{c}" for a, b, c in product("abk", "abé", ("", "a", "K", '\\"', "\\n"))]


@pytest.mark.parametrize(
    "grammar",
    [
        "start: WORD\nWORD: {plain}",
        "start: {plain} | {cased}",
        'start: WORD "a" | WORD\nWORD: {cased}',
        "start: WORD\nWORD: {mixed}",
        "start: item+\nitem: {mixed}\n%ignore /k/",
    ],
)
def test_a_long_list_of_strings_is_what_lark_makes_of_it(grammar: str) -> None:
    plain = [f'"{word}"' for word in LONG]
    cased = [f"{word}i" for word in plain]
    mixed = [
        word if number % 3 else other for number, (word, other) in enumerate(zip(plain, cased, strict=True))
    ]
    lists = {"plain": plain, "cased": [*cased, *plain], "mixed": [*mixed, *plain[::3], *cased[:40]]}
    text = grammar.format(**{name: " | ".join([*some, *some]) for name, some in lists.items()})
    language, oracle = ours(text), Oracle(text)
    words = {json.loads(word) for word in plain}
    texts = words | {word[:-1] for word in words} | {word + "a" for word in words}
    for sentence in sorted(texts | {word.upper() for word in texts} | {word + "k" for word in texts}):
        assert language(sentence) == oracle(sentence), sentence
