"""`Captures`: the device's work of a step, kept as one graph and started again as long as steps are alike.

To start a kernel or an operation takes the host 15 µs and more on some machines, whatever it does; a graph of
all of them takes as long as one.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Hashable, Sequence
from typing import Any, Protocol
from weakref import WeakSet

import numpy as np
import torch
from torch import Tensor

from engine_sampler.for_backends import INTERRUPTIONS, failure

from .fused import Fused
from .pieces import BYTES_PER_LOGIT, WORKING_BYTES, GroupPiece
from .results import Results
from .transfer import Download, Upload

logger = logging.getLogger("engine_sampler")

DEVICE_TYPES = ["cuda"]
"""The types of devices that torch captures graphs on; ROCm's are called cuda, too."""
SEEN_BEFORE = 3
"""How many steps must have been alike: what a step needs is compiled and allocated then, and a graph that is
not used again has not cost more than they did."""
MOST_KINDS = 4
"""How many graphs of the same requests are kept: engines have their logits in one place, or in a few."""
_TOKENS_AT_ONCE = 16


class Graph(Protocol):
    """Work that has been captured."""

    def replay(self) -> Any: ...


class Graphs:
    """Captures work on one device. Graphs of one scheduler share their memory: no two are at work at once,
    and what they leave is copied before the next one starts. It goes with the last of them: torch takes none
    back for new ones."""

    def __init__(self, device: torch.device) -> None:
        self.work = device.type in DEVICE_TYPES
        """Whether they can be captured; not again once that has failed."""
        self._pool: Any = None
        self._alive: WeakSet[Graph] = WeakSet()
        self._stream: Any = None
        self._device = device

    def capture(self, work: Callable[[], Any]) -> Graph | None:
        """`work`, which runs when the graph is started; None, with the reason in the log, if that fails."""
        try:
            return self._captured(work)
        except INTERRUPTIONS:
            raise
        except BaseException as error:
            self.work = False
            logger.warning("%s; steps are launched one by one", failure("capturing a step", error))
            return None

    def _captured(self, work: Callable[[], Any]) -> Graph:
        if self._stream is None:
            self._stream = torch.cuda.Stream(self._device)
        if not self._alive:
            self._pool = torch.cuda.graph_pool_handle()
        graph = torch.cuda.CUDAGraph()
        self._stream.wait_stream(torch.cuda.current_stream(self._device))
        with torch.cuda.stream(self._stream):
            graph.capture_begin(self._pool, capture_error_mode="thread_local")
            try:
                work()
            finally:
                graph.capture_end()
        self._alive.add(graph)
        return graph


class TokenRoom:
    """Places for the tokens of one step after the other, which are never used again."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._left: list[Tensor] = []
        self._addresses: list[int] = []
        self._rows = -1

    def next(self, rows: int) -> np.ndarray:
        """The address of the place that is taken next, int64 [1]."""
        return np.array([self.address(rows)], np.int64)

    def address(self, rows: int) -> int:
        """The same as a number."""
        if not self._left or self._rows != rows:
            # Triton compiles anew for addresses that are not multiples of 16.
            several = torch.empty((_TOKENS_AT_ONCE, rows + rows % 2), dtype=torch.int64, device=self._device)
            self._left = list(several[:, :rows].unbind())
            self._addresses = [place.data_ptr() for place in self._left]
            self._rows = rows
        return self._addresses[-1]

    def take(self) -> Tensor:
        """The place itself."""
        self._addresses.pop()
        return self._left.pop()


class CapturedStep:
    """The work of a step, and where its results are.

    results   of its pieces, in `download`, step after step.
    """

    def __init__(
        self,
        graph: Graph,
        results: Sequence[Results],
        download: Download,
        tokens: Tensor | None,
        held: Sequence[Any],
        *,
        delivers: bool,
    ) -> None:
        """`held`: whatever else the graph reads or writes; `delivers`: whether it leaves the tokens in the
        place whose address is uploaded."""
        self._graph = graph
        self.results = results
        self.download = download
        self._tokens = tokens
        self._held = held
        self._delivers = delivers

    def start(self, room: TokenRoom) -> Tensor | None:
        """Start it. Returns the tokens on the device, which nothing will change: in the place that `room` has
        next."""
        self._graph.replay()
        self.download.mark()
        if self._tokens is None:
            return None
        place = room.take()
        return place if self._delivers else place.copy_(self._tokens)


class Captures:
    """The captured steps of the same requests in the same rows, by kind."""

    def __init__(self) -> None:
        self._seen: dict[Hashable, int] = {}
        self._kept: dict[Hashable, CapturedStep] = {}
        self.warm: dict[Hashable, Any] = {}
        """The `WarmStep` that was captured or started last, by where the logits are."""

    def of(self, kind: Hashable) -> CapturedStep | None:
        """The captured step of a kind, None if there is none yet."""
        return self._kept.get(kind)

    def is_due(self, kind: Hashable) -> bool:
        """Whether a step of this kind, which is not captured, should be."""
        seen = self._seen.get(kind, 0)
        if not seen and len(self._seen) == MOST_KINDS:
            self._seen.clear()
            self._kept.clear()
            self.warm.clear()
        self._seen[kind] = seen + 1
        return seen >= SEEN_BEFORE

    def keep(self, kind: Hashable, step: CapturedStep) -> None:
        self._kept[kind] = step


def kind_of(
    logits: Tensor, pieces: Sequence[GroupPiece], upload: Upload, download: Download, fused: Fused
) -> Hashable:
    """All that decides what a step of these pieces does on the device, and where; None if something else may
    decide, or if too much memory would be kept for it."""
    if not pieces or not all(is_capturable(piece, fused) for piece in pieces):
        return None
    return (
        logits.data_ptr(),
        logits.dtype,
        logits.shape,
        logits.stride(0),
        upload.layout,
        download.place,
        *[(id(piece), piece.variant) for piece in pieces],
    )


def is_capturable(piece: GroupPiece, fused: Fused) -> bool:
    """Whether a piece needs nothing but its inputs, leaves nothing but results of known size, and does not
    work on many whole rows, which would stay in memory."""
    if piece.any_kept or not piece.is_own or fused.waits(piece):
        return False
    is_small = len(piece) * piece.vocab_size * BYTES_PER_LOGIT <= WORKING_BYTES
    return is_small or fused.reads_logits(piece)
