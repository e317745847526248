"""What the host does in a step like the one before it, in functions called: no clock is read."""

from __future__ import annotations

import importlib.util

import pytest
from on_device import host_part

pytestmark = pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="there are no kernels")

VOCAB_SIZE = 4096
MOST = {
    "default chain, one request": 95,
    "default chain, 64 requests": 95,
    "default chain, 256 requests": 95,
    "penalties, 64 requests": 105,
    "a bias of two tokens, 64 requests": 100,
    "four chains in 64 requests": 120,
    "five logprobs, 64 requests": 130,
    "masks of a grammar, 64 requests": 1500,
}


@pytest.mark.parametrize("name", MOST)
def test_a_warm_step_calls_few_functions(name: str) -> None:
    with host_part.warm(*host_part.CASES[name], VOCAB_SIZE) as step:
        assert host_part.calls(step) <= MOST[name]


def test_more_requests_are_no_more_calls() -> None:
    counts = set()
    for rows in (1, 7, 300):
        with host_part.warm(rows, [host_part.CHAIN], VOCAB_SIZE) as step:
            counts.add(host_part.calls(step))
    assert len(counts) == 1


def test_no_step_lists_the_tokens_of_one_history_after_the_other() -> None:
    """Tables that are full are made anew, in one step for all requests that began together."""
    counts = {}
    for rows in (4, 64):
        with host_part.warm(rows, host_part.CASES["penalties, 64 requests"][1], VOCAB_SIZE) as step:
            counts[rows] = max(host_part.calls(step, 1) for _ in range(270))
    assert counts[4] > 2 * MOST["penalties, 64 requests"]
    assert counts[64] <= counts[4] + 10


def test_the_table_has_a_line_for_each_case(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_part, "STEPS", 1)
    rows = host_part.table(["default chain, one request"], VOCAB_SIZE)
    assert [row["the host's part of a step"] for row in rows] == ["default chain, one request"]
    assert rows[0]["µs"] >= rows[0]["least"] > 0


def test_a_step_after_the_measure_is_a_real_one() -> None:
    with host_part.warm(1, [host_part.CHAIN], VOCAB_SIZE):
        pass
    assert not host_part.fused.kernels_for.cache_info().currsize
    assert "meta" not in host_part.fused.DEVICE_TYPES
