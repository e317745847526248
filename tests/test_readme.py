"""The code in the README runs unchanged."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from docs.generate.pictures import speed
from engine_sampler import Tokenizer

README = Path(__file__).resolve().parents[1] / "README.md"
BLOCKS = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
VOCAB = 32


class Model:
    """A model whose logits are the same row for every request."""

    def forward(self, request_ids: list[Any]) -> np.ndarray:
        row = np.linspace(-2, 2, VOCAB + 3, dtype=np.float32)
        return np.tile(row, (len(request_ids), 1))


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.splitlines()[0])
def test_the_code_of_the_readme_runs(block: str) -> None:
    sent: list[tuple[Any, str, str | None]] = []
    logits = Model().forward([0, 1])
    names = {
        "vocab_size": VOCAB,
        "tokenizer": Tokenizer([bytes([65 + i]) for i in range(VOCAB)], eos_token_ids=[0]),
        "model": Model(),
        "send": lambda *message: sent.append(message),
        "logits": logits,
        "histories": [[1, 2], [3]],
        "token_ids": [4, 5],
    }
    exec(compile(block, str(README), "exec"), names)
    if "scheduler" in names:
        assert sent[-1][2] in ("stop", "length")
        assert "".join(text for _, text, _ in sent)
    else:
        assert names["sampled"].errors == [None, None]  # type: ignore[attr-defined]


def test_the_readme_has_code() -> None:
    assert len(BLOCKS) >= 2


def test_the_readme_fits_on_two_screens() -> None:
    assert len(README.read_text(encoding="utf-8").splitlines()) <= 110


def test_the_numbers_of_the_readme_are_those_of_the_benchmarks() -> None:
    text = README.read_text(encoding="utf-8")
    chain = speed.results()["default chain"]
    faster = f"{chain['than llama.cpp']:.0f} times faster than llama.cpp's samplers"
    start = " ".join((README.parent / "docs" / "index.md").read_text(encoding="utf-8").split())
    for page in (text, start):
        assert f"**{chain['native']:.0f} µs**" in page
        assert faster in page


@pytest.mark.parametrize("target", re.findall(r"\]\(([\w./-]+)\)", README.read_text(encoding="utf-8")))
def test_a_link_of_the_readme_leads_somewhere(target: str) -> None:
    assert (README.parent / target).exists()
