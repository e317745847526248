"""What only the owner of a request knows, asked on all ranks."""

from __future__ import annotations

from typing import Any

import pytest
from random_requests import RandomRequests
from rank_pool import Place, RankPool

from engine_sampler import RequestError, SamplingParams


def questions(place: Place) -> Any:
    requests = RandomRequests(place, 5)
    group = [f"g{i}" for i in range(3)]
    requests.both("add_group", SamplingParams(n=2, best_of=3, seed=3, max_tokens=4), [1], request_ids=group)
    requests.both("add", SamplingParams(seed=1, choice=["forced", "forcing"]), request_id="choice")
    requests.both("add", SamplingParams(seed=1), grammar="start[capture]: /[a-z]+/", request_id="captured")
    requests.both("forced_tokens", "choice")
    requests.both("draft", None, 3, "grammar")
    requests.both("draft", ["choice"], 4, ["ngram", "grammar"])
    for _ in range(4):
        requests.step()
    requests.both("record", "captured")
    requests.both("best", group)
    for request_id in group:
        requests.both("record", request_id)
    with pytest.raises(RequestError, match="siblings of one group"):
        requests.all_ranks.best([*group, "choice"])
    with pytest.raises(RequestError, match="request 'nobody' is unknown"):
        requests.all_ranks.record("nobody")
    return requests.all_ranks.best(group)


def test_what_only_the_owner_knows_can_be_asked_on_all(ranks: RankPool) -> None:
    first, *others = ranks.run(3, questions)
    assert others == [first, first]
    assert len(first) == 2
