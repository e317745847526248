"""`engine-sampler serve` as a user runs it."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any

import pytest

from ..running import run, run_without
from .serving import CHAT, Server


@contextmanager
def served(*arguments: str | Path) -> Iterator[Server]:
    """The address of a server in a process of its own, which is asked to end afterwards."""
    pytest.importorskip("fastapi")
    pytest.importorskip("uvicorn")
    pytest.importorskip("tokenizers")
    command = [sys.executable, "-m", "engine_sampler", "serve", "--port", "0", *map(str, arguments)]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env={**os.environ, "COLUMNS": ""})
    assert process.stderr is not None
    try:
        yield Server(address_in(process.stderr), engine=None)  # type: ignore[arg-type]
    finally:
        process.terminate()
        log = process.communicate(timeout=60)[1]
        assert "Traceback" not in log
        assert "Application shutdown complete" in log


def address_in(log: IO[str]) -> str:
    for line in log:
        if running := re.search(r"running on (http://\S+)", line):
            return running[1]
    raise AssertionError("the server has not started")


def test_the_demo_is_served_until_the_command_is_asked_to_end(corpus: Path) -> None:
    messages = [{"role": "user", "content": "The cat"}]
    body: dict[str, Any] = {"messages": messages, "seed": 3, "reasoning_effort": "none"}
    body["max_tokens"] = 1000
    animal = {"type": "object", "properties": {"animal": {"enum": ["cat", "rat"]}}, "required": ["animal"]}
    tool = {"name": "find", "parameters": animal}
    form = {"type": "json_schema", "json_schema": {"name": "a", "schema": {"enum": ["cat", "rat"]}}}
    with ExitStack() as resources:
        with served("--corpus", corpus) as server:
            tools: dict[str, Any] = {
                "tools": [{"type": "function", "function": tool}],
                "tool_choice": "required",
            }
            tools["parallel_tool_calls"] = False
            message = json.loads(server.post({**body, **tools})[1])["choices"][0]["message"]
            assert message["tool_calls"][0]["function"]["name"] == "find"
            message = json.loads(server.post({**body, "response_format": form})[1])["choices"][0]["message"]
            assert json.loads(message["content"]) in ("cat", "rat")
            openai_answers(server, messages)
            endless = {**body, "ignore_eos": True, "stream": True}
            request = urllib.request.Request(server.address + CHAT, json.dumps(endless).encode())
            stream = resources.enter_context(urllib.request.urlopen(request, timeout=60))
            assert stream.read(40)
        rest = stream.read().decode()  # what runs does not keep the server from ending
        assert '"the engine has stopped"' in rest
        assert rest.endswith("data: [DONE]\n\n")


def openai_answers(server: Server, messages: Any) -> None:
    """The client of OpenAI streams, where it is installed."""
    try:
        import openai
    except ImportError:
        return
    client = openai.OpenAI(base_url=f"{server.address}/v1", api_key="none", max_retries=0)
    stream = client.chat.completions.create(model="demo", messages=messages, max_tokens=6, stream=True)
    assert [chunk.choices[0].finish_reason for chunk in stream][-1] in ("stop", "length")


def test_without_its_extra_the_command_says_how_to_install_it() -> None:
    done = run_without("uvicorn", arguments=("serve",))
    assert (done.returncode, done.stdout) == (2, "")
    names = "jinja2|uvicorn"  # the first that is missing
    assert re.fullmatch(
        rf'engine-sampler: this needs ({names}): in a checkout, pip install "\.\[serve\]"\n', done.stderr
    )


def test_a_template_that_cannot_be_read_is_named(corpus: Path, tmp_path: Path) -> None:
    pytest.importorskip("fastapi")
    pytest.importorskip("uvicorn")
    pytest.importorskip("jinja2")
    template = tmp_path / "template.jinja"
    template.write_text("{% for %}")
    done = run("serve", "--corpus", corpus, "--chat-template", template)
    assert done.returncode == 2
    assert done.stderr.startswith("engine-sampler: the chat template cannot be read: ")
