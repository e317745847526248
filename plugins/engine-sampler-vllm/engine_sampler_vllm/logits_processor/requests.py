"""Requests of vLLM that enable our samplers, each mirrored by a request of our scheduler."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from engine_sampler import RequestLimits, SamplingParams, Scheduler, Tokenizer
from engine_sampler.arithmetic import child_seed
from engine_sampler.for_backends import RequestId
from engine_sampler.for_bridges import to_numpy, within

from .settings import settings_of

logger = logging.getLogger("engine_sampler")


@dataclass(eq=False)
class FollowedRequest:
    """A request of vLLM's.

    token_count  how many of its tokens our request has, as vLLM counts them.
    """

    params: SamplingParams
    request_id: RequestId | None = None
    token_count: int = 0
    refused: bool = False
    """Whether its parameters do not fit the vocabulary: its rows then stay unchanged."""

    @property
    def started(self) -> bool:
        return self.request_id is not None


class Requests:
    """The scheduler of one processor, and its requests.

    Histories hold only tokens of the vocabulary: ids that stand for images and the like are left out.
    The scheduler is created for the width of the first logits. It has no EOS and so ends no request.
    """

    def __init__(self, vllm_config: Any) -> None:
        model_config = getattr(vllm_config, "model_config", None)
        self._tokenizer = _tokenizer_of(model_config)
        self._seed: int = (getattr(model_config, "seed", None) or 0) % 2**64
        self._unseeded = 0
        self._scheduler: Scheduler | None = None

    def open(self, request: Any) -> FollowedRequest | None:
        """Follow a request with vLLM's parameters `request`; None if it enables none of our samplers.

        A request without a seed gets the next child of the model's seed: the same on all ranks of a
        tensor-parallel group, which see the same requests in the same order and must choose the same tokens.
        """
        params = settings_of(request)
        if params is None:
            return None
        if params.seed is None:
            params = params.replace(seed=child_seed(self._seed, self._unseeded))
            self._unseeded += 1
        return FollowedRequest(params)

    def close(self, followed: FollowedRequest | None) -> None:
        """Forget a request's state; `start` would restart it."""
        if followed is not None and followed.request_id is not None and self._scheduler is not None:
            self._scheduler.remove(followed.request_id)
            followed.request_id, followed.token_count = None, 0

    def start(
        self, followed: FollowedRequest, prompt: Sequence[int], output: Sequence[int], width: int
    ) -> None:
        """Start a request with its history, for logits of this width."""
        if self._scheduler is None:
            # `settings_of` has checked the limits.
            self._scheduler = Scheduler(width, self._tokenizer, limits=RequestLimits.none())
        try:
            followed.request_id = self._scheduler.add(
                followed.params, self._in_vocabulary(prompt), output_token_ids=self._in_vocabulary(output)
            )
        except ValueError as error:  # vLLM has no way to end a request from here
            followed.refused = True
            logger.error("a request continues without its samplers, which it cannot have: %s", error)

    def extend(self, followed: FollowedRequest, token_ids: Iterable[int]) -> int:
        """Add tokens to a started request; returns how many of them are in the vocabulary."""
        assert self._scheduler is not None
        in_vocabulary = self._in_vocabulary(token_ids)
        self._scheduler.accept(followed.request_id, in_vocabulary)
        return len(in_vocabulary)

    def retract(self, followed: FollowedRequest, n: int) -> None:
        """Roll back the last `n` tokens of the vocabulary."""
        assert self._scheduler is not None
        self._scheduler.rollback(followed.request_id, n)

    def process(self, rows: Any, followed: Sequence[FollowedRequest]) -> Any:
        """`rows` [n, width] as float32 after the chains of these distinct requests: a tensor on their device
        if the backend works there, else an array. A row that our chain cannot process stays unchanged, and
        the reason is logged."""
        assert self._scheduler is not None
        processed = self._scheduler.process(rows, [f.request_id for f in followed], on_device=True)
        if not isinstance(processed, np.ndarray):
            return processed.where(~processed[:, :1].isnan(), rows.to(processed))
        faulty = np.isnan(processed[:, 0])
        if faulty.any():
            processed[faulty] = to_numpy(rows)[faulty]
        return processed

    def _in_vocabulary(self, token_ids: Iterable[int]) -> list[int]:
        assert self._scheduler is not None
        return within(token_ids, self._scheduler.vocabulary.size)


def _tokenizer_of(model_config: Any) -> Tokenizer | None:
    """The model's tokenizer, for parameters given as text; None if vLLM has none, or we cannot read it.

    Its EOS is not an EOS of ours: vLLM decides when a request ends.
    """
    try:
        from vllm.tokenizers import cached_tokenizer_from_config  # type: ignore[import-not-found]
    except ImportError:
        return None
    if model_config is None or model_config.skip_tokenizer_init:
        return None
    tokenizer = cached_tokenizer_from_config(model_config)
    try:
        return Tokenizer.from_transformers(tokenizer, eos_token_ids=(), eot_token_id=tokenizer.eos_token_id)
    except (TypeError, ValueError) as error:
        logger.warning("parameters given as text cannot be used: %s", error)
        return None
