"""`replay`: logprobs of drawn tokens under new logits, with autograd."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from engine_sampler import Tokenizer
from engine_sampler.contract import Group
from engine_sampler.for_backends import quoted

from ..arithmetic import shortcoming
from .pieces import ReplayPiece, pieces_of
from .record import ReplayRecord, Rollouts
from .walk import walk

_DTYPES = (torch.float32, torch.float16, torch.bfloat16)
CHUNK_SIZE = 1 << 22
_shortcoming = functools.cache(shortcoming)


def replay(
    logits: Tensor,
    record: ReplayRecord | Sequence[ReplayRecord],
    *,
    tokenizer: Tokenizer | None = None,
    unknown: str = "error",
    chunk_size: int = CHUNK_SIZE,
) -> Tensor:
    """The logprobs of a rollout's tokens under `logits`, float32 [rows], with gradients.

    logits      float32, float16 or bfloat16 [rows, ≥ vocab], on any device; row i predicts the i-th token of
                the outputs of all records, one after the other.
    record      a `ReplayRecord`, or a list of them, each with parameters of its own.
    tokenizer   that of the rollout, for parameters that depend on texts, such as DRY's sequence breakers.
    unknown     "error", or "nan": rows of which it is not known what survived give NaN, and have no gradient.
                These are capped rows, and those of tokens that were not drawn, such as a tool's answer.
    chunk_size  how many logits are worked on at once, a row at least; they need 40 to 100 bytes each.

    With l' the logits after the biases, penalties, smoothing and temperature of the row's parameters and
    history, and M what survived in the rollout: l'_t − ln Σ_{j ∈ M} exp(l'_j). With the logits of the rollout
    this is what `SamplingMask.logprobs` has, bit for bit. M is never cut anew: finite logits give finite
    logprobs.

    Gradients are those of this formula with M as it is: through penalties and temperature, through the best
    logit that smoothing bends around, and through the entropy that a dynamic temperature follows.

    Raises ValueError or `ParameterError`, which says what and where, for shapes, ids and masks that do not
    fit, and for parameters that cannot be replayed: samplers that change logits in Python.
    """
    if unknown not in ("error", "nan"):
        raise ValueError(f"unknown={quoted(unknown)} is not allowed: 'error' or 'nan'")
    rollouts = Rollouts([record] if isinstance(record, ReplayRecord) else list(record), unknown)
    if not isinstance(logits, Tensor) or logits.dtype not in _DTYPES:
        raise ValueError(f"logits={quoted(logits)} are not allowed: a float32, float16 or bfloat16 tensor")
    rows, vocab_size = len(rollouts), rollouts.vocab_size
    if logits.ndim != 2 or logits.shape[0] != rows or logits.shape[1] < vocab_size:
        raise ValueError(
            f"logits have the shape {tuple(logits.shape)}; the record needs [{rows}, at least {vocab_size}]"
        )
    if reason := _shortcoming(str(logits.device)):
        raise ValueError(f"logits on {logits.device} are not allowed: {reason}")
    if type(chunk_size) is not int or chunk_size < 1:
        raise ValueError(f"chunk_size={quoted(chunk_size)} is not allowed: an integer of at least 1")
    pieces: list[ReplayPiece] = []

    def visit(group: Group, numbers: np.ndarray) -> None:
        pieces.extend(pieces_of(rollouts, group, numbers, logits.device, chunk_size))

    walk(rollouts, tokenizer, visit)
    found: Tensor = _Replay.apply(logits, pieces)  # type: ignore[no-untyped-call]
    return found


class _Replay(torch.autograd.Function):
    """Forward in the rollout's arithmetic; backward once more through the steps, piece by piece: between them
    only the logits are kept."""

    @staticmethod
    def forward(ctx: Any, logits: Tensor, pieces: Sequence[ReplayPiece]) -> Tensor:
        ctx.pieces = pieces
        ctx.save_for_backward(logits)
        out = torch.full((len(logits),), float("nan"), dtype=torch.float32, device=logits.device)
        for piece in pieces:
            piece.write_to(out, piece.logprobs(logits))
        return out

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, outer: Tensor) -> tuple[Tensor, None]:
        (logits,) = ctx.saved_tensors
        out = torch.zeros_like(logits)
        for piece in ctx.pieces:
            piece.add_gradients(logits, outer, out)
        return out, None
