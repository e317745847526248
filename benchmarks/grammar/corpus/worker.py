"""One engine in a process of its own: reads tasks as lines of JSON, and writes what it measured of each."""

from __future__ import annotations

import gc
import json
import resource
import signal
import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

from .engines import ENGINES, Engine, Vocabulary
from .kept import ENDED, NO_MEMORY

Clock = Callable[[], int]

STARTED = "started"
_COLLECTING = 50
"""After how many tasks garbage is collected: it takes longer than most of them."""
_KIBI = 1 if sys.platform == "darwin" else 1024


def main() -> None:
    """Serve the engine that the command line names."""
    serve(lambda: ENGINES[sys.argv[1]](Vocabulary()), sys.argv[2:])


def serve(make: Callable[[], Engine], arguments: Sequence[str]) -> None:
    """Serve an engine until the input ends.

    arguments  a clock of `time`, the seconds of processor time for a task, and the bytes of address space

    SIGPROF ends the process when a task has used its time, in the midst of a call into C as well: unlike
    RLIMIT_CPU, its timer counts fractions of a second and begins anew with each task. While such a timer
    runs, the kernel tells a process its time by ticks of milliseconds, but a thread its own exactly.
    """
    clock, seconds, memory = getattr(time, arguments[0]), float(arguments[1]), int(arguments[2])
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    try:
        engine = make()
    except Exception as error:
        _answer({"error": f"{type(error).__name__}: {error}"})
        return
    gc.collect()
    gc.freeze()
    gc.disable()
    _answer({STARTED: True})
    for number, line in enumerate(sys.stdin, 1):
        signal.setitimer(signal.ITIMER_PROF, seconds)
        try:
            answer = _measured(engine, clock, *json.loads(line))
        except MemoryError:
            answer = {ENDED: NO_MEMORY}
        signal.setitimer(signal.ITIMER_PROF, 0)
        _answer(answer)
        if number % _COLLECTING == 0:
            gc.collect()


def _answer(value: Any) -> None:
    print(json.dumps(value), flush=True)


def _peak() -> int:
    """Bytes of memory that this process had at most."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _KIBI


def _measured(
    engine: Engine, clock: Clock, schema: Any, tests: list[tuple[str, bool]], options: dict[str, Any]
) -> dict[str, Any]:
    """Nanoseconds of compiling, of the first mask, and of all masks, and the verdicts on the tests."""
    measured: dict[str, Any] = {}
    mask = engine.new_mask()
    began = clock()
    try:
        compiled = engine.compile(schema, options)
        measured["compile"] = clock() - began
        engine.fill(engine.matcher(compiled), mask)
        measured["first"] = clock() - began
    except MemoryError:
        raise
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"[:400], "failed": clock() - began}
    masks: list[int] = []
    verdicts: list[Any] = []
    for text, _ in tests:
        tokens = engine.vocabulary.encode(text)
        try:
            verdicts.append(_accepts(engine, clock, compiled, tokens, mask, masks))
        except MemoryError:
            raise
        except Exception as error:
            verdicts.append(f"{type(error).__name__}: {error}"[:200])
    return {**measured, "verdicts": verdicts, "masks": masks, "peak": _peak()}


def _accepts(
    engine: Engine, clock: Clock, compiled: Any, tokens: list[int], mask: Any, times: list[int]
) -> bool:
    """Whether the masks allow a text and its end; the time of each mask is added to `times`."""
    matcher = engine.matcher(compiled)
    fill, accept = engine.fill, engine.accept
    for token in (*tokens, engine.vocabulary.eos):
        began = clock()
        fill(matcher, mask)
        times.append(clock() - began)
        if not int(mask[0, token >> 5]) >> (token & 31) & 1:
            return False
        if token != engine.vocabulary.eos and not accept(matcher, token):
            return False
    return True


if __name__ == "__main__":
    main()
