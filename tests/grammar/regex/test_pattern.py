"""Regular expressions as languages: the same texts as `re`."""

from __future__ import annotations

import json
import re
import time
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine_sampler.grammar.errors import GrammarError, GrammarLimitError
from engine_sampler.grammar.program.expression import (
    AUTOMATON,
    CONCAT,
    EMPTY,
    LITERAL,
    REPEAT,
    Encoder,
    complement,
)
from engine_sampler.grammar.regex.pattern import PatternLimits, pattern_expression, terminal_expression

from ...conftest import example_count, shared_data
from ..languages import Language

ATOMS = ["a", "b", "1", "é", "ab", ".", "[ab]", "[^a]", "[é-ü]", r"\w", r"\d", r"\s", r"\W", "(?i:B)", "K"]
ANCHORS = ["^", "$", r"\b", r"\B", r"\A", r"\Z", "(?m:^)", "(?m:$)"]
LOOKBEHINDS = ["(?<=a)", "(?<!a)", "(?<=ab)", "(?<!b.)", r"(?<=\w|1)"]
COUNTS = ["*", "+", "?", "{2}", "{1,2}", "{2,}", "*?", "+?", "??", "{1,2}?"]
TEXTS = st.text("ab1éK \n", max_size=6)


def patterns(*atoms: str, ahead: bool = True) -> st.SearchStrategy[str]:
    def larger(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        lookaheads = [st.builds("(?{}{})".format, st.sampled_from("=!"), inner)] if ahead else []
        return st.one_of(
            st.builds("{}{}".format, inner, inner),
            st.builds("(?:{}|{})".format, inner, inner),
            st.builds("({}|{}|)".format, inner, inner),
            st.builds("(?:{}){}".format, inner, st.sampled_from(COUNTS)),
            *lookaheads,
        )

    return st.recursive(st.sampled_from(atoms), larger, max_leaves=8)


@settings(deadline=None, max_examples=example_count(150))
@given(patterns(*ATOMS, ahead=False), st.sampled_from([0, re.S, re.I, re.A]), st.lists(TEXTS, max_size=12))
def test_a_pattern_matches_the_texts_that_re_matches_as_a_whole(pattern, flags, texts):
    language = Language(pattern_expression(pattern, flags=flags))
    for text in texts:
        assert (text in language) == bool(re.fullmatch(pattern, text, flags)), text


@settings(deadline=None, max_examples=example_count(150))
@given(patterns(*ATOMS, *ANCHORS, *LOOKBEHINDS), st.sampled_from([0, re.S]), st.lists(TEXTS, max_size=12))
def test_lookarounds_and_anchors_are_allowed_anywhere(pattern, flags, texts):
    language = Language(pattern_expression(pattern, flags=flags))
    for text in texts:
        assert (text in language) == bool(re.fullmatch(pattern, text, flags)), text


@settings(deadline=None, max_examples=example_count(150))
@given(patterns(*ATOMS, *ANCHORS, *LOOKBEHINDS), st.sampled_from([0, re.M]), st.lists(TEXTS, max_size=12))
def test_a_pattern_is_found_where_re_finds_it(pattern, flags, texts):
    language = Language(pattern_expression(pattern, flags=flags, search=True))
    for text in texts:
        assert (text in language) == bool(re.search(pattern, text, flags)), text


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        ("^a|b$", "ax", True),
        ("^a|b$", "xb", True),
        ("^a|b$", "xax", False),
        ("^(?!.*foo).*$", "a fo o", True),
        ("^(?!.*foo).*$", "a foo", False),
        (r"^((?!\.\.).)*$", "a.b.", True),
        (r"^((?!\.\.).)*$", "a..b", False),
        (r"\bif\b", "an if here", True),
        (r"\bif\b", "iffy", False),
        ("a$", "a\n", True),
        (r"a\Z", "a\n", False),
        ("^(?=.{1,3}$)[a-z]+$", "abc", True),
        ("^(?=.{1,3}$)[a-z]+$", "abcd", False),
        ("(?<=x)y", "xy", True),
        ("(?<=x)y", "yy", False),
    ],
)
def test_where_a_pattern_is_found(pattern, text, found):
    assert (text in Language(pattern_expression(pattern, search=True))) == found


