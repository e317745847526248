"""Processes that form gloo groups of every size, and functions to run on them."""

from __future__ import annotations

import datetime
import multiprocessing
import tempfile
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from engine_sampler_torch.ranks import VocabularyShards

TIMEOUT = 60
"""Seconds after which a step counts as one that hangs. No test that passes waits for it."""


@dataclass(frozen=True)
class Place:
    """Where a function runs."""

    rank: int
    size: int
    group: Any

    def shard(self, shards: VocabularyShards, logits: Any, padding: float = 1e9) -> torch.Tensor:
        """This rank's columns of whole rows, NumPy or torch [rows, vocab], followed by its padding."""
        whole = torch.as_tensor(logits)
        begin, size = shards.offsets[self.rank], shards.sizes[self.rank]
        end = torch.full((len(whole), shards.padding[self.rank]), padding).to(whole.dtype)
        return torch.cat([whole[:, begin : begin + size], end], dim=1)


class RankPool:
    """`run` calls a function on the first ranks; the processes stay."""

    def __init__(self, ranks: int, timeout: float = TIMEOUT) -> None:
        self._ranks, self._timeout = ranks, timeout
        self._folder = tempfile.TemporaryDirectory()

    def __enter__(self) -> RankPool:
        context = multiprocessing.get_context("spawn")
        store = Path(self._folder.name) / "store"
        self._pipes, self.processes = [], []
        for rank in range(self._ranks):
            ours, theirs = context.Pipe()
            process = context.Process(
                target=_serve, args=(rank, self._ranks, str(store), self._timeout, theirs), daemon=True
            )
            process.start()
            self._pipes.append(ours)
            self.processes.append(process)
        return self

    def __exit__(self, *error: object) -> None:
        for pipe in self._pipes:
            with suppress(OSError):
                pipe.send(None)
        for process in self.processes:
            process.join(5)
            process.kill()
        self._folder.cleanup()

    def run(self, size: int, function: Callable[..., Any], *arguments: Any) -> list[Any]:
        """What `function(place, *arguments)` returns on each of the first `size` ranks."""
        outcomes = self.outcomes(size, function, *arguments)
        failures = [
            f"rank {rank}:\n{outcome}" for rank, (succeeded, outcome) in enumerate(outcomes) if not succeeded
        ]
        if failures:  # the ranks may be in different places now
            self.__exit__()
            self.__init__(self._ranks, self._timeout)
            self.__enter__()
        assert not failures, "\n".join(failures)
        return [outcome for _, outcome in outcomes]

    def outcomes(self, size: int, function: Callable[..., Any], *arguments: Any) -> list[tuple[bool, Any]]:
        """(whether it has succeeded, what it returned or its traceback), of each rank."""
        for pipe in self._pipes[:size]:
            pipe.send((size, function, arguments))
        return [self._outcome(pipe) for pipe in self._pipes[:size]]

    def _outcome(self, pipe: Any) -> tuple[bool, Any]:
        try:
            return pipe.recv() if pipe.poll(self._timeout + 60) else (False, "it hangs")
        except EOFError:
            return False, "it is gone"


def _serve(rank: int, ranks: int, store: str, timeout: float, pipe: Any) -> None:
    torch.set_num_threads(1)
    wait = datetime.timedelta(seconds=timeout)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=ranks, timeout=wait)
    groups = [dist.new_group(list(range(size)), timeout=wait) for size in range(1, ranks + 1)]
    while (task := pipe.recv()) is not None:
        size, function, arguments = task
        try:
            pipe.send((True, function(Place(rank, size, groups[size - 1]), *arguments)))
        except BaseException:
            pipe.send((False, traceback.format_exc()))
