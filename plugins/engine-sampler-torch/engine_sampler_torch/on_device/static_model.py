"""What the kernels should take on a card, predicted from their machine code: no card is needed, and none has
confirmed it.

A launch takes its edge and the longest of these:

- the busiest pipe of the multiprocessors: instructions · programs · warps · 32 lanes / (lanes of the pipe ·
  multiprocessors · clock);
- the bytes it reads and writes / the bandwidth;
- one program from its first to its last instruction, as often as programs follow one another on a
  multiprocessor: `CYCLES_AN_INSTRUCTION` for each instruction of a warp, `CYCLES_A_BARRIER` for each barrier,
  `CYCLES_A_LOAD` for each group of loads from memory that wait for one another.

Instructions inside a loop count as often as `LaunchWork.rounds` says. Branches that are not taken count too,
so that a kernel which mostly finds nothing to do must be given by `LaunchWork.share`. Launches follow one
another.
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
CYCLES_AN_INSTRUCTION, CYCLES_A_BARRIER, CYCLES_A_LOAD = 4, 30, 700


LANES = {
    "alu": 64, "fma": 128, "fp64": 64, "conversion": 16, "exchange": 32, "global": 32,
    "uniform": 64, "control": 64, "constant": 64,
}  # fmt: skip
"""Of one multiprocessor of an H200, by `machine_code.PIPES`."""


@dataclass(frozen=True)
class Card:
    """multiprocessors, clock in MHz, gigabytes a second, microseconds an edge (from the end of a launch to
    the start of the next in a graph), warps that a multiprocessor holds, and the lanes of its pipes."""

    multiprocessors: int = 132
    megahertz: float = 1755
    gigabytes: float = 4300
    edge: float = 1.0
    warps: int = 64
    lanes: Mapping[str, int] = field(default_factory=lambda: LANES)


H200 = Card()


@dataclass(frozen=True)
class LaunchWork:
    """What one launch finds to do.

    share   of the programs, from 0 to 1, that do not end at once.
    rounds  how often a loop of such a program runs.
    bytes   of logits that it reads.
    """

    share: float = 1.0
    rounds: float = 1.0
    bytes: float = 0.0


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


REGISTERS, MOST_PROGRAMS = 65_536, 32
"""What a multiprocessor has, and how many programs it holds at most."""
CYCLES_TO_FIND_NOTHING = 1600
"""Of a program that reads its row's state and ends."""


class _Recorder:
    """Notes what is launched, in the place of `Replay`, and launches nothing."""

    def __init__(self) -> None:
        self.noted: list[tuple[Any, tuple[int, ...], tuple[Any, ...], dict[str, Any], int]] = []

    def launch(self, kernel: Any, grid: tuple[int, ...], *given: Any, warps: int, **constants: Any) -> None:
        self.noted.append((kernel, grid, given, constants, warps))

    def settle(self, *given: Any) -> None:
        """All is launched."""


def predict(case: TimedCase, card: Card = H200, architecture: int = ARCHITECTURE) -> Prediction:
    """What a step of `case` launches and takes. Compiles its kernels for `architecture` (90: H100, H200),
    some seconds each unless Triton's cache has them. Not where Triton interprets."""
    recorder = _Recorder()
    logits = torch.empty(case.rows, VOCAB_SIZE, dtype=case.dtype, device="meta")
    start_step(case, logits, recorder)
    names = [noted[0].fn.__name__ for noted in recorder.noted]
    return Prediction(
        tuple(
            _launch(case, card, architecture, "collect" in names[:i], *noted)
            for i, noted in enumerate(recorder.noted)
        )
    )


def _launch(
    case: TimedCase,
    card: Card,
    architecture: int,
    collected: bool,
    kernel: Any,
    grid: tuple[int, ...],
    given: tuple[Any, ...],
    constants: dict[str, Any],
    warps: int,
) -> Launch:
    spec = specification(kernel, given, constants, warps)
    code, resources = _code(dumps(spec, sort_keys=True), architecture)
    work = work_of(case, spec["kernel"], grid, constants, collected=collected)
    programs = math.prod(grid)
    pipes, barriers, loads = _counted(code, work.rounds)
    launch = Launch(spec["kernel"], programs, warps, resources, pipes, barriers, loads, work)
    return replace(launch, microseconds=card.edge + _cycles(launch, card) / card.megahertz)


