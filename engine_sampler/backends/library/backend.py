"""`LibraryBackend`: any shared library behind `native/include/engine_sampler.h`.

Rows go to the library in one call per step. Whatever it declines, as a whole or in part, the host runs, with
the same tokens; the header defines what each error means.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar
from weakref import WeakKeyDictionary

import numpy as np

from ...arithmetic import LogitRows, Logprobs
from ...base.forking import fork_safe
from ...contract import Backend, Batch, Chain, Group, Rows, Sampler, Selection, Selector, SlotTable
from ..host_run import HostRun, clear_rows
from ..numpy import NumpyBackend
from ..processed import processed_rows
from .binding import FLOATS, HOST, Answer, Context, Device, Layout, Library, LibraryError, Refusal, limits_of
from .call_rows import Entry
from .calls import Call
from .device import DeviceHost, DeviceSteps, DeviceTensor, StepOnDevice
from .device.memory import Allocate
from .device.names import device_of
from .functions import uses_row_function
from .header import described, number, words_of
from .partition import Requirements, segments_of
from .programs import FUNCTION, kind_of
from .segmented import SegmentedRun, chain_of, new_batch, plain_rows
from .session import Answers, LibrarySession, Parts, query_promises
from .tensor import Tensor, layout_of

logger = logging.getLogger("engine_sampler")

T = TypeVar("T")


class LibraryBackend(Backend):
    """A shared library behind `engine_sampler.h`. It lies at `path`, and has its own name unless `name` is
    given; `isa` is an instruction set it knows, None for its own choice. `timeout` is how many seconds a step
    may take, None for any time. `allocate` is the engine's pool of a device's memory: called with a number of
    bytes, it returns an array that exports itself by DLPack; None: torch's pool for tensors of torch, else
    the library's own memory.

    Logits that lie on a device which the library serves stay there. `begin` queues their step behind whatever
    the engine has queued on the stream (`OnStream`), and what it returns waits for the tokens.

    Exact if the library promises to be. Each `SlotTable` has a context of its own, opened when it is
    first needed and closed with it. Raises `LibraryError` if the library cannot be used, with the reason, and
    later if it breaks the contract; ValueError for a `timeout` that is not positive.

    With a `timeout`, a step that is late (`run`, and `wait` if there is one) is left behind, and the library
    is never called again: the host runs the step and all later ones, with the same tokens. Its limits:
    the call goes on in its thread, on the cores that it uses, until the process ends; its memory, the logits
    of that step included, is never freed, but a host that unmaps them takes them from under it; `open`,
    `query` and `compile` have no limit; a library that keeps a lock of the process, such as malloc's, stops
    the host too. Each step costs a change of threads and copies of its results.
    """

    hosts_the_rest = True
    follows_rows = True
    trusted = False
    """Whether the tokens and logprobs of the library are used unchecked."""

    def __init__(
        self,
        path: str | Path,
        *,
        name: str | None = None,
        isa: str | None = None,
        timeout: float | None = None,
        allocate: Allocate | None = None,
    ) -> None:
        if timeout is not None and not 0 < timeout <= threading.TIMEOUT_MAX:
            raise ValueError(f"timeout={timeout!r} is not allowed: a positive number of seconds, or None")
        self.library = Library(path)
        self.lost = False
        """Whether the library's device is lost; the host then runs everything."""
        self._isa = isa
        self._timeout = timeout
        self._host = NumpyBackend()
        self._sessions: WeakKeyDictionary[SlotTable, LibrarySession] = WeakKeyDictionary()
        self._answers: Answers = {}
        self._supported: dict[Sampler | Selector, bool] = {}
        self._lock = fork_safe(threading.RLock())
        self._allocate = allocate
        self._open()
        self.name = name or self.library.name  # type: ignore[misc]
        self.exact = self._answer.promise("EXACT")  # type: ignore[misc]

    def reopen(self) -> None:
        """Use the library again after its device was lost, with new contexts. Raises `LibraryError` if it
        cannot be used, RuntimeError if one of its calls has never returned."""
        if self.library.quarantined:
            raise RuntimeError(f"{self.library.path} cannot be opened again: {self.library.quarantined}")
        with self._lock:
            self._sessions.clear()
            self._answers.clear()
            self._supported.clear()
            self._open()
            self.lost = False

    @property
    def target(self) -> str:
        """The instruction set or device that the library uses, if it reports one."""
        return self._context.target()

    @property
    def description(self) -> str:
        """What the library is, what it promises and its limits, as its table and its answers say."""
        version = " ".join(filter(None, (self.library.name, self.library.version)))
        promised = words_of("es_promise", self._answer.promises)
        limits = list(limits_of(self._answer))
        limits += [f"at most {self._timeout:g} s a step"] if self._timeout is not None else []
        sentences = [
            f"{version}, ABI {described(self.library.table.abi)}, {self.library.path}",
            f"It promises: {', '.join(promised) or 'nothing'}",
            f"Limits: {', '.join(limits) or 'none'}",
        ]
        return f"{'. '.join(sentences)}."

    def score(self, device: str) -> float:
        return 2.0 if self.exact and not self.lost else 0.0

    def reads_from(self, device: str) -> bool:
        with self._lock:
            return not self.lost and self._devices.context_on(device_of(device)) is not None

    def supports(self, sampler: Sampler | Selector) -> bool:
        with self._lock:
            if sampler not in self._supported and not self.lost:
                try:
                    answer = query_promises(self._context, (sampler,))
                except Refusal:  # temporarily
                    return False
                self._supported[sampler] = answer is not None and (answer.promise("EXACT") or not self.exact)
            return self._supported.get(sampler, False) and not self.lost

    def runs_as(self, sampler: Sampler | Selector) -> str:
        if not isinstance(sampler, Sampler) or kind_of(sampler) != number(FUNCTION):
            return self.name
        return "C row function" if uses_row_function(sampler) else "Python"

    def compile(self, chain: Chain) -> Chain:
        return chain

    def begin(self, batch: Batch) -> Callable[[], None] | None:
        if batch.logits.remote is None:
            self.run(batch)
            return None
        try:
            step = self._guarded(lambda: self._devices.begin(batch, self, self.name, self.exact))
        except MemoryError:
            step = None
        if step is not None:
            return _Begun(step, batch, self._run_on_host)
        self._run_on_host(batch)
        return None

    def run(self, batch: Batch) -> None:
        if batch.logits.remote is not None:
            finish = self.begin(batch)
            if finish is not None:
                finish()
            return
        try:
            prepared = batch.cache.get(self)
            if prepared is None or self.lost or not prepared.work.run(batch):
                self._prepare_and_run(batch)
            elif prepared.host.rows:
                prepared.host.tell()
        except MemoryError:
            self._run_on_host(batch)

    def repeated(self, cache: dict[Any, Any]) -> Callable[[np.ndarray], bool] | None:
        prepared: _Prepared | None = cache.get(self)
        work = None if prepared is None or self.lost else prepared.work
        return work.repeat if isinstance(work, Call) and work.repeats else None

    def process(self, batch: Batch) -> np.ndarray | None:
        return None if batch.logits.remote is not None else processed_rows(batch, self.run)

    def prepare_masks(self, bitmask: np.ndarray, rows: Sequence[int], device: str) -> Any:
        return self._guarded(lambda: self._devices.prepare_masks(bitmask, rows, device))

    def decisions(self, slots: SlotTable, plan: Chain | None = None) -> tuple[int, int]:
        with self._lock:
            session = self._sessions.get(slots)
        if session is None or self.lost:
            return 0, 0
        return session.decisions(None if plan is None else (*plan.samplers, plan.selector))

    def logprobs(self, logits: LogitRows, token_ids: np.ndarray, top_n: int) -> Logprobs | None:
        if self.lost or not self.exact:
            return None
        tensor: Tensor | DeviceTensor | None
        if logits.remote is None:
            tensor, context = Tensor(logits), self._context if self._serves_host else None
        else:
            tensor = self._devices.tensor(logits)
            context = None if tensor is None else self._devices.context_on(tensor.layout.device)
        if tensor is None or context is None or tensor.pointer is None:
            return None
        with self._lock:
            try:
                return context.logprobs(tensor.pointer, logits.vocab_size, token_ids, top_n)
            except Refusal:
                return None

    def apply(self, plan: Chain, logits: np.ndarray, rows: Rows) -> None:
        done = self._run_alone(plan.samplers, logits, rows)
        for i, (ids, values) in done.survivors.items():
            logits[i] = -np.inf
            logits[i, ids] = values
        rest = np.setdiff1d(np.arange(len(rows)), list(done.survivors))
        if len(rest):
            part = logits[rest]
            self._host.apply(plan, part, rows.take(rest, None if rows.ids is None else rows.ids[rest]))
            logits[rest] = part

    def select(self, plan: Chain, logits: np.ndarray, rows: Rows) -> Selection:
        done = self._run_alone((plan.selector,), logits, rows)
        if (done.token_ids < 0).any():
            return self._host.select(plan, logits, rows)
        return Selection(done.token_ids, None if np.isnan(done.notes).all() else done.notes)

    # --- for calls: what a library does not do ----------------------------------------------------

    def refuse(self, session: LibrarySession, parts: Parts) -> None:
        """Do without the library for the program of `parts` from now on."""
        session.refuse(parts)
        if len(parts) == 1:
            self._supported[parts[0]] = False

    def lose(self, reason: str) -> None:
        """The library's device is lost: never call it again."""
        if not self.lost:
            self.lost = True
            logger.warning("backend %s is no longer used: %s", self.name, reason)

    # --- inside ----------------------------------------------------------------------------------

    def _open(self) -> None:
        """Open the contexts that questions are asked in: on the host, or else on the first kind of device
        that the library serves."""
        self._devices = DeviceSteps(
            lambda device: Context(self.library, isa=self._isa, device=device),
            self._new_session,
            self._allocate,
        )
        try:
            context = self._first_context()
            self._serves_host = context.device == HOST
            self._context = context
            self._answer = _general_answer(context)
        except Refusal as refusal:
            raise LibraryError(str(refusal)) from None

    def _first_context(self) -> Context:
        """A context for the host's memory, or else for a device. Raises `Refusal` if there is none."""
        try:
            return Context(self.library, isa=self._isa)
        except Refusal as refusal:
            if refusal.code != number("ES_UNSUPPORTED"):
                raise
            elsewhere = self._devices.any_context()
            if elsewhere is None:
                raise
            return elsewhere

    def _prepare_and_run(self, batch: Batch) -> None:
        """Decide which side runs what, cache the decision, and run."""
        batch.cache.pop(self, None)
        groups = [group for group in batch.groups if len(group.index)]
        if not groups:
            return
        host = HostRun(self.name)
        if not self._serves_host:
            host.run(batch, groups, "unsupported")
            host.tell()
            return
        work = self._guarded(lambda: self._prepare(groups, batch, host))
        if work is None:
            host.run(batch, groups, "lost" if self.lost else "declined")
        else:
            batch.cache[self] = _Prepared(work, host)
            if not work.run(batch):
                raise AssertionError("the preparation does not fit its own batch")
        host.tell()

    def _run_on_host(self, batch: Batch) -> None:
        """Run all rows on the host, whatever has been written for them so far."""
        batch.cache.pop(self, None)
        host = HostRun(self.name) if batch.logits.remote is None else DeviceHost(self.name)
        groups = [group for group in batch.groups if len(group.index)]
        for group in groups:
            clear_rows(batch, group.index)
        host.run(batch, groups, "lost" if self.lost else "declined")
        host.tell()

    def _guarded(self, work: Callable[[], T]) -> T | None:
        """The result of `work`; None if the library declines it, temporarily or permanently."""
        if self.lost:
            return None
        try:
            return work()
        except Refusal as refusal:
            if refusal.code in (number("ES_DEVICE"), number("ES_UNSUPPORTED")):
                self.lose(str(refusal))
        return None

    def _prepare(self, groups: Sequence[Group], batch: Batch, host: HostRun) -> Call | _Mixture:
        slots, logits, processes = groups[0].rows.slots, batch.logits, batch.processed is not None
        session = self._session(slots)
        layout = layout_of(logits, slots.vocabulary.size)
        entries, segmented, hosted, limits = [], [], [], []
        for group in groups:
            chain: Chain = group.plan
            parts: Parts = chain.samplers if processes else (*chain.samplers, chain.selector)
            need = Requirements(layout, group.masked, processes or group.want_processed, self.exact)
            segments = segments_of(session, parts, need)
            first = segments[0] if segments else None
            if segments is None or first is None:
                hosted.append(group)
            elif len(segments) == 1 and first.number is not None:
                reported = batch.logprobs is not None and self.exact
                edits = session.edits_program(group, first.parts, layout) if reported else None
                entries.append(Entry(group, first.parts, first.number, edits))
                limits.append(first.max_rows)
            else:
                segmented.append(SegmentedRun(self, host, session, group, segments))
        call = None
        if entries:
            reports = all(entry.edits is not None for entry in entries)
            most = min(filter(None, limits), default=0)
            call = Call(session, self, host, entries, layout, most, reports=reports, processes=processes)
        if call is not None and not segmented and not hosted:
            return call
        return _Mixture(host, session, layout, call, segmented, hosted)

    def _run_alone(self, parts: Parts, logits: np.ndarray, rows: Rows) -> Batch:
        """Run some parts of a chain on rows [n, vocab] that have passed through others; rows that the library
        cannot take are left out."""
        chain = chain_of(parts)
        group = Group(chain, np.arange(len(rows)), rows, want_processed=bool(chain.samplers))
        batch = new_batch(LogitRows(logits, logits.shape[1]), group)
        if parts and self._serves_host and rows.ids is None and plain_rows(logits).all():
            self._guarded(lambda: self._run_whole(parts, batch))
        return batch

    def _run_whole(self, parts: Parts, batch: Batch) -> None:
        """Run `parts` as one program, if the library supports that."""
        group = batch.groups[0]
        session = self._session(group.rows.slots)
        layout = layout_of(batch.logits, session.vocab_size)
        need = Requirements(layout, False, group.want_processed, self.exact)
        segments = segments_of(session, parts, need)
        if segments is not None and len(segments) == 1 and segments[0].number is not None:
            entry = Entry(group, parts, segments[0].number)
            host = HostRun(self.name)
            Call(session, self, host, [entry], layout, segments[0].max_rows).run(batch)
            host.tell()

    def _session(self, slots: SlotTable) -> LibrarySession:
        with self._lock:
            session = self._sessions.get(slots)
        if session is None:
            session = self._new_session(slots, HOST)
            with self._lock:
                self._sessions[slots] = session
        return session

    def _new_session(self, slots: SlotTable, device: Device) -> LibrarySession:
        return LibrarySession(
            self.library,
            slots,
            self._isa,
            self._answers,
            timeout=self._timeout,
            trusted=self.trusted,
            device=device,
        )


