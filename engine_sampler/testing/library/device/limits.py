"""The limits that a library answers with: plausible, always the same, and kept by the library itself."""

from __future__ import annotations

import numpy as np

from ....backends.library.binding import Answer, Device, Library
from ....backends.library.header import contract, number
from ....contract import Sampler, Selector
from ....params import SamplingParams, build_chain
from ...trials import built_in_parts
from ..bench import CHAINS, Tally, normal_rows, parts_of
from .calling import CallOptions, attempt
from .checks import Tried
from .memory import GUARD
from .room import RoomOnDevice
from .steps import FILTERS, by_random_kind, chains_on, drop, plain_steps, step_of

_MOST_TRIED = 512
"""Rows of a call, if there is no limit."""


def limits(library: Library, device: Device, tally: Tally) -> Tried:
    """Answers of two contexts, and calls at their limits: alignment, rows, top_k."""
    with RoomOnDevice(library, device, 211) as room, RoomOnDevice(library, device, 211) as other:
        yield from _answers(room, other)
    with RoomOnDevice(library, device, 211) as room:
        for step in plain_steps(room, 5):
            for shift in (0, 1):
                options = CallOptions(barely=True, shift=shift)
                if all(room.promises(parts, "ANY_STRIDE") for _, parts in step.entries):
                    yield "rows aligned as they must be", attempt(room, step, tally, options)[0]
        yield from _most_rows(room, tally)
        yield from _greatest_top_k(room, tally)


def _answers(room: RoomOnDevice, other: RoomOnDevice) -> Tried:
    programs: list[tuple[Sampler | Selector, ...]] = [(part,) for part in built_in_parts()]
    for given in [*CHAINS, *FILTERS]:
        chain = build_chain(SamplingParams(**given))
        programs += [parts_of(chain), chain.samplers]
    for parts in programs:
        answer = room.answer(parts)
        name = " → ".join(part.name for part in parts) or "a program without steps"
        if answer is None:
            continue
        problem = _implausible(
            answer, selects=any(isinstance(part, Selector) for part in parts), n=len(parts)
        )
        if problem is None and answer != other.answer(parts):
            problem = "another answer in another context"
        yield "answers", None if problem is None else f"{name}: {problem}"


def _implausible(answer: Answer, *, selects: bool, n: int) -> str | None:
    least = {
        name: getattr(answer, name)
        for name in ("max_rows", "max_top_k", "max_survivors", "alignment", "random_width")
    }
    for name, value in least.items():
        if value < 0:
            return f"{name} is {value}; allowed are 0 and more"
    if answer.alignment & (answer.alignment - 1) or answer.alignment > GUARD:
        return f"alignment is {answer.alignment}; allowed are 0 and powers of two up to {GUARD}"
    for name, kind in (("random", "es_random"), ("ties", "es_ties")):
        if getattr(answer, name) not in contract().typeof(kind).elements:
            return f"{name} is {getattr(answer, name)}, which the header does not know"
    if answer.promise("EXACT") and answer.ties == number("ES_TIES_ANY"):
        return "exact, with any of several equal logits"
    if answer.promise("SURVIVORS") and not selects and n and not answer.max_survivors:
        return "it promises survivors, and at most none"
    return None


def _most_rows(room: RoomOnDevice, tally: Tally) -> Tried:
    random = np.random.default_rng(0)
    for together in by_random_kind(room, chains_on(room)):
        for given in together:
            answer = room.answer(parts_of(build_chain(SamplingParams(**given))))
            most = answer.max_rows if answer and answer.max_rows else _MOST_TRIED
            for n in sorted({most, max(1, most - 1)} if most <= 4 * _MOST_TRIED else ()):
                step = step_of(room, [given], n, random)
                what = "as many rows as there may be" if n == most else "one row less"
                yield what, attempt(room, step, tally)[0]
                drop(room, step)
            break


def _greatest_top_k(room: RoomOnDevice, tally: Tally) -> Tried:
    random = np.random.default_rng(1)
    chain = build_chain(SamplingParams(top_k=2))
    answer = room.answer(parts_of(chain))
    if answer is None:
        return
    most = answer.max_top_k or room.size
    for top_k in sorted({1, max(1, most // 2), max(1, most - 1), most}):
        step = step_of(room, [{"top_k": top_k}], 4, random, logits=normal_rows(random, 4, room.size, 0.3))
        yield "the greatest top_k", attempt(room, step, tally)[0]
        drop(room, step)
