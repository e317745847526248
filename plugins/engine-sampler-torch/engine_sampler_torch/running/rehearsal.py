"""`Rehearsal`: what the kernels of a piece would launch, over a few rows of zeros, so that it is compiled."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import torch
from torch import Tensor

from .pieces import GroupPiece

_MANY, _FEW = 9, 1
"""How many rows stand for all pieces that are divided as theirs: of up to eight rows, and of more."""


class Form(NamedTuple):
    """The layout of logits, on which it depends; their values do not matter."""

    dtype: torch.dtype
    stride: int
    device: torch.device

    @classmethod
    def of(cls, logits: Tensor) -> Form:
        """That of logits [rows, vocab]."""
        return cls(logits.dtype, logits.stride(0), logits.device)


class Rehearsal:
    """What decides which machine code the rows of a piece need, and how to have it compiled.

    key  all that decides it.
    """

    def __init__(
        self,
        piece: GroupPiece,
        form: Form,
        *,
        start: int,
        chooses: bool,
        is_heated: bool,
        is_edited: bool,
        listed: int | None,
    ) -> None:
        """For the steps from number `start` on and, if it `chooses`, the selector; else for one top_k.
        `is_edited`: whether rows may have edits; `listed`: how many tokens raw logprobs list, None for
        none."""
        self._rows = _MANY if len(piece) > _MANY - 1 else _FEW
        self._form = form
        self._size = piece.vocab_size
        self._chooses, self._is_heated, self._listed = chooses, is_heated, listed
        self._is_masked = piece.masks is not None
        self._is_changed, self._is_edited = start > 0, is_edited
        steps = piece.steps[start:] if chooses else piece.steps[start : start + 1 + is_heated]
        self._names = [inputs.part.name for inputs in steps]
        self._fixed = {inputs.part.name: inputs.fixed for inputs in steps}
        self._given = {inputs.part.name: inputs.first(self._rows) for inputs in steps}
        self._selector = "" if piece.selector is None else piece.selector.part.name

    @property
    def key(self) -> Hashable:
        dtype, stride, _ = self._form
        return (
            *self._names, self._selector, *map(str, self._fixed.items()), self._rows, dtype, stride % 16 == 0,
            self._size, self._chooses, self._is_heated, self._is_masked, self._is_changed, self._is_edited,
            self._listed,
        )  # fmt: skip

    def run(self, kernels: Any) -> None:
        """Launch all of it, and wait."""
        dtype, stride, device = self._form
        with beside(device):
            logits = torch.zeros((self._rows, stride), dtype=dtype, device=device)
            ids = torch.zeros((self._rows, 1), dtype=torch.int64, device=device)
            edits = ids, torch.zeros((self._rows, 1), device=device)
            words = torch.full((self._rows, -(-self._size // 32)), -1, dtype=torch.int32, device=device)
            bitmask = words if self._is_masked else None
            launch = self._launcher(kernels, device)
            for some in (None, edits) if self._is_edited else (None,):
                launch(logits, bitmask, some)
            if self._is_changed:  # where steps in torch have changed whole rows
                launch(torch.zeros((self._rows, self._size), device=device), None, None)
            if self._listed is not None:
                index = torch.arange(self._rows, device=device)
                peaks = torch.zeros(self._rows, device=device)
                room = kernels.Workspace(device, self._rows, self._size)
                kernels.likeliest(logits, index, self._size, peaks, index, self._listed, room)

    def _launcher(self, kernels: Any, device: torch.device) -> Callable[..., Any]:
        index = torch.arange(self._rows, device=device)
        given = {
            name: {key: torch.from_numpy(array).to(device) for key, array in arrays.items()}
            for name, arrays in self._given.items()
        }
        workspace = kernels.Workspace(device, self._rows, self._size)

        def choose(logits: Tensor, bitmask: Tensor | None, edits: tuple[Tensor, Tensor] | None) -> None:
            kernels.sample(
                logits,
                index,
                self._size,
                samplers=self._names,
                selector=self._selector,
                tensors=given,
                fixed=self._fixed,
                bitmask=bitmask,
                edits=edits,
                draws=torch.zeros_like(index),
                workspace=workspace,
            )

        def narrow(logits: Tensor, bitmask: Tensor | None, edits: tuple[Tensor, Tensor] | None) -> None:
            cut: Any = self._names[-1]
            scale = given[self._names[0]]["scale"] if self._is_heated else None
            kernels.narrow(
                logits,
                index,
                self._size,
                given[cut]["k"],
                width=self._fixed[cut],
                scale=scale,
                bitmask=bitmask,
                edits=edits,
                workspace=workspace,
            )

        return choose if self._chooses else narrow


@contextmanager
def beside(device: torch.device) -> Iterator[None]:
    """Work on a stream of its own, all of which is done at the end."""
    with torch.no_grad():
        if device.type != "cuda":
            yield
            return
        with torch.cuda.device(device), torch.cuda.stream(torch.cuda.Stream(device)):
            yield
            torch.cuda.current_stream().synchronize()
