"""Keys of bodies that nothing here reads: refused, named in the log or passed over."""

from __future__ import annotations

from typing import Any

import engine_sampler_koboldai as koboldai
import engine_sampler_llama_cpp as llama_cpp
import pytest

from engine_sampler import ParameterError, SamplingParams
from engine_sampler.contract import Param
from engine_sampler.messages import ChatFormat
from engine_sampler.params import unknown_keys
from engine_sampler.params.openai import RENAMED
from engine_sampler.params.unknown_keys import MAX_NAMED, NEUTRAL, REASONS, UNSUPPORTED, known_only
from engine_sampler.registry import default_registry


def from_chat(body: Any, **keywords: Any) -> SamplingParams:
    return ChatFormat.from_dict(body, "qwen_3", reasoning="disabled", **keywords).params(body)


def from_tabby(body: Any, **keywords: Any) -> SamplingParams:
    return koboldai.from_request(body, system="tabbyapi", **keywords)


READERS = [SamplingParams.from_dict, from_chat, llama_cpp.from_request, koboldai.from_request, from_tabby]


@pytest.fixture
def named(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> pytest.LogCaptureFixture:
    """The log of a process that has named nothing yet."""
    monkeypatch.setattr(unknown_keys, "_named", set())
    return caplog


@pytest.mark.parametrize("reader", READERS)
def test_an_unknown_key_is_an_error_unless_the_server_says_otherwise(
    reader: Any, named: pytest.LogCaptureFixture
) -> None:
    body = {"tempratur": 0.5, "top_k": 3, "seed": 1}
    with pytest.raises(ParameterError, match="unknown parameter 'tempratur'; did you mean 'temperature'"):
        reader(body)
    assert reader(body, unknown="ignore").top_k == 3
    assert not named.records
    assert reader(body, unknown="log") == reader(body, unknown="ignore")
    [record] = named.records
    assert record.getMessage() == "'tempratur' in the body of a request is unknown and has no effect"
    with pytest.raises(ParameterError, match="unknown='x' is not allowed: one of 'error', 'log', 'ignore'"):
        reader(body, unknown="x")


def test_the_log_names_a_key_once_and_a_hundred_keys_at_most(named: pytest.LogCaptureFixture) -> None:
    for number in range(3 * MAX_NAMED):
        for _ in range(2):
            SamplingParams.from_dict({f"{number}" + "x" * 10_000: 1}, unknown="log")
    messages = [record.getMessage() for record in named.records]
    assert len(messages) == len({*messages}) == MAX_NAMED == len(unknown_keys._named)
    assert all(len(message) < 200 for message in messages)
    assert messages[-1].endswith("; further keys are not named")


@pytest.mark.parametrize("key", [key for key in NEUTRAL if RENAMED.get(key, key) not in SamplingParams()])
def test_a_feature_that_is_missing_may_be_switched_off_and_is_refused_with_its_reason(key: str) -> None:
    for value in NEUTRAL[key]:
        assert SamplingParams.from_dict({key: value, "extra_args": {key: value}}) == SamplingParams.from_dict(
            {}
        )
    with pytest.raises(ParameterError) as raised:
        SamplingParams.from_dict({key: "x"})
    assert str(raised.value).startswith(f"{key}='x' is not supported: {REASONS[key]}; it may be ")


def test_no_feature_has_two_reasons() -> None:
    assert len(NEUTRAL) == sum(map(len, UNSUPPORTED.values()))


@pytest.mark.parametrize("value", [2, "on", [0], {"a": 0}, float("nan"), object()])
def test_other_values_ask_for_something(value: Any) -> None:
    with pytest.raises(ParameterError, match=r"guidance_scale=.* is not supported"):
        SamplingParams.from_dict({"guidance_scale": value})


def test_a_parameter_that_is_registered_takes_the_place_of_its_entry(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    body = {"guidance_scale": 3}
    with pytest.raises(ParameterError, match="not supported"):
        known_only(body, ())
    param = Param("guidance_scale", float, neutral=1.0, doc="a plugin's")
    monkeypatch.setitem(default_registry().catalogue.params, "guidance_scale", param)
    assert known_only(body, ()) == body


def test_members_of_constraints_stay_strict() -> None:
    with pytest.raises(ParameterError, match=r"structured_outputs\.jsn is not allowed"):
        SamplingParams.from_dict({"structured_outputs": {"jsn": {}}}, unknown="ignore")
