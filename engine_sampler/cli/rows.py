"""What `explain` reads: a row of logits from a file, and the token that is asked for."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np

from ..tokenizer import Tokenizer

logger = logging.getLogger("engine_sampler")


def read_row(path: str) -> np.ndarray:
    """One row of logits from a .npy file, [vocab] or [1, vocab]."""
    row: Any = None
    try:
        with open(path, "rb") as file:
            row = np.load(file, allow_pickle=False)
    except OSError:
        raise
    except Exception:  # the parser of NumPy's headers raises whatever a crafted file leads to
        logger.debug("%s cannot be read", path, exc_info=True)
    is_row = isinstance(row, np.ndarray) and row.ndim > 0 and row.size == row.shape[-1] > 0
    if not is_row or not np.issubdtype(row.dtype, np.floating):
        raise ValueError(f"{path} is not a row of logits: floats of shape [vocab] or [1, vocab]")
    return row.reshape(-1).astype(np.float32, copy=False)


def token_id_of(text: str, tokenizer: Tokenizer | None) -> int:
    """The id that a text names: itself, if it is a number, or else the one token with these bytes."""
    if text.isdecimal():
        return int(text)
    if tokenizer is None:
        raise ValueError(f"--token {text!r} is not allowed: an id, since --logits has no tokenizer")
    ids = tokenizer.ids_of(text.encode())
    if not len(ids):
        raise ValueError(f"--token {text!r} is not allowed: an id, or the text of one token")
    return int(ids[0])
