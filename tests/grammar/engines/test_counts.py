"""Intersections with counts: exact, and without as many steps as the counts are high."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import product
from random import Random
from typing import Any

import numpy as np
import pytest

from engine_sampler import Tokenizer
from engine_sampler.contract import Work
from engine_sampler.grammar import Grammar, Limits
from engine_sampler.grammar.engines import native
from engine_sampler.grammar.errors import GrammarError
from engine_sampler.grammar.program import expression as e
from engine_sampler.grammar.program.rules import Rules
from engine_sampler.grammar.regex.pattern import pattern_expression

from ..both_engines import ENGINES, Engine, allowed, every_engine, tried

TOKENS = [b"".join(some) for size in (1, 2, 3) for some in product([b"a", b"b", b"c", b'"'], repeat=size)]
TOKENS += [letter * count + end for letter in (b"a", b"b") for count in (5, 9, 30) for end in (b"", b'"')]
MEMBERS = (
    "a",
    "ab",
    "[ab]c",
    "^a",
    "c$",
    "a.*b",
    "(ab|c)+a",
    "b{2,4}c",
    "^(a|bc)*$",
    "^[^c]*$",
    "^(a+b)*a?$",
)

REALISTIC: dict[str, dict[str, Any]] = {
    "a password": {
        "allOf": [{"pattern": "[A-Z]"}, {"pattern": "[a-z]"}, {"pattern": "[0-9]"}],
        "minLength": 8,
        "maxLength": 64,
    },
    "a password of four kinds": {
        "allOf": [{"pattern": kind} for kind in ("[A-Z]", "[a-z]", "[0-9]", "[^A-Za-z0-9]")],
        "minLength": 8,
        "maxLength": 64,
    },
    "an address at an authority": {
        "pattern": r"^[^@^\s]+@[^@^\.^\s]+(\.[^@^\.^\s]*)*.gov.uk",
        "maxLength": 254,
    },
    "an address": {"pattern": r"^[^@\s]+@[^@\s]+\.[^@\s]+$", "maxLength": 254},
    "two patterns": {"allOf": [{"pattern": "[a-z]+ing"}, {"pattern": "foo|bar[0-9]"}], "maxLength": 1000},
    "one pattern in a long text": {"pattern": "[a-z]+[0-9]", "maxLength": 100_000},
    "a text that is longer": {"allOf": [{"pattern": "[A-Z]"}, {"pattern": "[0-9]"}], "minLength": 10**6},
}
TEXT = '"Jane.Doe7@foo-sing.cabinet.gov.uk"'


def of_terminal(part: e.Expression) -> Rules:
    """A grammar of one terminal and a quote."""
    rules = Rules()
    rules.start = rules.rule("start")
    rules.define(rules.start, rules.terminal("T", e.concat(part, e.literal(b'"'))))
    return rules


def random_members(random: Random) -> list[tuple[str, bool]]:
    """Some patterns, and whether each has to be found or must not be found."""
    return [(random.choice(MEMBERS), random.random() < 0.8) for _ in range(random.randrange(1, 4))]


def intersection(members: list[tuple[str, bool]], low: int, high: int | None) -> e.Expression:
    """The texts of a, b and c of such a length that satisfy all members."""
    parts = [pattern_expression(pattern, search=True) for pattern, _ in members]
    wanted = [part if found else e.complement(part) for part, (_, found) in zip(parts, members, strict=True)]
    letter = e.byte_range(ord("a"), ord("c"))
    return e.both(*wanted, e.repeat(letter, low, high))


def texts_of(members: list[tuple[str, bool]], low: int, high: int) -> Iterator[bytes]:
    """The same texts, by Python's `re`."""
    for length in range(low, high + 1):
        for letters in product("abc", repeat=length):
            text = "".join(letters)
            if all(bool(re.search(pattern, text)) == found for pattern, found in members):
                yield text.encode()


def all_begins(texts: set[bytes]) -> set[bytes]:
    return {text[:size] for text in texts for size in range(len(text) + 1)}


@every_engine
@pytest.mark.parametrize("seed", range(24))
def test_masks_are_those_of_the_counted_texts(seed: int, engine: Engine) -> None:
    random = Random(seed)
    members, high = random_members(random), random.randrange(1, 7)
    low = random.choice((0, 0, high, random.randrange(high + 1)))
    texts = {text + b'"' for text in texts_of(members, low, high)}
    program = of_terminal(intersection(members, low, high)).program()
    if not texts:
        with pytest.raises(GrammarError):
            engine(program, TOKENS).matcher()
        return
    grammar, begins = engine(program, TOKENS), all_begins(texts)
    for path in random.sample(sorted(begins), min(12, len(begins))):
        matcher = grammar.matcher()
        assert not path or matcher.accept_bytes(path)
        expected = {token for token, text in enumerate(TOKENS) if path + text in begins}
        assert allowed(matcher, len(TOKENS)) == expected, (members, low, high, path)


@pytest.mark.skipif(len(ENGINES) < 2, reason="the native library is missing")
@pytest.mark.parametrize("seed", range(10))
def test_high_counts_are_exact_up_to_their_bounds(seed: int) -> None:
    random = Random(seed)
    members, high = random_members(random)[:2], random.choice((13, 40, 64))
    low = random.choice((0, 8, high))
    program = of_terminal(intersection(members, low, high)).program()
    try:
        matchers = [engine(program, TOKENS).matcher() for engine in ENGINES.values()]
    except GrammarError:
        return
    for _ in range(high + 1):
        masks = [allowed(matcher, len(TOKENS)) for matcher in matchers]
        assert masks[0] == masks[1] == tried(matchers[1], len(TOKENS)), (members, low, high)
        if not (choices := [token for token in sorted(masks[0]) if b'"' not in TOKENS[token]]):
            break
        token = random.choice(choices)
        assert all(matcher.accept(token) for matcher in matchers)


