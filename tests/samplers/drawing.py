"""Many draws of one selector from one row, for statistics."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from engine_sampler.contract import Rows, Selector
from engine_sampler.testing import select
from engine_sampler.testing.single import open_slots


def by_seed(selector: Selector, row: np.ndarray, params: Mapping[str, Any], n: int = 6000) -> np.ndarray:
    """The token drawn from `row` under each of n seeds, at one position."""
    logits = np.tile(np.asarray(row, np.float32), (n, 1))
    return select(selector, logits, params, seeds=range(1, n + 1)).columns


def by_position(selector: Selector, row: np.ndarray, params: Mapping[str, Any], n: int = 2000) -> np.ndarray:
    """The token drawn from `row` at each of n positions, under one seed."""
    logits = np.tile(np.asarray(row, np.float32), (n, 1))
    prompts = [np.zeros(length, np.int64) for length in range(n)]
    return select(selector, logits, params, seeds=[17] * n, prompts=prompts).columns


def notes_of_a_run(
    selector: Selector, row: np.ndarray, params: Mapping[str, Any], requests: int, steps: int
) -> np.ndarray:
    """The selector's notes [steps, requests] while each request continues from the same row."""
    logits = np.tile(np.asarray(row, np.float32), (requests, 1))
    slots, index = open_slots(selector, [params] * requests, len(row), seeds=range(requests))
    rows = Rows(slots, index).bind(selector)
    notes = []
    for _ in range(steps):
        selection = selector.select(logits, rows)
        assert selection.notes is not None
        notes.append(selection.notes)
        for slot, token, note in zip(index, selection.columns.tolist(), notes[-1].tolist(), strict=True):
            slots.accept(slot, [token], [note])
    return np.array(notes)
