"""Which backend runs: the argument, then the environment, then the best exact one."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from types import SimpleNamespace

import pytest

from engine_sampler.backends import choose
from engine_sampler.backends.choose import named_backend
from engine_sampler.backends.numpy import NumpyBackend
from engine_sampler.base.environment import VARIABLES
from engine_sampler.base.errors import warn_once
from engine_sampler.contract import Backend
from engine_sampler.scheduler import Scheduler


def backend(
    called: str, cpu: float, gpu: float = 0.0, is_exact: bool = True, reads_gpu: bool = False
) -> Backend:
    class Made(Backend):
        name = called
        exact = is_exact

        def score(self, device: str) -> float:
            return gpu if device.startswith("cuda") else cpu

        def reads_from(self, device: str) -> bool:
            return reads_gpu and device.startswith("cuda")

    return Made()


Registers = Callable[..., None]


@pytest.fixture
def registered(monkeypatch: pytest.MonkeyPatch) -> Registers:
    """Registers these as the only backends, some of them as those of plugins."""
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    choose._log_once.cache_clear()
    warn_once.cache_clear()

    def register(*backends: Backend, plugins: Sequence[Backend] = ()) -> None:
        catalogue = SimpleNamespace(backends={b.name: b for b in (*backends, *plugins)})
        registry = SimpleNamespace(catalogue=catalogue, is_built_in=lambda b: b in backends)
        monkeypatch.setattr(choose, "default_registry", lambda: registry)

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


# --- backends of plugins -------------------------------------------------------------------------


@pytest.mark.parametrize("score", [5.0, 6.0, float("inf")])
def test_what_a_plugin_says_of_itself_does_not_take_the_host_over(
    registered: Registers, score: float
) -> None:
    boastful = backend("a_plugin", score, score)
    registered(SLOW, FAST, plugins=[boastful])
    assert choose.best_backend("cpu") is FAST
    assert choose.best_backend("cuda:0") is not boastful
    assert choose.named_backend("a_plugin") is boastful


def test_nor_does_it_take_them_where_the_kernels_are_missing(registered: Registers) -> None:
    registered(SLOW, plugins=[FAST])
    assert choose.best_backend("cpu") is SLOW


def test_a_plugin_takes_logits_on_a_device_that_it_reads_if_its_score_is_the_highest(
    registered: Registers,
) -> None:
    readers = [backend("reader", 9, 9, reads_gpu=True), backend("faster_reader", 9, 10, reads_gpu=True)]
    own = backend("own", 2, 2)
    registered(own, plugins=readers)
    assert choose.best_backend("cuda:0") is readers[1]
    assert choose.best_backend("cpu") is own
    registered(own, plugins=[backend("slow_reader", 9, 1, reads_gpu=True)])
    assert choose.best_backend("cuda:0") is own
    registered(own, plugins=[backend("equal_reader", 9, 2, reads_gpu=True)])
    assert choose.best_backend("cuda:0") is own


def test_a_plugin_that_fails_when_it_is_asked_is_left_out_with_a_warning(
    registered: Registers, caplog: pytest.LogCaptureFixture
) -> None:
    class Failing(Backend):
        name = "failing"

        def reads_from(self, device: str) -> bool:
            raise RuntimeError("no driver")

        @property
        def target(self) -> str:
            raise RuntimeError("no driver")

    registered(SLOW, plugins=[Failing()])
    for _ in range(2):
        assert choose.best_backend("cuda:0") is SLOW
    assert [record.getMessage() for record in caplog.records] == [
        "a backend is not used: backend failing failed: RuntimeError: no driver"
    ]
    assert choose.described(Failing()) == "failing"


# --- what is told ---------------------------------------------------------------------------------


def told(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == logging.INFO]


def test_every_choice_is_logged_once_with_the_reasons(
    registered: Registers, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "engine_sampler")
    broken, fast = backend("broken", 0), backend("fast", 5)
    broken.reason, fast.target = "no such device", "avx9"  # type: ignore[attr-defined]
    reader = backend("reader", 8, 8, reads_gpu=True)
    registered(SLOW, fast, GUESS, broken, plugins=[reader])
    for _ in range(2):
        choose.best_backend("cpu")
    assert told(caplog) == [
        "logits on cpu: backend fast (avx9): the best of engine-sampler's own; not broken: no such device; "
        "not guess: inexact (used by name); not reader: of a plugin (used by name, or for logits on a device "
        "that it reads); not slow: its score is 1, that of fast 5"
    ]
    choose.best_backend("cuda:0")
    assert told(caplog)[1].startswith(
        "logits on cuda:0: backend reader: the best of those that read logits on "
    )
    monkeypatch.setenv("ENGINE_SAMPLER_ISA", "avx9")
    monkeypatch.setenv("ENGINE_SAMPLER_BACKEND", "slow")
    for _ in range(2):
        choose.named_backend("auto")
        choose.named_backend("slow")
    assert told(caplog)[2:] == [
        "backend slow: named by ENGINE_SAMPLER_BACKEND=slow "
        "(environment: ENGINE_SAMPLER_BACKEND=slow, ENGINE_SAMPLER_ISA=avx9)",
        "backend slow: named by backend='slow' "
        "(environment: ENGINE_SAMPLER_BACKEND=slow, ENGINE_SAMPLER_ISA=avx9)",
    ]


# --- names ----------------------------------------------------------------------------------------


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
