"""Both servers serve OpenAI's client, and everybody else."""

from __future__ import annotations

import contextlib
import http.client
import json
import logging
import socket
import struct
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from types import ModuleType
from typing import Any

import pytest

from engine_sampler import ParameterError
from engine_sampler.cli.serve.replies import FORMS, MAX_BODY
from engine_sampler.cli.serve.threads import ThreadingChatServer

from .serving import CHAT, TEXT, Server, demo, demo_engine, eventually, threading_server, uvicorn_server

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


@pytest.fixture(scope="module", params=[threading_server, uvicorn_server], ids=["threads", "asgi"])
def server(request: pytest.FixtureRequest) -> Iterator[Server]:
    with request.param(demo()) as server:
        yield server


def connected(server: Server) -> closing[http.client.HTTPConnection]:
    """A connection by hand."""
    return closing(http.client.HTTPConnection(server.address.removeprefix("http://")))


def ask(server: Server, body: dict[str, Any], path: str = CHAT) -> tuple[int, str]:
    return server.post({**BODY, "prompt": "The class", **body}, path)


def chunks_of(text: str) -> list[dict[str, Any]]:
    *events, last = [one.removeprefix("data: ") for one in text.split("\n\n") if one]
    assert last == "[DONE]"
    return [json.loads(one) for one in events]


def test_a_required_call_comes_whole_or_in_parts(server: Server) -> None:
    body = {"tools": TOOLS, "tool_choice": "required", "parallel_tool_calls": False}
    status, text = ask(server, body)
    reply = json.loads(text)
    assert status == 200
    (choice,) = reply["choices"]
    assert choice["finish_reason"] == "tool_calls"
    (call,) = choice["message"]["tool_calls"]
    assert call["function"]["name"] == "get_weather"
    assert json.loads(call["function"]["arguments"])["city"] in ("Paris", "Rome")
    usage = reply["usage"]
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]
    _, text = ask(server, {**body, "stream": True, "stream_options": {"include_usage": True}})
    *chunks, last = chunks_of(text)
    assert last["usage"] == usage
    deltas = [chunk["choices"][0]["delta"] for chunk in chunks]
    parts = [delta["tool_calls"][0]["function"] for delta in deltas if "tool_calls" in delta]
    assert "".join(one["arguments"] for one in parts) == call["function"]["arguments"]
    assert chunks[-1]["choices"][0]["finish_reason"] == "tool_calls"


def test_a_text_comes_whole_or_in_parts(server: Server) -> None:
    body = {"stop": ["\n\n"], "logprobs": True, "top_logprobs": 2, "n": 2}
    _, text = ask(server, body)
    choices = json.loads(text)["choices"]
    contents = [completion["message"]["content"] for completion in choices]
    assert not any("\n\n" in content for content in contents)
    for completion in choices:
        entries = completion["logprobs"]["content"]
        assert all(len(entry["top_logprobs"]) == 2 for entry in entries)
        written = b"".join(bytes(entry["bytes"]) for entry in entries).decode(errors="replace")
        assert written.startswith(completion["message"]["content"])
    _, text = ask(server, {**body, "stream": True})
    streamed = ["", ""]
    for chunk in chunks_of(text):
        choice = chunk["choices"][0]
        streamed[choice["index"]] += choice["delta"].get("content", "")
    assert streamed == contents


def test_what_is_not_allowed_is_a_bad_request(server: Server) -> None:
    wrong = {
        "top_p": {"top_p": 7},
        "n": {"n": 2**31 - 1},
        "tools": {"tools": "ls"},
        "tool_choice": {"tools": TOOLS, "tool_choice": {"type": "function", "function": {"name": "f"}}},
        "response_format": {"response_format": {"type": "xml"}},
    }
    for name, body in wrong.items():
        status, text = ask(server, body)
        assert (status, json.loads(text)["error"]["param"]) == (400, name)


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"\xff", b"[" * 100_000, b"[]", b"null", b'"x"', b"5", b'{"messages": null}', b"{}"],
    ids=lambda body: repr(body[:20]),
)
def test_what_is_no_request_is_a_bad_request(server: Server, body: bytes) -> None:
    status, text = server.post(body)
    error = json.loads(text)["error"]
    assert (status, error["type"]) == (400, "invalid_request_error")
    assert error["param"] == ("messages" if body.startswith(b"{") and len(body) > 1 else error["param"])


