"""`StepLock`: one call at a time changes the requests of a scheduler, and none of them does half of its
work."""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections import deque
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import Any
from weakref import WeakSet

from ...base.errors import INTERRUPTIONS
from ...base.giving_way import begin_step, end_step

logger = logging.getLogger("engine_sampler")

Work = Callable[[], None]


class StepLock:
    """While a step runs, changes that other threads or its own plugins make wait until it ends, and a second
    step is refused. Every other method that changes a request counts as a step, too.

        with step_lock:
            step_lock.if_interrupted(restore)
            ...

    A signal or scarce memory can raise an exception between any two lines, also on the way into and out of a
    `with`. So nothing here relies on being left in order: a call runs as long as Python says so of its frame.
    If it does not come to its end, what it has registered by `if_interrupted` is done, the newest first: at
    once, or, if that is interrupted too, before the next call.

    lock     held for changes of a few lines, by every method that may be called from any thread.
    restore  done after the undoing of an interrupted call; brings order into what is derived from the rest.
    """

    def __init__(self, restore: Work) -> None:
        self.lock: Any = threading.RLock()
        _STEP_LOCKS.add(self)
        self._restore = restore
        self._thread = 0
        self._caller: Any = None
        """The frame of the call that changes requests, on the thread."""
        self._held: object | None = None
        """What names that call if it goes on although its frame has ended: a step has begun, and is not
        finished."""
        self._undoing: list[Work] = []
        """What must be done if that call does not come to its end."""
        self._pending: deque[Work] = deque()
        self._building: list[tuple[int, FrameType]] = []
        """The threads on which requests are built, and the calls that do it."""
        self._builders = _Building(self._building)

    def __enter__(self) -> None:
        with self.lock:
            if self._caller is not None or self._held is not None or self._building:
                self._refuse_while_running()
            self._begin(sys._getframe(1))

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        if kind is not None:
            self._held = None
        elif self._held is not None:
            end_step(self._thread)
            return
        else:
            self._undoing.clear()  # from here on it is done
        self._end()

    def if_interrupted(self, work: Work) -> None:
        """Do `work` if the call that runs now does not come to its end. It may be done more than once."""
        self._undoing.append(work)

    def checkpoint(self) -> None:
        """What the call that runs now has done so far is done, whatever happens to the rest."""
        self._undoing.clear()
        if self._pending:
            with self.lock:
                self._settle()

    def hold(self, name: object) -> None:
        """The call that runs now ends, and still counts as running, until `let_go` or `going_on`."""
        self._held = name
        self._caller = None  # a frame would keep its variables alive

    def let_go(self, name: object) -> None:
        """The call that is held under this name does not go on: what it has registered is undone before the
        next call."""
        if self._held is name:
            self._held = None

    def going_on(self, name: object) -> _GoingOn:
        """The call that is held under this name goes on, and ends, within a `with`; RuntimeError if it is
        not."""
        return _GoingOn(self, name)

    def go_on(self, name: object, caller: FrameType) -> None:
        """The call that is held goes on as that of the frame `caller`."""
        with self.lock:
            if self._held is not name:
                raise RuntimeError("the step is over: it can be finished once")
            self._thread, self._caller = threading.get_ident(), caller
            self._held = None  # until here it can be repeated
            begin_step(self._thread)

    @property
    def running(self) -> bool:
        """Whether a step runs, or has begun."""
        return self._held is not None or (self._caller is not None and _is_running(self._caller))

    def when_idle(self, work: Work) -> None:
        """Do `work` now, or right after the step that is running. Called with the lock held, also by plugins
        of a request that is being built."""
        if self.running:
            self._pending.append(work)
            if self._caller is None:  # it has ended meanwhile
                self.settle()
            return
        self._run(work)

    def after(self, work: Work) -> None:
        """Do `work` after the call that runs now has come to its end. It may be done more than once."""
        self._pending.append(work)

    def cancel(self, work: Work) -> None:
        """Do not do `work`, which may wait, after all."""
        if work in self._pending:
            self._pending.remove(work)

    def settle(self) -> None:
        """Do what waits, and what an interrupted call has left to do, unless a step runs."""
        if self._undoing or self._pending:
            with self.lock:
                if not self.running:
                    self._run(_nothing)

    def building(self) -> _Building:
        """While a request is built on this thread, its plugins cannot start a step; other threads can."""
        return self._builders

    def after_fork(self) -> None:
        """In the child of a fork: refuse all calls if a thread that is not there was inside one of them."""
        is_idle = self._caller is None and self._held is None
        is_own = is_idle or self._thread == threading.get_ident()
        if is_own and self.lock.acquire(blocking=False):
            self.lock.release()
        else:
            self.lock = _LeftBehind()

    # --- inside ----------------------------------------------------------------------------------

    def _begin(self, caller: FrameType) -> None:
        self._thread = thread = threading.get_ident()
        self._caller = caller
        begin_step(thread)
        if self._undoing or self._pending:
            self._settle()

    def _end(self) -> None:
        if self._undoing or self._pending:
            with self.lock:
                self._settle()
        self._caller = None
        end_step(self._thread)
        if self._pending:  # since a moment ago
            self.settle()

    def _run(self, work: Work) -> None:
        """Do `work` as a step, also while a request is built on this thread."""
        self._begin(sys._getframe())
        try:
            work()
            self._undoing.clear()
        finally:
            self._end()

    def _refuse_while_running(self) -> None:
        """Raise `RuntimeError` within a step, and within the building of a request on this thread."""
        thread = threading.get_ident()
        if self._held is not None:
            raise RuntimeError(_BEGUN)
        if self.running:
            raise RuntimeError(_INSIDE if self._thread == thread else _MEANWHILE)
        for builder in [builder for builder in self._building if builder[0] == thread]:
            if _is_running(builder[1]):
                raise RuntimeError(_INSIDE)
            self._building.remove(builder)

    def _settle(self) -> None:
        """Undo what an interrupted call has left half done, then do what waits."""
        if self._undoing:
            self._undo()
        while self._pending:
            work = self._pending[0]
            self._undoing.append(partial(self._put_back, work))
            self._pending.popleft()
            try:
                work()
            except INTERRUPTIONS:
                raise
            except BaseException as error:  # which neither stops the rest nor reaches the caller of the step
                logger.exception("a change that had waited for the end of a step failed")
                if isinstance(error, MemoryError):
                    self._undo()  # and try again with the next call
                    return
                del self._undoing[0]
                self._undo()
            self._undoing.clear()

    def _undo(self) -> None:
        for work in reversed(self._undoing):
            work()
        self._restore()
        self._undoing.clear()

    def _put_back(self, work: Work) -> None:
        """Let `work` wait again."""
        if not self._pending or self._pending[0] is not work:
            self._pending.appendleft(work)


