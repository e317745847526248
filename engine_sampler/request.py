"""One live request: its slot, grammar, text and stopping state, kept in step with each other."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from .chain import Chain, build_chain
from .contract import ParameterError, StoppingCriteria, StopVerdict, Vocabulary
from .params import SamplingParams
from .registry import default_registry
from .results import Record, RequestId
from .slots import History, Slot, Slots
from .text import TextStream


class Request:
    """A request from `add` to its end. Its parts change together, in `accept` and `rollback`."""

    def __init__(
        self,
        request_id: RequestId,
        params: SamplingParams,
        history: History,
        vocabulary: Vocabulary,
        *,
        seed: int | None = None,
        matcher: Any = None,
        max_model_len: int | None = None,
        stopping_criteria: Sequence[StoppingCriteria] = (),
    ) -> None:
        self.id = request_id
        self.params = params
        self.seed = _first(seed, params.seed, secrets.randbits(64))
        self.chain: Chain = build_chain(params)
        self.entry = Slot(self.chain, history)
        self.entry.open(params, vocabulary)
        self.slot = -1
        self.position: int | None = None
        """The index of its next token when it gets a slot; None: the length of its history."""
        self.matcher = matcher
        self._mask: np.ndarray | None = None
        self._mask_words = -(-vocabulary.size // 32)
        self.max_model_len = max_model_len
        self.stream: TextStream | None = None
        if vocabulary.tokenizer is not None:
            self.stream = TextStream(vocabulary.tokenizer, params.skip_special_tokens)
        self.unsent = ""
        """Text that became certain and is not yet in a result."""
        self.criteria = self._open_criteria(stopping_criteria, vocabulary)
        self.cumulative_logprob: float | None = None
        self.finish_reason: str | None = None
        self.stop_reason: Any = None
        self.error: str | None = None
        self._resume(history.output_token_ids.tolist())

    # --- facts -----------------------------------------------------------------------------------

    @property
    def live(self) -> bool:
        return self.finish_reason is None

    @property
    def modes(self) -> tuple[str, ...]:
        """The kinds of logprobs it asked for."""
        if self.params.logprobs is None:
            return ()
        mode = self.params.logprobs_mode
        return (mode,) if isinstance(mode, str) else tuple(mode)

    def record(self) -> Record:
        history = self.entry.history
        return Record(
            self.id,
            history.prompt_token_ids.tolist(),
            history.output_token_ids.tolist(),
            None if self.stream is None else self.stream.text,
            self.finish_reason,
            self.stop_reason,
            self.error,
            self.seed,
            self.cumulative_logprob,
        )

    def mask(self) -> np.ndarray | None:
        """The grammar's bitmask for the next token, int32 [ceil(vocab / 32)], filled once per token.

        A grammar that fails ends the request; None then, and where there is no grammar.
        """
        if self._mask is None and self.matcher is not None:
            bitmask = np.zeros((1, self._mask_words), np.int32)
            try:
                self.matcher.fill_bitmask(bitmask, 0)
            except Exception as error:
                self.fail(f"the grammar failed: {type(error).__name__}: {error}")
                return None
            self._mask = bitmask[0]
        return self._mask

    # --- changes ---------------------------------------------------------------------------------

    def accept(self, slots: Slots, token_id: int, note: float | None = None) -> None:
        """Add a token everywhere; the request may end by it."""
        if self.matcher is not None and not self._matched(token_id):
            return
        self._mask = None
        slots.accept(self.slot, [token_id], [note])
        delta = self.stream.push([token_id]) if self.stream is not None else ""
        self.unsent += delta
        try:
            verdict = self._verdict(token_id, delta)
        except Exception as error:
            self.fail(f"a stopping criterion failed: {type(error).__name__}: {error}")
            return
        if verdict is not None:
            self.finish(verdict.finish_reason, verdict.reason)

    def rollback(self, slots: Slots, n: int) -> None:
        """Take back the last n output tokens everywhere; text already streamed stays streamed."""
        self._mask = None
        slots.rollback(self.slot, n)
        if self.matcher is not None and n:
            self.matcher.rollback(n)
        if self.stream is not None:
            self.stream.rollback(n)
        self.unsent = ""
        for criterion, state in self.criteria:
            criterion.rollback(state, n)

    def fork(self, request_id: RequestId, seed: int | None) -> Request:
        """A sibling that goes on from here; without `seed` with the same seed."""
        child = object.__new__(Request)
        child.__dict__.update(self.__dict__)
        child.id, child.slot, child.unsent = request_id, -1, ""
        child.seed = self.seed if seed is None else seed
        child.entry = self.entry.fork()
        child.matcher = None if self.matcher is None else self.matcher.fork()
        child.stream = None if self.stream is None else self.stream.fork()
        child.criteria = [(c, c.fork(state)) for c, state in self.criteria]
        return child

    def finish(self, finish_reason: str, stop_reason: Any = None) -> None:
        """End the request; text held back becomes certain."""
        if self.stream is not None:
            self.unsent += self.stream.flush()
        self.finish_reason, self.stop_reason = finish_reason, stop_reason

    def fail(self, error: str) -> None:
        """End the request with finish_reason `error`."""
        self.error = error
        self.finish("error")

    def take_text(self) -> str | None:
        """Text for the next result."""
        if self.stream is None:
            return None
        text, self.unsent = self.unsent, ""
        return text

    # --- inside ----------------------------------------------------------------------------------

    def _open_criteria(
        self, more: Sequence[StoppingCriteria], vocabulary: Vocabulary
    ) -> list[tuple[StoppingCriteria, Any]]:
        known = default_registry().catalogue.stopping_criteria.values()
        active: Iterable[StoppingCriteria] = (c for c in known if c.is_active(self.params, vocabulary))
        criteria = sorted([*active, *more], key=lambda c: c.is_limit)
        for criterion in more:
            if not isinstance(criterion, StoppingCriteria):
                raise ParameterError(f"stopping_criteria holds {criterion!r}, which is no StoppingCriteria")
        prompt = self.entry.history.prompt_token_ids
        return [(c, c.new_state(self.params, prompt, vocabulary)) for c in criteria]

    def _resume(self, output: list[int]) -> None:
        """Bring grammar, text and criteria up to the output that a resumed request starts with."""
        for token_id in output:
            if self.matcher is not None and not self.matcher.accept(token_id):
                raise ParameterError(f"output_token_ids: the grammar refuses token {token_id}")
            text = self.stream.push([token_id]) if self.stream is not None else ""
            for criterion, state in self.criteria:
                criterion.check(state, [token_id], text)

    def _matched(self, token_id: int) -> bool:
        try:
            accepted = self.matcher.accept(token_id)
        except Exception as error:
            self.fail(f"the grammar failed: {type(error).__name__}: {error}")
            return False
        if not accepted:
            self.fail(f"the grammar refuses token {token_id}")
        return bool(accepted)

    def _verdict(self, token_id: int, text: str) -> StopVerdict | None:
        waiting = len(self.entry.history.output_token_ids) < self.params.get("min_tokens", 0)
        verdict = None
        for criterion, state in self.criteria:
            found = criterion.check(state, [token_id], text)  # every state sees every token
            if verdict is None and not (waiting and criterion.waits_for_min_tokens):
                verdict = found
        if verdict is None and self.matcher is not None and self.matcher.is_terminated():
            verdict = StopVerdict(None)
        limit = self.max_model_len
        if verdict is None and limit is not None and len(self.entry.history) >= limit:
            verdict = StopVerdict("max_model_len", "length")
        return verdict


def _first(*values: int | None) -> int:
    return next(v for v in values if v is not None)
