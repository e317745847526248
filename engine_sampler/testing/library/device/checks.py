"""What is tried of a library on a device, beside random requests: each a series of calls."""

from __future__ import annotations

import contextlib
import itertools
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace

import numpy as np

from ....backends.library.binding import Device, Library, Refusal
from ....params import SamplingParams, build_chain
from ..bench import Settings, Tally, normal_rows
from ..observing import LibraryStep
from .calling import CallOnDevice, CallOptions, attempt, judged_on_device, own_plans, shape_of
from .room import GuardedPlan, RoomOnDevice
from .steps import (
    by_random_kind,
    chains_on,
    chains_to_cut,
    drop,
    plain_steps,
    random_masks,
    step_of,
)
from .survivors import cut_of, cut_step

Tried = Iterator[tuple[str, "str | None"]]
"""What was tried, and what is wrong with it."""

Series = Callable[[Library, Device, Tally], Tried]


def plans(library: Library, device: Device, tally: Tally) -> Tried:
    """Plans side by side, runs of fewer rows than the plan's, plans released and prepared again."""
    if library.function("prepare") is None:
        return
    with RoomOnDevice(library, device, 61) as room:
        chains = by_random_kind(room, chains_on(room))
        random = np.random.default_rng(0)
        for together in chains[:2]:
            steps = [step_of(room, together, n, random) for n in (1, 3, 6, 6)]
            live: list[tuple[LibraryStep, GuardedPlan]] = []
            for step, spare in itertools.product(steps, (0, 5)):
                room.notices.tell()
                shape = shape_of(room, step, CallOptions(spare_rows=spare))
                live.append((step, room.prepare(shape, [p.number for _, p in live] + room.live_plans())))
            for step, plan in [*live, *reversed(live)]:
                yield "plans side by side", attempt(room, step, tally, CallOptions(plan=plan))[0]
            for _, plan in live[::2]:
                room.release(plan)
            for step, plan in live[1::2]:
                yield (
                    "plans after others have been released",
                    attempt(room, step, tally, CallOptions(plan=plan))[0],
                )
            for round_ in range(20):
                shape = shape_of(room, steps[2])
                numbers = [p.number for _, p in live[1::2]] + room.live_plans()
                plan = room.prepare(shape, numbers, newer=round_ % 2 > 0)
                yield "plans prepared again", attempt(room, steps[2], tally, CallOptions(plan=plan))[0]
                few = _fewer(steps[2])
                yield "fewer rows than the plan's", attempt(room, few, tally, CallOptions(plan=plan))[0]
                room.release(plan)
            for _, plan in live[1::2]:
                room.release(plan)


def _fewer(step: LibraryStep) -> LibraryStep:
    """The first group of a step alone."""
    group, parts = step.entries[0]
    order = np.argsort(group.index)
    alone = replace(group, index=np.arange(len(order)), rows=group.rows.take(order))
    return replace(step, entries=[(alone, parts)], logits=step.logits.take(np.sort(group.index).tolist()))


def early_tokens(library: Library, device: Device, tally: Tally) -> Tried:
    """Tokens on the device, read in the order of the stream before the call has ended, and after it."""
    for size in (3, 64, 1009):
        with RoomOnDevice(library, device, size) as room:
            for seed, early in itertools.product(range(3), (True, False)):
                for step in plain_steps(room, 9, seed):
                    if not room.limits(step).on_device:
                        return
                    logits = np.array(step.logits.array)
                    if seed and all(room.promises(p, "ROW_FAULTS") for _, p in step.entries):
                        logits[4 % len(logits), 0], logits[7 % len(logits)] = np.nan, -np.inf
                    step = room.step([group for group, _ in step.entries], logits)
                    what = "read before the end" if early else "read afterwards"
                    yield what, attempt(room, step, tally, CallOptions(early=early))[0]
                    drop(room, step)


def late_inputs(library: Library, device: Device, tally: Tally) -> Tried:
    """Everything that may change once `run` has returned is overwritten then."""
    with RoomOnDevice(library, device, 113) as room:
        for seed, polls in itertools.product(range(4), (False, True)):
            for step in plain_steps(room, 12, seed):
                yield "inputs overwritten", attempt(room, step, tally, CallOptions(polls=polls))[0]
                drop(room, step)


