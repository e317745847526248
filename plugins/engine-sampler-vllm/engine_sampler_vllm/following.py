"""`FollowingProcessor`: the requests of vLLM's persistent batch, by row."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from vllm.v1.sample.logits_processor.interface import LogitsProcessor

from engine_sampler import SamplingParams

from .settings import params_or_vllms


class BatchRequest:
    """A request in the batch.

    key     its name for the sampler, never used twice.
    output  vLLM's own list, to which it adds every token.
    """

    def __init__(self, key: int, params: SamplingParams, prompt: Sequence[int], output: list[int]) -> None:
        self.key, self.params, self.output = key, params, output
        self._prompt, self._width, self._is_new = prompt, 0, True

    def prompt_within(self, vocab_size: int) -> Sequence[int]:
        """Its prompt, the same object each time."""
        if self._width != vocab_size:
            self._prompt, self._width = in_vocabulary(self._prompt, vocab_size), vocab_size
        return self._prompt

    def tokens(self) -> Sequence[int] | None:
        """Its output. None where vLLM has placeholders for tokens that are still on their way from the
        device: what the sampler has drawn is its output then."""
        output, is_new, self._is_new = self.output, self._is_new, False
        if not output or output[-1] >= 0:
            return output
        return output[: output.index(-1)] if is_new else None


class FollowingProcessor(LogitsProcessor):
    """A processor that changes nothing: vLLM tells it of every change of the batch.

    rows  the request in each row.
    seed  of the model: the same on all ranks.
    """

    def __init__(self, vllm_config: Any) -> None:
        self.seed: int = getattr(vllm_config.model_config, "seed", None) or 0
        self.rows: dict[int, BatchRequest] = {}
        self._keys = itertools.count()

    def is_argmax_invariant(self) -> bool:
        return False

    def apply(self, logits: Any) -> Any:
        return logits

    def update_state(self, batch_update: Any) -> None:
        """Removals, then arrivals, then moves."""
        if batch_update is None:
            return
        rows = self.rows
        for row in batch_update.removed:
            rows.pop(row, None)
        for row, params, prompt, output in batch_update.added:
            rows[row] = BatchRequest(next(self._keys), params_or_vllms(params), prompt or (), output)
        for source, target, direction in batch_update.moved:
            leaving, displaced = rows.pop(source, None), rows.pop(target, None)
            if leaving is not None:
                rows[target] = leaving
            if displaced is not None and direction.name == "SWAP":
                rows[source] = displaced


def following_in(metadata: Any) -> FollowingProcessor | None:
    """The one among the processors of a batch; None for a batch that was not made by a model runner."""
    processors = metadata.logitsprocs.non_argmax_invariant
    return next((p for p in processors if isinstance(p, FollowingProcessor)), None)


def requests_in(metadata: Any, count: int) -> list[BatchRequest] | None:
    """The requests of a batch of `count` rows; None if nobody follows them."""
    following = following_in(metadata)
    if following is None or following.rows.keys() != {*range(count)}:
        return None
    return [following.rows[row] for row in range(count)]


def in_vocabulary(token_ids: Sequence[int], vocab_size: int) -> list[int]:
    """`token_ids` without those that stand for images and the like, and without padding."""
    return [token_id for token_id in token_ids if 0 <= token_id < vocab_size]
