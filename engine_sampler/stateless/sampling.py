"""`sample` and `process_logits`: what a scheduler does with rows, in one call."""

from __future__ import annotations

import operator
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from ..arithmetic import GivenLogprobs, LogitRows, Logprobs
from ..backends.choose import best_backend, named_backend
from ..base.arguments import not_allowed
from ..contract import Backend
from ..params import RequestLimits, SamplingParams, limits_of
from ..registry import Catalogue, default_registry, structured_in
from ..requests.results import SamplingMask, WithTensors
from ..tokenizer import Tokenizer
from .rows import Row, RowScheduler

Histories = Sequence[Sequence[int]] | None


class _Kind(NamedTuple):
    """What a scheduler is made for."""

    vocab_size: int
    tokenizer: Tokenizer | None
    backend: Backend
    catalogue: Catalogue

    def is_like(self, other: _Kind) -> bool:
        return self.vocab_size == other.vocab_size and all(map(operator.is_, self[1:], other[1:]))


class _Call(NamedTuple):
    """The scheduler of a call, for the next one of its kind."""

    kind: _Kind
    limits: RequestLimits
    scheduler: RowScheduler


class _LastCall(threading.local):
    call: _Call | None = None


_last = _LastCall()
"""The last call in each thread: in a loop over the same rows, a call costs little more than a step."""


@dataclass(frozen=True, eq=False)
class Sampled(WithTensors):
    """The result of `sample`, one entry per row. It is equal to itself only: compare its parts.

    token_ids  int64 [rows], −1 for a faulty row.
    logprobs, sampling_mask, given_logprobs  as in `StepResult`.
    seeds      including those chosen at random.
    errors     None for rows without an error.
    token_ids_on_device  as in `StepResult`.
    """

    token_ids: np.ndarray
    logprobs: Logprobs | None
    seeds: list[int]
    errors: list[str | None]
    token_ids_on_device: Any = None
    sampling_mask: SamplingMask | None = None
    given_logprobs: GivenLogprobs | None = None


def sample(
    logits: Any,
    params: SamplingParams | Sequence[SamplingParams],
    *,
    prompt_token_ids: Histories = None,
    output_token_ids: Histories = None,
    positions: Sequence[int] | None = None,
    tokenizer: Tokenizer | None = None,
    backend: str | Backend = "auto",
    limits: RequestLimits | None = None,
) -> Sampled:
    """Draw one token for each row of `logits` [rows, vocab].

    params      one for all rows, or one per row.
    prompt_token_ids, output_token_ids  the rows' histories, a list of ids per row.
    positions   the index of each token to draw; default: the length of its history. The same seed at a
                different position gives a different random number.
    limits      how much the parameters may ask for; default: `RequestLimits()`.

    A token whose probability is below 2^−31 of the likeliest one's is never drawn: its integer weight is 0.

    Each row gets the token that a `Scheduler` would give it. Selectors that adapt to the tokens they have
    drawn (mirostat, adaptive_p) start from their initial state in each call. What has been built for the rows
    is kept until the next call in this thread: one with equal parameters, whose histories have only grown,
    costs little more than a step.
    """
    given = _Arguments(logits, params, prompt_token_ids, output_token_ids, positions, tokenizer, limits)
    with given.scheduler(backend) as scheduler:
        result = scheduler.draw(given.logits)
    return Sampled(
        result.token_ids,
        result.logprobs,
        result.seeds,
        result.errors,
        result.token_ids_on_device,
        result.sampling_mask,
        result.given_logprobs,
    )


def process_logits(
    logits: Any,
    params: SamplingParams | Sequence[SamplingParams],
    *,
    prompt_token_ids: Histories = None,
    output_token_ids: Histories = None,
    positions: Sequence[int] | None = None,
    tokenizer: Tokenizer | None = None,
    backend: str | Backend = "auto",
    limits: RequestLimits | None = None,
    inplace: bool = False,
) -> np.ndarray:
    """The rows after the whole chain, without a selector: float32 [rows, width], −inf = removed.

    Temperature 0 leaves only the best token. A faulty row is all NaN, and the reason is logged.

    inplace     write into `logits`, which must be a writable float32 NumPy array, and return it.

    The other keywords are those of `sample`.
    """
    if inplace and not _writable(logits):
        raise ValueError("inplace=True is not allowed: logits must be a writable float32 NumPy array")
    given = _Arguments(logits, params, prompt_token_ids, output_token_ids, positions, tokenizer, limits)
    with given.scheduler(backend) as scheduler:
        processed = scheduler.process_rows(given.logits)
    if not inplace and processed.shape == given.logits.shape:
        return processed
    out: np.ndarray = logits if inplace else np.empty(given.logits.shape, np.float32)
    out[:, : processed.shape[1]] = processed
    out[:, processed.shape[1] :] = -np.inf
    return out


class _Arguments:
    """What `sample` and `process_logits` are told. Raises ValueError unless each has an entry per row."""

    def __init__(
        self,
        logits: Any,
        params: SamplingParams | Sequence[SamplingParams],
        prompts: Histories,
        outputs: Histories,
        positions: Sequence[int] | None,
        tokenizer: Tokenizer | None,
        limits: RequestLimits | None,
    ) -> None:
        self.logits = LogitRows(logits, 1)
        n = len(self.logits)
        by_parameter = {
            "params": [params] * n if isinstance(params, SamplingParams) else list(params),
            "prompt_token_ids": [()] * n if prompts is None else prompts,
            "output_token_ids": [()] * n if outputs is None else outputs,
            "positions": [None] * n if positions is None else positions,
        }
        for name, values in by_parameter.items():
            if len(values) != n:
                raise ValueError(f"{name} has {len(values)} entries for {n} rows of logits")
            if name.endswith("token_ids") and n and isinstance(values[0], (int, np.integer)):
                raise not_allowed(name, values, "a list of ids for each row")
        self._rows = list(map(Row, *by_parameter.values()))
        self._tokenizer = tokenizer
        self._limits = limits_of(limits)

    @contextmanager
    def scheduler(self, backend: str | Backend) -> Iterator[RowScheduler]:
        """A scheduler with these rows: that of the last call in this thread, if that was of the same kind."""
        kind = self._kind(named_backend(backend) or best_backend(self.logits.device))
        last, _last.call = _last.call, None  # an exception, and a call within this one, find none
        if last is not None and last.kind.is_like(kind) and last.limits == self._limits:
            scheduler = last.scheduler
        else:
            scheduler = RowScheduler(
                kind.vocab_size, kind.tokenizer, backend=kind.backend, limits=self._limits, postpone=False
            )
        scheduler.set_rows(self._rows)
        yield scheduler
        params = {id(row.params): row.params for row in self._rows}
        if not any(structured_in(one.given) for one in params.values()):  # grammars do not stay as they are
            _last.call = _Call(kind, self._limits, scheduler)

    def _kind(self, backend: Backend) -> _Kind:
        size = len(self._tokenizer) if self._tokenizer else self.logits.width
        return _Kind(size, self._tokenizer, backend, default_registry().catalogue)


def _writable(logits: Any) -> bool:
    return isinstance(logits, np.ndarray) and logits.dtype == np.float32 and logits.flags.writeable
