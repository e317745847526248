"""Compiled patterns and enumerations as texts."""

from __future__ import annotations

import enum
import re
from typing import Any, Literal

import pytest

from engine_sampler.base.python_types import choice_texts, pattern_text


@pytest.mark.parametrize(
    ("pattern", "text"),
    [
        ("a", "a"),
        (re.compile("a"), "a"),
        (re.compile("a.b", re.S | re.I), "(?is)a.b"),
        (re.compile("(?i)a"), "(?i)a"),
        (re.compile("(?i)a", re.S), "(?is)a"),
        (re.compile("(?i:a)b", re.S), "(?s)(?i:a)b"),
    ],
    ids=str,
)
def test_a_pattern_keeps_its_flags(pattern: Any, text: str) -> None:
    assert pattern_text(pattern) == text
    assert re.compile(text).flags == re.compile(pattern).flags


@pytest.mark.parametrize("pattern", [re.compile(b"a"), 1], ids=["bytes", "number"])
def test_other_patterns_are_refused(pattern: Any) -> None:
    with pytest.raises(TypeError, match="a compiled pattern of strings"):
        pattern_text(pattern)


def test_an_enumeration_stands_for_its_values() -> None:
    assert choice_texts(enum.Enum("Size", {"SMALL": "small", "TWO": 2})) == ["small", "2"]
    assert choice_texts(Literal["small", 2]) == ["small", "2"]
    assert choice_texts({"a": 1}) == {"a": 1}


@pytest.mark.parametrize("choices", [enum.Enum("Odd", {"HALF": 0.5}), Literal[True], Literal[None]], ids=str)
def test_values_that_are_no_texts_are_refused(choices: Any) -> None:
    with pytest.raises(ValueError, match="texts or integers"):
        choice_texts(choices)
