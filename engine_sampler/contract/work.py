"""`Work`: how much a call may do, so that one request does not keep the others of a step waiting."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from typing import TypeVar

from ..base.errors import INTERRUPTIONS, PluginFault, failure

T = TypeVar("T")

REQUEST_WORK = 1_000_000
"""The most steps that one mask or accept may do within one step of a scheduler: at most 20 ms."""

STEP_WORK = 2_500_000
"""The most steps for all of them within one `Scheduler.prepare` or step: at most 50 ms."""

CAPTURE_STEPS_AT_ONCE = 10_000
"""The most steps in which the captures of a text are found within the step of a scheduler: up to 20 ms."""

LEAST_WORK, WORK_PER_TOKEN, ROWS_PER_WORK = 100_000, 3, 24


def step_work(rows: int, vocab_size: int) -> int:
    """The steps for all masks and accepts within a step over this many rows, which then take about as long as
    the rest of it: `WORK_PER_TOKEN` for each token of the vocabulary, and more if there are many rows."""
    per_token = max(WORK_PER_TOKEN, rows // ROWS_PER_WORK)
    return min(max(LEAST_WORK, per_token * vocab_size), STEP_WORK)


class UnfinishedError(RuntimeError):
    """A call has used up the work that it was allowed: nothing has changed, and repeated it continues."""


class Work:
    """What calls may do, in steps of a few nanoseconds each: about 50 to a microsecond.

    each     the steps of one call.
    left     what is left of the steps of all calls together; each call subtracts its own. Below 0 if the last
             one had to do slightly more.
    address  where the two are in memory, each as an int64, `each` first: an engine in C counts there itself.
    """

    __slots__ = ("_numbers", "address")

    def __init__(self, each: int, left: int) -> None:
        self._numbers = array("q", (each, left))
        self.address = self._numbers.buffer_info()[0]

    @property
    def each(self) -> int:
        return self._numbers[0]

    @property
    def left(self) -> int:
        return self._numbers[1]

    def allow(self, each: int, left: int | None = None) -> None:
        """Set `each`, and `left` if it is given."""
        self._numbers[0] = each
        if left is not None:
            self._numbers[1] = left

    def spend(self, steps: int) -> None:
        """Subtract the steps of a call from what is left."""
        self._numbers[1] -= steps

    def __repr__(self) -> str:
        return f"Work(each={self.each}, left={self.left})"


def spending(work: Work | None) -> Callable[[int], None]:
    """A function that counts the steps of one call, which begins now; without `work` it counts nothing.

    It is called before anything is done, with the steps that this will take. It raises UnfinishedError if the
    call has used up what it may do.
    """
    if work is None:
        return _count_nothing
    left = min(work.each, work.left)

    def spend(steps: int) -> None:
        nonlocal left
        if left <= 0:
            raise UnfinishedError("the work allowed at a time is used up")
        left -= steps
        work.spend(steps)

    return spend


def _count_nothing(steps: int) -> None:
    """There is no limit."""


def call_within(work: Work | None, part: str, method: Callable[..., T], *arguments: object) -> T:
    """`method(*arguments, work)`; what it raises becomes a `PluginFault` as in `call_plugin`, except that
    UnfinishedError is raised as it is if there is `work` that can be used up."""
    try:
        return method(*arguments, work)
    except UnfinishedError as error:
        if work is not None:
            raise
        raise PluginFault(failure(part, error)) from error
    except (PluginFault, *INTERRUPTIONS):
        raise
    except BaseException as error:
        raise PluginFault(failure(part, error)) from error
