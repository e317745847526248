"""Blocks, steps and whole chains in torch for tests, without a backend."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from engine_sampler_torch.steps import Block, DeviceSelector, DeviceStep, selector_of, step_of
from torch import Tensor

from engine_sampler.contract import Chain, Rows
from tests import random_chains

NEG_INF = float("-inf")
HOST_ONLY = {"infill", *random_chains.HOST_ONLY}
"""Samplers and selectors of the core that have no form in torch."""


def block_of(logits: np.ndarray, vocab_size: int, ids: np.ndarray | None = None) -> Block:
    """A block of float32 `logits` [n, m], which belong to the caller."""
    return Block(
        torch.from_numpy(logits),
        None if ids is None else torch.from_numpy(ids),
        vocab_size,
        torch.zeros(len(logits), dtype=torch.int64),
    )


def given_to(part: DeviceStep | DeviceSelector, rows: Rows) -> Mapping[str, Tensor]:
    """The inputs of one step, on the device."""
    return {name: torch.from_numpy(np.array(array)) for name, array in part.inputs(rows).items()}


def apply_step(sampler: Any, block: Block, rows: Rows) -> DeviceStep:
    """Apply the step of `sampler` to a block; `rows` are bound to the sampler and have no ids."""
    step = step_of(sampler)
    assert step is not None, f"{sampler.name} runs on the host only"
    step.apply(block, given_to(step, rows), step.fixed(rows))
    return step


def select(selector: Any, block: Block, rows: Rows) -> tuple[np.ndarray, np.ndarray | None]:
    """(token ids [n], notes [n] or None) as the torch form of `selector` chooses them."""
    part = selector_of(selector)
    assert part is not None
    columns, notes = part.select(block, given_to(part, rows), part.fixed(rows))
    return block.token_ids_at(columns).numpy(), None if notes is None else notes.numpy()


def whole_rows(block: Block) -> np.ndarray:
    """The logits of every token, float32 [n, vocab]; −inf for those without a column."""
    if block.ids is None:
        return block.values.numpy()
    rows = np.full((len(block.values), block.vocab_size + 1), -np.inf, np.float32)
    np.put_along_axis(rows, block.ids.numpy(), block.values.numpy(), axis=1)
    return rows[:, : block.vocab_size]


def run(chain: Chain, rows: Rows, logits: np.ndarray) -> tuple[Block, np.ndarray, np.ndarray]:
    """(block, token ids [n], notes [n]) of `chain` on float32 `logits` [n, vocab]; −1 and NaN for a faulty
    row."""
    block = block_of(logits, rows.vocabulary.size)
    for number, sampler in enumerate(chain.samplers):
        if apply_step(sampler, block, rows.bind(sampler)).may_fail:
            block.check(number)
    token_ids, notes = select(chain.selector, block, rows.bind(chain.selector))
    faulty = block.faults.numpy() > 0
    notes = np.full(len(logits), np.nan) if notes is None else notes
    return block, np.where(faulty, -1, token_ids), np.where(faulty, np.nan, notes)
