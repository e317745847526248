"""Whole pieces by the Triton kernels, where they run and know the chain, with the tokens of the steps."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from engine_sampler.arithmetic import LOGIT_LIMIT

from ..arithmetic import NEGATIVE_INFINITY
from ..steps import Block, DeviceStep
from .pieces import Inputs, Piece
from .reading import GRAMMAR, READING

UNKNOWN = -1
"""The code of a fault of which the kernels do not know which sampler is to blame: the host finds out."""


DEVICE_TYPES = ["cuda"]
"""The types of devices that Triton compiles for; ROCm's are called cuda, too."""


@functools.cache
def kernels_for(device: torch.device) -> Any:
    """The package of kernels if they run on `device` and have passed their check there, else None."""
    if device.type not in DEVICE_TYPES:
        return None
    try:
        from .. import kernels
    except ImportError:  # no Triton here
        return None
    return kernels if kernels.trusted(str(device)) else None


_MOST_LAYOUTS = 8
_ALIGNMENT = 16
"""Triton compiles one kernel for addresses that are multiples of so many bytes, another one for others."""


class Fused:
    """The workspace of one scheduler's kernels on one device, which grows with its steps."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._name = str(device)
        self._workspace: Any = None

    def run(self, piece: Piece, logits: Tensor) -> Any:
        """`kernels.Outcome` of a piece, with the numbers of faults that `CODES` explains; None if the eager
        steps must run it."""
        kernels = kernels_for(self._device)
        if kernels is None or piece.selector is None or piece.reports or piece.any_kept:
            return None
        recipe = piece.recipe
        if recipe is None or not recipe.lasts:
            recipe = piece.recipe = _Recipe.of(piece, kernels)
        if not recipe.is_covered:
            return None
        draws = piece.selector.given.get("draws")
        edits, bitmask, workspace = self._common(kernels, piece, logits, recipe.lead, recipe.gathered)
        replay = None
        if recipe.lasts and kernels.repeatable(self._name):
            replay = recipe.replays.of(kernels, logits, bitmask, edits, workspace)
            if replay.is_complete:
                return replay.again(logits, draws, bitmask, edits)
        return kernels.sample(
            logits,
            piece.where,
            piece.vocab_size,
            edits=edits,
            bitmask=bitmask,
            draws=draws,
            workspace=workspace,
            replay=replay,
            **recipe.arguments,
        )

    def narrow(self, piece: Piece, logits: Tensor) -> tuple[Block, int] | None:
        """(what a top_k leaves, how many steps that was) for a chain that goes on with steps which the
        kernels do not know; None if the eager steps must begin."""
        kernels = kernels_for(self._device)
        if kernels is None or piece.wants("raw") or piece.wants("penalized"):
            return None
        lead = _leading_edits(piece.plan.steps)
        names, inputs = _after_edits(piece, lead)
        heated = int(names[:2] == ["temperature", "top_k"] and inputs[0].fixed == (False, False))
        size = piece.vocab_size
        cuts = names[heated : heated + 1] == ["top_k"]
        width: Any = inputs[heated].fixed if cuts else None
        if width is None or width >= size:
            return None
        edits, bitmask, workspace = self._common(kernels, piece, logits, lead, width)
        found = kernels.narrow(
            logits,
            piece.where,
            size,
            inputs[heated].given["k"],
            width=width,
            scale=inputs[0].given["scale"] if heated else None,
            edits=edits,
            bitmask=bitmask,
            workspace=workspace,
        )
        return _block(found, size), lead + heated + 1

    def _common(
        self, kernels: Any, piece: Piece, logits: Tensor, lead: int, candidates: int
    ) -> tuple[tuple[Tensor, Tensor] | None, Tensor | None, Any]:
        """What both ways of using the kernels are given: edits, bitmask, workspace."""
        edits = _edits(piece, lead, logits) if lead else None
        bitmask = None if piece.masks is None else piece.masks.on_device()
        return edits, bitmask, self._room(kernels, len(piece), piece.vocab_size, candidates)

    def _room(self, kernels: Any, rows: int, vocab_size: int, candidates: int) -> Any:
        found = self._workspace
        if found is None or found.vocab_size != vocab_size:
            needs = kernels.bucket(rows), kernels.bucket(candidates)
        elif found.rows < rows or found.wanted < candidates:
            needs = max(found.rows, kernels.bucket(rows)), max(found.wanted, kernels.bucket(candidates))
        else:
            return found
        self._workspace = kernels.Workspace(self._device, needs[0], vocab_size, needs[1])
        return self._workspace


class _Replays:
    """The launches of one piece in one workspace, for each layout of its logits, masks and edits."""

    def __init__(self) -> None:
        self._workspace: Any = None
        self._by_layout: dict[Any, Any] = {}

    def of(
        self,
        kernels: Any,
        logits: Tensor,
        bitmask: Tensor | None,
        edits: tuple[Tensor, Tensor] | None,
        workspace: Any,
    ) -> Any:
        """The `kernels.Replay` for such tensors, new or complete."""
        if workspace is not self._workspace or len(self._by_layout) > _MOST_LAYOUTS:
            self._workspace, self._by_layout = workspace, {}
        is_aligned = logits.data_ptr() % _ALIGNMENT == 0
        mask_stride = None if bitmask is None else bitmask.stride(0)
        edited = None if edits is None else edits[0].shape[1]
        layout = (logits.dtype, logits.stride(0), is_aligned, mask_stride, edited)
        found = self._by_layout.get(layout)
        if found is None or not found.is_complete:
            found = self._by_layout[layout] = kernels.Replay()
        return found


@dataclass(frozen=True)
class _Recipe:
    """How the kernels run a piece after its edits.

    lead        how many steps are edits.
    arguments   of `kernels.sample`.
    gathered    how many candidates they gather.
    is_covered  whether the kernels know the chain.
    lasts       whether all this follows from parameters, and holds in later steps.
    replays     the launches of earlier steps.
    """

    lead: int
    arguments: dict[str, Any]
    gathered: int
    is_covered: bool
    lasts: bool
    replays: _Replays = field(default_factory=lambda: _Replays())

    @classmethod
    def of(cls, piece: Piece, kernels: Any) -> _Recipe:
        assert piece.selector is not None
        lead = _leading_edits(piece.plan.steps)
        names, inputs = _after_edits(piece, lead)
        selector = piece.selector.part.name
        fixed = {name: given.fixed for name, given in zip(names, inputs, strict=True)}
        arguments = {
            "samplers": names,
            "selector": selector,
            "given": {name: given.given for name, given in zip(names, inputs, strict=True)},
            "fixed": fixed,
        }
        lasts = all(given.part.parameters_only for given in inputs)
        if not kernels.covers(names, selector, fixed):
            return cls(lead, arguments, 0, False, lasts)
        plan = kernels.plan_of(tuple(names), selector, tuple(fixed.items()))
        return cls(lead, arguments, plan.gathered, True, lasts)


def _leading_edits(steps: Sequence[DeviceStep]) -> int:
    """How many steps, from the first on, change a few listed tokens only."""
    return next((i for i, step in enumerate(steps) if not step.sparse_ids), len(steps))


def _after_edits(piece: Piece, lead: int) -> tuple[list[str], Sequence[Inputs]]:
    """The names and the inputs of the steps that follow the first `lead` ones."""
    return [step.name for step in piece.plan.steps[lead:]], piece.steps[lead:]


def _block(found: Any, vocab_size: int) -> Block:
    """The kernels' candidates as a block; faulty rows, which have none, go on with token 0."""
    sound = torch.zeros_like(found.faults)
    block = Block(found.values, found.ids, vocab_size, sound, owned=True)
    faulty = found.faults != 0
    block.ids = found.ids.masked_fill(faulty[:, None] & (block.columns == 0), 0)
    block.fail(faulty, _codes(found.faults), found.peaks)
    return block


