"""The requests of one vocabulary on a device: its context, plans, memory, and what it has been told."""

from __future__ import annotations

import contextlib
from collections import OrderedDict
from collections.abc import Sequence
from types import TracebackType
from typing import Any, NamedTuple

import numpy as np

from ....backends.library.binding import Answer, Device, Library, LibraryError, Refusal
from ....backends.library.device.calls import CallLimits
from ....backends.library.device.plans import PlanShape
from ....backends.library.header import contract, number
from ....backends.library.tensor import prepare
from ....contract import Chain
from ..bench import Room, parts_of
from ..observing import LibraryStep
from ..structs import larger
from .memory import GuardedBlock, GuardedMemory
from .notices import Notices

_MOST_PLANS = 6


class GuardedPlan(NamedTuple):
    """A plan, and the memory of its runs; None for what it does not need."""

    number: int
    rows: int
    workspace: GuardedBlock | None
    pinned: GuardedBlock | None

    @property
    def blocks(self) -> list[GuardedBlock]:
        return [block for block in (self.workspace, self.pinned) if block is not None]


class RoomOnDevice(Room):
    """A room whose logits lie on a device; leaving its `with` block closes it.

    recent  the calls that have been finished last: their outputs must stay as they are.
    """

    def __init__(self, library: Library, device: Device, size: int, *, capacity: int = 64) -> None:
        super().__init__(library, size, capacity=capacity, device=device)
        self.library = library
        self.memory = GuardedMemory(self.session.context)
        self.notices = Notices(self.session, self.slots)
        self.recent: list[Any] = []
        self._plans: OrderedDict[PlanShape, GuardedPlan] = OrderedDict()
        self.session.context.enter()

    def __enter__(self) -> RoomOnDevice:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self.close()
        elif isinstance(error, GeneratorExit):  # something is wrong, and has been said
            with contextlib.suppress(LibraryError, Refusal):
                self.close()

    def close(self) -> None:
        """Release all plans, give back all memory, and close the context."""
        while self._plans:
            self.release(self._plans.popitem()[1])
        self.memory.free_all()
        self.session.context.close()

    # --- what the library answers ------------------------------------------------------------------

    def answer(self, parts: Sequence[Any], *, masked: bool = False) -> Answer | None:
        """The library's answer about a program."""
        return self.session.query(tuple(parts), masked=masked)

    def limits(self, step: LibraryStep) -> CallLimits:
        """The limits of a call for `step`."""
        answers = [self.answer(parts, masked=group.masked) for group, parts in step.entries]
        return CallLimits.of([answer for answer in answers if answer is not None])

    def random_kind(self, chain: Chain) -> int:
        """What random numbers a chain wants: calls have one kind."""
        answer = self.answer(parts_of(chain))
        return 0 if answer is None else answer.random

    # --- plans ---------------------------------------------------------------------------------------

    def plan(self, shape: PlanShape) -> GuardedPlan:
        """A plan for a shape, kept for the next calls."""
        if self.library.function("prepare") is None:
            return GuardedPlan(0, shape.rows, None, None)
        if shape not in self._plans:
            while len(self._plans) >= _MOST_PLANS:
                self.release(self._plans.popitem(last=False)[1])
            self._plans[shape] = self.prepare(shape, self.live_plans())
        self._plans.move_to_end(shape)
        return self._plans[shape]

    def live_plans(self) -> list[int]:
        """The numbers of the plans that are kept."""
        return [plan.number for plan in self._plans.values()]

    def prepare(self, shape: PlanShape, taken: Sequence[int] = (), *, newer: bool = False) -> GuardedPlan:
        """A new plan. Raises `LibraryError` if it cannot be."""
        programs = np.array(shape.programs, np.uint32)
        struct, whole = larger("es_shape", newer)
        struct.masked, struct.rows, struct.vocab_size = shape.masked, shape.rows, self.size
        struct.stride, struct.wants = shape.stride, shape.wants
        struct.most_top_k, struct.most_logprobs = shape.most_top_k, shape.most_logprobs
        struct.code, struct.bits = shape.layout.code, shape.layout.bits
        struct.programs = contract().from_buffer("uint32_t[]", programs)
        struct.n_programs = len(programs)
        before, out = bytes(contract().buffer(whole)), larger("es_plan", newer)
        tail = bytes(contract().buffer(out[1]))[contract().sizeof("es_plan") :]
        context = self.session.context
        context.check("prepare", self.library.function("prepare")(context.pointer, struct, out[0]))
        plan, behind = out[0], bytes(contract().buffer(out[1]))[contract().sizeof("es_plan") :]
        if before != bytes(contract().buffer(whole)) or tail != behind:
            raise self.library.error("prepare writes into the shape, or behind the plan")
        programs[:] = 0
        if plan.number == 0 or plan.number in taken:
            raise self.library.error(f"prepare gave plan {plan.number}, where {list(taken)} are live")
        if min(plan.workspace_bytes, plan.pinned_bytes) < 0:
            raise self.library.error(f"prepare asks for {plan.workspace_bytes} and {plan.pinned_bytes} bytes")
        workspace = self.memory.take(plan.workspace_bytes) if plan.workspace_bytes else None
        pinned = self.memory.take(plan.pinned_bytes, pinned=True) if plan.pinned_bytes else None
        return GuardedPlan(plan.number, shape.rows, workspace, pinned)

    def release(self, plan: GuardedPlan) -> None:
        """End a plan, and give back its memory. Raises `LibraryError` if the library refuses that."""
        context, release = self.session.context, self.library.function("release")
        if plan.number and release is not None:
            context.check("release", release(context.pointer, plan.number))
        for block in plan.blocks:
            overrun = block.is_overrun()
            block.free()
            if overrun:
                raise self.library.error("it writes outside of the memory of a plan")

    # --- masks and rows ------------------------------------------------------------------------------

    def stage(self, bitmask: np.ndarray, rows: np.ndarray) -> int:
        """Stage the masks of some rows, and overwrite them; their number. Raises `Refusal`."""
        words, which = bitmask.copy(), np.array(rows, np.int64)
        struct, whole = larger("es_masks", len(which) % 2 > 0)
        struct.n, struct.total, struct.vocab_size = len(which), len(words), self.size
        struct.rows = contract().from_buffer("int64_t[]", which)
        struct.bitmask = contract().from_buffer("int32_t[]", words)
        struct.bitmask_stride = words.shape[1]
        before, out = bytes(contract().buffer(whole)), contract().new("uint64_t *")
        context = self.session.context
        context.check("stage_masks", self.library.function("stage_masks")(context.pointer, struct, out))
        same = np.array_equal(words, bitmask) and np.array_equal(which, rows)
        if not same or before != bytes(contract().buffer(whole)):
            raise self.library.error("stage_masks writes what it is given")
        words[:], which[:] = ~words, 0
        return int(out[0])

    def read_rows(self, values: np.ndarray, code: int, rows: np.ndarray) -> str | None:
        """Put `values` on the device, and have some of their rows read; what is wrong with them."""
        ffi, context = contract(), self.session.context
        block = self.memory.take(values.nbytes)
        block.write(values)
        tensor = ffi.new("es_tensor *")
        shape, strides = prepare(tensor, code, 8 * values.itemsize)
        shape[0], shape[1] = values.shape
        strides[0], tensor.data = values.shape[1], block.pointer
        tensor.device_type, tensor.device_id = context.device
        out = np.zeros((len(rows) + 2, values.shape[1]), values.dtype)
        out[0], out[-1] = 1, 1
        code = self.library.function("read_rows")(
            context.pointer,
            tensor,
            ffi.from_buffer("int64_t[]", np.array(rows, np.int64)),
            len(rows),
            ffi.NULL,
            ffi.from_buffer(out[1:]),
        )
        context.check("read_rows", code)
        same, overrun = out[1:-1].tobytes() == values[rows].tobytes(), block.is_overrun()
        block.free()
        if overrun or (out[[0, -1]] != 1).any():
            return "read_rows writes outside of its output"
        return None if same else "read_rows gives other rows"


def wants(step: LibraryStep, *, on_device: bool) -> int:
    """What a call of `step` asks for beside tokens, as bits of `es_promise`."""
    asked = {
        "ES_LOGPROBS": step.logprobs is not None,
        "ES_PROCESSED": any(group.want_processed for group, _ in step.entries) and not step.width,
        "ES_SURVIVORS": bool(step.width),
        "ES_ON_DEVICE": on_device,
    }
    return sum(number(name) for name, wanted in asked.items() if wanted)


def most_wanted(step: LibraryStep) -> tuple[int, int]:
    """The greatest top_k of a step, 0 if some rows have none, and the most logprobs, -1 if some want all."""
    top_k = step.entries[0][0].rows.slots.column("top_k")[step.slot_numbers]
    most_logprobs = 0
    if step.logprobs is not None:
        top_n = step.logprobs[1][step.index]
        most_logprobs = -1 if top_n.min() < 0 else int(top_n.max())
    return (0 if top_k.min() < 1 else int(top_k.max())), most_logprobs
