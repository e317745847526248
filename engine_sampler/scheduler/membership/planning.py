"""`Planning`: which requests have rows in a step, worked out anew when any has joined or left."""

from __future__ import annotations

from collections.abc import Sequence

from ...base.errors import quoted
from ...requests.ending import RequestError
from ...requests.request import Request
from ...requests.results import RequestId
from ...requests.slots import Slots
from ..input_batch import InputBatch
from ..row_plans import RowPlan
from .directory import Directory
from .step_lock import StepLock


class Planning:
    """The rows of the last step, which are those of the next one until a request joins or leaves."""

    def __init__(self, directory: Directory, slots: Slots, step_lock: StepLock) -> None:
        self._directory = directory
        self._slots = slots
        self._step_lock = step_lock
        self._plan: RowPlan | None = None

    def forget(self) -> None:
        """A request joins or leaves, or belongs into another group of rows."""
        self._plan = None

    def plan(self, request_ids: Sequence[RequestId] | None, *, strict: bool = False) -> RowPlan:
        """One row for each of these ids, default all live ones; the same object while the ids stay the same.

        Ids whose requests have left are skipped, or refused with `strict`.
        """
        plan = self._plan
        if request_ids is None and plan is not None and plan.inputs.is_everyone:
            return plan
        with self._step_lock.lock:
            plan = self._plan
            if request_ids is None:
                seated = [request for request in self._directory.live.values() if request.slot >= 0]
                self._plan = plan = RowPlan(InputBatch(self._slots, seated, is_everyone=True))
                return plan
            if isinstance(request_ids, str):  # its letters would be taken for ids
                raise RequestError(f"request_ids={quoted(request_ids)} is not allowed: a list of ids")
            ids = list(request_ids)
            if plan is None or plan.inputs.named != ids or (strict and plan.inputs.skipped):
                self._plan = plan = RowPlan(self._batch(ids, strict))
            return plan

    def _batch(self, ids: list[RequestId], strict: bool) -> InputBatch:
        if len(set(ids)) != len(ids):
            raise RequestError(f"request_ids={quoted(ids)} names a request twice")
        directory = self._directory
        requests: list[Request] = []
        skipped: list[tuple[int, Request | None]] = []
        for i, request_id in enumerate(ids):
            if request_id in directory.live or strict or not directory.has_left(request_id):
                requests.append(directory.find_seated(request_id))
            else:
                skipped.append((i, directory.known.get(request_id)))
        return InputBatch(self._slots, requests, ids, skipped, is_everyone=ids == list(directory.live))
