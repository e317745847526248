"""What servers answer to requests that are not allowed."""

from __future__ import annotations

from typing import Any

import pytest

from engine_sampler import ParameterError, SamplingParams, Scheduler, Tokenizer
from engine_sampler.messages import ChatFormat, error_body

TOKENIZER = Tokenizer([bytes([i]) for i in range(128)], eos_token_ids=[0])


@pytest.mark.parametrize(
    ("body", "name"),
    [
        ({"top_p": 7}, "top_p"),
        ({"top_q": 1}, "top_q"),
        ({"stop": 5}, "stop"),
        ({"logit_bias": 1}, "logit_bias"),
    ],
)
def test_an_error_names_its_parameter(body: dict[str, object], name: str) -> None:
    with pytest.raises(ParameterError) as refused:
        SamplingParams.from_dict(body)
    error = error_body(refused.value)["error"]
    assert (error["param"], error["type"]) == (name, "invalid_request_error")
    assert error["message"] == str(refused.value)


WRONG = {"type": "object", "properties": {"a": {"type": "float"}}}
NEEDS_NOTHING = {"type": "object", "properties": {"a": {"enum": []}}, "required": ["a"]}


def tools_of(*schemas: Any) -> list[dict[str, Any]]:
    return [
        {"type": "function", "function": {"name": f"f{number}", "parameters": schema}}
        for number, schema in enumerate(schemas)
    ]


def refusal(body: dict[str, Any], family: str | None) -> dict[str, Any]:
    """The error of a body, refused wherever it is."""

    def ask() -> None:
        form = None if family is None else ChatFormat.from_dict(body, family)
        params = SamplingParams.from_dict(body) if form is None else form.params(body, TOKENIZER)
        Scheduler(len(TOKENIZER), TOKENIZER).add(params, [1])

    with pytest.raises(ParameterError) as refused:
        ask()
    error: dict[str, Any] = error_body(refused.value, body)["error"]
    assert error["message"].startswith(error["param"])
    return error


FORMATS: list[tuple[dict[str, Any], str]] = [
    (
        {"response_format": {"type": "json_schema", "json_schema": {"schema": WRONG}}},
        "response_format.json_schema.schema",
    ),
    ({"response_format": {"type": "json_object", "schema": WRONG}}, "response_format.schema"),
    ({"response_format": {"type": "regex", "regex": "("}}, "response_format.regex"),
    ({"text": {"format": {"type": "json_schema", "schema": WRONG}}}, "text.format.schema"),
    ({"structured_outputs": {"json": WRONG}}, "structured_outputs.json"),
    ({"guided_regex": "("}, "guided_regex"),
    ({"json_schema": WRONG}, "json_schema"),
    ({"logprobs": True, "top_logprobs": 50}, "top_logprobs"),
    ({"logprobs": 50}, "logprobs"),
    ({"max_completion_tokens": -1}, "max_completion_tokens"),
    ({"tools": tools_of(True, WRONG), "tool_choice": "required"}, "tools[1].function.parameters"),
    (
        {
            "tools": tools_of(True, WRONG),
            "tool_choice": {"type": "function", "function": {"name": "f1"}},
        },
        "tools[1].function.parameters",
    ),
    (
        {"functions": [{"name": "f", "parameters": WRONG}], "function_call": {"name": "f"}},
        "functions[0].parameters",
    ),
]


@pytest.mark.parametrize(("body", "name"), FORMATS, ids=lambda one: str(one)[:40])
@pytest.mark.parametrize("family", [None, "qwen_3", "kimi", "glm_4_5"])
def test_an_error_names_what_the_client_has_sent(body: dict[str, Any], name: str, family: str | None) -> None:
    error = refusal(body, family)
    assert error["param"] == name
    if WRONG in (body, *body.values()) or "tools" in body:
        assert "type 'float' is not one of" in error["message"]
        assert "format." not in error["message"].removeprefix(name)


def test_what_requires_a_property_without_a_value_is_no_object() -> None:
    body = {"tools": tools_of(NEEDS_NOTHING), "tool_choice": "required"}
    for family in ("qwen_3", "glm_4_5"):
        error = refusal(body, family)
        assert error["param"] == "tools[0].function.parameters"
        assert "is valid under the" in error["message"]


def deep(value: Any) -> Any:
    for _ in range(500):
        value = [value]
    return value


@pytest.mark.parametrize("tools", ["ls", [5], [{}], {"a": 1}, deep({})], ids=lambda one: repr(one)[:12])
@pytest.mark.parametrize(
    "choice", [None, "auto", {"name": deep("f")}, {"function": 5}], ids=lambda one: repr(one)[:12]
)
def test_whatever_else_is_wrong_the_error_is_told(tools: Any, choice: Any) -> None:
    sent = {"response_format": {"type": "json_schema", "json_schema": {"schema": WRONG}}}
    body = {**sent, "tools": tools, "tool_choice": choice}
    with pytest.raises(ParameterError) as refused:
        Scheduler(len(TOKENIZER), TOKENIZER).add(SamplingParams.from_dict(sent), [1])
    assert error_body(refused.value, body)["error"]["param"] == "response_format.json_schema.schema"
    for other in (None, [], "x", 5):
        assert error_body(refused.value, other)["error"]["param"] == "json_schema"
