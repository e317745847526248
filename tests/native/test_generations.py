"""Whole generations are equal whichever backend samples: native, NumPy, or both by turns."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
import pytest

from engine_sampler import SamplingParams, Scheduler, StepResult
from engine_sampler.backends.library import LibraryBackend
from engine_sampler.base.packaged import library_path
from engine_sampler.contract import Backend, Batch
from tests.engines import CONFIGURATIONS, VOCAB, ToyMatcher, make_scheduler, model_step, outcome, rows_for
from tests.native.comparing import NUMPY, instruction_sets, times

GRAMMAR = {
    "start": {0: "start", 1: "b", 2: "start", 7: "b"},
    "b": {3: "start", 9: "start", 30: "b", 39: "end"},
}


class ByTurns(Backend):
    """Uses another backend in every step."""

    name = "by_turns"

    def __init__(self, backends: Iterable[Any]) -> None:
        self._backends = itertools.cycle(backends)

    def supports(self, sampler: Any) -> bool:
        return True

    def compile(self, chain: Any) -> Any:
        return chain

    def run(self, batch: Batch) -> None:
        next(self._backends).run(batch)

    def apply(self, plan: Any, logits: np.ndarray, rows: Any) -> None:
        next(self._backends).apply(plan, logits, rows)

    def select(self, plan: Any, logits: np.ndarray, rows: Any) -> Any:
        return next(self._backends).select(plan, logits, rows)


class Generation:
    """A scheduler under random operations: the same for the same seed, as long as its tokens are the same."""

    def __init__(self, seed: int, backend: Any) -> None:
        self.random = np.random.default_rng(seed)
        self.scheduler: Scheduler = make_scheduler(backend=backend)
        self.names = itertools.count()
        self.seen: list[Any] = []
        """Everything observable from outside, except logprobs."""
        self.logprobs: list[np.ndarray] = []
        """The values of the logprobs, which are accurate to a few parts in 10^7."""
        for _ in range(6):
            self.add()

    def run(self, steps: int) -> list[Any]:
        """Run some steps with a random operation before each; returns everything observed so far."""
        operations: list[Callable[[], None]] = [
            self.add, self.add, self.remove, self.fork, self.rollback, self.accept, self.process
        ]  # fmt: skip
        for number in range(steps):
            operations[self.random.integers(len(operations))]()
            self.draw(drafts=number % 3 == 2)
        records = [self.scheduler.record(i) for i in list(self.scheduler._requests.known)]
        return [*self.seen, *((r.request_id, r.seed, *outcome(r)) for r in records)]

    def add(self) -> None:
        settings = CONFIGURATIONS[self.random.integers(len(CONFIGURATIONS))]
        params = SamplingParams(**settings, seed=int(self.random.integers(2**60)))
        prompt, output = (self.random.integers(0, 6, self.random.integers(0, 12)).tolist() for _ in range(2))
        masked = self.random.random() < 0.2 and not set(settings) & {"allowed_token_ids", "bad_words"}
        self.scheduler.add(
            params,
            prompt,
            request_id=next(self.names),
            output_token_ids=[] if masked else output,
            grammar=ToyMatcher(GRAMMAR) if masked else None,
        )

    def remove(self) -> None:
        if live := self.scheduler.request_ids:
            self.seen.append(outcome(self.scheduler.remove(self.any_of(live))))

    def fork(self) -> None:
        if live := self.scheduler.request_ids:
            seed = int(self.random.integers(2**60)) if self.random.random() < 0.5 else None
            self.scheduler.fork(self.any_of(live), new_request_id=next(self.names), seed=seed)

    def rollback(self) -> None:
        if live := self.scheduler.request_ids:
            name = self.any_of(live)
            have = len(self.scheduler.record(name).token_ids)
            self.scheduler.rollback(name, int(self.random.integers(0, have + 1)))

    def accept(self) -> None:
        unmasked = [
            i for i in self.scheduler.request_ids if self.scheduler._requests.known[i].grammar is None
        ]
        if unmasked:
            self.scheduler.accept(self.any_of(unmasked), self.random.integers(0, 6, 3).tolist())

    def process(self) -> None:
        if live := self.scheduler.request_ids:
            self.seen.append(self.scheduler.process(rows_for(self.scheduler, live)).tobytes())

    def draw(self, drafts: bool) -> None:
        live = self.scheduler.request_ids
        if not live:
            return
        guesses = None
        if drafts:
            guesses = [self.random.integers(0, VOCAB, self.random.integers(0, 3)).tolist() for _ in live]
        self.note(model_step(self.scheduler, live, guesses))

    def note(self, result: StepResult) -> None:
        tables = {"": None} if result.logprobs is None else result.logprobs.by_mode
        for mode, table in tables.items():
            if table is not None:
                self.seen.append((mode, table.token_ids.tolist(), table.ranks.tolist()))
                self.logprobs.append(table.logprobs)
        self.seen.append(
            (result.token_ids.tolist(), result.text, result.finish_reasons, result.errors, result.seeds)
        )

    def any_of(self, names: list[Any]) -> Any:
        return names[self.random.integers(len(names))]


STEPS = 25
Observed = tuple[list[Any], list[np.ndarray]]


@functools.cache
def on_numpy(seed: int) -> Observed:
    """What is observed of a generation on NumPy."""
    return observed(Generation(seed, NUMPY))


def observed(generation: Generation) -> Observed:
    """What is observed of a generation that runs on, and its logprobs."""
    return generation.run(STEPS), generation.logprobs


def expect_alike(found: Observed, expected: Observed) -> None:
    assert found[0] == expected[0]
    for values, right in zip(found[1], expected[1], strict=True):
        np.testing.assert_allclose(values, right, rtol=1e-5, atol=1e-5)


@pytest.mark.quick_share(2)
@pytest.mark.parametrize("seed", range(times(5)))
def test_generations_of_many_requests_are_equal(seed: int) -> None:
    for backend in instruction_sets().values():
        expect_alike(observed(Generation(seed, backend)), on_numpy(seed))


@pytest.mark.quick_share(2)
@pytest.mark.parametrize("seed", range(times(4)))
def test_backends_may_take_turns_within_a_generation(seed: int) -> None:
    turns = [*instruction_sets().values(), NUMPY]
    for backends in (turns, [NUMPY, NUMPY, turns[0]]):
        expect_alike(observed(Generation(seed, ByTurns(backends))), on_numpy(seed))


@pytest.mark.parametrize("steps", [1, 7])
def test_a_library_that_is_lost_on_the_way_leaves_the_same_text(steps: int) -> None:
    expected = Generation(9, NUMPY)
    expected.run(steps)
    path = library_path()
    assert path is not None
    backend = LibraryBackend(path)
    generation = Generation(9, backend)
    generation.run(steps)
    backend.lose("it has been lost")
    expect_alike(observed(generation), observed(expected))


@pytest.mark.quick_share(4)
@pytest.mark.parametrize("number", range(len(CONFIGURATIONS)))
def test_every_configuration_writes_the_same_text(number: int) -> None:
    def text(backend: Any) -> list[Any]:
        scheduler = make_scheduler(backend=backend)
        for seed in range(3):
            params = SamplingParams(**CONFIGURATIONS[number], seed=seed, max_tokens=30)
            scheduler.add(params, [1, 2, 1, 2, 1], output_token_ids=[seed])
        while scheduler.request_ids:
            model_step(scheduler)
        return [outcome(scheduler.record(i)) for i in range(3)]

    expected = text(NUMPY)
    for isa, backend in instruction_sets().items():
        assert text(backend) == expected, isa
    assert text(ByTurns([*instruction_sets().values(), NUMPY])) == expected


@pytest.mark.parametrize("num_threads", [1, 2])
def test_siblings_of_a_long_prompt_write_the_same_text(num_threads: int) -> None:
    """Their tables begin as copies, also for a sibling with other parameters and one that has an output."""
    random = np.random.default_rng(5)
    prompt = random.integers(0, VOCAB, 3000)
    heavy = {
        "repetition_penalty": 1.3,
        "frequency_penalty": 0.2,
        "dry_multiplier": 0.8,
        "no_repeat_ngram_size": 2,
    }
    texts = []
    for backend in ("native", NUMPY):
        scheduler = Scheduler(VOCAB, backend=backend, num_threads=num_threads)
        scheduler.add_group(SamplingParams(n=5, seed=1, max_tokens=99, **heavy), prompt)
        own = {**heavy, "repetition_penalty_range": 700, "penalty_scope": "output", "seed": 2}
        scheduler.add(SamplingParams(**own), prompt)
        scheduler.add(SamplingParams(seed=3, **heavy), prompt, output_token_ids=[1, 2, 3])
        random = np.random.default_rng(6)
        texts.append(
            [scheduler.step(random.normal(0, 2, (7, VOCAB)).astype(np.float32)).token_ids for _ in range(8)]
        )
    np.testing.assert_array_equal(*texts)
