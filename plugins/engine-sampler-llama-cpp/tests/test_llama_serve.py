"""`engine-sampler serve --gguf` serves a tiny model."""

from __future__ import annotations

import json
import queue
from argparse import Namespace
from pathlib import Path

import pytest

pytest.importorskip("gguf")
pytest.importorskip("llama_cpp")

import tiny_gguf

from engine_sampler.cli.serve.command import model_of
from engine_sampler.cli.serve.engine import ServingEngine, Update
from engine_sampler.cli.serve.replies import begin

TEMPLATE = "{{ bos_token }}{% for one in messages %}{{ one.content }}{% endfor %}[TOOL_CALLS]"


def test_a_gguf_file_is_served_with_its_own_template(tmp_path: Path) -> None:
    pytest.importorskip("jinja2")
    model = tiny_gguf.write_model(tmp_path / "tiny.gguf", chat_template=TEMPLATE)
    options = {"gguf": str(model), "transformers": None, "backend": "auto", "chat_template": None}
    options |= {"tool_family": "auto", "max_requests": 2, "unknown": "log", "drafter": ["ngram"]}
    served = model_of(Namespace(**options))
    assert (served.name, served.family) == ("tiny", "mistral")
    text = served.render([{"content": "the cat"}], None)
    assert text == "<s>the cat[TOOL_CALLS]"
    assert served.encode(text).count(1) == 1  # BOS
    engine = ServingEngine(served.session)
    engine.start()
    outbox: queue.SimpleQueue[Update] = queue.SimpleQueue()
    body = {"messages": [{"content": "the cat"}], "n": 5, "seed": 1, "max_tokens": 12}
    form = {"type": "json_schema", "json_schema": {"name": "x", "schema": {"enum": ["a", "b"]}}}
    data = json.dumps({**body, "response_format": form}).encode()
    reply = begin("/v1/chat/completions", data, served, engine, outbox.put)
    while not reply.is_done:
        reply.take(outbox.get(timeout=60))
    engine.stop()
    assert {one["message"]["content"].strip() for one in reply.whole()["choices"]} <= {'"a"', '"b"'}
