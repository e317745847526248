"""Measurements of a grammar engine that the harness lacks: preparation, cached compiles, whole steps.

python -m benchmarks.grammar.extra HARNESS ENGINE TASKS OUT

HARNESS is the harness's path, ENGINE the name of one of its adapters, TASKS a file of schemas with documents.
Writes a JSON object of seconds, megabytes, milliseconds and microseconds to OUT.
"""

from __future__ import annotations

import importlib
import json
import resource
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from time import perf_counter_ns
from typing import Any

import numpy as np

from . import tasks as grammar_tasks

REQUESTS, GRAMMARS = 64, 16
LIBRARIES = {
    "engine_sampler": ["engine_sampler", "engine_sampler.grammar.compiled"],
    "llg": ["llguidance.numpy"],
    "xgr": ["torch", "xgrammar"],
}
"""Modules that an engine loads; loading them does not count as preparation of a tokenizer."""
STEPS = 200
REPEATS, PATIENCE = 50, 10**8
"""The maximum number of cached compiles per schema, and nanoseconds for them: some engines cache nothing."""
LARGEST = 3000
"""Maximum characters of a schema in a step: every engine must compile all of them quickly."""


def main(harness_path: str, engine_name: str, tasks_path: str, out: str) -> None:
    sys.path.insert(0, str(Path(harness_path).parent))
    harness = importlib.import_module(Path(harness_path).stem)
    tasks = [
        task
        for task in grammar_tasks.read(Path(tasks_path))
        if not task["id"].startswith(grammar_tasks.WARM_UP)
    ]
    vocabulary = harness.get_vocab()
    engine = harness.load_engine(engine_name)
    for module in LIBRARIES[engine.name]:
        importlib.import_module(module)
    found = preparation(engine, vocabulary)
    engine.vocab = vocabulary
    found |= cached(engine, tasks)
    found |= steps(engine, tasks)
    Path(out).write_text(json.dumps(found), "utf-8")


def preparation(engine: Any, vocabulary: Any) -> dict[str, float]:
    """Time and memory from a new tokenizer to the first compiled grammar; libraries are already loaded."""
    before, start = _resident(), perf_counter_ns()
    engine.init(vocabulary)
    engine.vocab = vocabulary
    engine.compile("regex", "a")
    return {
        "prepare_s": (perf_counter_ns() - start) / 1e9,
        "prepare_megabytes": (_resident() - before) / 2**20,
    }


def _resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


def cached(engine: Any, tasks: list[dict[str, Any]]) -> dict[str, float]:
    """The median time of compiling a schema that has been compiled before."""
    times: list[int] = []
    for task in tasks[:10]:
        spent = 0
        with suppress(Exception):  # not every engine compiles every schema
            engine.compile("json_schema", task["grammar"])
            while spent < PATIENCE:
                times.append(_timed(partial(engine.compile, "json_schema", task["grammar"])))
                spent += max(times[-1], PATIENCE // REPEATS)
    return {"cached_ms": float(np.median(times)) / 1e6} if times else {}


def _timed(call: Callable[[], Any]) -> int:
    start = perf_counter_ns()
    call()
    return perf_counter_ns() - start


class _Request:
    """A request whose tokens are those of a document, repeated forever."""

    def __init__(self, engine: Any, compiled: Any, tokens: list[int], position: int) -> None:
        self._engine, self._compiled, self._tokens = engine, compiled, tokens
        self._restart()
        for _ in range(position % len(tokens)):
            self.advance()

    def _restart(self) -> None:
        self.matcher = self._engine.matcher(self._compiled)
        self._position = 0

    def advance(self) -> None:
        if not self._engine.accept(self.matcher, self._tokens[self._position]):
            raise ValueError("a valid document was rejected")
        self._position += 1
        if self._position == len(self._tokens):
            self._restart()


def steps(engine: Any, tasks: list[dict[str, Any]]) -> dict[str, float]:
    """The time of all masks of a step: p50 and p99 over many steps, when the same steps run a second time."""
    compiled = []
    for task in tasks:
        if len(json.dumps(task["grammar"])) <= LARGEST and len(compiled) < GRAMMARS:
            with suppress(Exception):
                grammar = engine.compile("json_schema", task["grammar"])
                tokens = engine.vocab.encode(task["tests"][0]["text"])
                _Request(engine, grammar, tokens, len(tokens) - 1).advance()
                compiled.append((grammar, tokens))
    if len(compiled) < GRAMMARS:
        return {}
    times: list[int] = []
    for _ in range(2):
        times.clear()
        requests = [_Request(engine, *compiled[i % GRAMMARS], 7 * i) for i in range(REQUESTS)]
        fill = _filler(engine, requests)
        for _ in range(STEPS):
            times.append(_timed(fill))
            for request in requests:
                request.advance()
    return {f"step_p{p}_us": float(np.percentile(times, p)) / 1000 for p in (50, 99)}


def _filler(engine: Any, requests: list[_Request]) -> Callable[[], Any]:
    """A function that fills the masks of all requests in the engine's fastest way, on one thread."""
    if engine.name == "engine_sampler":
        from engine_sampler.grammar import fill_masks

        bitmask = np.zeros((len(requests), (engine.vocab.n + 31) // 32), np.int32)
        rows = list(range(len(requests)))
        return lambda: fill_masks([request.matcher for request in requests], bitmask, rows)
    masks = [engine.new_mask() for _ in requests]

    def fill() -> None:
        for request, mask in zip(requests, masks, strict=True):
            engine.fill(request.matcher, mask)

    return fill


if __name__ == "__main__":
    main(*sys.argv[1:])
