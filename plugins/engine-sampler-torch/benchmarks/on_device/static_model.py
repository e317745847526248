"""What the kernels should take on a card, predicted from their machine code: no card is needed.

A launch takes its edge, `START`, one program from its first to its last instruction, and the longer of these:

- the busiest pipe of the multiprocessors, or their schedulers (four instructions a cycle), as far as they
  can be filled (`OF_LANES`, `OF_SCHEDULERS`): instructions · programs · warps · 32 lanes / (lanes of the pipe
  · multiprocessors · clock);
- the bytes it reads / the speed of a copy, and twice that in the first `RAMP` µs. Of logits that were read
  before, `AGAIN` come from memory, the rest from the L2 cache.

One program: `CYCLES_AN_INSTRUCTION` for each instruction of a warp, `CYCLES_A_BARRIER` for each barrier,
`CYCLES_A_LOAD` for each group of loads from memory that wait for one another. Instructions inside a loop
count as often as `LaunchWork.rounds` says; a loop that holds others is mostly a branch behind the end of the
kernel that jumps back, and counts once, or not at all if `rounds` is 0. Other branches that are not taken
count too, so that a kernel which mostly finds nothing to do must be given by `LaunchWork.share`, and modules
whose code is behind such a branch by `LaunchWork.idle`. Launches follow one another.

These constants were fitted to 80 launches of seventeen cases on an H100 (80 GB, SXM; copies at 2,423 GB/s) on
2026-11-27, seen by CUPTI, with torch 2.11 and Triton 3.6: the cases come out between 8 % below and 6 % above
what was seen, 64 of the launches within 15 %, 77 within 25 %. Threads that meet in atomic operations, or at
one place of shared memory, take longer than is predicted.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from json import dumps, loads
from typing import Any

import torch

from .machine_code import (
    Instruction,
    Resources,
    compiled,
    disassembled,
    instructions_of,
    loops_in,
    pipe_of,
    resources_of,
    specification,
)
from .markdown import markdown
from .timings import CASES, VOCAB_SIZE, TimedCase, start_step

ARCHITECTURE = 90
CYCLES_AN_INSTRUCTION, CYCLES_A_BARRIER, CYCLES_A_LOAD = 3.1, 42, 590
START, RAMP = 1.03, 2.2
"""µs: of a launch whose programs do nothing, and until memory has reached its speed."""
OF_LANES, OF_SCHEDULERS, AGAIN = 0.94, 0.86, 0.7
CYCLES_OF_AN_IDLE_WARP = 27
"""Of a program that reads its row's state and ends: of a multiprocessor, for each warp."""
SCHEDULERS = 4


LANES = {
    "alu": 64, "fma": 128, "fp64": 64, "conversion": 16, "exchange": 32, "global": 32,
    "uniform": 64, "control": 64, "constant": 64,
}  # fmt: skip
"""Of one multiprocessor of an H100 or H200, by `machine_code.PIPES`."""


@dataclass(frozen=True)
class Card:
    """multiprocessors, clock in MHz, gigabytes that a copy reads and writes a second, microseconds an edge
    (from the end of a launch to the start of the next in a graph), and the lanes of its pipes."""

    multiprocessors: int = 132
    megahertz: float = 1980
    gigabytes: float = 2423
    edge: float = 0.48
    lanes: Mapping[str, int] = field(default_factory=lambda: LANES)


H100 = Card()
"""As measured."""
H200 = Card(gigabytes=2700)
"""Of the same launches; nothing was fitted to it."""


@dataclass(frozen=True)
class LaunchWork:
    """What one launch finds to do.

    share   of the programs, from 0 to 1, that do not end at once.
    rounds  how often a loop of such a program runs; 0: it takes none of its branches.
    bytes   of logits that it reads; `again`: of which a launch before has read all.
    idle    modules whose functions it does not reach: their instructions do not count.
    """

    share: float = 1.0
    rounds: float = 1.0
    bytes: float = 0.0
    again: bool = False
    idle: frozenset[str] = frozenset()


@dataclass(frozen=True)
class Launch:
    """kernel        its name; `programs` and `warps` as launched.
    resources     of a thread.
    pipes         instructions of one warp, by pipe; `barriers` among them, and `loads` that wait for one
    another.
    work          what it finds to do.
    microseconds  predicted, edge included.
    """

    kernel: str
    programs: int
    warps: int
    resources: Resources
    pipes: Mapping[str, float]
    barriers: float
    loads: float
    work: LaunchWork
    microseconds: float = 0.0


