from __future__ import annotations

import numpy as np
import pytest

from engine_sampler import ParameterError, SamplingParams, Scheduler
from engine_sampler.contract import StopVerdict, Vocabulary
from engine_sampler.stopping.eos import EosTokenCriteria

EOS = EosTokenCriteria()
NO_PROMPT = np.empty(0, np.int64)


def test_it_watches_eos_ids_that_are_not_ignored() -> None:
    params = SamplingParams()
    assert EOS.is_active(params, Vocabulary(5, (3,)))
    assert not EOS.is_active(params, Vocabulary(5))
    assert not EOS.is_active(SamplingParams(ignore_eos=True), Vocabulary(5, (3,)))


def test_any_eos_token_ends_a_request_without_a_stop_reason() -> None:
    state = EOS.new_state(SamplingParams(), NO_PROMPT, Vocabulary(5, (3, 4)))
    assert EOS.check(state, [0, 1], "") is None
    for tokens in ([3], [4], [0, 4]):
        assert EOS.check(state, tokens, "") == StopVerdict(None, "stop")


def test_forks_and_rollbacks_change_nothing() -> None:
    state = EOS.new_state(SamplingParams(), NO_PROMPT, Vocabulary(5, (3,)))
    EOS.rollback(state, 2)
    assert EOS.check(EOS.fork(state), [3], "") is not None


@pytest.mark.parametrize("ignore", [False, True])
def test_in_a_scheduler(ignore: bool) -> None:
    scheduler = Scheduler(5, eos_token_ids=[3])
    scheduler.add(SamplingParams(ignore_eos=ignore))
    result = scheduler.step(np.array([[0, 0, 0, 99, 0]], np.float32))
    assert result.finish_reasons == [None if ignore else "stop"]
    assert result.stop_reasons == [None]
    assert (result.token_ids[0] == 3) is not ignore


def test_an_eos_that_is_drawn_before_min_tokens_nevertheless_ends_the_request() -> None:
    scheduler = Scheduler(5, eos_token_ids=[3])
    scheduler.add(SamplingParams(min_tokens=9, allowed_token_ids=[3]))
    assert scheduler.step(np.zeros((1, 5), np.float32)).finish_reasons == ["stop"]


def test_minus_one_is_no_token_as_in_transformers() -> None:
    ids = np.array([[1, 2], [1, 3]])
    assert EosTokenCriteria(-1)(ids, None).tolist() == [False, False]
    assert EosTokenCriteria([3, -1])(ids, None).tolist() == [False, True]
    with pytest.raises(
        ParameterError, match=r"eos_token_id=\[-2\] is not allowed: .* integers of at least 0"
    ):
        EosTokenCriteria([-2])
