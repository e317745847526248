"""Graphs share memory as long as one of them is there."""

from __future__ import annotations

import itertools
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from engine_sampler_torch.running import captured


class Graph:
    """Notes the memory that it is captured in."""

    def capture_begin(self, pool: int, capture_error_mode: str) -> None:
        self.pool = pool

    def capture_end(self) -> None:
        pass


def test_memory_of_graphs_that_are_gone_is_not_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    handles, stream = itertools.count(), SimpleNamespace(wait_stream=lambda other: None)
    cuda = SimpleNamespace(
        graph_pool_handle=lambda: next(handles),
        CUDAGraph=Graph,
        Stream=lambda device: stream,
        current_stream=lambda device: stream,
        stream=lambda chosen: nullcontext(),
    )
    monkeypatch.setattr(captured, "torch", SimpleNamespace(cuda=cuda))
    graphs = captured.Graphs(torch.device("cuda"))
    first: Any = graphs.capture(lambda: None)
    second: Any = graphs.capture(lambda: None)
    assert (first.pool, second.pool) == (0, 0)
    del first
    third: Any = graphs.capture(lambda: None)
    assert third.pool == 0
    del second, third
    fourth: Any = graphs.capture(lambda: None)
    assert fourth.pool == 1
