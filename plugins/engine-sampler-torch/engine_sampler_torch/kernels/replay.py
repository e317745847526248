"""`Replay`: the launches of one step, started again in the next one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from torch import Tensor

from .launching import launch
from .outcome import KernelOutcome, Outcomes


class _Launch(NamedTuple):
    """start      a compiled kernel with its grid, to be called with all arguments.
    arguments  those that stay: addresses and numbers; None in the others' places.
    places     (place, name) of the others.
    """

    start: Callable[..., Any]
    arguments: list[Any]
    places: list[tuple[int, str]]


class Replay:
    """The launches of one `sample`, which can be started again over the same rows, with other logits, random
    bits, masks and edits.

    Triton binds the arguments of each launch, and looks for what it has compiled for their types and
    alignments, which takes several times as long as the launch. Here that is done; so everything must be as
    it was: the types, shapes and strides of the tensors, and whether the logits begin at a multiple of 16
    bytes.

    is_complete  whether it can be started again; never what Triton interprets.
    """

    def __init__(self) -> None:
        self.is_complete = False
        self._noted: list[tuple[Any, tuple[int, ...], list[Any]]] = []
        self._launches: list[_Launch] = []
        self._held: list[Any] = []
        """The tensors whose addresses are used."""
        self._outcomes: Outcomes

    def launch(
        self, kernel: Any, grid: tuple[int, ...], *arguments: Any, warps: int, **constants: Any
    ) -> None:
        """`launch`, and note it."""
        compiled = launch(kernel, grid, *arguments, warps=warps, **constants)
        ordered = [constants[name] for name in kernel.arg_names[len(arguments) :]]
        self._noted.append((compiled, (*grid, 1, 1)[:3], [*arguments, *ordered]))

    def settle(
        self,
        outcome: KernelOutcome,
        logits: Tensor,
        draws: Tensor | None,
        bitmask: Tensor | None,
        edits: tuple[Tensor, Tensor] | None,
    ) -> None:
        """All is launched; these will be others when it is started again."""
        noted, self._noted = self._noted, []
        if any(compiled is None for compiled, _, _ in noted):
            return
        tensors = (*_parts(outcome), *_given(logits, draws, bitmask, edits))
        named = {id(tensor): name for name, tensor in tensors if tensor is not None}
        for compiled, grid, arguments in noted:
            places = [(i, named[id(a)]) for i, a in enumerate(arguments) if id(a) in named]
            others = [None if id(a) in named else a for a in arguments]
            self._held += [a for a in others if isinstance(a, Tensor)]
            settled = [a.data_ptr() if isinstance(a, Tensor) else a for a in others]
            self._launches.append(_Launch(compiled[grid], settled, places))
        self._outcomes = Outcomes(len(outcome.token_ids), outcome.verdicts.device)
        self.is_complete = True

    def again(
        self,
        logits: Tensor,
        draws: Tensor | None,
        bitmask: Tensor | None = None,
        edits: tuple[Tensor, Tensor] | None = None,
    ) -> KernelOutcome:
        """What `sample` gives for these."""
        outcome = self._outcomes.next()
        tensors = (*_parts(outcome), *_given(logits, draws, bitmask, edits))
        addresses = {name: tensor.data_ptr() for name, tensor in tensors if tensor is not None}
        for start, arguments, places in self._launches:
            given = arguments.copy()
            for place, name in places:
                given[place] = addresses[name]
            start(*given)
        return outcome


def _given(
    logits: Tensor, draws: Tensor | None, bitmask: Tensor | None, edits: tuple[Tensor, Tensor] | None
) -> tuple[tuple[str, Tensor | None], ...]:
    edit_ids, edit_values = edits or (None, None)
    return (
        ("logits", logits),
        ("draws", draws),
        ("bitmask", bitmask),
        ("edit_ids", edit_ids),
        ("edit_values", edit_values),
    )


def _parts(outcome: KernelOutcome) -> tuple[tuple[str, Tensor], ...]:
    return ("token_ids", outcome.token_ids), ("faults", outcome.faults), ("peaks", outcome.peaks)
