"""The table of times, as far as it goes without a card: its inputs, its steps, its lines."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from on_device import timings
from on_device.timings import CASES, PEERS, TimedCase, logits_of, ours, steps_of

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")

SIZE = 1000


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.name} {case.dtype}")
def test_every_step_that_can_run_here_gives_one_token_a_row(case: TimedCase) -> None:
    small = replace(
        case, rows=2, settings={**case.settings} | ({"top_k": 5} if "top_k" in case.settings else {})
    )
    logits = logits_of(small, "cpu", SIZE)
    assert logits.dtype == case.dtype
    tokens = ours(small, logits)().token_ids
    assert ((tokens >= 0) & (tokens < SIZE)).all()
    for name in ("torch sort", "torch.topk"):
        step = PEERS[name](small, logits)
        if step is not None:
            assert step().numel() == 2


def test_peaked_rows_have_a_small_nucleus_and_flat_ones_a_large_one() -> None:
    def nucleus(case: TimedCase) -> int:
        share = logits_of(case, "cpu", 50_000).double().softmax(1).sort(1, descending=True).values
        return int((share.cumsum(1) < 0.95).sum(1).max())

    assert nucleus(TimedCase("", {}, rows=2)) < 256
    assert nucleus(TimedCase("", {}, rows=2, flat=True)) > 2000


def test_a_peer_that_is_not_installed_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(case: TimedCase, logits: torch.Tensor) -> None:
        raise ImportError

    monkeypatch.setattr(timings, "PEERS", {"torch sort": PEERS["torch sort"], "missing": missing})
    assert [name for name, _ in steps_of(CASES[0], [logits_of(CASES[2], "cpu", SIZE)])] == [
        "ours",
        "torch sort",
    ]


def test_a_line_holds_times_bar_floor_and_what_is_published(monkeypatch: pytest.MonkeyPatch) -> None:
    def measured(steps: list[timings.Step], device: torch.device) -> tuple[float, bool]:
        return 12.34, True

    monkeypatch.setattr(timings, "measured", measured)
    monkeypatch.setattr(timings, "PEERS", {"torch sort": PEERS["torch sort"]})
    monkeypatch.setattr(timings, "VOCAB_SIZE", SIZE)
    monkeypatch.setattr(timings, "logits_of", lambda case, device: logits_of(case, "cpu", SIZE))
    line = timings._line(replace(CASES[0], rows=2), torch.device("cpu"), gigabytes=4000.0)
    assert line == {
        "case": "default chain, 64 rows",
        "dtype": "float32",
        "ours, µs": "12.3",
        "predicted, µs": "—",
        "torch sort, µs": "12.3",
        "bar, µs": 25,
        "read floor, µs": 0.0,
        "published, µs": CASES[0].known,
    }