def test_the_complement_of_a_pattern_with_lookarounds_is_the_rest():
    language = Language(complement(pattern_expression(r"^(?!a)\w+$|b(?=c)", search=True)))
    assert "a" in language
    assert "b" not in language
    assert "..bc" not in language


@pytest.mark.parametrize("text", ["k", "K", "\u212a"])
def test_without_ascii_case_goes_beyond_ascii(text):
    assert text in Language(pattern_expression("k", flags=re.I))
    assert (text in Language(pattern_expression("k", flags=re.I | re.A))) == (text != "\u212a")


@pytest.mark.parametrize(
    ("pattern", "right", "wrong"),
    [
        (r"\d+", ["1"], ["\u0661"]),
        (r"\w", ["a"], ["é"]),
        (r"\s", ["\ufeff", "\u2028", "\xa0"], ["\x1c", "\x85"]),
        (r"[\w-.]+", ["a-.", "-"], [","]),
        (r"[a-\d]+", ["a-1"], ["b"]),
        (r"[^\D]", ["1"], ["a"]),
        (r"\cA\x41\u0042\u{43}\u{01F600}", ["\x01ABC\U0001f600"], []),
        (r"\uD83D\uDE00", ["\U0001f600"], []),
        (r"[\uD83D\uDE00-\uD83D\uDE02]", ["\U0001f601"], ["\U0001f603"]),
        (r"\/\-\#", ["/-#"], []),
        ("(?<year>[0-9]{4})-(?<month>[0-9]{2})", ["2024-05"], ["2024"]),
        ("[^]", ["\n", "a"], [""]),
        ("a|[]", ["a"], [""]),
        ("a{,2}|{|}|]", ["a{,2}", "{", "}", "]"], ["a", "aa"]),
        ("x{2}y{1,}z{0,1}", ["xxy", "xxyyz"], ["xy"]),
        ("a.b", ["a b"], ["a\nb", "a\rb", "a\u2028b"]),
        (r"[\b]", ["\b"], ["b"]),
        (r"[[a&&~]", ["[", "&", "~"], ["b"]),
        (r"\p{Lu}\P{L}", ["É1"], ["é1", "ÉÉ"]),
        (r"[\p{L}_]+", ["aé_"], ["1"]),
        (r"\0", ["\x00"], ["0"]),
        (r"(?<=a*)b", ["b"], ["ab"]),
        (r"\ud800|a", ["a"], [""]),
        ("a$", ["a"], ["a\n"]),
        (r"\B", [""], ["a"]),
    ],
)
def test_a_pattern_in_ecmascript_keeps_its_meaning(pattern, right, wrong):
    language = Language(pattern_expression(pattern, dialect="ecma"))
    assert [text for text in right if text not in language] == []
    assert [text for text in wrong if text in language] == []


def test_the_end_anchor_of_ecmascript_does_not_match_before_a_line_feed():
    assert "a\n" not in Language(pattern_expression("a$", dialect="ecma", search=True))
    assert "a\n" in Language(pattern_expression("a$", dialect="ecma", search=True, flags=re.M))


def test_unicode_properties_are_read_in_pythons_dialect_too():
    language = Language(pattern_expression(r"\p{Lu}[\p{Nd}x]\\p{1}"))
    assert "É1\\p" in language
    assert "é1\\p" not in language


@pytest.mark.parametrize(
    ("pattern", "options", "words", "column"),
    [
        ("a(b", {}, "missing \\)", 2),
        ("a\nb)", {}, "unbalanced", 2),
        ("[z-a]", {}, "bad character range", 2),
        (r"\p{L}[z-a]", {}, "bad character range", 7),
        (r"[\p{L}-z]", {}, "bad character range a class-z", 2),
        (r"x\p{Greek}", {}, "no scripts", 2),
        (r"(a)\1", {}, "backreference", 4),
        ("(a)?(?(1)b|c)", {}, "condition", 5),
        ("(?<=a+)b", {}, "fixed-width", None),
        (r"x(?<=\bx)y", {}, "within a lookbehind", None),
        ("(?L)a", {}, "not a regular expression", 4),
        ("a", {"flags": re.L}, "only i, m, s, x, u and a", None),
        ("a", {"flags": re.DEBUG}, "only i, m, s, x, u and a", None),
        ("\ud800", {}, "surrogate", None),
        (r"\p{L}\ud800", {}, "surrogate", None),
        (r"(a)\1", {"dialect": "ecma"}, "backreference", 4),
        (r"(?<n>a)\k<n>", {"dialect": "ecma"}, "backreference", 8),
        (r"\u{61}\d[z-a]", {"dialect": "ecma"}, "bad character range", 10),
        (r"\q", {"dialect": "ecma"}, "bad escape", 1),
        (r"a[\d", {"dialect": "ecma"}, "unterminated", 2),
        (r"\u{110000}", {"dialect": "ecma"}, "no such code point", 1),
        ("a\\", {"dialect": "ecma"}, "end of pattern", 2),
    ],
)
def test_a_pattern_that_cannot_be_read_is_refused_with_its_position(pattern, options, words, column):
    with pytest.raises(GrammarError, match=words) as error:
        pattern_expression(pattern, **options)
    assert error.value.column == column


