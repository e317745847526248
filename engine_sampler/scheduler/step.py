"""One step: rows run on a backend, logprobs are collected, and the tokens join the requests."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from ..arithmetic import LogitRows
from ..base.errors import INTERRUPTIONS, failure, quoted
from ..contract import Backend, BackendError, Batch, LogprobsRequest
from ..requests.detokenizer import MatchedEnds
from ..requests.results import StepResult
from ..requests.slots import Slots
from .grouping import Grouping
from .input_batch import InputBatch
from .logprobs import LogprobsCollector, Penalized
from .masks import GrammarMasks

logger = logging.getLogger("engine_sampler")


class _Judgement(NamedTuple):
    """What is known about the drawn tokens before they join the histories, by index in the batch.

    refused         those whose token does not count: their requests have ended.
    may_have_ended  those whose grammar may be over.
    logprobs        the raw logprobs of the tokens, for requests that record them.
    """

    refused: list[int]
    may_have_ended: list[int]
    logprobs: dict[int, float]


class Step:
    """The rows of one step, in one round, or in several if there are drafts.

    A request costs Python only if its slot, its token or its configuration needs it.
    """

    def __init__(
        self,
        backend: Backend,
        grouping: Grouping,
        logits: LogitRows,
        slots: Slots,
        masks: GrammarMasks,
        penalized: Penalized,
        number: int,
    ) -> None:
        self._backend = backend
        self._grouping = grouping
        self._logits = logits
        self._n = len(logits)
        self._slots = slots
        self._masks = masks
        self._penalized = penalized
        self._number = number
        self._logprobs: LogprobsCollector | None = None
        self.token_ids = _filled(self._n, -1, np.int64)
        """The token drawn in each row of the logits, int64 [rows]; −1 for none."""
        self.token_ids_on_device: Any = None
        """The tokens of the last round on the logits' device, as the backend left them; None if it left none,
        or if one of them does not count."""

    def run(self, inputs: InputBatch, rows: np.ndarray, counts: np.ndarray | None = None) -> list[int]:
        """Draw the token of each request of `inputs` from its row, `rows` [requests], and accept it.

        counts  in the first round with drafts: how many rows each request has, `rows` being the first.

        Returns the indices of the requests that may have ended.
        """
        one_row_each = rows is inputs.indices
        bitmask = self._bitmask(inputs, rows) if inputs.masked or inputs.preparing else None
        left_out = [i for i in inputs.preparing if inputs.requests[i].sits_out] if inputs.preparing else ()
        batch = Batch(
            self._logits,
            self._grouping.groups(inputs, rows, left_out),
            self.token_ids,
            _filled(self._n, np.nan, np.float64),
            [None] * self._n,
            bitmask,
            logprobs=self._logprobs_request(inputs, rows, counts),
            cache=inputs.cache if one_row_each and not left_out else {},
        )
        if inputs.masked and one_row_each:
            batch.prepared_masks = self._masks.take_prepared()
        any_errors = self._run(batch, rows)
        self.token_ids_on_device = None if left_out else batch.token_ids_on_device
        tokens, notes = self.token_ids, batch.notes
        if not one_row_each:
            tokens, notes = tokens[rows], notes[rows]
        due = self._slots.watched(tokens)
        any_watched = np.count_nonzero(due) > 0
        refused: list[int] = []
        may_have_ended: list[int] = []
        logprobs: dict[int, float] = {}
        if any_watched or inputs.masked or inputs.scored or any_errors or left_out:
            refused, may_have_ended, logprobs = self._judge(inputs, rows, batch, tokens)
        self._extend_histories(inputs, tokens, notes, refused)
        text_ends = self._extend_texts(inputs, tokens, refused) if inputs.streamed else {}
        at_limit = self._slots.due(inputs.slots)
        if not (any_watched or text_ends or may_have_ended) and at_limit is None and inputs.always is None:
            return refused
        for more in (at_limit, inputs.always):
            if more is not None:
                due |= more
        due[[*text_ends, *may_have_ended]] = True
        due[refused] = False
        checked = np.flatnonzero(due).tolist()
        for i in checked:
            note = None if np.isnan(notes[i]) else float(notes[i])
            inputs.requests[i].follow(int(tokens[i]), note, logprobs.get(i), text_ends.get(i, ()))
        return refused + checked

    def result(self, inputs: InputBatch, first_rows: np.ndarray, ended: Iterable[int]) -> StepResult:
        """The result of the step; only the requests at the indices `ended` can have ended."""
        n, requests = len(inputs), inputs.requests
        result = StepResult(
            self.token_ids,
            first_rows,
            inputs.ids.copy(),
            [None] * n,
            [None] * n,
            [None] * n,
            [None] * n,
            inputs.seeds.copy(),
            inputs.ids.copy(),
            None if self._logprobs is None else self._logprobs.result(),
            token_ids_on_device=self.token_ids_on_device,
        )
        for i in inputs.streamed:
            result.text[i] = requests[i].take_text(self._number)
        for i in ended:
            result.finish_reasons[i] = requests[i].finish_reason
            result.stop_reasons[i] = requests[i].stop_reason
            result.errors[i] = requests[i].error
        return result

    # --- inside ----------------------------------------------------------------------------------

    def _run(self, batch: Batch, rows: np.ndarray) -> bool:
        """Run the backend; returns whether there are errors. If it fails, none of the `rows` has a token."""
        notes, errors = batch.notes, batch.errors
        try:
            self._backend.run(batch)
            any_errors = errors.count(None) < self._n
            if len(self.token_ids) == len(notes) == len(errors) == self._n and (
                batch.notes is notes and batch.errors is errors
            ):
                return any_errors
            reason = f"backend {self._backend.name} failed: it replaced or resized the batch's arrays"
        except BackendError:
            self.token_ids[rows] = -1
            if self._logprobs is not None:
                self._logprobs.clear(rows)
            raise
        except (MemoryError, *INTERRUPTIONS):
            raise
        except BaseException as error:
            reason = failure(f"backend {self._backend.name}", error)
        logger.error("%s", reason)
        if len(self.token_ids) != self._n:
            self.token_ids = _filled(self._n, -1, np.int64)
        self.token_ids[rows] = -1
        batch.notes, batch.errors = _filled(self._n, np.nan, np.float64), [reason] * self._n
        batch.token_ids_on_device = None
        return True

    def _bitmask(self, inputs: InputBatch, rows: np.ndarray) -> np.ndarray | None:
        """int32 [rows, ceil(vocab / 32)] with the grammars' masks, None without any; samplers prepare. A
        grammar or a sampler that fails ends its request and leaves no token."""
        masks = self._masks.fill(inputs.requests, inputs.masked, inputs.preparing)
        if not inputs.masked:
            return None
        if rows is inputs.indices:
            return masks
        bitmask = np.zeros((self._n, masks.shape[1]), np.int32)
        bitmask[rows[inputs.masked]] = masks[inputs.masked]
        return bitmask

    def _judge(self, inputs: InputBatch, rows: np.ndarray, batch: Batch, tokens: np.ndarray) -> _Judgement:
        """Find the tokens that do not count, collect logprobs, and give the grammars their tokens."""
        refused = self._faulty(inputs, rows, batch, tokens)
        logprobs = self._collect_logprobs(inputs, rows, batch, tokens, refused) if inputs.scored else {}
        inadmissible, may_have_ended = self._extend_grammars(inputs, tokens, refused)
        refused += inadmissible
        if inadmissible and self._logprobs is not None:
            self._logprobs.clear(rows[inadmissible])
        if self.token_ids_on_device is not None and (self.token_ids[rows[refused]] != -1).any():
            self.token_ids_on_device = None
        self.token_ids[rows[refused]] = -1
        return _Judgement(refused, may_have_ended, logprobs)

    def _faulty(self, inputs: InputBatch, rows: np.ndarray, batch: Batch, tokens: np.ndarray) -> list[int]:
        """The indices of the requests whose rows gave no token; they end with the reason, unless they
        are postponed."""
        size = self._slots.vocabulary.size
        faulty = []
        for i, (row, token) in enumerate(zip(rows.tolist(), tokens.tolist(), strict=True)):
            request, error = inputs.requests[i], batch.errors[row]
            if error is None and not 0 <= token < size:
                error = f"backend {self._backend.name} gave {'no token' if token < 0 else f'token {token}'}"
            if error is not None and request.live and not request.postponed:
                request.fail(error if type(error) is str else quoted(error))
            if request.sits_out:
                faulty.append(i)
        return faulty

    def _logprobs_request(
        self, inputs: InputBatch, rows: np.ndarray, counts: np.ndarray | None
    ) -> LogprobsRequest | None:
        if inputs.logprobs is None:
            return None
        one_row_each = rows is inputs.indices
        if self._logprobs is None:
            places = (None, None) if one_row_each else (rows, counts)
            self._logprobs = LogprobsCollector(self._n, inputs.logprobs, *places)
        return self._logprobs.request(inputs.logprobs, rows, one_row_each)

    def _collect_logprobs(
        self, inputs: InputBatch, rows: np.ndarray, batch: Batch, tokens: np.ndarray, refused: list[int]
    ) -> dict[int, float]:
        """Compute the logprobs that the backend has not; returns the raw ones that requests record, by
        index."""
        collector, plan = self._logprobs, inputs.logprobs
        assert collector is not None
        assert plan is not None
        assert batch.logprobs is not None
        is_missing = ~batch.logprobs.done[rows] & (plan.kinds != 0)
        missing = np.flatnonzero(is_missing).tolist()
        self._logits.fetch(rows[is_missing & plan.of_logits].tolist())
        if refused:
            collector.clear(rows[refused])
        failed = list(refused)
        for i in missing:
            if i in refused:
                continue
            request = inputs.requests[i]
            try:
                collector.complete(request, int(rows[i]), int(tokens[i]), batch, self._penalized)
            except (MemoryError, *INTERRUPTIONS):
                raise
            except BaseException as fault:
                failed.append(i)
                logger.error("request %r: no logprobs: %s", request.id, fault)
        return {i: collector.raw(int(rows[i])) for i in plan.recorded if i not in failed}

    def _extend_grammars(
        self, inputs: InputBatch, tokens: np.ndarray, refused: list[int]
    ) -> tuple[list[int], list[int]]:
        """Give the grammars their tokens. Returns the indices of those that do not take theirs, and whose
        requests end or are postponed, and of those that may be over."""
        inadmissible: list[int] = []
        may_have_ended: list[int] = []
        waiting: list[int] = []
        requests, token_ids = inputs.requests, tokens.tolist()
        budget = self._masks.budget
        budget.start_accepts()
        work = budget.parts(len(inputs.masked))

        def accept(i: int) -> None:
            request = requests[i]
            if request.accept_in_grammar(token_ids[i], work):
                if request.grammar.may_have_ended():  # type: ignore[union-attr]
                    may_have_ended.append(i)
            else:
                (waiting if request.postponed else inadmissible).append(i)

        for i in inputs.masked:
            if not refused or i not in refused:
                accept(i)
        if waiting:
            first, waiting = waiting, []
            for i in budget.turns(first, requests):
                accept(i)
            inadmissible += [i for i in first if requests[i].postponed]
        return inadmissible, may_have_ended

    def _extend_texts(
        self, inputs: InputBatch, tokens: np.ndarray, refused: list[int]
    ) -> dict[int, MatchedEnds]:
        """Give the texts their tokens, except those `refused`; returns the ends found in them, by index."""
        found = {}
        requests, token_ids = inputs.requests, tokens.tolist()
        for i in inputs.streamed:
            if refused and i in refused:
                continue
            request = requests[i]
            ends = request.accept_in_text(token_ids[i])
            if ends or not request.live:
                found[i] = ends
        return found

    def _extend_histories(
        self, inputs: InputBatch, tokens: np.ndarray, notes: np.ndarray, refused: list[int]
    ) -> None:
        """Add the tokens to the histories, except those `refused`."""
        slots = inputs.slots
        if refused:
            accepted = np.delete(inputs.indices, refused)
            slots, tokens, notes = slots[accepted], tokens[accepted], notes[accepted]
        self._slots.extend(slots, tokens, notes)


def _filled(n: int, value: float, dtype: type) -> np.ndarray:
    array: np.ndarray = np.empty(n, dtype)
    array.fill(value)
    return array
