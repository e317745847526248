"""Tokens do not depend on threads, on the batch, on the order of its rows, or on the process."""

from __future__ import annotations

import contextlib
import json
import os
import warnings
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from engine_sampler import ParameterError, SamplingParams, Scheduler
from tests.native.comparing import instruction_sets, random_block, times
from tests.random_chains import random_history, random_settings, tokenizer

SIZE = 300
THREADS = (1, 2, 8)
Tokens = list[list[int]]


class Crowd:
    """n random requests and their logits for some steps; the same for the same numbers."""

    def __init__(self, seed: int, n: int, steps: int) -> None:
        random = np.random.default_rng([seed, n])
        kinds = [self._params(random) for _ in range(min(n, 12))]
        self.n = n
        self.params = [kinds[i % len(kinds)].replace(seed=i) for i in range(n)]
        self.prompts = [random_history(random, SIZE) for _ in range(n)]
        self.logits = [random_block(random, n, SIZE, faults=0.01) for _ in range(steps)]

    @staticmethod
    def _params(random: np.random.Generator) -> SamplingParams:
        while True:
            with contextlib.suppress(ParameterError):
                return SamplingParams(**random_settings(random, SIZE, without=("infill",)))

    def join(self, backend: Any, num_threads: int = 1) -> Scheduler:
        scheduler = Scheduler(SIZE, tokenizer(SIZE), backend=backend, num_threads=num_threads)
        for i in range(self.n):
            scheduler.add(self.params[i], self.prompts[i], request_id=i)
        return scheduler

    def walk(self, scheduler: Scheduler, steps: slice = slice(None), shuffled: int | None = None) -> Tokens:
        """Token ids of every request in each step, −1 where it has ended."""
        random = None if shuffled is None else np.random.default_rng(shuffled)
        tokens = []
        for rows in self.logits[steps]:
            live = scheduler.request_ids
            if random is not None:
                live = [live[i] for i in random.permutation(len(live))]
            drawn = np.full(self.n, -1)
            if live:
                drawn[live] = scheduler.step(rows[live], live).token_ids
            tokens.append(drawn.tolist())
        return tokens


@pytest.mark.parametrize("num_threads", THREADS)
@pytest.mark.parametrize("n", [1, 2, 7, 64, 200, 512])
def test_any_number_of_threads_gives_the_tokens_of_numpy(n: int, num_threads: int) -> None:
    for seed in range(times(2) if n < 100 else 1):
        crowd = Crowd(seed, n, 3)
        expected = crowd.walk(crowd.join("numpy"))
        for isa, backend in instruction_sets().items():
            assert crowd.walk(crowd.join(backend, num_threads)) == expected, isa


@pytest.mark.parametrize("num_threads", THREADS)
def test_the_order_of_the_rows_does_not_matter(num_threads: int) -> None:
    crowd = Crowd(5, 64, 4)
    expected = crowd.walk(crowd.join("numpy"))
    for isa, backend in instruction_sets().items():
        assert crowd.walk(crowd.join(backend, num_threads), shuffled=num_threads) == expected, isa


@pytest.mark.parametrize("num_threads", [1, 2])
def test_every_request_draws_alone_as_in_company(num_threads: int) -> None:
    crowd = Crowd(6, 24, 3)
    for backend in instruction_sets().values():
        together = crowd.walk(crowd.join(backend, num_threads))
        scheduler = crowd.join(backend, num_threads)
        for step, rows in enumerate(crowd.logits):
            for i in scheduler.request_ids:
                assert scheduler.step(rows[[i]], [i]).token_ids.tolist() == [together[step][i]]


def test_schedulers_in_several_threads_share_a_backend() -> None:
    crowds = [Crowd(seed, 40, 6) for seed in range(4)]
    expected = [crowd.walk(crowd.join("numpy")) for crowd in crowds]
    for backend in instruction_sets().values():
        with ThreadPoolExecutor(4) as pool:
            walks = [pool.submit(crowd.walk, crowd.join(backend, 2)) for crowd in crowds]
            assert [walk.result(timeout=60) for walk in walks] == expected


def in_a_child(work: Any) -> Any:
    """What `work` gives in a forked process."""
    ours, theirs = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forks beside threads: that is the point
        child = os.fork()
    if not child:
        code = 1
        try:
            os.close(ours)
            with open(theirs, "w") as pipe:
                json.dump(work(), pipe)
            code = 0
        finally:
            os._exit(code)
    os.close(theirs)
    with open(ours) as pipe:
        text = pipe.read()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    return json.loads(text)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
@pytest.mark.parametrize("num_threads", THREADS)
def test_a_forked_process_goes_on_as_its_parent_does(num_threads: int) -> None:
    crowd = Crowd(8, 64, 6)
    expected = crowd.walk(crowd.join("numpy"))
    for backend in instruction_sets().values():
        scheduler = crowd.join(backend, num_threads)
        assert crowd.walk(scheduler, slice(2)) == expected[:2]
        assert in_a_child(lambda s=scheduler: crowd.walk(s, slice(2, 6))) == expected[2:]
        assert in_a_child(lambda b=backend: crowd.walk(crowd.join(b, num_threads))) == expected
        assert crowd.walk(scheduler, slice(2, 6)) == expected[2:]
