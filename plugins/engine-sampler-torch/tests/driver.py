"""A tiny backend for tests: a chain on the device, for rows that need nothing from the host in between."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from engine_sampler_torch.steps import Block, DeviceSelector, DeviceStep, selector_of, step_of
from torch import Tensor

from engine_sampler import Rows
from engine_sampler.contract import Chain


def block_of(logits: np.ndarray, vocab_size: int, ids: np.ndarray | None = None) -> Block:
    """A block of float32 `logits` [n, m] as a step finds it."""
    return Block(
        torch.from_numpy(logits.copy()),
        None if ids is None else torch.from_numpy(ids.copy()),
        vocab_size,
        torch.zeros(len(logits), dtype=torch.int64),
    )


def given_to(part: DeviceStep | DeviceSelector, rows: Rows) -> Mapping[str, Tensor]:
    """The inputs of one step, on the device."""
    return {name: torch.from_numpy(np.array(array)) for name, array in part.inputs(rows).items()}


def run(chain: Chain, rows: Rows, logits: np.ndarray) -> tuple[Block, np.ndarray, np.ndarray]:
    """(block, token ids [n], notes [n]) of `chain` on float32 `logits` [n, vocab]; −1 for a faulty row."""
    block = block_of(logits, rows.vocabulary.size)
    block.fail(block.values.amax(1) == float("-inf"), 1, block.values.amax(1))
    for number, sampler in enumerate(chain.samplers, 1):
        step, bound = step_of(sampler), rows.bind(sampler)
        assert step is not None, f"{sampler.name} runs on the host only"
        step.apply(block, given_to(step, bound), step.fixed(bound))
        if step.may_fail:
            block.check(number)
    selector, bound = selector_of(chain.selector), rows.bind(chain.selector)
    assert selector is not None
    columns, notes = selector.select(block, given_to(selector, bound), selector.fixed(bound))
    sound = block.faults == 0
    token_ids = torch.where(sound, block.token_ids_at(columns), -1).numpy()
    if notes is None:
        return block, token_ids, np.full(len(token_ids), np.nan)
    return block, token_ids, torch.where(sound, notes, torch.nan).numpy()
