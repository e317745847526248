"""All checks of a library, in order, here or in a process of their own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Collection, Iterator
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

from ...backends.library import LibraryError
from ...backends.library.binding import HOST, Context, Device, Library, Refusal
from ...backends.library.device.names import name_of
from ...backends.library.header import described, number
from ..results import FAILED, NOT_PROMISED, PASSED, CheckResult
from ..trials import trials
from . import table
from .bench import Tally, problem_of
from .contexts import contexts
from .device import checks_on, served
from .drawing import draws
from .leaks import leaks
from .memory import SealedMemory, can_seal
from .passes import passes
from .promises import PROMISES, promise, tokens
from .random_programs import program_steps, random_boundaries, random_programs, random_requests
from .random_steps import Repertoire
from .situations import SITUATIONS, Situation, Tried, histories, masks, rows
from .surroundings import Surroundings

Check = Callable[[], Iterator[CheckResult]]
Announce = Callable[..., None]

OPTIONAL = (
    *(
        "wait",
        "poll",
        "prepare",
        "release",
        "allocate",
        "deallocate",
        "enter_thread",
        "update",
        "stage_masks",
    ),
    *("read_rows", "target", "maxima", "log_sums", "logprobs", "copy", "decisions"),
)
"""Functions that a library may leave out."""

MEMORY = "memory"
"""The name of the check on pages that cannot be written."""

LONGEST = 300.0
"""Seconds that a check may take, apart from the time that the user chooses, before it counts as hanging."""

LONGEST_START = 60.0
"""Seconds that the other process may take before its first check, if that is more."""


def check_library(
    path: str | Path,
    seconds: float = 0.0,
    seed: int = 0,
    only: Collection[str] = (),
    announce: Announce = lambda *begun: None,
) -> list[CheckResult]:
    """All checks of the library at `path`, in order; those named in `only` alone if any are.

    seconds, seed  for how long random programs and requests are tried (0: a few seconds of processor time),
                   and from which seed on.
    announce       called with the name of every check before it begins, and with what it tries.

    A library that writes where it must not may end the process: `check_apart` runs the checks in another one,
    and only there those on memory that ends it.
    """
    return list(checks(os.path.abspath(path), seconds, seed, only, announce))


def check_apart(
    path: str | Path, seconds: float = 0.0, seed: int = 0, only: Collection[str] = ()
) -> Iterator[CheckResult]:
    """The same in a process of its own, check by check; a crash is one more failure, and so is a check that
    does not end. A crash behind a check that has failed belongs to that failure."""
    command = [sys.executable, "-m", "engine_sampler.testing.library", os.path.abspath(path)]
    command += [str(seconds), str(seed), *only]
    begun, trying, late, failed = "loads", "", False, ""
    with subprocess.Popen(command, stdout=subprocess.PIPE, encoding="utf-8") as process:
        assert process.stdout is not None, "stdout is a pipe"

        def end() -> None:
            nonlocal late
            late = True
            process.kill()

        timer = threading.Timer(max(LONGEST, LONGEST_START) + seconds, end)
        timer.start()
        for line in process.stdout:
            message = json.loads(line)
            timer.cancel()
            timer = threading.Timer(LONGEST + seconds, end)
            timer.start()
            if "begins" in message:
                begun, trying = message["begins"], message["trying"]
            else:
                result = CheckResult(**message)
                failed = result.name if result.outcome == FAILED else ""
                yield result
        timer.cancel()
    if process.returncode and failed != begun:
        ended = process.returncode
        how = signal.Signals(-ended).name if ended < 0 else f"exit status {ended}"
        reason = "it does not end" if late else f"the process ended with {how}"
        yield CheckResult(begun, FAILED, f"{trying}: {reason}" if trying else reason)


def main(arguments: list[str]) -> None:
    """What the other process does: a line of JSON for every check, and for the beginning of each. What the
    library prints goes to standard error, not among them."""
    lines = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)

    def announce(name: str, what: str = "") -> None:
        print(json.dumps({"begins": name, "trying": what}), file=lines, flush=True)

    path, seconds, seed, *only = arguments
    for check in checks(path, float(seconds), int(seed), only, announce, apart=True):
        print(json.dumps(asdict(check)), file=lines, flush=True)


def checks(
    path: str,
    seconds: float,
    seed: int,
    only: Collection[str],
    announce: Announce,
    *,
    apart: bool = False,
) -> Iterator[CheckResult]:
    """The checks, one after another; `apart`: also those that may end the process."""
    try:
        library = Library(path)
        context, devices = _opened(library)
        promises = context.query()
    except (LibraryError, Refusal) as error:
        yield CheckResult("loads", FAILED, str(error))
        return
    if not only:
        yield CheckResult("loads", PASSED, f"{library.name} {library.version} {context.target()}".strip())
        yield CheckResult(
            "ABI", PASSED, f"{described(library.table.abi)}, the host has {described(number('ES_ABI'))}"
        )
        offered = [name for name in OPTIONAL if library.function(name) is not None]
        optional = ", ".join(offered) or "none"
        yield CheckResult("functions", PASSED, f"all required ones; optional: {optional}")
        served_kinds = ", ".join(map(_name_of, ([HOST] if context.device == HOST else []) + devices))
        yield CheckResult("devices", PASSED, served_kinds)
    tried = _of_the_table(library, context)
    share = seconds / max(1, len(devices) + (context.device == HOST))
    if context.device == HOST:
        tried |= _by_name(library, promises.promise("EXACT"), share, seed, only, announce)
    if context.device == HOST and apart and can_seal():
        tried[MEMORY] = lambda: iter([_memory(library)])
    for device in devices:
        tried |= checks_on(library, device, share, seed, lambda name: partial(announce, name))
    unknown = set(only) - tried.keys()
    if unknown:
        allowed = ", ".join(tried)
        yield CheckResult(min(unknown), FAILED, f"there is no such check; there are {allowed}")
    for name, check in tried.items():
        if not only or name in only:
            announce(name)
            yield from _guarded(name, check)


def _opened(library: Library) -> tuple[Context, list[Device]]:
    """A context in the host's memory, or else on the first device that the library serves; and all devices
    that it does. Raises `LibraryError` or `Refusal`."""
    devices = served(library)
    try:
        return Context(library), list(devices)
    except Refusal as refusal:
        if refusal.code != number("ES_UNSUPPORTED") or not devices:
            raise
    return next(iter(devices.values())), list(devices)


def _name_of(device: Device) -> str:
    return "the host's memory" if device == HOST else name_of(device)


def _of_the_table(library: Library, context: Context) -> dict[str, Check]:
    """What is tried of the functions of the table before anything runs."""
    device = context.device
    return {
        "layout": lambda: iter([table.layout(library)]),
        "names": lambda: iter([table.names(library, device)]),
        "versions": lambda: iter([table.versions(library)]),
        "opening": lambda: iter([table.opening(library, device)]),
        "errors": lambda: iter([table.errors(context)]),
        "answers": lambda: iter([table.answers(context)]),
        "programs of one op": lambda: iter([table.programs(library, device)]),
        "samplers and selectors": lambda: table.parts(context),
    }


def _by_name(
    library: Library, exact: bool, seconds: float, seed: int, only: Collection[str], announce: Announce
) -> dict[str, Check]:
    """What is tried, by name."""
    checks: dict[str, Check] = {}
    checks["promises"] = lambda: _promises(library)
    for name, situation in SITUATIONS.items():
        checks[name] = partial(_situation, library, name, situation)
    checks["passes"] = lambda: passes(library)
    checks["contexts"] = lambda: iter([contexts(library)])
    checks["leaks"] = lambda: iter([leaks(library)])
    if not exact:
        checks["draws"] = lambda: iter([draws(library)])
    chosen = [name for name in _RANDOM if not only or name in only]
    for name, search in _RANDOM.items():
        share = seconds / max(1, len(chosen))
        checks[name] = partial(_searched, search, library, share, seed, partial(announce, name))
    return checks


_RANDOM = {
    "random programs": random_programs,
    "random requests": random_requests,
    "random boundaries": random_boundaries,
}
"""Those that go on for as long as the user chooses, which they share."""


def _searched(
    search: Any, library: Library, seconds: float, seed: int, trying: Callable[[str], None]
) -> Iterator[CheckResult]:
    yield search(library, seconds, seed, trying)


def _guarded(name: str, check: Check) -> Iterator[CheckResult]:
    """The results of a check. What a library refuses although it promised it is a failure, and so is anything
    that prevents the check from going on."""
    surroundings = Surroundings()
    try:
        yield from check()
    except (LibraryError, Refusal) as error:
        yield CheckResult(name, FAILED, str(error))
    except Exception as error:
        changes = surroundings.changes()
        reason = changes[0] if changes else f"the check cannot go on: {type(error).__name__}: {error}"
        yield CheckResult(name, FAILED, reason)
    else:
        changes = surroundings.changes()
        if changes:
            yield CheckResult(name, FAILED, changes[0])


def _promises(library: Library) -> Iterator[CheckResult]:
    tried = list(trials(library))
    if not tried:
        yield CheckResult("programs", FAILED, "it runs none of the programs that are tried")
        return
    yield tokens(tried)
    for name, attempt in PROMISES.items():
        yield promise(name, attempt, tried)


def _situation(library: Library, name: str, situation: Situation) -> Iterator[CheckResult]:
    yield _tried(library, name, situation)


def _tried(library: Library, name: str, situation: Situation) -> CheckResult:
    tally = Tally()
    tried: dict[str, None] = {}
    for what, room, step in situation(library):
        problem = problem_of(room, step, tally)
        if problem is not None:
            return CheckResult(name, FAILED, f"{what}: {problem}")
        tried[what] = None
    if not tally.calls:
        return CheckResult(name, NOT_PROMISED)
    listed = ", ".join(tried) if len(tried) <= 4 else f"{', '.join(list(tried)[:3])}, … ({len(tried)} kinds)"
    return CheckResult(name, PASSED, f"{tally}: {listed}")


def _memory(library: Library) -> CheckResult:
    """Inputs in pages that cannot be written, each at the end of what can be read."""
    tally = Tally()
    for what, room, step in _steps_in_memory(library):
        if not all(room.promises(parts, "READS_ONLY") for _, parts in step.entries):
            continue
        problem = problem_of(room, step, tally, SealedMemory())
        if problem is not None:
            return CheckResult(MEMORY, FAILED, f"{what}: {problem}")
    if not tally.calls:
        return CheckResult(MEMORY, NOT_PROMISED)
    return CheckResult(MEMORY, PASSED, f"read-only pages with nothing behind them: {tally}")


_SEEDS_IN_MEMORY = 12


def _steps_in_memory(library: Library) -> Tried:
    for situation in (rows, masks, histories):
        yield from situation(library)
    known = Repertoire.of(library)
    for seed in range(_SEEDS_IN_MEMORY if known.selectors else 0):
        for room, step in program_steps(library, known, seed):
            yield f"seed {seed}", room, step
