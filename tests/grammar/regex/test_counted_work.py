"""No loop that a pattern drives runs for long without counting its work."""

from __future__ import annotations

import os
import random
from contextlib import suppress

import pytest

from engine_sampler.grammar.errors import GrammarError
from engine_sampler.grammar.regex.pattern import Dialect, pattern_expression

from ..schema.test_counted_work import MOST_LINES, metered
from .random_patterns import WIDE_LETTERS, joined, random_pattern

ROUNDS = int(os.environ.get("ENGINE_SAMPLER_TEST_ROUNDS", "1"))

HEAVY: dict[tuple[Dialect, str], str] = {
    ("python", "a large class"): f"[{WIDE_LETTERS}]+",
    ("python", "many optional letters"): r"\b" + "a?" * 2000 + "a" * 2000,
    ("python", "a long word"): rf"\b{'xy' * 4000}\b",
    ("python", "many look-aheads"): joined("", "(?!w{n}x)", 1500) + r"\w+",
    ("python", "many positive look-aheads"): joined("", "(?=.*w{n})", 300) + ".*",
    ("ecma", "many properties"): r"\p{L}\P{Lu}" * 200,
    ("ecma", "many boundaries"): r"\b\w+\b " * 800,
}


@pytest.mark.quick_share(3)
@pytest.mark.parametrize(("dialect", "name"), HEAVY)
def test_work_is_counted_at_least_every_ten_milliseconds(dialect: Dialect, name: str) -> None:
    with metered(100_000) as meter, suppress(GrammarError):
        pattern_expression(HEAVY[dialect, name], dialect=dialect)
    assert meter.longest[0] <= MOST_LINES, meter.longest


@pytest.mark.parametrize("dialect", ["python", "ecma"])
def test_the_work_of_random_nested_patterns_is_counted(dialect: Dialect) -> None:
    for seed in range(8 * ROUNDS):
        pattern = random_pattern(random.Random(seed))
        with metered(8000) as meter, suppress(GrammarError):
            pattern_expression(pattern, dialect=dialect)
        assert meter.longest[0] <= MOST_LINES, (seed, meter.longest)
