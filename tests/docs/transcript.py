"""Answers of the chat server on the page about serving: `python -m tests.docs.transcript` writes them."""

from __future__ import annotations

import json
import re

from ..cli.serve.serving import Server, demo, threading_server
from .pages import DOCS

PAGE = DOCS / "serve.md"
MOST_LINES = 10
EXCHANGE = re.compile(r"^```json\nPOST /v1/chat/completions\n(.*?)\n\n(.*?)^```", re.DOTALL | re.MULTILINE)


def answered(page: str) -> str:
    """A page with the answers of a new server to the requests on it: without their times, with short
    ids, and without the middle of long ones."""
    with threading_server(demo()) as server:
        return EXCHANGE.sub(lambda found: _exchange(server, found[1]), page)


def _exchange(server: Server, body: str) -> str:
    status, text = server.post(json.loads(body))
    text = re.sub(r'"created": \d+, ', "", re.sub(r"((?:call|chatcmpl)[_-])\w{24,}", r"\g<1>1", text))
    lines = text.replace("\n\n", "\n").splitlines()
    if len(lines) > MOST_LINES:
        lines[5:-4] = ["..."]
    text = "\n".join(lines)
    return f"```json\nPOST /v1/chat/completions\n{body}\n\n{status}\n{text}\n```"


if __name__ == "__main__":
    PAGE.write_text(answered(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