def test_a_request_without_a_body_is_a_bad_request(server: Server) -> None:
    with connected(server) as connection:
        connection.putrequest("POST", CHAT)
        connection.endheaders()
        assert connection.getresponse().status == 400


@pytest.mark.parametrize("messages", ["x", {"a": 1}, [5], [{"role": "user"}], [None], [["a"]]], ids=repr)
def test_messages_that_the_template_does_not_take_are_named(server: Server, messages: Any) -> None:
    status, text = ask(server, {"messages": messages})
    assert (status, json.loads(text)["error"]["param"]) == (400, "messages")


def test_a_schema_that_cannot_be_read_is_named_as_it_was_sent(server: Server) -> None:
    wrong = {"type": "json_schema", "json_schema": {"schema": {"type": "float"}}}
    for body, name in (
        ({"response_format": wrong}, "response_format.json_schema.schema"),
        ({"tools": [TOOLS[0], named("f", {"type": "float"})]}, "tools[1].function.parameters"),
        ({"logprobs": True, "top_logprobs": 50}, "top_logprobs"),
    ):
        status, text = ask(server, body)
        assert (status, json.loads(text)["error"]["param"]) == (400, name)


def named(name: str, parameters: Any) -> dict[str, Any]:
    return {"type": "function", "function": {"name": name, "parameters": parameters}}


def test_the_model_is_listed(server: Server) -> None:
    status, text = server.get("/v1/models")
    assert (status, [one["id"] for one in json.loads(text)["data"]]) == (200, ["demo"])
    for status, text in (server.get("/v1/other"), server.post(BODY, "/v1/other")):
        error = json.loads(text)["error"]
        assert (status, error["message"], error["param"]) == (404, "nothing at /v1/other", None)


def test_metrics_are_those_of_the_plugin_where_it_is_installed(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "engine_sampler_metrics", None)
    status, text = server.get("/metrics")
    assert (status, "engine-sampler-metrics" in text) == (404, True)
    monkeypatch.setitem(sys.modules, "engine_sampler_metrics", ModuleType("engine_sampler_metrics"))
    status, text = server.get("/metrics")
    assert (status, "# TYPE" in text) == (200, True)


def test_a_message_is_continued(server: Server) -> None:
    _, text = ask(server, {"max_tokens": 5})
    whole = json.loads(text)["choices"][0]["message"]["content"]
    partial = {"role": "assistant", "content": whole[:3]}
    body = {"messages": [*MESSAGES, partial], "continue_final_message": True, "max_tokens": 5}
    _, rest = ask(server, body)
    _, joined = ask(server, {**body, "echo": True})
    contents = [json.loads(one)["choices"][0]["message"]["content"] for one in (rest, joined)]
    assert contents[1] == whole[:3] + contents[0]


