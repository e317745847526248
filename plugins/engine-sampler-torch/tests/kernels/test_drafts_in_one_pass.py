"""Rows of drafts are drawn together where what they depend on can be known before: the drafts are in their
histories, and their masks allow for them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from engine_sampler_torch import TorchBackend
from engine_sampler_torch.running import tables, transfer
from recording import Graphs

from engine_sampler import SamplingParams, Scheduler, StepResult, Tokenizer

pytestmark = [
    pytest.mark.usefixtures("graphs"),
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),  # the interpreter's, for NaN
]

SIZE, DRAFTS = 100, 2
TOKENIZER = Tokenizer([b"</s>", *(bytes([i]) for i in range(1, SIZE))], eos_token_ids=[0])
CHAIN: dict[str, Any] = {"temperature": 0.9, "top_k": 5}
TOGETHER: tuple[dict[str, Any], ...] = (
    CHAIN,
    {"temperature": 0.0},
    CHAIN | {"logit_bias": {3: 2.0}, "stop": ["a"], "max_tokens": 9},
    {"typical_p": 0.9},
)


class Both:
    """The same requests on torch and on NumPy; what NumPy draws is known before it is guessed."""

    def __init__(self, *settings: dict[str, Any]) -> None:
        self.torch = Scheduler(SIZE, TOKENIZER, backend=TorchBackend())
        self.numpy = Scheduler(SIZE, TOKENIZER, backend="numpy")
        self._random = np.random.default_rng(len(settings))
        for scheduler in (self.torch, self.numpy):
            for seed, one in enumerate(settings):
                scheduler.add(SamplingParams(seed=seed, **one), [1, 2, 3], request_id=seed)
        self.rows = torch.empty(len(settings) * (1 + DRAFTS), SIZE)

    def step(self, faulty: int | None = None) -> StepResult:
        """A step whose guesses are right now and then, which gives what NumPy gives."""
        ids = self.numpy.request_ids
        rows = self.rows[: len(ids) * (1 + DRAFTS)]
        rows.copy_(torch.from_numpy(self._random.normal(0, 2, rows.shape).astype(np.float32)))
        if faulty is not None:
            rows[faulty] = float("nan")
        drafts = self.guesses(ids, rows.numpy())
        result, right = (s.step(rows, ids, drafts) for s in (self.torch, self.numpy))
        assert result.token_ids.tolist() == right.token_ids.tolist()
        assert result.errors == right.errors
        assert result.finish_reasons == right.finish_reasons
        assert result.text == right.text
        if result.token_ids_on_device is not None:
            assert result.token_ids_on_device.tolist() == right.token_ids.tolist()
        assert self.torch.request_ids == self.numpy.request_ids
        return result

    def guesses(self, ids: list[Any], rows: np.ndarray) -> list[list[int]]:
        """Right as often as not."""
        copies = [self.numpy.fork(i) for i in ids]
        guesses = [[1] * DRAFTS for _ in ids]
        for depth in range(DRAFTS):
            drawn = self.numpy.step(rows[depth :: 1 + DRAFTS], copies, strict=False).token_ids.tolist()
            for guess, token in zip(guesses, drawn, strict=True):
                guess[depth] = token if token >= 0 and self._random.random() < 0.7 else 1
        for i in copies:
            self.numpy.remove(i)
        return guesses


def test_they_are_those_of_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    both, waits = Both(*TOGETHER, *TOGETHER), []
    monkeypatch.setattr(transfer.Download, "receive", counted(transfer.Download.receive, waits))
    accepted = 0
    for _ in range(6):
        before = len(waits)
        found = both.step()
        accepted += int((found.token_ids >= 0).sum()) - len(found.first_rows)
        assert len(waits) == before + 1
    assert accepted > 3


def counted(method: Any, calls: list[None]) -> Any:
    def call(*arguments: Any) -> Any:
        calls.append(None)
        return method(*arguments)

    return call


def test_steps_that_are_alike_are_captured(graphs: Graphs) -> None:
    both = Both(CHAIN, CHAIN, {"temperature": 0.0})
    results = [both.step() for _ in range(6)]
    assert (graphs.captured, graphs.started) == (1, 3)
    assert all(result.token_ids_on_device is not None for result in results)


def test_a_faulty_row_behind_a_wrong_guess_does_no_harm() -> None:
    both = Both(CHAIN, CHAIN)
    both.guesses = lambda ids, rows: [[99] * DRAFTS for _ in ids]  # type: ignore[method-assign]
    assert both.step(faulty=1).errors == [None, None]
    assert both.step(faulty=3).errors[0] is None
    assert both.numpy.request_ids == [0]


def test_tokens_on_the_device_of_a_request_that_ends_before_its_guesses_do_are_not_reported() -> None:
    both = Both({"temperature": 0.0, "max_tokens": 1})
    found = both.step()
    while found.finish_reasons == [None]:
        found = both.step()
    if found.token_ids_on_device is not None:
        assert found.token_ids_on_device.tolist() == found.token_ids.tolist()


PREPARED: tuple[dict[str, Any], ...] = (
    {"repetition_penalty": 1.5},
    {"frequency_penalty": 0.5, "penalty_last_n": 4, "logit_bias": {3: 1.0}},
    {"logprobs": 2},
    {"logprobs": 1, "logprobs_mode": "penalized", "presence_penalty": 0.5},
    {"logprobs": 1, "logprobs_mode": "processed"},
    {"regex": "[ -_]+"},
    {"xtc_probability": 0.5},
    {"bad_words": [[7, 8], [9]], "min_tokens": 3},
    {"no_repeat_ngram_size": 2, "dry_multiplier": 0.8},
)


@pytest.mark.parametrize("settings", PREPARED, ids=str)
def test_what_is_prepared_for_all_rows_takes_one_wait(
    settings: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    both, waits = Both(CHAIN | settings, CHAIN), []
    monkeypatch.setattr(transfer.Download, "receive", counted(transfer.Download.receive, waits))
    for step in range(3):
        both.step()
        assert len(waits) == step + 1


def test_tables_of_penalties_begin_every_step_where_their_requests_are() -> None:
    both = Both(CHAIN | {"repetition_penalty": 1.5}, CHAIN | {"presence_penalty": 2.0, "penalty_last_n": 3})
    listed: list[None] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tables.EditTables, "_list_anew", counted(tables.EditTables._list_anew, listed))
        for _ in range(5):
            both.step()
    assert len(listed) == 1


@pytest.mark.parametrize("settings", [{"mirostat": 2}, {"grammar_bias": 1.0, "regex": "[a-f]+"}], ids=str)
def test_others_are_drawn_one_after_the_other(settings: dict[str, Any]) -> None:
    both = Both({"temperature": 0.9} | settings, CHAIN)
    for _ in range(3):
        both.step()
