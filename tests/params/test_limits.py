"""`RequestLimits`: what a scheduler accepts of a request."""

from __future__ import annotations

import pickle
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest

from engine_sampler import ParameterError, RequestLimits, SamplingParams, Scheduler, sample
from engine_sampler.contract import Param, Sampler
from engine_sampler.contract.params import MAX_SIZE

from ..engines import registered

VOCAB = 100


def refused(params: dict[str, Any], limits: RequestLimits | None = None) -> str:
    """The message with which a scheduler refuses `params`."""
    scheduler = Scheduler(VOCAB, limits=limits)
    with pytest.raises(ParameterError) as caught:
        scheduler.add_group(SamplingParams(**params))
    assert not scheduler.request_ids
    return str(caught.value)


def accepted(params: dict[str, Any], limits: RequestLimits | None = None) -> bool:
    return bool(Scheduler(VOCAB, limits=limits).add_group(SamplingParams(**params)))


def test_the_defaults_are_those_of_known_apis() -> None:
    assert accepted({"logprobs": 20})
    assert accepted({"n": 128})
    assert refused({"logprobs": 21}) == (
        "logprobs=21 is not allowed: this scheduler's limit is 20 (RequestLimits(logprobs=…))"
    )
    assert "n=2147483647 is not allowed" in refused({"n": 2**31 - 1})
    assert "best_of=129 is not allowed" in refused({"best_of": 129})
    assert "beam_width=33 is not allowed" in refused({"use_beam_search": True, "beam_width": 33})
    assert "beam_width=None, which means 40, is not" in refused({"use_beam_search": True, "n": 40})


def test_all_logprobs_count_as_the_vocabulary() -> None:
    assert "logprobs=-1, which means 100, is not allowed" in refused({"logprobs": -1})
    assert accepted({"logprobs": -1}, RequestLimits(logprobs=VOCAB))
    assert "logprobs=-1" in refused({"logprobs": -1}, RequestLimits(logprobs=VOCAB - 1))


def test_texts_count_in_bytes_and_lists_by_all_their_entries() -> None:
    words = [[1, 2], [3], [4, 5]]
    assert accepted({"bad_words": words}, RequestLimits(bad_words=5))
    assert "bad_words=((1, 2), (3,), (4, 5)), which has 5 bytes and ids, is not allowed" in refused(
        {"bad_words": words}, RequestLimits(bad_words=4)
    )
    assert Param("x", object, None).size(("é", 1, (2.5, "a"), None), 9) == 2 + 1 + 1 + 1
    assert Param("x", int, 0, everything=-1).size(-1, 9) == 9
    assert Param("x", object, None).size(2**64 - 1, 9) == 1
    assert Param("x", object, None).size(frozenset({"abc", 4}), 9) == 3 + 1
    assert Param("x", object, None).size(MappingProxyType({"abc": (1, b"1234")}), 9) == 3 + 1 + 4


def test_parameters_of_plugins_have_a_limit_unless_they_are_numbers() -> None:
    assert Param("x", object, None).default_limit == MAX_SIZE
    assert Param("x", str, "").default_limit == MAX_SIZE
    assert Param("x", object, None, limit=7).default_limit == 7
    assert Param("x", int, 0).default_limit is None
    assert Param("x", float, 0.0, limit=3).default_limit == 3


class Words(Sampler):
    """A plugin's sampler with a parameter that is a list."""

    name = "words"
    params = (Param("words", object, (), convert=tuple, limit=3, doc="some words"),)

    def apply(self, logits: np.ndarray, rows: Any) -> None:
        pass


def test_the_limit_of_a_plugins_parameter_holds_and_can_be_raised() -> None:
    with registered(Words()):
        assert accepted({"words": ["a", "bc"]})
        assert "words=('a', 'bcd'), which has 4 bytes and ids, is not allowed" in refused(
            {"words": ["a", "bcd"]}
        )
        assert accepted({"words": ["a", "bcd"]}, RequestLimits(words=4))


def test_limits_hold_for_parameters_that_are_registered_later() -> None:
    scheduler = Scheduler(VOCAB)
    scheduler.add(SamplingParams())
    with registered(Words()), pytest.raises(ParameterError, match="which has 4 bytes and ids"):
        scheduler.add(SamplingParams(words=["a", "bcd"]))


def test_limits_can_be_lowered_raised_and_lifted() -> None:
    assert "n=3 is not allowed: this scheduler's limit is 2" in refused({"n": 3}, RequestLimits(n=2))
    assert accepted({"n": 200}, RequestLimits(n=None))
    assert accepted({"n": 200, "logprobs": -1}, RequestLimits.none())
    assert Scheduler(VOCAB, limits=RequestLimits(n=3)).limits == RequestLimits(n=3)


def test_sample_takes_limits_too() -> None:
    logits = np.zeros((1, VOCAB), np.float32)
    with pytest.raises(ParameterError, match="logprobs=50 is not allowed"):
        sample(logits, SamplingParams(logprobs=50))
    assert sample(logits, SamplingParams(logprobs=50), limits=RequestLimits(logprobs=50)).errors == [None]


def test_limits_that_are_no_request_limits_are_refused() -> None:
    message = r"limits=\{'n': 3\} is not allowed: RequestLimits\(name=limit, …\)"
    with pytest.raises(ParameterError, match=message):
        Scheduler(VOCAB, limits={"n": 3})  # type: ignore[arg-type]
    with pytest.raises(ParameterError, match=message):
        sample(np.zeros((1, VOCAB), np.float32), SamplingParams(), limits={"n": 3})  # type: ignore[arg-type]


@pytest.mark.parametrize("limit", [-1, 1.5, True, "3"])
def test_a_limit_that_is_no_count_is_refused(limit: Any) -> None:
    with pytest.raises(
        ParameterError, match=r"the limit n=.* is not allowed: an integer of at least 0, or None"
    ):
        RequestLimits(n=limit)


def test_a_limit_for_an_unknown_parameter_is_refused_with_near_matches() -> None:
    with pytest.raises(ParameterError, match="unknown parameter 'logprob'; did you mean 'logprobs'"):
        RequestLimits(logprob=3)


def test_limits_are_values() -> None:
    assert RequestLimits(n=1) == RequestLimits(n=1)
    assert len({RequestLimits(n=1), RequestLimits(n=1), RequestLimits.none()}) == 2
    assert RequestLimits() != RequestLimits.none()
    used = Scheduler(VOCAB, limits=RequestLimits(n=1))
    used.add(SamplingParams())
    assert pickle.loads(pickle.dumps(used.limits)) == used.limits
    assert repr(RequestLimits(n=1, stop=None)) == "RequestLimits(n=1, stop=None)"