def _edits(piece: Piece, lead: int, logits: Tensor) -> tuple[Tensor, Tensor] | None:
    """What the first `lead` steps, all edits, together make of the tokens they list: ids int64 [n, e],
    ascending and padded with the vocabulary's size, and their logits float32 [n, e]; None without any."""
    steps, inputs, vocab_size = piece.plan.steps[:lead], piece.steps[:lead], piece.vocab_size
    listed = [
        given.given[name] for step, given in zip(steps, inputs, strict=True) for name in step.sparse_ids
    ]
    if not listed or not sum(ids.shape[1] for ids in listed):
        return None
    ids = torch.cat([ids.to(torch.int64) for ids in listed], 1).sort(1).values
    repeated = ids[:, 1:] == ids[:, :-1]
    ids[:, 1:].masked_fill_(repeated, vocab_size)
    ids = ids.sort(1).values
    values = logits[piece.where[:, None], ids.clamp(max=vocab_size - 1)].to(torch.float32)
    values = values.masked_fill((values < -float(LOGIT_LIMIT)) | (ids == vocab_size), NEGATIVE_INFINITY)
    block = Block(
        values, ids, vocab_size, torch.zeros(len(ids), dtype=torch.int64, device=ids.device), owned=True
    )
    for step, given in zip(steps, inputs, strict=True):
        step.apply(block, given.given, given.fixed)
    return ids, block.values


CODES = np.array([0, 2 + 2 * READING, 1 + 2 * READING, 1 + 2 * GRAMMAR, UNKNOWN])
"""The codes of the kernels' faults: none, too great, empty, the grammar's, some edit's."""


@functools.cache
def _codes_on(device: torch.device) -> Tensor:
    return torch.from_numpy(CODES).to(device)


def _codes(faults: Tensor) -> Tensor:
    """The kernels' numbers of faults as codes."""
    return _codes_on(faults.device).index_select(0, faults)
