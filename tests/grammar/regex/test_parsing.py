"""Patterns are read as Python's own parser reads them, in linear time."""

from __future__ import annotations

import os
import random
import re
import sys
import warnings
from importlib import import_module
from typing import Any

import pytest

from engine_sampler.grammar.errors import GrammarLimitError
from engine_sampler.grammar.regex.items import (
    ANY,
    ASSERT,
    ASSERT_NOT,
    AT,
    BRANCH,
    CATEGORY,
    CLASS,
    GROUP,
    LAZY_REPEAT,
    LITERAL,
    NEGATED,
    NOT_LITERAL,
    RANGE,
    REPEAT,
    Items,
    PatternError,
    width,
)
from engine_sampler.grammar.regex.parsing import MAX_OPEN, parsed
from engine_sampler.grammar.work import counted_work

ROUNDS = int(os.environ.get("ENGINE_SAMPLER_TEST_ROUNDS", "1"))

CHARACTERS = list("abc.^$|()*+?{}[]-\\ #\n\té1,0")
GROUPS = (
    "(?: (?i: (?i-s: (?-x: (?x: (?= (?! (?<= (?<! (?P<n> (?P<m> (?P=n) (?(1) (?> (?# (?i) (?x) (?sx) (?a)"
)
MORE_GROUPS = "(?u) (?L) (?au: (?- (a) (?:a) (?:ab)* a|b ab|ac abc|abd|ab [ab]|c )"
COUNTS = "{2} {2,} {,3} {1,2} {,} {2,1} {99999999999} a*? a++"
CLASSES = r"[a-z] [^ [] [^] [\d a- -- && || [[a] \d \W \s"
ESCAPES = r"\b \B \A \Z \1 \12 \012 \0 \777 \377 \x41 \x4 \u0041 \U0001f600 \U00110000 \N \q \e \- \."
PIECES = [*CHARACTERS, *" ".join((GROUPS, MORE_GROUPS, COUNTS, CLASSES, ESCAPES)).split()]
PIECES += [r"\N{DIGIT ONE}", r"\N{x}", "\\\n", "# x\n"]

KINDS = {
    "LITERAL": LITERAL,
    "NOT_LITERAL": NOT_LITERAL,
    "ANY": ANY,
    "MAX_REPEAT": REPEAT,
    "MIN_REPEAT": LAZY_REPEAT,
    "ASSERT": ASSERT,
    "ASSERT_NOT": ASSERT_NOT,
}
ANCHORS = {"BEGINNING": "^", "END": "$", "BEGINNING_STRING": "A", "END_STRING": "Z"}
ANCHORS |= {"BOUNDARY": "b", "NON_BOUNDARY": "B"}


class Refused(Exception):
    """Python's parser has read what no automaton can match."""


def items_of_python(pattern: str, flags: int) -> tuple[Items, int, tuple[int, int]]:
    """The items, the flags and the widths of a pattern by Python's own parser."""
    parser: Any = import_module("re._parser")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = parser.parse(pattern, flags)
    least, most = found.getwidth()
    return list(map(item_of_python, found)), found.state.flags, (int(least), int(most))


def item_of_python(item: Any) -> Any:
    kind, value = str(item[0]), item[1]
    if kind == "IN":
        return CLASS, tuple(map(member_of_python, value))
    if kind == "AT":
        return AT, ANCHORS[str(value).removeprefix("AT_")]
    if kind == "SUBPATTERN":
        return GROUP, (value[1], value[2], list(map(item_of_python, value[3])))
    if kind == "BRANCH":
        return BRANCH, [list(map(item_of_python, option)) for option in value[1]]
    if kind not in KINDS:
        raise Refused
    if "REPEAT" in kind:
        low, high, inside = value
        value = low, None if str(high) == "MAXREPEAT" else high, list(map(item_of_python, inside))
    elif "ASSERT" in kind:
        value = value[0] > 0, list(map(item_of_python, value[1]))
    return KINDS[kind], value


def member_of_python(member: Any) -> Any:
    kind, value = str(member[0]), member[1]
    if kind == "CATEGORY":
        letter = str(value).split("_")[-1][0].lower()
        return CATEGORY, letter.upper() if "_NOT_" in str(value) else letter
    return {"NEGATE": NEGATED, "LITERAL": LITERAL, "RANGE": RANGE}[kind], value