def test_texts_continue_several_prompts_whole_or_in_parts(server: Server) -> None:
    body = {"prompt": ["The class", [40, 41, 42]], "n": 2, "logprobs": 1, "echo": True, "max_tokens": 6}
    status, text = ask(server, body, TEXT)
    reply = json.loads(text)
    assert (status, reply["object"], reply["usage"]["completion_tokens"]) == (200, "text_completion", 24)
    texts = [choice["text"] for choice in reply["choices"]]
    assert [text.startswith("The class") for text in texts] == [True, True, False, False]
    for choice in reply["choices"]:
        offsets = choice["logprobs"]["text_offset"]
        assert len(offsets) == 6
        parts = zip(choice["logprobs"]["tokens"], offsets, strict=True)
        assert all(choice["text"][at:].startswith(token) for token, at in parts)
    _, text = ask(server, {**body, "stream": True, "stream_options": {"include_usage": True}}, TEXT)
    *chunks, last = chunks_of(text)
    assert last["usage"] == reply["usage"]
    streamed = [""] * 4
    for chunk in chunks:
        streamed[chunk["choices"][0]["index"]] += chunk["choices"][0]["text"]
    assert streamed == texts
    ends = [chunk["choices"][0]["finish_reason"] for chunk in chunks]
    assert [one for one in ends if one] == [one["finish_reason"] for one in reply["choices"]]


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("prompt", {"prompt": None}),
        ("prompt", {"prompt": []}),
        ("prompt", {"prompt": [True]}),
        ("prompt", {"prompt": [[]]}),
        ("prompt", {"prompt": [-1], "echo": True}),
        ("prompt", {"prompt": ["a", [4096]], "echo": True}),
        ("prompt", {"prompt": ["a"] * 129}),
        ("best_of", {"best_of": 3}),
        ("use_beam_search", {"use_beam_search": True, "n": 2}),
        ("prompt_logprobs", {"prompt_logprobs": 1}),
        ("logprob_token_ids", {"logprob_token_ids": [1]}),
        ("return_sampling_mask", {"return_sampling_mask": 5000}),
        ("drafter", {"drafter": "none"}),
        ("stream_options", {"stream_options": 5}),
        ("min_p", {"min_p": 7}),
    ],
)
def test_what_is_not_allowed_of_a_text_is_named(server: Server, name: str, body: dict[str, Any]) -> None:
    status, text = ask(server, body, TEXT)
    assert (status, json.loads(text)["error"]["param"]) == (400, name)


@pytest.mark.parametrize("path", [CHAT, TEXT])
def test_unknown_keys_are_refused_unless_the_server_lets_them_pass(path: str) -> None:
    body = {**BODY, "prompt": "The class", "top_pp": 0.5}
    with pytest.raises(ParameterError, match="unknown parameter 'top_pp'"):
        FORMS[path](body, demo())
    assert FORMS[path](body, replace(demo(), unknown="ignore")).params.seed == 3


def test_a_body_that_is_too_large_is_refused_before_it_is_read(server: Server) -> None:
    with connected(server) as connection:
        connection.putrequest("POST", CHAT)
        connection.putheader("Content-Length", str(MAX_BODY + 1))
        connection.endheaders()
        try:
            connection.send(b" " * (MAX_BODY + 1))
            assert connection.getresponse().status == 413
        except ConnectionError:  # nobody reads it
            pass


@pytest.mark.parametrize("body", [{"prompt": "\ud800"}, {"prompt": ["a", "b\udfff"]}], ids=ascii)
def test_a_text_that_is_no_unicode_is_a_bad_request(server: Server, body: dict[str, Any]) -> None:
    status, text = ask(server, body, TEXT)
    assert (status, json.loads(text)["error"]["param"]) == (400, "prompt")
    status, text = ask(server, {"messages": [{"role": "user", "content": "\ud800"}]})
    assert (status, json.loads(text)["error"]["param"]) == (400, "messages")


