"""The steps of a running engine while schemas are compiled: `python -m benchmarks.compiling`.

Steps of requests without and with a grammar are timed by the wall clock: when nothing else happens, while
another thread compiles schemas, and while a `GrammarCompiler` does. The three take turns. Prints the median,
the 99th percentile and the maximum of each turn, and relative to the quiet steps: medians over all rounds,
because other processes of a shared machine delay single steps.
"""

from __future__ import annotations

import argparse
import json
import threading
from collections.abc import Callable
from time import perf_counter

import numpy as np

from engine_sampler import SamplingParams, Scheduler, Tokenizer
from engine_sampler.grammar import Grammar, GrammarCompiler, clear_cache, clear_grammar_cache

from .cases import DEFAULT

REQUESTS, VOCABULARY = 32, 32_768
SCHEMAS, VALUES = 3, 20_000
"""How many schemas are compiled at a time, and the values of the enum in each."""
WARM_UP = 50
"""Untimed steps."""
QUIET_STEPS = 1000
STRUCTURED = {"regex": "[a-z0-9 ]{9000000}"}
"""Text that does not end while it is measured."""

Phase = Callable[[int], list[float]]
"""The seconds of each step in the round of this number."""


def tokenizer() -> Tokenizer:
    """Bytes, words and EOS."""
    pieces = [bytes([byte]) for byte in range(256)]
    pieces += [f" word{i}".encode() for i in range(VOCABULARY - len(pieces) - 1)]
    return Tokenizer([*pieces, b"</s>"], [VOCABULARY - 1])


def schema(number: int) -> str:
    """A schema that no other number gives."""
    values = [f"value {i * 7919 % 1_000_003} of {number}" for i in range(VALUES)]
    return json.dumps({"type": "object", "properties": {"name": {"enum": values}}, "required": ["name"]})


class Engine:
    """A scheduler whose steps are timed while some schemas are compiled."""

    def __init__(self, compiler: GrammarCompiler, structured: bool) -> None:
        self.tokenizer = tokenizer()
        self.scheduler = Scheduler(VOCABULARY, self.tokenizer, grammar_compiler=compiler)
        settings = {**DEFAULT, "ignore_eos": True, **(STRUCTURED if structured else {})}
        for seed in range(REQUESTS):
            self.scheduler.add(SamplingParams(seed=seed, **settings))
        while self.scheduler.wait_ready() and len(self.scheduler.request_ids) < REQUESTS:
            pass
        self.ids = self.scheduler.request_ids
        self.logits = np.random.default_rng(0).normal(0, 3, (REQUESTS, VOCABULARY)).astype(np.float32)

    def quiet(self, number: int) -> list[float]:
        """Nothing else happens."""
        return [self.step() for _ in range(QUIET_STEPS)]

    def in_a_thread(self, number: int) -> list[float]:
        """Another thread compiles schemas."""
        texts = self.new_schemas(number)
        thread = threading.Thread(target=self.compile, args=(texts,))
        thread.start()
        seconds = []
        while thread.is_alive():
            seconds.append(self.step())
        return seconds

    def in_the_service(self, number: int) -> list[float]:
        """Requests with new schemas arrive."""
        added = [SamplingParams(json_schema=text) for text in self.new_schemas(number)]
        waiting = [self.scheduler.add(params) for params in added]
        seconds = []
        while set(waiting) & set(self.scheduler.waiting_ids):
            seconds.append(self.step())
            _ = self.scheduler.request_ids
        for request_id in waiting:
            assert self.scheduler.remove(request_id).error is None
        return seconds

    def new_schemas(self, number: int) -> list[str]:
        """Schemas for a round; none is in a cache."""
        clear_grammar_cache()
        clear_cache(self.tokenizer)
        return [schema(SCHEMAS * number + i) for i in range(SCHEMAS)]

    def compile(self, texts: list[str]) -> None:
        """Compile schemas in this process."""
        for text in texts:
            Grammar.from_json_schema(text).compile(self.tokenizer)

    def step(self) -> float:
        """The seconds of one step."""
        start = perf_counter()
        self.scheduler.step(self.logits, self.ids)
        return perf_counter() - start


def measured(engine: Engine, rounds: int) -> dict[str, np.ndarray]:
    """By what happens meanwhile: median, 99th percentile and maximum of the steps in milliseconds, and how
    many there are; medians over the rounds."""
    phases: dict[str, Phase] = {
        "quiet": engine.quiet,
        "thread": engine.in_a_thread,
        "service": engine.in_the_service,
    }
    turns: dict[str, list[np.ndarray]] = {name: [] for name in phases}
    for _ in range(WARM_UP):
        engine.step()
    for number in range(rounds):
        for name, phase in phases.items():
            seconds = phase(number)
            turns[name].append(np.array([*np.quantile(seconds, [0.5, 0.99, 1]) * 1000, len(seconds)]))
    return {name: np.median(taken, axis=0) for name, taken in turns.items()}


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    print("| requests | meanwhile | steps | median, ms | p99 | maximum | p99 relative to quiet | maximum |")
    print("|---|---|---:|---:|---:|---:|---:|---:|")
    with GrammarCompiler(processes=2) as compiler:
        for kind, structured in (("plain", False), ("with a grammar", True)):
            taken = measured(Engine(compiler, structured), options.rounds)
            quiet = taken["quiet"]
            for name, (median, p99, maximum, steps) in taken.items():
                print(
                    f"| {kind} | {name} | {steps:.0f} | {median:.2f} | {p99:.2f} | {maximum:.2f} "
                    f"| {p99 / quiet[1]:.1f}× | {maximum / quiet[2]:.1f}× |"
                )


if __name__ == "__main__":
    main()
