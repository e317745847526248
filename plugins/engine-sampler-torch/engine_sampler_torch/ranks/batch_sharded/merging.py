"""The `StepResult` of a step, from the answers of all ranks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from engine_sampler import GivenLogprobs, Logprobs, SamplingMask, StepResult
from engine_sampler.contract import LOGPROBS_KINDS
from engine_sampler.for_backends import DetailsCollector, LogprobsCollector, LogprobsPlan

from .answers import Details, RankAnswer, blank_result
from .ledger import StepPlan


def merged(
    plan: StepPlan,
    answers: Sequence[RankAnswer | None],
    vocab_size: int,
    has_text: bool,
    kind: type[StepResult] = StepResult,
) -> StepResult:
    """The result of the step, of this kind: that of one rank which owns all requests. Requests of a rank
    without an answer have no token and go on."""
    skipped = set(plan.left)
    for rank, answer in enumerate(answers):
        if answer is not None:
            skipped.update(plan.by_owner[rank][answer.details.skipped].tolist())
    ids = [entry.id for entry in plan.entries]
    text = ["" if has_text and i not in skipped else None for i in range(len(ids))]
    result = blank_result(kind, ids, plan.rows, plan.first_rows, text)
    for rank, answer in enumerate(answers):
        if answer is not None:
            answer.write(result, plan.by_owner[rank], plan.rows_of(rank))
    drawing = [i for i, entry in enumerate(plan.entries) if entry.beams is None and i not in skipped]
    result.logprobs = _merged_logprobs(plan, answers, result, drawing, vocab_size)
    details = _merged_details(plan, answers, drawing, vocab_size)
    result.sampling_mask, result.given_logprobs = details
    return replace(result, skipped=sorted(skipped))


def _merged_logprobs(
    plan: StepPlan,
    answers: Sequence[RankAnswer | None],
    result: StepResult,
    drawing: Sequence[int],
    vocab_size: int,
) -> Logprobs | None:
    """The ranks' logprobs in the shape that they have on one rank."""
    if not any(plan.entries[i].needs_logprobs for i in drawing):
        return None
    rounds = _rounds(plan, result, drawing)
    which, rows = next(rounds)
    alone = len(which) == len(plan.entries) and plan.drafts is None
    needed = _needed(plan, which, vocab_size)
    counts = None if plan.drafts is None else plan.counts[which]
    collector = LogprobsCollector(plan.rows, needed, *((None, None) if alone else (rows, counts)))
    out = collector.request(needed, rows, alone).out
    for later, more in rounds:
        collector.request(_needed(plan, later, vocab_size), more, False)
    modes_of = [entry.logprobs_modes for entry in plan.entries]
    for details, told_rows in _told(plan, answers):
        for mode, table in details.logprobs.items():
            for own, row in enumerate(told_rows):
                entry, modes = table.row(own), modes_of[plan.request_of[row]]
                if len(entry.token_ids) and (mode or modes):
                    target = out[LOGPROBS_KINDS.index(mode or modes[0])]
                    assert target is not None
                    target.fill(row, entry)
    return collector.result()


def _merged_details(
    plan: StepPlan, answers: Sequence[RankAnswer | None], drawing: Sequence[int], vocab_size: int
) -> tuple[SamplingMask | None, GivenLogprobs | None]:
    """The ranks' sampling masks and logprobs of named tokens."""
    wanted = {i: entry.details for i in drawing if (entry := plan.entries[i]).details is not None}
    if not wanted:
        return None, None
    collector = DetailsCollector(plan.rows, vocab_size, [*wanted.values()])
    for details, rows in _told(plan, answers):
        for own, row in enumerate(rows):
            if (wants := wanted.get(plan.request_of[row])) is not None:
                collector.copy(wants, row, details.sampling_mask, details.given_logprobs, own)
    return collector.sampling_mask(), collector.given_logprobs()


def _told(plan: StepPlan, answers: Sequence[RankAnswer | None]) -> Iterator[tuple[Details, Sequence[int]]]:
    """What each rank tells beside tokens, and the rows of its tables among those of all."""
    for rank, answer in enumerate(answers):
        if answer is not None:
            rows, own = plan.rows_of(rank), answer.details.rows
            yield answer.details, (rows if own is None else rows[own]).tolist()


def _needed(plan: StepPlan, which: np.ndarray, vocab_size: int) -> LogprobsPlan:
    entries = [plan.entries[i] for i in which.tolist()]
    return LogprobsPlan(entries, vocab_size)


def _rounds(
    plan: StepPlan, result: StepResult, drawing: Sequence[int]
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """The requests that drew a token in each round, and their rows: all in the first, then those whose drafts
    have been right so far."""
    which = np.array(drawing, np.int64)
    yield which, plan.first_rows[which]
    if plan.drafts is None:
        return
    rows = np.flatnonzero(result.token_ids >= 0)
    of = plan.request_of[rows]
    depths = np.arange(len(rows)) - np.searchsorted(of, of)
    for depth in range(1, int(depths.max(initial=0)) + 1):
        which = of[depths == depth]
        if any(plan.entries[i].needs_logprobs for i in which):
            yield which, rows[depths == depth]