@dataclass(frozen=True)
class Prediction:
    """launches  of one step, in order."""

    launches: tuple[Launch, ...]

    @property
    def microseconds(self) -> float:
        """Of all launches, one after the other."""
        return sum(launch.microseconds for launch in self.launches)

    @property
    def bytes(self) -> float:
        """Of logits that all of them read."""
        return sum(launch.work.bytes for launch in self.launches)


class _Recorder:
    """Notes what is launched, in the place of `Replay`, and launches nothing."""

    def __init__(self) -> None:
        self.noted: list[tuple[Any, tuple[int, ...], tuple[Any, ...], dict[str, Any], int]] = []

    def launch(self, kernel: Any, grid: tuple[int, ...], *given: Any, warps: int, **constants: Any) -> None:
        self.noted.append((kernel, grid, given, constants, warps))

    def settle(self, *given: Any) -> None:
        """All is launched."""


def predict(case: TimedCase, card: Card = H100, architecture: int = ARCHITECTURE) -> Prediction:
    """What a step of `case` launches and takes. Compiles its kernels for `architecture` (90: H100, H200),
    some seconds each unless Triton's cache has them. Not where Triton interprets."""
    recorder = _Recorder()
    logits = torch.empty(case.rows, VOCAB_SIZE, dtype=case.dtype, device="meta")
    start_step(case, logits, recorder)
    return Prediction(tuple(_launch(case, card, architecture, *noted) for noted in recorder.noted))


def _launch(
    case: TimedCase,
    card: Card,
    architecture: int,
    kernel: Any,
    grid: tuple[int, ...],
    given: tuple[Any, ...],
    constants: dict[str, Any],
    warps: int,
) -> Launch:
    spec = specification(kernel, given, constants, warps)
    code, resources = _code(dumps(spec, sort_keys=True), architecture)
    work = work_of(case, spec["kernel"], grid, constants)
    programs = math.prod(grid)
    reached = [one for one in code if not one.modules & work.idle]
    pipes, barriers, loads = _counted(reached, work.rounds)
    launch = Launch(spec["kernel"], programs, warps, resources, pipes, barriers, loads, work)
    return replace(launch, microseconds=card.edge + START + _working(launch, card))


def _working(launch: Launch, card: Card) -> float:
    """µs from the first program's start to the last one's end."""
    work, warps = launch.work, launch.warps
    running = launch.programs * work.share
    if not running:
        idle = launch.programs * warps / card.multiprocessors
        return CYCLES_OF_AN_IDLE_WARP * idle / card.megahertz
    by_lanes = max(32 * count / card.lanes[pipe] for pipe, count in launch.pipes.items()) / OF_LANES
    by_issue = sum(launch.pipes.values()) / SCHEDULERS / OF_SCHEDULERS
    computing = max(by_lanes, by_issue) * warps * running / card.multiprocessors / card.megahertz
    reading = work.bytes / card.gigabytes / 1e3 * (AGAIN if work.again else 1)
    one = CYCLES_AN_INSTRUCTION * sum(launch.pipes.values()) + CYCLES_A_BARRIER * launch.barriers
    one += CYCLES_A_LOAD * launch.loads
    return one / card.megahertz + max(computing, reading + min(reading, RAMP))


def _counted(code: list[Instruction], rounds: float) -> tuple[Counter[str], float, float]:
    """(instructions by pipe, barriers, groups of loads) of a warp whose loops run `rounds` times."""
    loops = loops_in(code)
    if rounds:
        loops = [loop for loop in loops if not any(_holds(loop, other) for other in loops)]
    pipes: Counter[str] = Counter()
    barriers = loads = 0.0
    last_load = -100
    for i, instruction in enumerate(code):
        inside = any(first <= instruction.address <= last for first, last in loops)
        times: Any = rounds if inside else 1
        pipes[pipe_of(instruction.name)] += times
        barriers += times if instruction.name == "BAR" else 0
        if instruction.name in ("LDG", "ATOMG", "ATOM"):
            loads += times if i - last_load > LOADS_TOGETHER else 0
            last_load = i
    return pipes, barriers, loads


def _holds(loop: tuple[int, int], other: tuple[int, int]) -> bool:
    return loop != other and loop[0] <= other[0] and other[1] <= loop[1]


LOADS_TOGETHER = 24
"""Loads with fewer instructions than this between them are waited for together."""


@cache
def _code(text: str, architecture: int) -> tuple[list[Instruction], Resources]:
    kernel = compiled(loads(text), architecture, aligned=True)
    return instructions_of(disassembled(kernel.asm["cubin"], lines=True)), resources_of(kernel)


FLAT = ("spread", "close")