def guards(library: Library, device: Device, tally: Tally) -> Tried:
    """Nothing but the outputs is written, and these are not once a call has ended."""
    for size in (1, 33, 257, 4097):
        with RoomOnDevice(library, device, size) as room:
            strides = all(room.promises(p, "ANY_STRIDE") for s in plain_steps(room, 1) for _, p in s.entries)
            for seed, n in enumerate((1, 2, 7, 16)):
                for step in plain_steps(room, n, seed):
                    options = CallOptions(padding=7 * (seed % 2 and strides), shift=seed, early=seed == 2)
                    yield f"{size} tokens", attempt(room, step, tally, options)[0]
                    drop(room, step)
                chains = [one for one in chains_to_cut(room) if _fits(room, one)]
                if chains:
                    step = step_of(room, chains, n, np.random.default_rng(seed))
                    cut = cut_step(room, step)
                    if cut is not None:
                        yield "survivors", attempt(room, cut, tally, CallOptions(shift=seed))[0]
                    drop(room, step)


def tickets(library: Library, device: Device, tally: Tally) -> Tried:
    """Several calls begun before the first has ended, by `wait` and `poll`, in any order."""
    open_at_once = 4
    random = np.random.default_rng(1)
    with RoomOnDevice(library, device, 89) as room:
        for turn in range(8):
            steps = [step for seed in range(open_at_once) for step in plain_steps(room, 4, 10 * turn + seed)]
            room.notices.tell()
            calls = [
                CallOnDevice(room, step, CallOptions(polls=bool(random.random() < 0.5))) for step in steps
            ]
            plans = own_plans(room, calls)
            for call in calls:
                call.begin()
            for i in random.permutation(len(calls)).tolist():
                observed = calls[i].finish()
                what = f"{len(calls)} calls at once, ended in any order"
                yield what, judged_on_device(room, steps[i], tally, observed, may_refuse=True)[0]
            for plan in plans:
                room.release(plan)
            for step in steps:
                drop(room, step)


def threads(library: Library, device: Device, tally: Tally) -> Tried:
    """Two contexts from two threads at once, and one that goes from thread to thread."""
    problems: list[str] = []

    def turns(room: RoomOnDevice, seed: int) -> None:
        try:
            room.session.context.enter()
            for turn in range(6):
                for step in plain_steps(room, 5, 100 * seed + turn):
                    problem = attempt(room, step, Tally(), CallOptions(polls=turn % 2 > 0))[0]
                    if problem is not None:
                        problems.append(problem)
                    drop(room, step)
        except Exception as error:  # a thread's own would be lost
            problems.append(str(error))

    with RoomOnDevice(library, device, 71) as first, RoomOnDevice(library, device, 72) as second:
        for step in reversed(list(plain_steps(second, 5))):  # other numbers for the same programs
            for _, parts in reversed(step.entries):
                second.session.compile(parts)
        for what, rooms in (
            ("two threads at once", (first, second)),
            ("from thread to thread", (first,) * 1),
        ):
            workers = [threading.Thread(target=turns, args=(room, i)) for i, room in enumerate(rooms)]
            for worker in workers:
                worker.start()
            for worker in workers:
                worker.join()
            yield what, next(iter(problems), None)
        for step in plain_steps(first, 5, 3):
            yield "back in the first thread", attempt(first, step, tally)[0]


def staged_masks(library: Library, device: Device, tally: Tally) -> Tried:
    """Masks staged before a step, some rows of which change afterwards, staged again, or not used."""
    if library.function("stage_masks") is None:
        return
    random = np.random.default_rng(5)
    for size in (5, 64, 333):
        with RoomOnDevice(library, device, size) as room:
            for chains in by_random_kind(room, chains_on(room, masked=True)):
                for turn in range(12):
                    n = int(random.integers(1, 9))
                    masks = random_masks(random, n, size, float(random.choice([0.03, 0.5, 0.9])))
                    step = step_of(room, chains, n, random, bitmask=masks)
                    n = len(step.logits)
                    yield _staged(room, step, turn, random, tally)
                    drop(room, step)


