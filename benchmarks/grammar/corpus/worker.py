"""One engine in a process of its own: reads tasks as lines of JSON, and writes what it measured of each."""

from __future__ import annotations

import gc
import json
import resource
import sys
import time
from collections.abc import Callable
from typing import Any

from .engines import ENGINES, Engine, Vocabulary

Clock = Callable[[], int]

_KIBI = 1 if sys.platform == "darwin" else 1024


def main() -> None:
    """Serve the engine that the command line names until the input ends, with a clock of `time`."""
    name, clock = sys.argv[1], getattr(time, sys.argv[2])
    engine = ENGINES[name](Vocabulary())
    gc.collect()
    gc.freeze()
    gc.disable()
    print(json.dumps({"engine": name, "peak": _peak()}), flush=True)
    for line in sys.stdin:
        print(json.dumps(_measured(engine, clock, *json.loads(line))), flush=True)
        gc.collect()


def _peak() -> int:
    """Bytes of memory that this process had at most."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * _KIBI


def _measured(engine: Engine, clock: Clock, schema: Any, tests: list[tuple[str, bool]]) -> dict[str, Any]:
    """Nanoseconds of compiling, of the first mask, and of all masks, and the verdicts on the tests."""
    found: dict[str, Any] = {}
    mask = engine.new_mask()
    began = clock()
    try:
        compiled = engine.compile(schema)
        found["compile"] = clock() - began
        engine.fill(engine.matcher(compiled), mask)
        found["first"] = clock() - began
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"[:400], "failed": clock() - began}
    masks: list[int] = []
    verdicts: list[Any] = []
    for text, _ in tests:
        tokens = engine.vocabulary.encode(text)
        try:
            verdicts.append(_accepts(engine, clock, compiled, tokens, mask, masks))
        except Exception as error:
            verdicts.append(f"{type(error).__name__}: {error}"[:200])
    return {**found, "verdicts": verdicts, "masks": masks, "peak": _peak()}


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
