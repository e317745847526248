"""The requests of one `SlotTable` on a library: a context, and its compiled programs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ...contract import Group, SlotTable
from ...registry import default_registry
from .binding import ALL_PROGRAMS, FLOATS, HOST, Answer, Context, Device, Layout, Library, Refusal
from .functions import SlotFunctions
from .header import number
from .programs import LibraryProgram, Part, fill_for_query, kind_of
from .request_table import RequestTable
from .watchdog import WatchedStep

_NO_ROWS = np.empty(0, np.int64)

Parts = tuple[Part, ...]
Answers = dict[tuple[Parts, Layout, bool, int], Answer | None]
"""By program, layout of the logits, whether there are masks, and vocabulary size."""


def query_promises(
    context: Context, parts: Parts, layout: Layout = FLOATS, masked: bool = False, **facts: int
) -> Answer | None:
    """The library's promises for a program of `parts`; None if it does not run it."""
    if any(kind_of(part) is None for part in parts):
        return None
    program = LibraryProgram(parts, fill_for_query)
    try:
        return context.query(program.pointer, layout=layout, masked=masked, **facts)
    except Refusal as refusal:
        if refusal.code == number("ES_UNSUPPORTED"):
            return None
        raise


class LibrarySession:
    """A library's context for one `SlotTable`, which is not kept alive.

    table       the requests, as the library sees them.
    generation  grows when the library permanently declines a program.
    answers     the library's answers so far; sessions of one library may share them.
    watched     whether a step has a time limit, `timeout` in seconds: it may then be left behind, so that it
                must not be given memory that others use.
    trusted     whether tokens and logprobs are used as they come, as those of the package's own kernels are.

    Methods raise `Refusal` if the library declines for a reason other than ES_UNSUPPORTED.
    """

    def __init__(
        self,
        library: Library,
        slots: SlotTable,
        isa: str | None = None,
        answers: Answers | None = None,
        *,
        timeout: float | None = None,
        trusted: bool = False,
        device: Device = HOST,
    ) -> None:
        self.library = library
        self.trusted = trusted
        self.watched = timeout is not None
        self.context = Context(library, slots.num_threads or 0, isa, device)
        self.table = RequestTable(slots)
        self.functions = SlotFunctions(slots, self.table)
        self.generation = 0
        step = _step(self.context)
        self.step = step if timeout is None else WatchedStep(library, step, timeout)
        """(context, batch) → code: `run`, and `wait` where there is one."""
        self.vocab_size = slots.vocabulary.size
        self._answers = {} if answers is None else answers
        self._refused: set[Parts] = set()
        self._compiled: dict[Parts, tuple[int, LibraryProgram]] = {}

    def query(self, parts: Parts, layout: Layout = FLOATS, masked: bool = False) -> Answer | None:
        """The library's promises for a program of `parts`; None if it does not run it."""
        if parts in self._refused:
            return None
        key = parts, layout, masked, self.vocab_size
        if key not in self._answers:
            self._answers[key] = query_promises(
                self.context, parts, layout, masked, vocab_size=self.vocab_size
            )
        return self._answers[key]

    def compile(self, parts: Parts) -> int | None:
        """The number of the program of `parts`; None if the library does not run it after all."""
        numbered = self._compiled.get(parts)
        if numbered is None:
            program = LibraryProgram(parts, self.functions.fill)
            try:
                numbered = self.context.compile(program.pointer), program
            except Refusal as refusal:
                if refusal.code != number("ES_UNSUPPORTED"):
                    raise
                self.refuse(parts)
                return None
            self._compiled[parts] = numbered
        return numbered[0]

    def edits_program(self, group: Group, parts: Parts, layout: Layout) -> int | None:
        """The number of the program that penalized logprobs of `group` are taken from, 0 if none are needed;
        None if the library does not report logprobs for the program of `parts`."""
        answer = self.query(parts, layout, group.masked)
        if answer is None or not answer.promise("LOGPROBS"):
            return None
        if group.edits is None:
            return 0
        edits = tuple(group.edits.samplers)
        return None if self.query(edits, layout, group.masked) is None else self.compile(edits)

    def unread(self, group: Group, parts: Parts) -> np.ndarray:
        """The rows of `group`, by their numbers in it, in which a part of `parts` has a parameter that is not
        neutral and that is newer than the library, which would not read it: int64."""
        if not self.library.unread:
            return _NO_ROWS
        catalogue = default_registry().catalogue
        known: tuple[Part, ...] = (*catalogue.samplers.values(), *catalogue.selectors.values())
        foreign = {param.name for part in known if part not in parts for param in part.params}
        fields = [name for name in self.library.unread if name not in foreign]
        slots = group.rows.slot_numbers.tolist()
        return np.flatnonzero([self.table.uses(slot, fields) for slot in slots])

    def decisions(self, parts: Parts | None = None) -> tuple[int, int]:
        """How many draws and cuts of the program of `parts`, or of all programs, bounds of weights have
        decided, and how many they have left open."""
        if parts is None:
            return self.context.decisions(ALL_PROGRAMS)
        numbered = self._compiled.get(parts)
        return (0, 0) if numbered is None else self.context.decisions(numbered[0])

    def refuse(self, parts: Parts) -> None:
        """Stop using the library for this program."""
        self._refused.add(parts)
        self.generation += 1


def _step(context: Context) -> Callable[[Any, Any], int]:
    run, wait = map(context.library.function, ("run", "wait"))
    if wait is None and context.library.function("enter_thread") is None:
        return run

    def run_and_wait(pointer: Any, batch: Any) -> int:
        context.enter()
        batch.ticket = 0
        code: int = run(pointer, batch)
        ticket, batch.ticket = batch.ticket, 0
        return code or (wait(pointer, ticket) if wait and ticket else code)

    return run_and_wait
