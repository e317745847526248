"""The states of a request's samplers."""

from __future__ import annotations

from typing import Any

import numpy as np

from engine_sampler import SamplingParams
from engine_sampler.contract import Chain, Param, Sampler, Vocabulary
from engine_sampler.registry import default_registry
from engine_sampler.requests.history import History
from engine_sampler.requests.state import RequestState


class Diary(Sampler):
    """Its state is the list of tokens that it has seen."""

    name = "diary"
    params = (Param("diary", float, neutral=0.0),)

    def new_state(self, params: Any, prompt_token_ids: np.ndarray) -> list[int]:
        return []

    def accept(self, state: list[int], token_ids: Any) -> None:
        state.extend(token_ids)

    def rollback(self, state: list[int], n: int) -> None:
        del state[len(state) - n :]


def test_a_sampler_that_a_chain_names_twice_sees_each_token_once() -> None:
    diary = Diary()
    chain = Chain((diary, diary), default_registry().catalogue.selectors["dist"])
    state = RequestState(chain, History([1], [2]))
    state.open(SamplingParams(), Vocabulary(9))
    assert state.state("diary") == [2]
    state.accept([3, 4])
    assert state.state("diary") == [2, 3, 4]
    child = state.fork()
    state.rollback(1)
    assert state.state("diary") == [2, 3]
    assert child.state("diary") == [2, 3, 4]
