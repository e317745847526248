"""A scheduler that is told the tokens: it shows, step by step, what the samplers of a rollout saw."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from engine_sampler import RequestLimits, SamplingParams, Scheduler, Tokenizer
from engine_sampler.contract import Backend, BackendError, Batch, Chain, Group, Sampler, Selector
from engine_sampler.for_backends import GRAMMAR_OPTIONS, default_registry, structured_in

from ..running.plan import DevicePlan
from .record import Rollouts

_MOST_TOKENS, _MOST_ROWS = 1 << 20, 512
"""Rows are walked through together as long as their histories, and they, are no more than these."""

_OF_REQUESTS = {"seed", "min_keep", "order", "thinking", "thinking_token_budget", "answer", "phases"}
"""The parameters of requests as such that change logits."""

Visit = Callable[[Group, np.ndarray], None]
"""Called with a group, and the rows of the rollouts that it has, int64 [n]."""


class Span(NamedTuple):
    """Rows `begin` to `end` of one record, counted from its first."""

    record: int
    begin: int
    end: int


class _AllSeenError(BackendError):
    """Every row of a step has been visited, or a visit has failed: the scheduler need not go on with it."""


class _Told(Backend):
    """Draws the tokens that it is told, and shows the groups of rows."""

    name = "replay"
    hosts_the_rest = True

    def __init__(self, visit: Visit) -> None:
        self._visit = visit
        self.rows = self.tokens = np.empty(0, np.int64)
        self._seen = np.empty(0, bool)
        self.fault: Exception | None = None
        """What a visit has raised: a scheduler would end the requests by it."""

    def tell(self, rows: np.ndarray, tokens: np.ndarray) -> None:
        """The rows of the rollouts in the next step, int64 [n], and their tokens."""
        self.rows, self.tokens, self._seen = rows, tokens, np.zeros(len(rows), bool)

    def reads_from(self, device: str) -> bool:
        return True

    def supports(self, sampler: Sampler | Selector) -> bool:
        return True

    def compile(self, chain: Chain) -> Chain:
        return chain

    def follows_drafts(self, plan: Chain, tokens: int) -> bool:
        steps = DevicePlan.of(plan).steps
        return all(s.parameters_only or s.positions_only or s.histories_only for s in steps)

    def run(self, batch: Batch) -> None:
        is_first = not self._seen.any()
        for group in batch.groups:
            fresh = np.flatnonzero(~self._seen[group.index])
            if not len(fresh):
                continue
            index = group.index[fresh]
            part = Group(group.plan, index, group.rows.take(fresh), group.masked)
            try:
                self._visit(part, self.rows[index])
            except Exception as fault:
                self.fault = fault
                raise _AllSeenError from fault
            self._seen[index] = True
        if is_first and self._seen.all():
            raise _AllSeenError
        batch.token_ids[self._seen] = self.tokens[self._seen]


def walk(rollouts: Rollouts, tokenizer: Tokenizer | None, visit: Visit) -> None:
    """Visit every row of the rollouts once. Raises ValueError, and `ParameterError` for parameters that need
    a tokenizer."""
    backend = _Told(visit)
    scheduler = Scheduler(
        rollouts.vocab_size,
        tokenizer,
        backend=backend,
        limits=RequestLimits.none(),
        postpone=False,
        name="replay",
    )
    row = np.zeros((1, rollouts.vocab_size), np.float32)
    for spans in _batches(rollouts):
        live = set(scheduler.request_ids)
        for span in spans:
            if span.record in live:
                continue
            if span.begin:  # an EOS, after which the output goes on, has ended it
                scheduler.remove(span.record)
            params = _of_rows(rollouts.records[span.record].chosen)
            begin, prompt = rollouts.begins[span.record], rollouts.prompts[span.record].tolist()
            output = rollouts.outputs[begin : begin + span.begin].tolist()
            scheduler.add(params, prompt, request_id=span.record, output_token_ids=output)
        _step(scheduler, backend, rollouts, spans, row)
        for span in spans:
            if span.end == rollouts.begins[span.record + 1] - rollouts.begins[span.record]:
                scheduler.remove(span.record)


def _step(
    scheduler: Scheduler, backend: _Told, rollouts: Rollouts, spans: Sequence[Span], row: np.ndarray
) -> None:
    """Show the rows of these spans, and let their requests go on behind them."""
    begins = [int(rollouts.begins[span.record]) for span in spans]
    numbers = [np.arange(b + span.begin, b + span.end) for b, span in zip(begins, spans, strict=True)]
    tokens = [rollouts.outputs[some] for some in numbers]
    rows = np.concatenate(numbers)
    backend.tell(rows, np.concatenate(tokens))
    logits = np.broadcast_to(row, (len(rows), row.shape[1]))  # nobody reads them
    request_ids = [span.record for span in spans]
    try:
        result = scheduler.step(logits, request_ids, [some[:-1].tolist() for some in tokens])
    except _AllSeenError:
        if backend.fault is not None:
            raise backend.fault from None
        for request_id, some in zip(request_ids, tokens, strict=True):
            scheduler.accept(request_id, some.tolist())
        return
    if backend.fault is not None:
        raise backend.fault
    for span, first, some, error in zip(spans, result.first_rows, tokens, result.errors, strict=True):
        if error is not None or (result.token_ids[first : first + len(some)] != some).any():
            why = error or "its parameters end it, or force another token, before its output does"
            raise ValueError(f"record[{span.record}] cannot be replayed: {why}")


def _batches(rollouts: Rollouts) -> Iterator[list[Span]]:
    """All rows, in spans of bounded size."""
    spans: list[Span] = []
    rows = tokens = 0
    lengths = np.diff(rollouts.begins).tolist()
    for number, length in enumerate(lengths):
        longest = len(rollouts.prompts[number]) + length
        most = max(1, min(_MOST_ROWS, _MOST_TOKENS // longest)) if length else 1
        for begin in range(0, length, most):
            span = Span(number, begin, min(begin + most, length))
            count = span.end - begin
            if spans and (rows + count > _MOST_ROWS or tokens + count * longest > _MOST_TOKENS or begin):
                yield spans
                spans, rows, tokens = [], 0, 0
            spans.append(span)
            rows, tokens = rows + count, tokens + count * longest
    if spans:
        yield spans


def _of_rows(params: SamplingParams) -> SamplingParams:
    """The parameters that change logits. What ends a request, or reports on it, has done so in the rollout;
    and so have grammars, whose masks are in what survived, unless a sampler takes them."""
    catalogue = default_registry().catalogue
    parts: list[Any] = [*catalogue.samplers.values(), *catalogue.selectors.values()]
    kept = {param.name for part in parts for param in part.params} | _OF_REQUESTS
    if params["grammar_bias"] is not None:
        kept |= {*structured_in(params.given), *GRAMMAR_OPTIONS}
    return SamplingParams(**{name: value for name, value in params.given.items() if name in kept})
