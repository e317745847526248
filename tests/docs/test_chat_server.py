"""The chat server on the page about embedding serves OpenAI's client, and everybody else."""

from __future__ import annotations

import http.client
import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest

from .transcript import CHATS, EXCHANGE, PAGE, answered, post, serving

TOOLS = [
    {
        "type": "function",
        "function": {
            "name": "get_weather",
            "parameters": {
                "type": "object",
                "properties": {"city": {"enum": ["Paris", "Rome"]}, "days": {"enum": [1, 2]}},
                "required": ["city", "days"],
                "additionalProperties": False,
            },
        },
    }
]
MESSAGES = [{"role": "user", "content": "The class"}]
BODY = {"model": "demo", "messages": MESSAGES, "max_tokens": 80, "seed": 3}


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with serving() as address:
        yield address


def ask(address: str, body: dict[str, Any]) -> tuple[int, str]:
    return post(address, {**BODY, **body})


def chunks_of(text: str) -> list[dict[str, Any]]:
    *events, last = [one.removeprefix("data: ") for one in text.split("\n\n") if one]
    assert last == "[DONE]"
    return [json.loads(one) for one in events]


def test_the_transcript_is_what_a_server_answers() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert len(EXCHANGE.findall(page)) == 6
    assert answered(page) == page


def test_the_chat_server_fits_on_two_pages() -> None:
    assert len([line for line in CHATS.splitlines() if line.strip()]) <= 131


def test_a_required_call_comes_whole_or_in_parts(address: str) -> None:
    body = {"tools": TOOLS, "tool_choice": "required", "parallel_tool_calls": False}
    status, text = ask(address, body)
    reply = json.loads(text)
    assert status == 200
    (choice,) = reply["choices"]
    assert choice["finish_reason"] == "tool_calls"
    (call,) = choice["message"]["tool_calls"]
    assert call["function"]["name"] == "get_weather"
    assert json.loads(call["function"]["arguments"])["city"] in ("Paris", "Rome")
    usage = reply["usage"]
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]
    _, text = ask(address, {**body, "stream": True, "stream_options": {"include_usage": True}})
    *chunks, last = chunks_of(text)
    assert last["usage"] == usage
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks]
    parts = [delta["tool_calls"][0]["function"] for delta in deltas if "tool_calls" in delta]
    assert "".join(one["arguments"] for one in parts) == call["function"]["arguments"]
    assert chunks[-1]["choices"][0]["finish_reason"] == "tool_calls"


def test_a_text_comes_whole_or_in_parts(address: str) -> None:
    body = {"stop": ["\n\n"], "logprobs": True, "top_logprobs": 2, "n": 2}
    _, text = ask(address, body)
    choices = json.loads(text)["choices"]
    contents = [completion["message"]["content"] for completion in choices]
    assert not any("\n\n" in content for content in contents)
    for completion in choices:
        entries = completion["logprobs"]["content"]
        assert all(len(entry["top_logprobs"]) == 2 for entry in entries)
        written = b"".join(bytes(entry["bytes"]) for entry in entries).decode(errors="replace")
        assert written.startswith(completion["message"]["content"])
    _, text = ask(address, {**body, "stream": True})
    streamed = ["", ""]
    for chunk in chunks_of(text):
        choice = chunk["choices"][0]
        streamed[choice["index"]] += choice["delta"].get("content", "")
    assert streamed == contents


def test_what_is_not_allowed_is_a_bad_request(address: str) -> None:
    wrong = {
        "top_p": {"top_p": 7},
        "n": {"n": 2**31 - 1},
        "tools": {"tools": "ls"},
        "tool_choice": {"tools": TOOLS, "tool_choice": {"type": "function", "function": {"name": "f"}}},
        "response_format": {"response_format": {"type": "xml"}},
    }
    for name, body in wrong.items():
        status, text = ask(address, body)
        assert (status, json.loads(text)["error"]["param"]) == (400, name)


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"\xff", b"[" * 100_000, b"[]", b"null", b'"x"', b"5", b'{"messages": null}', b"{}"],
    ids=lambda body: repr(body[:20]),
)
def test_what_is_no_request_is_a_bad_request(address: str, body: bytes) -> None:
    status, text = post(address, body)
    error = json.loads(text)["error"]
    assert (status, error["type"]) == (400, "invalid_request_error")
    assert error["param"] == ("messages" if body.startswith(b"{") and len(body) > 1 else error["param"])


