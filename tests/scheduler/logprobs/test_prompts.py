"""`score_prompt`: the logprobs of a prompt, as the rows of its prefill come."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from engine_sampler import ParameterError, RequestError, SamplingParams
from engine_sampler.arithmetic import row_logprobs
from engine_sampler.base.errors import warn_once
from engine_sampler.contract import values
from engine_sampler.registry import core_params
from engine_sampler.requests.results import prompt_scores
from engine_sampler.stateless import logprobs

from ...engines import VOCAB, make_scheduler, model_row, run_to_end
from ...stateful.workload import BACKENDS

PROMPT = [3, 1, 4, 1, 5, 9, 2, 6]
ROWS = np.stack([model_row(PROMPT[: i + 1]) for i in range(len(PROMPT))])


@pytest.fixture
def told(caplog: pytest.LogCaptureFixture) -> Iterator[pytest.LogCaptureFixture]:
    warn_once.cache_clear()
    yield caplog
    warn_once.cache_clear()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("chunks", [[7], [1] * 7, [3, 0, 4]])
def test_chunks_of_a_prefill_give_what_the_whole_prompt_has(backend: str, chunks: list[int]) -> None:
    scheduler = make_scheduler(backend=backend)
    request_id = scheduler.add(SamplingParams(prompt_logprobs=2, logprobs_mode="processed", top_k=1), PROMPT)
    ends = np.cumsum(chunks)
    scores = [
        scheduler.score_prompt(request_id, ROWS[end - n : end]) for n, end in zip(chunks, ends, strict=True)
    ]
    whole = logprobs(ROWS[:-1], PROMPT[1:], top_n=2)
    assert [part.start for part in scores] == (ends - chunks).tolist()
    tables: list[Any] = [part.logprobs for part in scores]
    for name in ("entry_token_ids", "entry_logprobs", "ranks"):
        joined = np.concatenate([getattr(table, name) for table in tables])
        assert joined.tobytes() == getattr(whole, name).tobytes()
    assert all(part.given is None for part in scores)


@pytest.mark.parametrize("backend", BACKENDS)
def test_tokens_are_scored_as_the_next_ones_of_their_rows(backend: str) -> None:
    named = [[5, 7, VOCAB - 1], [], [2]]
    params = SamplingParams(prompt_logprob_token_ids=named, prompt_logprob_start=3)
    scheduler = make_scheduler(backend=backend)
    request_id = scheduler.add(params, PROMPT)
    first, rest = scheduler.score_prompt(request_id, ROWS[3:5]), scheduler.score_prompt(request_id, ROWS[5:7])
    assert (first.start, rest.start, first.logprobs) == (3, 5, None)
    for i, token_ids in enumerate([*named, []]):
        table: Any = (first if i < 2 else rest).given
        found = table.row(i % 2)
        assert found.token_ids.tolist() == token_ids
        expected = [row_logprobs(ROWS[3 + i], token_id, 0) for token_id in token_ids]
        assert found.logprobs.tolist() == [entry.logprobs[0] for entry in expected]
        assert found.ranks.tolist() == [entry.rank for entry in expected]


def test_more_rows_than_are_left_are_refused_and_change_nothing() -> None:
    scheduler = make_scheduler()
    request_id = scheduler.add(SamplingParams(prompt_logprobs=0), PROMPT)
    scheduler.score_prompt(request_id, ROWS[:3])
    with pytest.raises(ValueError, match=r"5 rows; 4 are left to score, from row 3 of the prompt"):
        scheduler.score_prompt(request_id, ROWS[3:])
    assert scheduler.score_prompt(request_id, ROWS[3:7]).start == 3


@pytest.mark.parametrize("wrong", [ROWS[0], ROWS[:, : VOCAB - 1], ROWS.astype(np.float64)])
def test_other_arrays_are_refused(wrong: np.ndarray) -> None:
    scheduler = make_scheduler()
    request_id = scheduler.add(SamplingParams(prompt_logprobs=0), PROMPT)
    with pytest.raises((TypeError, ValueError), match="logits"):
        scheduler.score_prompt(request_id, wrong)
    assert scheduler.score_prompt(request_id, ROWS[:-1]).start == 0


def test_a_request_that_asks_for_none_is_refused() -> None:
    scheduler = make_scheduler()
    request_id = scheduler.add(SamplingParams(logprobs=1), PROMPT)
    with pytest.raises(RequestError, match="asks for no logprobs of its prompt"):
        scheduler.score_prompt(request_id, ROWS[:1])


def test_a_faulty_row_has_no_logprobs() -> None:
    rows = ROWS[:2].copy()
    rows[0] = np.nan
    scheduler = make_scheduler()
    params = SamplingParams(prompt_logprobs=1, prompt_logprob_token_ids=[[1, 2], [3]])
    scores: Any = scheduler.score_prompt(scheduler.add(params, PROMPT), rows)
    assert np.isnan(scores.logprobs.logprobs[0]).all()
    assert scores.logprobs.ranks[0] == 0
    assert np.isnan(scores.given.row(0).logprobs).all()
    assert scores.given.row(0).ranks.tolist() == [0, 0]
    assert scores.logprobs.ranks[1] > 0
    assert scores.given.row(1).ranks[0] > 0


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"prompt_logprob_token_ids": [[VOCAB]]}, f"names token id {VOCAB}, allowed are 0 to"),
        ({"prompt_logprob_token_ids": [[1]] * 8}, "has 8 rows, which is not allowed: at most 7"),
        ({"prompt_logprob_token_ids": [[1]] * 2, "prompt_logprob_start": 6}, "has 2 rows"),
    ],
)
def test_what_the_prompt_does_not_have_is_refused_by_add(settings: Any, message: str) -> None:
    scheduler = make_scheduler()
    with pytest.raises(ParameterError, match=message):
        scheduler.add(SamplingParams(**settings), PROMPT)
    assert scheduler.request_ids == []


def test_siblings_and_forks_share_their_prompt(told: pytest.LogCaptureFixture) -> None:
    scheduler = make_scheduler()
    ids = scheduler.add_group(SamplingParams(prompt_logprobs=0, n=2, max_tokens=1), PROMPT)
    scheduler.score_prompt(ids[1], ROWS[:7])
    child = scheduler.fork(ids[0])
    with pytest.raises(ValueError, match="0 are left to score"):
        scheduler.score_prompt(child, ROWS[:1])
    run_to_end(scheduler)
    assert not told.records


def test_an_engine_that_never_calls_it_is_told_once(told: pytest.LogCaptureFixture) -> None:
    scheduler = make_scheduler()
    for _ in range(3):
        scheduler.add(SamplingParams(prompt_logprobs=0, max_tokens=1), PROMPT)
        run_to_end(scheduler)
    [record] = told.records
    assert "Scheduler.score_prompt(request_id, logits)" in record.getMessage()


@pytest.mark.parametrize("prompt", [[], [1]])
def test_a_prompt_without_a_next_token_needs_no_call(prompt: Any, told: pytest.LogCaptureFixture) -> None:
    scheduler = make_scheduler()
    scheduler.add(SamplingParams(prompt_logprobs=0, max_tokens=1), prompt)
    scheduler.add(SamplingParams(prompt_logprobs=0, max_tokens=9), PROMPT, output_token_ids=[1])
    run_to_end(scheduler)
    assert not told.records


def test_rows_elsewhere_come_to_the_host_in_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    class Elsewhere:
        """Rows on a device that no backend reads from."""

        device, dtype, requires_grad = "npu:0", "float32", False
        largest = 0

        def __init__(self, rows: np.ndarray) -> None:
            self.rows, self.shape = rows, rows.shape

        def __getitem__(self, which: Any) -> Elsewhere:
            return Elsewhere(self.rows[which])

        def __array__(self, *_: Any, **__: Any) -> np.ndarray:
            Elsewhere.largest = max(Elsewhere.largest, self.rows.nbytes)
            return self.rows

    monkeypatch.setattr(prompt_scores, "TILE_BYTES", 2 * 4 * VOCAB)
    scheduler = make_scheduler(backend="native")
    request_id = scheduler.add(SamplingParams(prompt_logprobs=1), PROMPT)
    scores: Any = scheduler.score_prompt(request_id, Elsewhere(ROWS[:7]))
    expected = logprobs(ROWS[:7], PROMPT[1:], top_n=1)
    assert scores.logprobs.entry_logprobs.tobytes() == expected.entry_logprobs.tobytes()
    assert Elsewhere.largest == 2 * 4 * VOCAB


def test_the_ids_of_all_rows_are_read_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []

    def counted(ids: list[int]) -> tuple[int, ...]:
        calls.append(len(ids))
        return values.token_ids(ids)

    monkeypatch.setattr(core_params, "token_ids", counted)
    rows = [[1, -1], [-1], (), [2, 3]]
    assert SamplingParams(prompt_logprob_token_ids=rows)["prompt_logprob_token_ids"] == ((1,), (), (), (2, 3))
    assert calls == [3]
