"""Random operations on requests whose text may be taken back: bans, and prompts whose last token is healed.

What such a request is follows from its log alone. After any operations, in any company, one that is exported
and added again, on another backend, is as it is here, and continues with the same tokens.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from engine_sampler import Scheduler, StepResult
from engine_sampler.registry import default_registry
from engine_sampler.stateless import logprobs

from ..interruptions.injecting import Injection
from ..interruptions.scenes import facts
from .checks import expect_sound
from .shadow import TOLERANCE
from .state import State
from .steps import MOST_DRAFTS, Tree, branched, branches
from .workload import PATTERNS, STOPS, STRUCTURES, Order, model_row

LIKELY = ("a", "b", "ab", "ba", "abc", "aa", "bb", "é", "B", "c", "d", "1", "€b", "b a")
"""Texts that come often."""


UNSTRUCTURED = {
    name: default_registry().catalogue.params[name].neutral for settings in STRUCTURES for name in settings
}
"""No grammar, which prompts are not healed beside."""


@dataclass
class Cached:
    """What an engine has of a request: its tokens in the cache, and the text that it has sent.

    kept    how many tokens of the output may not be taken back any more.
    joined  whether no rollback has undone what was sent.
    """

    id: Any
    order: Order
    prompt: tuple[int, ...]
    output: list[int] = field(default_factory=list)
    sent: str = ""
    kept: int = 0
    joined: bool = True

    def row(self, drafts: Sequence[int] = ()) -> np.ndarray:
        return model_row([*self.prompt, *self.output, *drafts])


class RewindingMachine(State):
    """One scheduler, and what happens to its requests."""

    events = (
        ("step",) * 40 + ("add", "rollback") * 6 + ("accept", "fork", "move") * 4 + ("suspend", "resume") * 2
        + ("remove", "prepare", "score") * 2 + ("inspect",) * 8
    )  # fmt: skip

    def begin(self) -> None:
        self.kept = 0xFFFF
        self.cached: dict[Any, Cached] = {}
        self.suspended: dict[Any, Cached] = {}

    # --- requests join and leave ------------------------------------------------------------------

    def add(self) -> None:
        if self.is_full:
            return
        order = self._order()
        self.log(f"add {order}")
        request_id = self.scheduler.add(order.params, order.prompt, position=order.position)
        assert not self.scheduler.wait_ready(0)  # its grammar is compiled
        self._enter(request_id, order)

    def _enter(self, request_id: Any, order: Order) -> None:
        self.cached[request_id] = Cached(
            request_id, order, tuple(self.scheduler.record(request_id).prompt_token_ids)
        )

    def _order(self) -> Order:
        """A random request without objects of its own, most of them with bans, some with a healed token."""
        order = replace(self.random_order(), grammar=None, criteria=())
        settings: dict[str, Any] = {
            "order": "llama.cpp",
            "max_tokens": int(self.random.integers(4, 40)),
            "logits_processors": (),
        }
        if self.chance(0.8):
            settings["banned_strings"] = self._some((*LIKELY, *STOPS), 4)
        if self.chance(0.3):
            settings["banned_regex"] = self._some(list(PATTERNS), 2)
        if self.chance(0.3):
            settings["prompt_logprobs"] = 2
        if order.prompt and self.chance(0.3):
            settings |= {**UNSTRUCTURED, "phases": (), "token_healing": True}
        return replace(order, params=order.params.replace(**settings))

    def _some(self, values: Sequence[str], most: int) -> list[str]:
        return [str(value) for value in self.random.choice(values, int(self.random.integers(1, most + 1)))]

    def _any(self) -> Cached | None:
        known = list(self.cached.values())
        return known[self.random.integers(len(known))] if known else None

    def fork(self) -> None:
        parent = self._any()
        if parent is None or self.is_full:
            return
        seed = None if self.chance(0.5) else int(self.random.integers(2**63))
        self.log(f"fork {parent.id} with seed {seed}")
        request_id = self.scheduler.fork(parent.id, seed=seed)
        self.cached[request_id] = replace(parent, id=request_id, output=[*parent.output])

    def move(self) -> None:
        """Take a request out as JSON, and add that again."""
        cached = self._any()
        if cached is None:
            return
        self.log(f"move {cached.id}")
        state = json.loads(json.dumps(self.scheduler.export(cached.id)))
        del self.cached[cached.id]
        self.scheduler.remove(cached.id)
        cached.id = self.scheduler.add_exported({**state, "request_id": None})
        self.cached[cached.id] = cached

    def suspend(self) -> None:
        if (cached := self._any()) is not None:
            self.log(f"suspend {cached.id}")
            self.scheduler.suspend(cached.id)
            self.suspended[cached.id] = self.cached.pop(cached.id)

    def resume(self) -> None:
        for request_id, cached in self.suspended.items():
            self.log(f"resume {request_id}")
            self.scheduler.resume(request_id)
            self.cached[request_id] = cached
        self.suspended = {}

    def remove(self) -> None:
        if (cached := self._any()) is not None:
            self.log(f"remove {cached.id}")
            del self.cached[cached.id]
            self.scheduler.remove(cached.id)

    def score(self) -> None:
        """Some more rows of a prompt are scored, as they are without a request."""
        cached = self._any()
        scoring = None if cached is None else self.scheduler._requests.known[cached.id].prompt_scoring
        if cached is None or scoring is None or scoring.done + 1 >= len(cached.prompt):
            return
        first = scoring.done
        end = first + int(self.random.integers(1, len(cached.prompt) - first))
        rows = np.stack([model_row(cached.prompt[: i + 1]) for i in range(first, end)])
        self.log(f"score rows {first} to {end} of {cached.id}")
        found = self.scheduler.score_prompt(cached.id, rows)
        expected = logprobs(rows, cached.prompt[first + 1 : end + 1], 2)
        assert found.start == first
        assert found.logprobs is not None
        assert found.logprobs.token_ids.tolist() == expected.token_ids.tolist()
        np.testing.assert_allclose(found.logprobs.logprobs, expected.logprobs, rtol=TOLERANCE, atol=TOLERANCE)

    # --- tokens -----------------------------------------------------------------------------------

    def prepare(self) -> None:
        self.scheduler.prepare()

    def accept(self) -> None:
        cached = self._any()
        if cached is None:
            return
        row = self.scheduler.process(cached.row()[None], [cached.id])[0]
        if np.isnan(row).all():  # nothing is left, and nothing gives way before a step
            return
        tokens = self.scheduler.forced_tokens(cached.id) or [int(row.argmax())]
        self.log(f"{cached.id} accepts {tokens}")
        self.scheduler.accept(cached.id, tokens)
        self._follow_record(cached)

    def rollback(self) -> None:
        cached = self._any()
        if cached is None:
            return
        n = int(self.random.integers(0, min(len(cached.output), 6) + 1))
        self.log(f"roll {cached.id} back by {n}")
        self.scheduler.rollback(cached.id, n)
        cached.joined = cached.joined and not n
        cached.kept = 0
        self._follow_record(cached)

    def _follow_record(self, cached: Cached) -> None:
        record = self.scheduler.record(cached.id)
        cached.output = [*record.token_ids]
        cached.joined = (
            cached.joined and cached.id in self.scheduler.request_ids
        )  # a step tells no more of it
        self._leave(cached)

    def _leave(self, cached: Cached) -> None:
        if cached.id not in self.scheduler.request_ids:
            del self.cached[cached.id]
            self.scheduler.remove(cached.id)

    def step(self) -> None:
        ids = [i for i in self.scheduler.request_ids if self.chance(0.7)]
        if not ids:
            return
        trees = [self._tree(self.cached[i]) if self.chance(0.4) else ([], []) for i in ids]
        rows = np.stack(
            [row for i, tree in zip(ids, trees, strict=True) for row in _rows(self.cached[i], tree)]
        )
        chains = {i: tree[0] for i, tree in zip(ids, trees, strict=True) if not branches(tree)}
        branching = {i: tree for i, tree in zip(ids, trees, strict=True) if branches(tree)}
        self.log(f"step {ids} with {chains} and {branching}")
        result = self._stepped(rows, ids, chains, branching)
        assert result.request_ids == ids
        for i, request_id in enumerate(ids):
            self._follow(self.cached[request_id], result, i)

    def _stepped(self, rows: np.ndarray, ids: list[Any], chains: Any, trees: Any) -> StepResult:
        """A step, begun and finished or at once; some are interrupted, and are then done or not."""

        def step() -> StepResult:
            if self.random.random() < 0.3:
                return self.scheduler.begin(rows, ids, chains, draft_trees=trees).finish()
            return self.scheduler.step(rows, ids, chains, draft_trees=trees)

        if not self.chance(0.1):
            return step()
        before = facts(self.scheduler)
        injection = Injection(KeyboardInterrupt, int(10 ** self.random.uniform(0, 4)))
        result = injection.during(lambda: self.scheduler.step(rows, ids, chains, draft_trees=trees))
        if injection.where is None:
            return result
        self.log(f"interrupted at {injection.where}")
        if facts(self.scheduler) == before:
            return step()
        done = self.scheduler.last_result
        assert done is not None
        return done

    def _tree(self, cached: Cached) -> Tree:
        """Guesses: those of the drafters, or of the model, right or wrong; a chain, or a tree."""
        chain: list[int] = []
        if self.chance(0.3):
            chain = self.scheduler.draft([cached.id], MOST_DRAFTS, ("grammar", "ngram")).get(cached.id, [])
        elif self.chance(0.5):
            chain = self._draws_of_fork(cached)
        while len(chain) < int(self.random.integers(0, MOST_DRAFTS + 1)):
            chain.append(int(cached.row(chain).argmax()))
        return branched(self.random, chain)

    def _draws_of_fork(self, cached: Cached) -> list[int]:
        fork = self.scheduler.fork(cached.id)
        tokens = [token for result in _steps(self.scheduler, fork, 3) for token in result.tokens(0)]
        self.scheduler.remove(fork)
        return tokens

    def _follow(self, cached: Cached, result: StepResult, i: int) -> None:
        """What a step says of a request, as an engine takes it."""
        back = result.rewinds[i] if result.rewinds else 0
        assert len(cached.output) - back >= cached.kept, "text that cannot be taken back is taken back"
        cached.output = [*cached.output[: len(cached.output) - back], *result.tokens(i)]
        cached.sent += result.text[i] or ""
        record = self.scheduler.record(cached.id)
        assert record.token_ids == cached.output, "the tokens in the cache are others"
        assert not cached.joined or record.text == cached.sent, (
            f"it has sent {cached.sent!r} of {record.text!r}"
        )
        withheld = result.withheld[i] if result.withheld else 0
        cached.kept = max(cached.kept, len(cached.output) - withheld)
        self._leave(cached)

    # --- checks -----------------------------------------------------------------------------------

    def inspect(self) -> None:
        """A request is as one that is made from its log."""
        cached = self._any()
        if cached is None:
            return
        self.log(f"inspect {cached.id}")
        twin = self.another()
        twin.add_exported(json.loads(json.dumps(self.scheduler.export(cached.id))), request_id="twin")
        here, there = told(self.scheduler, cached.id), told(twin, "twin")
        assert here == there, f"from its log it is {there}, here {here}"
        fork = self.scheduler.fork(cached.id)
        futures = [_outcomes(scheduler, i) for scheduler, i in ((self.scheduler, fork), (twin, "twin"))]
        self.scheduler.remove(fork)
        assert futures[0] == futures[1], (
            f"from its log it continues with {futures[1]}, here with {futures[0]}"
        )

    def call(self, event: Any) -> None:
        event()
        assert set(self.scheduler.request_ids) == set(self.cached)
        if len(self.happened) % 5 == 0:
            expect_sound(self.scheduler)


def told(scheduler: Scheduler, request_id: Any) -> list[Any]:
    """What is known of a live request."""
    request = scheduler._requests.known[request_id]
    record, slots, bans = request.record(), scheduler._requests.slots, request.bans
    facts = [record.token_ids, record.text, record.prompt_token_ids, record.seed, record.cumulative_logprob]
    facts += [int(slots.positions[request.slot]), request.withheld, request.is_masked]
    return facts + ([] if bans is None else [bans.certain, bans.draws, bans.banned, bans.rewinds, bans._ends])


def _rows(cached: Cached, tree: Tree) -> list[np.ndarray]:
    paths: list[list[int]] = [[]]
    for token, parent in zip(*tree, strict=True):
        paths.append([*paths[parent + 1], token])
    return [cached.row(path) for path in paths]


def _steps(scheduler: Scheduler, request_id: Any, count: int) -> list[StepResult]:
    """Some steps of one request."""
    results = []
    while len(results) < count and request_id in scheduler.request_ids:
        record = scheduler.record(request_id)
        row = model_row([*record.prompt_token_ids, *record.token_ids])
        results.append(scheduler.step(row[None], [request_id]))
    return results


def _outcomes(scheduler: Scheduler, request_id: Any) -> list[Any]:
    return [
        (
            cached.tokens(0),
            cached.text,
            cached.finish_reasons,
            cached.stop_reasons,
            cached.errors,
            cached.rewinds,
            cached.withheld,
        )
        for cached in _steps(scheduler, request_id, 6)
    ]
