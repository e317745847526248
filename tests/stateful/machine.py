"""Random operations on a scheduler, under every law, as a state machine of Hypothesis.

A run is one scheduler with many requests of every kind: add, step (any requests in any order, with and
without drafts, right and wrong), accept, rollback, fork, resume, move, remove, faulty rows, faulty plugins,
wrong calls. Each request has a shadow, which computes the expected text, end and logprobs from its tokens
alone. A request that has ended, or that is inspected, is run again alone on another backend, without the
other operations and without the requests whose plugins misbehave. What Hypothesis finds, it repeats with
fewer operations, fewer settings of each request and smaller seeds.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable

from hypothesis import note
from hypothesis import strategies as st
from hypothesis.stateful import rule

from engine_sampler.arithmetic import child_seed
from engine_sampler.testing.search.machine import EVENTS, SEEDS

from .beams import Search
from .checks import REFUSALS, expect_refusals, expect_sound
from .faulty import faulty_request
from .plugins import LISTENER
from .shadow import Shadow, Token, child_order
from .steps import Steps
from .workload import Order, group_params

MASKS = st.integers(0, 2**48 - 1)


class SchedulerMachine(Steps):
    """One scheduler, and what happens to it."""

    events = (
        ("step",) * 50 + ("add", "rollback") * 14 + ("accept",) * 8 + ("fork", "remove") * 5
        + ("prepare", "add_faulty") * 3 + ("resume", "inspect", "move", "call_wrongly") * 2
    )  # fmt: skip

    def begin(self) -> None:
        LISTENER.forget()

    @rule(event=EVENTS, seed=SEEDS, masks=MASKS)
    def happen(self, event: str, seed: int, masks: int = 0) -> None:
        """One of the events; a new request has the settings that one of three masks of 16 bits keeps, thus
        most."""
        self.kept = masks | masks >> 16 | masks >> 32
        super().happen(event, seed)

    # --- requests join and leave ------------------------------------------------------------------

    def add(self) -> None:
        for _ in range(8 if self.crowded else 1):
            if not self.is_full:
                self._add(self.random_order())

    def _add(self, order: Order) -> None:
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

    def add_faulty(self) -> None:
        """Add a request whose plugins misbehave at random, and use it."""
        if self.is_full:
            return
        seed = int(self.random.integers(1 << 30))
        self.log(f"add a faulty request {seed}")
        with contextlib.suppress(*REFUSALS, MemoryError):
            request_id = self.scheduler.add(**faulty_request(seed))
            self.faulty.add(request_id)
            for call in (
                lambda: self.scheduler.accept(request_id, [3, 4]),
                lambda: self.scheduler.rollback(request_id, 1),
                lambda: self.scheduler.forced_tokens(request_id),
                lambda: self.faulty.add(self.scheduler.fork(request_id)),
            ):
                with contextlib.suppress(*REFUSALS, MemoryError):
                    call()

    def fork(self) -> None:
        parent = self.any_shadow()
        if parent is None or self.is_full:
            return
        seed = None if self.chance(0.5) else int(self.random.integers(2**63))
        self.log(f"fork {parent.id} with seed {seed}")
        request_id = self.scheduler.fork(parent.id, seed=seed)
        self.shadows[request_id] = parent.fork(request_id, seed)

    def resume(self) -> None:
        """Add a request that begins with the output of another, and must continue like it."""
        other = self.any_shadow()
        if other is None or self.is_full or not other.can_resume:
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

    def move(self) -> None:
        """Take a request out as JSON, and add that again: it continues as if it had stayed."""
        shadow = self.any_shadow()
        if shadow is None or shadow.order.criteria or shadow.order.params.logits_processors:
            return  # objects begin anew, or cannot be written
        self.log(f"move {shadow.id}")
        state = json.loads(json.dumps(self.scheduler.export(shadow.id)))
        self.scheduler.remove(self.shadows.pop(shadow.id).id)
        extras = shadow.order.extras() if state["needs_grammar"] else {}
        shadow.id = self.scheduler.add_exported({**state, "request_id": None}, **extras)
        self.shadows[shadow.id] = shadow

    def remove(self) -> None:
        if self.finished and self.chance(0.7):
            self._forget(list(self.finished)[self.random.integers(len(self.finished))])
        elif live := self.scheduler.request_ids:
            self._break_off(live[self.random.integers(len(live))])

    def _break_off(self, request_id: object) -> None:
        """Remove a live request."""
        self.log(f"remove {request_id}")
        if request_id in self.shadows:
            shadow = self.shadows.pop(request_id)
            shadow.record = self.scheduler.remove(request_id)
            assert shadow.record.finish_reason == ("error" if shadow.cause else "abort")
            self.expect_right(shadow, shadow.record)
            return
        self.scheduler.remove(request_id)
        self.faulty.discard(request_id)
        if request_id in self.searches:
            self.break_off(self.searches[request_id], request_id)

    def _forget(self, request_id: object) -> None:
        ended = self.finished.pop(request_id)
        record = self.scheduler.remove(request_id)
        if isinstance(ended, Shadow):
            assert record == ended.record, "the record of a finished request has changed"

    # --- checks -----------------------------------------------------------------------------------

    def inspect(self) -> None:
        """A live request equals one that runs alone."""
        shadow = self.any_shadow()
        if shadow is not None:
            self.log(f"inspect {shadow.id}")
            self.expect_right(shadow, self.scheduler.record(shadow.id))

    def call_wrongly(self) -> None:
        expect_refusals(self.scheduler, self.random, 6)

    def call(self, event: Callable[[], None]) -> None:
        event()
        self._expect_known()
        self._expect_ranks()

    def _expect_known(self) -> None:
        """Every live request is one of ours, and nothing else is kept."""
        live = self.scheduler.request_ids
        for request_id in self.faulty - set(live):  # it has ended
            self.scheduler.remove(request_id)
            self.faulty.discard(request_id)
        known = self.scheduler._requests.known
        assert live == [i for i in known if i in self.shadows or i in self.searches or i in self.faulty]
        seen = [i for group in self.scheduler.explain() for i in group.request_ids]
        assert sorted(seen, key=str) == sorted(live, key=str)
        if len(self.happened) % 5 == 0:
            expect_sound(self.scheduler)

    def _expect_ranks(self) -> None:
        """The best siblings are those with the greatest sum of logprobs."""
        ended = [s for s in self.finished.values() if isinstance(s, Shadow) and s.siblings]
        for shadow in ended:
            if all(i in self.finished for i in shadow.siblings):
                records = {i: self.scheduler.record(i) for i in shadow.siblings}
                ranked = sorted(
                    shadow.siblings,
                    key=lambda i: (records[i].error is not None, -(records[i].cumulative_logprob or 0.0)),
                )
                assert self.scheduler.best(shadow.siblings) == ranked[: shadow.order.params.n]

    def teardown(self) -> None:
        """Remove everything, unless a law is broken already; nothing may remain."""
        note("\n".join(self.happened))
        if self.problems:
            return
        while live := self.scheduler.request_ids:
            self._break_off(live[0])
        for request_id in list(self.finished):
            self._forget(request_id)
        known = list(self.scheduler._requests.known)
        assert not known, f"{known} are still known"
        assert LISTENER.added == LISTENER.finished, "an observer was called wrongly"
        assert set(LISTENER.added.values()) <= {1}
        assert not self.scheduler._requests.slots._watchers.any()
        expect_sound(self.scheduler)