def _general_answer(context: Context) -> Answer:
    """What a library promises in general, for logits of the first type that it takes."""
    for layout in (FLOATS, FLOATS._replace(bits=16), FLOATS._replace(code=4, bits=16)):
        try:
            return context.query(layout=layout)
        except Refusal as refusal:
            if refusal.code != number("ES_UNSUPPORTED") or layout.code == 4:
                raise
    raise AssertionError("the last type is answered or refused")


class _Begun:
    """Finishes a step that a device has begun, when it is called; waits for the device when it is dropped."""

    def __init__(self, step: StepOnDevice, batch: Batch, on_host: Callable[[Batch], None]) -> None:
        self._step: StepOnDevice | None = step
        self._batch = batch
        self._on_host = on_host

    def __call__(self) -> None:
        step, self._step = self._step, None
        assert step is not None
        try:
            step.finish(self._batch)
        except MemoryError:
            step.settle_down()
            self._on_host(self._batch)

    def is_done(self) -> bool:
        """Whether it would not wait for the device."""
        return self._step is None or self._step.is_done()

    def __del__(self) -> None:
        if self._step is not None:
            self._step.settle_down()


class _Prepared(NamedTuple):
    """Which side runs the groups of a step.

    work  its `run` fills a batch; False, with nothing done, if another preparation is needed.
    host  what the host runs in it.
    """

    work: Call | _Mixture
    host: HostRun


class _Mixture:
    """Groups that the library and the host share: each group runs on one side, or in segments on both."""

    def __init__(
        self,
        host: HostRun,
        session: LibrarySession,
        layout: Layout,
        call: Call | None,
        segmented: Sequence[SegmentedRun],
        hosted: list[Group],
    ) -> None:
        self._host = host
        self._session = session
        self._layout = layout
        self._generation = session.generation
        self._call = call
        self._segmented = segmented
        self._hosted = hosted

    def run(self, batch: Batch) -> bool:
        fits = layout_of(batch.logits, self._session.vocab_size) == self._layout
        if not fits or self._session.generation != self._generation:
            return False
        if self._call is not None and not self._call.run(batch):
            return False
        for segmented in self._segmented:
            segmented.run(batch)
        if self._hosted:
            self._host.run(batch, self._hosted, "unsupported")
        return True
