"""`Recipe`: how the kernels run the steps of a piece from one on, and the launches that this has taken."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from torch import Tensor

from .edits import Edits
from .pieces import GroupPiece

_MOST_LAYOUTS = 8
_ALIGNMENT = 16
"""Triton compiles one kernel for addresses that are multiples of this many bytes, another one for others."""


class KernelSource(NamedTuple):
    """What kernels read: rows `where`, int64 [n], of `logits`; masks and edits are as in `kernels.sample`."""

    logits: Tensor
    where: Tensor
    bitmask: Tensor | None = None
    edits: Edits | None = None


class Replays:
    """The launches of one piece in one workspace, for each layout of its logits, masks and edits."""

    def __init__(self) -> None:
        self._workspace: Any = None
        self._by_layout: dict[Any, Any] = {}

    def of(self, kernels: Any, source: KernelSource, workspace: Any) -> Any:
        """The `kernels.Replay` for a source, new or complete."""
        if workspace is not self._workspace or len(self._by_layout) > _MOST_LAYOUTS:
            self._workspace, self._by_layout = workspace, {}
        logits, bitmask, edits = source.logits, source.bitmask, source.edits
        layout = (
            id(source.where),  # a replay holds its own
            logits.dtype,
            logits.stride(0),
            logits.data_ptr() % _ALIGNMENT == 0,
            None if bitmask is None else bitmask.stride(0),
            None if edits is None else edits[0].shape[1],
        )
        found = self._by_layout.get(layout)
        if found is None or not found.is_complete:
            found = self._by_layout[layout] = kernels.Replay()
        return found


@dataclass(frozen=True)
class Recipe:
    """How the kernels run a piece from one step on.

    arguments   of `kernels.sample`.
    gathered    how many candidates they gather.
    lasts       whether all this follows from parameters, and holds in later steps.
    replays     the launches of earlier steps.
    """

    arguments: dict[str, Any]
    gathered: int
    lasts: bool
    replays: Replays = field(default_factory=Replays)

    @classmethod
    def of(cls, piece: GroupPiece, kernels: Any, start: int) -> Recipe:
        """For the steps from number `start` on, and the selector."""
        assert piece.selector is not None
        inputs, selector = piece.steps[start:], piece.selector.part.name
        names = [part_inputs.part.name for part_inputs in inputs]
        fixed = {name: part_inputs.fixed for name, part_inputs in zip(names, inputs, strict=True)}
        arguments = {
            "samplers": names,
            "selector": selector,
            "tensors": {name: part_inputs.given for name, part_inputs in zip(names, inputs, strict=True)},
            "fixed": fixed,
        }
        lasts = all(part_inputs.part.parameters_only for part_inputs in inputs)
        plan = kernels.plan_of(tuple(names), selector, tuple(fixed.items()))
        return cls(arguments, plan.gathered, lasts)
