"""The masks of a step: filled together or one by one, and reused until a token outdates them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from engine_sampler import SamplingParams, Scheduler
from engine_sampler.contract import Vocabulary
from engine_sampler.grammar import Grammar, Limits, prepare
from engine_sampler.grammar.engines import filling
from engine_sampler.requests.budget import Budget
from engine_sampler.requests.history import History
from engine_sampler.requests.request import Request
from engine_sampler.requests.slots import Slots
from engine_sampler.scheduler.masks import GrammarMasks

from ..bytewise import (
    EOS,
    TOKENIZER,
    VOCAB,
    allowed,
    every_backend,
    fresh_tokenizer,
    model_rows,
    needs_native_engine,
    tokenizer_for,
)
from ..engines import ToyMatcher

VOCABULARY = Vocabulary(VOCAB, (EOS,), TOKENIZER)
WORDS = -(-VOCAB // 32)
PATTERNS = ["[a-c]+", "a{3}", "(?s:.)*", "x|red", r"\d\.\d*", "[^a]b?"]
LOOP = {"start": {1: "start", 200: "start", 260: "start"}}


class Failing(ToyMatcher):
    def fill_bitmask(self, bitmask: np.ndarray, row: int = 0) -> None:
        bitmask[row] = -1
        raise RuntimeError("lost its place")


def matcher(pattern: str, engine: str = "native") -> Any:
    return Grammar.from_regex(pattern).compile(tokenizer_for(engine)).matcher()


def request(constraint: Any) -> Request:
    return Request("r", SamplingParams(seed=1), History([], []), VOCABULARY, matcher=constraint)


def exhausted() -> Any:
    """A native matcher whose limit of work is too low for its first mask."""
    tokenizer = fresh_tokenizer()
    prepare(tokenizer)
    return Grammar.from_regex("[^a-y][^b]*|(?s:.*)x").compile(tokenizer, limits=Limits(work=2_000)).matcher()


def masks_for(vocab_size: int) -> GrammarMasks:
    """The masks of a step that may do the work of one."""
    budget = Budget(vocab_size)
    budget.start()
    return GrammarMasks(Slots(Vocabulary(vocab_size), {}), budget)


def ids_of(words: np.ndarray) -> list[int]:
    return np.flatnonzero(np.unpackbits(words.view(np.uint8), bitorder="little")).tolist()


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The number of rows that each call of the native engine filled."""
    counts: list[int] = []
    fill: Callable[..., Any] = filling.fill_rows

    def counted(matchers: Any, bitmask: Any, rows: Any, work: Any) -> Any:
        counts.append(len(matchers))
        return fill(matchers, bitmask, rows, work)

    monkeypatch.setattr(filling, "fill_rows", counted)
    return counts


# --- filling -------------------------------------------------------------------------------------


@needs_native_engine
def test_native_matchers_are_filled_in_one_call_with_the_masks_they_give_alone(calls: list[int]) -> None:
    requests = [request(matcher(pattern)) for pattern in PATTERNS]
    masks = masks_for(VOCAB)
    filled = masks.fill(requests, range(len(requests)))
    assert calls == [len(PATTERNS)]
    assert (filled.shape, filled.dtype) == ((len(PATTERNS), WORDS), np.int32)
    for row, each in zip(filled, requests, strict=True):
        assert ids_of(row) == allowed(each.grammar.matcher.fork())
        assert each.grammar.mask_ready


@needs_native_engine
def test_matchers_of_every_kind_can_share_a_step(calls: list[int]) -> None:
    kinds = [matcher("a|red"), ToyMatcher(LOOP), matcher("a|red", "reference"), matcher("b"), None]
    requests = [request(kind) for kind in kinds]
    filled = masks_for(VOCAB).fill(requests, [0, 1, 2, 3])
    assert calls == [2]
    expected = allowed(matcher("a|red"))
    assert [ids_of(row) for row in filled[:4]] == [expected, sorted(LOOP["start"]), expected, [ord("b")]]


def test_only_the_rows_of_the_indices_are_set() -> None:
    requests = [request(ToyMatcher(LOOP)) for _ in range(4)]
    filled = masks_for(VOCAB).fill(requests, [1, 3])
    assert [ids_of(row) for row in filled] == [[], sorted(LOOP["start"])] * 2
    assert [each.grammar.mask_ready for each in requests] == [False, True, False, True]


