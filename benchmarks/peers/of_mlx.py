"""mlx-lm's sampler and processors on the CPU, as its `BatchGenerator` calls them; the logits are normalised
beforehand, as it does for all samplers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import mlx.core as mx
import numpy as np
from engine_sampler_mlx import MlxBatchSampler
from mlx_lm.sample_utils import make_logits_processors, make_sampler

from engine_sampler import SamplingParams

from ..measure import Work

PENALTIES = ("repetition_penalty", "frequency_penalty", "presence_penalty")


def sides(
    settings: Mapping[str, Any], logits: np.ndarray, prompt: Sequence[int], mask: np.ndarray | None
) -> tuple[Work | None, Work]:
    """The engine's step and ours. It has no masks, and its logprobs are there before it."""
    unscaled = mx.array(logits)
    rows = unscaled - mx.logsumexp(unscaled, axis=-1, keepdims=True)
    mx.eval(rows)
    tokens = mx.array(list(prompt))
    filters = {name: settings[name] for name in ("top_p", "top_k", "min_p") if name in settings}
    sampler = make_sampler(temp=settings["temperature"], **filters)
    processors = make_logits_processors(**{name: settings[name] for name in PENALTIES if name in settings})

    def draw() -> None:
        each = []
        for i in range(len(logits)):
            row = rows[i : i + 1]
            for processor in processors:
                row = processor(tokens, row)
            each.append(row)
        mx.eval(sampler(mx.concatenate(each) if processors else rows))

    ours = MlxBatchSampler(logits.shape[1])
    parameters = {name: value for name, value in settings.items() if name != "logprobs"}
    requests = [
        ours.request(SamplingParams(seed=1 + i, order="mlx", **parameters)) for i in range(len(logits))
    ]

    def draw_ours() -> None:
        for i, request in enumerate(requests):
            request(prompt, rows[i : i + 1])
        mx.eval(ours(rows))

    draw_ours()
    return None if mask is not None else Work(draw), Work(draw_ours)
