"""One counter for all front ends, whatever reads the parts of a grammar."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest

from engine_sampler import SamplingParams, Scheduler
from engine_sampler.grammar.errors import GrammarLimitError
from engine_sampler.grammar.grammar import Grammar
from engine_sampler.grammar.limits import Limits
from engine_sampler.grammar.program.unicode import ranges
from engine_sampler.grammar.work import counted_work, half_of_work, limited_work, spend


def test_a_nested_call_counts_against_the_same_limit() -> None:
    with counted_work(Limits(reading=10)), counted_work(Limits(reading=1000)):
        spend(10)
        with pytest.raises(GrammarLimitError, match="more than 10 steps"):
            spend(1)


def test_the_next_grammar_starts_afresh() -> None:
    for _ in range(3):
        with counted_work(Limits(reading=10)) as work:
            spend(10)
            assert work.left == 0


def test_a_reading_that_is_interrupted_as_it_begins_counts_no_later_one() -> None:
    counted_work(Limits(reading=10)).__enter__()
    spend(1_000)
    with counted_work(Limits(reading=2_000)) as work:
        spend(1_000)
    assert work.left == 1_000
    assert Grammar.from_lark('start: "a"').check("a").valid


def test_nothing_is_counted_outside_of_a_grammar() -> None:
    spend(10**9)


def test_a_grammar_that_exceeds_the_stack_is_a_grammar_error() -> None:
    def deep() -> Any:
        return deep()

    with pytest.raises(GrammarLimitError, match="too deep"), counted_work():
        deep()


PATTERN = r"(?:\ba{2,90}\b|b)*"
READERS = {
    "regex": lambda n: Grammar.from_regex("|".join(PATTERN + str(i) for i in range(n))),
    "lark": lambda n: Grammar.from_lark("\n".join(f"T{i}: /{PATTERN}{i}/" for i in range(n)) + "\nstart: T0"),
    "schema": lambda n: Grammar.from_json_schema(
        {"properties": {f"k{i}": {"type": "string", "pattern": f"{PATTERN}{i}"} for i in range(n)}}
    ),
    "choices": lambda n: Grammar.from_choices([f"choice {i}" for i in range(n)]),
    "tag": lambda n: Grammar.from_structural_tag(
        {
            "format": {
                "type": "or",
                "elements": [{"type": "regex", "pattern": f"{PATTERN}{i}"} for i in range(n)],
            }
        }
    ),
}


@pytest.mark.parametrize("name", READERS)
def test_every_front_end_counts_from_the_first_byte_on(name: str) -> None:
    with pytest.raises(GrammarLimitError, match=r"Limits\.reading"), counted_work(Limits(reading=200)):
        READERS[name](37)


def steps_of(text: str, lexer: Any = "dynamic_complete") -> int:
    with counted_work(Limits(reading=10**9)) as work:
        Grammar.from_lark(text, lexer=lexer)
        return 10**9 - work.left


@pytest.mark.parametrize("lexer", ["dynamic_complete", "contextual"])
def test_alternatives_of_a_terminal_are_counted_at_every_level(lexer: str) -> None:
    """Lark parses what they are joined of, to sort them by length."""
    words = " | ".join(f'"{i}xxxxxxxxxxxxxxxxxxxx"' for i in range(100))
    flat = steps_of(f"start: A\nA: {words}", lexer)
    deep = steps_of(
        "start: A\nA: " + "(" * 20 + words + "".join(f' | "{c}")' for c in "abcdefghijklmnopqrst"), lexer
    )
    assert deep > flat + 20 * len(words) // 2


def test_ignored_terminals_are_counted_by_their_pairs() -> None:
    few, many = (
        steps_of('start: "a"\n' + "\n".join(f'%ignore "{i}"' for i in range(100, 100 + n))) for n in (50, 400)
    )
    assert many > 8 * few + 400**2 // 16


def test_large_classes_are_counted_by_their_ranges() -> None:
    with counted_work(Limits(reading=10**6)) as work:
        ranges((code, code) for code in range(0, 16_000, 2))
    assert work.left == 10**6 - 1000


def test_the_collector_of_the_host_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def touched(*arguments: object) -> None:
        raise AssertionError("the collector of garbage belongs to the host")

    with monkeypatch.context() as patched:
        for name in ("disable", "enable", "collect", "freeze", "set_threshold"):
            patched.setattr(gc, name, touched)
        for read in READERS.values():
            read(3)
        scheduler = Scheduler(vocab_size=9)
        scheduler.add(SamplingParams(max_tokens=1), [1])
        scheduler.step(np.zeros((1, 9), np.float32))
    assert gc.isenabled()


def test_what_is_not_worth_the_rest_of_the_work_leaves_half_of_it() -> None:
    with counted_work(Limits(reading=1000)) as work:
        spend(200)
        with pytest.raises(GrammarLimitError, match=r"Limits\.reading"), half_of_work():
            spend(401)
        assert work.left == 400
        with half_of_work():
            spend(100)
        assert work.left == 300
        spend(300)
        with pytest.raises(GrammarLimitError, match=r"Limits\.reading"):
            spend(1)


def test_part_of_the_work_may_be_limited() -> None:
    with counted_work(Limits(reading=100)) as work:
        spend(10)
        with limited_work(20) as part:
            spend(20)
        assert not part.is_spent
        assert work.left == 70
        with limited_work(20) as part:
            spend(21)
            raise AssertionError("not reached")
        assert part.is_spent
        assert work.left == 50


def test_a_limit_of_a_part_is_no_way_around_the_whole_limit() -> None:
    with (
        counted_work(Limits(reading=10)),
        pytest.raises(GrammarLimitError, match="more than 10 steps"),
        limited_work(20),
    ):
        spend(11)


@pytest.mark.parametrize(
    "error", [GrammarLimitError("another limit"), ValueError("no limit")], ids=["limit", "fault"]
)
def test_other_errors_leave_a_limited_part(error: Exception) -> None:
    def fail() -> None:
        with limited_work(20):
            spend(5)
            raise error

    with counted_work(Limits(reading=100)) as work:
        with pytest.raises(type(error), match=str(error)):
            fail()
        assert work.left == 95


def test_outside_of_a_grammar_a_part_is_not_limited() -> None:
    with limited_work(1) as part:
        spend(10**6)
    assert not part.is_spent
