"""One step: `Step.run` is the list of what happens in it, in this order."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..arithmetic import LogitRows
from ..contract import Backend, BackendError, Batch, LogprobsRequest
from ..requests.answers import read_answers
from ..requests.detokenizer import MatchedEnds, extend_texts, take_texts
from ..requests.results import StepResult
from ..requests.results.fields import put_entry, tell_end, with_left
from ..requests.slots import Slots
from .backend_run import BackendRun
from .grouping import Grouping
from .input_batch import KeptGroups
from .judging import ALL_COUNT, Judgement, Judging, extend_known
from .logprobs import LogprobsCollector, LogprobsPlan
from .masks import GrammarMasks
from .row_plans import AheadDraw, DraftPlan, Round, RowPlan

logger = logging.getLogger("engine_sampler")


class Step:
    """The rows of one step, in one round, or in several if there are drafts.

    A request costs Python only if its slot, its token or its configuration needs it.

    may_draw_ahead  whether rows of drafts may be drawn before it is known that they count.
    may_go_on       whether rounds of drafts may follow one another without `run`.
    outputs         what the rows have drawn.
    may_have_ended  the indices of the requests that may have ended; no others have.
    rewinding       the indices of the requests that a ban takes back.
    """

    may_draw_ahead = True
    may_go_on = True
    rewinding: Sequence[int] = ()
    _rows_with_bans: dict[int, list[int]] | None = None
    """The rows that have given tokens to requests with bans, by the indices of these."""
    _spread: KeptGroups | None = None
    """The groups of the last round in rows that move."""
    _is_known: np.ndarray | None = None
    """bool [rows], whose masks had been filled before their round began."""

    def __init__(
        self,
        backend: Backend,
        grouping: Grouping,
        logits: LogitRows,
        slots: Slots,
        masks: GrammarMasks,
        judging: Judging,
        plan: RowPlan,
        *,
        may_repeat: bool,
    ) -> None:
        self._backend_run = BackendRun(backend, may_repeat=may_repeat)
        self._judging = judging
        self._faults: dict[int, str] = {}
        """Why rows of requests that go on gave no token, by the index of the request."""
        self._grouping = grouping
        self._logits = logits
        self._slots = slots
        self._masks = masks
        self._n = plan.row_count
        self._logprobs: LogprobsCollector | None = None
        self._begun: tuple[Batch, Sequence[int]] | None = None
        """The first round as the backend has begun it, and who is left out."""
        self._ahead: AheadDraw | None = None
        """The rows of all rounds, if the first one draws them."""
        self._token_ids_on_device: Any = None
        """All tokens of the step on the logits' device, as the backend left them; None if it left none, or if
        one of them does not count."""
        self.may_have_ended: set[int] = set()
        self.outputs = plan.inputs.draws if plan.is_whole else plan.inputs.outputs_of(self._n)
        if plan.is_whole:
            self.outputs.clear()

    def begin(self, drawing: Round) -> Any:
        """The first half of `run` for the first round: the backend queues its work. Returns the tokens on the
        device of the logits, if they will be there for all rows."""
        self._begun = batch, _ = self._start(drawing)
        self._backend_run.begin(batch)
        is_sure = self._ahead is None or self._ahead.is_sure
        return batch.token_ids_on_device if drawing.draws_all and is_sure else None

    def is_done(self) -> bool:
        """Whether the backend's part that has begun need not be waited for."""
        return self._backend_run.is_done()

    def run(self, drawing: Round) -> None:
        """Draw the token of each request of a round from its row, and add it to the request."""
        if self._ahead is not None and not drawing.is_first:
            drawn = self._ahead.has(drawing.rows)
            if drawn.any() and not drawn.all():
                for which in (drawn, ~drawn):
                    Step.run(self, drawing.only(self._slots, np.flatnonzero(which).tolist()))
                return
        inputs = drawing.inputs
        # 1. Grammars fill their masks, and samplers prepare; requests that are not ready sit out.
        # 2. The rows are grouped by configuration.
        batch, left_out = self._begun or self._start(drawing)
        self._begun = None
        # 3. The backend draws.
        is_faulty = self._draw(drawing, batch)
        # 4. Phases force tokens. Tokens that do not count are refused, logprobs collected, and the grammars
        #    get their tokens.
        closing = self._steer(drawing, batch) if inputs.steered else ()
        judged = ALL_COUNT
        if is_faulty or left_out or inputs.masked or inputs.scored:
            judged = self._judge(drawing, batch)
        self._advance(drawing, batch, judged, closing)

    def _advance(self, drawing: Round, batch: Batch, judged: Judgement, closing: Sequence[int]) -> None:
        """Give the requests of a round their tokens."""
        inputs = drawing.inputs
        # 5. The histories get their tokens; this tells which requests must be checked.
        due = self._slots.extend(inputs.draws, judged.refused)
        if due < 0:  # tokens that do not exist are the rarest of faults
            judged = self._judge(drawing, batch)
            due = self._slots.extend(inputs.draws, judged.refused)
        # 6. The texts get their tokens.
        text_ends = self._extend_texts(drawing, judged.refused) if inputs.streamed else {}
        # 7. Everything else follows, and requests come to their ends.
        if due or text_ends or closing or judged.may_have_ended or judged.refused:
            self._follow(drawing, judged, text_ends, closing)
        # 8. `result`, once all rounds are done.

    def go_on(self, drawing: Round, plan: DraftPlan) -> dict[int, int]:
        """Which requests of a round that has run go on since they have guessed right, by index in the step,
        each with its next row.

        As long as all of them have, and only grammars, histories and texts need their tokens, they go on here
        from row to row: `drawing.rows` become their last ones.
        """
        members, requests = drawing.members, drawing.inputs.requests
        after = plan.after(members, drawing.rows.tolist(), self.outputs.token_ids[drawing.rows].tolist())
        advance = self._advancing(drawing) if after and 0 not in after else None
        while advance is not None and 0 not in after and (token_ids := advance(after)):
            after = plan.after(members, after, token_ids)
        return {i: row for i, row, r in zip(members, after, requests, strict=True) if row and r.live}

    def _advancing(self, drawing: Round) -> Callable[[list[int]], list[int]] | None:
        """A function that lets the requests of a round draw from their next rows, and returns the tokens that
        count; none, and nothing has changed, if that takes a round of its own. None if it always does."""
        inputs, outputs, kept = drawing.inputs, self.outputs, self._spread
        requests, draws = inputs.requests, inputs.draws
        more = inputs.scored or inputs.steered or inputs.preparing or inputs.narrowed
        known = [] if self._is_known is None else self._is_known.tolist()
        if kept is None or self._ahead is not None or more or not self.may_go_on:
            return None
        repeat = self._backend_run.backend.repeated(kept.cache)
        is_plain = all(r.may_look_ahead and not r.has_moved for r in requests)
        if repeat is None or not is_plain or (inputs.masked and not known):
            return None
        order = np.concatenate([m.indices for m in self._grouping.members(inputs)])
        grammars = {i: grammar for i in inputs.masked if (grammar := requests[i].grammar) is not None}
        work = self._masks.budget.parts(len(grammars)) if grammars else None

        def advance(after: list[int]) -> list[int]:
            has_ended = self.may_have_ended and not all(r.live for r in requests)
            rows = np.array(after, np.int64)
            if has_ended or not all(known[after[i]] for i in grammars) or not repeat(rows[order]):
                return []
            draws.gather(outputs, rows)
            token_ids: list[int] = draws.token_ids.tolist()
            over = extend_known(grammars, token_ids, work) if grammars else ()
            if over is None:
                return []
            drawing.rows[:] = rows
            due = self._slots.extend(draws)
            text_ends = self._extend_texts(drawing, ()) if inputs.streamed else {}
            if due or text_ends or over:
                self._follow(drawing, Judgement(may_have_ended=over), text_ends, ())
                return outputs.token_ids[rows].tolist()
            return token_ids

        return advance

    def result(self, plan: RowPlan, number: int) -> StepResult:
        """The result of the step of this number."""
        inputs, requests = plan.inputs, plan.inputs.requests
        n = len(requests)
        if self._ahead is not None and not self._ahead.drop():
            self._token_ids_on_device = None
        taken_back = self._take_back(plan) if self.rewinding else {}
        result = StepResult(
            token_ids=self.outputs.token_ids.copy(),
            first_rows=plan.first_rows.copy(),
            request_ids=inputs.ids.copy(),
            text=[None] * n,
            finish_reasons=[None] * n,
            stop_reasons=[None] * n,
            errors=[None] * n,
            seeds=inputs.seeds.copy(),
            parent_ids=inputs.ids.copy(),
            logprobs=None,
            token_ids_on_device=self._token_ids_on_device,
        )
        if self._logprobs is not None:
            result.logprobs = self._logprobs.result()
            result.sampling_mask, result.given_logprobs = self._logprobs.details()
        if inputs.streamed:
            self.may_have_ended.update(take_texts(requests, inputs.streamed, number, result.text))
        deltas = read_answers(inputs.readers) if inputs.readers else {}
        if deltas:
            self.may_have_ended.update(i for i, request in enumerate(requests) if not request.live)
        if inputs.narrowed:
            self.may_have_ended.update(inputs.narrowed)
        for i in self.may_have_ended:
            if counts := requests[i].told_phases():
                put_entry(result, "phase_tokens", i, counts)
            tell_end(result, i, requests[i])
            if requests[i].has_bans and (count := requests[i].withheld):
                put_entry(result, "withheld", i, count)
        if taken_back or inputs.narrowed:
            for i, count in taken_back.items():
                put_entry(result, "rewinds", i, count)
            for i in inputs.narrowed:
                requests[i].has_moved = True
        for i, fault in self._faults.items():
            result.errors[i] = fault
        if inputs.skipped:
            result = with_left(result, inputs.named, inputs.skipped)
        for i, events in deltas.items():
            put_entry(result, "deltas", i, events)
        return result

    def _take_back(self, plan: RowPlan) -> dict[int, int]:
        """Leave the rows of requests that a ban takes back without the tokens that go. Returns how many of
        earlier steps go, too, by the index of the request."""
        assert self._rows_with_bans is not None
        earlier = {}
        for i in self.rewinding:
            request = plan.inputs.requests[i]
            assert request.rewinding is not None
            count = request.history.output_length - request.rewinding[-1].position
            rows = np.array(self._rows_with_bans[i][-count:])
            self._clear(rows)
            if self._logprobs is not None:
                self._logprobs.clear(rows)
            if count > len(rows):
                earlier[i] = count - len(rows)
        self._token_ids_on_device = None
        return earlier

    def _start(self, drawing: Round) -> tuple[Batch, Sequence[int]]:
        """The round for the backend, and the indices of the requests that are left out."""
        inputs, ahead = drawing.inputs, self._ahead
        if ahead is not None and ahead.has(drawing.rows).all():
            if self._logprobs is not None and inputs.logprobs is not None:
                self._logprobs.report(inputs.logprobs, drawing.rows)
            return ahead.batch, ()
        if ahead is not None:
            self._clear(drawing.rows)
        bitmask, left_out = self._prepare(drawing) if inputs.masked or inputs.preparing else (None, ())
        if drawing.drafts and self.may_draw_ahead and not left_out:
            where = self._grouping, self._slots, self._masks
            ahead = self._ahead = AheadDraw.of(*where, drawing, self._logits, self.outputs, bitmask)
            if ahead is not None and inputs.logprobs is not None:
                ahead.batch.logprobs = self._logprobs_request(drawing, inputs.logprobs, drawing.counts)
            if ahead is not None:
                return ahead.batch, ()
            if bitmask is not None:
                self._glance(drawing, bitmask)
        return self._batch(drawing, bitmask, left_out), left_out

    # --- 1. masks ---------------------------------------------------------------------------------

    def _prepare(self, drawing: Round) -> tuple[np.ndarray | None, Sequence[int]]:
        """The grammars' masks, int32 [rows, ceil(vocab / 32)], None without any; and the indices of the
        requests that are left out. A grammar or a sampler that fails ends its request and leaves no token."""
        inputs, rows = drawing.inputs, drawing.rows
        if self._is_known is not None and not inputs.preparing and self._is_known[rows[inputs.masked]].all():
            return self._masks.by_row(self._n), ()
        bitmask: np.ndarray | None = None
        masks = self._masks.fill_for(inputs)
        if inputs.masked and drawing.is_whole:
            bitmask = masks
        elif inputs.masked:
            bitmask = self._masks.by_row(self._n)
            for i in inputs.masked:
                bitmask[rows[i]] = masks[i]
        return bitmask, [i for i in inputs.preparing if inputs.requests[i].sits_out]

    def _glance(self, drawing: Round, bitmask: np.ndarray) -> None:
        """Fill the masks of later rounds that need no work."""
        requests = drawing.inputs.requests
        drafts = {
            i: drawing.drafts[i]
            for i in drawing.inputs.masked
            if drawing.drafts[i].token_ids and requests[i].may_look_ahead and not requests[i].sits_out
        }
        if drafts:
            self._is_known = self._masks.glance(requests, drafts, drawing.rows, bitmask)

    # --- 2. rows ----------------------------------------------------------------------------------

    def _batch(self, drawing: Round, bitmask: np.ndarray | None, left_out: Sequence[int]) -> Batch:
        """The step for the backend."""
        inputs, is_whole, outputs = drawing.inputs, drawing.is_whole, self.outputs
        self._token_ids_on_device = None
        moves = not is_whole and self._grouping.follows_rows and self._logits.remote is None
        if (drawing.counts is not None or moves) and self.may_draw_ahead and not left_out:
            kept = self._grouping.spread(inputs, drawing.rows, moves=moves)
            groups, cache = kept.groups, kept.cache
            self._spread = kept if moves else None
        else:
            moves = False
            groups = self._grouping.groups(inputs, drawing.rows, is_whole=is_whole, left_out=left_out)
            cache = inputs.cache if is_whole and not left_out else {}
        return Batch(
            self._logits,
            groups,
            outputs.token_ids,
            outputs.notes,
            [None] * self._n,
            bitmask,
            logprobs=None if inputs.logprobs is None else self._logprobs_request(drawing, inputs.logprobs),
            cache=cache,
            prepared_masks=self._masks.take_prepared() if inputs.masked and is_whole else None,
            rows_move=moves,
        )

    def _logprobs_request(
        self, drawing: Round, needed: LogprobsPlan, counts: np.ndarray | None = None
    ) -> LogprobsRequest:
        """For the rows of a round, and for others behind them, `counts` in all."""
        if self._logprobs is None:
            places = (None, None) if drawing.is_whole else (drawing.rows, drawing.counts)
            self._logprobs = LogprobsCollector(self._n, needed, *places)
        return self._logprobs.request(needed, drawing.rows, drawing.is_whole, counts)

    # --- 3. the backend ---------------------------------------------------------------------------

    def _draw(self, drawing: Round, batch: Batch) -> bool:
        """Run the backend; returns whether there are errors. If it fails, no row of the round has a token."""
        outputs, ahead = self.outputs, self._ahead
        is_ahead = ahead is not None and batch is ahead.batch
        is_drawn = ahead is not None and is_ahead and ahead.is_drawn
        try:
            reason = None if is_drawn else self._backend_run.run(batch, outputs)
        except BackendError:
            self._clear(drawing.rows)
            if self._logprobs is not None:
                self._logprobs.clear(drawing.rows)
            raise
        if ahead is not None:
            ahead.reach(drawing.rows)
        if reason is not None:
            logger.error("%s", reason)
            self._clear(drawing.rows)
            batch.errors = [reason] * self._n
        elif drawing.draws_all and (ahead is None or ahead.is_sure):
            self._token_ids_on_device = batch.token_ids_on_device
        if not drawing.is_whole:
            drawing.inputs.draws.gather(outputs, drawing.rows)
        return batch.errors.count(None) < self._n and (
            not is_ahead or any(batch.errors[row] is not None for row in drawing.rows.tolist())
        )

    def _clear(self, rows: np.ndarray) -> None:
        """Leave `rows` without tokens; all rows if the backend has spoilt the arrays."""
        outputs = self.outputs
        if outputs.are_in_shape:
            outputs.token_ids[rows], outputs.notes[rows] = -1, np.nan
        else:
            outputs.renew()

    # --- 4. what counts ---------------------------------------------------------------------------

    def _judge(self, drawing: Round, batch: Batch) -> Judgement:
        """Find the tokens that do not count, and leave their rows without tokens."""
        judged = self._judging.judge(drawing, batch, self._logprobs, self._faults)
        if judged.refused:
            rows, token_ids = drawing.rows[judged.refused], self.outputs.token_ids
            if self._token_ids_on_device is not None and (token_ids[rows] != -1).any():
                self._token_ids_on_device = None
            token_ids[rows] = -1
        return judged

    def _steer(self, drawing: Round, batch: Batch) -> list[int]:
        """Put the tokens that phases force in the places of drawn ones, after everything that has led to
        these. Returns the indices of the requests whose EOS tokens have been replaced."""
        draws, closing = drawing.inputs.draws, []
        drawn_ids = draws.token_ids[drawing.inputs.steered].tolist()
        for i, drawn in zip(drawing.inputs.steered, drawn_ids, strict=True):
            request, row = drawing.inputs.requests[i], int(drawing.rows[i])
            if batch.errors[row] is not None or drawn < 0 or request.sits_out:
                continue
            token_id = request.steer(drawn)
            if token_id is None:
                continue
            if request.phases.is_closing:
                closing.append(i)
            draws.token_ids[i] = self.outputs.token_ids[row] = token_id
            draws.notes[i] = self.outputs.notes[row] = np.nan
            if token_id != drawn:
                self._token_ids_on_device = None
            if batch.logprobs is not None and self._logprobs is not None:
                self._logprobs.clear(drawing.rows[i : i + 1])  # of the drawn token
                batch.logprobs.done[row] = False  # nothing else may follow: its processed logprob is 0
                batch.survivors[row] = np.array([token_id], np.int64), np.zeros(1, np.float32)
        return closing

    # --- 6. texts ---------------------------------------------------------------------------------

    def _extend_texts(self, drawing: Round, refused: Sequence[int]) -> dict[int, MatchedEnds]:
        """Give the texts their tokens, except those `refused`; returns the ends found in them, by index."""
        inputs = drawing.inputs
        return extend_texts(inputs.requests, inputs.streamed, inputs.draws.token_ids.tolist(), refused)

    # --- 7. ends ----------------------------------------------------------------------------------

    def _follow(
        self,
        drawing: Round,
        judged: Judgement,
        text_ends: dict[int, MatchedEnds],
        closing: Sequence[int],
    ) -> None:
        """Bring the requests that must be checked up to their tokens; some end, others come into another
        phase."""
        draws, due = drawing.inputs.draws, drawing.inputs.draws.due
        due[[*text_ends, *judged.may_have_ended, *(i for i in closing if i not in judged.refused)]] = True
        checked = np.flatnonzero(due).tolist()
        for i in checked:
            note = None if np.isnan(draws.notes[i]) else float(draws.notes[i])
            request, token_id = drawing.inputs.requests[i], int(draws.token_ids[i])
            logprob, ends = judged.logprobs.get(i), text_ends.get(i, ())
            request.attempt("the request", request.follow, token_id, note, logprob, ends)
            request.lead(self._slots)
            if request.has_bans:
                member, row = drawing.members[i], int(drawing.rows[i])
                self._rows_with_bans = self._rows_with_bans or {}
                self._rows_with_bans.setdefault(member, []).append(row)
                if request.rewinding is not None:
                    self.outputs.token_ids[row] = -1  # no draft behind it counts
                    self.rewinding = (*self.rewinding, member)
        self.may_have_ended.update(drawing.members[i] for i in (*judged.refused, *checked))
