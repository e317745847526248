"""Rows after their chains, without a choice and without a change of state."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import numpy as np

from ..arithmetic import FLT_MAX, LogitRows, RowFault, checked_row
from ..base.errors import INTERRUPTIONS, failure
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
        out, rows = checked_row(row).copy(), self._slots.single(request.slot)
        if request.grammar is not None:
            mask = self._masks.mask_of(request)
            out[~unpack_bitmask(mask, len(out))] = -np.inf
            rows = rows.under(mask[None])
        self._backend.apply(self._grouping.plan_of(chain), out[None], rows)
        if not -np.inf < out.max() <= FLT_MAX:
            raise RowFault(f"the chain ends with a greatest logit of {out.max()}")
        return out

    def on_host(self, inputs: InputBatch, logits: LogitRows, before_choice: bool) -> np.ndarray:
        """float32 [rows, vocab]: NaN for a row that fails, and the reason is logged.

        before_choice  leave out a temperature of 0, too.
        """
        out = np.full((len(logits), self._slots.vocabulary.size), np.nan, np.float32)
        logits.fetch()

        def process(i: int, request: Request, chain: Chain) -> None:
            out[i] = self.row(chain, request, logits.row(i))

        self._for_each(inputs, before_choice, process)
        return out

    def on_device(self, inputs: InputBatch, logits: LogitRows, before_choice: bool) -> Any:
        """The same as a tensor on the device of `logits`; None if the backend leaves that to the host."""
        groups: dict[Any, tuple[Any, list[int]]] = {}
        masks: dict[int, np.ndarray] = {}

        def join(i: int, request: Request, chain: Chain) -> None:
            plan = self._grouping.plan_of(chain)
            if request.grammar is not None:
                masks[i] = self._masks.mask_of(request)
            groups.setdefault((chain.key, i in masks), (plan, []))[1].append(i)

        self._for_each(inputs, before_choice, join)
        slots = np.full(len(logits), -1, np.int64)
        slots[inputs.places] = inputs.slots
        n = len(logits)
        batch = Batch(
            logits,
            [
                Group(plan, np.array(rows), Rows(self._slots, slots[rows]), rows[0] in masks)
                for plan, rows in groups.values()
            ],
            np.full(n, -1, np.int64),
            np.full(n, np.nan),
            [None] * n,
            _bitmask(n, masks),
        )
        try:
            processed = self._backend.process(batch)
        except (BackendError, *INTERRUPTIONS):
            raise
        except BaseException as error:
            logger.error("%s", failure(f"backend {self._backend.name}", error))
            return None
        if processed is not None:
            for i, request in zip(inputs.places.tolist(), inputs.requests, strict=True):
                if batch.errors[i] is not None:
                    logger.error("request %r: %s", request.id, batch.errors[i])
        return processed

    def _for_each(
        self, inputs: InputBatch, before_choice: bool, work: Callable[[int, Request, Chain], None]
    ) -> None:
        """Do `work` for every request, with its row and its chain; what fails is logged."""
        for i, _ in inputs.skipped:
            logger.error("request %r: it has left", inputs.named[i])
        for i, request in zip(inputs.places.tolist(), inputs.requests, strict=True):
            try:
                if request.backlog:
                    raise UnfinishedError("its grammar has more to do than one call may: call again")
                self._masks.prepare_samplers(request)
                work(i, request, request.chain.before_choice() if before_choice else request.chain)
            except INTERRUPTIONS:
                raise
            except BaseException as error:
                logger.error("request %r: %s", request.id, error)


def _bitmask(n: int, masks: dict[int, np.ndarray]) -> np.ndarray | None:
    """int32 [n, words] from the masks of some rows; None if there are none."""
    if not masks:
        return None
    bitmask = np.zeros((n, len(next(iter(masks.values())))), np.int32)
    for i, mask in masks.items():
        bitmask[i] = mask
    return bitmask
