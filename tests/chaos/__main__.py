"""Random operations on a scheduler, under every law: `python -m tests.chaos --seconds N [--seed S]`.

An episode is one scheduler with many requests of every kind, under random operations: add, step (any
requests in any order, with and without drafts, right and wrong), accept, rollback, fork, resume, remove,
faulty rows, plugins that fail or return rubbish, wrong calls. Each request has a shadow, which computes the
expected text, end and logprobs from its tokens alone. A request that has ended, or that is inspected, is run
again alone on another backend, without the other operations and without the requests whose plugins misbehave.
Everything follows from the episode's seed and backend, which a failure names:
`python -m tests.chaos --seconds 0 --seed S --backend B` repeats that episode.
"""

from __future__ import annotations

import argparse
import contextlib
import logging
import sys
import time
from collections import Counter
from collections.abc import Callable

from engine_sampler.arithmetic import child_seed

from .beams import Search
from .checks import REFUSALS, expect_refusals, expect_sound
from .intruders import intruder
from .plugins import LISTENER, plugins
from .shadow import Shadow, Token, child_order
from .steps import Steps
from .world import BACKENDS, Order, group_params

OPERATIONS = 150
"""The number of operations of one episode."""

REPORT_EVERY = 30.0
"""The interval between reports, in seconds."""


class ChaosFailure(AssertionError):
    """A law was broken; the text names the episode, the operation, and what came before."""


class Chaos(Steps):
    """One episode."""

    def run(self, operations: int = OPERATIONS) -> Counter[str]:
        """Run `operations` random operations, then remove everything; returns what was done, counted.

        Raises `ChaosFailure`.
        """
        names = list(WEIGHTS)
        total = sum(WEIGHTS.values())
        shares = [WEIGHTS[name] / total for name in names]
        LISTENER.forget()
        for _ in range(70 if self.crowded else 0):
            self._guarded(0, "add")
        for number in range(operations):
            self._guarded(number, str(self.random.choice(names, p=shares)))
        self._guarded(operations, "clear")
        return self.counts

    def _guarded(self, number: int, name: str) -> None:
        operation: Callable[[], None] = getattr(self, name)
        try:
            operation()
            self.forget_intruders()
            if number % 10 == 0:
                expect_sound(self.scheduler)
            assert self.scheduler.request_ids == [
                i for i in self.scheduler._requests.known if self._is_live(i)
            ]
        except Exception as error:
            recent = "\n  ".join(self.recent)
            raise ChaosFailure(
                f"episode {self.seed} ({self.backend}), operation {number} ({name}): "
                f"{type(error).__name__}: {error}\n  {recent}"
            ) from error
        self.count("operations")

    def _is_live(self, request_id: object) -> bool:
        return any(request_id in some for some in (self.shadows, self.searches, self.intruders))

    # --- requests join and leave ------------------------------------------------------------------

    def add(self) -> None:
        if len(self.scheduler.request_ids) >= self.most_live:
            return
        order = self.random_order()
        self.log(f"add {order}")
        if self.chance(0.15):
            self._add_group(order)
            return
        request_id = self.scheduler.add(order.params, order.prompt, position=order.position, **order.extras())
        self.enter(request_id, order, self.scheduler.record(request_id).seed)

    def _add_group(self, order: Order) -> None:
        params = group_params(self.random, order.params)
        order = Order(params, order.prompt, order.grammar, order.criteria)
        ids = self.scheduler.add_group(params, order.prompt, **order.extras())
        if params.use_beam_search:
            search = Search(ids, order)
            self.searches |= dict.fromkeys(ids, search)
            return
        first = self.scheduler.record(ids[0]).seed
        for i, request_id in enumerate(ids):
            seed = child_seed(first, i) if i else first
            self.enter(request_id, order, seed).siblings = tuple(ids)

    def remove(self) -> None:
        if self.finished and self.chance(0.7):
            self._forget(list(self.finished)[self.random.integers(len(self.finished))])
        elif live := self.scheduler.request_ids:
            request_id = live[self.random.integers(len(live))]
            self.log(f"remove {request_id}")
            if request_id in self.searches:
                self.scheduler.remove(request_id)
                self.break_off(self.searches[request_id], request_id)
            elif request_id not in self.intruders:
                self._abort(self.shadows.pop(request_id))

    def intrude(self) -> None:
        """Add a request whose plugins misbehave at random, and use it."""
        if len(self.scheduler.request_ids) >= self.most_live:
            return
        seed = int(self.random.integers(1 << 30))
        self.log(f"intrude {seed}")
        try:
            one = self.scheduler.add(**intruder(seed))
        except REFUSALS:
            return
        self.intruders.add(one)
        self.count("intruders")
        for call in (
            lambda: self.scheduler.accept(one, [3, 4]),
            lambda: self.scheduler.rollback(one, 1),
            lambda: self.scheduler.forced_tokens(one),
            lambda: self.intruders.add(self.scheduler.fork(one)),
        ):
            with contextlib.suppress(*REFUSALS):
                call()

    def forget_intruders(self) -> None:
        """Remove the intruders that have ended."""
        for request_id in self.intruders - set(self.scheduler.request_ids):
            self.scheduler.remove(request_id)
            self.intruders.discard(request_id)

    def _forget(self, request_id: object) -> None:
        ended = self.finished.pop(request_id)
        record = self.scheduler.remove(request_id)
        if isinstance(ended, Shadow):
            assert record == ended.record, "the record of a finished request has changed"

    def _abort(self, shadow: Shadow) -> None:
        shadow.record = self.scheduler.remove(shadow.id)
        assert shadow.record.finish_reason == ("error" if shadow.cause else "abort")
        self.count("aborted")
        self.expect_right(shadow, shadow.record)

    def fork(self) -> None:
        parent = self.any_shadow()
        if parent is None or len(self.scheduler.request_ids) >= self.most_live:
            return
        seed = None if self.chance(0.5) else int(self.random.integers(2**63))
        self.log(f"fork {parent.id} with seed {seed}")
        request_id = self.scheduler.fork(parent.id, seed=seed)
        self.shadows[request_id] = parent.fork(request_id, seed)
        self.count("forks")

    def resume(self) -> None:
        """Add a request that begins with the output of another, and must continue like it."""
        other = self.any_shadow()
        if other is None or len(self.scheduler.request_ids) >= self.most_live or not other.can_resume:
            return
        self.log(f"resume {other.id}")
        order = child_order(other.order)
        position = None if order.position is None else order.position + len(other.tokens)
        request_id = self.scheduler.add(
            order.params.replace(seed=other.seed), order.prompt,
            output_token_ids=other.ids, position=position, **order.extras(),
        )  # fmt: skip
        shadow = self.enter(request_id, order, other.seed)
        shadow.tokens = [Token(t.id, t.seed, given=True) for t in other.tokens]
        shadow.sent, shadow.streamed = len(shadow.tokens), shadow.certain(len(shadow.tokens))
        self.count("resumed")

    # --- checks -----------------------------------------------------------------------------------

    def inspect(self) -> None:
        """A live request equals one that runs alone."""
        shadow = self.any_shadow()
        if shadow is not None:
            self.log(f"inspect {shadow.id}")
            self.expect_right(shadow, self.scheduler.record(shadow.id))

    def call_wrongly(self) -> None:
        self.log("call_wrongly")
        expect_refusals(self.scheduler, self.random, 6)

    def explain(self) -> None:
        seen = [i for group in self.scheduler.explain() for i in group.request_ids]
        assert sorted(seen, key=str) == sorted(self.scheduler.request_ids, key=str)

    def rank(self) -> None:
        """The best siblings are those with the greatest sum of logprobs."""
        ended = [s for s in self.finished.values() if isinstance(s, Shadow) and s.siblings]
        for shadow in ended[:1]:
            if not all(i in self.finished for i in shadow.siblings):
                return
            records = {i: self.scheduler.record(i) for i in shadow.siblings}
            ranked = sorted(
                shadow.siblings,
                key=lambda i: (records[i].error is not None, -(records[i].cumulative_logprob or 0.0)),
            )
            assert self.scheduler.best(shadow.siblings) == ranked[: shadow.order.params.n]
            self.count("groups ranked")

    def clear(self) -> None:
        """Remove everything; nothing may remain."""
        for request_id in list(self.finished):
            self._forget(request_id)
        for request_id in list(self.intruders):
            self.scheduler.remove(request_id)
        self.intruders.clear()
        while live := self.scheduler.request_ids:
            if live[0] in self.searches:
                self.scheduler.remove(live[0])
                self.break_off(self.searches[live[0]], live[0])
            else:
                self._abort(self.shadows.pop(live[0]))
        for request_id in list(self.finished):
            self._forget(request_id)
        known = list(self.scheduler._requests.known)
        assert not known, f"{known} are still known"
        assert LISTENER.added == LISTENER.finished, "an observer was called wrongly"
        assert set(LISTENER.added.values()) <= {1}
        assert not self.scheduler._requests.slots._watchers.any()
        expect_sound(self.scheduler)


