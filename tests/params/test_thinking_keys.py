"""The keys with which clients of several systems ask for thoughts."""

from __future__ import annotations

from typing import Any

import engine_sampler_llama_cpp as llama_cpp
import pytest

from engine_sampler import ParameterError, SamplingParams

BUDGETS: list[dict[str, Any]] = [
    {"thinking_token_budget": 64},
    {"thinking_budget": 64},
    {"reasoning_budget": 64},
    {"reasoning_budget_tokens": 64},
    {"thinking": {"type": "enabled", "budget_tokens": 64}},
    {"reasoning": {"max_tokens": 64}},
    {"thinking_token_budget": 64, "reasoning_budget": 64, "thinking_budget": None},
]
EXPECTED = SamplingParams(thinking="qwen_3", thinking_token_budget=64, order="vllm")


@pytest.mark.parametrize("body", BUDGETS, ids=lambda body: next(iter(body)))
def test_every_key_of_a_budget_is_read(body: dict[str, Any]) -> None:
    assert SamplingParams.from_dict(body, thinking="qwen_3") == EXPECTED
    assert SamplingParams.from_dict(body, tool_family="qwen_3") == EXPECTED


def test_the_marks_of_the_model_hold_without_a_budget_as_well() -> None:
    given = SamplingParams.from_dict({"temperature": 0.5}, thinking={"start": "<t>", "end": "</t>"})
    assert given == SamplingParams(temperature=0.5, thinking={"start": "<t>", "end": "</t>"}, order="vllm")
    assert SamplingParams.from_dict({}, tool_family="qwen_3").thinking is None


OFF: list[dict[str, Any]] = [
    {"chat_template_kwargs": {"enable_thinking": False}},
    {"chat_template_kwargs": {"thinking": False}},
    {"thinking": {"type": "disabled"}},
    {"thinking": False},
    {"enable_thinking": False},
    {"think": False},
    {"reasoning": {"enabled": False}},
    {"reasoning": {"effort": "none"}},
    {"reasoning_effort": "none"},
]
ON: list[dict[str, Any]] = [
    {"chat_template_kwargs": {"enable_thinking": True}, "thinking": {"type": "adaptive"}},
    {"enable_thinking": True},
    {"think": True},
    {"think": "low"},
    {"reasoning": {"effort": "high"}},
    {"reasoning_effort": "high"},
]


@pytest.mark.parametrize("body", OFF, ids=repr)
def test_thoughts_that_are_off_have_no_phases(body: dict[str, Any]) -> None:
    given = SamplingParams.from_dict({"thinking_token_budget": 9, **body}, thinking="qwen_3")
    assert given == SamplingParams(order="vllm")
    answered = SamplingParams.from_dict({**body, "answer": {"temperature": 0.3}}, thinking="qwen_3")
    assert answered == SamplingParams(order="vllm", temperature=0.3)


TOOLS = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]


@pytest.mark.parametrize("body", OFF, ids=repr)
def test_a_mask_admits_no_thoughts_that_are_off(body: dict[str, Any]) -> None:
    asked = {"tools": TOOLS, "tool_choice": "required"}
    given = SamplingParams.from_dict({**asked, **body}, tool_family="qwen_3", reasoning="enabled")
    assert given == SamplingParams.from_dict(asked, tool_family="qwen_3", reasoning="disabled")


@pytest.mark.parametrize("body", ON, ids=repr)
def test_thoughts_that_are_on_have_phases(body: dict[str, Any]) -> None:
    assert SamplingParams.from_dict(body, thinking="qwen_3").thinking == (("family", "qwen_3"),)


def test_marks_and_a_message_come_from_the_body() -> None:
    body = {
        "thinking_token_budget": 5,
        "reasoning_budget_start_tag": "<t>",
        "reasoning_budget_end_tags": ["</t>", "<u>"],
        "reasoning_budget_message": "enough",
    }
    marks = {"start": "<t>", "end": ["</t>", "<u>"], "message": "enough"}
    expected = SamplingParams(thinking=marks, thinking_token_budget=5, order="vllm")
    assert SamplingParams.from_dict(body) == expected
    assert dict(SamplingParams.from_dict(body, thinking="qwen_3").thinking)["family"] == "qwen_3"


def test_a_grammar_that_covers_the_thoughts_holds_in_them() -> None:
    given = SamplingParams.from_dict({}, thinking="qwen_3", tool_family="qwen_3", reasoning="enabled")
    assert dict(given.thinking) == {"family": "qwen_3", "grammar": "all"}


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"thinking_token_budget": 5}, "thinking_token_budget=5 is not allowed here: it needs thinking"),
        ({"thinking_token_budget": "x", "thinking": "qwen_3"}, "thinking_token_budget='x' is not allowed"),
        (
            {"thinking_token_budget": 5, "thinking_budget": 6},
            "thinking_budget=6 .* thinking_token_budget says 5",
        ),
        ({"thinking": {"type": "maybe"}}, "thinking.type='maybe' is not allowed"),
        ({"thinking": 3}, "thinking=3 is not allowed"),
        ({"reasoning": "high"}, "reasoning='high' is not allowed: an object"),
        ({"think": "much"}, "think='much' is not allowed: one of 'low', 'medium', 'high', 'max'"),
        ({"enable_thinking": "no"}, "enable_thinking='no' is not allowed: true or false"),
        ({"thinking": "nobody", "thinking_budget": 3}, "names the family 'nobody'"),
    ],
)
def test_what_is_not_allowed_is_named(body: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        SamplingParams.from_dict(body)


def test_bodies_for_llama_cpp_have_budgets() -> None:
    body = {
        "reasoning_budget": 7,
        "reasoning_budget_start_tag": "<think>",
        "reasoning_budget_end_tag": "</think>",
        "reasoning_budget_message": "",
    }
    given = llama_cpp.from_request(body)
    assert given.thinking_token_budget == 7
    assert dict(given.thinking) == {"start": ("<think>",), "end": ("</think>",)}
    assert (
        llama_cpp.from_request({"reasoning_budget_tokens": 7}, tool_family="qwen_3").thinking_token_budget
        == 7
    )
    off = {"reasoning_budget_tokens": 7, "chat_template_kwargs": {"enable_thinking": False}}
    assert llama_cpp.from_request(off, tool_family="qwen_3").thinking is None
    assert llama_cpp.from_request({"reasoning_budget_tokens": -1}).thinking is None
