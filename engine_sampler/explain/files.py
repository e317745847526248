"""Rows of logits in files: `.npy`, or the logprobs in a server's answers, one JSON a line."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ..tokenizer import Tokenizer

logger = logging.getLogger("engine_sampler")

MOST_ROWS = 4096
"""The rows that are read of a file; those after them are left."""
MOST_BYTES = 2**25
"""The longest `.jsonl`."""
_NO_PROBABILITY = -9000.0
"""Servers write −9999 for what has none."""


def read_rows(path: str) -> tuple[np.ndarray, Tokenizer | None]:
    """Floats [rows, vocab], and the tokenizer if the file names its tokens.

    A `.npy` has floats of shape [vocab] or [rows, vocab]; it is mapped, not read.

    A `.jsonl` has on each line an answer of a server with logprobs (chat or completions, as OpenAI and vLLM
    write them), its `logprobs`, or one entry of these. Its vocabulary is the tokens that it lists; one that a
    row does not list is removed there.

    Raises ValueError or OSError for any other file.
    """
    if not path.endswith(".jsonl"):
        return _array(path), None
    if Path(path).stat().st_size > MOST_BYTES:
        raise ValueError(f"{path} is too large: at most {MOST_BYTES:,} bytes")
    entries = list(_logprobs_in(path))
    ids = {token: i for i, token in enumerate(dict.fromkeys(token for entry in entries for token in entry))}
    if len(entries) * len(ids) > MOST_BYTES:
        raise ValueError(f"{path} has {len(entries):,} rows of {len(ids):,} tokens: too many for one array")
    rows = np.full((len(entries), len(ids)), -np.inf, np.float32)
    for row, entry in zip(rows, entries, strict=True):
        row[[ids[token] for token in entry]] = list(entry.values())
    return rows, Tokenizer(list(ids))


def _array(path: str) -> np.ndarray:
    rows: Any = None
    try:
        rows = np.lib.format.open_memmap(path, mode="r")
    except OSError:
        raise
    except Exception:  # the parser of NumPy's headers raises whatever a crafted file leads to
        logger.debug("%s cannot be read", path, exc_info=True)
    is_rows = isinstance(rows, np.ndarray) and rows.ndim in (1, 2) and rows.size > 0
    if not is_rows or not np.issubdtype(rows.dtype, np.floating):
        raise ValueError(f"{path} has no rows of logits: floats of shape [vocab] or [rows, vocab]")
    return np.atleast_2d(rows)[:MOST_ROWS]


def _logprobs_in(path: str) -> Iterator[dict[bytes, float]]:
    """The logprobs of each row, by the bytes of tokens."""
    count = 0
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            try:
                found = [_logprobs(entry) for entry in _entries(json.loads(line))] if line.strip() else []
            except (ValueError, TypeError, LookupError, AttributeError, RecursionError, OverflowError):
                raise ValueError(f"{path}, line {number}: no logprobs as OpenAI or vLLM write them") from None
            yield from found[: MOST_ROWS - count]
            count += len(found)
    if not count:
        raise ValueError(f"{path} has no logprobs")


def _entries(value: Any) -> Iterator[Mapping[str, Any]]:
    """The entries of any answer, as chat completions have them."""
    if "choices" in value:
        yield from _entries(value["choices"][0]["logprobs"])
    elif "tokens" in value:  # of completions: lists side by side, null for a prompt's first token
        lists = (value["tokens"], value["token_logprobs"], value["top_logprobs"])
        for token, logprob, top in zip(*lists, strict=True):
            listed = {**(top or {}), token: logprob}
            if logprob is not None:
                yield {"top_logprobs": [{"token": t, "logprob": p} for t, p in listed.items()]}
    else:
        yield from value.get("content") or [value]


def _logprobs(entry: Mapping[str, Any]) -> dict[bytes, float]:
    listed = [*entry["top_logprobs"], *([entry] if "token" in entry else [])]
    pairs = {_bytes_of(one): float(one["logprob"]) for one in listed}
    kept = {token: p for token, p in pairs.items() if _NO_PROBABILITY < p <= 0}
    if not kept:
        raise ValueError("a row without tokens")
    return kept


def _bytes_of(entry: Mapping[str, Any]) -> bytes:
    listed = entry.get("bytes")
    if not isinstance(listed, (list, type(None))):  # of a number, `bytes` makes as many zeros
        raise ValueError("bytes are a list")
    return bytes(listed) if listed else entry["token"].encode()
