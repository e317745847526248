"""vLLM's classes, without which a module that imports this is skipped; and the part of its V1 engine around
the sampler: its `InputBatch`, and requests that come and go."""

from __future__ import annotations

import warnings
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    torch = pytest.importorskip("torch")
    pytest.importorskip("vllm.v1.sample.rejection_sampler", reason="vLLM is not there")
    from engine_sampler_vllm.settings import params_of
    from vllm import SamplingParams
    from vllm.v1.sample import sampler as vllms
    from vllm.v1.sample.logits_processor import LogitsProcessors
    from vllm.v1.sample.metadata import SamplingMetadata
    from vllm.v1.sample.rejection_sampler import RejectionSampler
    from vllm.v1.spec_decode.metadata import SpecDecodeMetadata
    from vllm.v1.worker.gpu_input_batch import CachedRequestState, InputBatch

VOCAB = 64
CONFIG = SimpleNamespace(
    speculative_config=None,
    scheduler_config=SimpleNamespace(max_num_seqs=16),
    model_config=SimpleNamespace(seed=0, skip_tokenizer_init=True, runner_type="generate"),
    reasoning_config=None,
)


def verified(params: SamplingParams) -> None:
    """As vLLM's server verifies the parameters of a request."""
    model = SimpleNamespace(
        max_logprobs=20, get_vocab_size=lambda: VOCAB, is_diffusion=False, logits_processors=None
    )
    params.verify(model, None, None, None)


class VllmEngine:
    """Requests in vLLM's own batch, whose rows the sampler of `runner` draws."""

    def __init__(self, runner: Any, logprobs_mode: str = "raw_logprobs") -> None:
        device = torch.device("cpu")
        self.sampler = runner.Sampler(logprobs_mode=logprobs_mode)
        self.rejection_sampler = runner.RejectionSampler(self.sampler)
        self.batch = InputBatch(
            max_num_reqs=16,
            max_model_len=256,
            max_num_batched_tokens=256,
            device=device,
            vocab_size=VOCAB,
            block_sizes=[16],
            max_num_blocks_per_req=[16],
            logitsprocs=runner.build_logitsprocs(CONFIG, device, False, False, ()),
        )
        self.requests: dict[str, CachedRequestState] = {}

    def add(self, name: str, params: SamplingParams, prompt: list[int], output: list[int]) -> None:
        generator = None
        if params.seed is not None:
            generator = torch.Generator().manual_seed(params.seed)
        state = CachedRequestState(
            req_id=name,
            prompt_token_ids=prompt,
            mm_features=[],
            sampling_params=params,
            generator=generator,
            block_ids=([],),
            num_computed_tokens=0,
            output_token_ids=output,
        )
        self.requests[name] = state
        self.batch.add_request(state)

    def remove(self, name: str) -> None:
        self.batch.remove_request(name)
        del self.requests[name]

    def refresh(self) -> list[str]:
        """Close the gaps, and return the names of the rows."""
        self.batch.condense()
        self.batch.refresh_metadata()
        return list(self.batch.req_ids)

    def step(self, logits: np.ndarray) -> list[int]:
        """The tokens of all rows, which join the outputs."""
        drawn = self.sampler(torch.tensor(logits), self.batch.sampling_metadata)
        tokens: list[int] = drawn.sampled_token_ids.flatten().tolist()
        for name, token_id in zip(self.batch.req_ids, tokens, strict=True):
            self.requests[name].output_token_ids.append(token_id)
        return tokens
