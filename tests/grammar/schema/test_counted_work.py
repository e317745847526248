"""No loop that a schema drives runs for long without counting its work."""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType
from typing import Any

import pytest

from engine_sampler.grammar import work as counting
from engine_sampler.grammar.errors import GrammarError
from engine_sampler.grammar.limits import Limits
from engine_sampler.grammar.schema.compiling import rules_from_schema
from engine_sampler.grammar.work import counted_work

from .random_nests import random_schema

ROUNDS = int(os.environ.get("ENGINE_SAMPLER_TEST_ROUNDS", "1"))

MOST_LINES = 100_000
"""The most lines of Python between two counts: some ten milliseconds."""


class LineMeter:
    """Counts the lines of the package that run between two counts of work.

    longest  the most of them, and where the last one was.
    """

    def __init__(self, work: counting.ReadingWork) -> None:
        self._work = work
        self._left = work.left
        self._lines = 0
        self.longest = (0, "")

    def __call__(self, frame: FrameType, event: str, argument: Any) -> LineMeter | None:
        if "engine_sampler" not in frame.f_code.co_filename:
            return None
        if event == "line":
            self._lines += 1
            if self._work.left != self._left:
                self._left, self._lines = self._work.left, 0
            elif self._lines > self.longest[0]:
                self.longest = self._lines, f"{frame.f_code.co_filename}:{frame.f_lineno}"
        return self


@contextmanager
def metered(reading: int) -> Iterator[LineMeter]:
    with counted_work(Limits(reading=reading)) as work:
        meter = LineMeter(work)
        sys.settrace(meter)
        try:
            yield meter
        finally:
            sys.settrace(None)


def nested_ifs(depth: int) -> dict[str, Any]:
    inner: Any = {"contains": {"const": 99}}
    for n in range(depth):
        inner = {"if": {"contains": {"const": n}}, "then": inner}
    return {**inner, "unevaluatedItems": False}


def conditional(depth: int, min_items: int) -> dict[str, Any]:
    part = nested_ifs(depth)
    return {"if": part, "then": {"minItems": min_items, "not": part}, "else": {"type": "null"}}


HEAVY = {
    "four nested conditions": conditional(4, 1),
    "four nested conditions and three items": conditional(4, 3),
    "many contains": {"allOf": [{"contains": {"const": n}} for n in range(30)]},
    "a long prefix": {"prefixItems": [{"const": n} for n in range(2000)], "contains": {"type": "string"}},
    "many members": {
        "properties": {f"k{n}": {"minimum": n % 50} for n in range(3000)},
        "required": [f"k{n}" for n in range(3000)],
    },
}


@pytest.mark.parametrize("name", HEAVY)
def test_work_is_counted_at_least_every_ten_milliseconds(name: str) -> None:
    with metered(20_000) as meter, suppress(GrammarError):
        rules_from_schema(HEAVY[name]).program()
    assert meter.longest[0] <= MOST_LINES, meter.longest


def test_the_work_of_random_nested_schemas_is_counted() -> None:
    for seed in range(15 * ROUNDS):
        schema = random_schema(random.Random(seed))
        with metered(6000) as meter, suppress(GrammarError):
            rules_from_schema(schema).program()
        assert meter.longest[0] <= MOST_LINES, (seed, meter.longest)


@pytest.mark.parametrize("min_items", [1, 3])
def test_nested_conditions_that_contradict_each_other_are_seen_through(min_items: int) -> None:
    with pytest.raises(GrammarError, match="no value is valid"):
        rules_from_schema(conditional(4, min_items))
