"""`engine-sampler serve --transformers` serves a tiny model."""

from __future__ import annotations

import json
import queue
from argparse import Namespace
from pathlib import Path

import pytest

pytest.importorskip("torch")
pytest.importorskip("transformers")

from transformers_models import save_model

from engine_sampler.cli.serve.command import model_of
from engine_sampler.cli.serve.engine import ServingEngine, Update
from engine_sampler.cli.serve.replies import begin


def test_a_model_from_a_directory_is_served_with_a_template(tmp_path: Path) -> None:
    pytest.importorskip("jinja2")
    folder = tmp_path / "tiny"
    save_model(folder)
    (folder / "chat_template.jinja").write_text("{{ messages[0].content }}[TOOL_CALLS]{{ eos_token }}")
    options = {"gguf": None, "transformers": str(folder), "backend": "auto", "chat_template": None}
    options |= {"tool_family": "auto", "max_requests": 2, "unknown": "log", "drafter": ["ngram"]}
    served = model_of(Namespace(**options))
    assert (served.name, served.family) == ("tiny", "mistral")
    assert served.render([{"content": "a"}], None) == "a[TOOL_CALLS]<eos>"
    engine = ServingEngine(served.session)
    engine.start()
    outbox: queue.SimpleQueue[Update] = queue.SimpleQueue()
    data = json.dumps({"prompt": ["a", "b"], "n": 2, "max_tokens": 9, "guided_regex": "(yes|no)"}).encode()
    reply = begin("/v1/completions", data, served, engine, outbox.put)
    while not reply.is_done:
        reply.take(outbox.get(timeout=60))
    engine.stop()
    assert {one["text"] for one in reply.whole()["choices"]} <= {"yes", "no"}
    assert not served.session._caches  # type: ignore[attr-defined]
