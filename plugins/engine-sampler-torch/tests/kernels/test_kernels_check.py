"""The self-check: kernels that differ, or that do not compile, are turned off with one warning."""

from __future__ import annotations

import collections
import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from engine_sampler_torch.kernels import KernelOutcome, check, replay
from interpreter import launch_compiled


@pytest.fixture(autouse=True)
def _unchecked() -> Iterator[None]:
    check.trusted.cache_clear()
    check.repeatable.cache_clear()
    yield
    check.trusted.cache_clear()
    check.repeatable.cache_clear()


@pytest.mark.filterwarnings("ignore::RuntimeWarning:triton")
def test_the_golden_rows_are_equal_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check, "VOCAB_SIZE", 1200)
    assert check.find_difference(torch.device("cpu"), check.sample) is None


def test_a_wrong_token_turns_the_kernels_off_with_one_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(*arguments: object, **given: object) -> KernelOutcome:
        outcome = KernelOutcome.empty(8, torch.device("cpu"))
        outcome.verdicts.zero_()
        return outcome

    monkeypatch.setattr(check, "sample", wrong)
    with pytest.warns(RuntimeWarning, match="not used on cpu: golden row 0 of .* gives token 0 instead of"):
        assert not check.trusted("cpu")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not check.trusted("cpu")


def test_an_error_of_the_compiler_does_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*arguments: object, **given: object) -> KernelOutcome:
        raise RuntimeError("no ptxas")

    monkeypatch.setattr(check, "sample", broken)
    with pytest.warns(
        RuntimeWarning, match="not used on cpu: RuntimeError: no ptxas. Eager torch gives the same tokens"
    ):
        assert not check.trusted("cpu")


@pytest.mark.filterwarnings("ignore::RuntimeWarning:triton")
def test_launches_that_are_started_again_pass_the_same_check(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check, "VOCAB_SIZE", 1200)
    assert not check.repeatable("cpu")  # what is interpreted is never compiled
    check.repeatable.cache_clear()
    monkeypatch.setenv("TRITON_INTERPRET", "0")
    monkeypatch.setattr(replay, "launch", launch_compiled)
    assert check.repeatable("cpu")


@pytest.mark.filterwarnings("ignore::RuntimeWarning:triton")
def test_what_cannot_be_started_again_is_launched_anew_after_one_warning(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refusing(*arguments: object, **options: object) -> dict[object, object]:
        launch_compiled(*arguments, **options)
        return collections.defaultdict(lambda: refuse)

    def refuse(*arguments: object) -> None:
        raise TypeError("function takes exactly 2 arguments")

    monkeypatch.setattr(check, "VOCAB_SIZE", 1200)
    monkeypatch.setenv("TRITON_INTERPRET", "0")
    monkeypatch.setattr(replay, "launch", refusing)
    with pytest.warns(RuntimeWarning, match="not started again on cpu: TypeError: function takes exactly 2"):
        assert not check.repeatable("cpu")


def test_a_host_without_the_interpreter_is_left_to_eager_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_INTERPRET", "0")
    assert not check.trusted("cpu")


@pytest.mark.parametrize(
    ("capability", "version", "expected"),
    [
        ((10, 0), "3.6.0", True),
        ((12, 1), "3.8.1+git1", True),
        ((10, 0), "3.9.0", False),
        ((10, 3), "3.10.0", False),
        ((9, 0), "3.6.0", False),
        ((8, 0), "3.6.0", False),
    ],
)
def test_cards_on_which_an_old_triton_fuses_operations_are_known(
    capability: tuple[int, int], version: str, expected: bool
) -> None:
    assert check.fuses(capability, version) == expected


def test_kernels_are_not_used_where_operations_would_be_fused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (10, 0))
    monkeypatch.setattr(check, "fuses", lambda capability: capability == (10, 0))
    with pytest.warns(RuntimeWarning, match=r"not used on cuda:0: Triton .* fuses operations there"):
        assert not check.trusted("cuda:0")


@pytest.mark.parametrize("version", ["3.2.0", "3.5.1+rocm", "2.3.1"])
def test_kernels_are_not_used_with_a_triton_that_lacks_what_they_need(
    version: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(check.triton, "__version__", version)
    monkeypatch.setattr(check, "sample", None)  # nothing is tried
    with pytest.warns(RuntimeWarning, match=r"not used on cpu: Triton \d\S+ is too old .* need 3.6 or later"):
        assert not check.trusted("cpu")


def test_the_oldest_triton_is_the_one_that_the_distribution_names() -> None:
    text = (Path(__file__).parents[2] / "pyproject.toml").read_text("utf-8")
    assert f'"triton>={check.OLDEST_TRITON[0]}.{check.OLDEST_TRITON[1]}"' in text
