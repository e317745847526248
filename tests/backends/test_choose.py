"""Which backend runs: the argument, then the environment, then the best exact one."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace

import pytest

from engine_sampler.backends import choose
from engine_sampler.backends.choose import named_backend
from engine_sampler.backends.numpy import NumpyBackend
from engine_sampler.contract import Backend
from engine_sampler.scheduler import Scheduler


def backend(called: str, cpu: float, gpu: float = 0.0, is_exact: bool = True) -> Backend:
    class Made(Backend):
        name = called
        exact = is_exact

        def score(self, device: str) -> float:
            return gpu if device.startswith("cuda") else cpu

    return Made()


Registers = Callable[..., None]


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> Registers:
    """Registers these as the only backends."""
    monkeypatch.delenv("ENGINE_SAMPLER_BACKEND", raising=False)

    def register(*backends: Backend) -> None:
        catalogue = SimpleNamespace(backends={b.name: b for b in backends})
        monkeypatch.setattr(choose, "default_registry", lambda: SimpleNamespace(catalogue=catalogue))

    return register


SLOW, FAST, GUESS = backend("slow", 1), backend("fast", 5), backend("guess", 100, 100, is_exact=False)


def test_the_argument_comes_first(registered: Registers, monkeypatch: pytest.MonkeyPatch) -> None:
    registered(SLOW, FAST)
    monkeypatch.setenv("ENGINE_SAMPLER_BACKEND", "fast")
    assert choose.named_backend("slow") is SLOW
    assert choose.named_backend(GUESS) is GUESS


def test_then_the_environment(registered: Registers, monkeypatch: pytest.MonkeyPatch) -> None:
    registered(SLOW, FAST)
    monkeypatch.setenv("ENGINE_SAMPLER_BACKEND", "slow")
    assert choose.named_backend("auto") is SLOW


@pytest.mark.parametrize("value", ["", "auto", None])
def test_then_the_choice_is_automatic(
    registered: Registers, monkeypatch: pytest.MonkeyPatch, value: str | None
) -> None:
    registered(SLOW, FAST)
    if value is not None:
        monkeypatch.setenv("ENGINE_SAMPLER_BACKEND", value)
    assert choose.named_backend("auto") is None


def test_the_best_score_for_the_device_wins(registered: Registers) -> None:
    on_gpu = backend("on_gpu", 0, 9)
    registered(SLOW, on_gpu, FAST)
    assert choose.best_backend("cpu") is FAST
    assert choose.best_backend("cuda:0") is on_gpu


def test_ties_go_to_the_name_that_sorts_first(registered: Registers) -> None:
    twin = backend("a_twin", 5)
    registered(FAST, twin)
    assert choose.best_backend("cpu") is twin


def test_an_inexact_backend_is_never_chosen_but_may_be_named(registered: Registers) -> None:
    registered(SLOW, GUESS)
    assert choose.best_backend("cpu") is choose.best_backend("cuda:0") is SLOW
    assert choose.named_backend("guess") is GUESS


@pytest.mark.parametrize("by_environment", [False, True])
def test_an_unknown_name_is_refused(
    registered: Registers, monkeypatch: pytest.MonkeyPatch, by_environment: bool
) -> None:
    registered(SLOW, FAST)
    if by_environment:
        monkeypatch.setenv("ENGINE_SAMPLER_BACKEND", "numpi")
    with pytest.raises(ValueError, match="backend='numpi' is not allowed: auto or one of fast, slow"):
        choose.named_backend("auto" if by_environment else "numpi")


def test_a_scheduler_refuses_an_unknown_name_at_once() -> None:
    with pytest.raises(ValueError, match=r"backend='numpi' is not allowed: auto or one of .*numpy"):
        Scheduler(5, backend="numpi")


def test_numpy_is_registered_and_exact() -> None:
    assert isinstance(choose.named_backend("numpy"), NumpyBackend)
    assert NumpyBackend.exact


def test_a_library_without_a_path_is_refused() -> None:
    with pytest.raises(ValueError, match=r"backend='library:' is not allowed: library:PATH"):
        named_backend("library:")
