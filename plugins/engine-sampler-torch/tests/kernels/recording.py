"""Graphs on a device that has none: operations of torch and launches are noted, and done again in the same
memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from engine_sampler_torch.kernels import launching, logprobs, outcome, replay, revise, sampling
from engine_sampler_torch.running import captured
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves


class Recording(TorchDispatchMode):
    """What is done while the context lasts; `replay` does it again."""

    def __init__(self) -> None:
        super().__init__()
        self._done: list[Callable[[], None]] = []
        self._is_paused = False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if not self._is_paused and "empty" not in func.overloadpacket.__name__:
            self.note(lambda: _write(func(*args, **(kwargs or {})), result))
        return result

    def note(self, work: Callable[[], Any]) -> None:
        self._done.append(work)

    @contextmanager
    def paused(self) -> Iterator[None]:
        self._is_paused = True
        try:
            yield
        finally:
            self._is_paused = False

    def replay(self) -> None:
        for work in self._done:
            work()


def _write(again: Any, before: Any) -> None:
    for new, old in zip(tree_leaves(again), tree_leaves(before), strict=True):
        if isinstance(new, torch.Tensor) and new.data_ptr() != old.data_ptr():
            old.copy_(new)


class Graphs:
    """Counts what is captured and started on the CPU."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.captured = self.started = 0
        self.fails = False
        self._current: Recording | None = None
        real = launching.launch

        def launch(*arguments: Any, **options: Any) -> Any:
            current = self._current
            if current is None:
                return real(*arguments, **options)
            with current.paused():
                compiled = real(*arguments, **options)
            current.note(lambda: real(*arguments, **options))
            return compiled

        monkeypatch.setattr(captured, "DEVICE_TYPES", ["cpu"])
        monkeypatch.setattr(captured.Graphs, "_captured", lambda _, work: self.capture(work))
        for module in (logprobs, outcome, replay, revise, sampling):
            monkeypatch.setattr(module, "launch", launch)
        monkeypatch.setattr(sampling._Launches.__init__, "__defaults__", (launch,))

    def capture(self, work: Callable[[], Any]) -> Any:
        if self.fails:
            raise RuntimeError("no graphs today")
        self.captured += 1
        self._current = recording = Recording()
        try:
            with recording:
                work()
        finally:
            self._current = None
        return Started(self, recording)


class Started:
    def __init__(self, graphs: Graphs, recording: Recording) -> None:
        self._graphs, self._recording = graphs, recording

    def replay(self) -> None:
        self._graphs.started += 1
        self._recording.replay()
