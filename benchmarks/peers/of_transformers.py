"""transformers' logits processors, then softmax and `torch.multinomial`, as its `generate` does."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
import transformers

from ..measure import Work
from .ours import scheduler_step

PROCESSORS: Mapping[str, Callable[[Any], Any]] = {
    "repetition_penalty": transformers.RepetitionPenaltyLogitsProcessor,
    "temperature": transformers.TemperatureLogitsWarper,
    "top_k": transformers.TopKLogitsWarper,
    "top_p": transformers.TopPLogitsWarper,
    "min_p": transformers.MinPLogitsWarper,
}
"""In transformers' own order. It has no frequency or presence penalties, so its penalties do less."""


def sides(
    settings: Mapping[str, Any], logits: np.ndarray, prompt: Sequence[int], mask: np.ndarray | None
) -> tuple[Work | None, Work]:
    """The engine's step and ours, on the same tensor."""
    tensor = torch.from_numpy(logits.copy())
    allowed = None if mask is None else _allowed(mask, logits.shape[1])
    history = [torch.tensor([list(prompt)] * len(logits))]
    made = [make(settings[name]) for name, make in PROCESSORS.items() if settings.get(name)]
    processors = transformers.LogitsProcessorList(made)

    def grow() -> None:
        history[0] = torch.cat([history[0], history[0][:, :1]], 1)

    def draw() -> Any:
        scores = tensor if allowed is None else tensor.masked_fill(~allowed, -torch.inf)
        if not settings["temperature"]:
            return scores.argmax(dim=-1)
        scores = processors(history[0], scores)
        drawn = torch.multinomial(scores.softmax(dim=-1), num_samples=1)
        return (drawn, tensor.log_softmax(-1).topk(settings["logprobs"])) if "logprobs" in settings else drawn

    with torch.inference_mode():
        ours = scheduler_step(settings, tensor, prompt, mask, "transformers")
    return Work(torch.inference_mode()(draw), grow), ours


def _allowed(mask: np.ndarray, vocab_size: int) -> Any:
    bits = np.unpackbits(mask.view(np.uint8), axis=1, bitorder="little")
    return torch.from_numpy(bits[:, :vocab_size].astype(bool))
