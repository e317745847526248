"""Random requests on devices of random kinds, whose calls fail at random: the tokens are NumPy's."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from sim_twins import VOCAB, Twins

from engine_sampler import BackendError
from tests.random_chains import ROUNDS, random_settings

CALLS = ("allocate", "pinned", "event", "record", "copy", "launch", "prepare", "execute", "poll", "wait")
CALLS += ("copying", "working")
CODES = ("SIM_FAILED", "SIM_NO_MEMORY")


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def random_kind(random: np.random.Generator) -> dict[str, Any]:
    """Settings of the library: what it runs, its limits and its ways."""
    kind: dict[str, Any] = {
        "max_rows": int(random.choice([0, 0, 1, 2, 4])),
        "max_top_k": int(random.choice([0, 0, 10, 50])),
        "max_survivors": int(random.choice([8, 30, 1024])),
        "alignment": int(random.choice([0, 0, 4, 16])),
        "synchronous": int(random.random() < 0.2),
        "without": int(random.choice([0, 0, 1, 8, 16])),
        "ties": int(random.random() < 0.2),
        "random": int(random.random() < 0.2),
    }
    if random.random() < 0.4:
        kind["samplers"] = int(random.integers(1 << 22)) & ~1
    if random.random() < 0.3:
        kind["selectors"] = int(random.integers(32))
    return kind


def change_requests(twins: Twins, random: np.random.Generator, seed: int) -> None:
    """A request joins, leaves, is forked, or gets tokens from elsewhere, in both schedulers."""
    ids = twins.own.request_ids
    request_id = ids[int(random.integers(len(ids)))] if ids else None
    choice = int(random.integers(5))
    if request_id is None or choice == 0 or len(ids) < 3:
        settings = random_settings(random, VOCAB)
        twins.add(settings, seed)
    elif choice == 1:
        twins.on_both(lambda scheduler: scheduler.remove(request_id))
    elif choice == 2:
        tokens = random.integers(1, VOCAB, 2).tolist()
        twins.on_both(lambda scheduler: scheduler.accept(request_id, tokens))
    elif choice == 3:
        twins.on_both(lambda scheduler: scheduler.prepare())


HALVES: tuple[Any, ...] = (None, None, lambda begun: None, lambda begun: begun.give_up())
"""Steps as a whole, in halves, and begun in vain."""


def survive(step: Callable[..., None], values: np.ndarray, half: Any) -> None:
    """A step, repeated if the library gives it up by an error."""
    try:
        step(values, half=half)
    except BackendError:
        step(values, only_own=True)


@pytest.mark.quick_share(3)
@pytest.mark.parametrize("seed", range(6 * ROUNDS))
def test_random_requests_end_with_the_tokens_of_the_reference(device: Any, seed: int) -> None:
    random = np.random.default_rng(seed)
    device.configure(**random_kind(random))
    # Where the library fails to read rows, NumPy must be able to: it has no bfloat16.
    dtype = str(random.choice(["float32", "float16"]))
    twins = Twins(device, [random_settings(random, VOCAB) for _ in range(4)], dtype=dtype)
    device.keeps_memory = True
    for number in range(12):
        if random.random() < 0.4:
            call, code = str(random.choice(CALLS)), str(random.choice(CODES))
            device.fail(call, code, skip=int(random.integers(12)), times=int(random.integers(1, 4)))
        if ids := twins.own.request_ids:
            survive(twins.step, twins.logits(len(ids)), HALVES[int(random.integers(len(HALVES)))])
        change_requests(twins, random, 1000 + number)
