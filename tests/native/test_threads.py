"""Tokens do not depend on threads, on the batch, on the order of its rows, or on the process."""

from __future__ import annotations

import contextlib
import functools
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


class RandomRequests:
    """n random requests and their logits for some steps; the same for the same arguments."""

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

    def run_steps(
        self, scheduler: Scheduler, steps: slice = slice(None), shuffled: int | None = None
    ) -> Tokens:
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


@functools.cache
def on_numpy(seed: int, n: int, steps: int) -> tuple[RandomRequests, Tokens]:
    """Requests, and their tokens with NumPy."""
    requests = RandomRequests(seed, n, steps)
    return requests, requests.run_steps(requests.join("numpy"))


@pytest.mark.quick_share(3)
@pytest.mark.parametrize("num_threads", THREADS)
@pytest.mark.parametrize("n", [1, 2, 7, 64, 200, 512])
def test_any_number_of_threads_gives_the_tokens_of_numpy(n: int, num_threads: int) -> None:
    for seed in range(times(2) if n < 100 else 1):
        requests, expected = on_numpy(seed, n, 3)
        for isa, backend in instruction_sets().items():
            assert requests.run_steps(requests.join(backend, num_threads)) == expected, isa


@pytest.mark.parametrize("num_threads", THREADS)
def test_the_order_of_the_rows_does_not_matter(num_threads: int) -> None:
    requests, expected = on_numpy(5, 64, 4)
    for isa, backend in instruction_sets().items():
        assert requests.run_steps(requests.join(backend, num_threads), shuffled=num_threads) == expected, isa


@pytest.mark.parametrize("num_threads", [1, 2])
def test_every_request_draws_the_same_tokens_alone_and_in_a_batch(num_threads: int) -> None:
    requests = RandomRequests(6, 24, 3)
    for backend in instruction_sets().values():
        together = requests.run_steps(requests.join(backend, num_threads))
        scheduler = requests.join(backend, num_threads)
        for step, rows in enumerate(requests.logits):
            for i in scheduler.request_ids:
                assert scheduler.step(rows[[i]], [i]).token_ids.tolist() == [together[step][i]]


def test_schedulers_in_several_threads_share_a_backend() -> None:
    request_sets, expected = zip(*(on_numpy(seed, 40, 6) for seed in range(4)), strict=True)
    for backend in instruction_sets().values():
        with ThreadPoolExecutor(4) as pool:
            runs = [pool.submit(requests.run_steps, requests.join(backend, 2)) for requests in request_sets]
            assert [run.result(timeout=60) for run in runs] == list(expected)


def in_a_child(work: Any) -> Any:
    """The result of `work` in a forked process."""
    ours, theirs = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of forks while threads run: that is the test
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
def test_a_forked_process_continues_as_its_parent_does(num_threads: int) -> None:
    requests, expected = on_numpy(8, 64, 6)
    for backend in instruction_sets().values():
        scheduler = requests.join(backend, num_threads)
        assert requests.run_steps(scheduler, slice(2)) == expected[:2]
        assert in_a_child(lambda s=scheduler: requests.run_steps(s, slice(2, 6))) == expected[2:]
        assert in_a_child(lambda b=backend: requests.run_steps(requests.join(b, num_threads))) == expected
        assert requests.run_steps(scheduler, slice(2, 6)) == expected[2:]
