"""The pages of `docs/`, and the names that their code may use without defining them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np

from engine_sampler import Tokenizer
from engine_sampler.samplers.logits_processors import Forbid

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
READMES = sorted([*ROOT.glob("*.md"), *ROOT.glob("plugins/*/README.md"), ROOT / "benchmarks" / "README.md"])
READ_BY_PEOPLE = [*PAGES, *READMES]
"""All pages of the repository: those of the site, and those beside what they are about."""

VOCAB = 128


class Model:
    """A model with the same row of logits for every request; tokens are the ASCII characters."""

    def forward(self, request_ids: list[Any], token_ids_on_device: Any = None) -> np.ndarray:
        row = np.full(VOCAB + 3, -4, np.float32)
        row[65:123] = np.linspace(-1, 1, 58)
        return np.tile(row, (len(request_ids), 1))


def name_of(page: Path) -> str:
    """A page by its path in `docs/`, or in the repository if it is not there."""
    return page.relative_to(DOCS if DOCS in page.parents else ROOT).as_posix()


def blocks_of(page: Path) -> list[str]:
    """The blocks of Python on a page, in order."""
    return re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


def sketches_of(page: Path) -> list[str]:
    """The blocks of Python on a page that need another system, and are not run."""
    return re.findall(r"^```py\n(.*?)^```", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


def given_names(sent: list[Any]) -> dict[str, Any]:
    """What stands for the reader's own engine; `send` appends to `sent`."""
    return {
        "__name__": "page",
        "Forbid": Forbid,
        "vocab_size": VOCAB,
        "tokenizer": Tokenizer([bytes([i]) for i in range(VOCAB)], eos_token_ids=[0]),
        "model": Model(),
        "send": lambda *message: sent.append(message),
        "logits": Model().forward([0, 1]),
        "histories": [[1, 2], [3]],
        "token_ids": [4, 5],
        "prompt_token_ids": [72, 105],
    }