@pytest.mark.skipif(not hasattr(re, "NOFLAG"), reason="this Python has no possessive quantifiers")
@pytest.mark.parametrize(("pattern", "words"), [("(?>a)", "atomic"), ("a++", "possessive")])
def test_a_construct_that_forbids_backtracking_is_refused(pattern, words):
    with pytest.raises(GrammarError, match=words):
        pattern_expression(pattern)


def test_an_unknown_dialect_is_refused():
    with pytest.raises(ValueError, match="dialect"):
        pattern_expression("a", dialect="pcre")  # type: ignore[arg-type]


def test_a_pattern_of_ten_thousand_words_is_read():
    assert pattern_expression("|".join(f"word{i:04}" for i in range(10_000))) != EMPTY


def test_words_share_their_prefixes():
    words = [f"word{i:04}" for i in range(10_000)]
    for pattern in ["|".join(words), "(?i:" + "|".join(words) + ")"]:
        encoder = Encoder()
        encoder.add(pattern_expression(pattern))
        assert len(encoder.code) < 40_000
        assert "word0815" in Language(pattern_expression(pattern))
        assert "word081" not in Language(pattern_expression(pattern))


WORDS = st.one_of(
    st.text("aaabBk", max_size=4), st.sampled_from(["a?b", "[ab]a", "(?=a)", "ak+", "\u212aa", "."])
)


@settings(deadline=None, max_examples=example_count(60))
@given(
    st.lists(WORDS, min_size=9, max_size=14).map("|".join),
    st.sampled_from(["{}", "(?:{})", "(?:{})b", "a(?:{})?", "(?i:{})", "(?:{}){{2}}"]),
    st.lists(st.text("aabBk\u212a", max_size=6), max_size=12),
)
def test_a_long_choice_keeps_its_texts_and_its_order(options, frame, texts):
    pattern = frame.format(options)
    whole = Language(pattern_expression(pattern))
    try:
        first = Language(terminal_expression(pattern))
    except GrammarError:  # the text after the terminal would decide
        first = None
    for text in texts:
        assert (text in whole) == bool(re.fullmatch(pattern, text)), text
        found = re.match(pattern, text)
        assert first is None or (text in first) == bool(found and found.end() == len(text)), text


@pytest.mark.quick_share(3)
@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("a" * 250_001, "more than 250000"),
        ("(" * 10000 + ")" * 10000, "nested"),
        ("(" * 66 + "a" + ")" * 66, "nested more than 64"),
        ("a{99999999999999999999}", "too large"),
        ("a{4294967294}", "count"),
        ("".join(f"[^{chr(200 + i)}]" for i in range(200)), "128 distinct classes"),
        ("(?:(?!" + "".join(f"(?=.*{c})" for c in "abcdefghijklmn") + ").)*x", "automaton"),
        (r"(?:(?:a|b)*a(?:a|b){20}\b.)+", "4096 states"),
    ],
)
def test_a_pattern_that_exceeds_a_limit_is_refused_and_the_limit_named(pattern, words):
    begin = time.perf_counter()
    with pytest.raises(GrammarLimitError, match=words):
        pattern_expression(pattern)
    assert time.perf_counter() - begin < 10