def test_a_request_without_a_body_is_a_bad_request(address: str) -> None:
    connection = http.client.HTTPConnection(address.removeprefix("http://"))
    connection.putrequest("POST", "/v1/chat/completions")
    connection.endheaders()
    assert connection.getresponse().status == 400


@pytest.mark.parametrize("messages", ["x", {"a": 1}, [5], [{"role": "user"}], [None], [["a"]]], ids=repr)
def test_messages_that_the_template_does_not_take_are_named(address: str, messages: Any) -> None:
    status, text = ask(address, {"messages": messages})
    assert (status, json.loads(text)["error"]["param"]) == (400, "messages")


def test_a_schema_that_cannot_be_read_is_named_as_it_was_sent(address: str) -> None:
    wrong = {"type": "json_schema", "json_schema": {"schema": {"type": "float"}}}
    for body, name in (
        ({"response_format": wrong}, "response_format.json_schema.schema"),
        ({"tools": [TOOLS[0], named("f", {"type": "float"})]}, "tools[1].function.parameters"),
        ({"logprobs": True, "top_logprobs": 50}, "top_logprobs"),
    ):
        status, text = ask(address, body)
        assert (status, json.loads(text)["error"]["param"]) == (400, name)


def named(name: str, parameters: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "parameters": parameters}}


def test_the_model_is_listed(address: str) -> None:
    with urllib.request.urlopen(f"{address}/v1/models") as reply:
        listed = json.loads(reply.read())
    assert listed["object"] == "list"
    assert [one["id"] for one in listed["data"]] == ["demo"]
    with pytest.raises(urllib.error.HTTPError) as missing:
        urllib.request.urlopen(f"{address}/v1/other")
    assert missing.value.code == 404
    assert json.loads(missing.value.read())["error"]["type"] == "invalid_request_error"


def test_a_message_is_continued(address: str) -> None:
    _, text = ask(address, {"max_tokens": 5})
    whole = json.loads(text)["choices"][0]["message"]["content"]
    partial = {"role": "assistant", "content": whole[:3]}
    body = {"messages": [*MESSAGES, partial], "continue_final_message": True, "max_tokens": 5}
    _, rest = ask(address, body)
    _, joined = ask(address, {**body, "echo": True})
    contents = [json.loads(one)["choices"][0]["message"]["content"] for one in (rest, joined)]
    assert contents[1] == whole[:3] + contents[0]


def test_the_client_of_openai_is_served(address: str) -> None:
    openai = pytest.importorskip("openai")
    pydantic = pytest.importorskip("pydantic")
    client = openai.OpenAI(base_url=f"{address}/v1", api_key="none")
    common: dict[str, Any] = {"model": "demo", "messages": MESSAGES, "seed": 3, "max_tokens": 80}
    text = client.chat.completions.create(**common)
    streamed = "".join(
        chunk.choices[0].delta.content or ""
        for chunk in client.chat.completions.create(**common, stream=True)
    )
    assert text.choices[0].message.content == streamed
    named = {"type": "function", "function": {"name": "get_weather"}}
    for choice in ("required", named):
        options = {"tools": TOOLS, "tool_choice": choice, "parallel_tool_calls": False}
        reply = client.chat.completions.create(**common, **options)
        calls = reply.choices[0].message.tool_calls
        assert {call.function.name for call in calls} == {"get_weather"}
        with client.chat.completions.stream(**common, **options) as stream:
            stream.until_done()
            final = stream.get_final_completion().choices[0].message
        assert [one.function.arguments for one in final.tool_calls] == [
            one.function.arguments for one in calls
        ]
    auto = client.chat.completions.create(**common, tools=TOOLS, tool_choice="auto")
    assert auto.choices[0].message.content

    class Weather(pydantic.BaseModel):
        days: int
        city: str = pydantic.Field(max_length=8)

    parsed = client.chat.completions.parse(**{**common, "max_tokens": 400}, response_format=Weather)
    assert isinstance(parsed.choices[0].message.parsed, Weather)
    assert [model.id for model in client.models.list()] == ["demo"]
    with pytest.raises(openai.BadRequestError) as refused:
        client.chat.completions.create(**{**common, "temperature": -1})
    assert refused.value.body["param"] == "temperature"