@pytest.mark.skipif(
    not hasattr(sys.modules.get("re._parser"), "MAXWIDTH"), reason="this Python computes other widths"
)
@pytest.mark.parametrize("seed", range(2 * ROUNDS))
def test_a_pattern_has_the_items_flags_and_widths_that_python_gives_it(seed: int) -> None:
    random_ = random.Random(seed)
    accepted = 0
    for _ in range(1500):
        pattern = "".join(random_.choices(PIECES, k=random_.randint(1, 8)))
        if "!)" in pattern:  # an empty lookaround, which later versions read to something else
            continue
        flags = random_.choice([0, 0, re.X, re.I, re.A])
        try:
            expected, expected_flags, widths = items_of_python(pattern, flags)
        except (Refused, re.error, OverflowError, ValueError):
            with pytest.raises((PatternError, GrammarLimitError)):
                parsed(pattern, flags)
            continue
        items, found_flags = parsed(pattern, flags)
        assert (items, found_flags, width(items)) == (expected, expected_flags, widths), (pattern, flags)
        accepted += 1
    assert accepted > 100


@pytest.mark.parametrize(
    ("pattern", "reason", "position"),
    [
        ("ab(c", "missing \\), unterminated subpattern", 2),
        ("a)", "unbalanced parenthesis", 1),
        ("a**", "multiple repeat", 2),
        ("^*", "nothing to repeat", 1),
        ("a{3,2}", "min repeat greater than max repeat", 2),
        ("x[a", "unterminated character set", 1),
        (r"[b-\x41]", r"bad character range b-\\x41", 1),
        (r"a\q", r"bad escape \\q", 1),
        ("a\\", "bad escape \\(end of pattern\\)", 1),
        (r"\x4", "incomplete escape", 0),
        (r"\N{NO SUCH}", "undefined character name 'NO SUCH'", 0),
        ("(?P<a b>c)", "bad character in group name 'a b'", 4),
        ("(?P<n>a)(?P<n>b)", "redefinition of group name 'n'", 12),
        ("(?y)", "unknown extension \\?y", 1),
        ("a(?i)", "global flags not at the start", 1),
        ("(?i-i:a)", "turned on and off", 4),
        ("(?iq)", "unknown flag", 3),
        ("a(?#b", "unterminated comment", 1),
        (r"(a)\1", "a backreference cannot be matched", 3),
        ("a(?(1)b)", "a condition on a group cannot be matched", 1),
        ("a(?>b)", "an atomic group cannot be matched", 1),
        ("ab?+", "a possessive quantifier cannot be matched", 2),
    ],
)
def test_a_fault_is_reported_where_it_is(pattern: str, reason: str, position: int) -> None:
    with pytest.raises(PatternError, match=reason) as error:
        parsed(pattern, 0)
    assert error.value.position == position


def test_a_long_name_of_a_group_is_quoted_in_part() -> None:
    with pytest.raises(PatternError) as error:
        parsed(f"(?P<{'a ' * 10_000}>b)", 0)
    assert len(str(error.value)) < 250


def test_nothing_is_written_about_what_may_mean_something_else_one_day() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert parsed("[[a||b&&c~~]", 0)


HALF = 10_000


@pytest.mark.parametrize(
    "pattern",
    [
        "a" * HALF + "|" + "a" * HALF,
        "|".join(["a" * 599] * 100),
        "(?:a)" * (HALF // 5),
        "(?:" * MAX_OPEN + "a" * HALF + ")b" * MAX_OPEN,
        "[" + "ab" * HALF + "]",
        "(?x)#" + "a" * 2 * HALF,
        "(a|b)*?" * (HALF // 4),
    ],
)
def test_the_work_and_the_time_of_reading_a_pattern_grow_with_its_length(pattern: str) -> None:
    """Python's parser removes what alternatives share from the front of lists, one item at a time."""
    with counted_work() as work:
        before = work.left
        parsed(pattern, 0)
    assert len(pattern) <= before - work.left < 10 * len(pattern)


def test_groups_may_not_be_nested_without_end() -> None:
    assert parsed("(?:" * MAX_OPEN + "a" + ")" * MAX_OPEN, 0)[0] == [(LITERAL, ord("a"))]
    with pytest.raises(GrammarLimitError, match=f"more than {MAX_OPEN} deep"):
        parsed("(" * (MAX_OPEN + 1), 0)
