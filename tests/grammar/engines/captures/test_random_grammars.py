"""Captures of random grammars are those that a plain definition finds, however a text is cut into tokens."""

from __future__ import annotations

import itertools

from hypothesis import given, settings
from hypothesis import strategies as st

from engine_sampler import Tokenizer
from engine_sampler.grammar import Grammar, GrammarError

from ....conftest import example_count
from .naive import NaiveCaptures, OpenChoiceError, Span

NAMES = ("start", "x", "y", "z")
WORDS = ("a", "b", "ab", "ba")
TEXTS = ["".join(some) for length in range(6) for some in itertools.product("ab", repeat=length)]
PIECES = [b"a", b"b", b"ab", b"ba", b"aa", b"bab", b"aaba"]
TOKENIZER = Tokenizer([*PIECES, b"</s>"], eos_token_ids=[len(PIECES)])

alternatives = st.lists(st.lists(st.sampled_from(NAMES + WORDS), max_size=3), min_size=1, max_size=3)
grammars = st.fixed_dictionaries(dict.fromkeys(NAMES, alternatives)).map(NaiveCaptures)


def read(naive: NaiveCaptures) -> Grammar | None:
    try:
        grammar = Grammar.from_lark(naive.lark())
        grammar.check("")
    except GrammarError:  # no text at all
        return None
    return grammar


def spans(grammar: Grammar, text: str) -> list[Span]:
    found = [
        (name, one.start, one.end) for name, captures in grammar.captures(text).items() for one in captures
    ]
    return sorted(found, key=lambda span: (span[1], -span[2], span[0]))


@settings(deadline=None, max_examples=15)
@given(grammars)
def test_the_rules_of_a_text_are_those_of_the_plain_definition(naive: NaiveCaptures) -> None:
    grammar = read(naive)
    for text in TEXTS if grammar else ():
        assert grammar is not None
        try:
            expected = naive.captures(text)
        except OpenChoiceError:
            grammar.captures(text)  # which is some reading
            continue
        if expected is not None:
            assert spans(grammar, text) == sorted(expected, key=lambda span: (span[1], -span[2], span[0]))


@st.composite
def cut(draw: st.DrawFn, text: bytes) -> list[int]:
    """Tokens of a text."""
    tokens = []
    while text:
        fitting = [i for i, piece in enumerate(PIECES) if text.startswith(piece)]
        tokens.append(draw(st.sampled_from(fitting)))
        text = text[len(PIECES[tokens[-1]]) :]
    return tokens


@settings(deadline=None, max_examples=example_count(40))
@given(grammars, st.text("ab", max_size=9), st.data())
def test_tokens_capture_what_their_text_captures(
    naive: NaiveCaptures, text: str, data: st.DataObject
) -> None:
    grammar = read(naive)
    tokens = data.draw(cut(text.encode()))
    if grammar is None or not grammar.check(text).viable:
        return
    found = grammar.compile(TOKENIZER).captures([*tokens, TOKENIZER.eos_token_ids[0]])
    places = [0, *itertools.accumulate(len(PIECES[token]) for token in tokens)]
    assert found.keys() == grammar.captures(text).keys()
    for name, captures in grammar.captures(text).items():
        for whole, capture in zip(captures, found[name], strict=True):
            assert capture[:3] == whole[:3]
            assert capture.tokens is not None
            first, end = capture.tokens
            assert places[first] <= capture.start
            if capture.data:
                assert capture.start < places[first + 1]
                assert places[end - 1] < capture.end <= places[end]
            else:
                assert first == end
                assert capture.start < [*places, len(text) + 1][first + 1]
            assert text.encode()[capture.start : capture.end] == capture.data
