from __future__ import annotations

import re

import numpy as np
import pytest

from engine_sampler import ParameterError, SamplingParams
from engine_sampler.grammar import GrammarLimitError
from engine_sampler.grammar.plugin.patterns import WORK_PER_TOKEN, PatternMatcher
from engine_sampler.requests import detokenizer

from ...stopping.test_stop import run


@pytest.mark.parametrize(
    ("text", "pattern", "kept"),
    [
        ("a12 34,", r"\d+ \d+,", "a"),
        ("call(f) now", r"\w+\(\w*\)", ""),
        ("x aaa", "a+", "x "),
        ("one\n\ntwo", r"\n\s*\n", "one"),
        ("A Bc", "(?i)b", "A "),
    ],
)
def test_the_text_ends_before_the_match(text: str, pattern: str, kept: str) -> None:
    record, streamed = run(list(text.encode()), stop_regex=pattern)
    assert (record.text, record.stop_reason, record.finish_reason) == (kept, pattern, "stop")
    assert streamed == kept


def test_or_after_it() -> None:
    record, _ = run(list(b"a12;b"), stop_regex=r"\d+;", include_stop_str_in_output=True)
    assert record.text == "a12;"


def test_strings_and_patterns_work_together_and_the_first_wins() -> None:
    record, _ = run(list(b"a1b2"), stop=["b2"], stop_regex=[r"\d[a-z]"])
    assert (record.text, record.stop_reason) == ("a", r"\d[a-z]")
    record, _ = run(list(b"a1b2"), stop=["1b"], stop_regex=[r"\d[a-z]"])
    assert record.stop_reason == "1b"


def test_it_waits_for_min_tokens() -> None:
    record, _ = run(list(b"1,2,3,"), stop_regex=r"\d,", min_tokens=3)
    assert record.text == "1,"


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("a*", "matches the empty text"),
        ("^a", "the text around its match"),
        (r"\bword\b", "the text around its match"),
        ("a(?=b)", "the text around its match"),
        ("(", "regular expression"),
        (r"(a)\1", "."),
        ("[^\\s\\S]", "matches nothing"),
        ("", "none of them empty"),
    ],
)
def test_patterns_that_a_stream_cannot_decide_are_refused(pattern: str, reason: str) -> None:
    with pytest.raises(ParameterError, match=rf"stop_regex=.*{reason}"):
        SamplingParams(stop_regex=pattern)


@pytest.mark.parametrize(
    ("pattern", "limit"),
    [
        ("(" + "|".join(f"(.{{{n}}}){{1,400}}x" for n in range(1, 40)) + ")z", r"256 partial matches of \['"),
        ("(a?){400}(a|aa){300}(b|[ab]{200}c)(.{9}){200}z", "steps in one call|256 partial matches"),
    ],
)
def test_a_pattern_that_is_too_hard_ends_its_request(pattern: str, limit: str) -> None:
    record, _ = run([*b"a"] * 600, stop_regex=pattern)
    assert record.finish_reason == "error"
    assert re.search(limit, record.error or "")


def test_a_long_token_is_told_the_limit_of_one_token() -> None:
    with pytest.raises(GrammarLimitError, match=f"more than {WORK_PER_TOKEN} steps in one call"):
        PatternMatcher(["(a|b)*a(a|b){200}c"]).advance(b"", b"ab" * 50)


def test_a_match_longer_than_the_bound_ends_the_text_but_leaves_what_has_been_streamed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(detokenizer, "MAX_HELD_BYTES", 300)
    text = "x" * 500
    record, streamed = run(list((text + "~~").encode()), stop_regex=r"(.|\n)*~~")
    assert (record.finish_reason, record.stop_reason) == ("stop", r"(.|\n)*~~")
    assert record.text == streamed == "x" * 201


def test_a_partial_match_takes_twelve_bytes_of_a_state() -> None:
    matcher = PatternMatcher(["a.{300}b"])
    letters = np.random.default_rng(0).choice([*b"ac"], 1000).tolist()
    state = matcher.start
    for letter in letters:
        state, _ = matcher.advance(state, bytes([letter]))
    assert len(state) == 12 * letters[-301:].count(ord("a"))
    assert matcher.held(state) == 301 - letters[-301:].index(ord("a"))


def test_patterns_are_refused_before_they_are_compiled_if_they_are_too_long() -> None:
    with pytest.raises(ParameterError, match=r"stop_regex=.*: patterns of at most 4,096 bytes in all"):
        SamplingParams(stop_regex=["ab" * 1500, "cd" * 600])
