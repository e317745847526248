"""Terminals: the matches that `re.match` prefers."""

from __future__ import annotations

import re
from importlib.resources import files

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lark.load_grammar import load_grammar

from engine_sampler.grammar.errors import GrammarError, GrammarLimitError
from engine_sampler.grammar.program.expression import AUTOMATON, Encoder
from engine_sampler.grammar.regex.pattern import terminal_expression

from ...conftest import example_count
from ..languages import Language
from .test_pattern import ATOMS, patterns

TEXTS = st.text("ab1é\n", max_size=6)


@settings(deadline=None, max_examples=example_count(300))
@given(patterns(*ATOMS, ahead=False), st.sampled_from([0, re.S, re.I]), st.lists(TEXTS, max_size=12))
def test_a_terminal_matches_the_texts_that_re_matches_as_a_whole(pattern, flags, texts):
    language = Language(terminal_expression(pattern, flags))
    for text in texts:
        found = re.match(pattern, text, flags)
        assert (text in language) == bool(found and found.end() == len(text)), text


LOOKAHEADS = ["(?!a)", "(?!b)", "(?!.b)", r"(?!\w)", "(?!a*1)", r"\Z", "(?m:$)"]


@settings(deadline=None, max_examples=example_count(300))
@given(patterns(*ATOMS, *LOOKAHEADS, ahead=False), TEXTS, st.text("ab1", max_size=3))
def test_a_negative_lookahead_sees_the_text_after_the_terminal(pattern, text, then):
    try:
        part = terminal_expression(pattern)
    except GrammarError:  # the text after the terminal would decide
        return
    alone, followed = re.match(pattern, text), re.match(pattern, text + then)
    matches = bool(alone and alone.end() == len(text))
    if text + then in Language(part, then):
        assert matches
    else:
        assert not (matches and followed and followed.end() == len(text))


@pytest.mark.parametrize(
    ("pattern", "right", "wrong"),
    [
        ('".*?"', ['"a"', '""'], ['"a"b"']),
        (r'".*?(?<!\\)(\\\\)*?"', ['"a"', r'"a\"b"', r'"a\\"'], [r'"a\"', '"a"b"']),
        ("a|ab", ["a"], ["ab"]),
        ("(a|ab)c?", ["a", "ac"], ["ab", "abc"]),
        ("a?(?:ab)?", ["", "a", "aab"], ["ab"]),
        ("a*?", [""], ["a"]),
        ("a*?$", ["", "aa"], []),
        ("(a*?|b)*", [""], ["b"]),
        ("/[*].*?[*]/", ["/**/", "/* x */"], ["/**/ */"]),
        (r"(?!(?:if|else)\b)[a-z]+", ["iffy", "x", "i"], ["if", "else"]),
        (r"if\b", ["if"], ["i"]),
    ],
)
def test_a_terminal_has_the_preferred_matches_only(pattern, right, wrong):
    language = Language(terminal_expression(pattern))
    assert [text for text in right if text not in language] == []
    assert [text for text in wrong if text in language] == []


@pytest.mark.parametrize(
    ("pattern", "text", "then", "accepted"),
    [
        (r"if\b", "if", "f", False),
        (r"if\b", "if", " ", True),
        ('"(?!"").*?"', '""', '"', False),
        ('"(?!"").*?"', '""', "x", True),
        ("[?](?![a-z])", "?", "a", False),
        ("[?](?![a-z])", "?", "A", True),
        (r"(?!(?:if|else)\b)[a-z]", "i", "f ", False),
        (r"(?!(?:if|else)\b)[a-z]", "i", "ff", True),
        ("#.*?$", "#a", "b", False),
        ("#.*?(?m:$)", "#a", "\nb", True),
        ("a(?!b)|ab", "a", "b", False),
        ("a(?!b)|ab", "a", "c", True),
        ("a(?!b)|ab", "ab", "c", True),
        ("a(?!b)|a(?!c)", "a", "b", True),
        ("a+$", "aa", "\n", True),
        ("a+$", "aa", "\n\n", False),
    ],
)
def test_the_text_after_a_terminal_decides(pattern, text, then, accepted):
    assert (text + then in Language(terminal_expression(pattern), then)) == accepted


@pytest.mark.parametrize(
    ("pattern", "words"),
    [
        ("^a", "before a terminal"),
        (r"\bif", "before a terminal"),
        ("(?<=x)a", "before a terminal"),
        ("(?<!ab)b", "before a terminal"),
        ("a(?=b)", "beyond the end"),
        (r"-\b", "beyond the end"),
        ("a(?!bc)|ab", "beyond the end"),
    ],
)
def test_a_terminal_that_depends_on_unknown_text_is_refused(pattern, words):
    with pytest.raises(GrammarError, match=words):
        terminal_expression(pattern)


def test_a_lookbehind_may_examine_the_text_of_its_own_terminal():
    language = Language(terminal_expression("[ab]b(?<!ab)c"))
    assert "bbc" in language
    assert "abc" not in language


def test_too_many_distinct_lookaheads_at_the_end_are_refused():
    many = "|".join(f"{chr(0x400 + i)}(?!{chr(0x400 + i)}*x)" for i in range(40))
    with pytest.raises(GrammarLimitError, match="32 distinct lookaheads"):
        terminal_expression(f"(?:{many})b*?")


KEYWORDS = [f"k{i}w" for i in range(200)]


@pytest.mark.parametrize(
    "pattern",
    [
        rf"(?!(?:{'|'.join(KEYWORDS)})\b)[a-z0-9]+",
        rf"(?!(?:{'|'.join(KEYWORDS)})$)[a-z0-9]+",
        f"(?!(?:{'|'.join(KEYWORDS)})(?![a-z0-9]))[a-z0-9]+",
        "".join(rf"(?!{word}\b)" for word in KEYWORDS) + "[a-z0-9]+",
        rf"(?!(?:{'|'.join(KEYWORDS)})\b)[a-z0-9]+\b",
        rf"(?!(?:{'|'.join(KEYWORDS)})\b)[a-z0-9]+|-",
        rf"@(?!(?:{'|'.join(KEYWORDS)})\b)[a-z0-9]+",
    ],
)
def test_any_number_of_keywords_can_be_excluded_at_the_beginning(pattern):
    at = pattern[0].strip("(")
    language = Language(terminal_expression(pattern))
    assert not any(at + word in language for word in KEYWORDS[::20])
    for word in ("k", "k1", "k1wx", "k200w", "x"):
        assert at + word in language
    assert at + "k1" not in Language(terminal_expression(pattern), "w ")


@pytest.mark.parametrize("name", ["common", "unicode", "python", "lark"])
def test_the_terminals_of_larks_own_grammars_are_read(name):
    text = files("lark").joinpath("grammars", f"{name}.lark").read_text(encoding="utf-8")
    grammar, _ = load_grammar(text, name, [], False)
    for one in grammar.compile([], "*")[0]:
        if one.name == "_STRING_ESC_INNER":  # it begins with a lookbehind, so it is of no use alone
            continue
        encoder = Encoder()
        encoder.add(terminal_expression(one.pattern.to_regexp()))
        assert len(encoder.code) < 10000, one.name


def test_an_automaton_is_small():
    part = terminal_expression(r'".*?(?<!\\)(\\\\)*?"')
    assert part[0] == AUTOMATON
    assert len(part[1]) < 30
