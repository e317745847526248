"""Readers of JSON bodies raise `ParameterError` or succeed, whatever a body contains."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import engine_sampler_koboldai
import engine_sampler_llama_cpp as llama_cpp
import pytest
from engine_sampler_koboldai import koboldai, webuis
from engine_sampler_llama_cpp import requests as llama_requests
from engine_sampler_vllm.logits_processor.settings import settings_of
from hypothesis import HealthCheck, given, settings

from engine_sampler import ParameterError, SamplingParams, Tokenizer
from engine_sampler.messages import ChatFormat
from engine_sampler.params.openai import RENAMED, TRANSPORT
from engine_sampler.params.unknown_keys import NEUTRAL

from ..conftest import example_count
from .hostile_values import ALL, DEEP, DIALECTS, bodies, replaced, revealed

TOKENIZER = Tokenizer([bytes([byte]) for byte in range(256)])
OURS = sorted(SamplingParams.parameters())
OPENAI = [*OURS, *RENAMED, *sorted(TRANSPORT)[:5], "response_format", "structured_outputs", "top_logprobs",
          "extra_args", "vllm_xargs", "self"]  # fmt: skip
LLAMA = [*OURS, *llama_requests.FIELDS, *llama_requests.RENAMED, *llama_requests.SPECIAL]
KOBOLD = [*OURS, *koboldai.FIELDS, *koboldai.RENAMED, *koboldai.SPECIAL, *NEUTRAL]
WEB = [*OURS, *webuis.RENAMED, *webuis.WEB_UIS["tabbyapi"].renamed, *webuis.RENAMED.values(), *NEUTRAL]


def from_llama(body: Any) -> SamplingParams:
    return llama_cpp.from_request(body, TOKENIZER)


def from_kobold(system: str) -> Any:
    return lambda body: engine_sampler_koboldai.from_request(body, TOKENIZER, system=system)


def from_vllm(body: Any) -> SamplingParams | None:
    return settings_of(SimpleNamespace(extra_args=body, seed=1, temperature=1.0))


READERS = {
    "openai": (SamplingParams.from_dict, OPENAI),
    "llama.cpp": (from_llama, LLAMA),
    "koboldai": (from_kobold("koboldai"), KOBOLD),
    "koboldcpp": (from_kobold("koboldcpp"), KOBOLD),
    **{system: (from_kobold(system), WEB) for system in ("tabbyapi", "text-generation-webui")},
    "vllm": (from_vllm, OURS),
}
LONGEST_MESSAGE = 2_000


def refusal(reader: Any, body: Any) -> str:
    """The message of the `ParameterError` that `reader` raises; "" if it reads the body."""
    try:
        reader(body)
    except ParameterError as error:
        return str(error)
    return ""


@pytest.mark.quick_share(3)
@pytest.mark.parametrize("name", READERS)
def test_every_key_with_every_hostile_value_is_read_or_refused(name: str) -> None:
    reader, keys = READERS[name]
    for key in keys:
        for value in ALL:
            assert len(refusal(reader, {key: value})) < LONGEST_MESSAGE


def chat_request(body: Any) -> None:
    """What a chat server reads of a body."""
    ChatFormat.from_dict(body, "harmony").params(body)


@pytest.mark.quick_share(3)
@pytest.mark.parametrize("value", [{}, [], 3, None, DEEP[0]])
@pytest.mark.parametrize("reader", [SamplingParams.from_dict, chat_request, from_llama])
def test_a_hostile_value_at_any_depth_of_a_body_is_read_or_refused(reader: Any, value: Any) -> None:
    for body in DIALECTS:
        for changed in replaced(body, value):
            assert len(refusal(reader, changed)) < LONGEST_MESSAGE


@pytest.mark.parametrize("name", READERS)
@settings(
    max_examples=example_count(150), derandomize=True, deadline=None, suppress_health_check=list(HealthCheck)
)
@given(bodies(sorted({key for _, keys in READERS.values() for key in keys})))
def test_random_hostile_bodies_are_read_or_refused(name: str, body: dict[str, Any]) -> None:
    assert len(refusal(READERS[name][0], revealed(body))) < LONGEST_MESSAGE


@pytest.mark.parametrize("name", ["openai", "llama.cpp", "koboldai", "koboldcpp", "tabbyapi"])
@pytest.mark.parametrize("body", [None, [], "{}", 5, [["temperature", 1]]])
def test_a_body_that_is_no_object_is_refused(name: str, body: Any) -> None:
    with pytest.raises(ParameterError, match=r"body=.* is not allowed: an object of parameters"):
        READERS[name][0](body)


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("koboldai", {"dry_sequence_breakers": "[" * 100_000}),
        ("koboldai", {"grammar": "{" * 100_000}),
        ("openai", {"logit_bias": {"9" * 5_000: 1}}),
        ("openai", {"temperature": 10**400}),
        ("openai", {"guided_decoding": {"9" * 5_000: 1}}),
        ("openai", {"text": {"9" * 5_000: 1}}),
        ("openai", {"seed": 10**5_000}),
        ("openai", {"max_tokens": DEEP[1], "max_completion_tokens": [DEEP[1]]}),
        ("openai", {"self": 1}),
        ("koboldai", {"trim_stop": "false"}),
        ("koboldai", {"custom_token_bans": "1_0"}),
        ("llama.cpp", {"logit_bias": {"05": 1, "5": 1}}),
        ("llama.cpp", {"post_sampling_probs": "false"}),
        ("koboldcpp", {"rep_pen_slope": 0.5, "rep_pen": "x"}),
        ("tabbyapi", {"penalty_range": []}),
        ("text-generation-webui", {"sampler_priority": 5}),
        *((name, {key: 5}) for name in ("openai", "llama.cpp", "koboldai") for key in (5, None, ("a",))),
        *((name, {"json_schema": "{"}) for name in ("openai", "llama.cpp", "koboldcpp")),
    ],
)
def test_what_once_raised_something_else_is_refused(name: str, body: Any) -> None:
    assert 0 < len(refusal(READERS[name][0], body)) < LONGEST_MESSAGE
