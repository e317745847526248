"""What a step of the default chain moves and needs on a device."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import torch
from engine_sampler_torch.backend import TorchBackend
from engine_sampler_torch.running.captured import SEEN_BEFORE

from engine_sampler import SamplingParams, Scheduler

ROWS, VOCAB = 64, 131_072
WARM_UP = SEEN_BEFORE + 3
"""Steps until all is as in later ones."""
CHAIN: dict[str, Any] = {"temperature": 0.8, "top_k": 40, "top_p": 0.95, "min_p": 0.05}


def measure(device: str, rows: int = ROWS, vocab_size: int = VOCAB) -> dict[str, Any]:
    """Bytes of logits that were copied, and on CUDA the implicit synchronisations of a step and the memory
    beside the logits."""
    scheduler, logits = stepped(device, rows, vocab_size, CHAIN)
    found: dict[str, Any] = {"rows": rows, "vocab_size": vocab_size, "logits_bytes": logits.nbytes}
    if logits.device.type == "cuda":
        found |= _on_cuda(scheduler, logits)
    return found


def stepped(device: str, rows: int, vocab_size: int, chain: dict[str, Any]) -> tuple[Scheduler, torch.Tensor]:
    """A scheduler with `rows` requests of a chain, after some steps with the logits that come with it."""
    scheduler = Scheduler(vocab_size, backend=TorchBackend(compiles_beside=False))
    for seed in range(rows):
        scheduler.add(SamplingParams(seed=seed, **chain), [1, 2, 3])
    host = np.random.default_rng(0).standard_normal((rows, vocab_size), np.float32)
    logits = torch.from_numpy(host).to(device)
    for _ in range(WARM_UP):
        scheduler.step(logits)
    return scheduler, logits


def _on_cuda(scheduler: Scheduler, logits: torch.Tensor) -> dict[str, Any]:
    """Synchronisations that torch did not announce as such, and the greatest memory beside what there was."""
    torch.cuda.synchronize(logits.device)
    before = torch.cuda.memory_allocated(logits.device)
    torch.cuda.reset_peak_memory_stats(logits.device)
    torch.cuda.set_sync_debug_mode("warn")
    try:
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            scheduler.step(logits)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    implicit = [str(warning.message) for warning in seen if "synchroniz" in str(warning.message)]
    return {
        "implicit_synchronisations": len(implicit),
        "memory_beside_logits": torch.cuda.max_memory_allocated(logits.device) - before,
    }