@pytest.mark.parametrize("prompt", ["a" * 2_000_000, ["a"] * 129, ["a", "b" * 2_000_000]], ids=len)
def test_what_is_too_much_is_refused_before_it_is_encoded(
    server: Server, prompt: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    encoded: list[str] = []

    def encode(text: str) -> list[int]:
        encoded.append(text)
        return [5]

    monkeypatch.setattr(server.engine.session, "encode", encode)
    status, text = ask(server, {"prompt": prompt}, TEXT)
    error = json.loads(text)["error"]
    assert (status, error["param"], encoded) == (400, "prompt", ["a"] if len(prompt) == 2 else [])
    assert "at most" in error["message"]


def test_the_longest_text_that_a_request_may_have_is_encoded(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    scheduler = server.engine.scheduler
    longest = max(demo_engine().tokenizer.token_bytes, key=len)
    monkeypatch.setattr(scheduler, "max_model_len", 4)
    for tokens, message in ((3, None), (4, "the prompt has 4 tokens"), (5, "a text of")):
        status, text = ask(server, {"prompt": longest.decode() * tokens}, TEXT)
        assert status == (200 if message is None else 400)
        assert message is None or message in json.loads(text)["error"]["message"]


@pytest.mark.parametrize("length", ["9" * 5000, "x", "-1", "1_0"], ids=lambda length: length[:4])
def test_a_length_that_is_no_size_of_a_body_is_refused(server: Server, length: str) -> None:
    with connected(server) as connection:
        connection.putrequest("POST", CHAT)
        connection.putheader("Content-Length", length)
        connection.endheaders()
        assert connection.getresponse().status in (400, 413)


def test_a_query_changes_nothing(server: Server) -> None:
    assert server.get("/v1/models?x=1") == server.get("/v1/models")
    assert ask(server, {"max_tokens": 2}, f"{CHAT}?x=1")[0] == 200
    status, text = server.get("/v1/other?x=1")
    assert (status, json.loads(text)["error"]["message"]) == (404, "nothing at /v1/other")


def test_a_body_in_chunks_is_refused_by_threads_alone(server: Server, request: pytest.FixtureRequest) -> None:
    with connected(server) as connection:
        parts = [json.dumps({**BODY, "max_tokens": 2}).encode()]
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # refused before all has been sent
            connection.request("POST", CHAT, iter(parts), encode_chunked=True)
        reply = connection.getresponse()
        text = reply.read().decode()
    if request.node.callspec.params["server"] is uvicorn_server:
        assert reply.status == 200
    else:
        assert (reply.status, "Content-Length" in text) == (411, True)


# --- tokens and what is known of them ------------------------------------------------------------

SAYING = "of the class of the class of the"
REPEATS = {
    "prompt": SAYING,
    "messages": [{"role": "user", "content": SAYING}],
    "temperature": 0.4,
    "top_k": 3,
}


def joined(text: str, path: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """The first choice of a stream, its lists and texts joined, and what its first chunk has besides."""
    first, *chunks = chunks_of(text)
    whole: dict[str, Any] = {"text": ""}
    for choice in (chunk["choices"][0] for chunk in [first, *chunks]):
        whole["text"] += choice["text"] if path == TEXT else choice["delta"].get("content", "")
        for name in ("token_ids", "sampling_mask", "prompt_token_ids"):
            if name in choice:
                whole.setdefault(name, []).extend(choice[name])
    return whole, first


@pytest.mark.parametrize("path", [CHAT, TEXT])
def test_tokens_come_with_what_they_were_drawn_from_whole_or_in_parts(server: Server, path: str) -> None:
    asked = {**REPEATS, "return_token_ids": True, "return_sampling_mask": 3, "banned_strings": ["the cla"]}
    reply = json.loads(ask(server, {**asked, "max_tokens": 12}, path)[1])
    (choice,) = reply["choices"]
    assert len(choice["token_ids"]) == 12
    for token_id, survivors in zip(choice["token_ids"], choice["sampling_mask"], strict=True):
        assert token_id in survivors
        assert len(survivors) == 3
    streamed, first = joined(ask(server, {**asked, "max_tokens": 12, "stream": True}, path)[1], path)
    prompt = reply["prompt_token_ids"] if path == CHAT else choice["prompt_token_ids"]
    assert prompt == (first if path == CHAT else streamed)["prompt_token_ids"]
    assert [streamed[name] for name in ("token_ids", "sampling_mask")] == [
        choice[name] for name in ("token_ids", "sampling_mask")
    ]
    assert streamed["text"] == (choice["message"]["content"] if path == CHAT else choice["text"])
    assert demo_engine().tokenizer.decode(choice["token_ids"]) == streamed["text"]


@pytest.mark.parametrize("path", [CHAT, TEXT])
def test_masks_beyond_their_bounds_are_null(
    server: Server, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def masks(**asked: Any) -> list[int | None]:
        reply = json.loads(ask(server, {**REPEATS, "max_tokens": 4, **asked}, path)[1])
        listed = reply["choices"][0]["sampling_mask"]
        return [ids if ids is None else len(ids) for ids in listed]

    assert masks(return_sampling_mask=2) == [None] * 4
    assert masks(return_sampling_mask=True) == [3] * 4
    assert masks(return_sampling_mask=True, top_k=0) == [4095] * 4
    assert masks(return_sampling_mask=4000, top_k=0) == [None] * 4
    monkeypatch.setattr("engine_sampler.cli.serve.replies.MAX_SURVIVORS", 7)
    assert masks(return_sampling_mask=True) == [3, 3, None, None]


@pytest.mark.parametrize("path", [CHAT, TEXT])
def test_named_tokens_stand_in_the_place_of_the_likeliest(server: Server, path: str) -> None:
    named = {"logprob_token_ids": [262, 300], "logprobs": True if path == CHAT else 1, "max_tokens": 3}
    logprobs = json.loads(ask(server, named, path)[1])["choices"][0]["logprobs"]
    names = [demo_engine().tokenizer.decode([i]) for i in (262, 300)]
    if path == CHAT:
        for entry in logprobs["content"]:
            assert [one["token"] for one in entry["top_logprobs"]] == [entry["token"], *names]
    else:
        assert [set(top) for top in logprobs["top_logprobs"]] == [{t, *names} for t in logprobs["tokens"]]
    streamed = chunks_of(ask(server, {**named, "stream": True}, path)[1])
    parts = [chunk["choices"][0]["logprobs"] for chunk in streamed]
    key = "content" if path == CHAT else "top_logprobs"
    assert [entry for part in parts if part for entry in part[key]] == logprobs[key]


@pytest.mark.parametrize("path", [CHAT, TEXT])
@pytest.mark.parametrize(
    "settings",
    [
        {"max_tokens": 80},
        {"banned_strings": ["class"], "logprobs": 1, "return_token_ids": True, "n": 2},
        {
            "response_format": {
                "type": "json_schema",
                "json_schema": {"schema": TOOLS[0]["function"]["parameters"]},
            }
        },
    ],
    ids=["plain", "bans", "schema"],
)
def test_drafts_change_no_answer_and_save_steps(server: Server, path: str, settings: dict[str, Any]) -> None:
    if path == CHAT and "logprobs" in settings:
        settings = {**settings, "logprobs": True, "top_logprobs": 1}
    session = server.engine.session
    before = session.accepted
    plain, drafted = (
        json.loads(ask(server, {**REPEATS, **settings, "drafter": names}, path)[1])["choices"]
        for names in ([], ["grammar", "ngram"])
    )
    assert plain == drafted
    assert session.accepted > before


def test_a_server_may_draft_for_all_requests() -> None:
    with threading_server(replace(demo(), drafter=["ngram"])) as server:
        ask(server, {**REPEATS, "max_tokens": 40}, TEXT)
        drafted = server.engine.session.drafted
        ask(server, {**REPEATS, "max_tokens": 40, "drafter": []}, TEXT)
        assert server.engine.session.drafted == drafted > 0
    with pytest.raises(ParameterError, match="drafter='none' is not allowed"):
        ThreadingChatServer(("127.0.0.1", 0), replace(demo(), drafter=["none"]))


# --- clients that go, models that fail -----------------------------------------------------------


@pytest.mark.parametrize("path", [CHAT, TEXT])
@pytest.mark.parametrize("stream", [True, False], ids=["stream", "whole"])
def test_a_client_that_has_gone_ends_its_request(server: Server, path: str, stream: bool) -> None:
    host, _, port = server.address.removeprefix("http://").partition(":")
    body = {**BODY, "prompt": "x", "max_tokens": 1_000_000, "ignore_eos": True, "stream": stream}
    data = json.dumps(body).encode()
    head = f"POST {path} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(data)}\r\n\r\n"
    with socket.create_connection((host, int(port)), timeout=30) as client:
        client.sendall(head.encode() + data)
        assert eventually(lambda: bool(server.engine.scheduler.request_ids))
        if stream:
            assert client.recv(100)
    assert server.is_idle()


@pytest.mark.parametrize("resets", [False, True], ids=["closes", "resets"])
@pytest.mark.parametrize("length", [100, MAX_BODY + 1])
def test_a_client_that_goes_while_its_body_is_read_is_not_reported(
    server: Server,
    resets: bool,
    length: int,
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    host, _, port = server.address.removeprefix("http://").partition(":")
    head = f"POST {CHAT} HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n"
    logged: list[Any] = []
    monkeypatch.setattr(logging.getLogger("uvicorn.error"), "handle", logged.append)
    for _ in range(10):
        with socket.create_connection((host, int(port)), timeout=30) as client:
            client.sendall(head.encode() + b'{"messages"')
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", resets, 0))
    assert server.get("/v1/models")[0] == 200
    time.sleep(0.3)
    assert (capfd.readouterr().err, logged) == ("", [])


@pytest.fixture
def failing(server: Server, monkeypatch: pytest.MonkeyPatch) -> Server:
    def fail(*_: Any) -> Any:
        raise MemoryError("an address of this machine")

    monkeypatch.setattr(server.engine.session, "forward_drafts", fail)
    return server


def test_a_failure_of_the_model_is_an_error_of_the_server(failing: Server) -> None:
    for path in (CHAT, TEXT):
        status, text = ask(failing, {"n": 2}, path)
        error = json.loads(text)["error"]
        assert (status, error["type"]) == (500, "server_error")
        assert error["message"] == "the model failed: MemoryError"
        status, text = ask(failing, {"stream": True}, path)
        *chunks, last = chunks_of(text)
        assert chunks[-1]["choices"][0]["finish_reason"] == "error"
        assert last["error"] == error
    assert failing.is_idle()


def test_the_server_goes_on_after_a_failure(failing: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    assert ask(failing, {})[0] == 500
    monkeypatch.undo()
    assert ask(failing, {})[0] == 200


@pytest.mark.parametrize("serve", [threading_server, uvicorn_server], ids=["threads", "asgi"])
def test_a_server_that_stops_answers_those_who_wait(serve: Callable[..., Any]) -> None:
    with serve(demo()) as server:
        assert ask(server, {"max_tokens": 2})[0] == 200
        server.engine.stop()
        status, text = ask(server, {})
        assert (status, json.loads(text)["error"]["message"]) == (503, "the engine has stopped")


def test_a_port_that_is_taken_is_an_ordinary_error(server: Server) -> None:
    port = int(server.address.rpartition(":")[2])
    with pytest.raises(OSError, match="in use"):
        ThreadingChatServer(("127.0.0.1", port), demo())


# --- the client of OpenAI ------------------------------------------------------------------------


def test_the_client_of_openai_is_served(server: Server) -> None:
    openai = pytest.importorskip("openai")
    pydantic = pytest.importorskip("pydantic")
    client = openai.OpenAI(base_url=f"{server.address}/v1", api_key="none")
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


def test_the_client_of_openai_reads_texts_and_failures(failing: Server, monkeypatch: Any) -> None:
    openai = pytest.importorskip("openai")
    client = openai.OpenAI(base_url=f"{failing.address}/v1", api_key="none", max_retries=0)
    common: dict[str, Any] = {"model": "demo", "prompt": "The class", "seed": 3, "max_tokens": 8}
    with pytest.raises(openai.InternalServerError, match="the model failed"):
        client.completions.create(**common)
    with pytest.raises(openai.APIError, match="the model failed"):
        list(client.completions.create(**common, stream=True))
    monkeypatch.undo()
    whole = client.completions.create(**common).choices[0].text
    assert whole == "".join(one.choices[0].text for one in client.completions.create(**common, stream=True))
