"""The `StepResult` of a step, from the answers of all ranks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set
from dataclasses import replace

import numpy as np

from engine_sampler import Logprobs, StepResult
from engine_sampler.contract import LOGPROBS_KINDS
from engine_sampler.for_backends import LogprobsCollector, LogprobsPlan

from .answers import RankAnswer, blank_result
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
    logprobs = _merged_logprobs(plan, answers, result, skipped, vocab_size)
    return replace(result, logprobs=logprobs, skipped=sorted(skipped))


def _merged_logprobs(
    plan: StepPlan,
    answers: Sequence[RankAnswer | None],
    result: StepResult,
    skipped: Set[int],
    vocab_size: int,
) -> Logprobs | None:
    """The ranks' logprobs in the shape that they have on one rank."""
    drawing = [i for i, entry in enumerate(plan.entries) if entry.beams is None and i not in skipped]
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
    request_of = np.repeat(np.arange(len(plan.entries)), plan.counts)
    for rank, answer in enumerate(answers):
        tables = {} if answer is None else answer.details.logprobs
        for mode, table in tables.items():
            for own, row in enumerate(plan.rows_of(rank).tolist()):
                entry, modes = table.row(own), modes_of[request_of[row]]
                if len(entry.token_ids) and (mode or modes):
                    target = out[LOGPROBS_KINDS.index(mode or modes[0])]
                    assert target is not None
                    target.fill(row, entry)
    return collector.result()


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
    for depth in range(1, int(plan.counts.max())):
        which = which[plan.counts[which] > depth]
        which = which[result.token_ids[plan.first_rows[which] + depth] >= 0]
        if not len(which):
            return
        if any(plan.entries[i].needs_logprobs for i in which):
            yield which, plan.first_rows[which] + depth
