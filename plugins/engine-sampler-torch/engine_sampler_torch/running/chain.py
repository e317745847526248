"""What runs on the device for one piece. Nothing here waits for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from ..steps import Block, DeviceStep
from .fused import CODES, Fused
from .pieces import Inputs, Piece
from .reading import FIRST_SAMPLER, GRAMMAR, read


@dataclass
class Outcome:
    """The results of a piece, on the device.

    verdicts   int64 [3, n]: token ids, −1 for faulty rows; faults; and the logits that these name, float32 in
               the first half of the bytes.
    codes      what the numbers of faults stand for, by number; None if they are codes already.
    block      the rows after the steps; None if the kernels have run them.
    token_ids  the first row of `verdicts`; None if the host chooses.
    notes      float64 [n] or None.
    reported   the rows that logprobs are taken from, by kind.
    """

    verdicts: Tensor
    codes: np.ndarray | None
    block: Block | None
    token_ids: Tensor | None
    notes: Tensor | None = None
    reported: dict[str, Block] = field(default_factory=dict)


def run_piece(piece: Piece, logits: Tensor, fused: Fused) -> Outcome:
    """Run a piece as far as the device goes."""
    found = fused.run(piece, logits)
    if found is not None:
        return Outcome(found.verdicts, CODES, None, found.token_ids)
    block, reported = run_steps(piece, logits, fused)
    if piece.plan.selector is None or piece.selector is None:
        return Outcome(verdicts_of(block), None, block, None, reported=reported)
    columns, notes = piece.plan.selector.select(block, piece.selector.given, piece.selector.fixed)
    token_ids = block.token_ids_at(columns).masked_fill(block.faults != 0, -1)
    return Outcome(verdicts_of(block, token_ids), None, block, token_ids, notes, reported)


def verdicts_of(block: Block, token_ids: Tensor | None = None) -> Tensor:
    """`Outcome.verdicts` of a block."""
    verdicts = block.faults.new_zeros((3, len(block.faults)))
    if token_ids is not None:
        verdicts[0] = token_ids
    verdicts[1] = block.faults
    if block.peaks is not None:
        verdicts[2].view(torch.float32)[: len(block.faults)] = block.peaks
    return verdicts


def run_steps(piece: Piece, logits: Tensor, fused: Fused | None = None) -> tuple[Block, dict[str, Block]]:
    """The rows of a piece after its steps, and those that logprobs are taken from, by kind; `fused` may run
    the first steps."""
    narrowed = None if fused is None else fused.narrow(piece, logits)
    if narrowed is not None:
        block, done = narrowed
        apply(block, piece.plan.steps, piece.steps, done)
        return block, {"processed": block} if piece.wants("processed") else {}
    block = read(logits, piece.rows_of_logits, piece.rows.vocabulary.size)
    reported = {}
    if piece.wants("raw"):
        reported["raw"] = _kept(block)
    if piece.masks is not None:
        block.bitmask = piece.masks.on_device()
        block.keep(block.allowed_by(block.bitmask))
        block.check(GRAMMAR)
    if piece.edits_plan is not None and piece.wants("penalized"):
        reported["penalized"] = edited = _kept(block)
        apply(edited, piece.edits_plan.steps, piece.edits)
    apply(block, piece.plan.steps, piece.steps)
    if piece.wants("processed"):
        reported["processed"] = block
    return block, reported


def apply(block: Block, steps: Sequence[DeviceStep], inputs: Sequence[Inputs], done: int = 0) -> None:
    """Run the steps of a chain on a block, from number `done` on."""
    for number in range(done, len(steps)):
        step, given = steps[number], inputs[number]
        step.apply(block, given.given, given.fixed)
        if step.may_fail:
            block.check(FIRST_SAMPLER + number)


def _kept(block: Block) -> Block:
    """A block of the same rows, which stays as it is while the other one goes on."""
    block.owned = False
    return Block(block.values, block.ids, block.vocab_size, block.faults, block.bitmask)


def whole_rows(block: Block) -> Tensor:
    """The logits of every token, float32 [n, vocab]; −inf for those without a column."""
    if block.ids is None:
        return block.values
    shape = (len(block.values), block.vocab_size + 1)
    rows = torch.full(shape, float("-inf"), dtype=torch.float32, device=block.values.device)
    return rows.scatter_(1, block.ids, block.values)[:, : block.vocab_size]
