"""Rows after their chains, without a choice and without a change of state."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np

from ..arithmetic import FLT_MAX, LogitRows, RowFault, checked_row
from ..base.errors import INTERRUPTIONS, PluginFault, described, failure, text_of
from ..contract import Backend, BackendError, Batch, Chain, Group, Rows, UnfinishedError, unpack_bitmask
from ..requests.request import Request
from ..requests.slots import Slots
from .grouping import Grouping
from .input_batch import InputBatch
from .masks import GrammarMasks

logger = logging.getLogger("engine_sampler")


class Processing:
    """Runs chains without their selectors on a backend."""

    def __init__(self, backend: Backend, grouping: Grouping, slots: Slots, masks: GrammarMasks) -> None:
        self._backend = backend
        self._grouping = grouping
        self._slots = slots
        self._masks = masks

    def row(self, chain: Chain, request: Request, row: np.ndarray) -> np.ndarray:
        """`row` as float32 [vocab] after the grammar's mask and the samplers of `chain`.

        Raises `RowFault`, `UnfinishedError`, and what plugins raise.
        """
        mask = self._masks.mask_of(request) if request.is_masked else None
        return self._row(self._grouping.plan_of(chain), self._slots.single(request.slot), row, mask)

    def rows(self, inputs: InputBatch, logits: LogitRows, before_choice: bool, on_device: bool) -> Any:
        """All rows after their masks and chains, float32 [rows, vocab]: NaN for a row that fails, with the
        reason in the log.

        before_choice  leave out a temperature of 0, too.
        on_device      whether a tensor on the device of `logits` will do if the backend gives one.
        """
        batch, errors = self._batch(inputs, logits, before_choice)
        processed = self._by_backend(batch, on_device)
        if processed is None:
            batch.errors = errors
            processed = self._one_by_one(batch)
        for i in inputs.steered:
            place, forced = int(inputs.places[i]), inputs.requests[i].forced_tokens()
            if forced and batch.errors[place] is None:
                processed[place], processed[place, forced[0]] = -np.inf, 0.0
        for request_id, error in zip(inputs.named, batch.errors, strict=True):
            if error is not None:
                logger.error("request %r: %s", request_id, error)
        return processed

    # --- the batch --------------------------------------------------------------------------------

    def _batch(
        self, inputs: InputBatch, logits: LogitRows, before_choice: bool
    ) -> tuple[Batch, list[str | None]]:
        """The rows for the backend, and why some are in none of its groups."""
        n = len(logits)
        errors: list[str | None] = [None] * n
        for place, _ in inputs.skipped:
            errors[place] = "it has left"
        masks = self._prepare(inputs, errors) if inputs.masked or inputs.preparing else {}
        groups, cache = self._groups(inputs, before_choice, errors)
        tokens, notes = np.full(n, -1, np.int64), np.full(n, np.nan)
        bitmask = _bitmask(n, masks)
        return Batch(logits, groups, tokens, notes, errors.copy(), bitmask, cache=cache), errors

    def _prepare(self, inputs: InputBatch, errors: list[str | None]) -> dict[int, np.ndarray]:
        """Let samplers prepare; the grammars' masks, int32 [words], by row. What fails goes to `errors`."""
        masks: dict[int, np.ndarray] = {}
        for i in sorted({*inputs.masked, *inputs.preparing}):
            request, place = inputs.requests[i], int(inputs.places[i])
            try:
                if request.backlog:
                    raise UnfinishedError("its grammar has more to do than one call may: call again")
                self._masks.prepare_samplers(request)
                if request.is_masked:
                    masks[place] = self._masks.mask_of(request)
            except INTERRUPTIONS:
                raise
            except BaseException as error:
                errors[place] = text_of(error)
        return masks

    def _groups(
        self, inputs: InputBatch, before_choice: bool, errors: list[str | None]
    ) -> tuple[list[Group], dict[Any, Any]]:
        """The groups of the rows without errors, and what the backend keeps for them."""
        is_whole = errors.count(None) == len(errors)
        if is_whole and before_choice in inputs.processed:
            return inputs.processed[before_choice]
        members: dict[Any, tuple[Any, list[int]]] = {}
        for i, (place, request) in enumerate(zip(inputs.places.tolist(), inputs.requests, strict=True)):
            if errors[place] is not None:
                continue
            chain = request.chain.before_choice() if before_choice else request.chain
            try:
                plan = self._grouping.plan_of(chain)
            except PluginFault as fault:
                errors[place] = text_of(fault)
                continue
            members.setdefault((chain.key, request.is_masked), (plan, []))[1].append(i)
        groups = [
            Group(plan, inputs.places[some], Rows(self._slots, inputs.slots[some]), masked)
            for (_, masked), (plan, some) in members.items()
        ]
        prepared = groups, dict[Any, Any]()
        if errors.count(None) == len(errors):
            inputs.processed[before_choice] = prepared
        return prepared

    # --- the backend ------------------------------------------------------------------------------

    def _by_backend(self, batch: Batch, on_device: bool) -> Any:
        """The processed rows of the backend; None if it leaves that to the host, or fails."""
        logits = batch.logits
        if logits.remote is not None and not self._backend.reads_from(logits.device):
            logits.fetch()
        try:
            processed = self._backend.process(batch)
            if processed is not None:
                processed = _checked(processed, logits, on_device)
                if len(batch.errors) != len(logits):
                    raise ValueError("it resized the batch's errors")
        except (BackendError, *INTERRUPTIONS):
            raise
        except BaseException as error:
            logger.error("%s", failure(f"backend {self._backend.name}", error))
            return None
        return processed

    def _one_by_one(self, batch: Batch) -> np.ndarray:
        """The rows by the backend's `apply`."""
        logits = batch.logits
        out = np.full((len(logits), self._slots.vocabulary.size), np.nan, np.float32)
        logits.fetch()
        for group in batch.groups:
            for i, place in enumerate(group.index.tolist()):
                mask = batch.bitmask[place] if group.masked and batch.bitmask is not None else None
                rows = group.rows.take(slice(i, i + 1))
                try:
                    out[place] = self._row(group.plan, rows, logits.row(place), mask)
                except INTERRUPTIONS:
                    raise
                except BaseException as error:
                    batch.errors[place] = text_of(error)
        return out

    def _row(self, plan: Any, rows: Rows, row: np.ndarray, mask: np.ndarray | None) -> np.ndarray:
        """One row, of the request in `rows`, under its grammar's mask."""
        out = checked_row(row).copy()
        if mask is not None:
            out[~unpack_bitmask(mask, len(out))] = -np.inf
            rows = rows.under(mask[None])
        self._backend.apply(plan, out[None], rows)
        if not -np.inf < out.max() <= FLT_MAX:
            raise RowFault(f"the chain ends with a greatest logit of {out.max()}")
        return out


def _bitmask(n: int, masks: dict[int, np.ndarray]) -> np.ndarray | None:
    """int32 [n, words] from the masks of some rows; None if there are none."""
    if not masks:
        return None
    bitmask = np.zeros((n, len(next(iter(masks.values())))), np.int32)
    for i, mask in masks.items():
        bitmask[i] = mask
    return bitmask


def _checked(processed: Any, logits: LogitRows, on_device: bool) -> Any:
    """What a backend gives for `logits`, on the host unless it may stay on the device. Raises TypeError or
    ValueError for anything else than float32 [rows, vocab]."""
    shape = len(logits), logits.vocab_size
    if not on_device and type(processed) is not np.ndarray:
        processed = LogitRows(processed, logits.vocab_size).array
    if type(processed) is np.ndarray:
        is_float32 = processed.dtype == np.float32
    else:  # a tensor: torch.float32, mlx.core.float32
        is_float32 = str(processed.dtype).endswith("float32")
    if is_float32 and tuple(processed.shape) == shape:
        return processed
    raise ValueError(f"process must return float32 {list(shape)}, not {described(processed)}")
