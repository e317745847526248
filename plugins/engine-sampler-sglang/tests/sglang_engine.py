"""SGLang's classes, without which a module that imports this is skipped; and the part of its engine around
the sampler: requests that arrive, merge into a running batch, and leave."""

from __future__ import annotations

import warnings
from array import array
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    torch = pytest.importorskip("torch")
    pytest.importorskip("sglang.srt.layers.sampler", reason="SGLang is not there")
    from sglang.srt import runtime_context
    from sglang.srt.layers import sampler as sglangs
    from sglang.srt.layers.logits_processor import LogitsProcessorOutput
    from sglang.srt.managers.schedule_batch import Req
    from sglang.srt.sampling.sampling_batch_info import SamplingBatchInfo
    from sglang.srt.sampling.sampling_params import SamplingParams

VOCAB = 64


class Batch:
    """What `SamplingBatchInfo` reads of SGLang's `ScheduleBatch`."""

    device = "cpu"

    def __init__(self, reqs: list[Any]) -> None:
        self.reqs = reqs
        self.info = SamplingBatchInfo.from_schedule_batch(self, VOCAB)

    def filter(self, keep: list[int]) -> None:
        self.reqs = [self.reqs[i] for i in keep]
        self.info.filter_batch(keep, torch.tensor(keep, dtype=torch.long))

    def merge(self, other: Batch) -> None:
        self.info.merge_batch(other.info)
        self.reqs = self.reqs + other.reqs


def new_request(name: str, prompt: list[int], **settings: Any) -> Any:
    request = Req(
        rid=name,
        origin_input_text="",
        origin_input_ids=array("q", prompt),
        sampling_params=SamplingParams(**settings),
        vocab_size=VOCAB,
        eos_token_ids={0},
    )
    request.tokenizer = SimpleNamespace(additional_stop_token_ids=None, eos_token_id=0)
    return request


def new_sampler(backend: str | None = None) -> Any:
    """A sampler as SGLang creates it."""
    group = SimpleNamespace(device_group=torch.distributed.group.WORLD)
    with runtime_context.get_parallel().override(tp_group=group):
        return sglangs.create_sampler(backend)


def output_of(logits: Any) -> Any:
    return LogitsProcessorOutput(next_token_logits=torch.as_tensor(logits).clone())


class SglangEngine:
    """Requests in SGLang's own batches. With `is_late`, a token reaches its request one step after it has
    been drawn, as in the overlap schedule."""

    def __init__(self, is_late: bool = False) -> None:
        self.sampler, self.is_late = new_sampler(), is_late
        self.running = Batch([])
        self._on_their_way: list[tuple[Any, int]] = []

    def draw(self, batch: Batch, logits: np.ndarray, *, counts: bool = True) -> tuple[list[int], Any]:
        """The tokens of a batch as in `ModelRunner.sample`, and the logits that the sampler is given."""
        info = batch.info.copy_for_forward()
        info.grammars = [r.grammar for r in batch.reqs] if any(r.grammar for r in batch.reqs) else None
        output = output_of(logits)
        info.update_regex_vocab_mask()
        info.apply_logits_bias(output.next_token_logits)
        seen = output.next_token_logits.clone()
        tokens = self.sampler(output, info, False, None, None, None).tolist()
        arrived, self._on_their_way = self._on_their_way, []
        if counts:
            self._on_their_way = list(zip(batch.reqs, tokens, strict=True))
        if not self.is_late:
            arrived, self._on_their_way = arrived + self._on_their_way, []
        for request, token_id in arrived:
            request.output_ids.append(token_id)
        return tokens, seen

    def count_for_penalties(self, tokens: list[int]) -> None:
        """What SGLang's penalties need to know of the last tokens of the running batch."""
        if self.running.reqs and self.running.info.penalizer_orchestrator.is_required:
            self.running.info.penalizer_orchestrator.cumulate_output_tokens(torch.tensor(tokens))
