from __future__ import annotations

import ctypes
from typing import Any

import pytest

from engine_sampler import UnfinishedError
from engine_sampler.base.errors import PluginFault
from engine_sampler.contract import Work, spending
from engine_sampler.contract.work import call_within


def test_work_is_two_numbers_in_memory() -> None:
    work = Work(30, 100)
    numbers = (ctypes.c_int64 * 2).from_address(work.address)
    assert list(numbers) == [30, 100]
    numbers[1] -= 40
    assert work.left == 60
    work.allow(5)
    assert (list(numbers), repr(work)) == ([5, 60], "Work(each=5, left=60)")
    work.allow(7, 70)
    assert list(numbers) == [7, 70]


@pytest.mark.parametrize(
    ("each", "left", "done"), [(30, 100, 3), (100, 30, 3), (25, 100, 3), (0, 9, 0), (9, 0, 0)]
)
def test_a_call_stops_once_it_has_used_up_what_it_may_do(each: int, left: int, done: int) -> None:
    work = Work(each, left)
    spend = spending(work)
    for _ in range(done):
        spend(10)
    with pytest.raises(UnfinishedError):
        spend(10)
    assert work.left == left - 10 * done


def test_every_call_may_do_as_much_as_the_first_as_long_as_there_is_work() -> None:
    work = Work(20, 50)
    for _ in range(2):
        spend = spending(work)
        spend(15)
        spend(15)
    assert work.left == -10
    with pytest.raises(UnfinishedError):
        spending(work)(1)


def test_without_work_nothing_is_counted() -> None:
    spend = spending(None)
    for _ in range(3):
        spend(10**15)


def raising(error: BaseException) -> Any:
    def method(*arguments: Any) -> None:
        raise error

    return method


def test_only_work_that_can_be_used_up_is_unfinished() -> None:
    assert call_within(Work(1, 1), "a part", lambda x, work: (x, work.left), 3) == (3, 1)
    assert call_within(None, "a part", lambda work: work) is None
    with pytest.raises(UnfinishedError):
        call_within(Work(1, 1), "a part", raising(UnfinishedError("later")))
    with pytest.raises(PluginFault, match="a part failed: UnfinishedError: later"):
        call_within(None, "a part", raising(UnfinishedError("later")))
    with pytest.raises(PluginFault, match="a part failed: OSError: gone"):
        call_within(Work(1, 1), "a part", raising(OSError("gone")))
    with pytest.raises(KeyboardInterrupt):
        call_within(Work(1, 1), "a part", raising(KeyboardInterrupt()))
