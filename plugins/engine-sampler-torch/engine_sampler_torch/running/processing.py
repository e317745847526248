"""Rows after their chains, without a choice, left on the device."""

from __future__ import annotations

import torch
from torch import Tensor

from engine_sampler.contract import Batch

from .chain import run_steps, verdicts_of, whole_rows
from .pieces import pieces_of
from .plan import DevicePlan
from .reading import tensor_of
from .results import Verdicts
from .step import DeviceRoom
from .transfer import Download, Upload


def process(room: DeviceRoom, batch: Batch) -> Tensor | None:
    """float32 [rows, vocab] as `Backend.process` defines it, with one synchronisation; None if the host must
    run a part of a chain."""
    plans: list[DevicePlan] = [group.plan for group in batch.groups]
    if not all(plan.has_all_steps for plan in plans):
        return None
    logits, size = tensor_of(batch.logits), batch.logits.vocab_size
    out = torch.full((len(logits), size), float("nan"), dtype=torch.float32, device=logits.device)
    upload, download = Upload(room.upload), Download(room.download)
    pieces = [p for group in batch.groups for p in pieces_of(group, logits, upload, choosing=False)]
    for piece in pieces:
        piece.begin(batch, upload)
    upload.send()
    verdicts = []
    for piece in pieces:
        block, _ = run_steps(piece, logits)
        rows = whole_rows(block).masked_fill((block.faults > 0)[:, None], float("nan"))
        out.index_copy_(0, piece.where, rows)
        verdicts.append(Verdicts(verdicts_of(block), len(piece), None, download))
    download.receive()
    for piece, found in zip(pieces, verdicts, strict=True):
        for row, message in zip(piece.index.tolist(), found.messages(piece.plan), strict=True):
            batch.errors[row] = message
    return out