@needs_native_engine
@pytest.mark.parametrize("vocab_size", [VOCAB + 40, VOCAB + 1000])
def test_tokens_beyond_a_matchers_vocabulary_are_not_allowed(vocab_size: int) -> None:
    requests = [request(matcher("[a-c]")), request(matcher("[a-c]", "reference"))]
    filled = masks_for(vocab_size).fill(requests, [0, 1])
    assert [ids_of(row) for row in filled] == [[*b"abc"], [*b"abc"]]


@needs_native_engine
@pytest.mark.parametrize("failing", [lambda: Failing(LOOP), exhausted])
def test_a_matcher_that_fails_ends_only_its_own_request(failing: Any) -> None:
    kinds = [matcher("a"), failing(), matcher("b"), ToyMatcher(LOOP)]
    requests = [request(kind) for kind in kinds]
    filled = masks_for(VOCAB).fill(requests, range(4))
    assert [each.live for each in requests] == [True, False, True, True]
    reasons = (
        "the grammar failed: RuntimeError: lost",
        "the grammar failed: GrammarLimitError: the limit of work",
    )
    assert str(requests[1].error).startswith(reasons)
    assert [ids_of(filled[i]) for i in (0, 2, 3)] == [[ord("a")], [ord("b")], sorted(LOOP["start"])]
    assert not requests[1].grammar.mask_ready


@needs_native_engine
def test_a_matcher_of_a_larger_vocabulary_ends_its_request_and_no_other() -> None:
    small = Vocabulary(64, (0,))
    requests = [
        Request(i, SamplingParams(), History([], []), small, matcher=kind)
        for i, kind in enumerate([matcher("a"), ToyMatcher({"start": {5: "start"}})])
    ]
    filled = masks_for(64).fill(requests, [0, 1])
    assert "bitmask has the shape (1, 2)" in str(requests[0].error)
    assert ids_of(filled[1]) == [5]


# --- reuse ----------------------------------------------------------------------------------------


def test_a_mask_is_reused_as_long_as_it_is_valid() -> None:
    masks, constraint = masks_for(VOCAB), ToyMatcher(LOOP)
    requests = [request(constraint)]
    first = masks.fill(requests, [0])
    assert masks.fill(requests, [0], go_on=True) is first
    assert constraint.fills == 1
    requests[0].grammar.mask_ready = False
    assert masks.fill(requests, [0], go_on=True) is first
    assert constraint.fills == 2


def test_masks_for_other_requests_are_filled_again() -> None:
    masks, first, second = masks_for(VOCAB), ToyMatcher(LOOP), ToyMatcher({"start": {7: "start"}})
    requests = [request(first), request(second)]
    masks.fill(requests, [0, 1])
    assert [ids_of(row) for row in masks.fill(requests[::-1], [0, 1])] == [[7], sorted(LOOP["start"])]
    assert ids_of(masks.fill([requests[1]], [0])[0]) == [7]
    assert [ids_of(row) for row in masks.fill(requests, [0, 1])] == [sorted(LOOP["start"]), [7]]
    assert (first.fills, second.fills) == (3, 4)


def test_a_mask_that_was_filled_in_another_batch_is_not_reused() -> None:
    masks, constraint = masks_for(VOCAB), ToyMatcher(LOOP)
    requests = [request(ToyMatcher(LOOP)), request(constraint)]
    masks.fill(requests, [0, 1])
    again = requests.copy()
    masks.fill(again, [0])
    assert ids_of(masks.fill(again, [0, 1], go_on=True)[1]) == sorted(LOOP["start"])
    assert constraint.fills == 2


@needs_native_engine
def test_only_outdated_masks_are_filled(calls: list[int]) -> None:
    requests = [request(matcher(pattern)) for pattern in PATTERNS]
    masks = masks_for(VOCAB)
    masks.fill(requests, [0, 1])
    masks.fill(requests, range(len(PATTERNS)), go_on=True)
    masks.fill(requests, range(len(PATTERNS)), go_on=True)
    assert calls == [2, len(PATTERNS) - 2]


# --- with a scheduler ----------------------------------------------------------------------------


