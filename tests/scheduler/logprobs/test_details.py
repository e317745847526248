"""Sampling masks, and the logprobs of tokens that a request names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from engine_sampler import (
    GivenLogprobs,
    ParameterError,
    RequestLimits,
    SamplingMask,
    SamplingParams,
    Scheduler,
    StepResult,
)
from engine_sampler.arithmetic import RowGiven, row_logprobs
from engine_sampler.backends.numpy import NumpyBackend
from engine_sampler.for_backends import DetailsCollector
from engine_sampler.requests.results import StepDetails
from engine_sampler.stateless import process_logits

from ...engines import EOS, TOKENIZER, VOCAB, ToyMatcher, make_scheduler, model_row, model_step
from ...random_chains import random_history, random_logits, random_settings, tokenizer
from ...stateful.workload import BACKENDS

CHAINS, SIZE = 300, 70


def mask_of(result: StepResult) -> SamplingMask:
    assert result.sampling_mask is not None
    return result.sampling_mask


def survivors(result: StepResult, row: int = 0) -> list[int]:
    ids = mask_of(result).row(row)
    assert ids is not None
    assert ids.dtype == np.int32
    return ids.tolist()


def stepped(params: SamplingParams, row: np.ndarray, backend: str, **keywords: Any) -> StepResult:
    scheduler = make_scheduler(backend=backend, limits=RequestLimits.none())
    scheduler.add(params, [1, 2], **keywords)
    return scheduler.step(row[None])


def test_rows_that_others_have_collected_are_taken_over_where_a_request_wants_them() -> None:
    params = SamplingParams(return_sampling_mask=2, logprob_token_ids=[4, 1], logprobs_mode="processed")
    vocabulary = make_scheduler().vocabulary
    details = [StepDetails.of(p, vocabulary) for p in (params, SamplingParams(logprob_token_ids=[3]))]
    assert details[0] is not None
    assert details[1] is not None
    masks = SamplingMask.of(
        [np.array([4]), np.array([5])], {"is_inverted": [0, 1], "is_capped": [0, 0]}, [-1, -2], VOCAB
    )
    given = GivenLogprobs.of([None, RowGiven(np.array([3]), np.array([-7], np.float32), np.array([9]))])
    collector = DetailsCollector(3, VOCAB, [details[0], details[1]])
    collector.copy(details[0], 2, masks, None, 0)
    collector.copy(details[1], 0, masks, given, 1)
    mask, taken = collector.sampling_mask(), collector.given_logprobs()
    assert mask is not None
    assert taken is not None
    assert [mask.row(row) is not None and mask.listed(row).tolist() for row in range(3)] == [[], [], [4]]
    assert taken.row(0).logprobs.tolist() == [-7]
    assert taken.starts.tolist() == [0, 1, 1, 1]


@pytest.mark.parametrize("backend", BACKENDS)
def test_masks_of_random_chains_are_the_support_of_the_draw(backend: str) -> None:
    random = np.random.default_rng(45)
    scheduler = Scheduler(SIZE, tokenizer(SIZE), backend=backend, limits=RequestLimits.none())
    drawn = 0
    for number in range(CHAINS):
        settings = random_settings(random, SIZE, without=["logits_processors"])
        params = SamplingParams(**settings, seed=number, return_sampling_mask=-1)
        prompt, output = (random_history(random, SIZE) for _ in range(2))
        row = random_logits(random, 1, SIZE)
        plain = params.replace(return_sampling_mask=0, logprobs=0, logprobs_mode="processed")
        for some in (params, plain):
            scheduler.add(some, prompt, output_token_ids=output)
        result = scheduler.step(np.concatenate([row, row]))
        for request_id in result.request_ids:
            scheduler.remove(request_id)
        assert result.token_ids[0] == result.token_ids[1]
        if result.errors[0] is not None:
            assert survivors(result) == []
            continue
        drawn += 1
        processed = process_logits(
            row,
            plain.replace(logprobs=None, logprobs_mode="raw"),
            prompt_token_ids=[prompt],
            output_token_ids=[output],
            tokenizer=tokenizer(SIZE),
            limits=RequestLimits.none(),
        )
        assert survivors(result) == np.flatnonzero(processed[0] > -np.inf).tolist(), settings
        assert result.logprobs is not None
        assert mask_of(result).logprobs[0].tobytes() == result.logprobs.row(1).logprobs[0].tobytes()
    assert drawn > CHAINS / 2


@pytest.mark.parametrize("backend", BACKENDS)
class TestSamplingMask:
    def test_only_rows_of_requests_that_want_one_say_something(self, backend: str) -> None:
        scheduler = make_scheduler(backend=backend)
        wants = SamplingParams(top_k=3, return_sampling_mask=True)
        for params in (SamplingParams(top_k=3), wants, SamplingParams(logprobs=2)):
            scheduler.add(params, [1])
        result = model_step(scheduler)
        mask = mask_of(result)
        assert [len(ids) for ids in map(mask.listed, range(3))] == [0, 3, 0]
        assert np.isnan(mask.logprobs).tolist() == [True, False, True]
        assert result.logprobs is not None
        assert result.logprobs.row(1).token_ids.tolist() == []

    def test_nobody_gets_one_who_does_not_ask(self, backend: str) -> None:
        result = stepped(SamplingParams(logprobs=1), model_row([1]), backend)
        assert result.sampling_mask is None
        assert result.given_logprobs is None

    def test_a_whole_vocabulary_is_not_listed(self, backend: str) -> None:
        result = stepped(SamplingParams(return_sampling_mask=True), model_row([1]), backend)
        mask = mask_of(result)
        assert mask.is_whole.tolist() == [True]
        assert not len(mask.token_ids)
        assert survivors(result) == list(range(VOCAB))

    def test_few_removed_tokens_are_listed_in_place_of_many_survivors(self, backend: str) -> None:
        params = SamplingParams(bad_words=[[3], [5]], return_sampling_mask=2)
        result = stepped(params, model_row([1]), backend)
        mask = mask_of(result)
        assert mask.listed(0).tolist() == [3, 5]
        assert (mask.is_inverted[0], mask.is_capped[0], mask.is_whole[0]) == (True, False, False)
        assert survivors(result) == [i for i in range(VOCAB) if i not in (3, 5)]

    def test_a_row_beyond_the_cap_says_so_and_keeps_its_logprob(self, backend: str) -> None:
        params = SamplingParams(top_k=7, seed=2, return_sampling_mask=6)
        capped = mask_of(stepped(params, model_row([1]), backend))
        listed = mask_of(stepped(params.replace(return_sampling_mask=7), model_row([1]), backend))
        assert capped.is_capped.tolist() == [True]
        assert capped.row(0) is None
        assert not len(capped.token_ids)
        assert len(listed.listed(0)) == 7
        assert capped.logprobs.tobytes() == listed.logprobs.tobytes()

    def test_a_greedy_row_has_one_survivor(self, backend: str) -> None:
        result = stepped(SamplingParams(temperature=0, return_sampling_mask=True), model_row([1]), backend)
        assert survivors(result) == result.tokens(0)
        assert mask_of(result).logprobs.tolist() == [0]

    def test_a_grammar_bounds_it(self, backend: str) -> None:
        matcher = ToyMatcher({"start": dict.fromkeys((2, 4, 9), "start")})
        params = SamplingParams(return_sampling_mask=True, seed=1)
        result = stepped(params, model_row([1]), backend, grammar=matcher)
        assert set(survivors(result)) <= {2, 4, 9}
        assert result.tokens(0)[0] in survivors(result)

    def test_a_forced_token_is_alone(self, backend: str) -> None:
        phases = [{"tokens": 0, "force": [7, 8], "then": 1}, {}]
        params = SamplingParams(phases=phases, seed=1, return_sampling_mask=True)
        result = stepped(params, model_row([1]), backend)
        assert survivors(result) == [7]
        assert mask_of(result).logprobs.tolist() == [0]

    def test_a_faulty_row_says_nothing(self, backend: str) -> None:
        params = SamplingParams(return_sampling_mask=True)
        result = stepped(params, np.full(VOCAB, np.nan, np.float32), backend)
        assert result.errors[0] is not None
        assert survivors(result) == []
        assert np.isnan(mask_of(result).logprobs[0])

    @pytest.mark.parametrize(
        "settings", [{}, {"repetition_penalty": 1.3}, {"xtc_probability": 0.5, "xtc_threshold": 0.02}]
    )
    def test_rows_of_drafts_have_those_of_steps_without(self, backend: str, settings: Any) -> None:
        params = SamplingParams(top_p=0.9, seed=4, return_sampling_mask=True, logprob_token_ids=[1, 3])
        params = params.replace(**settings)
        plain, drafted = (make_scheduler(backend=backend) for _ in range(2))
        for scheduler in (plain, drafted):
            scheduler.add(params, [1, 2])
        steps = [model_step(plain) for _ in range(3)]
        tokens = [int(step.token_ids[0]) for step in steps]
        wrong = (tokens[2] + 1) % VOCAB
        result = model_step(drafted, drafts=[[*tokens[:2], wrong, 5]])
        assert result.tokens(0) == tokens
        alone = SamplingMask.concatenate([mask_of(step) for step in steps])
        together = mask_of(result)
        assert together.token_ids.tolist() == alone.token_ids.tolist()
        assert together.offsets.tolist() == [*alone.offsets.tolist(), *alone.offsets[-1:].tolist() * 2]
        assert together.rows(range(3)).logprobs.tobytes() == alone.logprobs.tobytes()
        for row, step in enumerate(steps):
            assert_same_rows(result, row, step, 0)

    def test_forks_and_undone_tokens_have_masks_of_their_own(self, backend: str) -> None:
        scheduler = make_scheduler(backend=backend)
        first = scheduler.add(SamplingParams(min_p=0.1, seed=4, return_sampling_mask=True), [1, 2])
        before = mask_of(model_step(scheduler))
        child = scheduler.fork(first)
        both = model_step(scheduler, [first, child])
        assert survivors(both, 0) == survivors(both, 1)
        scheduler.rollback(first, 2)
        again = mask_of(model_step(scheduler, [first]))
        assert again.token_ids.tolist() == before.token_ids.tolist()
        assert again.logprobs.tobytes() == before.logprobs.tobytes()

    def test_siblings_have_a_row_each(self, backend: str) -> None:
        scheduler = make_scheduler(backend=backend)
        scheduler.add_group(SamplingParams(n=3, seed=1, top_k=4, return_sampling_mask=True), [1])
        result = model_step(scheduler)
        assert [len(survivors(result, row)) for row in range(3)] == [4, 4, 4]


@pytest.mark.parametrize("settings", [{"return_sampling_mask": True}, {"logprob_token_ids": [1]}])
def test_a_beam_search_has_neither(settings: Any) -> None:
    with pytest.raises(ParameterError, match=r"is not allowed with use_beam_search=True"):
        SamplingParams(use_beam_search=True, n=2, **settings)


def test_a_list_without_a_cap_is_beyond_the_default_limits() -> None:
    with pytest.raises(ParameterError, match=r"RequestLimits\(return_sampling_mask=…\)"):
        Scheduler(5000).add(SamplingParams(return_sampling_mask=-1))


def test_a_backend_that_gives_no_survivors_is_named(caplog: pytest.LogCaptureFixture) -> None:
    class Forgetful(NumpyBackend):
        name = "forgetful"

        def run(self, batch: Any) -> None:
            super().run(batch)
            batch.survivors.clear()

    scheduler = make_scheduler(backend=Forgetful())
    scheduler.add(SamplingParams(seed=1, return_sampling_mask=True))
    result = model_step(scheduler)
    assert result.tokens(0)
    assert survivors(result) == []
    assert "the backend gave no survivors, which Group.want_survivors asks for" in caplog.text


# --- the logprobs of named tokens ------------------------------------------------------------------


def assert_same_rows(result: StepResult, row: int, other: StepResult, other_row: int) -> None:
    """Both rows say the same of the tokens that are named."""
    assert result.given_logprobs is not None
    assert other.given_logprobs is not None
    pairs = zip(result.given_logprobs.row(row), other.given_logprobs.row(other_row), strict=True)
    for one, another in pairs:
        assert one.tobytes() == another.tobytes()


def expected_entries(logits: np.ndarray, token_ids: Sequence[int]) -> list[tuple[Any, int]]:
    entries = [row_logprobs(logits, token_id, 0) for token_id in token_ids]
    return [(entry.logprobs[0], entry.rank) for entry in entries]


@pytest.mark.parametrize("backend", BACKENDS)
class TestNamedTokens:
    @pytest.mark.parametrize("mode", ["raw", "penalized", "processed"])
    @pytest.mark.parametrize("top_n", [None, 2])
    def test_they_have_the_logprobs_and_ranks_of_the_mode(
        self, backend: str, mode: str, top_n: int | None
    ) -> None:
        token_ids = [9, 0, EOS, 2]
        settings: Any = {
            "presence_penalty": 1.5,
            "top_k": 8,
            "temperature": 0.6,
            "seed": 1,
            "logprobs": top_n,
        }
        params = SamplingParams(logprobs_mode=mode, logprob_token_ids=token_ids, **settings)
        row = model_row([1, 2])
        scheduler = make_scheduler(backend=backend)
        scheduler.add(params, [1, 2], output_token_ids=[9, 4])
        result = scheduler.step(row[None])
        penalised = process_logits(
            row[None], SamplingParams(presence_penalty=1.5), output_token_ids=[[9, 4]], tokenizer=TOKENIZER
        )[0]
        processed = scheduler_rows(params, row)
        logits = {"raw": row, "penalized": penalised, "processed": processed}[mode]
        assert result.given_logprobs is not None
        found = result.given_logprobs.row(0)
        assert found.token_ids.tolist() == token_ids
        assert [*zip(found.logprobs, found.ranks.tolist(), strict=True)] == expected_entries(
            logits, token_ids
        )
        assert (result.logprobs is None) == (top_n is None)

    def test_a_bias_beyond_all_logits_is_no_fault(self, backend: str) -> None:
        settings: Any = {"logit_bias": {3: 1e38}, "logprobs_mode": "penalized", "logprobs": 0, "seed": 1}
        result = stepped(SamplingParams(**settings, logprob_token_ids=[3, 5]), model_row([1]), backend)
        assert result.given_logprobs is not None
        assert result.logprobs is not None
        named = result.given_logprobs.row(0)
        assert (result.tokens(0), named.ranks[0]) == ([3], 1)
        assert named.logprobs[0] == result.logprobs.row(0).logprobs[0] == 0
        assert named.logprobs[1] < -1e37

    def test_several_modes_have_a_table_each(self, backend: str) -> None:
        scheduler = make_scheduler(backend=backend)
        several = SamplingParams(logprobs_mode=("processed", "raw"), logprob_token_ids=[1, 2], top_k=3)
        scheduler.add(several, [1])
        scheduler.add(SamplingParams(logprobs_mode="processed", logprob_token_ids=[3], top_k=3), [1])
        tables = model_step(scheduler).given_logprobs
        assert tables is not None
        assert set(tables.by_mode) == {"raw", "processed"}
        assert tables.row(0).logprobs.tobytes() == tables.modes["raw"].row(0).logprobs.tobytes()
        assert tables.row(1).logprobs.tobytes() == tables.modes["processed"].row(1).logprobs.tobytes()
        assert [len(tables.modes["raw"].row(i).token_ids) for i in range(2)] == [2, 0]

    def test_a_forced_token_has_a_processed_logprob_of_0(self, backend: str) -> None:
        phases = [{"tokens": 0, "force": [7, 8], "then": 1}, {}]
        params = SamplingParams(
            phases=phases, seed=1, logprobs_mode=("raw", "processed"), logprob_token_ids=[7, 8]
        )
        row = model_row([1])
        tables = stepped(params, row, backend).given_logprobs
        assert tables is not None
        assert tables.modes["processed"].row(0).logprobs.tolist() == [0, -np.inf]
        assert [
            *zip(tables.modes["raw"].row(0).logprobs, tables.row(0).ranks.tolist(), strict=True)
        ] == expected_entries(row, [7, 8])


def scheduler_rows(params: SamplingParams, row: np.ndarray) -> np.ndarray:
    """The row after the whole chain."""
    scheduler = make_scheduler()
    scheduler.add(params, [1, 2], output_token_ids=[9, 4])
    return np.asarray(scheduler.process(row[None])[0])


def test_a_named_token_that_does_not_exist_is_refused_before_anything_joins() -> None:
    scheduler = make_scheduler()
    with pytest.raises(ParameterError, match=rf"logprob_token_ids names token id {VOCAB}, allowed are 0 to"):
        scheduler.add(SamplingParams(logprob_token_ids=[VOCAB]))
    assert scheduler.request_ids == []
