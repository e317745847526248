"""Request bodies as sent by clients of OpenAI and vLLM."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest

from engine_sampler.base.errors import warn_once
from engine_sampler.contract import ParameterError
from engine_sampler.params import SamplingParams
from engine_sampler.params.openai import NOTICED, TRANSPORT, parameters_of

CHAT: dict[str, Any] = {
    "model": "some-model",
    "messages": [{"role": "user", "content": "Hello"}],
    "stream": True,
    "stream_options": {"include_usage": True},
    "user": "someone",
    "store": False,
    "metadata": {},
    "service_tier": "auto",
    "tools": [],
    "tool_choice": "auto",
    "parallel_tool_calls": True,
    "reasoning_effort": "low",
    "temperature": 0.7,
    "top_p": 0.9,
    "n": 2,
    "max_completion_tokens": 64,
    "presence_penalty": 0.5,
    "frequency_penalty": None,
    "logit_bias": {"50256": -100},
    "logprobs": True,
    "top_logprobs": 3,
    "seed": 11,
}

VLLM: dict[str, Any] = {
    "model": "some-model",
    "prompt": "Hello",
    "echo": False,
    "temperature": 0.0,
    "max_tokens": 16,
    "min_tokens": 2,
    "logprobs": 5,
    "top_k": -1,
    "min_p": 0.1,
    "repetition_penalty": 1.1,
    "stop_token_ids": [7],
    "ignore_eos": True,
    "skip_special_tokens": False,
    "spaces_between_special_tokens": True,
    "allowed_token_ids": None,
    "bad_words": [],
    "truncate_prompt_tokens": None,
    "add_special_tokens": True,
    "vllm_xargs": {"xtc_probability": 0.5},
    "seed": None,
}


def test_an_openai_chat_body_becomes_parameters() -> None:
    params = SamplingParams.from_dict(CHAT)
    assert params == SamplingParams(
        temperature=0.7,
        top_p=0.9,
        n=2,
        max_tokens=64,
        presence_penalty=0.5,
        logit_bias={50256: -100},
        logprobs=3,
        seed=11,
        order="vllm",
    )


def test_a_vllm_completions_body_becomes_parameters() -> None:
    params = SamplingParams.from_dict(VLLM)
    assert params == SamplingParams(
        temperature=0.0,
        max_tokens=16,
        min_tokens=2,
        logprobs=5,
        top_k=-1,
        min_p=0.1,
        repetition_penalty=1.1,
        stop_token_ids=[7],
        ignore_eos=True,
        skip_special_tokens=False,
        xtc_probability=0.5,
        order="vllm",
    )


def test_the_body_itself_is_not_changed() -> None:
    body = {**CHAT, "extra_args": {"top_k": 3}}
    before = copy.deepcopy(body)
    parameters_of(body)
    assert body == before


def test_none_means_the_default() -> None:
    names = [name for name in SamplingParams() if name != "order"]
    assert parameters_of(dict.fromkeys([*names, "order", "response_format", "extra_args"])) == {
        "order": "vllm"
    }


def test_the_order_is_that_of_vllm_unless_the_body_gives_another() -> None:
    assert SamplingParams.from_dict({}).order == "vllm"
    assert SamplingParams.from_dict({"order": "llama.cpp"}).order == "llama.cpp"


def test_transport_keys_are_left_out() -> None:
    assert parameters_of(dict.fromkeys(TRANSPORT, "anything")) == {"order": "vllm"}
    assert parameters_of({"extra_args": {"kv_transfer_params": {"a": 1}}}) == {"order": "vllm"}


@pytest.fixture
def warned(caplog: pytest.LogCaptureFixture) -> pytest.LogCaptureFixture:
    """The log of a process that has not yet warned of anything."""
    warn_once.cache_clear()
    return caplog


def test_a_key_that_a_client_would_miss_is_named_in_the_log_once(warned: pytest.LogCaptureFixture) -> None:
    for _ in range(3):
        parameters_of({"echo": True, "detokenize": False, "output_kind": 2, "model": "m", "user": "u"})
    assert sorted(record.getMessage().split()[0] for record in warned.records) == [
        "detokenize", "echo", "output_kind",
    ]  # fmt: skip
    assert all(len(record.getMessage()) < 100 for record in warned.records)


def test_what_is_asked_of_a_prompt_is_read_for_score_prompt(warned: pytest.LogCaptureFixture) -> None:
    assert parameters_of({"prompt_logprobs": None}) == {"order": "vllm"}
    for number in (0, 5, -1):
        assert parameters_of({"prompt_logprobs": number})["prompt_logprobs"] == number
    body = {"prompt_logprob_token_ids": [[1, 2], [3, -1]], "prompt_logprob_start": 4}
    read = SamplingParams.from_dict(body)
    assert (read.prompt_logprob_token_ids, read.prompt_logprob_start) == (((1, 2), (3,)), 4)
    assert not warned.records


@pytest.mark.parametrize("name", ["logprob_token_ids", "token_ids_logprob"])
def test_the_tokens_whose_logprobs_a_client_names_are_read_from_both_systems(name: str) -> None:
    assert SamplingParams.from_dict({name: [7, 5, 7]}).logprob_token_ids == (7, 5)


def test_keys_with_their_usual_values_are_not_named(warned: pytest.LogCaptureFixture) -> None:
    parameters_of(dict(NOTICED))
    parameters_of(dict.fromkeys(NOTICED))
    assert not warned.records


def test_no_body_makes_the_memory_of_what_was_said_grow(warned: pytest.LogCaptureFixture) -> None:
    for value in range(1000):
        parameters_of({**dict.fromkeys(TRANSPORT, value), "extra_args": dict.fromkeys(TRANSPORT, -value)})
    assert len(warned.records) == warn_once.cache_info().currsize == len(NOTICED)


@pytest.mark.parametrize(
    "value", [np.zeros(3), {"a": 1}, [], float("nan"), object()], ids=lambda value: type(value).__name__
)
def test_keys_of_the_server_may_have_any_value(value: Any) -> None:
    assert parameters_of(dict.fromkeys(NOTICED, value)) == {"order": "vllm"}


def test_transport_keys_are_not_parameters() -> None:
    assert not TRANSPORT & set(SamplingParams())


def test_an_unknown_key_is_refused() -> None:
    with pytest.raises(ParameterError, match="unknown parameter 'temprature'; did you mean 'temperature'"):
        SamplingParams.from_dict({"temprature": 0.5})


# --- names that differ ---------------------------------------------------------------------------


@pytest.mark.parametrize("body", [{"max_tokens": 5}, {"max_completion_tokens": 5}])
def test_both_names_of_the_token_limit_are_read(body: dict[str, Any]) -> None:
    assert parameters_of(body)["max_tokens"] == 5


def test_both_names_of_the_token_limit_may_agree_but_not_differ() -> None:
    assert parameters_of({"max_tokens": 5, "max_completion_tokens": 5})["max_tokens"] == 5
    assert parameters_of({"max_tokens": None, "max_completion_tokens": 5})["max_tokens"] == 5
    with pytest.raises(ParameterError, match="max_completion_tokens=6 is not allowed: max_tokens says 5"):
        parameters_of({"max_tokens": 5, "max_completion_tokens": 6})


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({}, None),
        ({"logprobs": False}, None),
        ({"logprobs": True}, 0),
        ({"logprobs": True, "top_logprobs": 0}, 0),
        ({"logprobs": True, "top_logprobs": 4}, 4),
        ({"logprobs": 4}, 4),
        ({"logprobs": 0, "top_logprobs": 0}, 0),
        ({"top_logprobs": 0}, None),
    ],
)
def test_logprobs_of_both_apis_become_a_number(body: dict[str, Any], expected: int | None) -> None:
    assert SamplingParams.from_dict(body).logprobs == expected


@pytest.mark.parametrize("logprobs", [None, False, 2])
def test_top_logprobs_without_logprobs_is_refused(logprobs: Any) -> None:
    with pytest.raises(ParameterError, match="top_logprobs=4 is not allowed: logprobs must be true"):
        parameters_of({"logprobs": logprobs, "top_logprobs": 4})


def test_logit_bias_keys_become_ids() -> None:
    assert parameters_of({"logit_bias": {"5": 1, 6: -2}})["logit_bias"] == {5: 1, 6: -2}
    assert parameters_of({"vllm_xargs": {"logit_bias": {7: 1}}})["logit_bias"] == {7: 1}


@pytest.mark.parametrize("key", ["five", "1_0", "05", " 5", "٥", "9" * 5000])
def test_a_logit_bias_for_a_key_that_is_no_id_is_refused(key: str) -> None:
    with pytest.raises(
        ParameterError, match=r"logit_bias names '.*, which is not a token id in decimal digits"
    ):
        parameters_of({"logit_bias": {key: 1}})


@pytest.mark.parametrize("bias", [[5], "5", 5])
def test_a_logit_bias_without_ids_is_refused(bias: Any) -> None:
    with pytest.raises(ParameterError, match=r"logit_bias=.* is not allowed: token ids with biases"):
        parameters_of({"logit_bias": bias})


@pytest.mark.parametrize("key", ["extra_args", "vllm_xargs"])
def test_extra_arguments_are_merged_but_the_body_takes_precedence(key: str) -> None:
    body = {key: {"min_p": 0.1, "top_a": 0.2, "tfs": None}, "min_p": 0.3}
    assert parameters_of(body) == {"order": "vllm", "min_p": 0.3, "top_a": 0.2}
    with pytest.raises(ParameterError, match=f"{key}=5 is not allowed: an object"):
        parameters_of({key: 5})


# --- structured output ---------------------------------------------------------------------------

SCHEMA = {"type": "object"}


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"response_format": {"type": "text"}}, {}),
        ({"response_format": {"type": "json_object"}}, {"json_object": True}),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": SCHEMA}}},
            {"json_schema": SCHEMA},
        ),
        (
            {"response_format": {"type": "structural_tag", "structures": [], "triggers": []}},
            {"structural_tag": {"structures": [], "triggers": []}},
        ),
        ({"structured_outputs": {"json": SCHEMA, "regex": None}}, {"json_schema": SCHEMA}),
        ({"structured_outputs": {"regex": "a+"}}, {"regex": "a+"}),
        ({"structured_outputs": {"choice": ["a", "b"]}}, {"choice": ["a", "b"]}),
        ({"structured_outputs": {"grammar": "start: A"}}, {"grammar": "start: A"}),
        ({"structured_outputs": {"json_object": True}}, {"json_object": True}),
        ({"structured_outputs": {"json_object": False, "disable_any_whitespace": False}}, {}),
        ({"structured_outputs": {"structural_tag": "{}"}}, {"structural_tag": "{}"}),
    ],
)
def test_structured_output_becomes_its_parameter(body: dict[str, Any], expected: dict[str, Any]) -> None:
    in_order = {"key_order": "schema"} if {"json_schema", "structural_tag"} & expected.keys() else {}
    assert parameters_of(body) == {"order": "vllm", **expected, **in_order}


def test_keys_are_in_the_order_of_the_schema_unless_the_body_says_otherwise() -> None:
    for body in ({"structured_outputs": {"json": SCHEMA, "key_order": "any"}}, {"key_order": "any"}):
        parameters = parameters_of({"response_format": {"type": "json_schema", "schema": SCHEMA}, **body})
        assert parameters["key_order"] == "any"
    assert "key_order" not in parameters_of({"response_format": {"type": "json_object"}})


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ({"response_format": {"type": "xml"}}, "type text, json_object, json_schema, json, regex"),
        ({"response_format": {}}, "type text, json_object"),
        ({"response_format": "json"}, "response_format='json' is not allowed: an object"),
        ({"response_format": {"type": "json_schema"}}, "response_format.json_schema has no schema"),
        ({"response_format": {"type": "json_schema", "json_schema": {}}}, "json_schema has no schema"),
        ({"structured_outputs": {"xml": "a"}}, "structured_outputs.xml is not allowed: one of json, regex"),
        ({"structured_outputs": ["json"]}, "structured_outputs=.* is not allowed: an object"),
    ],
)
def test_structured_output_of_another_form_is_refused(body: dict[str, Any], text: str) -> None:
    with pytest.raises(ParameterError, match=text):
        parameters_of(body)


@pytest.mark.parametrize("key", ["extra_args", "vllm_xargs", "custom_params"])
def test_deepseek_ocrs_settings_are_read_in_the_free_parts_of_bodies(key: str) -> None:
    asked = {"ngram_size": 30, "window_size": 90, "whitelist_token_ids": [5]}
    has_window = "no_repeat_ngram_window" in SamplingParams.parameters()
    extras = asked if has_window else {"ngram_size": 30}
    params: Any = SamplingParams.from_dict({key: extras, "custom_logit_processor": "80049..."})
    assert params.no_repeat_ngram_size == 30
    if has_window:
        assert (params.no_repeat_ngram_window, params.no_repeat_ngram_whitelist_ids) == (90, (5,))
        unsaid: Any = SamplingParams.from_dict({key: {"ngram_size": 30}})
        assert unsaid.no_repeat_ngram_window == 100
    with pytest.raises(ParameterError, match="unknown parameter 'ngram_size'"):
        SamplingParams.from_dict(asked)
    with pytest.raises(ParameterError, match=r"custom_logit_processor=.* is not supported"):
        SamplingParams.from_dict({"custom_logit_processor": "80049..."})


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"sampling_params": {"max_new_tokens": 9, "regex": "a+"}, "text": "Hi", "rid": "1"},
         {"max_tokens": 9, "regex": "a+"}),
        ({"sampling_params": {"top_k": 3}, "top_k": 4}, {"top_k": 4}),
        ({"sampling_params": {"no_stop_trim": True}}, {"include_stop_str_in_output": True}),
        ({"return_logprob": True, "top_logprobs_num": 3}, {"logprobs": 3}),
        ({"return_logprob": True}, {"logprobs": 0}),
        ({"return_logprob": False, "top_logprobs_num": 3}, {"logprobs": None}),
        ({"max_thinking_tokens": 5, "thinking": "qwen_3"}, {"thinking_token_budget": 5}),
        ({"bad": ["x"]}, {"bad_words": ("x",)}),
        ({"bad_token_ids": [3]}, {"bad_words": ((3,),)}),
        ({"dry_sequence_breakers": '["a", "b"]'}, {"dry_sequence_breakers": ("a", "b")}),
        ({"dry_sequence_breakers": '"a"'}, {"dry_sequence_breakers": ("a",)}),
    ],
)  # fmt: skip
def test_keys_of_other_servers_become_parameters(body: dict[str, Any], expected: dict[str, Any]) -> None:
    params = SamplingParams.from_dict(body)
    assert {name: params[name] for name in expected} == expected


@pytest.mark.parametrize("breakers", ["x", "[", "[" * 100_000])
def test_breakers_that_are_no_list_are_refused(breakers: str) -> None:
    with pytest.raises(ParameterError, match=r"dry_sequence_breakers=.* is not allowed: a list of texts"):
        SamplingParams.from_dict({"dry_sequence_breakers": breakers})
