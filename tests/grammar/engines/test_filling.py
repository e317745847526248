"""Masks of many matchers in one call."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from engine_sampler import UnfinishedError
from engine_sampler.contract import Work, spending
from engine_sampler.grammar import Grammar, fill_masks

from ...bytewise import VOCAB, every_engine, tokenizer_for

WORDS = -(-VOCAB // 32)


def matcher(pattern: str, engine: str) -> Any:
    return Grammar.from_regex(pattern).compile(tokenizer_for(engine)).matcher()


class Everything:
    """Allows every token, and writes where it may."""

    def fill_bitmask(self, bitmask: np.ndarray, row: int = 0) -> None:
        bitmask[:] = -1


class Slow(Everything):
    """Takes 100 steps."""

    bounded = True

    def fill_bitmask(self, bitmask: np.ndarray, row: int = 0, work: Work | None = None) -> None:
        bitmask[:] = -1
        spend = spending(work)
        for _ in range(10):
            spend(10)


class Broken(Everything):
    def fill_bitmask(self, bitmask: np.ndarray, row: int = 0) -> None:
        bitmask[:] = -1
        raise OSError("gone")


@every_engine
def test_each_matcher_fills_its_row_alone(engine: str) -> None:
    bitmask = np.zeros((6, WORDS), np.int32)
    matchers = [matcher("a", engine), Everything(), Broken(), matcher("b", engine)]
    faults = fill_masks(matchers, bitmask, [4, 0, 2, 5])
    assert [(row, str(fault)) for row, fault in faults.items()] == [(2, "gone")]
    expected = np.zeros((2, WORDS), np.int32)
    for row, each in zip(expected, (matchers[0], matchers[3]), strict=True):
        each.fill_bitmask(row[None])
    assert np.array_equal(bitmask[[4, 5]], expected)
    assert (bitmask[0] == -1).all()
    assert not bitmask[[1, 2, 3]].any()


@pytest.mark.parametrize(("steps", "unfinished"), [(50, True), (200, False)])
def test_only_bounded_matchers_are_given_work(steps: int, unfinished: bool) -> None:
    bitmask, work = np.ones((2, WORDS), np.int32), Work(steps, 1000)
    faults = fill_masks([Everything(), Slow()], bitmask, [0, 1], work)
    assert [(row, type(fault)) for row, fault in faults.items()] == [(1, UnfinishedError)] * unfinished
    assert (bitmask[0] == -1).all()
    assert (bitmask[1] == (0 if unfinished else -1)).all()
    assert work.left == 1000 - min(steps, 100)


@every_engine
def test_a_matcher_of_a_larger_vocabulary_fails_alone(engine: str) -> None:
    bitmask = np.zeros((2, 2), np.int32)
    faults = fill_masks([matcher("a", engine), Everything()], bitmask, [0, 1])
    assert "bitmask has the shape (1, 2)" in str(faults.pop(0))
    assert not faults
    assert (bitmask[1] == -1).all()


def test_no_matcher_has_no_fault() -> None:
    assert fill_masks([], np.zeros((0, WORDS), np.int32), []) == {}
