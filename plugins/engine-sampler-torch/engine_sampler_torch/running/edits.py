"""What the first steps of a chain make of the few tokens that they list, for kernels that read whole rows."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from engine_sampler.arithmetic import LOGIT_LIMIT

from ..arithmetic import NEGATIVE_INFINITY
from ..steps import Block
from .pieces import GroupPiece

Edits = tuple[Tensor, Tensor]
"""(token ids int64 [n, e], ascending, padded with the vocabulary's size; their logits float32 [n, e])."""

_ALWAYS_FEW, _SHARE = 256, 64
"""Up to this many listed tokens of a row, or one in this many of the vocabulary, are few: to sort them and
look for them in every tile costs less than to change whole rows."""


def are_few(piece: GroupPiece, lead: int) -> bool:
    """Whether the first `lead` steps, all edits, list few tokens."""
    pairs = zip(piece.plan.steps[:lead], piece.steps[:lead], strict=True)
    listed = sum(given.shape_of(name)[1] for step, given in pairs for name in step.sparse_ids)
    return listed <= most_listed(piece.vocab_size)


def most_listed(vocab_size: int) -> int:
    """How many listed tokens are few."""
    return max(_ALWAYS_FEW, vocab_size // _SHARE)


def edits_of(piece: GroupPiece, lead: int, logits: Tensor) -> Edits | None:
    """What the first `lead` steps, all edits, together make of the tokens they list: ids int64 [n, e],
    ascending and padded with the vocabulary's size, and their logits float32 [n, e]; None without any."""
    listed, size = [ids for ids in _listed(piece, lead) if ids.shape[1]], piece.vocab_size
    if not listed:
        return None
    ids = _merged(listed, size)
    values = logits[piece.where[:, None], ids.clamp(max=size - 1)].to(torch.float32)
    values = values.masked_fill((values < -float(LOGIT_LIMIT)) | (ids == size), NEGATIVE_INFINITY)
    sound = torch.zeros(len(ids), dtype=torch.int64, device=ids.device)
    block = Block(values, ids, size, sound, owned=True, is_partial=True)
    for step, given in zip(piece.plan.steps[:lead], piece.steps[:lead], strict=True):
        step.apply(block, given.given, given.fixed)
    return ids, block.values


def _listed(piece: GroupPiece, lead: int) -> list[Tensor]:
    """The ids that the first `lead` steps list, int32 [n, e] each."""
    pairs = zip(piece.plan.steps[:lead], piece.steps[:lead], strict=True)
    return [given.given[name] for step, given in pairs for name in step.sparse_ids]


def _merged(listed: Sequence[Tensor], vocab_size: int) -> Tensor:
    """All of the ids `listed`, each once and ascending in every row, int64, padded with `vocab_size`."""
    ids = torch.cat([some.to(torch.int64) for some in listed], 1).sort(1).values
    is_first = torch.ones_like(ids, dtype=torch.bool)
    torch.ne(ids[:, 1:], ids[:, :-1], out=is_first[:, 1:])
    # An id that is there twice is written to one place twice.
    return torch.full_like(ids, vocab_size).scatter_(1, is_first.cumsum(1) - 1, ids)
