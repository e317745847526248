"""Rows of logits from a file: `.npy`, or the logprobs in a server's answers, one JSON a line."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from engine_sampler import Tokenizer

MOST_BYTES = {".npy": 2**30, ".jsonl": 2**25}
"""The largest files, by their suffix."""
MOST_ROWS = 4096

Entry = dict[bytes, float]
"""The logprobs of a row, by the bytes of tokens."""


class FileRows:
    """The rows of a file, in its order. A token that a server's row does not list counts as removed."""

    is_fixed = True
    eos_token_ids: tuple[int, ...] = ()

    def __init__(self, path: str) -> None:
        file = Path(path)
        limit = MOST_BYTES.get(file.suffix)
        if limit is None:
            raise ValueError(f"--rows {path} is not allowed: a name that ends in {' or '.join(MOST_BYTES)}")
        if file.stat().st_size > limit:
            raise ValueError(f"--rows {path} is too large: at most {limit:,} bytes")
        self.title = file.name
        self.tokenizer: Tokenizer | None = None
        if file.suffix == ".npy":
            self.rows = _array(path)
        else:
            self.rows, self.tokenizer = _from_entries(list(_entries_of(path)))
        self.vocab_size = self.rows.shape[1]

    def encode(self, prompt: str) -> list[int]:
        return []

    def row(self, token_ids: list[int], index: int) -> np.ndarray | None:
        return np.array(self.rows[index], np.float32) if index < len(self.rows) else None

    def restart(self) -> None:
        """A file does not die."""

    def close(self) -> None:
        """Nothing is open."""


def _array(path: str) -> np.ndarray:
    try:
        rows: Any = np.load(path, mmap_mode="r", allow_pickle=False)
    except Exception:  # the parser of NumPy's headers raises whatever a crafted file leads to
        rows = None
    if not isinstance(rows, np.ndarray) or rows.ndim not in (1, 2) or not rows.size or rows.dtype.kind != "f":
        raise ValueError(f"{path} has no rows of logits: floats of shape [vocab] or [rows, vocab]")
    return np.atleast_2d(rows)[:MOST_ROWS]


def _from_entries(entries: list[Entry]) -> tuple[np.ndarray, Tokenizer]:
    vocabulary = list(dict.fromkeys(token for entry in entries for token in entry))
    ids = {token: i for i, token in enumerate(vocabulary)}
    rows = np.full((len(entries), len(vocabulary)), -np.inf, np.float32)
    for row, entry in zip(rows, entries, strict=True):
        row[[ids[token] for token in entry]] = list(entry.values())
    return rows, Tokenizer(vocabulary)


def _entries_of(path: str) -> Iterator[Entry]:
    """The rows of each line: an answer, its `logprobs`, or one entry of them."""
    count = 0
    with open(path, encoding="utf-8") as file:
        for number, line in enumerate(file, 1):
            try:
                found = list(_entries(json.loads(line))) if line.strip() else []
            except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
                raise ValueError(f"{path}, line {number}: no logprobs as OpenAI or vLLM write them") from None
            yield from found
            count += len(found)
            if count >= MOST_ROWS:
                return
    if not count:
        raise ValueError(f"{path} has no logprobs")


def _entries(value: Any) -> Iterator[Entry]:
    if "choices" in value:
        for choice in value["choices"][:1]:
            yield from _entries(choice["logprobs"])
    elif "content" in value:
        yield from map(_chat_entry, value["content"])
    elif "tokens" in value:  # completions: lists side by side
        for token, logprob, top in zip(
            value["tokens"], value["token_logprobs"], value["top_logprobs"], strict=True
        ):
            if logprob is not None:
                yield _finite({**(top or {}), token: logprob})
    else:
        yield _chat_entry(value)


def _chat_entry(entry: Mapping[str, Any]) -> Entry:
    return _finite({_bytes(one): one["logprob"] for one in (*entry["top_logprobs"], entry)})


def _bytes(one: Mapping[str, Any]) -> bytes:
    return bytes(one["bytes"]) if one.get("bytes") else str(one["token"]).encode()


def _finite(entry: Mapping[Any, Any]) -> Entry:
    """Servers write −9999 for what has no probability."""
    pairs = {token if isinstance(token, bytes) else token.encode(): float(p) for token, p in entry.items()}
    kept = {token: p for token, p in pairs.items() if -9000 < p <= 0}
    if not kept:
        raise ValueError("a row without tokens")
    return kept
