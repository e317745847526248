"""`StepRunner`: runs steps on the backend, round by round."""

from __future__ import annotations

import itertools
import logging
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..arithmetic import LogitRows, checked_row, log_softmax
from ..backends.choose import best_backend, with_host
from ..contract import Backend, BackendError, StepMeasures
from ..requests.budget import Budget
from ..requests.request import Request
from ..requests.results import StepResult
from .accepting import Accepting
from .beam_groups import BeamGroup, BeamStep
from .grouping import Grouping
from .input_batch import InputBatch
from .judging import Judging
from .masks import GrammarMasks
from .membership.live_requests import LiveRequests
from .processing import Processing
from .report import GroupReport, decisions_of, report_group, step_measures
from .row_plans import Round, RowPlan
from .step import Step

logger = logging.getLogger("engine_sampler")


class BegunRun(NamedTuple):
    """A step whose backend has begun to draw: what `StepRunner.finish` needs.

    rounds  the rounds of the step, the first of which has begun.
    token_ids_on_device  the tokens as they will be there; None if they will not.
    """

    step: Step
    plan: RowPlan
    logits: LogitRows
    rounds: Iterable[Round]
    token_ids_on_device: Any


class StepRunner:
    """The backend in use, its groups, and the grammar masks.

    backend  None until the first step has chosen one for the logits' device.
    """

    def __init__(
        self, requests: LiveRequests, backend: Backend | None, postpone: bool, keep_faulty: bool = False
    ) -> None:
        self.backend = backend
        self._requests = requests
        self._running: Backend
        self._processing: Processing
        self._judging: Judging
        self._keep_faulty = keep_faulty
        self._grouping: Grouping | None = None
        self._device: str | None = None
        """Where the logits of the last step lay; None before the first."""
        self._decisions = (0, 0)
        """What `Backend.decisions` has counted by the last measured step."""
        self._lacks_memory = False
        """Whether memory ran out in the last step, which is then repeated."""
        self._budget = Budget(requests.slots.vocabulary.size, postpone)
        self._masks = GrammarMasks(requests.slots, self._budget)
        self.accepting = Accepting(requests, self._budget)
        self.new_step: Callable[..., Step] = Step
        """What makes the object of a step."""

    def run(self, plan: RowPlan, logits: LogitRows) -> StepResult:
        """A step whose rows are divided by `plan`."""
        step = self._step(plan, logits)
        return self._go_through(step, plan.rounds(step), plan, logits)

    def begin(self, plan: RowPlan, logits: LogitRows) -> BegunRun:
        """The first half of a step: the backend queues the work of its first round."""
        step = self._step(plan, logits)
        rounds = iter(plan.rounds(step))
        first = next(rounds, None)
        try:
            tokens = None if first is None else step.begin(first)
        except MemoryError:
            self._lack_memory(plan)
            raise
        return BegunRun(
            step, plan, logits, rounds if first is None else itertools.chain((first,), rounds), tokens
        )

    def finish(self, begun: BegunRun) -> StepResult:
        """The second half of a step."""
        return self._go_through(begun.step, begun.rounds, begun.plan, begun.logits)

    def _go_through(
        self, step: Step, rounds: Iterable[Round], plan: RowPlan, logits: LogitRows
    ) -> StepResult:
        """The rounds of a step, and what follows them."""
        try:
            _run_rounds(step, rounds)
            result = step.result(plan, self._requests.keeping.steps)
            for group in plan.groups:
                self._step_group(group, plan.inputs, logits, result)
        except MemoryError:
            self._lack_memory(plan)
            raise
        self._lacks_memory = False
        for i in sorted(step.may_have_ended):
            self._requests.retire_if_done(plan.inputs.requests[i])
        for i in step.rewinding:
            self._requests.rewind_after(plan.inputs.requests[i])
        return result

    def fill_masks(self, inputs: InputBatch) -> None:
        """Fill the grammar masks of the next step, and let samplers prepare, as far as the work of one step
        goes."""
        self._requests.keeping.keep(inputs.requests, inputs.slots)
        self._budget.start()
        self._masks.fill_for(inputs)
        if inputs.masked and self._device is not None:
            self._masks.prepare(self._running, self._device, inputs.masked)

    def process(
        self, inputs: InputBatch, logits: LogitRows, before_choice: bool = False, on_device: bool = False
    ) -> Any:
        """The rows as float32 [rows, vocab] after the grammars' masks and the chains, without selectors; see
        `Scheduler.process`."""
        self._requests.keeping.keep(inputs.requests, inputs.slots)
        self._backend_for(logits.device)
        self._budget.start(len(logits))
        return self._processing.rows(inputs, logits, before_choice, on_device)

    def reports(self, inputs: InputBatch) -> list[GroupReport]:
        """The groups of the requests: their chains, and which backend runs each sampler."""
        backend, grouping = self._backend_for("cpu")
        return [
            report_group(
                m.configuration.chain,
                backend,
                [inputs.requests[i] for i in m.indices],
                decisions_of(backend, self._requests.slots, m.configuration.plan),
            )
            for m in grouping.members(inputs)
        ]

    def measures(self, result: StepResult, plan: RowPlan, logits: LogitRows, started: float) -> StepMeasures:
        """What the step with this result did since `started`, a time of `time.perf_counter`."""
        seconds = time.perf_counter() - started
        return step_measures(
            result,
            plan.drafts,
            self._running.name,
            seconds,
            self._masks.take_seconds(),
            logits.copied_bytes,
            self._take_decisions(),
        )

    # --- inside ----------------------------------------------------------------------------------

    def _lack_memory(self, plan: RowPlan) -> None:
        """The step is to be repeated, and must not fail for ever: what lacks memory again ends."""
        self._lacks_memory = True
        for request in plan.inputs.requests:
            request.has_lacked_memory = True

    def _take_decisions(self) -> tuple[int, int]:
        """What bounds of weights have decided, and left open, since the last call. A library that is opened
        again counts anew."""
        before, now = self._decisions, decisions_of(self._running, self._requests.slots)
        self._decisions = now
        return max(now[0] - before[0], 0), max(now[1] - before[1], 0)

    def _step(self, plan: RowPlan, logits: LogitRows) -> Step:
        for request in plan.inputs.readers.values():
            self._requests.keeping.keep_answer(request)
        self._requests.keeping.keep(plan.inputs.requests, plan.inputs.slots)
        backend, grouping = self._backend_for(logits.device)
        self._device = logits.device
        if logits.remote is not None and not backend.reads_from(logits.device):
            logits.fetch()
        self._budget.start(plan.row_count)
        return self.new_step(
            backend,
            grouping,
            logits,
            self._requests.slots,
            self._masks,
            self._judging,
            plan,
            may_repeat=not self._lacks_memory,
        )

    def _step_group(
        self, group: BeamGroup, inputs: InputBatch, logits: LogitRows, result: StepResult
    ) -> None:
        """Advance one beam search, and write the step into `result`."""
        which = [inputs.ids.index(request_id) for request_id in group.request_ids]
        members, indices = [inputs.requests[i] for i in which], inputs.places[which].tolist()
        for i in indices:  # in case the search is postponed, or has been aborted
            result.text[i] = None if result.text[i] is None else ""
        logits.fetch(indices)
        done = None
        try:
            done = self._next_of_group(group, members, [logits.row(i) for i in indices])
            if done is not None:
                self._requests.seat_next(members, done.requests)
        except BaseException as fault:  # of the search, which ends by it
            if done is not None:
                self._requests.unseat(done.requests)
            done = group.failed(members, fault)
        if done is not None and self._requests.replace_group(group, members, done.requests, done.search):
            done.write(result, indices, group.request_ids)

    def _next_of_group(
        self, group: BeamGroup, members: Sequence[Request], rows: Sequence[np.ndarray]
    ) -> BeamStep | None:
        """The next texts of a beam search; None if it is postponed."""
        if not self._masks.can_fill(members, group.share):
            return None

        def score(request: Request, row: np.ndarray) -> np.ndarray:
            return self._processing.row(request.chain, request, log_softmax(checked_row(row)))

        self._budget.start_accepts()
        done = group.step(members, rows, score, self._budget.turn(group.share))
        if done is not None:
            group.share.turns = 0
        return done

    def _penalized(self, request: Request, row: np.ndarray) -> np.ndarray:
        """The row after masks, biases and penalties, before any other sampler."""
        return self._processing.row(request.chain.edits_only(), request, row)

    def backend_for(self, device: str) -> Backend:
        """The backend that runs rows on `device`, chosen for it at the first call."""
        return self._backend_for(device)[0]

    def _backend_for(self, device: str) -> tuple[Backend, Grouping]:
        """The backend, chosen for `device` at the first call, and its groups."""
        if self.backend is None:
            self.backend = best_backend(device)
        if self._grouping is None:
            self._running = with_host(self.backend)
            grouping = Grouping(self._requests.slots, self._running)
            self._processing = Processing(self._running, grouping, self._requests.slots, self._masks)
            self._judging = Judging(
                self._running, self._masks, self._penalized, keep_faulty=self._keep_faulty
            )
            self._grouping = grouping
        return self._running, self._grouping


def _run_rounds(step: Step, rounds: Iterable[Round]) -> None:
    for drawing in rounds:
        try:
            step.run(drawing)
        except BackendError as error:
            if drawing.is_first:
                raise
            logger.error("%s", error)  # what the first rounds have drawn counts; later rows give no token
            return
