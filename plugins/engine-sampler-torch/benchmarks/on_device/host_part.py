"""The host's part of a step by itself: launches, graphs, copies and waits do nothing. Any machine has it.

    python -m on_device.host_part

counts the Python functions that a warm step calls, and takes its processor time.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest import mock

import torch
from engine_sampler_torch import backend
from engine_sampler_torch.backend import TorchBackend
from engine_sampler_torch.running import captured, fused, transfer
from torch import Tensor

from engine_sampler import SamplingParams, Scheduler, Tokenizer

from .markdown import markdown
from .movement import CHAIN, WARM_UP

DEVICE = "meta"
"""A device of torch whose tensors have no memory, and on which operations do nothing."""
VOCAB_SIZE = 131_072
PARTS, STEPS = 15, 100

Chain = Mapping[str, Any]

CASES: dict[str, tuple[int, Sequence[Chain]]] = {
    "default chain, one request": (1, [CHAIN]),
    "default chain, 64 requests": (64, [CHAIN]),
    "default chain, 256 requests": (256, [CHAIN]),
    "penalties, 64 requests": (64, [CHAIN | {"repetition_penalty": 1.1, "frequency_penalty": 0.2}]),
    "a bias of two tokens, 64 requests": (64, [CHAIN | {"logit_bias": {5: 2.0, 9: -3.0}}]),
    "four chains in 64 requests": (64, [CHAIN, {"temperature": 0.7}, {"top_p": 0.9}, {"temperature": 0.0}]),
    "five logprobs, 64 requests": (64, [CHAIN | {"logprobs": 5}]),
    "masks of a grammar, 64 requests": (64, [CHAIN | {"regex": "[0-9 ]*"}]),
}
"""The requests, and the parameters that they have in turn."""


def table(cases: Sequence[str] = tuple(CASES), vocab_size: int = VOCAB_SIZE) -> list[dict[str, Any]]:
    """One dict for each case: its name, the Python functions that a step calls, and its µs of processor time,
    the median and the least of some hundred steps each."""
    rows = []
    for name in cases:
        with warm(*CASES[name], vocab_size) as step:
            spans = sorted(1e6 * _seconds(step) / STEPS for _ in range(PARTS))
            rows.append(
                {
                    "the host's part of a step": name,
                    "functions": calls(step),
                    "µs": round(spans[PARTS // 2], 1),
                    "least": round(spans[0], 1),
                }
            )
    return rows


@contextmanager
def warm(rows: int, chains: Sequence[Chain], vocab_size: int = VOCAB_SIZE) -> Iterator[Callable[[], Any]]:
    """A function that takes one step of `rows` requests with these chains in turn, after some that were
    alike. Every row draws token 0. With grammars, it begins with `prepare`; these do not fill their masks,
    which stay as they are."""
    with _device_without_work(), torch.inference_mode():
        is_masked = any("regex" in chain for chain in chains)
        tokenizer = _tokenizer(vocab_size) if is_masked else None
        scheduler = Scheduler(vocab_size, tokenizer, backend=TorchBackend(compiles_beside=False))
        for seed in range(rows):
            scheduler.add(SamplingParams(seed=seed, **chains[seed % len(chains)]), [1, 2, 3])
        logits = Logits(rows, vocab_size)

        def step() -> None:
            if is_masked:
                scheduler.prepare()
            scheduler.step(logits)

        for _ in range(WARM_UP):
            step()
        with mock.patch.object(scheduler._runner._masks, "_fill_masks", _fill_nothing):
            yield step


def _tokenizer(vocab_size: int) -> Tokenizer:
    """Of tokens that the grammar of the cases allows, and an EOS."""
    return Tokenizer([b"%d " % i for i in range(vocab_size - 1)] + [b"</s>"], [vocab_size - 1])


def _fill_nothing(*arguments: Any) -> dict[int, Exception]:
    """No mask is filled, and none fails."""
    return {}


def calls(step: Callable[[], Any], steps: int = 9) -> int:
    """How many functions in Python a step calls: the median of some steps."""
    counts = []
    for _ in range(steps):
        count = 0

        def note(frame: Any, event: str, argument: Any) -> None:
            nonlocal count
            count += event == "call"

        before = sys.getprofile()
        sys.setprofile(note)
        try:
            step()
        finally:
            sys.setprofile(before)
        counts.append(count)
    return sorted(counts)[steps // 2]


class Logits:
    """Logits float32 [rows, vocab_size] on a device without memory."""

    def __init__(self, rows: int, vocab_size: int) -> None:
        self._tensor = torch.empty((rows, vocab_size), device=DEVICE)
        self.device, self.dtype, self.shape = self._tensor.device, self._tensor.dtype, self._tensor.shape

    def detach(self) -> Tensor:
        return self._tensor


def _seconds(step: Callable[[], Any]) -> float:
    start = time.process_time()
    for _ in range(STEPS):
        step()
    return time.process_time() - start


@contextmanager
def _device_without_work() -> Iterator[None]:
    """Let `DEVICE` pass for a card with kernels and graphs; what it leaves are zeros."""
    from engine_sampler_torch import kernels  # imports Triton
    from engine_sampler_torch.kernels import launching

    types = [*fused.DEVICE_TYPES, DEVICE]
    with ExitStack() as stack:
        for where, name, stand_in in (
            (backend, "is_exact", lambda device: True),
            (kernels, "trusted", lambda device: True),
            (kernels, "repeatable", lambda device: False),
            (fused, "DEVICE_TYPES", types),
            (captured, "DEVICE_TYPES", types),
            (captured.Graphs, "_captured", _without_graph),
            (transfer.Buffers, "record", lambda self: _DONE),
            (transfer.Download, "copy", _land_zeros),
        ):
            stack.enter_context(mock.patch.object(where, name, stand_in))
        stack.enter_context(launching.withheld())
        fused.kernels_for.cache_clear()
        stack.callback(fused.kernels_for.cache_clear)
        yield


class _Nothing:
    """A graph and an event."""

    def replay(self) -> None:
        pass

    def synchronize(self) -> None:
        pass

    def query(self) -> bool:
        return True


_DONE = _Nothing()


def _without_graph(graphs: captured.Graphs, work: Callable[[], Any]) -> _Nothing:
    work()
    return _Nothing()


def _land_zeros(download: transfer.Download) -> None:
    download.land(torch.zeros_like(download.whole(), device="cpu"))


def main() -> None:
    """Print the table."""
    print("\n".join(markdown(table())))


if __name__ == "__main__":
    main()
