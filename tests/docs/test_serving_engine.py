"""The serving engine on the page about embedding serves real engines."""

from __future__ import annotations

import json
import re
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

from engine_sampler import ParameterError, Tokenizer
from engine_sampler.demo.engine import Engine

from .pages import DOCS, blocks_of

SERVER = next(block for block in blocks_of(DOCS / "embed.md") if "class Server" in block)


class Embedded:
    """The embedded engine as the page's model."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.batches: list[int] = []

    def forward(self, rows: list[list[int]]) -> np.ndarray:
        self.batches.append(len(rows))
        return self.engine.model.logits(rows)


class Transformers:
    """A small random transformers model as the page's model: rows are padded, nothing is cached."""

    def __init__(self, vocab_size: int) -> None:
        self.torch = pytest.importorskip("torch")
        transformers = pytest.importorskip("transformers")
        self.torch.manual_seed(0)
        shape = {"n_positions": 256, "n_embd": 16, "n_layer": 1, "n_head": 2}
        config = transformers.GPT2Config(vocab_size=vocab_size, **shape)
        self.model = transformers.GPT2LMHeadModel(config).eval()  # a new model drops values at random

    def forward(self, rows: list[list[int]]) -> Any:
        width = max(map(len, rows))
        ids = self.torch.tensor([row + [0] * (width - len(row)) for row in rows])
        with self.torch.no_grad():
            logits = self.model(ids).logits
        return logits[range(len(rows)), [len(row) - 1 for row in rows]]


def serve(model: Any, tokenizer: Tokenizer) -> Any:
    """The page's server, running, after the request that the page shows."""
    printed: list[str] = []
    names = {"model": model, "tokenizer": tokenizer, "print": lambda text, end: printed.append(text)}
    exec(compile(SERVER, "embed.md", "exec"), names)
    assert "".join(printed)
    return names["server"]


def test_the_server_fits_on_a_page() -> None:
    assert len([line for line in SERVER.splitlines() if line.strip()]) <= 70


@pytest.fixture(scope="module")
def embedded() -> tuple[Embedded, Tokenizer]:
    engine = Engine.load()
    return Embedded(engine), engine.tokenizer


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_the_server_serves_the_embedded_engine(embedded: tuple[Embedded, Tokenizer]) -> None:
    model, tokenizer = embedded
    server = serve(model, tokenizer)
    schema = {"enum": ["one", 2]}
    bodies = [
        {"prompt": "The class", "max_tokens": 30, "seed": 1},
        {"prompt": "A method", "max_tokens": 50, "stop": [" the"], "temperature": 0.7},
        {"prompt": "Say ", "max_tokens": 60, "structured_outputs": {"json": schema}},
        {"prompt": "Say ", "max_tokens": 20, "structured_outputs": {"regex": "(yes|no)"}},
    ]
    with ThreadPoolExecutor(len(bodies)) as clients:
        texts = list(clients.map(lambda body: "".join(server.stream(body)), bodies * 3))
    for body, text in zip(bodies * 3, texts, strict=True):
        assert not any(string in text for string in body.get("stop", ()))
        if body is bodies[0]:
            assert text == texts[0]
        if body is bodies[2]:
            assert json.loads(text) in ("one", 2)
        if body is bodies[3]:
            assert text in ("yes", "no")
    assert max(model.batches) > 1
    leaving = server.stream({"prompt": "The", "max_tokens": 2000, "ignore_eos": True})
    next(leaving)
    leaving.close()
    assert "".join(server.stream({"prompt": "The class", "max_tokens": 30, "seed": 1})) == texts[0]
    with pytest.raises(ParameterError, match="top_p"):
        server.stream({"prompt": "The", "top_p": 7})
    assert not server.scheduler.request_ids


def test_the_server_serves_a_transformers_model() -> None:
    tokenizer = Tokenizer([bytes([byte]) for byte in range(256)] + [b"</s>"], [256])
    server = serve(Transformers(len(tokenizer)), tokenizer)
    body = {
        "prompt": "The class",
        "max_tokens": 40,
        "seed": 3,
        "structured_outputs": {"regex": "[a-z ]{5,20}[.]"},
    }
    texts = ["".join(server.stream(body)) for _ in range(2)]
    assert texts[0] == texts[1]
    assert re.fullmatch("[a-z ]{5,20}[.]", texts[0])
