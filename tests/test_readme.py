"""The README's code runs as it stands."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from engine_sampler import Tokenizer

README = Path(__file__).resolve().parents[1] / "README.md"
BLOCKS = re.findall(r"```python\n(.*?)```", README.read_text(encoding="utf-8"), re.DOTALL)
VOCAB = 32


class Model:
    """Logits of a fixed row for whoever asks."""

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
        "send": lambda *what: sent.append(what),
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
