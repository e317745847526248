"""Masks are exact where the trie traversal takes shortcuts: characters, runs, repetitions and recursion."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engine_sampler.grammar.engines import native
from engine_sampler.grammar.errors import GrammarError
from engine_sampler.grammar.program import expression as e
from engine_sampler.grammar.program.rules import Body, Rules, alternatives, repeated, sequence
from engine_sampler.grammar.program.unicode import EVERY, characters, invert, ranges

from ..both_engines import ENGINES, FASTEST, Engine, allowed, every_engine, tried
from ..random_grammars import quick

FAMILIES = [
    [b"a", b"G", b"7", b'"'],
    ["é".encode(), "è".encode(), b"a"],
    ["Ж".encode(), "中".encode(), "😀".encode()],
    ["中".encode(), b"\xe4\xb8", b"a"],
    ["é".encode(), b"\xc3", b"a"],
    [b"a", b"\xa9"],
    [b"a", b"\xff"],
    [b"\xed\xa0\x80", b"a"],
    [b"\xc0\x80", b"\xf4\x90\x80\x80", b"a"],
]
TEXTS = [b"".join(some) for some in product(FAMILIES[0], repeat=2)]
for _first, _family in zip("bcdefghij", FAMILIES, strict=True):
    for _size in (0, 1, 2, 3):
        TEXTS += [b"".join([_first.encode(), *some]) for some in product(_family, repeat=_size)]
TEXTS += ["中".encode() + b"".join(some) for some in product(FAMILIES[0], repeat=2)]
"""Tokens that end within characters or are not UTF-8; all bytes after a first letter are of one kind."""

LETTERS = [bytes(some) for size in (1, 2, 3) for some in product(range(97, 111), repeat=size)]
"""More tokens than are used to compare an expression with a looser one."""

RUNS = [b"-" * count for count in range(1, 40)]
RUNS += [b"-" * count + end for count in (1, 2, 7, 8, 30) for end in (b"x", b">", b"x-")]
RUNS += [b"x", b">", b"x--", b"x>x"]


def of_terminal(part: e.Expression) -> Rules:
    """A grammar of one terminal."""
    rules = Rules()
    rules.start = rules.rule("start")
    rules.define(rules.start, rules.terminal("T", part))
    return rules


def masks_are_exact(matcher: Any, tokens: Sequence[bytes], path: Sequence[bytes]) -> None:
    """Each mask along the path allows exactly the tokens that a fork accepts."""
    for token in path:
        assert allowed(matcher, len(tokens)) == tried(matcher, len(tokens))
        assert matcher.accept(tokens.index(token))
    assert allowed(matcher, len(tokens)) == tried(matcher, len(tokens))


spans = st.lists(st.tuples(st.integers(0, 0x10FFFF), st.integers(0, 0x10FFFF)).map(sorted), max_size=4)
KNOWN = [[34, 34], [97, 122], [0x80, 0xD7FF], [0xE000, 0xFFFF]]


def masks_of_texts_are_exact(part: e.Expression, path: Sequence[bytes]) -> None:
    matcher = FASTEST(of_terminal(e.concat(part, e.literal(b"."))).program(), TEXTS).matcher()
    assert allowed(matcher, len(TEXTS)) == tried(matcher, len(TEXTS))
    for text in path:
        if matcher.accept_bytes(text):
            assert allowed(matcher, len(TEXTS)) == tried(matcher, len(TEXTS))


@quick
@given(spans=spans, low=st.integers(0, 2), path=st.lists(st.sampled_from(TEXTS), max_size=2))
def test_characters_that_change_nothing_are_skipped(
    spans: list[list[int]], low: int, path: list[bytes]
) -> None:
    inner = characters(ranges((first, last) for first, last in [*spans, *KNOWN]))
    masks_of_texts_are_exact(e.repeat(inner, low, None), path)


def test_a_character_that_changes_something_is_not_skipped() -> None:
    e_acute, letter = ord("é"), characters(ranges([(97, 122)]))
    others = characters(invert(ranges([(e_acute, e_acute), (46, 46)])))
    inner = e.union(others, e.concat(e.literal("é".encode()), letter))
    masks_of_texts_are_exact(e.repeat(inner, 0, None), [b"a", "cé".encode(), b"a"])


def test_a_text_that_begins_within_a_character_is_not_read_as_characters() -> None:
    begun = e.concat(e.byte_range(0xC0, 0xFF), e.byte_range(0x80, 0xBF))
    masks_of_texts_are_exact(e.concat(begun, e.repeat(characters(EVERY), 0, None)), [b"\xe4"])


def test_texts_excluded_by_a_complement_of_nearly_everything_are_excluded() -> None:
    any_letter = e.byte_range(97, 122)
    plain = e.repeat(e.byte_range(97, 108), 0, None)
    part = e.both(e.repeat(any_letter, 0, None), e.complement(plain))
    tokens = [*LETTERS, b".", b"m.", b"a."]
    matcher = FASTEST(of_terminal(e.concat(part, e.literal(b"."))).program(), tokens).matcher()
    masks_are_exact(matcher, tokens, [b"abc", b"l", b"ma"])


@pytest.mark.parametrize("most", [13, 20, 29, 260])
def test_a_repetition_within_an_intersection_is_bounded(most: int) -> None:
    letter = e.byte_range(97, 110)
    begun = e.concat(e.byte_range(97, 100), e.repeat(letter, 0, None))
    pairs = e.repeat(e.concat(letter, letter), 0, None)
    part = e.both(begun, pairs, e.repeat(letter, 0, most))
    tokens = [*LETTERS[:300], b".", b"a.", b"aaaaaaaaaaaa", b"a" * 25 + b"."]
    matcher = FASTEST(of_terminal(e.concat(part, e.literal(b"."))).program(), tokens).matcher()
    masks_are_exact(matcher, tokens, [b"a"] * min(most & ~1, 30))


def test_a_repetition_is_bounded_even_if_the_end_takes_many_bytes() -> None:
    end = e.literal(b"n" * 20)
    part = e.both(
        e.concat(e.repeat(e.byte_range(97, 98), 0, None), end), e.repeat(e.byte_range(97, 110), 0, 40)
    )
    tokens = (
        [b"a" * count for count in range(1, 31)] + [b"ab" * count for count in range(1, 12)] + [b"n", b"."]
    )
    matcher = FASTEST(of_terminal(e.concat(part, e.literal(b"."))).program(), tokens).matcher()
    masks_are_exact(matcher, tokens, [b"a"] * 20)


@every_engine
def test_every_exit_from_a_run_is_found(engine: Engine) -> None:
    rules = Rules()
    sign, last = (rules.terminal(name, e.literal(b"-"), shared=False) for name in ("SIGN", "LAST"))
    end = rules.terminal("END", e.literal(b">"))
    rules.start = rules.rule("start")
    rules.define(rules.start, alternatives(sequence(sign, rules.start), sequence(last, end)))
    masks_are_exact(engine(rules.program(), RUNS).matcher(), RUNS, [b"-" * 5, b"-" * 8, b"->"])


def _signs(*, after: bool) -> Rules:
    """A sum of names with signs before them, and also after them if `after`."""
    rules = Rules()
    minus, twice = rules.terminal("MINUS", e.literal(b"-")), rules.terminal("TWICE", e.literal(b"--"))
    name, more = rules.terminal("NAME", e.literal(b"x")), rules.terminal("MORE", e.literal(b">"))
    signed, named, rules.start = rules.rule("signed"), rules.rule("named"), rules.rule("sum")
    body: Body = alternatives(name, sequence(named, twice)) if after else name
    rules.define(named, body)
    rules.define(signed, alternatives(sequence(alternatives(minus, twice), signed), named))
    rules.define(rules.start, sequence(signed, repeated(sequence(alternatives(minus, more), signed))))
    return rules


@every_engine
@pytest.mark.parametrize("after", [False, True])
def test_any_number_of_signs_may_follow_each_other(engine: Engine, after: bool) -> None:
    matcher = engine(_signs(after=after).program(), RUNS).matcher()
    masks_are_exact(matcher, RUNS, [b"-" * 30, b"-------x", b"-" * 39, b"x"])
    assert matcher.is_accepting()


ends = st.lists(
    st.tuples(st.text("ab", max_size=2), st.integers(-1, 3), st.sampled_from(["", "", "", "b"])),
    min_size=1,
    max_size=3,
)


@quick
@given(bodies=st.tuples(ends, ends, ends, ends), texts=st.lists(st.text("ab", max_size=8), min_size=20))
def test_the_engines_agree_on_rules_that_end_in_rules(bodies: Any, texts: list[str]) -> None:
    """A rule is letters, perhaps followed by a rule and a letter: completions form chains and cycles."""
    rules = Rules()
    letters = {name: rules.terminal(name, e.literal(name.encode())) for name in "ab"}
    names = [rules.rule(f"rule{number}") for number in range(4)]
    for name, body in zip(names, bodies, strict=True):
        paths = []
        for before, inner, after in body:
            middle = [names[inner]] if inner >= 0 else []
            paths.append(sequence(*map(letters.get, before), *middle, *map(letters.get, after)))
        rules.define(name, alternatives(*paths))
    rules.start = names[0]
    grammars = []
    for engine in ENGINES.values():
        try:
            grammars.append(engine(rules.program(), [b"a", b"b", b"ab", b"bbb"]))
        except GrammarError:
            grammars.append(None)
    assert len({grammar is None for grammar in grammars}) == 1
    for text in texts if grammars[0] is not None else []:
        results = set()
        for grammar in grammars:
            matcher = grammar.matcher()
            length = next(
                (i for i, _ in enumerate(text) if not matcher.accept_bytes(text[i].encode())), len(text)
            )
            results.add((length, matcher.is_accepting(), frozenset(allowed(matcher, 4))))
        assert len(results) == 1


@pytest.mark.skipif(native.load_library() is None, reason="the rows are those of the engine in C")
def test_recursion_at_the_end_of_a_rule_adds_no_rows() -> None:
    grammar = FASTEST(_signs(after=False).program(), RUNS)
    matcher = grammar.matcher()
    rows = []
    for _ in range(4):
        assert matcher.accept(RUNS.index(b"-" * 39))
        allowed(matcher, len(RUNS))
        rows.append(grammar.statistics()["rows"])
    assert rows[0] == rows[-1]


def _words(*, separated: bool) -> Rules:
    """Words, each perhaps with a sign after it; unless separated, they can be split anywhere."""
    rules = Rules()
    rules.start, word, name = rules.rule("start"), rules.rule("word"), rules.rule("name")
    letters = rules.terminal("LETTERS", e.repeat(e.byte_range(97, 110), 1))
    space, sign = rules.terminal("SPACE", e.literal(b" ")), rules.terminal("SIGN", e.literal(b"?"))
    rules.define(name, letters)
    rules.define(word, alternatives(name, sequence(name, sign)))
    rules.define(rules.start, repeated(sequence(word, space) if separated else word))
    return rules


@pytest.mark.skipif(native.load_library() is None, reason="the rows are those of the engine in C")
@pytest.mark.parametrize("separated", [True, False])
def test_the_rows_do_not_count_the_words_of_a_text(separated: bool) -> None:
    tokens = [*LETTERS, b" ", b"?"]
    grammar = FASTEST(_words(separated=separated).program(), tokens)
    matcher = grammar.matcher()
    rows = []
    for _ in range(6):
        for token in (b"abc", b"de", b"?", b" ") if separated else (b"abc", b"de", b"?"):
            assert matcher.accept(tokens.index(token))
            allowed(matcher, len(tokens))
        rows.append(grammar.statistics()["rows"])
    assert rows[1] == rows[-1] < 12


@every_engine
def test_masks_are_exact_where_a_text_can_be_split_anywhere(engine: Engine) -> None:
    tokens = [*LETTERS[::7], b"abc", b" ", b"?", b"a?", b"ab?c", b"a?b?c", b"??"]
    for separated in (True, False):
        matcher = engine(_words(separated=separated).program(), tokens).matcher()
        masks_are_exact(matcher, tokens, [b"abc", b"ab?c"] if not separated else [b"abc", b"?"])
