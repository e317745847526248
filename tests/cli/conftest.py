"""Files that commands read: a short text to learn from, and a row of logits."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from .running import CORPUS


@pytest.fixture
def corpus(tmp_path) -> Path:
    file = tmp_path / "corpus.txt"
    file.write_text(CORPUS, encoding="utf-8")
    return file


@pytest.fixture
def row(tmp_path) -> Path:
    file = tmp_path / "row.npy"
    np.save(file, np.linspace(4, -4, 50, dtype=np.float32))
    return file