class _GoingOn:
    """Entered and left by the call that finishes what another has begun."""

    def __init__(self, step_lock: StepLock, name: object) -> None:
        self._step_lock, self._name = step_lock, name

    def __enter__(self) -> None:
        self._step_lock.go_on(self._name, sys._getframe(1))

    def __exit__(self, kind: type[BaseException] | None, *error: object) -> None:
        self._step_lock.__exit__(kind, *error)


class _Building:
    """Entered and left by the calls that build requests, also by several threads at a time.

    builders  the threads and the calls that are inside.
    """

    def __init__(self, builders: list[tuple[int, FrameType]]) -> None:
        self._builders = builders

    def __enter__(self) -> None:
        self._builders.append((threading.get_ident(), sys._getframe(1)))

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        self._builders.remove((threading.get_ident(), sys._getframe(1)))


def _nothing() -> None:
    """There is nothing to do."""


def _is_running(frame: FrameType) -> bool:
    """Whether the call of `frame` has not come to its end, on whatever thread. The variables of one that has
    are given up."""
    try:
        frame.clear()
    except RuntimeError:  # a call that runs needs them
        return True
    return False


class _LeftBehind:
    """In place of the lock of a scheduler whose changes nobody finishes."""

    def acquire(self, *, blocking: bool = True) -> bool:
        return False

    def release(self) -> None:
        pass

    def __enter__(self) -> None:
        raise RuntimeError(
            "a thread of the parent was inside this scheduler when the process was forked: create another one"
        )

    def __exit__(self, *error: object) -> None:
        pass


_STEP_LOCKS: WeakSet[StepLock] = WeakSet()


def _leave_behind() -> None:
    for step_lock in list(_STEP_LOCKS):
        step_lock.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_behind)

_ALLOWED = "only add, add_group, accept, remove and look-ups are possible then"
_INSIDE = f"a plugin cannot call this in the middle of a step, or of another call: {_ALLOWED}"
_BEGUN = f"a step of the scheduler has begun, and is not finished: {_ALLOWED}"
_MEANWHILE = f"the scheduler is in the middle of a step, and another thread is inside it: {_ALLOWED}"