def scheduler_of(*grammars: Any, **keywords: Any) -> Scheduler:
    scheduler = Scheduler(VOCAB, TOKENIZER, **keywords)
    for seed, grammar in enumerate(grammars):
        scheduler.add(SamplingParams(seed=seed, ignore_eos=True), grammar=grammar)
    return scheduler


def step(scheduler: Scheduler) -> list[int]:
    return scheduler.step(model_rows(scheduler)).token_ids.tolist()


def test_prepared_masks_are_not_filled_again_by_the_step() -> None:
    matchers = [ToyMatcher(LOOP) for _ in range(3)]
    scheduler = scheduler_of(*matchers, None)
    for n in range(1, 4):
        scheduler.prepare()
        scheduler.prepare()
        assert [each.fills for each in matchers] == [n] * 3
        step(scheduler)
        assert [each.fills for each in matchers] == [n] * 3


@needs_native_engine
def test_a_step_fills_all_native_masks_in_one_call(calls: list[int]) -> None:
    scheduler = scheduler_of(*[matcher("[ab]{9}") for _ in range(5)])
    for _ in range(3):
        scheduler.prepare()
        step(scheduler)
    assert calls == [5, 5, 5]


def test_masks_prepared_for_some_requests_do_not_affect_a_step_of_others() -> None:
    matchers = [ToyMatcher({"start": {token_id: "start"}}) for token_id in (5, 6, 7)]
    scheduler = scheduler_of(*matchers)
    scheduler.prepare([2, 0])
    assert step(scheduler) == [5, 6, 7]
    scheduler.prepare([1])
    scheduler.prepare([2, 1])
    assert scheduler.step(model_rows(scheduler)[:2], [0, 2]).token_ids.tolist() == [5, 7]
    assert step(scheduler) == [5, 6, 7]


def test_requests_that_come_and_go_get_the_masks_of_their_own_grammars() -> None:
    scheduler = scheduler_of(*[ToyMatcher({"start": {token_id: "start"}}) for token_id in (5, 6, 7)])
    scheduler.prepare()
    scheduler.remove(1)
    scheduler.add(SamplingParams(), grammar=ToyMatcher({"start": {8: "start"}}))
    assert step(scheduler) == [5, 7, 8]


CYCLE = {"start": {1: "second"}, "second": {2: "third"}, "third": {3: "start"}}


def test_a_rollback_outdates_a_prepared_mask() -> None:
    scheduler = scheduler_of(ToyMatcher(CYCLE))
    step(scheduler)
    step(scheduler)
    scheduler.prepare()
    scheduler.rollback(0, 1)
    assert step(scheduler) == [2]


def test_tokens_chosen_elsewhere_outdate_a_prepared_mask() -> None:
    scheduler = scheduler_of(ToyMatcher(CYCLE))
    scheduler.prepare()
    scheduler.accept(0, [1, 2])
    assert step(scheduler) == [3]


def test_a_fork_fills_its_own_mask() -> None:
    scheduler = scheduler_of(ToyMatcher(CYCLE))
    step(scheduler)
    scheduler.prepare()
    scheduler.fork(0)
    scheduler.accept(1, [2])
    assert step(scheduler) == [2, 3]


@every_backend
def test_every_row_of_drafts_has_its_own_mask(backend: str) -> None:
    scheduler = scheduler_of(ToyMatcher(CYCLE), None, ToyMatcher(CYCLE), backend=backend)
    scheduler.accept(2, [1])
    scheduler.prepare()
    drafts = [[1, 2, 2], [], [2]]
    result = scheduler.step(model_rows(scheduler, drafts), None, drafts)
    assert result.token_ids[:4].tolist() == [1, 2, 3, -1]
    assert result.token_ids[5:].tolist() == [2, 3]
    step_after = step(scheduler)
    assert (step_after[0], step_after[2]) == (1, 1)


@every_backend
def test_logits_may_be_wider_than_the_masks(backend: str) -> None:
    scheduler = scheduler_of(ToyMatcher({"start": {200: "start"}}), None, backend=backend)
    wide = np.full((2, VOCAB + 100), 30.0, np.float32)
    wide[:, :VOCAB] = model_rows(scheduler)
    assert scheduler.step(wide).token_ids[0] == 200
