"""Beam searches in a scheduler, along with requests that draw."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from engine_sampler import (
    Grammar,
    ParameterError,
    RequestError,
    SamplingParams,
    Scheduler,
    StepResult,
    Tokenizer,
)
from engine_sampler.contract import StoppingCriteria
from engine_sampler.requests.request import Request

TOKENS = [b"<end>", b"a", b"b", b"c", b"ab", b" "]
TOKENIZER = Tokenizer(TOKENS, [0])
VOCAB = len(TOKENS)


def model(token_ids: list[int]) -> np.ndarray:
    """Logits that depend on all tokens."""
    return np.random.default_rng(token_ids).normal(0, 2, VOCAB).astype(np.float32)


class Engine:
    """Records the tokens of each row in place of a cache."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.scheduler = scheduler
        self.caches: dict[Any, list[int]] = {}

    def add(self, prompt: list[int], **parameters: Any) -> list[Any]:
        params = SamplingParams(**parameters)
        ids = self.scheduler.add_group(params, prompt)
        self.caches |= {i: list(prompt) for i in ids}
        return ids

    def step(self) -> StepResult:
        ids = self.scheduler.request_ids
        result = self.scheduler.step(np.stack([model(self.caches[i]) for i in ids]), ids)
        kept = {i: self.caches[p] for i, p in zip(ids, result.parent_ids, strict=True)}
        self.caches |= {i: [*kept[i], int(t)] for i, t in zip(ids, result.token_ids, strict=True) if t >= 0}
        return result

    def run(self) -> None:
        while self.scheduler.request_ids:
            self.step()


def engine(**options: Any) -> Engine:
    return Engine(Scheduler(VOCAB, TOKENIZER, **options))


def beams(**more: Any) -> dict[str, Any]:
    return {"use_beam_search": True, "beam_width": 3, "max_tokens": 6, **more}


def test_reordered_caches_hold_the_tokens_of_their_requests() -> None:
    tried = engine()
    ids = tried.add([1, 2], **beams(ignore_eos=True))
    for _ in range(5):
        tried.step()
        for i in ids:
            record = tried.scheduler.record(i)
            assert tried.caches[i] == record.prompt_token_ids + record.token_ids


def test_the_texts_end_together_the_best_first() -> None:
    tried = engine()
    ids = tried.add([1], **beams(n=2))
    while tried.scheduler.request_ids:
        result = tried.step()
        ended = [reason is not None for reason in result.finish_reasons]
        assert all(ended) or not any(ended)
        if not all(ended):
            assert result.text == ["", "", ""]
    records = [tried.scheduler.record(i) for i in ids]
    assert tried.scheduler.best(ids) == ids[:2]
    scores = [r.score for r in records]
    assert scores == sorted(scores, reverse=True)  # type: ignore[type-var]
    for record, text in zip(records, result.text, strict=True):
        assert record.text == text == TOKENIZER.decode(record.token_ids)
        logits = [model([1, *record.token_ids[:i]]).astype(np.float64) for i in range(len(record.token_ids))]
        logprobs = [
            row[t] - np.log(np.exp(row).sum()) for row, t in zip(logits, record.token_ids, strict=True)
        ]
        assert record.cumulative_logprob == pytest.approx(sum(logprobs), abs=1e-5)
        assert record.score == pytest.approx(sum(logprobs) / len(logprobs), abs=1e-5)
    assert result.token_ids.tolist() == [-1, -1, -1]


def test_a_wider_search_finds_nothing_worse() -> None:
    gains = []
    for prompt in range(8):
        scores = []
        for width in (1, 6):
            tried = engine()
            ids = tried.add([prompt % VOCAB, 3], **beams(beam_width=width, early_stopping="never"))
            tried.run()
            scores.append(tried.scheduler.record(ids[0]).score or 0.0)
        gains.append(scores[1] - scores[0])
    assert min(gains) >= 0
    assert max(gains) > 0


def test_a_search_and_requests_that_draw_do_not_affect_each_other() -> None:
    together, alone, drawn = engine(), engine(), engine()
    ids = together.add([1], **beams())
    other = together.add([3, 3], seed=5, max_tokens=6)
    more = together.add([2], **beams(beam_width=2))
    together.run()
    own = alone.add([1], **beams())
    alone.run()
    assert [together.scheduler.record(i).token_ids for i in ids] == [
        alone.scheduler.record(i).token_ids for i in own
    ]
    single = drawn.add([3, 3], seed=5, max_tokens=6)
    drawn.run()
    assert together.scheduler.record(other[0]).token_ids == drawn.scheduler.record(single[0]).token_ids
    assert all(together.scheduler.record(i).finish_reason for i in more)


def test_texts_obey_grammars_and_penalties() -> None:
    tried = engine()
    ids = tried.add([1], **beams(regex="(a|b) c+"))
    tried.run()
    for i in ids:
        record = tried.scheduler.record(i)
        assert record.error is None
        if record.finish_reason == "stop":
            assert Grammar.from_regex("(a|b) c+").check(record.text)  # type: ignore[arg-type]


def test_a_stop_string_ends_a_text() -> None:
    tried = engine()
    ids = tried.add([1], **beams(stop=["c"], ignore_eos=True, max_tokens=9))
    tried.run()
    records = [tried.scheduler.record(i) for i in ids]
    assert any(r.stop_reason == "c" for r in records)
    assert not any("c" in (r.text or "") for r in records)


