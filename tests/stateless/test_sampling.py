"""`sample` and `process_logits`: the results of a scheduler, in one call."""

from __future__ import annotations

import logging
import pickle
from typing import Any

import numpy as np
import pytest

from engine_sampler import ParameterError, SamplingParams, Scheduler, process_logits, sample
from engine_sampler.contract import Param, Sampler
from engine_sampler.stateless import Sampled
from tests.engines import registered
from tests.random_chains import ROUNDS, TAKES_AWAY, random_history, random_logits, random_settings, tokenizer
from tests.reference import kept, softmax

LOGITS = np.random.default_rng(0).normal(0, 3, (4, 50)).astype(np.float32)


def seeded(random: np.random.Generator, n: int, size: int) -> list[SamplingParams]:
    return [
        SamplingParams(**random_settings(random, size, without=TAKES_AWAY), seed=int(random.integers(2**63)))
        for _ in range(n)
    ]


# --- sample ---------------------------------------------------------------------------------------


def test_masks_and_logprobs_of_named_tokens_are_those_of_a_scheduler() -> None:
    params = SamplingParams(top_k=5, seed=1, return_sampling_mask=True, logprob_token_ids=[3, 1])
    sampled = sample(LOGITS, params)
    scheduler = Scheduler(50)
    for _ in LOGITS:
        scheduler.add(params)
    result: Any = scheduler.step(LOGITS)
    assert sampled.sampling_mask is not None
    assert sampled.sampling_mask.to_dict() == result.sampling_mask.to_dict()
    assert sampled.given_logprobs is not None
    assert sampled.given_logprobs.to_dict() == result.given_logprobs.to_dict()


@pytest.mark.parametrize("size", [1, 2, 33, 257, 3000])
def test_a_row_gets_the_token_that_a_scheduler_would_give_it(size: int) -> None:
    random = np.random.default_rng(size)
    for _ in range(5 * ROUNDS):
        params, logits = seeded(random, 12, size), random_logits(random, 12, size)
        prompts, outputs = ([random_history(random, size) for _ in range(12)] for _ in range(2))
        scheduler = Scheduler(size, tokenizer(size))
        for row_params, prompt, output in zip(params, prompts, outputs, strict=True):
            scheduler.add(row_params, prompt, output_token_ids=output)
        sampled = sample(
            logits, params, prompt_token_ids=prompts, output_token_ids=outputs, tokenizer=tokenizer(size)
        )
        np.testing.assert_array_equal(sampled.token_ids, scheduler.step(logits).token_ids)
        assert sampled.seeds == [row_params.seed for row_params in params]
        assert sampled.errors == [None] * 12


