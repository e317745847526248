"""Rollouts of random requests, with what a training records of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from engine_sampler_torch import ReplayRecord
from engine_sampler_torch.replaying.pieces import only_removes
from engine_sampler_torch.steps import step_of

from engine_sampler import RequestLimits, SamplingMask, SamplingParams, Scheduler
from tests.random_chains import (
    BUILT_IN,
    HOST_ONLY,
    Random,
    random_history,
    random_logits,
    random_settings,
    tokenizer,
)

REFUSED = sorted(
    HOST_ONLY | {name for name, s in BUILT_IN.items() if step_of(s) is None and not only_removes(s)}
)
"""Samplers that change logits in Python, which cannot be replayed, and those that remove tokens there, which
cannot before one that takes a figure from whole rows."""


class Rollout:
    """Some requests stepped together, and the logits that they have seen.

    records  a `ReplayRecord` for each.
    logits   float32 [rows, vocab], request after request.
    logprobs  float32 [rows], what the rollout reported of its tokens.
    """

    def __init__(
        self,
        random: Random,
        every: Sequence[SamplingParams],
        vocab_size: int,
        steps: int,
        *,
        backend: str = "auto",
        dtype: torch.dtype = torch.float32,
        draw_logits: Callable[[Random, int, int], np.ndarray] = random_logits,
    ) -> None:
        scheduler = Scheduler(
            vocab_size, tokenizer(vocab_size), backend=backend, limits=RequestLimits.none(), postpone=False
        )
        prompts = [random_history(random, vocab_size) for _ in every]
        for i, (params, prompt) in enumerate(zip(every, prompts, strict=True)):
            asked = params.replace(return_sampling_mask=-1, ignore_eos=True)
            scheduler.add(asked, prompt, request_id=i)
        rows: list[list[torch.Tensor]] = [[] for _ in every]
        masks: list[list[SamplingMask]] = [[] for _ in every]
        for _ in range(steps):
            ids = scheduler.request_ids
            if not ids:
                break
            tensor = torch.from_numpy(draw_logits(random, len(ids), vocab_size)).to(dtype)
            result = scheduler.step(tensor.to(torch.float32).numpy(), ids)
            for row, request_id in enumerate(ids):
                if result.token_ids[row] >= 0:
                    rows[request_id].append(tensor[row])
                    assert result.sampling_mask is not None
                    masks[request_id].append(result.sampling_mask.rows([row]))
        self.records, kept = [], []
        for i, (params, prompt) in enumerate(zip(every, prompts, strict=True)):
            if not rows[i]:
                continue
            record = scheduler.record(i)
            asked = params.replace(seed=record.seed, ignore_eos=True)
            mask = SamplingMask.concatenate(masks[i])
            self.records.append(ReplayRecord(asked, prompt, record.token_ids[: len(mask)], mask))
            kept += rows[i]
        self.logits = torch.stack(kept) if kept else torch.empty(0, vocab_size)
        self.logprobs = np.concatenate(
            [np.empty(0, np.float32), *(record.sampling_mask.logprobs for record in self.records)]
        )

    def __len__(self) -> int:
        return len(self.logits)


def normal_logits(random: Random, n: int, vocab_size: int) -> np.ndarray:
    """float32 [n, vocab], with no rows of a special kind."""
    return random.normal(0, 2, (n, vocab_size)).astype(np.float32)


def random_params(random: Random, vocab_size: int, **changes: Any) -> SamplingParams:
    """Parameters of up to eight samplers, in some order."""
    return SamplingParams(**random_settings(random, vocab_size, without=REFUSED) | changes)
