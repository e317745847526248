"""`RowScheduler`: rows of logits whose requests stay as they are, and are kept from call to call."""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..base.errors import PluginFault
from ..contract import ParameterError
from ..params import SamplingParams
from ..requests.ending import RequestError
from ..requests.results import StepResult
from ..scheduler import Scheduler
from ..scheduler.arguments import POSITION, few_token_ids_in
from .row_step import StandingStep


class Row(NamedTuple):
    """The request of a row, as `Scheduler.add` takes it."""

    params: SamplingParams
    prompt_token_ids: Sequence[int] = ()
    output_token_ids: Sequence[int] = ()
    position: int | None = None

    def begins_as(self, other: Row) -> bool:
        """Whether `other` has the same parameters and prompt."""
        return _same(self.params, other.params) and _equal(self.prompt_token_ids, other.prompt_token_ids)

    def is_alike(self, other: Row) -> bool:
        """Whether both have the same parameters, and no histories and positions."""
        return self.params is other.params and not (self.has_past or other.has_past)

    @property
    def has_past(self) -> bool:
        """Whether it has tokens, or a position of its own."""
        return len(self.prompt_token_ids) > 0 or len(self.output_token_ids) > 0 or self.position is not None

    def copy(self) -> Row:
        """A copy that does not change when the caller's lists do."""
        return self._replace(
            prompt_token_ids=_copied(self.prompt_token_ids), output_token_ids=_copied(self.output_token_ids)
        )


class RowScheduler(Scheduler):
    """Draws for rows of logits whose requests, without grammars, stay as they are.

    A call costs little more than a step if its rows are those of the call before: with equal parameters and
    prompts, and with outputs that begin alike. An exception in `set_rows` leaves it useless.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._runner.new_step = StandingStep
        self._kept: list[Row] = []
        """The rows, each of which has its number as its request's id."""

    def set_rows(self, rows: Sequence[Row]) -> None:
        """Have these requests, in this order. Raises as `add` does."""
        before, self._kept = self._kept, []
        for i in range(len(rows), len(before)):
            self.remove(i)
        for i, row in enumerate(rows):
            if i >= len(before) or not self._follows(before[i], i, row):
                if i < len(before):
                    self.remove(i)
                self._add(i, row)
            self._kept.append(row.copy())

    def draw(self, logits: Any) -> StepResult:
        """The tokens of one step. A row whose parameters have no seed gets a new one each time."""
        started = time.perf_counter()
        with self._step_lock:
            plan = self._requests.plan(range(len(self._kept)))
            self._seed_anew(plan.inputs.seeds)
            rows = self._rows(logits, plan.row_count)
            result = self._runner.run(plan, rows)
            self._requests.keeping.finish_step(result)
        self._notify(result, plan, rows, started)
        return result

    def process_rows(self, logits: Any) -> np.ndarray:
        """The rows after their chains, as `process` gives them."""
        processed: np.ndarray = self.process(logits, range(len(self._kept)))
        return processed

    # --- inside ----------------------------------------------------------------------------------

    def _follows(self, kept: Row, i: int, row: Row) -> bool:
        """Whether request i, which is that of `kept`, is that of `row` once it has its output, and the
        position."""
        request = self._requests.live.get(i)
        if request is None or not request.phases.is_single or not row.begins_as(kept):
            return False
        had, output = kept.output_token_ids, row.output_token_ids
        same = _common(had, output)
        slots, new = self._requests.slots, output[same:]
        try:
            position = POSITION.check(row.position)
            if same < len(had):
                slots.rollback(request.slot, len(had) - same)  # no text follows what a row accepts
            if len(new):
                slots.accept(request.slot, few_token_ids_in("output_token_ids", new, self.vocabulary))
        except (ParameterError, PluginFault, RequestError):  # `add` says what is wrong
            return False
        if not request.live:
            return False
        slots.positions[request.slot] = slots.lengths[request.slot] if position is None else position
        return True

    def _add(self, i: int, row: Row) -> None:
        if i and row.is_alike(self._kept[i - 1]):  # in half the time that `add` takes
            try:
                self.fork(i - 1, new_request_id=i, seed=_new_seed(row.params))
                return
            except RequestError:  # a plugin cannot copy its state
                pass
        self.add(
            row.params,
            row.prompt_token_ids,
            request_id=i,
            output_token_ids=row.output_token_ids,
            position=row.position,
        )

    def _seed_anew(self, seeds: list[int]) -> None:
        """New seeds for the rows whose parameters have none; `seeds` are those of the rows."""
        for i, row in enumerate(self._kept):
            if (seed := _new_seed(row.params)) is not None:
                request = self._requests.live[i]
                request.seed = seeds[i] = seed
                self._requests.slots.seeds[request.slot] = seed


def _new_seed(params: SamplingParams) -> int | None:
    return secrets.randbits(64) if params.seed is None else None


def _same(one: SamplingParams, other: SamplingParams) -> bool:
    """Whether parameters are the same object, or equal; values of plugins may not be comparable."""
    if one is other:
        return True
    try:
        return bool(one == other)
    except Exception:
        return False


def _equal(one: Sequence[int], other: Sequence[int]) -> bool:
    """Whether two sequences of ids are of one type and equal."""
    if type(one) is not type(other) or len(one) != len(other):
        return False
    return bool(np.array_equal(one, other)) if isinstance(one, np.ndarray) else one == other


def _common(left: Sequence[int], right: Sequence[int]) -> int:
    """How many ids two sequences have in common at their beginnings; 0 for those of different types."""
    if type(left) is not type(right):
        return 0
    count = min(len(left), len(right))
    if _equal(left[:count], right[:count]):
        return count
    different = np.not_equal(left[:count], right[:count])
    return int(np.argmax(different))


def _copied(ids: Sequence[int]) -> Sequence[int]:
    """`ids` so that nobody else changes them."""
    if isinstance(ids, (tuple, range)):
        return ids
    return ids.copy() if isinstance(ids, (list, np.ndarray)) else list(ids)
