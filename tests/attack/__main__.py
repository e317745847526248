"""Hostile clients beside ordinary requests: `python -m tests.attack [--seconds N] [--seed S] [CLIENT ...]`.

Each client of the catalogue (`clients.py`) sends requests to an engine with 60 ordinary ones and a
`GrammarCompiler`; a quiet run with the same seed is the yardstick. Prints for each client how the steps of
its neighbours went, the filling of masks included, and how long its requests took to join. The time in which
other programs had the processor does not count (`clock.Stopwatch`); that with it stands at the end. The
command fails if a neighbour's token changed, if a step raised, or if the steps of all clients miss the bars:
p99 at most twice that of the quiet run, the longest at most 50 ms more. Clients whose samplers cost
as much as an order may cost have bars of their own: the longest step at most 75 ms more for each such row; a
request may have as many siblings as cost ten of these.

With --seconds the catalogue is repeated with new seeds for that time. Memory may grow by what the tables of
all grammars may take, and no further.
"""

from __future__ import annotations

import argparse
import gc
import logging
import os
import resource
import sys
import time
from pathlib import Path

from engine_sampler.grammar import GrammarCompiler
from engine_sampler.grammar.limits import LIMITS

from .clients import CLIENTS, EXPENSIVE
from .engine import QUIET, Engine, NeighbourHarmed, Outcome, expect_unharmed
from .vocabulary import LARGE

NEIGHBOURS = 60
STEPS, REQUESTS = 150, 3
MOST_TIMES, MOST_MORE = 2.0, 50.0
"""The bars: of p99 as a multiple of the quiet run's, and of the longest step in milliseconds beyond it."""
MOST_EXPENSIVE = 75.0
"""The latter for each row of the greatest cost that a client's rows amount to."""
MOST_GROWTH = (LIMITS.grammar_memory + LIMITS.shared_memory) / 1e6
"""The megabytes by which later rounds may exceed the first."""


def main(arguments: list[str] | None = None) -> int:
    """Run the catalogue; returns the exit code."""
    options = _options(arguments)
    start, sizes, failed = time.monotonic(), [], 0
    seed = options.seed
    while seed == options.seed or time.monotonic() - start < options.seconds:
        with GrammarCompiler(processes=1) as compiler:
            failed += _round(options, seed, compiler)
        gc.collect()
        sizes.append(resident_megabytes())
        print(f"seed {seed}: {sizes[-1]:.0f} MB in use\n", flush=True)
        seed += 1
    growth = max(sizes) - sizes[0]
    minutes = (time.monotonic() - start) / 60
    print(f"{len(sizes)} rounds in {minutes:.1f} minutes, {growth:+.0f} MB after the first")
    return 1 if failed or growth > MOST_GROWTH else 0


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser("python -m tests.attack", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("clients", nargs="*", metavar="CLIENT", help="default: all")
    parser.add_argument("--seconds", type=float, default=0.0, help="repeat for as long")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--vocab-size", type=int, default=LARGE)
    parser.add_argument("--steps", type=int, default=STEPS, help="for each client")
    options = parser.parse_args(arguments)
    if unknown := set(options.clients) - set(CLIENTS):
        parser.error(f"unknown clients {sorted(unknown)}; there are {', '.join(CLIENTS)}")
    return options


def _round(options: argparse.Namespace, seed: int, compiler: GrammarCompiler) -> bool:
    """One pass over the clients; returns whether a law or a bar was broken."""

    def engine() -> Engine:
        return Engine(options.vocab_size, NEIGHBOURS, seed, compiler)

    quiet_engine = engine()
    quiet = quiet_engine.run(QUIET, 2 * options.steps, REQUESTS)
    print(f"{'client':36} {'steps':>6} {'p50':>7} {'p99':>7} {'max':>7} {'join':>7}  requests")
    print(_line("(quiet)", quiet))
    attacked, failed = Outcome(), False
    for name in options.clients or CLIENTS:
        try:
            outcome = engine().run(CLIENTS[name], options.steps, REQUESTS)
            quiet_engine.continue_quietly(quiet, len(outcome.tokens))
            expect_unharmed(quiet, outcome)
        except NeighbourHarmed as harm:
            failed = True
            print(f"{name:36} HARMED: {harm}: {harm.__cause__!r}", flush=True)
            continue
        print(_line(name, outcome), flush=True)
        if name in EXPENSIVE:
            failed |= _is_too_expensive(name, quiet, outcome)
        else:
            attacked.extend(outcome)
    return any([failed, _misses_bars(quiet, attacked)])


def _line(name: str, outcome: Outcome) -> str:
    times = "".join(f" {outcome.milliseconds(share):7.2f}" for share in (0.5, 0.99, 1.0))
    refused = f"{len(outcome.refusals)} refused" if outcome.refusals else ""
    ends = ", ".join(part for part in [refused, *sorted(set(outcome.ends))] if part)
    return f"{name:36} {len(outcome.steps):6}{times} {max(outcome.joins) * 1e3:7.1f}  {ends}"


def _misses_bars(quiet: Outcome, attacked: Outcome) -> bool:
    if not attacked.steps:
        return False
    times = attacked.milliseconds(0.99) / quiet.milliseconds(0.99)
    more = attacked.milliseconds(1) - quiet.milliseconds(1)
    print(_line("(all clients)", attacked))
    print(f"p99 {times:.2f} times that of the quiet run (at most {MOST_TIMES:g}), ", end="")
    print(f"the longest step {more:+.1f} ms (at most +{MOST_MORE:g})")
    whole = ", ".join(
        f"{name} {attacked.whole(share):.2f} ms (quiet {quiet.whole(share):.2f})"
        for name, share in {"p50": 0.5, "p99": 0.99, "the longest": 1.0}.items()
    )
    print(f"with the time that other programs had: {whole}")
    return times > MOST_TIMES or more > MOST_MORE


def _is_too_expensive(name: str, quiet: Outcome, expensive: Outcome) -> bool:
    more, most = expensive.milliseconds(1) - quiet.milliseconds(1), EXPENSIVE[name] * MOST_EXPENSIVE
    if more > most:
        print(f"{name}: the longest step {more:+.1f} ms (at most +{most:g})")
    return more > most


def resident_megabytes() -> float:
    """The memory in use by this process; on systems without /proc, its maximum so far."""
    statm = Path("/proc/self/statm")
    if statm.exists():
        return int(statm.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


if __name__ == "__main__":
    logging.getLogger("engine_sampler").setLevel(logging.CRITICAL)  # refusals and faults are intended here
    sys.exit(main())
