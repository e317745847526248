"""What runs on the device for one piece. Nothing here waits for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from ..steps import Block, DeviceStep
from .fused import CODES, Fused, Route
from .pieces import GroupPiece, Inputs
from .reading import FIRST_SAMPLER, GRAMMAR, read


@dataclass
class PieceOutcome:
    """The results of a piece, on the device.

    verdicts   int64 [3, n]: token ids, −1 for faulty rows; faults; and the logits that these name, float32 in
               the first half of the bytes.
    codes      what the numbers of faults stand for, by number; None if they are codes already.
    block      the rows after the steps; None if the kernels have run them.
    token_ids  the first row of `verdicts`; None if the host chooses.
    notes      float64 [n] or None.
    reported   the rows that logprobs are taken from, by kind.
    likeliest  what raw logprobs need, `kernels.Likeliest`, if the kernels have found it.
    """

    verdicts: Tensor
    codes: np.ndarray | None
    block: Block | None
    token_ids: Tensor | None
    notes: Tensor | None = None
    reported: dict[str, Block] = field(default_factory=dict)
    likeliest: Any = None


def run_piece(piece: GroupPiece, logits: Tensor, fused: Fused) -> PieceOutcome:
    """Run a piece as far as the device goes."""
    route = fused.route(piece)
    if route is None:
        return _chosen(piece, *run_steps(piece, logits))
    if not route.is_direct(piece):
        return _after_steps(piece, logits, fused, route)
    source = fused.source(piece, logits, route)
    if route.chooses:
        found = fused.choose(piece, route, source)
        likeliest = fused.likeliest(piece, logits, found) if piece.wants("raw") else None
        return PieceOutcome(found.verdicts, CODES, None, found.token_ids, likeliest=likeliest)
    block, done = fused.narrow(piece, route, source)
    return _chosen(piece, block, _finished(piece, block, {}, done))


def _after_steps(piece: GroupPiece, logits: Tensor, fused: Fused, route: Route) -> PieceOutcome:
    """The same where steps change whole rows before the kernels go on with them."""
    block, reported = _begun(piece, logits, route.start)
    if block.ids is not None:  # some step has cut the rows' columns itself
        return _chosen(piece, block, _finished(piece, block, reported, route.start))
    source = fused.source_of(block, route)
    if route.chooses:
        token_ids = fused.choose(piece, route, source).token_ids.masked_fill(block.faults != 0, -1)
        return PieceOutcome(verdicts_of(block, token_ids), None, None, token_ids, reported=reported)
    narrowed, done = fused.narrow(piece, route, source)
    narrowed.faults, narrowed.peaks, narrowed.bitmask = block.faults, block.peaks, block.bitmask
    return _chosen(piece, narrowed, _finished(piece, narrowed, reported, done))


def _chosen(piece: GroupPiece, block: Block, reported: dict[str, Block]) -> PieceOutcome:
    """The outcome of a piece with its block after all steps; the selector chooses if the device has it."""
    if piece.plan.selector is None or piece.selector is None:
        return PieceOutcome(verdicts_of(block), None, block, None, reported=reported)
    columns, notes = piece.plan.selector.select(block, piece.selector.given, piece.selector.fixed)
    token_ids = block.token_ids_at(columns).masked_fill(block.faults != 0, -1)
    return PieceOutcome(verdicts_of(block, token_ids), None, block, token_ids, notes, reported)


def verdicts_of(block: Block, token_ids: Tensor | None = None) -> Tensor:
    """`PieceOutcome.verdicts` of a block."""
    verdicts = block.faults.new_zeros((3, len(block.faults)))
    if token_ids is not None:
        verdicts[0] = token_ids
    verdicts[1] = block.faults
    if block.peaks is not None:
        verdicts[2].view(torch.float32)[: len(block.faults)] = block.peaks
    return verdicts


def run_steps(piece: GroupPiece, logits: Tensor) -> tuple[Block, dict[str, Block]]:
    """The rows of a piece after its steps, and those that logprobs are taken from, by kind."""
    block, reported = _begun(piece, logits, 0)
    return block, _finished(piece, block, reported, 0)


def _begun(piece: GroupPiece, logits: Tensor, until: int) -> tuple[Block, dict[str, Block]]:
    """The same after the steps before number `until`."""
    block = read(logits, piece.rows_of_logits, piece.vocab_size)
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
    apply(block, piece.plan.steps[:until], piece.steps)
    return block, reported


def _finished(piece: GroupPiece, block: Block, reported: dict[str, Block], done: int) -> dict[str, Block]:
    """Run the steps from number `done` on; what logprobs are taken from, by kind."""
    apply(block, piece.plan.steps, piece.steps, done)
    return reported | {"processed": block} if piece.wants("processed") else reported


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
