"""Requests of vLLM that asked for our samplers, each followed by a request of our scheduler."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...arithmetic import child_seed
from ...params import SamplingParams
from ...scheduler import RequestId, Scheduler
from ...tokenizer import Tokenizer
from .settings import settings_of

logger = logging.getLogger("engine_sampler")


@dataclass(eq=False)
class Followed:
    """A request of vLLM's.

    taken  how many of its tokens we have, as vLLM counts them.
    """

    params: SamplingParams
    request_id: RequestId | None = None
    taken: int = 0
    refused: bool = False
    """Whether its parameters turned out not to fit the vocabulary: its rows stay as they are."""

    @property
    def begun(self) -> bool:
        return self.request_id is not None


class Requests:
    """The scheduler behind one processor, and what makes requests of it.

    Histories hold only tokens of the vocabulary: ids that stand for images and the like are left out.
    The scheduler is made for the width of the first logits. It knows no EOS and so ends no request.
    """

    def __init__(self, vllm_config: Any) -> None:
        model_config = getattr(vllm_config, "model_config", None)
        self._tokenizer = _tokenizer_of(model_config)
        self._seed: int = (getattr(model_config, "seed", None) or 0) % 2**64
        self._unseeded = 0
        self._scheduler: Scheduler | None = None

    def open(self, request: Any) -> Followed | None:
        """Follow a request with vLLM's parameters `request`; None if it asks nothing of us.

        One without a seed gets the next child of the model's: the same on all ranks of a tensor-parallel
        group, which see the same requests in the same order and must choose the same tokens.
        """
        params = settings_of(request)
        if params is None:
            return None
        if params.seed is None:
            params = params.replace(seed=child_seed(self._seed, self._unseeded))
            self._unseeded += 1
        return Followed(params)

    def close(self, followed: Followed | None) -> None:
        """Forget what is known of a request; `begin` would start it anew."""
        if followed is not None and followed.request_id is not None and self._scheduler is not None:
            self._scheduler.remove(followed.request_id)
            followed.request_id, followed.taken = None, 0

    def begin(self, followed: Followed, prompt: Sequence[int], output: Sequence[int], width: int) -> None:
        """Start a request with its history, for logits of this width."""
        if self._scheduler is None:
            self._scheduler = Scheduler(width, self._tokenizer)
        try:
            followed.request_id = self._scheduler.add(
                followed.params, self._known(prompt), output_token_ids=self._known(output)
            )
        except ValueError as error:  # vLLM has no way to end a request from here
            followed.refused = True
            logger.error("a request goes on without its samplers, which it cannot have: %s", error)

    def extend(self, followed: Followed, token_ids: Iterable[int]) -> int:
        """Add tokens to a request that has begun; how many there were of the vocabulary."""
        assert self._scheduler is not None
        known = self._known(token_ids)
        self._scheduler.accept(followed.request_id, known)
        return len(known)

    def retract(self, followed: Followed, n: int) -> None:
        """Take back the last `n` tokens of the vocabulary."""
        assert self._scheduler is not None
        self._scheduler.rollback(followed.request_id, n)

    def process(self, rows: np.ndarray, followed: Sequence[Followed]) -> np.ndarray:
        """`rows` float32 [n, width] after the chains of these different requests; a row that our chain cannot
        deal with stays as it is, and the reason is logged."""
        assert self._scheduler is not None
        processed = self._scheduler.process(rows, [f.request_id for f in followed])
        faulty = np.isnan(processed[:, 0])
        processed[faulty] = rows[faulty]
        return processed

    def _known(self, token_ids: Iterable[int]) -> list[int]:
        assert self._scheduler is not None
        size = self._scheduler.vocabulary.size
        return [token for token in token_ids if 0 <= token < size]


def _tokenizer_of(model_config: Any) -> Tokenizer | None:
    """The model's tokenizer, for parameters given as text; None where vLLM has none, or we cannot read it.

    Its EOS is no EOS of ours: vLLM says when a request ends.
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
