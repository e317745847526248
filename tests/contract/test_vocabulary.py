"""What a vocabulary says when it lacks a tokenizer."""

from __future__ import annotations

import pickle

import pytest

from engine_sampler import ParameterError, SamplingParams, Scheduler
from engine_sampler.contract import Vocabulary
from engine_sampler.for_bridges import tokenizer_given_as


def test_a_text_names_the_argument_that_gives_a_tokenizer() -> None:
    with pytest.raises(ParameterError) as raised:
        Vocabulary(5).need_tokenizer("stop")
    said = "stop is given as text, which needs a tokenizer; it is given as tokenizer"
    assert str(raised.value) == said
    assert str(pickle.loads(pickle.dumps(raised.value))) == said


@pytest.mark.parametrize("name", ["regex", "json_schema", "stop", "bad_words"])
def test_an_adapter_gives_the_argument_its_own_name(name: str) -> None:
    value = {"regex": "a+", "json_schema": {"type": "object"}}.get(name, ["a"])
    said = rf"^{name} .*; it is given as sampling_tokenizer$"
    with pytest.raises(ParameterError, match=said), tokenizer_given_as("sampling_tokenizer"):
        Scheduler(9).add(SamplingParams(**{name: value}), [1])  # type: ignore[arg-type]
