"""mlx-lm's `BatchGenerator`: one call of our chain for all sequences of a step, each with its own parameters.

    from engine_sampler import SamplingParams
    from engine_sampler_mlx import MlxBatchSampler
    from mlx_lm import load
    from mlx_lm.generate import BatchGenerator

    model, tokenizer = load(path)
    sampler = MlxBatchSampler(vocab_size, eos_token_ids=[tokenizer.eos_token_id])
    generator = BatchGenerator(model, sampler=sampler, stop_tokens=[[tokenizer.eos_token_id]])
    requests = [sampler.request(SamplingParams(min_p=0.05, seed=seed)) for seed in range(8)]
    generator.insert(prompts, logits_processors=[[request] for request in requests])

mlx-lm calls the processors of all sequences in the order of the rows, then a sampler that they share: each
request says as a processor whose row comes next, and changes nothing.

>>> import numpy as np
>>> sampler = MlxBatchSampler(4)
>>> first = sampler.request(SamplingParams(temperature=0))
>>> second = sampler.request(SamplingParams(top_k=1, seed=7))
>>> logits = np.array([[0.0, 3.0, 1.0, 2.0], [2.0, 0.0, 1.0, 1.5]], np.float32)
>>> for request, row in zip((first, second), logits):
...     _ = request([0, 1], row[None])
>>> sampler(logits).tolist()
[1, 0]
"""

from __future__ import annotations

import logging
import weakref
from collections.abc import Sequence
from typing import Any

import numpy as np

from engine_sampler import RequestLimits, SamplingParams, Scheduler, Tokenizer
from engine_sampler.contract import Backend
from engine_sampler.for_backends import RequestId
from engine_sampler.for_bridges import array_of, instance_of, integers_of, like, to_numpy

logger = logging.getLogger("engine_sampler")


class MlxBatchSampler:
    """The sampler of a `BatchGenerator`. All its sequences must have it, and a `request` as last processor.

    vocab_size     tokens; logits may be wider (padded heads).
    tokenizer      for parameters given as text, and for grammars.
    eos_token_ids  default: the tokenizer's. What a request that has ended draws from then on; without any, it
                   repeats its last token.

    Each row gets the token that a `Scheduler` draws from the same logprobs for this request alone, with its
    prompt, output and seed. Stop strings, limits and grammars end requests: give `BatchGenerator` the EOS
    token in `stop_tokens`. A faulty row (NaN, nothing left) is logged, and its request ends.
    """

    def __init__(
        self,
        vocab_size: int,
        tokenizer: Tokenizer | None = None,
        *,
        eos_token_ids: Sequence[int] = (),
        backend: str | Backend = "auto",
    ) -> None:
        self.scheduler = Scheduler(
            vocab_size,
            tokenizer,
            eos_token_ids=eos_token_ids,
            backend=backend,
            limits=RequestLimits.none(),  # the caller's own program writes the parameters
            postpone=False,
        )
        self._next: list[MlxRequest] = []
        """Whose rows the next call has."""

    def request(self, params: SamplingParams, *, grammar: Any = None) -> MlxRequest:
        """The processor of one sequence; see `Scheduler.add`. Raises `ParameterError`."""
        instance_of(SamplingParams, "params", params, "a SamplingParams")
        self.scheduler.remove(
            self.scheduler.add(params, grammar=grammar)
        )  # wrong parameters are refused here
        return MlxRequest(self, params, grammar)

    def __call__(self, logprobs: Any) -> Any:
        """Draw a token for each row of `logprobs` [B, ≥ vocab], whose requests have just been called as
        processors: uint32 [B]. Logits work as well.

        Raises ValueError unless each row has one of the requests of this sampler.
        """
        requests, self._next = self._next, []
        rows = array_of("logprobs", to_numpy(logprobs), "f", 2, "floats [rows, vocab]")
        if len(requests) != len(rows) or len({*map(id, requests)}) != len(requests):
            raise ValueError(
                f"{len(rows)} rows and {len({*map(id, requests)})} requests: each sequence needs a request "
                "of this sampler in its logits_processors"
            )
        live = [i for i, request in enumerate(requests) if not request.has_ended]
        if live:
            self._step(rows if len(live) == len(rows) else rows[live], [requests[i] for i in live])
        return like(logprobs, np.array([request.last for request in requests]), "uint32")

    def _step(self, rows: np.ndarray, requests: list[MlxRequest]) -> None:
        ids = [request.start() for request in requests]
        result = self.scheduler.step(rows, ids)
        ends = self.scheduler.vocabulary.eos_token_ids
        for i, (request, token) in enumerate(zip(requests, result.token_ids.tolist(), strict=True)):
            if result.errors[i] is not None:
                logger.error("mlx: row %d: %s", i, result.errors[i])
            request.has_ended = result.finish_reasons[i] is not None
            if token < 0:
                token = ends[0] if ends else int(np.nan_to_num(rows[i], nan=-np.inf).argmax())
            request.last = token

    def announce(self, request: MlxRequest) -> None:
        """Note that the next row is this request's."""
        self._next.append(request)


class MlxRequest:
    """One sequence: a processor that changes nothing. Built by `MlxBatchSampler.request`.

    has_ended  whether the request has ended here; from then on it draws EOS.
    last       the token drawn last; −1 before the first.
    """

    def __init__(self, sampler: MlxBatchSampler, params: SamplingParams, grammar: Any) -> None:
        self.has_ended = False
        self.last = -1
        self._sampler, self._params, self._grammar = sampler, params, grammar
        self._request_id: RequestId | None = None
        self._prompt: list[int] = []

    def __call__(self, tokens: Any, logits: Any) -> Any:
        """`logits` as they are. `tokens` [n] of the first call are the prompt."""
        if self._request_id is None:
            given = to_numpy(tokens) if getattr(tokens, "shape", None) else tokens
            self._prompt = integers_of("tokens", given)
        elif self.has_ended and (ends := self._sampler.scheduler.vocabulary.eos_token_ids):
            self.last = ends[0]
        self._sampler.announce(self)
        return logits

    def start(self) -> RequestId:
        """The request's id; it joins in the first step, and leaves when nothing refers to this object."""
        if self._request_id is None:
            scheduler = self._sampler.scheduler
            is_matcher = hasattr(self._grammar, "fill_bitmask")
            grammar = self._grammar.fork() if is_matcher else self._grammar
            self._request_id = scheduler.add(self._params, self._prompt, grammar=grammar)
            weakref.finalize(self, scheduler.remove, self._request_id)
        return self._request_id
