"""What hostile phases cost a step: work is counted, in calls, not timed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from engine_sampler import SamplingParams, Scheduler, Tokenizer
from engine_sampler.requests.phases import phases
from engine_sampler.requests.phases.symbols import SymbolTable

from ...params.counting import count_calls

PIECES = [bytes([i]) for i in range(256)] + [b" " * n for n in range(2, 100)] + [b"<eos>"]
VOCAB = len(PIECES)
TOKENIZER = Tokenizer(PIECES, eos_token_ids=[VOCAB - 1])
MANY = [" " * 100 + chr(65 + i) + " " for i in range(16)]
HOSTILE: dict[str, dict[str, Any]] = {
    "markers that may end anywhere": {"thinking": {"start": MANY, "end": MANY, "starts_inside": True}},
    "a phase for each token": {"phases": [{"tokens": 1, "params": {"top_p": 0.5}}, {"tokens": 1, "then": 0}]},
    "nothing but forced text": {"phases": [{"tokens": 0, "force": "ab", "then": 0}]},
    "an end for each start": {
        "thinking": {"start": " ", "end": "b", "message": "a" * 9},
        "thinking_token_budget": 0,
    },
}
CALLS = 900
"""Some 60 microseconds."""
CALLS_OF_A_PHASE = 3
"""For each row and step of an answer, some 0.2 microseconds."""


@pytest.mark.parametrize("given", HOSTILE.values(), ids=HOSTILE)
def test_no_step_costs_much(given: dict[str, Any]) -> None:
    scheduler = Scheduler(VOCAB, TOKENIZER)
    scheduler.add(SamplingParams(temperature=0, **given), [65] * 4096)
    row = np.zeros((1, VOCAB), np.float32)
    row[0, 32] = 1
    calls = [count_calls(lambda: scheduler.step(row)) for _ in range(150)]
    assert max(calls[3:]) <= CALLS
    assert max(calls[120:]) <= max(calls[3:110])


def test_a_request_that_changes_its_phase_for_ever_ends() -> None:
    scheduler = Scheduler(VOCAB)
    endless = scheduler.add(SamplingParams(phases=[{"tokens": 1}, {"tokens": 1, "then": 0}]))
    neighbour = scheduler.add(SamplingParams(max_tokens=1200))
    while endless in scheduler.request_ids:
        scheduler.step(np.zeros((2, VOCAB), np.float32))
    record = scheduler.record(endless)
    assert record.finish_reason == "error"
    assert record.error == "phases: the request has changed them 1,024 times, which is the limit"
    assert scheduler.request_ids == [neighbour]


def test_changes_that_cost_much_are_fewer() -> None:
    phases = [{"tokens": 1, "params": {"frequency_penalty": 0.1}}, {"tokens": 1, "then": 0}]
    scheduler = Scheduler(VOCAB)
    often = scheduler.add(SamplingParams(phases=phases))
    seldom = scheduler.add(
        SamplingParams(phases=[{**phase, "tokens": 16} for phase in phases], max_tokens=1600)
    )
    for _ in range(1600):
        scheduler.step(np.zeros((len(scheduler.request_ids), VOCAB), np.float32))
    assert scheduler.record(often).error == (
        "phases: the request has changed penalties and the like 68 times in 69 tokens, which is the limit"
    )
    assert scheduler.record(seldom).finish_reason == "length"


def test_a_row_that_only_counts_costs_what_a_plain_one_does() -> None:
    row = np.zeros((8, VOCAB), np.float32)
    row[:, 32:64] = 3
    work = []
    for more in ({}, {"thinking": {"start": [[1]], "end": [[2]], "starts_inside": True}}):
        scheduler = Scheduler(VOCAB)
        for seed in range(8):
            scheduler.add(SamplingParams(seed=seed, top_k=20, **more), [1])
        for _ in range(4):
            scheduler.step(row)
        work.append(count_calls(lambda s=scheduler: s.step(row)))  # type: ignore[misc]
    assert work[0] == work[1]


def test_a_change_costs_little_for_each_step_of_an_answer() -> None:
    """Half of an answer is thoughts, after which other parameters hold."""
    row = np.zeros((8, VOCAB), np.float32)
    row[:, 32:64] = 3
    thinking = {"start": [[1]], "end": [[2]], "starts_inside": True}
    work = []
    for more in ({}, {"thinking": thinking, "thinking_token_budget": 100, "answer": {"top_p": 0.5}}):
        scheduler = Scheduler(VOCAB)
        ids = [scheduler.add(SamplingParams(seed=seed, top_k=20, **more), [1]) for seed in range(8)]
        for _ in range(4):
            scheduler.step(row)
        work.append(sum(count_calls(lambda s=scheduler: s.step(row)) for _ in range(196)))  # type: ignore[misc]
        if more:
            assert [scheduler.record(one).phase_tokens["answer"] for one in ids] == [99] * 8
    assert work[1] - work[0] <= 8 * 196 * CALLS_OF_A_PHASE


def test_siblings_share_the_budget_of_changes_that_cost_much(monkeypatch: pytest.MonkeyPatch) -> None:
    """The more tokens all of them have together, the fewer changes each of them may make."""
    monkeypatch.setattr(phases, "LIGHT_HISTORIES", 100)
    changing = [{"tokens": 1, "params": {"frequency_penalty": 0.1}}, {"tokens": 1, "then": 0}]
    made = []
    for n in (1, 4, 64):
        scheduler = Scheduler(VOCAB)
        ids = scheduler.add_group(SamplingParams(n=n, phases=changing), [1] * 100)
        while scheduler.request_ids:
            scheduler.step(np.zeros((len(scheduler.request_ids), VOCAB), np.float32))
        made.append({scheduler.record(one).error for one in ids})
    assert made == [
        {f"phases: the request has changed penalties and the like {times}, which is the limit"}
        for times in ("68 times in 69 tokens", "16 times in 17 tokens", "4 times in 5 tokens")
    ]


def test_settings_of_rules_resolve_the_same_markers_once(monkeypatch: pytest.MonkeyPatch) -> None:
    searched, completing = [], SymbolTable.completing

    def counting(self: SymbolTable, symbols: str) -> np.ndarray:
        searched.append(symbols)
        return completing(self, symbols)

    monkeypatch.setattr(SymbolTable, "completing", counting)
    marks = [f"e e{i}e" for i in range(16)]
    rules = "".join(f"t{i}[temperature=0.{10 + i}]: /[a-b]/\n" for i in range(31))
    thinking = {"start": marks, "end": marks, "starts_inside": True}
    params = SamplingParams(
        thinking=thinking,
        thinking_token_budget=3,
        grammar=f"start: ({' | '.join(f't{i}' for i in range(31))})+\n{rules}",
    )
    Scheduler(VOCAB, TOKENIZER).add(params)
    assert sorted(searched) == sorted(marks)
