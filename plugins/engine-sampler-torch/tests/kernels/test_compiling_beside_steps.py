"""Requests run in torch, with the same tokens, until the kernels of their chain are compiled."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
import torch
from engine_sampler_torch import TorchBackend
from engine_sampler_torch.running import compiling, fused
from recording import Graphs

from engine_sampler import SamplingParams, Scheduler

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # the interpreter's, for NaN

SIZE, ROWS = 100, 3
CHAIN: dict[str, Any] = {"temperature": 0.8, "top_k": 9, "top_p": 0.95}
Works = list[Callable[[], None]]


@pytest.fixture(autouse=True)
def works(monkeypatch: pytest.MonkeyPatch) -> Iterator[Works]:
    """What waits to be compiled: by the test, when it likes. Kernels run on the host."""
    waiting: Works = []
    monkeypatch.setattr(fused, "DEVICE_TYPES", ["cpu"])
    monkeypatch.setattr(fused, "COMPILED_TYPES", ["cpu"])
    monkeypatch.setattr(compiling.Compilations, "start", lambda self, work: waiting.append(work))
    fused.kernels_for.cache_clear()
    fused.compilations_for.cache_clear()
    fused.compilations_for(torch.device("cpu")).note(fused.CHECK)
    yield waiting
    fused.kernels_for.cache_clear()
    fused.compilations_for.cache_clear()


class Both:
    """The same requests on torch and on NumPy."""

    def __init__(self, **settings: Any) -> None:
        self._schedulers = Scheduler(SIZE, backend=TorchBackend()), Scheduler(SIZE, backend="numpy")
        self._random = np.random.default_rng(7)
        self._rows = torch.empty(ROWS, SIZE)
        for scheduler in self._schedulers:
            for seed in range(ROWS):
                scheduler.add(SamplingParams(seed=seed, **settings), [1, 2, 3])

    def step(self) -> None:
        self._rows.copy_(torch.from_numpy(self._random.normal(0, 3, (ROWS, SIZE)).astype(np.float32)))
        found, right = (scheduler.step(self._rows) for scheduler in self._schedulers)
        assert found.token_ids.tolist() == right.token_ids.tolist()
        assert found.errors == right.errors


@pytest.fixture
def chosen(monkeypatch: pytest.MonkeyPatch) -> list[None]:
    """One entry for each piece whose tokens kernels have chosen."""
    calls: list[None] = []
    choose = fused.Fused.choose

    def noted(self: Any, *arguments: Any) -> Any:
        calls.append(None)
        return choose(self, *arguments)

    monkeypatch.setattr(fused.Fused, "choose", noted)
    return calls


@pytest.mark.parametrize(
    "settings",
    [CHAIN, CHAIN | {"logit_bias": {3: 2.0}}, CHAIN | {"logprobs": 2}, {"top_k": 5, "typical_p": 0.8}],
    ids=str,
)
def test_torch_serves_a_new_chain_until_its_kernels_are_there(
    settings: dict[str, Any], works: Works, chosen: list[None], monkeypatch: pytest.MonkeyPatch
) -> None:
    graphs, both = Graphs(monkeypatch), Both(**settings)
    for _ in range(5):
        both.step()
    assert (len(works), chosen, graphs.captured) == (1, [], 0)
    works.pop()()
    for _ in range(5):
        both.step()
    assert works == []
    assert graphs.captured == 1
    assert bool(chosen) == ("typical_p" not in settings)


def test_torch_serves_the_first_steps_until_the_kernels_are_checked(
    works: Works, chosen: list[None], monkeypatch: pytest.MonkeyPatch
) -> None:
    fused.compilations_for.cache_clear()
    graphs, both = Graphs(monkeypatch), Both(**CHAIN, repetition_penalty=1.3)
    for _ in range(5):
        both.step()
    assert (len(works), chosen, graphs.captured) == (1, [], 0)
    assert fused.kernels_for.cache_info().currsize == 0
    works.pop()()  # the check
    both.step()
    assert (len(works), chosen, graphs.captured) == (1, [], 0)
    works.pop()()  # the chain's kernels
    for _ in range(5):
        both.step()
    assert works == []
    assert len(chosen) > 0
    assert graphs.captured == 1


def test_kernels_that_fail_their_check_are_not_used(
    works: Works, chosen: list[None], monkeypatch: pytest.MonkeyPatch
) -> None:
    fused.compilations_for.cache_clear()
    monkeypatch.setattr("engine_sampler_torch.kernels.trusted", lambda device: False)
    graphs, both = Graphs(monkeypatch), Both(**CHAIN)
    both.step()
    works.pop()()
    for _ in range(5):
        both.step()
    assert (works, chosen, graphs.captured) == ([], [], 1)


def test_another_scheduler_finds_what_is_compiled(works: Works, chosen: list[None]) -> None:
    Both(**CHAIN).step()
    works.pop()()
    Both(**CHAIN).step()
    assert works == []
    assert len(chosen) == 1


def test_what_cannot_be_compiled_stays_in_torch(
    works: Works,
    chosen: list[None],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    def fail(self: Any, kernels: Any) -> None:
        raise RuntimeError("no compiler")

    monkeypatch.setattr(fused.Rehearsal, "run", fail)
    graphs, both = Graphs(monkeypatch), Both(**CHAIN)
    both.step()
    works.pop()()
    for _ in range(4):
        both.step()
    assert (works, chosen, graphs.captured) == ([], [], 1)
    assert caplog.messages == [
        "compiling a kernel failed: RuntimeError: no compiler; its chain runs in torch"
    ]


def test_few_chains_wait_to_be_compiled_and_not_too_many_are(
    works: Works, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(compiling, "MOST_WAITING", 2)
    monkeypatch.setattr(compiling, "MOST_COMPILED", 3)
    compilations = compiling.Compilations()

    def states() -> list[compiling.Compiling]:
        return [compilations.state(key, lambda: None) for key in range(4)]

    assert states() == [compiling.Compiling.PENDING] * 4
    assert len(works) == 2
    while works:
        works.pop()()
    assert states() == [compiling.Compiling.READY] * 2 + [
        compiling.Compiling.PENDING,
        compiling.Compiling.FAILED,
    ]
    assert len(works) == 1
