"""vLLM's V1 sampler on the CPU, with its own batch; ours is the plugin's sampler in its place."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from engine_sampler_vllm.batches import FollowingProcessor
from engine_sampler_vllm.sampler import RowwiseSampler
from vllm import SamplingParams
from vllm.v1.sample.logits_processor import build_logitsprocs
from vllm.v1.sample.sampler import Sampler
from vllm.v1.worker.gpu_input_batch import CachedRequestState, InputBatch

from ..measure import Work

LENGTH = 4096
CPU = torch.device("cpu")


def _use_the_source() -> None:
    """vLLM's package without its build, in which its argmax for the CPU is, and the detection of GPUs."""
    Sampler.greedy_sample = staticmethod(lambda rows: rows.argmax(dim=-1))
    for name, module in [*sys.modules.items()]:
        if name.startswith("vllm.") and "PIN_MEMORY" in vars(module):
            module.PIN_MEMORY = torch.cuda.is_available()  # type: ignore[attr-defined]


def sides(
    settings: Mapping[str, Any], logits: np.ndarray, prompt: Sequence[int], mask: np.ndarray | None
) -> tuple[Work | None, Work]:
    """The engine's step and ours, on a copy of the logits, into which vLLM's runner has written the masks."""
    _use_the_source()
    own, ours = _Batch(settings, logits.shape, prompt, False), _Batch(settings, logits.shape, prompt, True)
    given = torch.from_numpy(logits.copy())
    if mask is not None:
        given.masked_fill_(torch.from_numpy(~_allowed(mask, logits.shape[1])), -torch.inf)

    def work(batch: _Batch, sampler: Any) -> Work:
        scratch = torch.empty_like(given)

        def draw() -> None:
            sampler(scratch, batch.metadata)

        def prepare() -> None:
            scratch.copy_(given)
            batch.grow()

        return Work(torch.inference_mode()(draw), prepare)

    return work(own, Sampler()), work(ours, RowwiseSampler())


def _allowed(mask: np.ndarray, vocab_size: int) -> np.ndarray:
    return np.unpackbits(mask.view(np.uint8), axis=1, bitorder="little")[:, :vocab_size].astype(bool)


class _Batch:
    """vLLM's own batch, one request for each row of logits."""

    def __init__(
        self, settings: Mapping[str, Any], shape: tuple[int, ...], prompt: Sequence[int], is_followed: bool
    ) -> None:
        rows, vocab_size = shape
        config: Any = SimpleNamespace(
            speculative_config=None,
            scheduler_config=SimpleNamespace(max_num_seqs=rows),
            model_config=SimpleNamespace(seed=0, skip_tokenizer_init=True, runner_type="generate"),
            reasoning_config=None,
        )
        processors = build_logitsprocs(config, CPU, False, False, ())
        if is_followed:
            processors.non_argmax_invariant.append(FollowingProcessor(config))
        batch = InputBatch(
            max_num_reqs=rows, max_model_len=LENGTH, max_num_batched_tokens=LENGTH, device=CPU,
            vocab_size=vocab_size, block_sizes=[16], max_num_blocks_per_req=[LENGTH // 16],
            logitsprocs=processors,
        )  # fmt: skip
        params = SamplingParams(max_tokens=LENGTH, **settings)
        self._outputs: list[list[int]] = [[] for _ in range(rows)]
        for row, output in enumerate(self._outputs):
            state = CachedRequestState(
                req_id=str(row),
                prompt_token_ids=list(prompt),
                mm_features=[],
                sampling_params=params,
                generator=None,
                block_ids=([],),
                num_computed_tokens=0,
                output_token_ids=output,
            )
            batch.add_request(state)
        batch.refresh_metadata()
        self.metadata = batch.sampling_metadata

    def grow(self) -> None:
        """Each request has drawn one more token."""
        for output in self._outputs:
            output.append(len(output))
