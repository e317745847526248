"""Rows without a choice: after their chains, left on the device, and the logprobs of given tokens."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from engine_sampler.arithmetic import LogitRows, Logprobs, RowLogprobs
from engine_sampler.contract import Batch

from ..arithmetic import row_logprobs
from .chain import run_steps, verdicts_of, whole_rows
from .pieces import BYTES_PER_LOGIT, WORKING_BYTES, pieces_of
from .plan import DevicePlan
from .reading import read, tensor_of
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


def logprobs(logits: LogitRows, token_ids: np.ndarray, top_n: int) -> Logprobs:
    """As `Backend.logprobs` defines them: a few rows at a time, with a synchronisation for each part."""
    tensor, size = tensor_of(logits), logits.vocab_size
    n, k = len(logits), size if top_n < 0 else min(top_n, size)
    out = Logprobs.empty(n, k)
    most = max(1, WORKING_BYTES // (BYTES_PER_LOGIT * size))
    for start in range(0, n, most):
        rows = slice(start, min(start + most, n))
        block = read(tensor, rows, size)
        chosen = torch.from_numpy(token_ids[rows].copy()).to(tensor.device)
        ids, values, ranks, faults = (
            part.cpu().numpy() for part in (*row_logprobs(block.values, chosen, top_n), block.faults)
        )
        for i in range(len(ids)):
            if not faults[i]:
                out.fill(start + i, RowLogprobs(ids[i], values[i], int(ranks[i])))
    out.entry_token_ids[out.starts[:-1]] = token_ids
    return out
