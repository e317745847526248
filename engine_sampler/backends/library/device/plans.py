"""Plans: a library prepares for a shape once, and every run of it has the same memory."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any, NamedTuple

from ..binding import Context, Layout
from ..header import contract, sized
from .memory import NOTHING, DeviceMemory, MemoryBlock

_MOST = 16
"""How many plans are kept; the one that has not been used for longest goes."""


class PlanShape(NamedTuple):
    """What a plan is for, as in `es_shape`; `programs` are numbers in ascending order."""

    programs: tuple[int, ...]
    layout: Layout
    rows: int
    stride: int
    masked: bool
    wants: int
    most_top_k: int
    most_logprobs: int


class LibraryPlan(NamedTuple):
    """A plan's number, 0 for libraries that do not plan, and the memory of its runs."""

    number: int
    workspace: MemoryBlock
    workspace_bytes: int
    pinned: MemoryBlock
    pinned_bytes: int


UNPLANNED = LibraryPlan(0, NOTHING, 0, NOTHING, 0)


class Plans:
    """The plans of a context, by shape.

    A plan serves runs of fewer rows, too.
    """

    def __init__(self, context: Context, memory: DeviceMemory, vocab_size: int) -> None:
        self._context = context
        self._memory = memory
        self._vocab_size = vocab_size
        self._prepare = context.library.function("prepare")
        self._plans: OrderedDict[PlanShape, LibraryPlan] = OrderedDict()

    def plan(self, shape: PlanShape, like: Any) -> LibraryPlan:
        """The plan for a shape; `like` is an array on the device. Raises `Refusal` if there is none."""
        if self._prepare is None:
            return UNPLANNED
        plan = self._plans.get(shape)
        if plan is None:
            while len(self._plans) >= _MOST:
                self._release(self._plans.popitem(last=False)[1])
            plan = self._plans[shape] = self._new(shape, like)
        self._plans.move_to_end(shape)
        return plan

    def _new(self, shape: PlanShape, like: Any) -> LibraryPlan:
        programs = contract().new("uint32_t[]", shape.programs)
        struct = sized(
            "es_shape",
            masked=shape.masked,
            rows=shape.rows,
            vocab_size=self._vocab_size,
            stride=shape.stride,
            code=shape.layout.code,
            bits=shape.layout.bits,
            wants=shape.wants,
            programs=programs,
            n_programs=len(shape.programs),
            most_top_k=shape.most_top_k,
            most_logprobs=shape.most_logprobs,
        )
        out = sized("es_plan")
        self._context.check("prepare", self._prepare(self._context.pointer, struct, out))
        number, of_device, of_host = out.number, out.workspace_bytes, out.pinned_bytes
        if number == 0 or min(of_device, of_host) < 0 or number in (p.number for p in self._plans.values()):
            raise self._context.library.error(
                f"prepare gave plan {number} with {of_device} and {of_host} bytes; allowed are a new number "
                "from 1 on, and bytes from 0 on"
            )
        try:
            workspace, pinned = self._memory.device(of_device, like), self._memory.pinned(of_host)
        except BaseException:
            self._release(LibraryPlan(number, NOTHING, 0, NOTHING, 0))
            raise
        return LibraryPlan(number, workspace, of_device, pinned, of_host)

    def _release(self, plan: LibraryPlan) -> None:
        release = self._context.library.function("release")
        if release is not None:
            self._context.check("release", release(self._context.pointer, plan.number))