def test_a_greedy_temperature_has_no_effect() -> None:
    texts = []
    for temperature in (0.0, 1.0):
        tried = engine()
        ids = tried.add([1], **beams(temperature=temperature))
        tried.run()
        texts.append([tried.scheduler.record(i).token_ids for i in ids])
    assert texts[0] == texts[1]


def test_a_faulty_row_ends_only_its_own_text() -> None:
    tried = engine()
    ids = tried.add([1], **beams(ignore_eos=True))
    tried.step()
    rows = np.stack([model(tried.caches[i]) for i in ids])
    rows[0] = np.nan
    result = tried.scheduler.step(rows)
    assert set(result.parent_ids) <= set(ids[1:])
    assert result.errors == [None] * 3


def test_a_search_whose_rows_are_all_faulty_ends_with_the_reason() -> None:
    tried = engine()
    ids = tried.add([1], **beams())
    result = tried.scheduler.step(np.full((3, VOCAB), np.nan, np.float32))
    assert result.finish_reasons == ["error"] * 3
    assert all("nan" in (error or "") for error in result.errors)
    assert tried.scheduler.request_ids == []
    assert tried.scheduler.record(ids[0]).token_ids == []


def test_all_rows_of_a_search_belong_in_one_step() -> None:
    tried = engine()
    ids = tried.add([1], **beams())
    with pytest.raises(RequestError, match="must be in the same step"):
        tried.scheduler.step(np.zeros((2, VOCAB), np.float32), ids[:2])
    with pytest.raises(RequestError, match="draft_token_ids"):
        tried.scheduler.step(np.zeros((4, VOCAB), np.float32), None, {ids[0]: [1]})


def test_only_the_search_itself_continues_its_requests() -> None:
    scheduler = Scheduler(VOCAB)
    first, *_ = scheduler.add_group(SamplingParams(**beams()))
    for change in (
        lambda: scheduler.accept(first, [1]),
        lambda: scheduler.rollback(first, 0),
        lambda: scheduler.fork(first),
    ):
        with pytest.raises(RequestError, match="beam search"):
            change()


def test_removing_one_of_its_requests_ends_the_search() -> None:
    tried = engine()
    first, second, third = tried.add([1], **beams())
    tried.step()
    assert tried.scheduler.remove(second).finish_reason == "abort"
    assert tried.scheduler.request_ids == []
    assert tried.scheduler.record(first).finish_reason == "abort"
    assert tried.scheduler.record(third).finish_reason == "abort"


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n": 4, "beam_width": 3}, "beam_width=3"),
        ({"logprobs": 2}, "logprobs=2"),
        ({"mirostat": 2}, "use_beam_search=True"),
        ({"early_stopping": "soon"}, "never"),
        ({"beam_width": 0}, "beam_width=0"),
    ],
)
def test_parameters_that_contradict_a_search_are_refused(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        SamplingParams(**{**beams(), **parameters})


def test_a_search_is_a_group() -> None:
    with pytest.raises(ParameterError, match="add_group"):
        Scheduler(VOCAB).add(SamplingParams(use_beam_search=True))


class Interferer(StoppingCriteria):
    """Calls `interfere` once, in the middle of a step, as another thread might."""

    name = "interferer"

    def __init__(self, interfere: Callable[[], Any]) -> None:
        self.interfere: Callable[[], Any] | None = interfere

    def check(self, state: Any, token_ids: Any, text: str) -> None:
        interfere, self.interfere = self.interfere, None
        if interfere is not None:
            interfere()


def test_a_search_may_be_removed_while_a_step_runs() -> None:
    scheduler = Scheduler(VOCAB, TOKENIZER)
    interferer = Interferer(lambda: scheduler.remove("b0"))
    draws = SamplingParams(max_tokens=9, ignore_eos=True)
    scheduler.add(draws, request_id="draws", stopping_criteria=[interferer])
    scheduler.add_group(SamplingParams(**beams(beam_width=2)), request_ids=["b0", "b1"])
    result = scheduler.step(np.zeros((3, VOCAB), np.float32))
    assert result.token_ids[0] >= 0
    assert scheduler.request_ids == ["draws"]
    assert scheduler.record("b1").finish_reason == "abort"
    scheduler.add(draws, request_id="next")
    assert (scheduler.step(np.zeros((2, VOCAB), np.float32)).token_ids >= 0).all()


@pytest.mark.parametrize("penalty", [1024, -300, 16.1, math.inf])
def test_a_length_penalty_that_would_overflow_is_refused_by_name(penalty: float) -> None:
    with pytest.raises(ParameterError, match="length_penalty="):
        SamplingParams.from_dict({"use_beam_search": True, "length_penalty": penalty, "max_tokens": 2})


def test_stop_tokens_of_a_search_cost_no_texts(monkeypatch: pytest.MonkeyPatch) -> None:
    built = []
    fork = Request.fork
    monkeypatch.setattr(Request, "fork", lambda *given: built.append(1) or fork(*given))
    size, width = 4096, 4
    scheduler = Scheduler(size, eos_token_ids=[0])
    ids = scheduler.add_group(
        SamplingParams(use_beam_search=True, beam_width=width, stop_token_ids=list(range(2000)))
    )
    rows = np.random.default_rng(5).normal(0, 1, (width, size)).astype(np.float32)
    rows[:, :2000] += 9
    built.clear()
    scheduler.step(rows, ids)
    assert len(built) <= 2 * width