def work_of(case: TimedCase, kernel: str, grid: tuple[int, ...], constants: Mapping[str, Any]) -> LaunchWork:
    """What a launch finds to do in rows of `case`: candidates are a seventh more than asked for, each in a
    group of its own; the estimates of the scan suffice for rows that are not flat, which leave nothing to
    `flat`, `weigh` and `draw`, and for a draw from most of the others; and none leaves anything to a second
    look of `close`, to `resolve`, or to the search of whole rows inside
    `sample_within_top_k`."""
    every = float(case.rows * VOCAB_SIZE * case.dtype.itemsize)
    wanted = min(case.settings.get("top_k", math.inf), constants.get("CAPACITY", 0) / 2)
    cuts = any(name != "temperature" for name in case.settings)
    group = constants.get("GROUP", 0) * case.dtype.itemsize
    gathered = CANDIDATES * wanted * case.rows * group if cuts else 0.0
    if kernel == "resolve" or (kernel in (*FLAT, "weigh", "draw") and not case.flat):
        return LaunchWork(share=0)
    if kernel == "draw" and not cuts:
        return LaunchWork(share=OPEN)
    if kernel in ("weigh", "spread"):
        open_rows = 1 if cuts else OPEN
        chunks = VOCAB_SIZE / constants.get("CHUNK", constants["TILE"])
        return LaunchWork(open_rows, chunks / grid[1], every * open_rows, again=True)
    if kernel == "sort_candidates":
        programs, rounds = (math.ceil(CANDIDATES * wanted / constants[name]) for name in ("LANES", "STEP"))
        return LaunchWork(share=programs / grid[1], rounds=rounds)
    if kernel == "find_candidates":
        return LaunchWork(bytes=gathered, again=True)
    if kernel == "sample_within_top_k":
        return LaunchWork(bytes=gathered, again=True, idle=frozenset({"whole"}))
    if kernel == "gather":
        share = wanted * 1.05 / constants["STEP"] / grid[1]
        return LaunchWork(min(share, 1), max(share, 1), gathered, again=True)
    if kernel == "chain" and constants["WEIGHED"] and not constants["ESTIMATED"] and not case.flat:
        return LaunchWork(share=0)
    if kernel == "chain" and constants["FLAT"]:
        return LaunchWork(rounds=SAMPLED, bytes=every / 16, again=True) if case.flat else LaunchWork(rounds=0)
    if kernel == "close":
        rounds = math.ceil(IN_A_LIST / constants["AT_ONCE"])
        return LaunchWork(share=0) if constants["AGAIN"] else LaunchWork(rounds=rounds)
    if kernel == "scan":
        return LaunchWork(rounds=case.edited / grid[1] / UNROLLED if case.edited else 1, bytes=every)
    return LaunchWork()


CANDIDATES, IN_A_LIST, SAMPLED = 8 / 7, 4096, 4
"""Candidates for each that is wanted, tokens that `flat` lists (up to 4,000 in 120 rows with a standard
deviation of 2.2), and how many parts its sample is read in."""
OPEN = 14 / 64
"""Of the flat rows, those that the estimates leave open, as measured with a standard deviation of 2.2."""
UNROLLED = 4
"""Edits that one round of the scan's loop lays over a tile."""


def table(cases: Iterable[TimedCase], card: Card = H100) -> list[dict[str, Any]]:
    """One dict for each case: what is predicted, and the bar."""
    return [_line(case, predict(case, card)) for case in cases]


def _line(case: TimedCase, prediction: Prediction) -> dict[str, Any]:
    return {
        "case": case.name,
        "dtype": str(case.dtype).removeprefix("torch."),
        "launches": len(prediction.launches),
        "reads of the row": round(prediction.bytes / (case.rows * VOCAB_SIZE * case.dtype.itemsize), 1),
        "predicted, µs": round(prediction.microseconds, 1),
        "bar, µs": "" if case.bar is None else case.bar,
    }


def main() -> None:
    """Print the table, and the launches of its first case, without a card."""
    lines = table(CASES)
    print("\n".join(markdown(lines)))
    for launch in predict(CASES[0]).launches:
        pipes = ", ".join(f"{name} {count:.0f}" for name, count in sorted(launch.pipes.items()))
        print(
            f"{launch.kernel}: {launch.programs} programs of {launch.warps} warps, "
            f"{launch.microseconds:.1f} µs, "
            f"{launch.resources.registers} registers, {launch.resources.stack} bytes of stack, "
            f"{launch.barriers:.0f} barriers, {pipes}"
        )


if __name__ == "__main__":
    main()
