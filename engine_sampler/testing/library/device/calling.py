"""One call on a device, watched from all sides: begun and ended, with everything overwritten between the two
that may change then."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ....backends.library.binding import Layout, LibraryError, Refusal
from ....backends.library.device.numbers import RandomNumbers
from ....backends.library.device.plans import PlanShape
from ....backends.library.header import contract, number
from ....backends.library.tensor import prepare, type_of
from ..bench import Tally, judged
from ..memory import Memory
from ..observing import GAP, LibraryCall, LibraryStep, Observed
from ..structs import TableCopy
from ..surroundings import Surroundings
from .memory import GuardedBlock
from .reports import wrong_reports
from .room import GuardedPlan, RoomOnDevice, most_wanted, wants
from .survivors import wrong_survivors

_NO_TOKEN = -77
"""What tokens on the device hold before the call."""

_LONGEST_POLLS = 20.0
"""Seconds."""

_MOST_ALONE = 6
"""Rows of a call that are compared with themselves alone, where NumPy does not say what is right."""

_VOLATILE = (
    "the row numbers",
    "the slot numbers",
    "the program numbers",
    "the kinds of logprobs",
    "top_n",
    "edits",
)
"""Arrays by entry or row that may change once `run` has returned."""


@dataclass(frozen=True)
class CallOptions:
    """How a call is made.

    padding, shift  elements between two rows of the logits, and before the first one, as far as alignment
                    allows; rows are aligned to no more than they must be if `barely`.
    spare_rows      by how many rows the plan is for more.
    polls           whether the call ends by `poll`, not by `wait`.
    early           whether tokens on the device are read before it has ended.
    overwrites      whether what may change once `run` has returned does.
    masks, changed  the number of staged masks, and the rows that have changed since.
    numbers         random numbers, in place of those of the requests.
    plan            one to be used.
    """

    padding: int = 0
    shift: int = 0
    barely: bool = False
    spare_rows: int = 0
    polls: bool = False
    early: bool = False
    overwrites: bool = True
    masks: int = 0
    changed: Sequence[int] = ()
    numbers: np.ndarray | None = None
    plan: GuardedPlan | None = None


class CallOnDevice(LibraryCall):
    """A call of `run` on a device. `begin`, then `finish`; both report breaches in what `finish` returns."""

    def __init__(self, room: RoomOnDevice, step: LibraryStep, options: CallOptions = CallOptions()) -> None:
        """Take memory, and put everything where it belongs."""
        super().__init__(step, Memory())
        self._room, self._options = room, options
        self._context = room.session.context
        self._breaches: list[str] = []
        self._blocks: list[GuardedBlock] = []
        self._tokens: GuardedBlock | None = None
        self._early: np.ndarray | None = None
        self._limits = room.limits(step)
        self._add_inputs()
        self._add_outputs()
        self._add_numbers()
        self._add_masks()
        self._plan: GuardedPlan | None = options.plan

    def shape(self) -> PlanShape:
        """The shape that the call needs a plan for."""
        step, tensor = self._step, self._struct.logits
        numbers = {step.session.compile(parts) or 0 for _, parts in step.entries}
        compact = self._strides[0] == self._size
        most = self._limits.max_rows
        rows = self._n + self._options.spare_rows
        return PlanShape(
            tuple(sorted(numbers)),
            Layout(tensor.code, tensor.bits, compact, self._context.device),
            min(rows, most) if most else rows,
            int(self._strides[0]),
            step.bitmask is not None and any(group.masked for group, _ in step.entries),
            wants(step, on_device=self._tokens is not None),
            *most_wanted(step),
        )

    def use(self, plan: GuardedPlan) -> None:
        """Run with this plan."""
        self._plan = plan
        for name, block in (("workspace", plan.workspace), ("pinned", plan.pinned)):
            if block is not None:
                setattr(self._struct, name, block.pointer)
        self._struct.plan = plan.number

    def drop(self) -> None:
        """Give back the memory that the call has taken."""
        for block in self._blocks:
            block.free()
        self._blocks = []

    # --- the call ----------------------------------------------------------------------------------

    def begin(self) -> None:
        """Call `run`, and overwrite what may change then."""
        self.use(self._plan or self._room.plan(self.shape()))
        self._note_batch()
        surroundings = Surroundings()
        self._code = int(self._room.library.function("run")(self._context.pointer, self._struct))
        self._breaches += surroundings.changes()
        self._breaches += [f"run writes {name}" for name in self._memory.changed()]
        if self._tokens is not None and self._options.early and self._code == number("ES_OK"):
            self._early = self._tokens.read(np.int64)
        if self._options.overwrites and self._struct.ticket:
            self._overwrite()

    def finish(self) -> Observed:
        """Wait for the results; what the call has done."""
        surroundings = Surroundings()
        ticket = int(self._struct.ticket)
        code = self._code or (self._ended(ticket) if ticket else 0)
        self._breaches += surroundings.changes()
        observed = self._looked_at(code, self._breaches)
        if code == number("ES_OK"):
            observed.breaches += self._wrong_tokens()
        observed.breaches += self._written_on_device()
        observed.breaches += [b for call in self._room.recent for b in call.changed_since()]
        self._finished = {name: whole.tobytes() for name, whole in self._outputs.items()}
        self._room.recent = [*self._room.recent[-2:], self]
        self.drop()
        return observed

    def changed_since(self) -> list[str]:
        """What has been written since the call has been finished."""
        late = [name for name, whole in self._outputs.items() if whole.tobytes() != self._finished[name]]
        return [f"{name} is written after the call has ended" for name in late[:1]]

    def _ended(self, ticket: int) -> int:
        function = self._room.library.function
        wait, poll = function("wait"), function("poll")
        end = time.monotonic() + _LONGEST_POLLS
        while self._options.polls and poll is not None:
            code = int(poll(self._context.pointer, ticket))
            if code != number("ES_BUSY"):
                return code
            if time.monotonic() > end:
                self._breaches.append(f"poll gives BUSY for {_LONGEST_POLLS:g} s")
                break
        if wait is None:
            self._breaches.append(f"run gives the ticket {ticket}, and the library has no function wait")
            return number("ES_INVALID")
        code = int(wait(self._context.pointer, ticket))
        if code == number("ES_BUSY"):
            self._breaches.append("wait returns BUSY")
        return code

    def _overwrite(self) -> None:
        for name in _VOLATILE:
            if self._memory.has(name):
                self._memory.replace(name, np.roll(self._memory.array(name), 1))
        if self._memory.has(_NUMBERS):
            numbers = self._memory.array(_NUMBERS)
            other = ~numbers if numbers.dtype.kind == "u" else np.float32(1) - np.minimum(numbers, 0.5)
            self._memory.replace(_NUMBERS, other)
        self._table.spoil()

    # --- inputs and outputs on the device ------------------------------------------------------------

    def _add_logits(self) -> None:
        logits, tensor, options = self._step.logits, self._struct.logits, self._options
        self._shape, self._strides = prepare(tensor, *type_of(logits))
        array, size = logits.array[:, : self._size], logits.array.itemsize
        alignment = max(self._limits.alignment, size)
        stride = _aligned((self._size + options.padding) * size, alignment, options.barely) // size
        if not (options.padding or options.barely or self._limits.alignment):
            stride = self._size
        shift = -(-options.shift * size // alignment) * alignment + (alignment if options.barely else 0)
        flat = np.full(stride * (len(array) - 1) + self._size, GAP[array.dtype], array.dtype)
        np.lib.stride_tricks.as_strided(flat, array.shape, (stride * size, size))[...] = array
        self._logits = self._take(flat.nbytes, ahead=shift)
        self._logits.write(flat)
        self._flat = flat.tobytes()
        tensor.device_type, tensor.device_id = self._context.device
        self._shape[0], self._shape[1], self._strides[0] = len(array), self._size, stride
        offset = 8 * size if self._step.newer else 0
        tensor.byte_offset = offset
        tensor.data = contract().cast("char *", self._logits.pointer) - offset
        if stride == self._size and self._step.newer:
            tensor.strides = contract().NULL

    def _add_table(self) -> None:
        step = self._step
        slots = step.entries[0][0].rows.slots
        own = sorted(set(step.slot_numbers.tolist()))
        self._table = TableCopy(step.session, slots, self._memory, step.newer, whole=own)
        self._struct.table = self._table.pointer

    def _add_outputs(self) -> None:
        super()._add_outputs()
        if self._limits.on_device and not self._step.width and self._n == len(self._step.logits):
            self._tokens = self._take(8 * self._n)
            self._tokens.write(np.full(self._n, _NO_TOKEN, np.int64))
            self._struct.token_ids_on_device = contract().cast("int64_t *", self._tokens.pointer)

    def _add_numbers(self) -> None:
        if not self._limits.random:
            return
        numbers = self._options.numbers
        if numbers is None:
            numbers = numbers_of(self._room, self._step)
        held = self._memory.put(_NUMBERS, np.ascontiguousarray(numbers))
        self._held.append(held)
        self._struct.random = contract().cast("void *", contract().from_buffer(held))

    def _add_masks(self) -> None:
        if not self._options.masks:
            return
        self._struct.masks, self._struct.n_changed = self._options.masks, len(self._options.changed)
        self._struct.changed = self._input("the changed rows", "int64_t[]", self._options.changed, np.int64)

    def _take(self, n_bytes: int, *, ahead: int = 0) -> GuardedBlock:
        block = self._room.memory.take(n_bytes, ahead=ahead)
        self._blocks.append(block)
        return block

    # --- what it did ---------------------------------------------------------------------------------

    def _wrong_tokens(self) -> list[str]:
        """Tokens on the device that are not those on the host; rows without one may hold anything there."""
        if self._tokens is None:
            return []
        rows = self._index[self._result("status") == number("ES_ROW_OK")]
        right = self._result("token_ids")
        for what, tokens in (("", self._tokens.read(np.int64)), (", read before the end", self._early)):
            if tokens is not None and not np.array_equal(tokens[rows], right[rows]):
                row = int(rows[tokens[rows] != right[rows]][0])
                return [f"token {tokens[row]} of row {row} on the device{what}, {right[row]} on the host"]
        return []

    def _written_on_device(self) -> list[str]:
        wrong = []
        if self._logits.read().tobytes() != self._flat:
            wrong.append("it writes the logits on the device")
        blocks = [("the logits", self._logits), ("the tokens on the device", self._tokens)]
        if self._plan is not None:
            blocks += [("the workspace", self._plan.workspace), ("the pinned memory", self._plan.pinned)]
        wrong += [
            f"it writes outside of {name}"
            for name, block in blocks
            if block is not None and block.is_overrun()
        ]
        return wrong


_NUMBERS = "the random numbers"


def _aligned(n_bytes: int, alignment: int, barely: bool) -> int:
    """The least multiple of `alignment` from `n_bytes` on; an odd one if `barely`."""
    times = -(-n_bytes // alignment)
    return alignment * (times + (barely and times % 2 == 0))


def attempt(
    room: RoomOnDevice, step: LibraryStep, tally: Tally, options: CallOptions = CallOptions()
) -> tuple[str | None, Observed]:
    """Make a call on the device, after its notices; what is wrong with it, or None, and what it did."""
    room.notices.tell()
    call = CallOnDevice(room, step, options)
    call.begin()
    return judged_on_device(room, step, tally, call.finish())


def numbers_of(room: RoomOnDevice, step: LibraryStep) -> np.ndarray:
    """The random numbers of the requests of a step."""
    limits = room.limits(step)
    width = min(limits.random_width, room.size) or room.size
    table = RandomNumbers(limits.random, room.slots, step.slot_numbers, width)
    table.draw()
    return table.numbers


def own_plans(room: RoomOnDevice, calls: Sequence[CallOnDevice]) -> list[GuardedPlan]:
    """A plan for each of some calls, which may then be open together; none if the library does not plan."""
    plans: list[GuardedPlan] = []
    for call in calls if room.library.function("prepare") is not None else ():
        plans.append(room.prepare(call.shape(), [*room.live_plans(), *(plan.number for plan in plans)]))
        call.use(plans[-1])
    return plans


def shape_of(room: RoomOnDevice, step: LibraryStep, options: CallOptions = CallOptions()) -> PlanShape:
    """The shape that a call needs a plan for."""
    call = CallOnDevice(room, step, options)
    call.drop()
    return call.shape()


def judged_on_device(
    room: RoomOnDevice, step: LibraryStep, tally: Tally, observed: Observed, *, may_refuse: bool = False
) -> tuple[str | None, Observed]:
    """What is wrong with a call that has been observed, and what it did. `may_refuse`: whether there may be
    too much at once."""
    breach = breach_of(room, observed, may_refuse=may_refuse)
    if breach is not None or step.width:
        tally.calls += 1
        tally.rows += len(step.index)
        tally.declined += int((observed.status != 0).sum())
        return breach or wrong_survivors(room, step, observed), observed

    def again(one: LibraryStep) -> Observed:
        call = CallOnDevice(room, one)
        call.begin()
        return call.finish()

    problem = judged(room, step, tally, observed, again=again, most=_MOST_ALONE)
    if problem is None and all(room.promises(p, "EXACT", masked=g.masked) for g, p in step.entries):
        problem = wrong_reports(step, observed)
    return problem, observed


def breach_of(room: RoomOnDevice, observed: Observed, *, may_refuse: bool = False) -> str | None:
    """What a call did, beside its results, that a library must not do; None if nothing. A call that is alone
    is refused for good or not at all."""
    if observed.code == number("ES_OK"):
        return observed.breaches[0] if observed.breaches else None
    try:
        room.session.context.check("the call", observed.code)
    except Refusal as refusal:
        if not may_refuse and refusal.code != number("ES_UNSUPPORTED"):
            return str(refusal)
    except LibraryError as error:
        return str(error)
    return observed.breaches[0] if observed.breaches else None
