"""`TorchBackend`: chains on the device of the logits, with the tokens of the NumPy backend."""

from __future__ import annotations

import functools
import logging
import threading
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import torch

from engine_sampler.arithmetic import LogitRows, Logprobs
from engine_sampler.contract import Backend, Batch, Chain, Rows, Sampler, Selection, Selector, SlotTable
from engine_sampler.for_backends import NumpyBackend, fork_safe

from .arithmetic import shortcoming
from .running.masks import MasksOnDevice, prepare
from .running.plan import DevicePlan
from .running.processing import logprobs, process
from .running.reading import tensor_of
from .running.step import DeviceRoom, Prepared, StepRun, WarmRun, begun
from .steps import selector_of, step_of

logger = logging.getLogger("engine_sampler")

_ON_HOST, _ON_DEVICE = 0.5, 10.0
"""Scores: below NumPy's for logits in the host's memory, above every host backend's for all others."""


class TorchBackend(Backend):
    """Runs chains in torch on the device of the logits: any with int64 and exact float64.

    A step copies its inputs there, and the tokens back, with one synchronisation. Samplers without a torch
    form run on the host, on what the samplers before them have left; chains that begin with one run there
    from the start. Single rows of beam searches run there, too.

    compiles_beside  whether torch runs the steps of a chain while a thread compiles its kernels; else its
                     first step waits for them, some seconds.
    """

    name = "torch"
    hosts_the_rest = True

    def __init__(self, *, compiles_beside: bool = True) -> None:
        self._compiles_beside = compiles_beside
        self._host = NumpyBackend()
        self._rooms: WeakKeyDictionary[SlotTable, dict[torch.device, DeviceRoom]] = WeakKeyDictionary()
        self._lock = fork_safe(threading.Lock())

    def score(self, device: str) -> float:
        if not is_exact(device):
            return 0.0
        return _ON_HOST if torch.device(device).type == "cpu" else _ON_DEVICE

    def reads_from(self, device: str) -> bool:
        return is_exact(device)

    def supports(self, sampler: Sampler | Selector) -> bool:
        form = selector_of(sampler) if isinstance(sampler, Selector) else step_of(sampler)
        return form is not None

    def runs(self, part: Sampler | Selector, chain: Chain) -> bool:
        plan = DevicePlan.of(chain)
        if isinstance(part, Selector):
            return plan.selector is not None
        return plan.is_worthwhile(masked=False) and chain.samplers.index(part) < len(plan.steps)

    def compile(self, chain: Chain) -> DevicePlan:
        return DevicePlan.of(chain)

    def run(self, batch: Batch) -> None:
        with work_on(batch.logits):
            step = self._begun(batch)
            if step is not None:
                step.finish()

    def begin(self, batch: Batch) -> _Rest | None:
        with work_on(batch.logits):
            step = self._begun(batch)
        return None if step is None else _Rest(step, batch.logits)

    def _begun(self, batch: Batch) -> WarmRun | StepRun | None:
        """A step that has begun; None if it has no rows."""
        logits = tensor_of(batch.logits)
        key = batch.logits.device, logits.nbytes  # the pieces depend on both
        prepared = batch.cache.get(key)
        if prepared is None:
            if not any(len(group.index) for group in batch.groups):
                return None
            room = self._room(batch.groups[0].rows, batch.logits)
            prepared = batch.cache[key] = Prepared(room)
        return begun(self.name, prepared, logits, batch)

    def draws_ahead(self, plan: DevicePlan) -> bool:
        return plan.draws_ahead

    def follows_drafts(self, plan: DevicePlan, tokens: int) -> bool:
        return plan.follows_drafts(tokens)

    def process(self, batch: Batch) -> Any:
        if not batch.groups:
            return None
        with work_on(batch.logits):
            return process(self._room(batch.groups[0].rows, batch.logits), batch)

    def prepare_masks(self, bitmask: np.ndarray, rows: Sequence[int], device: str) -> MasksOnDevice | None:
        return prepare(bitmask, rows, torch.device(device)) if is_exact(device) else None

    def logprobs(self, logits: LogitRows, token_ids: np.ndarray, top_n: int) -> Logprobs | None:
        if logits.remote is None:
            return None
        with work_on(logits):
            return logprobs(logits, token_ids, top_n)

    def apply(self, plan: DevicePlan, logits: np.ndarray, rows: Rows) -> None:
        self._host.apply(plan.chain, logits, rows)

    def select(self, plan: DevicePlan, logits: np.ndarray, rows: Rows) -> Selection:
        return self._host.select(plan.chain, logits, rows)

    def _room(self, rows: Rows, logits: LogitRows) -> DeviceRoom:
        """The buffers for steps of these requests where the logits lie."""
        device = _device_of(logits)
        with self._lock:
            rooms = self._rooms.setdefault(rows.slots, {})
            if device not in rooms:
                rooms[device] = DeviceRoom.on(device, compiles_beside=self._compiles_beside)
            return rooms[device]


class _Rest:
    """Finishes a step that has begun."""

    def __init__(self, step: WarmRun | StepRun, logits: LogitRows) -> None:
        self._step = step
        self._logits = logits

    def __call__(self) -> None:
        with work_on(self._logits):
            self._step.finish()

    def is_done(self) -> bool:
        """Whether it need not wait for the device."""
        return self._step.is_done()


def _device_of(logits: LogitRows) -> torch.device:
    return torch.device("cpu" if logits.remote is None else logits.device)


def work_on(logits: LogitRows) -> AbstractContextManager[Any]:
    """Work without gradients on the device of `logits`. Triton starts kernels on the current CUDA device and
    its current stream, which may be those of another card than the logits'."""
    if logits.remote is None or not logits.device.startswith("cuda"):
        return torch.no_grad() if torch.is_grad_enabled() else _AS_IT_IS
    device = torch.device(logits.device)
    is_current = device.index == torch.cuda.current_device()
    return _AS_IT_IS if is_current and not torch.is_grad_enabled() else _on_card(device)


_AS_IT_IS: AbstractContextManager[Any] = nullcontext()
"""Engines mostly step as they run their models: without gradients, on the device of these."""


@contextmanager
def _on_card(device: torch.device) -> Iterator[None]:
    with torch.no_grad(), torch.cuda.device(device):
        yield


@functools.cache
def is_exact(device: str) -> bool:
    """Whether torch has `device`, and computes there as the arithmetic contract demands; if it does not, the
    reason is logged once."""
    try:
        torch.empty(1, device=torch.device(device))
    except Exception:  # torch raises AssertionError, RuntimeError and others for what it was built without
        return False
    reason = shortcoming(device)
    if reason is not None:
        logger.warning("logits on %s are sampled on the host: %s", device, reason)
    return reason is None
