"""The self-check: kernels that differ, or that do not compile, are turned off with one warning."""

from __future__ import annotations

import warnings
from collections.abc import Iterator

import pytest
import torch
from engine_sampler_torch.kernels import check
from engine_sampler_torch.kernels.sampling import Outcome


@pytest.fixture(autouse=True)
def _unchecked() -> Iterator[None]:
    check.trusted.cache_clear()
    yield
    check.trusted.cache_clear()


@pytest.mark.filterwarnings("ignore::RuntimeWarning:triton")
def test_the_golden_rows_are_equal_here(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check, "VOCAB_SIZE", 1200)
    assert check.find_difference(torch.device("cpu")) is None


def test_a_wrong_token_turns_the_kernels_off_with_one_warning(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(*arguments: object, **given: object) -> Outcome:
        outcome = Outcome.empty(8, torch.device("cpu"))
        outcome.verdicts.zero_()
        return outcome

    monkeypatch.setattr(check, "sample", wrong)
    with pytest.warns(RuntimeWarning, match="not used on cpu: golden row 0 of .* gives token 0 instead of"):
        assert not check.trusted("cpu")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert not check.trusted("cpu")


def test_an_error_of_the_compiler_does_too(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*arguments: object, **given: object) -> Outcome:
        raise RuntimeError("no ptxas")

    monkeypatch.setattr(check, "sample", broken)
    with pytest.warns(
        RuntimeWarning, match="not used on cpu: RuntimeError: no ptxas. Eager torch gives the same tokens"
    ):
        assert not check.trusted("cpu")


def test_a_host_without_the_interpreter_is_left_to_eager_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_INTERPRET", "0")
    assert not check.trusted("cpu")
