from __future__ import annotations

import pickle
import re
from typing import Any, Literal

import numpy as np
import pytest

from engine_sampler import ParameterError, SamplingParams, Scheduler, process_logits, sample
from engine_sampler.samplers.logits_processors import Forbid

LOGITS = np.random.default_rng(0).normal(0, 3, (1, 3000)).astype(np.float32)


class Recorder:
    """A function that notes what it is called with."""

    def __init__(self, result: Any = None) -> None:
        self.calls: list[tuple[list[int], np.ndarray]] = []
        self.result = result

    def __call__(self, token_ids: np.ndarray, logits: np.ndarray) -> Any:
        self.calls.append((token_ids.tolist(), logits.copy()))
        return self.result


def processed(functions: Any, logits: np.ndarray = LOGITS, **params: Any) -> np.ndarray:
    return process_logits(logits, SamplingParams(logits_processors=functions, **params))[0]


def test_a_function_sees_prompt_and_output_and_the_whole_row() -> None:
    recorder = Recorder()
    params = SamplingParams(logits_processors=recorder)
    process_logits(LOGITS, params, prompt_token_ids=[[5, 6]], output_token_ids=[[7]])
    ((token_ids, row),) = recorder.calls
    assert token_ids == [5, 6, 7]
    np.testing.assert_array_equal(row, LOGITS[0])


def test_a_function_changes_its_row_or_returns_another() -> None:
    def halve(token_ids: np.ndarray, logits: np.ndarray) -> None:
        logits /= 2

    np.testing.assert_array_equal(processed(halve), LOGITS[0] / 2)
    np.testing.assert_array_equal(processed(lambda token_ids, logits: logits / 2), LOGITS[0] / 2)
    listed = processed(lambda token_ids, logits: (logits / 2).tolist())
    np.testing.assert_array_equal(listed, LOGITS[0] / 2)


def test_functions_run_one_after_another() -> None:
    def double(token_ids: np.ndarray, logits: np.ndarray) -> np.ndarray:
        return logits * 2

    def add(token_ids: np.ndarray, logits: np.ndarray) -> np.ndarray:
        return logits + 1

    np.testing.assert_array_equal(processed([add, double]), (LOGITS[0] + 1) * 2)


def test_a_removed_token_stays_removed() -> None:
    raised = processed(lambda token_ids, logits: np.zeros(3000), allowed_token_ids=[3, 9])
    assert np.flatnonzero(np.isfinite(raised)).tolist() == [3, 9]


def test_its_place_is_before_the_penalties_unless_the_order_says_otherwise() -> None:
    recorder = Recorder()
    settings: Any = {"top_k": 5, "temperature": 0.5, "presence_penalty": 1.0}
    params = SamplingParams(logits_processors=recorder, **settings)
    process_logits(LOGITS, params)
    np.testing.assert_array_equal(recorder.calls.pop()[1], LOGITS[0])
    order = ["penalties", "top_k", "logits_processors", "temperature"]
    process_logits(LOGITS, params.replace(order=order))
    left = recorder.calls.pop()[1]
    assert len(left) == 3000
    np.testing.assert_array_equal(np.flatnonzero(np.isfinite(left)), np.sort(np.argsort(LOGITS[0])[-5:]))
    process_logits(LOGITS, params.replace(order="transformers"), output_token_ids=[[4]])
    assert recorder.calls.pop()[1][4] == LOGITS[0, 4] - 1


@pytest.mark.parametrize("backend", ["numpy", "native"])
def test_rows_that_functions_have_left_are_drawn_from(backend: str) -> None:
    best = int(LOGITS[0].argmax())
    params = [SamplingParams(top_k=1, logits_processors=f) for f in (Forbid(best), ())]
    tokens = sample(np.repeat(LOGITS, 2, 0), params, backend=backend).token_ids.tolist()
    assert tokens == [int(np.argsort(LOGITS[0])[-2]), best]


@pytest.mark.parametrize("mirostat", [1, 2])
def test_selectors_that_ignore_truncations_keep_it(mirostat: Literal[1, 2]) -> None:
    recorder = Recorder()
    sample(LOGITS, SamplingParams(mirostat=mirostat, logits_processors=recorder))
    assert recorder.calls


def raises(token_ids: np.ndarray, logits: np.ndarray) -> None:
    raise KeyError("no such table")


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (raises, "logits_processors failed: KeyError: 'no such table'"),
        (lambda token_ids, logits: logits[:-1], "must return 3000 logits or None, not float32 \\[2999\\]"),
        (lambda token_ids, logits: logits[None], "must return 3000 logits or None"),
        (lambda token_ids, logits: "logits", "must return 3000 logits or None"),
        (lambda token_ids, logits: [0.0] * 4000, "has more than 3000 entries"),
        (lambda token_ids, logits: logits * np.nan, "logits_processors gives nan"),
        (lambda token_ids, logits: logits.astype(float) + 1e300, "logits_processors gives inf"),
        (lambda token_ids, logits: logits.fill(-np.inf), "logits_processors leaves no token"),
        (lambda token_ids, logits: token_ids.fill(0), "logits_processors failed: ValueError: .* read-only"),
    ],
    ids=["raises", "short", "deep", "text", "long", "nan", "infinite", "empty", "history"],
)
def test_a_function_that_fails_ends_its_request_alone(function: Any, reason: str) -> None:
    scheduler = Scheduler(3000)
    for functions in ((), function, Forbid(0)):
        scheduler.add(SamplingParams(seed=3, logits_processors=functions), [1, 2])
    result = scheduler.step(np.repeat(LOGITS, 3, 0))
    assert result.finish_reasons == [None, "error", None]
    assert re.search(reason, str(result.errors[1]))
    alone = sample(LOGITS, SamplingParams(seed=3), prompt_token_ids=[[1, 2]]).token_ids.tolist()
    assert result.tokens(0) == alone


def test_with_drafts_each_row_has_the_tokens_before_it() -> None:
    recorder = Recorder()
    scheduler = Scheduler(3000)
    request = scheduler.add(SamplingParams(temperature=0, logits_processors=recorder), [1])
    best = int(LOGITS[0].argmax())
    scheduler.step(np.repeat(LOGITS, 2, 0), draft_token_ids={request: [best]})
    assert [token_ids for token_ids, _ in recorder.calls] == [[1], [1, best]]


def test_parameters_with_functions_are_compared_and_pickled_as_these_are() -> None:
    params = SamplingParams(logits_processors=[Forbid(3)])
    assert params == SamplingParams(logits_processors=Forbid(3))
    assert pickle.loads(pickle.dumps(params)) == params
    assert hash(params) == hash(params.replace())


@pytest.mark.parametrize("value", ["f", ["module.function"], 7, {"f": print}, [print, None]], ids=repr)
def test_other_values_are_refused(value: Any) -> None:
    with pytest.raises(ParameterError, match=r"logits_processors=.* is not allowed: functions f\(token_ids"):
        SamplingParams(logits_processors=value)


def test_a_function_that_cannot_be_hashed_is_refused() -> None:
    class Unhashable(Forbid):
        __hash__ = None  # type: ignore[assignment]

    with pytest.raises(ParameterError, match="that can be hashed"):
        SamplingParams(logits_processors=Unhashable(1))


def test_a_body_of_a_client_has_none() -> None:
    with pytest.raises(ParameterError, match="logits_processors="):
        SamplingParams.from_dict({"logits_processors": ["os.system"]})
