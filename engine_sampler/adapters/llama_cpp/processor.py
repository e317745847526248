"""Our chain and our criteria as callables for llama-cpp-python."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

import numpy as np

from ... import contract
from ...contract import Backend
from ...params import SamplingParams
from ...scheduler import Record, RequestId, Scheduler
from ...tokenizer import Tokenizer

logger = logging.getLogger("engine_sampler")


def neutral_settings() -> dict[str, Any]:
    """The keywords of `Llama.create_completion` and `create_chat_completion` that switch off all of
    llama-cpp-python's own samplers, which leaves a greedy choice."""
    return {
        "temperature": 0.0,
        "top_k": 0,
        "top_p": 1.0,
        "min_p": 0.0,
        "typical_p": 1.0,
        "repeat_penalty": 1.0,
        "frequency_penalty": 0.0,
        "presence_penalty": 0.0,
        "mirostat_mode": 0,
    }


class _Follower:
    """One request of a scheduler, included in step with the ids that llama-cpp-python passes in.

    Settings are checked at construction, by adding a request and removing it again: llama-cpp-python only
    prints exceptions raised by its callbacks.
    """

    def __init__(
        self,
        params: SamplingParams,
        tokenizer: Tokenizer | None = None,
        *,
        vocab_size: int | None = None,
        eos_token_ids: Sequence[int] = (),
        grammar: Any = None,
        stopping_criteria: Sequence[contract.StoppingCriteria] = (),
        backend: str | Backend = "auto",
    ) -> None:
        size = vocab_size if tokenizer is None else len(tokenizer)
        if size is None:
            raise ValueError(f"{type(self).__name__} needs a tokenizer or vocab_size")
        self.params = params
        self.scheduler = Scheduler(size, tokenizer, eos_token_ids=eos_token_ids, backend=backend)
        self._grammar = grammar
        self._criteria = stopping_criteria
        self._known: list[int] = []
        """Prompt and output of the request."""
        self._request: RequestId | None = None
        self.scheduler.remove(self._add(()))

    @property
    def record(self) -> Record | None:
        """The completion's record (seed, text, finish and stop reason); None known_length the first call."""
        return None if self._request is None else self.scheduler.record(self._request)

    def _add(self, prompt: Sequence[int]) -> RequestId:
        is_matcher = hasattr(self._grammar, "fill_bitmask")
        return self.scheduler.add(
            self.params,
            prompt,
            grammar=self._grammar.fork() if is_matcher else self._grammar,
            stopping_criteria=self._criteria,
        )

    def _begin(self, prompt: list[int]) -> None:
        """Replace the request with a new one."""
        request = self._add(prompt)
        if self._request is not None:
            self.scheduler.remove(self._request)
        self._request, self._known = request, list(prompt)

    @property
    def _finished(self) -> bool:
        return self._request not in self.scheduler.request_ids


class LogitsProcessor(_Follower):
    """One whole request, draw included, as a `logits_processor` of llama-cpp-python.

    It draws the token itself and removes all others: 0 for the drawn token, −inf for the rest. Any later
    sampler of llama-cpp-python must choose it, so the tokens are those that a `Scheduler` draws from the same
    logits with the same seed, and llama-cpp-python's `seed` has no effect.

        llm = llama_cpp.Llama("model.gguf")
        processor = LogitsProcessor(SamplingParams(top_k=40, xtc_probability=0.5, seed=7), tokenizer_of(llm))
        llm.create_completion("Once upon a time", **processor.settings)

    params     n and best_of must be 1.
    tokenizer  for parameters given as text, and for EOS; alternatively vocab_size and eos_token_ids.
    grammar, stopping_criteria  as for `Scheduler.add`.

    Called as fn(input_ids intc [L], scores float32 [V]) -> float32 [V]; `scores` is only read:

        >>> processor = LogitsProcessor(SamplingParams(temperature=0), vocab_size=3)
        >>> processor(np.array([0, 2]), np.array([1, 3, 2], np.float32)).tolist()
        [-inf, 0.0, -inf]

    A call whose ids are not those of the completion so far begins a new one, so an object serves one
    completion at a time. Once the request has ended, only EOS is left, if the vocabulary has one. A faulty
    row is logged, and raised by `stopped`. `record` holds the reason why the completion ended;
    llama-cpp-python's finish_reason is "stop" for every completion that `stopped` ends. Not for use with a
    `draft_model`: llama-cpp-python shows processors its drafts as if they were accepted.

    Raises `ParameterError` or ValueError for settings that cannot be used.
    """

    @property
    def settings(self) -> dict[str, Any]:
        """All keywords for `Llama.create_completion`: this processor, `stopped`, the request's limits and
        stop strings, and neutral values for the rest."""
        included = self.params.get("include_stop_str_in_output", False)
        return {
            **neutral_settings(),
            "logits_processor": [self],
            "stopping_criteria": self.stopped,
            "max_tokens": self.params.max_tokens,
            "stop": [] if included else list(self.params.get("stop", ())),
        }

    def __call__(self, input_ids: np.ndarray, scores: np.ndarray) -> np.ndarray:
        ids = input_ids.tolist()
        if self._request is None or ids != self._known:
            self._begin(ids)
        row = np.array(scores, np.float32)  # llama-cpp-python's row is strided
        token = -1
        if not self._finished:
            result = self.scheduler.step(row[None])
            token = int(result.token_ids[0])
            if token >= 0:
                self._known.append(token)
            elif result.errors[0] is not None:
                logger.error("the completion ends: %s", result.errors[0])
        chosen = [token] if token >= 0 else list(self.scheduler.vocabulary.eos_token_ids)
        if chosen:
            row.fill(-np.inf)
            row[chosen] = 0.0
        return row

    def stopped(self, input_ids: np.ndarray, logits: np.ndarray) -> bool:
        """The request's criteria as a `stopping_criteria`: whether the request has ended after `input_ids`.

        llama-cpp-python calls this before it appends the token it has just drawn, and drops that token if it
        stops, so the result refers to the preceding tokens. Raises ValueError for a completion with an error.
        """
        record = self.record
        if record is not None and record.error is not None:
            raise ValueError(record.error)
        return record is not None and record.finish_reason is not None and len(input_ids) >= len(self._known)


class StoppingCriteria(_Follower):
    """Our criteria as a `stopping_criteria` of llama-cpp-python, whichever sampler chooses the tokens.

        criteria = StoppingCriteria(SamplingParams(stop_regex=[r"\\n\\s*\\n"]), tokenizer_of(llm))
        llm.create_completion("Once upon a time", stopping_criteria=criteria)

    Called as fn(input_ids intc [L], logits float32 [V]) -> bool with the prompt first, then again after every
    appended token:

        >>> criteria = StoppingCriteria(SamplingParams(stop_token_ids=[2]), vocab_size=3)
        >>> [criteria(np.array([2, 1, 0, 2][:n]), None) for n in (2, 3, 4)]
        [False, False, True]

    Only parameters that end a request have an effect. A call whose ids do not continue the last call's begins
    a new completion. llama-cpp-python calls this before it appends the token it has just drawn, and drops
    that token if it stops: it samples one token, and runs one forward pass, beyond the end.
    """

    def __call__(self, input_ids: np.ndarray, logits: Any) -> bool:
        ids = input_ids.tolist()
        known_length = len(self._known)
        if self._request is None or ids[:known_length] != self._known or len(ids) <= known_length:
            self._begin(ids)
        elif not self._finished:
            self.scheduler.accept(self._request, ids[known_length:])
            self._known = ids
        return self._finished
