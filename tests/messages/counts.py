"""Counts of the laws of parsing: generated calls of each family under ten tokenizations, and mutated texts.

    python -m tests.messages.counts --calls 10000 --mutations 2500 --log counts.jsonl --workers 2

It reads answers in batches, in rounds over all families, and writes a line of JSON for each batch into the
log. Batches that are in the log already are not read again: a run goes on where another one ended, and logs
of several runs add up (`cat`). It prints totals as they grow, in the end those of each family, and exits with
1 if any answer differs. 2,500 mutated texts of each of forty families are 10^5. With `--calls 0`, it prints
what a log contains.
"""

from __future__ import annotations

import argparse
import itertools
import json
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from engine_sampler.grammar import TOOL_FAMILIES
from engine_sampler.messages.reading import automaton

from .batches import check_batch

BETWEEN = 10.0
"""Seconds between printed totals."""


FEW_STEPS = automaton.MAX_STEPS
MANY_STEPS = 1 << 16
"""Steps that parsers remember: in every eighth batch, they forget them as often as they do elsewhere."""


@dataclass
class Totals:
    """What has been read: counts by family, and which batches, by seed, family and number."""

    counts: Counter[tuple[str, str]] = field(default_factory=Counter)
    batches: set[tuple[int, str, int]] = field(default_factory=set)
    seconds: float = 0.0

    def add(self, line: dict[str, Any]) -> None:
        """Add a line of a log; one that is there already counts once."""
        family = line["family"]
        key = line["seed"], family, line["number"]
        if key in self.batches:
            return
        self.batches.add(key)
        self.seconds += line["seconds"]
        for kind in ("answers", "calls", "mutations"):
            self.counts[kind, family] += line[kind]
        self.counts["faults", family] += len(line["faults"])

    def has(self, family: str, wanted: argparse.Namespace) -> bool:
        """Whether so much of a family has been read as is wanted."""
        calls, mutations = self.counts["calls", family], self.counts["mutations", family]
        return bool(calls >= wanted.calls and mutations >= wanted.mutations)

    def of(self, *families: str) -> str:
        """The counts of some families together, in words."""
        calls, answers, mutations, faults = (
            sum(self.counts[kind, family] for family in families)
            for kind in ("calls", "answers", "mutations", "faults")
        )
        return f"{calls} calls in {answers} answers, {mutations} mutated texts, {faults} differ"


def read_batch(seed: int, family: str, number: int) -> dict[str, Any]:
    """Read a batch; returns its line of the log."""
    automaton.MAX_STEPS = MANY_STEPS if number % 8 else FEW_STEPS
    begin = time.process_time()
    counts = check_batch(family, f"{seed}/{family}/{number}")
    seconds = round(time.process_time() - begin, 2)
    return {"seed": seed, "family": family, "number": number, "seconds": seconds, **asdict(counts)}


def batches_left(wanted: argparse.Namespace, totals: Totals) -> Iterator[tuple[int, str, int]]:
    """Batches that are not in the log, in rounds over the families, while more is wanted of those."""
    for number in itertools.count(getattr(wanted, "from")):
        left = [family for family in wanted.families if not totals.has(family, wanted)]
        if not left:
            return
        for family in left:
            if (wanted.seed, family, number) not in totals.batches and not totals.has(family, wanted):
                yield wanted.seed, family, number


def read_all(wanted: argparse.Namespace, totals: Totals) -> Iterator[dict[str, Any]]:
    """The lines of batches as they are read, by several processes."""
    end = time.monotonic() + wanted.seconds
    left = batches_left(wanted, totals)
    with ProcessPoolExecutor(wanted.workers) as pool:
        running: set[Future[dict[str, Any]]] = set()
        while True:
            while len(running) < 2 * wanted.workers and time.monotonic() < end:
                batch = next(left, None)
                if batch is None:
                    break
                running.add(pool.submit(read_batch, *batch))
            if not running:
                return
            done, running = wait(running, return_when=FIRST_COMPLETED)
            for one in done:
                yield one.result()


def main() -> int:
    """Read, count and print."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--calls", type=int, default=100, help="calls of each family")
    arguments.add_argument("--mutations", type=int, default=0, help="mutated texts of each family")
    arguments.add_argument("--seconds", type=float, default=float("inf"), help="when to stop")
    arguments.add_argument("--seed", type=int, default=0, help="batches of other seeds are others")
    arguments.add_argument("--from", type=int, default=0, help="the number of the first batch")
    arguments.add_argument("--workers", type=int, default=1, help="how many processes")
    arguments.add_argument("--log", type=Path, help="where lines of JSON are, and are added")
    arguments.add_argument("--families", nargs="*", default=list(TOOL_FAMILIES), choices=list(TOOL_FAMILIES))
    wanted = arguments.parse_args()
    totals, printed = Totals(), time.monotonic()
    if wanted.log is not None and wanted.log.exists():
        for text in wanted.log.read_text().splitlines():
            totals.add(json.loads(text))
    for line in read_all(wanted, totals):
        totals.add(line)
        if wanted.log is not None:
            with wanted.log.open("a") as log:
                log.write(json.dumps(line) + "\n")
        for fault in line["faults"]:
            print(f"{line['seed']}/{line['family']}/{line['number']}, {fault}", flush=True)
        if time.monotonic() > printed + BETWEEN:
            printed = time.monotonic()
            print(f"in all: {totals.of(*wanted.families)}, {totals.seconds:.0f} s", flush=True)
    for family in wanted.families:
        print(f"{family}: {totals.of(family)}")
    print(f"in all: {totals.of(*wanted.families)}, {totals.seconds:.0f} s", flush=True)
    return 1 if any(totals.counts["faults", family] for family in wanted.families) else 0


if __name__ == "__main__":
    sys.exit(main())
