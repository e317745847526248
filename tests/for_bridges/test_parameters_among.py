"""Parameters of this library in the requests of an engine."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from engine_sampler import ParameterError, SamplingParams
from engine_sampler.for_bridges import child_seed_of, parameters_among, params_or_plain, refused_with

REQUEST = SimpleNamespace(top_p=0.9)


def among(extra: dict[str, Any]) -> dict[str, Any]:
    return parameters_among(extra, REQUEST, "The engine", "extra", others=["seed"])


def test_parameters_among_those_of_others_are_found() -> None:
    assert among({"min_p": 0.1, "target_token": 3, "top_k": None}) == {"min_p": 0.1}


@pytest.mark.parametrize(
    ("extra", "reason"),
    [
        ({"top_p": 0.5}, "top_p is not allowed in extra: The engine has it itself, outside"),
        ({"seed": 5}, "seed is not allowed in extra"),
        ({"min_p": 2.0}, "min_p=2.0 is not allowed"),
        ({"n": 100_000}, "n=100000"),
        (
            {"banned_strings": ["x"]},
            "banned_strings is not allowed in extra: The engine does not take tokens back",
        ),
        ({"banned_regex": ["x"]}, "does not take tokens back"),
        ({"token_healing": True}, "does not take tokens back"),
    ],
)
def test_parameters_that_are_not_allowed_are_refused(extra: dict[str, Any], reason: str) -> None:
    with pytest.raises(ParameterError, match=reason):
        among(extra)


def test_wrong_extra_parameters_are_left_out_and_logged(caplog: pytest.LogCaptureFixture) -> None:
    def params_of(request: Any) -> SamplingParams:
        return SamplingParams(top_p=request.top_p, **request.extra or {})

    request = SimpleNamespace(top_p=0.9, extra={"min_p": 7.0})
    assert params_or_plain(params_of, request, "extra") == SamplingParams(top_p=0.9)
    assert "min_p=7.0" in caplog.text
    assert request.extra == {"min_p": 7.0}
    request.extra = {"min_p": 0.5}
    assert params_or_plain(params_of, request, "extra") == SamplingParams(top_p=0.9, min_p=0.5)


def test_seeds_of_requests_follow_from_their_ids() -> None:
    seeds = [child_seed_of(seed, name) for seed in (1, 2) for name in ("a", "b")]
    assert len({*seeds}) == 4
    assert seeds == [child_seed_of(seed, name) for seed in (1, 2) for name in ("a", "b")]


class RefusedError(Exception):
    """With which an engine refuses requests."""


@pytest.mark.parametrize("error", [ValueError("too many"), TypeError("too many"), ParameterError("too many")])
def test_errors_of_a_check_become_the_engines(error: Exception) -> None:
    @refused_with(RefusedError)
    def check(request: Any, *, is_right: bool = True) -> None:
        if not is_right:
            raise error

    check(None)
    with pytest.raises(RefusedError, match="too many"):
        check(None, is_right=False)
