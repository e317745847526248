"""Steps that are alike are captured as graphs: with the tokens, errors and logprobs of NumPy."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import numpy as np
import pytest
import torch
from engine_sampler_torch import TorchBackend
from engine_sampler_torch.running import captured
from host_sampler import SecondBest
from recording import Graphs

from engine_sampler import SamplingParams, Scheduler, StepResult, Tokenizer
from tests.engines import registered

pytestmark = [
    pytest.mark.usefixtures("graphs"),
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),  # the interpreter's, for NaN
]

SIZE, ROWS = 100, 4
SEEN = captured.SEEN_BEFORE
TOKENIZER = Tokenizer([bytes([i % 256]) * (1 + i // 256) for i in range(SIZE)])
CHAIN: dict[str, Any] = {"temperature": 0.8, "top_k": 9, "top_p": 0.95}
MIXTURES: tuple[tuple[dict[str, Any], ...], ...] = (
    (CHAIN,),
    ({"temperature": 0.0},),
    (CHAIN, {"temperature": 0.7}, {"top_p": 0.9}, {"temperature": 0.0}),
    (CHAIN | {"repetition_penalty": 1.3, "frequency_penalty": 0.4, "logit_bias": {3: 4.0}},),
    ({"typical_p": 0.9, "temperature": 1.2, "logprobs": 3},),
    (CHAIN | {"regex": "[a-f]+", "logprobs": 2, "logprobs_mode": ["raw", "processed"]}, CHAIN),
    ({"temperature": 0.9, "dry_multiplier": 0.8, "min_tokens": 3, "bad_words": [[1, 2], 7]},),
)


def schedulers(mixture: tuple[dict[str, Any], ...]) -> tuple[Scheduler, Scheduler]:
    """With the same requests, on torch and on NumPy."""
    both = Scheduler(SIZE, TOKENIZER, backend=TorchBackend()), Scheduler(SIZE, TOKENIZER, backend="numpy")
    for scheduler in both:
        for seed in range(ROWS):
            params = SamplingParams(seed=seed, **mixture[seed % len(mixture)])
            scheduler.add(params, [1, 2, 3, 1, seed], request_id=seed)
    return both


class Logits:
    """Logits that lie in the same place in every step."""

    def __init__(self, seed: int) -> None:
        self._random = np.random.default_rng(seed)
        self.rows = torch.empty(ROWS, SIZE)

    def next(self, rows: int = ROWS) -> torch.Tensor:
        self.rows.copy_(torch.from_numpy(self._random.normal(0, 3, (ROWS, SIZE)).astype(np.float32)))
        return self.rows[:rows]


def step(both: tuple[Scheduler, Scheduler], logits: torch.Tensor) -> StepResult:
    """A step on torch, which is as that on NumPy."""
    result, right = (scheduler.step(logits) for scheduler in both)
    assert result.errors == right.errors
    assert result.token_ids.tolist() == right.token_ids.tolist()
    if result.token_ids_on_device is not None:
        assert result.token_ids_on_device.tolist() == right.token_ids.tolist()
    if right.logprobs is not None:
        for kind, of_kind in right.logprobs.by_mode.items():
            of_torch = result.logprobs.by_mode[kind]
            assert of_torch.token_ids.tolist() == of_kind.token_ids.tolist()
            assert np.array_equal(of_torch.logprobs, of_kind.logprobs, equal_nan=True)
            assert of_torch.ranks.tolist() == of_kind.ranks.tolist()
    return result


@pytest.mark.parametrize("mixture", MIXTURES, ids=str)
def test_a_captured_step_gives_what_numpy_gives(mixture: tuple[dict[str, Any], ...], graphs: Graphs) -> None:
    both, logits = schedulers(mixture), Logits(len(str(mixture)))
    for _ in range(SEEN + 2):
        step(both, logits.next())
    assert graphs.captured == 1
    # In the first step lists of penalties are new, and those of DRY empty.
    assert graphs.started == (1 if {"dry_multiplier", "repetition_penalty"} & {*mixture[0]} else 2)


def test_faulty_rows_are_named_as_ever(graphs: Graphs) -> None:
    both, logits = schedulers((CHAIN,)), Logits(1)
    for _ in range(SEEN + 1):
        step(both, logits.next())
    rows = logits.next()
    rows[1, 7], rows[3] = float("nan"), float("-inf")
    found = step(both, rows)
    assert graphs.started == 2
    assert [i for i, error in enumerate(found.errors) if error] == [1, 3]


def test_tokens_on_the_device_stay(graphs: Graphs) -> None:
    both, logits = schedulers((CHAIN,)), Logits(2)
    found = [step(both, logits.next()) for _ in range(22)]
    assert graphs.started == 22 - SEEN
    for result in found:
        assert result.token_ids_on_device.tolist() == result.token_ids.tolist()


def test_other_requests_are_captured_anew(graphs: Graphs) -> None:
    both, logits = schedulers((CHAIN,)), Logits(3)
    for _ in range(SEEN + 2):
        step(both, logits.next())
    for scheduler in both:
        scheduler.remove(2)
    for _ in range(SEEN + 2):
        step(both, logits.next(ROWS - 1))
    assert (graphs.captured, graphs.started) == (2, 4)


def test_logits_that_lie_elsewhere_are_not_taken_for_those_that_were_captured(graphs: Graphs) -> None:
    both, places = schedulers((CHAIN,)), [Logits(4), Logits(5)]
    for i in range(2 * SEEN + 2):
        step(both, places[i % 2].next())
    assert (graphs.captured, graphs.started) == (2, 2)
    kept = [Logits(6 + i) for i in range(6)]
    for logits in kept:
        step(both, logits.next())
    assert (graphs.captured, graphs.started) == (2, 2)


def test_graphs_go_when_requests_do(graphs: Graphs) -> None:
    both, logits = schedulers((CHAIN,)), Logits(7)
    steps = []
    keep = captured.Captures.keep

    def noted(self: Any, kind: Any, one: Any) -> None:
        steps.append(weakref.ref(one))
        keep(self, kind, one)

    captured.Captures.keep = noted  # type: ignore[method-assign]
    try:
        for _ in range(SEEN + 1):
            step(both, logits.next())
    finally:
        captured.Captures.keep = keep  # type: ignore[method-assign]
    for scheduler in both:
        scheduler.remove(0)
    step(both, logits.next(ROWS - 1))
    gc.collect()
    assert [one() for one in steps] == [None]


def test_a_device_that_cannot_capture_launches_as_ever(
    graphs: Graphs, caplog: pytest.LogCaptureFixture
) -> None:
    graphs.fails = True
    both, logits = schedulers((CHAIN,)), Logits(8)
    for _ in range(SEEN + 2):
        step(both, logits.next())
    assert graphs.started == 0
    assert caplog.messages == [
        "capturing a step failed: RuntimeError: no graphs today; steps are launched one by one"
    ]


def test_samplers_of_others_and_of_the_host_are_not_captured(graphs: Graphs) -> None:
    with registered(SecondBest()):
        both, logits = schedulers((CHAIN | {"second_best": True}, CHAIN)), Logits(9)
        for _ in range(SEEN + 3):
            step(both, logits.next())
    assert graphs.captured == 0


def test_steps_that_begin_are_captured_too(graphs: Graphs) -> None:
    both, logits = schedulers((CHAIN,)), Logits(10)
    for _ in range(SEEN + 2):
        rows = logits.next()
        begun = both[0].begin(rows)
        right = both[1].step(rows)
        assert begun.token_ids_on_device.tolist() == right.token_ids.tolist()
        assert begun.finish().token_ids.tolist() == right.token_ids.tolist()
    assert graphs.started == 2


def test_masks_that_were_prepared_are_read_where_the_graph_finds_them(graphs: Graphs) -> None:
    both, logits = schedulers((CHAIN | {"regex": "[a-c]+"}, CHAIN)), Logits(11)
    for number in range(SEEN + 4):
        for scheduler in both:
            scheduler.prepare()
        if number == SEEN + 2:
            for scheduler in both:
                scheduler.accept(0, [97])
        step(both, logits.next())
    assert graphs.started >= 2


MASKED: tuple[tuple[dict[str, Any], ...], ...] = (
    (CHAIN | {"regex": "[a-f]+"},),
    (
        CHAIN | {"regex": "[a-f]{1,9}|#[0-9]*"},
        CHAIN,
        CHAIN | {"regex": "[0-9a-z ]*", "repetition_penalty": 1.2},
    ),
    ({"temperature": 0.9, "logprobs": 2, "regex": "a*b?c*"}, {"temperature": 0.0, "regex": "[0-4]*|[a-z]*"}),
)


@pytest.mark.parametrize("mixture", MASKED, ids=str)
@pytest.mark.parametrize("prepares", [True, False])
def test_masks_take_the_short_way(
    mixture: tuple[dict[str, Any], ...], prepares: bool, graphs: Graphs, monkeypatch: pytest.MonkeyPatch
) -> None:
    both, logits = schedulers(mixture), Logits(16)

    def next_step(alike: bool = True) -> None:
        for scheduler in both:
            if prepares:
                scheduler.prepare()
        if not alike:  # masks that are filled anew after they were copied
            for scheduler in both:
                scheduler.rollback(0, 1)
        step(both, logits.next(len(both[0].request_ids)))

    for _ in range(SEEN + 2):
        next_step()
    with monkeypatch.context() as patch:
        patch.setattr("engine_sampler_torch.running.step.StepRun.begin", None)
        next_step()
    next_step(alike=False)
    prepares = not prepares
    for _ in range(3):  # the texts come to their ends meanwhile
        next_step()
        if not both[0].request_ids:
            return


def test_a_mask_without_tokens_goes_the_longer_way(graphs: Graphs) -> None:
    both, logits = schedulers((CHAIN | {"regex": "[a-f]+"}, CHAIN)), Logits(17)
    for _ in range(SEEN + 2):
        step(both, logits.next())
    rows = logits.next()
    rows[0, 97:] = rows[2] = float("-inf")
    assert [i for i, error in enumerate(step(both, rows).errors) if error] == [0, 2]


def test_many_whole_rows_are_not_kept_in_memory(graphs: Graphs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(captured, "WORKING_BYTES", 1000)
    for settings, count in (({"typical_p": 0.9}, 0), ({"temperature": 0.0}, 1)):
        both, logits = schedulers((settings,)), Logits(12)
        for _ in range(SEEN + 1):
            step(both, logits.next())
        assert graphs.captured == count


LONG_LIVES: tuple[tuple[dict[str, Any], ...], ...] = (
    (CHAIN | {"repetition_penalty": 1.3, "penalty_last_n": 4},),
    (CHAIN | {"frequency_penalty": 0.6, "presence_penalty": 0.2, "logit_bias": {3: 4.0, 8: -2.0}}, CHAIN),
    (CHAIN | {"repetition_penalty": 1.2, "penalty_scope": "output", "penalty_last_n": 6},),
    (CHAIN | {"logit_bias": {5: 3.0}}, {"temperature": 0.7}, {"temperature": 0.0}),
    (CHAIN | {"logprobs": 2}, CHAIN | {"logprobs": 0}),
    (CHAIN, {"temperature": 0.9, "logprobs": 4}, {"logprobs": 1, "logprobs_mode": "processed", "top_k": 3}),
)


@pytest.mark.parametrize("mixture", LONG_LIVES, ids=str)
def test_steps_stay_right_while_histories_grow_and_change(
    mixture: tuple[dict[str, Any], ...], graphs: Graphs
) -> None:
    both, logits = schedulers(mixture), Logits(len(str(mixture)))
    for number in range(4 * SEEN + 6):
        step(both, logits.next())
        if number == 2 * SEEN:
            for scheduler in both:
                scheduler.accept(1, [4, 4, 9])
        if number == 3 * SEEN:
            for scheduler in both:
                scheduler.rollback(2, 2)
    assert graphs.started > 2 * SEEN


def test_a_step_like_the_one_before_it_takes_the_short_way(
    graphs: Graphs, monkeypatch: pytest.MonkeyPatch
) -> None:
    both, logits = schedulers((CHAIN | {"repetition_penalty": 1.3}, CHAIN)), Logits(13)
    for _ in range(SEEN + 2):
        step(both, logits.next())
    monkeypatch.setattr("engine_sampler_torch.running.step.StepRun.begin", None)
    for _ in range(3):
        step(both, logits.next())
    assert graphs.started >= 4


LOGPROBS: tuple[tuple[dict[str, Any], ...], ...] = (
    (CHAIN | {"logprobs": 5},),
    (CHAIN | {"logprobs": 2}, CHAIN | {"logprobs": 0}, CHAIN),
    (CHAIN, {"temperature": 0.7, "logprobs": 3}, {"top_p": 0.9, "logprobs": 2}, {"temperature": 0.0}),
)


@pytest.mark.parametrize("mixture", LOGPROBS, ids=str)
def test_raw_logprobs_take_the_short_way(
    mixture: tuple[dict[str, Any], ...], graphs: Graphs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Rows with fewer tokens than are listed among them; a row without a token goes the longer way."""
    both, logits = schedulers(mixture), Logits(15)
    for _ in range(SEEN + 2):
        step(both, logits.next())
    with monkeypatch.context() as patch:
        patch.setattr("engine_sampler_torch.running.step.StepRun.begin", None)
        patch.setattr("engine_sampler_torch.running.step.StepRun.finish", None)
        for _ in range(2):
            step(both, logits.next())
        rows = logits.next()
        rows[1, 2:] = float("-inf")
        step(both, rows)
    rows = logits.next()
    rows[1, 7] = float("nan")
    assert [i for i, error in enumerate(step(both, rows).errors) if error] == [1]
    assert graphs.started >= 4


def test_a_sampler_that_fails_in_a_warm_step_is_found(
    graphs: Graphs, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    both, logits = schedulers((CHAIN,)), Logits(14)
    for _ in range(SEEN + 2):
        step(both, logits.next())

    def fail(rows: Any, index: int = 0) -> Any:
        raise ValueError("no draws today")

    monkeypatch.setattr("engine_sampler_torch.steps.selectors.dist.draws", fail)
    for _ in range(2):
        step(both, logits.next())
    assert caplog.messages == ["a torch step failed: ValueError: no draws today; the host runs its requests"]