def test_calls_one_after_the_other_are_independent() -> None:
    """Rows come and go, histories grow and shrink and are changed in place, rows fail: each call is as if it
    were the only one."""
    size, random = 257, np.random.default_rng(11)
    params = seeded(random, 6, size)
    prompts, outputs = ([random_history(random, size) for _ in range(6)] for _ in range(2))
    for _ in range(40 * ROUNDS):
        n = int(random.integers(1, 7))
        i = int(random.integers(6))
        match random.integers(6):
            case 0:
                params[i] = seeded(random, 1, size)[0]
            case 1:
                prompts[i] = random_history(random, size)
            case 2:
                outputs[i] = outputs[i][: len(outputs[i]) // 2]
            case 3 if outputs[i]:
                outputs[i][int(random.integers(len(outputs[i])))] = int(random.integers(size))
            case _:
                for output in outputs[:n]:
                    output.append(int(random.integers(size)))
        if random.random() < 0.5:
            params = pickle.loads(pickle.dumps(params))  # equal ones
        logits = random_logits(random, n, size)
        if random.random() < 0.2:
            logits[0] = np.nan
        arguments = {"prompt_token_ids": prompts[:n], "output_token_ids": outputs[:n]}
        positions = random.integers(99, size=n).tolist() if random.random() < 0.3 else None
        scheduler = Scheduler(size, tokenizer(size), backend="numpy", postpone=False)
        for i, (one, prompt, output) in enumerate(zip(params[:n], *arguments.values(), strict=True)):
            position = positions and positions[i]
            scheduler.add(one, prompt, output_token_ids=output, position=position)
        arguments["positions"] = positions
        alone = scheduler.process(logits), scheduler.step(logits)
        processed = process_logits(logits, params[:n], tokenizer=tokenizer(size), **arguments)
        np.testing.assert_array_equal(processed, alone[0])
        sampled = sample(logits, params[:n], tokenizer=tokenizer(size), **arguments)
        np.testing.assert_array_equal(sampled.token_ids, alone[1].token_ids)
        assert sampled.errors == alone[1].errors


def test_a_call_within_a_call_does_not_disturb_it() -> None:
    class Nested(Sampler):
        name = "nested"
        params = (Param("nested", bool, False),)

        def apply(self, logits: np.ndarray, rows: Any) -> None:
            logits += sample(LOGITS, SamplingParams(seed=1)).token_ids[0]

    with registered(Nested()):
        before = sample(LOGITS, SamplingParams(seed=1)).token_ids
        nested = process_logits(LOGITS, SamplingParams(nested=True))
        np.testing.assert_array_equal(nested, LOGITS + np.float32(before[0]))
        np.testing.assert_array_equal(sample(LOGITS, SamplingParams(seed=1)).token_ids, before)


def test_a_call_after_one_that_was_refused_is_as_any_other() -> None:
    params = SamplingParams(seed=1, temperature=3.0)
    right = sample(LOGITS, params, output_token_ids=[[1, 2]] * 4).token_ids
    for wrong in ([[1, 2, 50]], [[1, 2, -1]], [[1, 2, 0.5]]):
        with pytest.raises(ParameterError, match="output_token_ids"):
            sample(LOGITS, params, output_token_ids=[[1, 2]] * 3 + wrong)
    with pytest.raises(ValueError, match="logits"):
        sample(LOGITS[0], params)
    np.testing.assert_array_equal(sample(LOGITS, params, output_token_ids=[[1, 2]] * 4).token_ids, right)


def test_a_single_params_object_applies_to_all_rows() -> None:
    settings = {"seed": 3, "top_p": 0.9, "repetition_penalty": 1.3, "mirostat": 2}
    shared, own = SamplingParams(**settings), [SamplingParams(**settings) for _ in LOGITS]
    np.testing.assert_array_equal(sample(LOGITS, shared).token_ids, sample(LOGITS, own).token_ids)
    np.testing.assert_array_equal(process_logits(LOGITS, shared), process_logits(LOGITS, own))


class Uncopied(Sampler):
    """Has a state that cannot be copied, and adds to the logits what is in it."""

    name = "uncopied"
    params = (Param("added", float, 0.0),)

    def new_state(self, params: Any, prompt_token_ids: Any) -> Any:
        return [params["added"]]

    def fork(self, state: Any) -> Any:
        raise RuntimeError("no copies")

    def apply(self, logits: np.ndarray, rows: Any) -> None:
        for row, (added,) in zip(logits, rows.states, strict=True):
            row += np.float32(added)


def test_rows_of_one_params_object_may_have_states_that_cannot_be_copied() -> None:
    with registered(Uncopied()):
        processed = process_logits(LOGITS, SamplingParams(added=1.5))
    np.testing.assert_array_equal(processed, LOGITS + np.float32(1.5))


def test_positions_replace_the_length_of_the_history() -> None:
    flat = np.zeros((300, 50), np.float32)
    params = SamplingParams(seed=5)
    by_position = sample(flat, params, positions=range(300)).token_ids
    by_history = sample(flat, params, prompt_token_ids=[[0] * i for i in range(300)]).token_ids
    np.testing.assert_array_equal(by_position, by_history)
    assert len(set(by_position.tolist())) > 40
    again = sample(flat, params, prompt_token_ids=[[0]] * 300, positions=range(300)).token_ids
    np.testing.assert_array_equal(again, by_position)


def test_unseeded_rows_report_a_seed_that_reproduces_the_draw() -> None:
    flat = np.zeros((40, 3000), np.float32)
    first = sample(flat, SamplingParams())
    assert len(set(first.seeds)) == 40
    again = sample(flat, [SamplingParams(seed=seed) for seed in first.seeds])
    np.testing.assert_array_equal(again.token_ids, first.token_ids)


def test_a_faulty_row_gives_minus_one_and_an_error() -> None:
    logits = LOGITS.copy()
    logits[1, 4], logits[2] = np.nan, -np.inf
    sampled = sample(logits, SamplingParams(seed=1, logprobs=1))
    healthy = sample(LOGITS, SamplingParams(seed=1, logprobs=1))
    assert sampled.token_ids.tolist() == [healthy.token_ids[0], -1, -1, healthy.token_ids[3]]
    assert sampled.errors == [
        None,
        "the row's greatest logit is nan; allowed is at most 2^100",
        "every logit of the row is -inf",
        None,
    ]
    assert sampled.logprobs.ranks[[1, 2]].tolist() == [0, 0]
    np.testing.assert_array_equal(sampled.logprobs.logprobs[3], healthy.logprobs.logprobs[3])


def test_logprobs_are_given_if_requested() -> None:
    assert sample(LOGITS, SamplingParams()).logprobs is None
    table = sample(LOGITS, SamplingParams(logprobs=2, seed=1)).logprobs
    assert table.token_ids.shape == (4, 3)
    expected = [np.log(softmax(row))[token] for row, token in zip(LOGITS, table.token_ids[:, 0], strict=True)]
    np.testing.assert_allclose(table.logprobs[:, 0], expected, rtol=1e-5)


def test_no_rows_give_an_empty_result() -> None:
    none = LOGITS[:0]
    sampled = sample(none, SamplingParams())
    assert isinstance(sampled, Sampled)
    assert (sampled.token_ids.tolist(), sampled.seeds, sampled.errors) == ([], [], [])
    assert sampled.token_ids.dtype == np.int64
    assert process_logits(none, []).shape == (0, 50)


# --- process_logits -------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 2, 33, 257, 3000])
def test_drawn_tokens_are_among_the_survivors(size: int) -> None:
    random = np.random.default_rng(size)
    params, logits = seeded(random, 40, size), random_logits(random, 40, size)
    arguments = {
        "prompt_token_ids": [random_history(random, size) for _ in range(40)],
        "tokenizer": tokenizer(size),
    }
    processed = process_logits(logits, params, **arguments)
    assert processed.dtype == np.float32
    for row, token in zip(processed, sample(logits, params, **arguments).token_ids.tolist(), strict=True):
        assert token in kept(row)


def test_process_logits_is_the_chain_without_a_selector() -> None:
    processed = process_logits(np.array([[1.0, 3.0, 2.0]], np.float32), SamplingParams(top_k=2))
    np.testing.assert_array_equal(processed, [[-np.inf, 3.0, 2.0]])


@pytest.mark.parametrize("settings", [{"temperature": 0}, {"temperature": 0, "top_k": 4, "order": "vllm"}])
def test_temperature_zero_leaves_only_the_best_token(settings: dict[str, Any]) -> None:
    processed = process_logits(LOGITS, SamplingParams(**settings))
    for row, given in zip(processed, LOGITS, strict=True):
        assert kept(row) == {int(given.argmax())}
        assert row.max() == given.max()


def test_a_faulty_row_is_all_nan_and_the_reason_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    logits = LOGITS.copy()
    logits[1, 4] = np.inf
    with caplog.at_level(logging.ERROR, "engine_sampler"):
        processed = process_logits(logits, SamplingParams(temperature=0.5))
    assert np.isnan(processed[1]).all()
    healthy = process_logits(LOGITS, SamplingParams(temperature=0.5))
    np.testing.assert_array_equal(processed[[0, 2, 3]], healthy[[0, 2, 3]])
    assert "the row's greatest logit is inf" in caplog.text


def test_a_mask_without_survivors_is_an_error_of_its_row(caplog: pytest.LogCaptureFixture) -> None:
    logits = LOGITS.copy()
    logits[0, 7] = -np.inf
    processed = process_logits(logits, SamplingParams(allowed_token_ids=[7]))
    assert np.isnan(processed[0]).all()
    assert kept(processed[1]) == {7}
    assert "request 0" in caplog.text


@pytest.mark.parametrize("view", [slice(None), slice(None, None, 2), slice(None, None, -1)])
def test_inplace_writes_into_the_callers_array_and_returns_it(view: slice) -> None:
    params = SamplingParams(temperature=0.5, top_k=7)
    logits = LOGITS.copy()[view]
    expected = process_logits(logits, params)
    np.testing.assert_array_equal(logits, LOGITS[view])
    assert process_logits(logits, params, inplace=True) is logits
    np.testing.assert_array_equal(logits, expected)


def read_only() -> np.ndarray:
    logits = LOGITS.copy()
    logits.flags.writeable = False
    return logits


@pytest.mark.parametrize("logits", [read_only(), LOGITS.astype(np.float16), memoryview(LOGITS.copy())])
def test_inplace_needs_a_writable_float32_array(logits: Any) -> None:
    with pytest.raises(
        ValueError, match="inplace=True is not allowed: logits must be a writable float32 NumPy array"
    ):
        process_logits(logits, SamplingParams(), inplace=True)


def test_a_refused_call_writes_nothing() -> None:
    logits = LOGITS.copy()
    with pytest.raises(ParameterError):
        process_logits(logits, SamplingParams(logit_bias={50: 1.0}), inplace=True)
    np.testing.assert_array_equal(logits, LOGITS)


# --- logits wider than the tokenizer --------------------------------------------------------------


@pytest.mark.parametrize("inplace", [False, True])
def test_the_padding_of_a_model_head_is_never_drawn_and_is_marked_as_removed(inplace: bool) -> None:
    logits = LOGITS.copy()
    logits[:, 40:] = 100
    params = SamplingParams(seed=2)
    given = {"tokenizer": tokenizer(40)}
    assert (sample(logits, params, **given).token_ids < 40).all()
    processed = process_logits(logits.copy(), params, inplace=inplace, **given)
    assert processed.shape == LOGITS.shape
    np.testing.assert_array_equal(processed[:, :40], LOGITS[:, :40])
    assert (processed[:, 40:] == -np.inf).all()


# --- refusals -------------------------------------------------------------------------------------


@pytest.mark.parametrize("call", [sample, process_logits])
@pytest.mark.parametrize(
    ("keywords", "error"),
    [
        ({"params": [SamplingParams()] * 3}, "params has 3 entries for 4 rows of logits"),
        ({"prompt_token_ids": [[]]}, "prompt_token_ids has 1 entries for 4 rows"),
        ({"output_token_ids": [[]] * 5}, "output_token_ids has 5 entries for 4 rows"),
        ({"prompt_token_ids": [0, 1, 2, 3]}, r"=\[0, 1, 2, 3\] is not allowed: a list of ids for each row"),
        (
            {"output_token_ids": np.arange(4)},
            r"output_token_ids=.* is not allowed: a list of ids for each row",
        ),
        ({"positions": []}, "positions has 0 entries for 4 rows"),
        ({"positions": [0, 0, 0, -1]}, "position=-1 is not allowed: an integer of at least 0"),
        ({"positions": [0, 0, 0, 2**63]}, r"position=\d+ is not allowed"),
        ({"positions": [0, 0, 0, 1.5]}, r"position=1\.5 is not allowed"),
        ({"prompt_token_ids": [[0], [1], [50], [2]]}, "prompt_token_ids names token id 50"),
        ({"params": [None] * 4}, "params=None is not allowed: a SamplingParams"),
        ({"params": SamplingParams(n=2)}, "needs add_group"),
        ({"params": SamplingParams(infill=True)}, "infill=True needs a tokenizer"),
        ({"tokenizer": tokenizer(51)}, "logits are 50 wide; the vocabulary has 51 tokens"),
        ({"backend": "numpi"}, "backend='numpi' is not allowed"),
    ],
)
def test_wrong_arguments_are_refused(call: Any, keywords: dict[str, Any], error: str) -> None:
    with pytest.raises(ValueError, match=error):
        call(LOGITS, **{"params": SamplingParams(), **keywords})


@pytest.mark.parametrize("call", [sample, process_logits])
@pytest.mark.parametrize("logits", [np.zeros((2, 3)), np.zeros((2, 3), np.int64), "abc"])
def test_wrong_arrays_are_refused(call: Any, logits: Any) -> None:
    with pytest.raises(TypeError, match="logits"):
        call(logits, SamplingParams())


def test_calls_with_other_outputs_of_texts_follow_one_another() -> None:
    params, outputs = SamplingParams(dry_multiplier=0.8, dry_allowed_length=1, seed=1), ([1, 2], [3], [0, 2])

    def processed(output: list[int], known: Any) -> list[list[float]]:
        return process_logits(
            LOGITS[:1], params, prompt_token_ids=[[3]], output_token_ids=[output], tokenizer=known
        ).tolist()

    known, tokenizers = tokenizer(50), [tokenizer.__wrapped__(50) for _ in outputs]
    found = [processed(output, known) for output in outputs]
    assert found == [processed(output, own) for output, own in zip(outputs, tokenizers, strict=True)]
