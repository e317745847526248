"""`Judging`: which of the drawn tokens count."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from ..base.errors import INTERRUPTIONS, quoted
from ..contract import Backend, Batch, NoTokenLeft, Work
from ..requests.constraint import Constraint
from .logprobs import LogprobsCollector, LogprobsPlan, Penalized
from .masks import GrammarMasks
from .row_plans import Round

logger = logging.getLogger("engine_sampler")


class Judgement(NamedTuple):
    """What is known about the drawn tokens before they join the histories, by index in the round.

    refused         those whose token does not count: their requests have ended, or are postponed.
    may_have_ended  those whose grammar may be over.
    logprobs        the raw logprobs of the tokens, for requests that record them.
    """

    refused: Sequence[int] = ()
    may_have_ended: Sequence[int] = ()
    logprobs: dict[int, float] = {}


ALL_COUNT = Judgement()


class Judging:
    """Finds the tokens of a step that do not count, collects logprobs, and gives the grammars their tokens.

    keep_faulty  whether requests go on whose rows are faulty.
    """

    def __init__(
        self, backend: Backend, masks: GrammarMasks, penalized: Penalized, *, keep_faulty: bool
    ) -> None:
        self._backend = backend
        self._masks = masks
        self._penalized = penalized
        self._keep_faulty = keep_faulty

    def judge(
        self, drawing: Round, batch: Batch, collector: LogprobsCollector | None, faults: dict[int, str]
    ) -> Judgement:
        """What is known of the tokens of a round before they join the histories. `faults` learns why the rows
        of requests that go on gave no token, by the index of the request in the step."""
        inputs, rows = drawing.inputs, drawing.rows
        refused = self._faulty(drawing, batch, faults)
        logprobs: dict[int, float] = {}
        if collector is not None and inputs.logprobs is not None:
            logprobs = self._collect_logprobs(drawing, batch, collector, inputs.logprobs, refused)
        inadmissible, may_have_ended = self._extend_grammars(drawing, refused) if inputs.masked else ([], [])
        if inadmissible and collector is not None:
            collector.clear(rows[inadmissible])
        return Judgement([*refused, *inadmissible], may_have_ended, logprobs)

    def _faulty(self, drawing: Round, batch: Batch, faults: dict[int, str]) -> list[int]:
        """The indices of the requests whose rows gave no token; they end with the reason, unless they
        are postponed."""
        size, requests = batch.logits.vocab_size, drawing.inputs.requests
        some_wait = any(requests[i].sits_out for i in (*drawing.inputs.masked, *drawing.inputs.preparing))
        are_sound = batch.errors.count(None) == len(batch.errors) and not some_wait
        if are_sound and (drawing.inputs.draws.token_ids.view(np.uint64) < size).all():
            return []
        faulty = []
        tokens = zip(drawing.rows.tolist(), drawing.inputs.draws.token_ids.tolist(), strict=True)
        for i, (row, token) in enumerate(tokens):
            request, error = requests[i], batch.errors[row]
            if error is None and not 0 <= token < size:
                error = f"backend {self._backend.name} gave {'no token' if token < 0 else f'token {token}'}"
            if request.bans is not None and isinstance(error, NoTokenLeft) and request.bans.give_way():
                faulty.append(i)  # as if it were postponed
                continue
            if error is not None and request.live and not request.postponed:
                reason = str(error) if type(error) in (str, NoTokenLeft) else quoted(error)
                if self._keep_faulty and not request.params.use_beam_search:
                    faults[drawing.members[i]] = reason
                else:
                    request.fail(reason)
            if error is not None or request.sits_out:
                faulty.append(i)
        return faulty

    def _collect_logprobs(
        self,
        drawing: Round,
        batch: Batch,
        collector: LogprobsCollector,
        needed: LogprobsPlan,
        refused: Sequence[int],
    ) -> dict[int, float]:
        """Compute the logprobs that the backend has not; returns the raw ones that requests record, by
        index."""
        assert batch.logprobs is not None
        if not (refused or needed.recorded or needed.detailed) and batch.logprobs.done.all():
            return {}
        rows, token_ids = drawing.rows, drawing.inputs.draws.token_ids
        is_missing = ~batch.logprobs.done[rows] & (needed.kinds != 0)
        batch.logits.fetch(rows[is_missing & needed.of_logits].tolist())
        if refused:
            collector.clear(rows[refused])
        failed, is_detailed = set(refused), np.zeros(len(rows), bool)
        is_detailed[needed.detailed] = True
        for i in np.flatnonzero(is_missing | is_detailed).tolist():
            if i in failed:
                continue
            request, row = drawing.inputs.requests[i], int(rows[i])
            try:
                if is_missing[i]:
                    collector.complete(request, row, int(token_ids[i]), batch, self._penalized)
                if is_detailed[i]:
                    collector.add_details(request, row, batch, self._penalized, self._backend)
            except (MemoryError, *INTERRUPTIONS):
                raise
            except BaseException as fault:
                failed.add(i)
                logger.error("request %r: no logprobs: %s", request.id, fault)
        return {i: collector.raw(int(rows[i]), k) for i, k in needed.recorded.items() if i not in failed}

    def _extend_grammars(self, drawing: Round, refused: Sequence[int]) -> tuple[list[int], list[int]]:
        """Give the grammars their tokens, except those `refused`. Returns the indices of those that do not
        take theirs, and whose requests end or are postponed, and of those that may be over."""
        inadmissible: list[int] = []
        may_have_ended: list[int] = []
        unfinished: dict[int, None] = {}
        requests, token_ids = drawing.inputs.requests, drawing.inputs.draws.token_ids.tolist()
        budget, masked = self._masks.budget, drawing.inputs.masked
        budget.start_accepts()
        work = budget.parts(len(masked))

        def accept(i: int) -> None:
            request = requests[i]
            if request.accept_in_grammar(token_ids[i], work):
                if request.grammar is not None and request.grammar.may_have_ended():
                    may_have_ended.append(i)
            elif request.postponed:
                unfinished[i] = None
            else:
                inadmissible.append(i)

        for i in masked:
            if not refused or i not in refused:
                accept(i)
        for i in budget.turns([*unfinished], requests):
            accept(i)
        inadmissible += [i for i in unfinished if requests[i].postponed]
        return inadmissible, may_have_ended


def extend_known(
    grammars: Mapping[int, Constraint], token_ids: Sequence[int], work: Work | None
) -> Sequence[int] | None:
    """Give grammars their tokens, by index. Returns those that may be over; None, and nothing has changed,
    unless all take theirs."""
    taken: list[Constraint] = []
    over = []
    for i, grammar in grammars.items():
        try:
            is_taken = grammar.accept(token_ids[i], work)
        except INTERRUPTIONS:
            raise
        except BaseException:  # the request learns of it when it is asked again
            is_taken = False
        if not is_taken:
            for before in taken:
                before.rollback(1)
            return None
        taken.append(grammar)
        if grammar.may_have_ended():
            over.append(i)
    return over
