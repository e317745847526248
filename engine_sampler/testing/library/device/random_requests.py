"""Random requests on a device: for as long as the user chooses."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from ....backends.library.binding import FLOATS, Device, Library
from ....contract import LOGPROBS_KINDS, Chain
from ...results import CheckResult
from ..bench import Tally, parts_of
from ..observing import LibraryStep, Observed
from ..random_programs import Life, Trying, searched
from ..random_steps import Repertoire
from ..settings import Random
from .calling import CallOptions, attempt
from .room import RoomOnDevice
from .steps import is_run, random_masks
from .survivors import cut_step


def random_device_requests(
    library: Library,
    device: Device,
    name: str,
    seconds: float,
    seed: int = 0,
    trying: Trying = lambda what: None,
) -> CheckResult:
    """Random requests on a device, with calls made in every way."""

    def requests(library: Library, known: Repertoire, number: int, tally: Tally) -> Iterator[str | None]:
        random = np.random.default_rng([11, number])
        with RoomOnDevice(library, device, int(random.choice([3, 40, 300])), capacity=2) as room:
            yield from _DeviceLife(room, known, random, tally).steps()

    return searched(name, "steps", requests, library, seconds, seed, trying, device)


class _DeviceLife(Life):
    _room: RoomOnDevice

    def _together(self, chains: list[Chain]) -> list[Chain]:
        kinds = [self._room.random_kind(chain) for chain in chains]
        return [chain for chain, kind in zip(chains, kinds, strict=True) if kind == kinds[0]]

    def _within_limits(self, chosen: list[tuple[Chain, int]]) -> list[tuple[Chain, int]]:
        room, top_k = self._room, self._room.slots.column("top_k")
        fit = [(chain, slot) for chain, slot in chosen if is_run(room, chain, int(top_k[slot]))]
        answers = [room.answer(parts_of(chain)) for chain, _ in fit]
        most = min((answer.max_rows for answer in answers if answer and answer.max_rows), default=0)
        return fit[: most or None]

    def _change(self) -> None:
        super()._change()
        if self._random.random() < 0.5:
            self._room.notices.tell(self._random)
            super()._change()
        self._room.notices.tell(self._random)

    def _try(self, step: LibraryStep) -> tuple[str | None, Observed | None]:
        random, room = self._random, self._room
        step = self._reporting(step)
        cut = cut_step(room, step) if random.random() < 0.3 else None
        if cut is not None:
            problem = attempt(room, cut, self._tally, self._options(cut))[0]
            if problem is not None or random.random() < 0.5:
                return problem, None
        return attempt(room, step, self._tally, self._options(step))

    def _options(self, step: LibraryStep) -> CallOptions:
        random, room = self._random, self._room
        strides = all(room.promises(p, "ANY_STRIDE", masked=g.masked) for g, p in step.entries)
        options = CallOptions(
            padding=int(random.choice([0, 1, 5, 64])) if strides else 0,
            shift=int(random.choice([0, 1, 3, 16])),
            barely=bool(strides and random.random() < 0.2),
            spare_rows=int(random.choice([0, 0, 1, 9])),
            polls=bool(random.random() < 0.4),
            early=bool(random.random() < 0.3),
            overwrites=bool(random.random() < 0.7),
        )
        if step.bitmask is None or room.library.function("stage_masks") is None or random.random() < 0.4:
            return options
        n = len(step.logits)
        staged, filled = (np.flatnonzero(random.random(n) < share) for share in (0.7, 0.3))
        if not len(staged):
            return options
        before = step.bitmask[:n].copy()
        before[filled] = random_masks(random, n, room.size)[filled]
        number = room.stage(before, staged)
        changed = np.union1d(filled, np.setdiff1d(np.arange(n), staged))
        return replace(options, masks=number, changed=changed.tolist())

    def _reporting(self, step: LibraryStep) -> LibraryStep:
        """The same, in some cases with logprobs, where they are promised."""
        random, room = self._random, self._room
        if random.random() < 0.7 or not can_report(room, step):
            return replace(step, logprobs=None)
        return reporting(step, random)


def can_report(room: RoomOnDevice, step: LibraryStep) -> bool:
    """Whether the library reports the logprobs of all programs of a step."""
    edits = [room.session.edits_program(group, parts, FLOATS) for group, parts in step.entries]
    own = (room.promises(parts, "LOGPROBS", masked=group.masked) for group, parts in step.entries)
    return all(own) and None not in edits


def reporting(step: LibraryStep, random: Random) -> LibraryStep:
    """The same step with logprobs of random kinds, of few tokens."""
    n = len(step.logits)
    kinds = random.integers(0, 1 << len(LOGPROBS_KINDS), n).astype(np.uint8)
    return replace(step, logprobs=(kinds, random.choice([0, 1, 3, 20], n)))
