"""One step on a device: begun, so that the device works while the host does not wait, and finished later."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from ....arithmetic import LogitRows
from ....contract import Batch
from ...host_run import HostRun
from ..binding import Answer, Layout
from ..call_rows import Entry
from ..calls import Call
from ..declined import Fallback
from ..header import contract, number, size_of
from .logits import DeviceTensor, device_tensor
from .numbers import RandomNumbers
from .parts import DeviceParts
from .plans import PlanShape
from .survivors import SurvivorsTable


class CallLimits(NamedTuple):
    """What the programs of a call allow and need, as in `es_answer`."""

    max_rows: int
    alignment: int
    max_survivors: int
    random: int
    random_width: int
    on_device: bool

    @classmethod
    def of(cls, answers: Sequence[Answer]) -> CallLimits:
        """The limits of a call whose programs have these answers."""
        return cls(
            min(filter(None, (answer.max_rows for answer in answers)), default=0),
            max(answer.alignment for answer in answers),
            max(answer.max_survivors for answer in answers),
            answers[0].random,
            answers[0].random_width,
            all(answer.promise("ON_DEVICE") for answer in answers),
        )


def _rounded(rows: int, max_rows: int) -> int:
    """Rows for a plan: a power of two, or the most that the library takes."""
    power = 1 << max(rows - 1, 0).bit_length()
    return min(power, max_rows) if max_rows else power


def _most_top_k(entries: Sequence[Entry]) -> int:
    """The greatest top_k of all rows, rounded up to a power of two; 0 if a row has none."""
    top_k = np.concatenate([np.asarray(entry.group.rows["top_k"]) for entry in entries])
    return 0 if top_k.min() < 1 else 1 << int(top_k.max() - 1).bit_length()


class DeviceInput:
    """The `es_tensor` of a call, which points to the logits of one step after another, where they lie."""

    def __init__(self, tensor: Any, layout: Layout, stride: int, alignment: int) -> None:
        self._tensor = tensor
        self._form = layout, stride
        self._alignment = alignment

    def point_to(self, logits: LogitRows) -> bool:
        """Point to `logits`; False if they have another layout."""
        found = device_tensor(logits)
        if found is None or (found.layout, found.stride) != self._form or found.alignment < self._alignment:
            return False
        contract().memmove(contract().addressof(self._tensor), found.pointer, size_of("es_tensor"))
        return True


class DeviceCall(Call):
    """The rows of some groups on a device; all entries have programs that are given the same random numbers.

    A call is begun and finished, again and again. Between the two, the device reads the logits, the masks and
    the plan's memory, and writes what is taken at the end; so one is begun only once.
    """

    def __init__(
        self,
        parts: DeviceParts,
        fallback: Fallback,
        host: HostRun,
        entries: Sequence[Entry],
        tensor: DeviceTensor,
        limits: CallLimits,
        *,
        reports: bool = False,
        cuts: bool = False,
        most_logprobs: int = 0,
    ) -> None:
        """`reports` and `cuts` as in `Call`; `most_logprobs` as in `es_shape`."""
        self._parts = parts
        self._tensor, self._limits = tensor, limits
        super().__init__(
            parts.session,
            fallback,
            host,
            entries,
            tensor.layout,
            limits.max_rows,
            reports=reports,
            cuts=cuts,
        )
        self._code = 0
        self._ticket = 0
        rows = self._rows
        self._is_whole = limits.on_device and not cuts
        self._cut: SurvivorsTable | None = None
        if cuts:
            self._cut = SurvivorsTable(
                self._struct, rows, min(limits.max_survivors, parts.vocab_size), parts.vocab_size
            )
            self._all_exist = self._cut.all_possible
        self._numbers: RandomNumbers | None = None
        if limits.random:
            slots = np.concatenate([entry.group.rows.slot_numbers for entry in entries])
            width = min(limits.random_width, parts.vocab_size) or parts.vocab_size
            self._numbers = RandomNumbers(limits.random, self._slots, slots, width)
            rows.arrays["random"] = self._numbers.array
        rows.point(self._struct)
        self._plan_shape = PlanShape(
            tuple(sorted({entry.number for entry in entries})),
            tensor.layout,
            _rounded(rows.n, limits.max_rows),
            tensor.stride,
            any(entry.group.masked for entry in entries),
            self._wants(),
            _most_top_k(entries),
            most_logprobs if reports else 0,
        )

    def _input_for(self, tensor: Any, layout: Layout, vocab_size: int) -> Any:
        return DeviceInput(tensor, layout, self._tensor.stride, self._limits.alignment)

    def begin(self, batch: Batch) -> bool:
        """Queue the work; False if this call does not fit `batch`, and a new one is needed. Raises `Refusal`
        if the library has no plan for it, or does not take notice of the requests."""
        self.settle_down()
        found = device_tensor(batch.logits)
        if found is None or not self._point_to(batch):
            return False
        self._tensor = found
        self._point_to_device(batch, found)
        if self._numbers is not None:
            self._numbers.draw()
        self._rows.status.fill(number("ES_ROW_OK"))
        self._struct.ticket = 0
        self._parts.open_calls.add(self)
        try:
            self._code = self._parts.start(self._attempts.run, self._struct)
        finally:
            self._ticket = self._struct.ticket
            if self._watched:
                self._leave_if_late(batch)
        return True

    def finish(self, batch: Batch) -> np.ndarray:
        """Wait for the results and take them; the numbers of the rows that the host has run instead."""
        code = self._code or self.settle_down()
        declined = self._taken(batch, code)
        self._hand_out(batch, declined)
        return declined

    def settle_down(self) -> int:
        """Wait until the device no longer works for this call; the library's code."""
        ticket, self._ticket = self._ticket, 0
        self._parts.open_calls.discard(self)
        return self._parts.wait(ticket) if ticket else number("ES_OK")

    def is_done(self) -> bool:
        """Whether `finish` has nothing to wait for."""
        if self._ticket and (code := self._parts.poll(self._ticket)) != number("ES_BUSY"):
            self._ticket, self._code = 0, code
            self._parts.open_calls.discard(self)
        return not self._ticket

    def survivors(self, declined: np.ndarray) -> dict[int, tuple[np.ndarray, np.ndarray]]:
        """What the cut has left of each row, by row of the logits, but those `declined`."""
        return {} if self._cut is None else self._cut.by_row(declined)

    # --- inside ----------------------------------------------------------------------------------

    def _point_to_device(self, batch: Batch, tensor: DeviceTensor) -> None:
        """Point to this step's place in the device's work, its plan, its masks and its tokens."""
        struct, parts, ffi = self._struct, self._parts, contract()
        plan = parts.plans.plan(self._plan_shape, batch.logits.source)
        struct.stream = ffi.cast("void *", tensor.stream)
        struct.ready = ffi.cast("void *", tensor.ready)
        struct.plan, struct.workspace, struct.pinned = (
            plan.number,
            plan.workspace.pointer,
            plan.pinned.pointer,
        )
        struct.masks, struct.n_changed = 0, 0
        staged = parts.staged(batch.prepared_masks)
        if staged is not None and self._plan_shape.masked and batch.prepared_masks is not None:
            self._changed = np.array(sorted(batch.prepared_masks.changed), np.int64)
            struct.masks, struct.n_changed = staged, len(self._changed)
            struct.changed = ffi.from_buffer("int64_t[]", self._changed)
        struct.token_ids_on_device = ffi.NULL
        if self._is_whole and self._rows.n == len(batch.token_ids):
            batch.token_ids_on_device, self._tokens = parts.new_tokens(batch.logits.source, self._rows.n)
            struct.token_ids_on_device = ffi.cast("int64_t *", self._tokens.pointer)

    def _wants(self) -> int:
        """What is asked for beside tokens, as bits of `es_promise`."""
        names = {
            "ES_LOGPROBS": self._logprobs is not None,
            "ES_PROCESSED": self._survivors is not None,
            "ES_SURVIVORS": self._cut is not None,
            "ES_ON_DEVICE": self._is_whole,
        }
        return sum(number(name) for name, wanted in names.items() if wanted)

    def _impossible(self) -> Iterator[tuple[np.ndarray, str]]:
        yield from super()._impossible()
        if self._cut is not None:
            yield self._cut.impossible(), "it leaves survivors that cannot be"
