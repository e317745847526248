"""The part of vLLM's V2 engine around the sampler, on a CPU: its kernels run in Triton's interpreter.

vLLM's modules are imported anew, with the real Triton in place of vLLM's stand-in for machines without a GPU;
`v2_modules` puts back what was imported before.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from vllm_engine import SamplingParams, torch

VOCAB = 64
LENGTH = 128
PLACES = 8
GPU = "vllm.v1.worker.gpu"
_MINE = ("engine_sampler_vllm.v2", "vllm.v1.watermarking")


@contextmanager
def v2_modules(patch: pytest.MonkeyPatch) -> Iterator[SimpleNamespace]:
    """What the tests use of vLLM's V2 runner, and of ours for it."""
    triton = pytest.importorskip("triton")
    pytest.importorskip("einops")  # vLLM's states of models import it
    import triton.language as language
    from vllm import triton_utils
    from vllm.platforms import current_platform

    kept = {name: module for name, module in sys.modules.items() if _is_anew(name)}
    for name in kept:
        del sys.modules[name]
    patch.setattr(triton.knobs.runtime, "interpret", True)
    _interpret_library(patch, triton)
    patch.setattr(triton_utils, "triton", triton)
    patch.setattr(triton_utils, "tl", language)
    patch.setattr(type(current_platform), "device_type", "cpu")
    try:
        buffers = importlib.import_module(f"{GPU}.buffer_utils")
        patch.setattr(buffers, "is_uva_available", lambda: False)
        patch.setattr(buffers, "async_tensor_h2d", _copied, raising=False)
        yield SimpleNamespace(
            Sampler=importlib.import_module(f"{GPU}.sample.sampler").Sampler,
            RequestState=importlib.import_module(f"{GPU}.states").RequestState,
            interface=importlib.import_module(f"{GPU}.model_states.interface"),
            processors=importlib.import_module(f"{GPU}.sample.logits_processor"),
            rejection=importlib.import_module(f"{GPU}.spec_decode.rejection_sampler"),
            input_batch=importlib.import_module(f"{GPU}.input_batch"),
            v2=importlib.import_module("engine_sampler_vllm.v2"),
        )
    finally:
        from engine_sampler_vllm.places import PLACES

        PLACES.put_back()
        for name in [name for name in sys.modules if _is_anew(name)]:
            del sys.modules[name]
        sys.modules.update(kept)


def _is_anew(name: str) -> bool:
    return name == GPU or name.startswith((f"{GPU}.", *_MINE))


def _interpret_library(patch: pytest.MonkeyPatch, triton: Any) -> None:
    """Triton's functions for kernels were made for a compiler when it was imported."""
    from triton.runtime.interpreter import InterpretedFunction

    for module in (triton.language, triton.language.standard, triton.language.random):
        for name, function in [*vars(module).items()]:
            if isinstance(function, triton.JITFunction):
                patch.setattr(module, name, InterpretedFunction(function.fn))


def _copied(values: Any, dtype: Any = None, device: Any = None, **_: Any) -> Any:
    return torch.tensor(values, dtype=dtype, device=device)


class V2Engine:
    """Requests in slots of the runner's state, whose rows a sampler draws as the runner has it do."""

    def __init__(self, modules: Any, drafts: int = 0, mode: str = "raw_logprobs", **sampler: Any) -> None:
        device = torch.device("cpu")
        self._modules, self._drafts = modules, drafts
        self.states = modules.RequestState(PLACES, LENGTH, 256, drafts, VOCAB, device)
        speculative = SimpleNamespace(
            num_speculative_tokens=drafts,
            enable_adaptive_verification=False,
            rejection_sample_method="standard",
            fly_window_size=None,
            fly_entropy_threshold=None,
            fly_entropy_top_k=None,
        )
        config = SimpleNamespace(
            reasoning_config=None,
            speculative_config=speculative if drafts else None,
            model_config=SimpleNamespace(max_model_len=LENGTH),
            num_speculative_tokens=drafts,
        )
        own = modules.Sampler(
            config, PLACES, VOCAB, device, self.states, mode, num_speculative_tokens=drafts + 1, **sampler
        )
        state = SimpleNamespace(vllm_config=config, device=device)
        custom = modules.interface.ModelState.custom_sampler(state, own)
        if custom is not None:
            self.sampler, self.rejection_sampler = custom
        else:
            self.sampler = own
            self.rejection_sampler = (
                modules.rejection.RejectionSampler(own, speculative, device) if drafts else None
            )
        self.names: list[str] = []

    def add(self, name: str, params: SamplingParams, prompt: list[int], output: list[int]) -> None:
        self.states.add_request(name, len(prompt), prompt + output, 0, 64)
        slot = self.states.req_id_to_index[name]
        self.sampler.add_request(slot, params)
        self.names.append(name)
        self.states.apply_staged_writes()
        self.sampler.apply_staged_writes()

    def remove(self, name: str) -> None:
        self.states.remove_request(name)
        self.names.remove(name)

    def tokens(self, name: str) -> list[int]:
        """All tokens of a request, prompt included."""
        slot = self.states.req_id_to_index[name]
        return self.states.all_token_ids.gpu[slot, : int(self.states.total_len.gpu[slot])].tolist()

    def batch(self, names: list[str], drafts: list[list[int]]) -> Any:
        """vLLM's description of a step of these requests."""
        slots = np.array([self.states.req_id_to_index[name] for name in names], np.int32)
        counts = [1 + len(draft) for draft in drafts]
        ends = np.cumsum([0, *counts]).astype(np.int32)
        totals = self.states.total_len.gpu[torch.from_numpy(slots).long()].tolist()
        ids: list[int] = []
        positions: list[int] = []
        for name, draft, total in zip(names, drafts, totals, strict=True):
            ids += [self.tokens(name)[-1], *draft]
            positions += range(total - 1, total + len(draft))
        lengths = torch.tensor([total + len(d) for total, d in zip(totals, drafts, strict=True)])
        return SimpleNamespace(
            num_reqs=len(names),
            idx_mapping=torch.from_numpy(slots),
            idx_mapping_np=slots,
            expanded_idx_mapping=torch.from_numpy(np.repeat(slots, counts)),
            expanded_local_pos=torch.from_numpy(
                np.concatenate([np.arange(n) for n in counts]).astype(np.int32)
            ),
            cu_num_logits=torch.from_numpy(ends),
            cu_num_logits_np=ends,
            positions=torch.tensor(positions),
            input_ids=torch.tensor(ids, dtype=torch.int32),
            logits_indices=torch.arange(len(ids)),
            seq_lens=lengths.to(torch.int32),
            seq_lens_cpu_upper_bound=lengths.to(torch.int32),
        )

    def step(self, names: list[str], logits: np.ndarray, drafts: list[list[int]] | None = None) -> Any:
        """vLLM's output for these requests; what is drawn joins their tokens, as the runner does it."""
        batch = self.batch(names, drafts or [[] for _ in names])
        rows = torch.tensor(logits)
        draw = self.sampler if drafts is None else self.rejection_sampler
        output = draw(rows, batch)
        for i, slot in enumerate(batch.idx_mapping_np.tolist()):
            new = output.sampled_token_ids[i, : int(output.num_sampled[i])]
            begin = int(self.states.total_len.gpu[slot])
            self.states.all_token_ids.gpu[slot, begin : begin + len(new)] = new.to(torch.int32)
            self.states.total_len.gpu[slot] = begin + len(new)
        return output
