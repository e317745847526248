"""A fault in one request ends that request, and affects no other."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from engine_sampler import RequestError, SamplingParams
from engine_sampler.contract import Param, Sampler, Selection, Selector, StoppingCriteria

from ..engines import (
    CONFIGURATIONS,
    VOCAB,
    RemovesEverything,
    ToyMatcher,
    alone,
    make_scheduler,
    model_step,
    outcome,
    registered,
    rows_for,
    run_to_end,
)


def bad_row(**changes: float) -> np.ndarray:
    row = np.linspace(-1, 1, VOCAB).astype(np.float32)
    for column, value in changes.items():
        row[int(column[1:])] = value
    return row


FAULTY = (
    (bad_row(c3=np.nan), "the row's greatest logit is nan; allowed is at most 2^100"),
    (bad_row(c3=np.inf), "the row's greatest logit is inf"),
    (bad_row(c3=2.0**101), "the row's greatest logit is 2.5"),
    (np.full(VOCAB, -np.inf, np.float32), "every logit of the row is -inf"),
    (np.full(VOCAB, -(2.0**110), np.float32), "every logit of the row is -inf"),
)


@pytest.mark.quick_share(3)
@pytest.mark.parametrize(("row", "words"), FAULTY)
@pytest.mark.parametrize("faulty", [0, 5, len(CONFIGURATIONS) - 1])
def test_a_faulty_row_ends_its_request_and_the_others_get_their_tokens(
    row: np.ndarray, words: str, faulty: int
) -> None:
    scheduler = make_scheduler()
    requests = [SamplingParams(**c, seed=7, max_tokens=5) for c in CONFIGURATIONS]
    for params in requests:
        scheduler.add(params, [1, 2])
    model_step(scheduler)
    live = scheduler.request_ids
    rows = rows_for(scheduler, live)
    rows[live.index(faulty)] = row
    result = scheduler.step(rows, live)
    place = live.index(faulty)
    assert result.token_ids[place] == -1
    assert result.finish_reasons[place] == "error"
    assert str(result.errors[place]).startswith(words)
    assert [e for i, e in enumerate(result.errors) if i != place] == [None] * (len(live) - 1)
    run_to_end(scheduler)
    assert len(scheduler.record(faulty).token_ids) == 1
    for i, params in enumerate(requests):
        if i != faulty:
            assert outcome(scheduler.record(i)) == outcome(alone(params, [1, 2]))


def test_a_fault_in_a_draft_row_keeps_the_tokens_before_it() -> None:
    scheduler = make_scheduler()
    scheduler.add(SamplingParams(temperature=0))
    rows = np.zeros((3, VOCAB), np.float32)
    rows[0, 4] = 9
    rows[1] = np.nan
    result = scheduler.step(rows, None, [[4, 5]])
    assert result.token_ids.tolist() == [4, -1, -1]
    assert scheduler.record(0).token_ids == [4]
    assert scheduler.record(0).finish_reason == "error"


def test_logits_below_the_limit_read_as_removed() -> None:
    row = bad_row(c0=-(2.0**101), c1=-3e38, c2=-np.inf)
    expected = np.where(row < -(2.0**100), np.float32(-np.inf), row)
    scheduler = make_scheduler()
    scheduler.add(SamplingParams(seed=1, typical_p=0.9, temperature=3.0))
    scheduler.add(SamplingParams())
    processed = scheduler.process(np.stack([row, row]))
    assert np.isneginf(processed[:, :3]).all()
    assert processed[1].tobytes() == expected.tobytes()
    twin = make_scheduler()
    for seed in range(30):
        for engine, logits in ((scheduler, row), (twin, expected)):
            engine.add(SamplingParams(seed=seed, top_p=0.9), request_id=f"r{seed}")
            engine.step(logits[None], [f"r{seed}"])
        assert scheduler.record(f"r{seed}").token_ids == twin.record(f"r{seed}").token_ids


def test_process_shows_faulty_rows_as_nan_and_logs_why(caplog: pytest.LogCaptureFixture) -> None:
    scheduler = make_scheduler()
    scheduler.add(SamplingParams(), request_id="good")
    scheduler.add(SamplingParams(), request_id="bad")
    processed = scheduler.process(np.stack([bad_row(), bad_row(c1=np.nan)]))
    assert processed[0].tobytes() == bad_row().tobytes()
    assert np.isnan(processed[1]).all()
    assert "request 'bad': the row's greatest logit is nan" in caplog.text
    assert scheduler.request_ids == ["good", "bad"]


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"bad_words": list(range(VOCAB - 1)), "logit_bias": {VOCAB - 1: -np.inf}}, "leaves no token"),
        ({"allowed_token_ids": [1], "bad_words": [1]}, "bad_words leaves no token"),
    ],
)
def test_settings_that_leave_no_token_end_the_request_and_name_the_sampler(settings: Any, words: str) -> None:
    scheduler = make_scheduler()
    scheduler.add(SamplingParams(**settings))
    scheduler.add(SamplingParams(allowed_token_ids=[1]))
    result = scheduler.step(np.stack([bad_row()] * 2))
    assert words in str(result.errors[0])
    assert result.token_ids.tolist() == [-1, 1]


# --- plugins that fail ---------------------------------------------------------------------------


class Fails(Sampler):
    """A plugin that fails in the way that its parameter selects."""

    name = "fails"
    after = "min_p"
    params = (Param("fails", str, "", doc="how"),)

    def apply(self, logits: np.ndarray, rows: Any) -> Any:
        for i, how in enumerate(rows["fails"]):
            if how == "raise":
                raise RuntimeError("out of order")
            if how == "nan":
                logits[i] = np.nan
            if how == "inf":
                logits[i, 0] = np.inf
            if how == "empty":
                logits[i] = -np.inf
        return logits - 1 if "return" in rows["fails"] else logits

    def new_state(self, params: Any, prompt_token_ids: Any) -> list[int]:
        return [params["fails"]]

    def accept(self, state: Any, token_ids: Any) -> None:
        if state == ["accept"]:
            raise RuntimeError("cannot keep up")


class WildSelector(Selector):
    name = "wild"
    params = (Param("wild", int, 0, doc="the column to choose, whatever is in it"),)

    def select(self, logits: np.ndarray, rows: Any) -> Selection:
        return Selection(rows["wild"])


@pytest.mark.parametrize("top_k", [0, 8])
@pytest.mark.parametrize(
    ("how", "words"),
    [
        ("raise", "fails failed: RuntimeError: out of order"),
        ("nan", "fails gives nan"),
        ("inf", "fails gives inf"),
        ("empty", "fails leaves no token"),
        ("return", "fails failed: apply must change logits in place, and returned others"),
    ],
)
def test_a_failing_sampler_ends_only_its_request(how: str, words: str, top_k: int) -> None:
    with registered(Fails()):
        scheduler = make_scheduler()
        good = SamplingParams(seed=2, top_k=top_k, fails="no", max_tokens=6)
        for name, params in (("a", good), ("bad", good.replace(fails=how)), ("b", good)):
            scheduler.add(params, [1], request_id=name)
        result = model_step(scheduler)
        assert result.errors == [None, words, None]
        assert result.token_ids[1] == -1
        run_to_end(scheduler)
        expected = outcome(alone(good, [1]))
        assert outcome(scheduler.record("a")) == outcome(scheduler.record("b")) == expected


def test_a_sampler_that_cannot_accept_a_token_ends_only_its_request() -> None:
    with registered(Fails()):
        scheduler = make_scheduler()
        good = SamplingParams(seed=2, fails="no", max_tokens=4)
        scheduler.add(good.replace(fails="accept"), request_id="bad")
        scheduler.add(good, request_id="good")
        result = model_step(scheduler)
        assert result.errors == ["fails failed: RuntimeError: cannot keep up", None]
        assert result.tokens(0) == scheduler.record("bad").token_ids
        run_to_end(scheduler)
        assert outcome(scheduler.record("good")) == outcome(alone(good))


def test_a_truncation_that_removes_everything_is_named() -> None:
    class Removes(RemovesEverything):
        params = (Param("removes_everything", bool, False),)

    with registered(Removes()):
        scheduler = make_scheduler()
        for settings in ({}, {"top_k": 5}):
            scheduler.add(SamplingParams(removes_everything=True, **settings))
        scheduler.add(SamplingParams(seed=1))
        result = model_step(scheduler)
        assert result.errors[:2] == ["removes_everything leaves no token"] * 2
        assert result.token_ids[2] >= 0


def test_a_selector_that_chooses_a_removed_token_ends_its_request() -> None:
    with registered(WildSelector()):
        scheduler = make_scheduler()
        scheduler.add(SamplingParams(wild=3, logit_bias={3: -np.inf}))
        scheduler.add(SamplingParams(wild=4))
        scheduler.add(SamplingParams(wild=4000))
        result = scheduler.step(np.stack([bad_row()] * 3))
        assert result.token_ids.tolist() == [-1, 4, -1]
        assert result.errors[0] == "wild chose a removed token"
        assert str(result.errors[2]).startswith("wild failed")


# --- faults between steps ----------------------------------------------------------------------------


class FailsAfter(ToyMatcher):
    """Allows all tokens; once it has accepted `tokens` of them, `method` fails."""

    def __init__(self, tokens: int, method: str) -> None:
        super().__init__({})
        self.tokens, self.method, self.seen = tokens, method, 0

    def _work(self, method: str) -> None:
        if method == self.method and self.seen >= self.tokens:
            raise RuntimeError("lost its place")

    def fill_bitmask(self, bitmask: Any, row: int = 0) -> None:
        self._work("fill")
        bitmask[row] = -1

    def accept(self, token_id: int) -> bool:
        self.seen += 1
        return True

    def rollback(self, n: int) -> None:
        self._work("rollback")
        self.seen -= n

    def is_terminated(self) -> bool:
        return False

    def is_accepting(self) -> bool:
        return False


def chosen(token: int) -> np.ndarray:
    row = np.zeros((1, VOCAB), np.float32)
    row[0, token] = 50
    return row


def test_a_request_that_failed_between_two_steps_can_only_be_stepped_or_removed() -> None:
    scheduler = make_scheduler()
    request = scheduler.add(SamplingParams(ignore_eos=True), grammar=FailsAfter(2, "fill"))
    for token in (3, 4):
        scheduler.step(chosen(token))
    scheduler.prepare()
    assert scheduler.record(request).finish_reason == "error"
    for change in (
        lambda: scheduler.rollback(request, 1),
        lambda: scheduler.fork(request),
        lambda: scheduler.accept(request, [3]),
    ):
        with pytest.raises(RequestError, match="has finished"):
            change()
    assert scheduler.forced_tokens(request) == []
    assert scheduler.step(chosen(3)).finish_reasons == ["error"]
    assert scheduler.request_ids == []


def test_a_part_that_cannot_roll_back_ends_its_request() -> None:
    scheduler = make_scheduler()
    request = scheduler.add(SamplingParams(ignore_eos=True), grammar=FailsAfter(2, "rollback"))
    other = scheduler.add(SamplingParams(ignore_eos=True))
    for token in (3, 4):
        scheduler.step(np.concatenate([chosen(token)] * 2))
    scheduler.rollback(request, 1)
    record = scheduler.record(request)
    assert record.finish_reason == "error"
    assert "the grammar failed: RuntimeError: lost its place" in (record.error or "")
    assert len(record.token_ids) == 1
    assert scheduler.request_ids == [other]


class CannotRollBack(StoppingCriteria):
    """Fails in rollback."""

    name = "stubborn"

    def check(self, state: Any, token_ids: Any, text: str) -> None:
        return None

    def rollback(self, state: Any, n: int) -> None:
        raise RuntimeError("rollback failed")


def test_a_criterion_that_cannot_roll_back_ends_its_request() -> None:
    scheduler = make_scheduler()
    request = scheduler.add(SamplingParams(ignore_eos=True), stopping_criteria=[CannotRollBack()])
    scheduler.step(chosen(3))
    scheduler.rollback(request, 1)
    assert scheduler.record(request).error == "stubborn failed: RuntimeError: rollback failed"
    assert scheduler.record(request).token_ids == []


class FailsAtTheEnd(FailsAfter):
    """Fails in `is_terminated`."""

    def is_terminated(self) -> bool:
        self._work("is_terminated")
        return False


def test_a_grammar_that_fails_at_its_end_does_not_change_the_text() -> None:
    scheduler = make_scheduler()
    parameters = {"stop": ["d d d"], "ignore_eos": True}
    request = scheduler.add(SamplingParams(**parameters), grammar=FailsAtTheEnd(3, "is_terminated"))
    other = scheduler.add(SamplingParams(**parameters))
    streamed = ""
    for token in (3, 4, 5):
        streamed += scheduler.step(np.concatenate([chosen(token)] * 2)).text[0] or ""
    record = scheduler.record(request)
    assert (record.finish_reason, record.token_ids) == ("error", [3, 4, 5])
    assert record.text == streamed == scheduler.remove(other).text


# --- requests that go on --------------------------------------------------------------------------


@pytest.mark.parametrize(("row", "words"), FAULTY)
def test_a_request_with_a_faulty_row_goes_on_if_the_scheduler_keeps_it(row: np.ndarray, words: str) -> None:
    scheduler = make_scheduler(keep_faulty=True)
    requests = [SamplingParams(**c, seed=7, max_tokens=5) for c in CONFIGURATIONS]
    for params in requests:
        scheduler.add(params, [1, 2])
    model_step(scheduler)
    live = scheduler.request_ids
    for faulty in (0, 2):
        rows = rows_for(scheduler, live)
        kept = [(i, scheduler.record(i).token_ids) for i in live]
        rows[:] = row
        result = scheduler.step(rows, live)
        assert result.token_ids.tolist() == [-1] * len(live)
        assert result.finish_reasons == [None] * len(live)
        assert all(str(error).startswith(words) for error in result.errors), faulty
        assert [(i, scheduler.record(i).token_ids) for i in live] == kept
    run_to_end(scheduler)
    for i, params in enumerate(requests):
        assert outcome(scheduler.record(i)) == outcome(alone(params, [1, 2]))


def test_a_kept_request_has_the_drafts_before_its_faulty_row() -> None:
    scheduler = make_scheduler(keep_faulty=True)
    scheduler.add(SamplingParams(temperature=0.0), [1])
    row = bad_row(c5=9.0)
    result = scheduler.step(np.stack([row, bad_row(c3=np.nan), row]), draft_token_ids=[[5, 5]])
    assert result.tokens(0) == [5]
    assert "greatest logit is nan" in str(result.errors[0])
    assert scheduler.record(0).token_ids == [5]
    assert scheduler.step(row[None]).token_ids.tolist() == [5]


def test_beams_with_faulty_rows_end_all_the_same() -> None:
    scheduler = make_scheduler(keep_faulty=True)
    scheduler.add_group(SamplingParams(use_beam_search=True, n=2, max_tokens=3), [1])
    result = scheduler.step(np.full((len(scheduler.request_ids), VOCAB), np.nan, np.float32))
    assert {*result.finish_reasons} == {"error"}