def _cycles(launch: Launch, card: Card) -> float:
    work, warps = launch.work, launch.warps
    running = launch.programs * work.share
    if not running:
        return CYCLES_TO_FIND_NOTHING
    by_lanes = max(32 * count / card.lanes[pipe] for pipe, count in launch.pipes.items())
    by_pipes = by_lanes * warps * running / card.multiprocessors
    by_bytes = work.bytes / card.gigabytes * card.megahertz / 1e3
    registers = launch.resources.registers * 32 * warps
    at_once = max(1, min(card.warps // warps, REGISTERS // registers, MOST_PROGRAMS)) * card.multiprocessors
    one = CYCLES_AN_INSTRUCTION * sum(launch.pipes.values()) + CYCLES_A_BARRIER * launch.barriers
    one += CYCLES_A_LOAD * launch.loads
    return max(by_pipes, by_bytes, one * math.ceil(running / at_once))


def _counted(code: list[Instruction], rounds: float) -> tuple[Counter[str], float, float]:
    """(instructions by pipe, barriers, groups of loads) of a warp whose loops run `rounds` times."""
    loops = loops_in(code)
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


LOADS_TOGETHER = 24
"""Loads with fewer instructions than this between them are waited for together."""


@cache
def _code(text: str, architecture: int) -> tuple[list[Instruction], Resources]:
    kernel = compiled(loads(text), architecture, aligned=True)
    return instructions_of(disassembled(kernel.asm["cubin"])), resources_of(kernel)


FLAT = ("above", "interval", "spread", "bin_of", "collect", "close")


def work_of(
    case: TimedCase,
    kernel: str,
    grid: tuple[int, ...],
    constants: Mapping[str, Any],
    *,
    collected: bool = False,
) -> LaunchWork:
    """What a launch finds to do in rows of `case`: candidates are a seventh more than asked for, each in a
    group of its own; every tile weighs something; a row that is not flat leaves nothing to `flat`, and
    none leaves anything to `resolve`. `collected`: candidates are the tokens of one of `flat`'s bins."""
    every = float(case.rows * VOCAB_SIZE * case.dtype.itemsize)
    candidates = CANDIDATES * constants.get("CAPACITY", 0) / 2
    of_flat = collected or kernel in FLAT or constants.get("BOUNDED", False)
    if kernel == "resolve" or (of_flat and not case.flat):
        return LaunchWork(share=0)
    if kernel == "rank":
        count = IN_A_BIN if collected else candidates
        programs, rounds = (math.ceil(count / constants[name]) for name in ("LANES", "STEP"))
        return LaunchWork(share=programs / grid[1], rounds=rounds)
    if kernel == "gather":
        return _gathered(case, grid, constants, candidates, every)
    if kernel in ("scan", "weigh", "spread", "collect"):
        return LaunchWork(bytes=every)
    if kernel == "above":
        return LaunchWork(rounds=constants["TILE"] / constants["STEP"], bytes=every)
    return LaunchWork()


CANDIDATES, IN_A_BIN = 8 / 7, 128


def _gathered(
    case: TimedCase, grid: tuple[int, ...], constants: Mapping[str, Any], candidates: float, every: float
) -> LaunchWork:
    """Each program takes STEP groups; with WEIGHED, every tile has a program beside them, and is read."""
    tiles = math.ceil(VOCAB_SIZE / constants["TILE"]) if constants["WEIGHED"] else 0
    programs = grid[1] - tiles
    wanted = math.ceil(candidates / constants["STEP"])
    size = case.rows * candidates * constants["GROUP"] * case.dtype.itemsize
    share = (min(wanted, programs) + tiles) / grid[1]
    return LaunchWork(share, 1 if tiles else math.ceil(wanted / programs), size + (every if tiles else 0))


def table(cases: Iterable[TimedCase], card: Card = H200) -> list[dict[str, Any]]:
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
