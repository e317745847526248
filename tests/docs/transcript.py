"""Answers of the chat server on the page about embedding: `python -m tests.docs.transcript` writes them."""

from __future__ import annotations

import json
import re
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from engine_sampler.demo.engine import Engine

from .pages import DOCS, blocks_of
from .test_serving_engine import SERVER, Embedded

PAGE = DOCS / "embed.md"
CHATS = next(block for block in blocks_of(PAGE) if "class ChatServer" in block)
MOST_LINES = 10
EXCHANGE = re.compile(r"^```json\nPOST /v1/chat/completions\n(.*?)\n\n(.*?)^```", re.DOTALL | re.MULTILINE)


@contextmanager
def serving() -> Iterator[str]:
    """The address of a new server."""
    engine = Engine.load()
    names = {"model": Embedded(engine), "tokenizer": engine.tokenizer, "print": lambda *_, **__: None}
    exec(compile(SERVER, "embed.md", "exec"), names)
    exec(compile(CHATS, "embed.md", "exec"), names)
    web: Any = names["web"]
    try:
        yield f"http://127.0.0.1:{web.server_port}"
    finally:
        threading.Thread(target=web.shutdown).start()


def post(address: str, body: dict[str, Any] | bytes) -> tuple[int, str]:
    """The status and the text of an answer."""
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    request = urllib.request.Request(f"{address}/v1/chat/completions", data)
    try:
        with urllib.request.urlopen(request) as reply:
            return reply.status, reply.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def answered(page: str) -> str:
    """A page with the answers of a new server to the requests on it: without their times, with short ids of
    calls, and without the middle of long ones."""
    with serving() as address:
        return EXCHANGE.sub(lambda found: _exchange(address, found[1]), page)


def _exchange(address: str, body: str) -> str:
    status, text = post(address, json.loads(body))
    text = re.sub(r'"created": \d+, ', "", re.sub(r"call_\w{24}", "call_1", text))
    lines = text.replace("\n\n", "\n").splitlines()
    if len(lines) > MOST_LINES:
        lines[5:-4] = ["..."]
    text = "\n".join(lines)
    return f"```json\nPOST /v1/chat/completions\n{body}\n\n{status}\n{text}\n```"


if __name__ == "__main__":
    PAGE.write_text(answered(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