WEIGHTS = {
    "step": 50, "add": 14, "accept": 8, "rollback": 14, "fork": 5, "resume": 2, "prepare": 3, "remove": 5,
    "inspect": 2, "intrude": 3, "call_wrongly": 2, "explain": 1, "rank": 1,
}  # fmt: skip
"""The relative frequency of each operation."""


def main(arguments: list[str] | None = None) -> int:
    """Run episodes until the time is over; returns the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seconds", type=float, default=60.0, help="how long")
    parser.add_argument("--seed", type=int, default=0, help="the first episode")
    parser.add_argument("--operations", type=int, default=OPERATIONS, help="operations per episode")
    parser.add_argument("--backend", choices=BACKENDS, help="default: by turns")
    options = parser.parse_args(arguments)
    start = reported = time.monotonic()
    counts: Counter[str] = Counter()
    episode, failures = options.seed, 0
    while time.monotonic() - start < options.seconds or episode == options.seed:
        try:
            with plugins():
                counts += Chaos(episode, options.backend).run(options.operations)
        except ChaosFailure as failure:
            failures += 1
            print(failure, flush=True)
        episode += 1
        if time.monotonic() - reported > REPORT_EVERY:
            reported = time.monotonic()
            print(_report(counts, episode - options.seed, reported - start, failures), flush=True)
    print(_report(counts, episode - options.seed, time.monotonic() - start, failures), flush=True)
    return 1 if failures else 0


def _report(counts: Counter[str], episodes: int, seconds: float, failures: int) -> str:
    done = ", ".join(f"{n:,} {what}" for what, n in sorted(counts.items()))
    return f"{seconds / 60:.1f} minutes, {episodes:,} episodes: {done}; {failures} failures"


if __name__ == "__main__":
    logging.getLogger("engine_sampler").setLevel(logging.CRITICAL)  # faults are intended here
    sys.exit(main())
