"""Criteria that are only called, as transformers' are, among the stopping criteria of a request."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from engine_sampler import ParameterError, SamplingParams, Scheduler
from engine_sampler.contract import StoppingCriteria, StopVerdict

ROW = np.zeros((1, 6), np.float32)


class AtLength(StoppingCriteria):
    """The example of transformers' documentation."""

    def __init__(self, length: int) -> None:
        self.length = length
        self.seen: list[list[int]] = []

    def __call__(self, input_ids: Any, scores: Any, **kwargs: Any) -> Any:
        self.seen.append(input_ids[0].tolist())
        return np.full(len(input_ids), input_ids.shape[1] >= self.length)


class Duck:
    """A criterion of no base class."""

    def __call__(self, input_ids: Any, scores: Any) -> bool:
        return bool(input_ids[0, -1] == 4)


def always_three(input_ids: Any, scores: Any) -> bool:
    return bool(input_ids[0, -1] == 3)


def run(criteria: Sequence[Any], tokens: Sequence[int], **params: Any) -> Any:
    scheduler = Scheduler(6)
    request = scheduler.add(SamplingParams(**params), [5, 5], stopping_criteria=criteria)
    for token in tokens:
        if scheduler.request_ids:
            scheduler.step(np.where(np.arange(6) == token, 9.0, 0.0)[None].astype(np.float32))
    return scheduler.record(request)


def test_a_criterion_is_asked_after_each_token_with_prompt_and_output() -> None:
    criterion = AtLength(5)
    record = run([criterion], [1, 2, 3, 4], temperature=0)
    assert criterion.seen == [[5, 5, 1], [5, 5, 1, 2], [5, 5, 1, 2, 3]]
    assert (record.token_ids, record.finish_reason) == ([1, 2, 3], "stop")


@pytest.mark.parametrize(
    ("criterion", "tokens", "name"),
    [(AtLength(4), [1, 1], "AtLength"), (Duck(), [1, 4], "Duck"), (always_three, [3], "always_three")],
    ids=["criterion", "duck", "function"],
)
def test_it_has_a_name(criterion: Any, tokens: list[int], name: str) -> None:
    record = run([criterion], [*tokens, 0, 0], temperature=0)
    assert (record.token_ids, record.stop_reason) == (tokens, name)


def test_its_own_name_comes_first() -> None:
    criterion = Duck()
    criterion.name = "four"  # type: ignore[attr-defined]
    assert run([criterion], [4], temperature=0).stop_reason == "four"


def test_a_criterion_with_check_but_without_a_name_has_that_of_its_class() -> None:
    class Nameless(StoppingCriteria):
        def check(self, state: Any, token_ids: Sequence[int], text: str) -> StopVerdict | None:
            raise RuntimeError("broken")

    assert run([Nameless()], [1], temperature=0).error == "Nameless failed: RuntimeError: broken"


def test_it_waits_for_min_tokens() -> None:
    assert run([always_three], [3, 3, 3], temperature=0, min_tokens=2).token_ids == [3, 3]


def test_it_follows_rollbacks_forks_and_long_texts() -> None:
    criterion = AtLength(1000)
    scheduler = Scheduler(6)
    scheduler.add(SamplingParams(), [5] * 70, request_id="a", stopping_criteria=[criterion])
    scheduler.accept("a", [1, 2, 3])
    scheduler.rollback("a", 2)
    scheduler.fork("a", new_request_id="b")
    scheduler.accept("b", [4] * 300)
    scheduler.accept("a", [2])
    assert criterion.seen[-2] == [5] * 70 + [1] + [4] * 300
    assert criterion.seen[-1] == [5] * 70 + [1, 2]


def test_it_sees_output_that_the_request_starts_with() -> None:
    criterion = AtLength(4)
    scheduler = Scheduler(6)
    scheduler.add(SamplingParams(), [5], output_token_ids=[1], stopping_criteria=[criterion])
    scheduler.step(ROW)
    assert scheduler.request_ids == [0]
    assert scheduler.step(ROW).stop_reasons == ["AtLength"]


def test_siblings_are_asked_separately() -> None:
    scheduler = Scheduler(6)
    scheduler.add_group(SamplingParams(n=2, temperature=0), [5], stopping_criteria=[Duck()])
    rows = np.zeros((2, 6), np.float32)
    rows[0, 4] = rows[1, 2] = 9
    assert scheduler.step(rows).finish_reasons == ["stop", None]


def test_a_failing_criterion_ends_its_request_with_its_name_and_the_reason() -> None:
    def fails(input_ids: Any, scores: Any) -> bool:
        return bool(scores[-1])

    empty = run([StoppingCriteria()], [1]).error
    assert empty.endswith("NotImplementedError: StoppingCriteria defines neither check nor __call__")
    error = run([fails], [1]).error
    assert error.startswith("fails failed: TypeError: 'NoneType'")
    assert run([lambda ids, scores: None], [1]).error.endswith(
        "TypeError: it returned None, allowed is one bool per row"
    )
    with pytest.raises(ParameterError, match="output_token_ids: fails failed: TypeError"):
        Scheduler(6).add(SamplingParams(), output_token_ids=[1], stopping_criteria=[fails])


@pytest.mark.parametrize(
    ("criterion", "message"),
    [
        (7, "stopping_criteria holds 7, which is not a StoppingCriteria and cannot be called"),
        (AtLength, "AtLength.* cannot be called"),
    ],
    ids=["number", "class"],
)
def test_other_values_are_refused(criterion: Any, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        run([criterion], [])


def test_transformers_own_criteria_and_tensors_are_supported() -> None:
    torch: Any = pytest.importorskip("torch")
    transformers: Any = pytest.importorskip("transformers")

    class Documented(transformers.StoppingCriteria):  # type: ignore[misc]
        def __call__(self, input_ids: Any, scores: Any, **kwargs: Any) -> Any:
            done = input_ids.shape[1] >= 4
            return torch.full((input_ids.shape[0],), done, dtype=torch.bool, device=input_ids.device)

    assert run([Documented()], [1, 2, 3], temperature=0).stop_reason == "Documented"
    record = run([transformers.MaxLengthCriteria(3)], [1, 2, 3], temperature=0)
    assert (record.token_ids, record.stop_reason) == ([1], "MaxLengthCriteria")
    record = run([transformers.EosTokenCriteria(2)], [1, 2, 3], temperature=0)
    assert (record.token_ids, record.stop_reason) == ([1, 2], "EosTokenCriteria")


def test_accepted_tokens_may_have_logprobs() -> None:
    scheduler = Scheduler(6)
    scheduler.add(SamplingParams(assistant_confidence_threshold=0.5))
    scheduler.accept(0, [1, 2], [float(np.log(0.6)), float(np.log(0.4))])
    record = scheduler.record(0)
    assert (record.token_ids, record.stop_reason) == ([1, 2], "confidence")
    with pytest.raises(ParameterError, match="logprobs has 1 entries for 2 tokens"):
        scheduler.accept(scheduler.add(SamplingParams()), [1, 2], [0.0])
