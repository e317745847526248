"""What `re.match` matches of a text, for any pattern and every lookaround in it."""

from __future__ import annotations

import os
import random
import re

import pytest

from engine_sampler.grammar.errors import GrammarError, GrammarLimitError
from engine_sampler.grammar.regex.pattern import whole_texts
from engine_sampler.grammar.regex.tree import parse
from engine_sampler.grammar.regex.whole_text import WholeText
from engine_sampler.grammar.work import counted_work

from ..lark.contextual.test_lexer_order import random_pattern

ROUNDS = int(os.environ.get("ENGINE_SAMPLER_TEST_ROUNDS", "1"))


@pytest.mark.parametrize("seed", range(3 * ROUNDS))
def test_a_text_is_matched_as_a_whole_where_re_prefers_that(seed: int) -> None:
    draw = random.Random(seed)
    for _ in range(40):
        pattern = random_pattern(draw, 4)
        is_matched = whole_texts(pattern)
        for text in ("".join(draw.choices("aabAé\n", k=draw.randint(0, 6))) for _ in range(6)):
            found = re.match(pattern, text)
            assert is_matched(text) == (found is not None and found.group() == text), (pattern, text)


def test_a_lookahead_within_another_sees_the_end_of_the_text() -> None:
    is_matched = whole_texts("b(?:(?!$)|a+)")
    assert (is_matched("baa"), is_matched("b")) == (False, False)
    is_matched = whole_texts(r"(?!(?:in|is)\b)[a-z]+")
    assert [word for word in ("in", "is", "inn", "a", "") if is_matched(word)] == ["inn", "a"]


def test_a_text_that_repeats_itself_is_read_in_little_work() -> None:
    with counted_work() as work:
        is_matched = whole_texts("(?:a(?=(?:a+)+(?!$)|b)|a)*c")
        before = work.left
        assert not is_matched("a" * 10_000)
    assert before - work.left < 10_000


def test_what_cannot_be_followed_is_refused() -> None:
    with pytest.raises(GrammarError, match="within a lookbehind"):
        whole_texts(r"a(?<=\ba)")
    many = "(?:(?!" + "".join(f"(?=.*{c})" for c in "abcdefghijklmn") + ").)*x"
    with pytest.raises(GrammarLimitError, match="too much work"):
        WholeText(parse(many, 0, False, {}), 2000).is_matched("abcdefghijklm" * 100)
