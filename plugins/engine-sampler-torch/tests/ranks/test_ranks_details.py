"""What results say besides tokens, and what follows from it, is on ranks what it is on one."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from random_requests import SHORT, RandomRequests
from rank_pool import Place, RankPool

from engine_sampler import RequestError, SamplingParams
from engine_sampler.contract import StoppingCriteria, StopVerdict


def taken_back(place: Place) -> None:
    requests = RandomRequests(place, 4)
    params = SamplingParams(seed=1, banned_strings=["xyz"], return_sampling_mask=True, logprobs=1)
    requests.both("add", params, request_id="banned")
    for letter in (b"x", b"y", b"z"):
        logits = np.zeros((1, requests.vocab_size), np.float32)
        logits[0, SHORT.token_bytes.index(letter)] = 50.0
        result = requests.all_ranks.step(place.shard(requests.shards, logits))
        requests.check(result, None if requests.one is None else requests.one.step(logits))
    assert result.rewinds == [2]
    with pytest.raises(RequestError, match="n=1 is not allowed: request 'banned' has 0 output tokens"):
        requests.all_ranks.rollback("banned", 1)


def test_tokens_that_a_ban_takes_back_cannot_be_undone_again(ranks: RankPool) -> None:
    ranks.run(2, taken_back)


class Unsure(StoppingCriteria):
    """Ends a request at its second token whose confidence is known."""

    name = "unsure"
    wants_logprobs = True

    def confidence_top_k(self, params: Any) -> int:
        return 4

    def new_state(self, *arguments: Any) -> list[float]:
        return []

    def check(self, state: list[float], token_ids: Any, text: str, logprobs: Any = ()) -> StopVerdict | None:
        state += [logprob.confidence for logprob in logprobs]
        return StopVerdict("unsure") if len(state) > 1 else None

    def fork(self, state: list[float]) -> list[float]:
        return state.copy()


def confidences(place: Place) -> Any:
    requests = RandomRequests(place, 9)
    for i in range(3):
        params = SamplingParams(seed=i, logprobs=i, ignore_eos=True)
        requests.both("add", params, [i], request_id=i, stopping_criteria=[Unsure()] * (i > 0))
    requests.both("fork", 2, new_request_id="child", seed=7)
    for _ in range(2):
        requests.step(faulty=0)
    return requests.all_ranks.request_ids


def test_criteria_of_requests_get_the_confidences_of_their_rows(ranks: RankPool) -> None:
    assert ranks.run(3, confidences) == [[0]] * 3