def _staged(
    room: RoomOnDevice, step: LibraryStep, turn: int, random: np.random.Generator, tally: Tally
) -> tuple[str, str | None]:
    assert step.bitmask is not None, "the step was made with masks"
    n, masks = len(step.logits), step.bitmask[: len(step.logits)]
    staged = np.sort(random.permutation(n)[: int(random.integers(1, n + 1))])
    if turn % 4 == 1:
        room.stage(random_masks(random, n, room.size), np.arange(n))
    before = masks.copy()
    filled = np.flatnonzero(random.random(n) < 0.3)
    before[filled] = random_masks(random, n, room.size, 0.2)[filled]
    number_ = room.stage(before, staged)
    changed = np.union1d(filled, np.setdiff1d(np.arange(n), staged))
    if turn % 4 == 2:
        return "staged masks that are not used", attempt(room, step, tally)[0]
    options = CallOptions(masks=number_, changed=changed.tolist())
    if turn % 4 != 3:
        return ("masks staged", "staged twice")[turn % 4], attempt(room, step, tally, options)[0]
    room.notices.tell()
    call = CallOnDevice(room, step, options)
    call.begin()
    for _ in range(6):
        with contextlib.suppress(Refusal):  # too many at once
            room.stage(random_masks(random, n, room.size), np.arange(n))
    return "staged while a call is open", judged_on_device(room, step, tally, call.finish())[0]


def survivors(library: Library, device: Device, tally: Tally) -> Tried:
    """What the first parts of chains leave: ties, −∞, rows with more than there is room for, faulty rows."""
    for size in (2, 40, 1500, 3000):
        with RoomOnDevice(library, device, size) as room:
            for seed in range(3):
                random = np.random.default_rng([seed, size])
                chains = [one for one in chains_to_cut(room) if _fits(room, one)]
                for what, logits in _rows_to_cut(random, size) if chains else ():
                    step = cut_step(room, step_of(room, chains, 12, random, logits=logits))
                    if step is not None:
                        yield what, attempt(room, step, tally)[0]
                        drop(room, step)


def _fits(room: RoomOnDevice, given: Settings) -> bool:
    """Whether the library takes this top_k in a cut."""
    answer = room.answer(cut_of(room, build_chain(SamplingParams(**given))) or ())
    return answer is not None and (not answer.max_top_k or 0 < given.get("top_k", 0) <= answer.max_top_k)


def _rows_to_cut(random: np.random.Generator, size: int) -> Iterator[tuple[str, np.ndarray]]:
    normal = normal_rows(random, 12, size)
    yield "normal rows", normal
    yield "few values", np.round(normal)
    tied = np.zeros((12, size), np.float32)
    tied[::2, : size // 2] = 1
    yield "more than there is room for", tied
    removed = normal.copy()
    removed[random.random((12, size)) < 0.6] = -np.inf
    removed[:, 0] = 0
    removed[3, 0], removed[5], removed[7, 0] = np.nan, -np.inf, np.inf
    yield "removed tokens and faulty rows", removed


def rows_read(library: Library, device: Device, tally: Tally) -> Tried:
    """Rows of logits for the host, in any order and of every type."""
    if library.function("read_rows") is None:
        return
    random = np.random.default_rng(8)
    with RoomOnDevice(library, device, 77) as room:
        for dtype, code in ((np.float32, 2), (np.float16, 2), (np.uint16, 4)):
            values = normal_rows(random, 7, 77).astype(dtype)
            problem = room.read_rows(values, code, np.array([5, 0, 3, 6]))
            tally.calls, tally.rows = tally.calls + 1, tally.rows + 4
            yield f"{np.dtype(dtype).itemsize * 8} bits", problem


SERIES: dict[str, Series] = {
    "plans": plans,
    "guards": guards,
    "early tokens": early_tokens,
    "late inputs": late_inputs,
    "tickets": tickets,
    "threads": threads,
    "staged masks": staged_masks,
    "survivors": survivors,
    "rows for the host": rows_read,
}
"""By name."""