FAR = 18
"""How far the letter a is from the end: 2**18 derivatives tell the texts apart."""
CHARACTERS = ["a", "b", "é", "ab", "bé", "aa", '"']


def can_become(text: str, low: int, high: int) -> bool:
    """Whether a text, closed or not, can be one of such a length with an a FAR from its end."""
    known = text.rstrip('"')
    lengths = [len(known)] if known != text else range(len(known), high + 1)
    ends = (size for size in lengths if low <= size <= high and size > FAR)
    return any(size - 1 - FAR >= len(known) or known[size - 1 - FAR] == "a" for size in ends)


@pytest.mark.skipif(native.load_library() is None, reason="the native library is missing")
@pytest.mark.parametrize(("low", "high"), [(0, 20), (0, 36), (8, 64), (19, 19), (26, 27), (36, 1000)])
def test_a_letter_far_from_the_end_of_a_counted_text_is_exact(low: int, high: int) -> None:
    """The derivatives are too many: their alternatives are searched."""
    given = {"pattern": f"^[abé]*a[abé]{{{FAR}}}$", "minLength": low, "maxLength": high}
    vocabulary = [*CHARACTERS, *map(chr, range(128))]
    tokenizer = Tokenizer([*(piece.encode() for piece in vocabulary), b"<eos>"], [len(vocabulary)])
    compiled = Grammar.from_json_schema({"type": "string", **given}).compile(tokenizer)
    for seed in range(3):
        random, text, matcher = Random(seed), "", compiled.matcher()
        assert matcher.accept_bytes(b'"')
        while not text.endswith('"'):
            masked = {token for token in allowed(matcher, len(tokenizer)) if token < len(CHARACTERS)}
            assert masked == {i for i, more in enumerate(CHARACTERS) if can_become(text + more, low, high)}, (
                text
            )
            token = random.choice(sorted(masked))
            text += CHARACTERS[token]
            assert matcher.accept(token)


@pytest.mark.parametrize("high", [9, 30, 200, None])
@pytest.mark.skipif(len(ENGINES) < 2, reason="the native library is missing")
def test_a_count_of_what_is_no_code_is_exact(high: int | None) -> None:
    """How often a text that begins another one occurs is not determined by the text."""
    letters = e.union(*map(e.literal, (b"a", b"ab", b"bb")))
    part = e.both(e.repeat(letters, 6, high), pattern_expression("ab+a", search=True))
    program = of_terminal(part).program()
    matchers = [engine(program, TOKENS).matcher() for engine in ENGINES.values()]
    for token in (b"ab", b"b", b"aba", b"bb", b"b", b"a"):
        masks = [allowed(matcher, len(TOKENS)) for matcher in matchers]
        assert masks[0] == masks[1] == tried(matchers[1], len(TOKENS))
        if TOKENS.index(token) in masks[0]:
            assert all(matcher.accept(TOKENS.index(token)) for matcher in matchers)


@pytest.fixture(scope="module")
def vocabulary() -> native.NativeVocabulary:
    random = Random(7)
    letters = 'abcdeghiknorstuABJ0123456789@.- "\\,:_é中'
    words = {"".join(random.choices(letters, k=random.randrange(2, 9))).encode() for _ in range(9000)}
    tokens = [*(bytes([byte]) for byte in range(256)), *sorted(words), b" " * 90, b"</s>"]
    tokenizer = Tokenizer(tokens, [len(tokens) - 1])
    return native.NativeVocabulary(tokenizer, Limits())


@pytest.mark.skipif(native.load_library() is None, reason="the native library is missing")
@pytest.mark.parametrize("name", REALISTIC)
def test_realistic_counts_take_little_work(name: str, vocabulary: native.NativeVocabulary) -> None:
    program = Grammar.from_json_schema({"type": "string", **REALISTIC[name]}).program
    matcher = native.NativeGrammar(program, vocabulary, Limits(work=1_000_000)).matcher()
    bitmask = np.zeros((1, vocabulary.words), np.int32)
    for byte in TEXT.encode():
        matcher.fill_bitmask(bitmask, 0, Work(1_000_000, 1_000_000))
        may_follow = bool(bitmask[0, byte // 32] >> byte % 32 & 1)
        assert matcher.accept(byte) == may_follow
        assert may_follow or (byte, name) == (TEXT.encode()[-1], "a text that is longer")
    assert matcher.is_accepting() == may_follow


@pytest.mark.skipif(native.load_library() is None, reason="the native library is missing")
def test_tokens_that_differ_in_where_a_letter_is_are_not_read_one_by_one() -> None:
    """Every place of a letter is another derivative: read one by one, they take 108 million steps."""
    random = Random(3)
    pieces = sorted({bytes(random.choices(b"abc", k=random.randint(2, 12))) for _ in range(8000)})
    tokenizer = Tokenizer([*(bytes([byte]) for byte in range(256)), *pieces, b"<eos>"], [256 + len(pieces)])
    schema = {"type": "string", "pattern": "^.*a.{30}b$", "minLength": 8, "maxLength": 64}
    matcher = Grammar.from_json_schema(schema).compile(tokenizer).matcher()
    bitmask = np.zeros((1, (len(tokenizer) + 31) // 32), np.int32)
    steps = []
    for byte in b'"' + b"ab ca1" * 10:
        work = Work(10**8, 10**8)
        matcher.fill_bitmask(bitmask, 0, work)
        steps.append(10**8 - work.left)
        assert matcher.accept(byte)
    assert max(steps) < 3_000_000
    assert sum(steps) < 25_000_000