@pytest.mark.parametrize(
    "pattern",
    [
        "(a|a)*b",
        "((a|a)*|(a|a)*)*b",
        "(((((a*)*)*)*)*)*b",
        "(?:a?){100000}b",
        "(?:(?:a{0,1000}){0,1000}){0,1000}b",
        "(?:" * 60 + "a" + "){0,1000}" * 60 + "b",
    ],
)
def test_nested_loops_stay_small(pattern):
    part = pattern_expression(pattern)
    encoder = Encoder()
    encoder.add(part)
    assert len(encoder.code) < 400
    assert "aab" in Language(part)
    assert "aa" not in Language(part)


def test_limits_can_be_set():
    with pytest.raises(GrammarLimitError, match="more than 3"):
        pattern_expression("aaaa", limits=PatternLimits(length=3))
    with pytest.raises(GrammarLimitError, match="more than 2 states"):
        terminal_expression("aaaa.*?b", limits=PatternLimits(states=2))
    with pytest.raises(GrammarLimitError, match="too much work"):
        terminal_expression("aaaa.*?b", limits=PatternLimits(work=5))


def test_counts_and_literals_are_not_expanded():
    assert pattern_expression("hello") == (LITERAL, b"hello")
    assert pattern_expression("a{3,100000}") == (REPEAT, (LITERAL, b"a"), 3, 100000)


def test_equal_patterns_are_built_once():
    assert pattern_expression(r"[a-z]+\d") is pattern_expression(r"[a-z]+\d")


def test_collected_cases_are_decided_correctly():
    for case in map(json.loads, shared_data("xgrammar_regex.jsonl").read_text().splitlines()):
        language = Language(pattern_expression(case["grammar"], dialect="ecma"))
        for one in case["tests"]:
            assert (one["text"] in language) == one["valid"], (case["grammar"], one["text"])


def test_a_plain_terminal_is_not_an_automaton():
    assert terminal_expression("[a-z]+(?:-[a-z]{2})?")[0] == CONCAT
    assert terminal_expression('".*?"')[0] == AUTOMATON


NEIGHBOURS = [r"a\b", r"\w+\b-?\w*", r"[a-]+\B[b-]+", r"(?:ab|a-)\b.*", r"x(?<=x)b", r"[xb](?<!b)a?"]


@pytest.mark.parametrize("pattern", [*NEIGHBOURS, r"a+\b-\b\w", r"x{1,40}\b[x-]*"])
def test_a_boundary_after_a_text_needs_no_automaton(pattern):
    expression = pattern_expression(pattern)
    assert expression[0] != AUTOMATON
    language = Language(expression)
    for text in ("".join(word) for n in range(5) for word in product("abx-", repeat=n)):
        assert (text in language) == bool(re.fullmatch(pattern, text)), text


def test_a_popular_pattern_of_urls_is_read():
    pattern = (
        r"https?:\/\/(www\.)?[-a-zA-Z0-9@:%._\+~#=]{1,256}\.[a-zA-Z0-9()]{1,6}\b"
        r"([-a-zA-Z0-9()@:%_\+.~#?&//=]*)"
    )
    language = Language(pattern_expression(pattern))
    for text in ("https://www.example.com/a?b=c", "http://a.b)", "http://a", "http://x.yz#", "http://a.)"):
        assert (text in language) == bool(re.fullmatch(pattern, text)), text


ABSORBED = [
    "a{2,5}",
    "a*",
    "(?:a|b*)",
    "a+b?",
    "b?a{1,3}b?",
    "(?:a?){2}",
    "(?:a|bc+)b*",
    "(?:a{2,3}|c)x*",
    "a*b*c+",
]


@pytest.mark.parametrize(
    "pattern", [*ABSORBED, *(f"{one}{other}" for one in ABSORBED for other in ABSORBED[::3])]
)
def test_a_search_finds_what_the_whole_pattern_would(pattern):
    language = Language(pattern_expression(pattern, search=True))
    for text in ("".join(word) for n in range(6) for word in product("abc", repeat=n)):
        assert (text in language) == bool(re.search(pattern, text)), text


def test_counts_at_the_edges_of_a_search_are_not_kept():
    assert pattern_expression("[ab]{1,255}", search=True) == pattern_expression("[ab]", search=True)
    assert pattern_expression("[ab]+c*", search=True) == pattern_expression("[ab]", search=True)
