"""`SlotTable`: what a backend may know of all live requests. The Python twin of the C header's `es_table`.

Every live request has a slot, its row number in these arrays, until it leaves.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol
from weakref import WeakSet

import numpy as np

from .params import Param
from .vocabulary import Vocabulary


class TokenHistory(Protocol):
    """Prompt and output of one request; the arrays are views, not to be written."""

    @property
    def token_ids(self) -> np.ndarray:
        """int64 [length], prompt and output."""

    @property
    def prompt_token_ids(self) -> np.ndarray:
        """int64 [prompt length]."""

    @property
    def output_token_ids(self) -> np.ndarray:
        """int64 [output length]."""


class SlotEntry(Protocol):
    """One live request as its samplers and selector see it.

    chain     its `Chain`.
    resolved  what each sampler's `resolve` returned, by sampler name.
    """

    chain: Any
    resolved: dict[str, Any]

    @property
    def history(self) -> TokenHistory:
        """Its tokens so far."""

    def state(self, name: str) -> Any:
        """The state of one sampler or of the selector, up to date with the tokens; raises what the plugin
        raises when it cannot follow."""


class SlotTable(Protocol):
    """All live requests of a scheduler, as arrays over slot numbers.

    vocabulary   the tokens.
    num_threads  threads that a backend may use; None: its own choice.
    params       every known parameter by name.
    entries      the `SlotEntry` of each slot, None where it is free.
    observers    objects whose `filled(slot)` is called when a slot has been given to a request.
    seeds        uint64 [capacity].
    positions    int64 [capacity], the index of the token being drawn, for the random numbers.
    tokens       int64 [pool]; a request's are tokens[offset : offset + length], the prompt first.
    notes        float64 [pool], parallel to `tokens`: what the selector noted when it drew the token,
                 else NaN.
    offsets, lengths, prompt_lengths  int64 [capacity].
    epochs       uint64 [capacity]: while a slot's value stays, its tokens and notes only grow.

    A request's parameters do not change while it has the slot. Arrays are replaced when they grow; whenever
    one is, `offsets` is too.
    """

    vocabulary: Vocabulary
    num_threads: int | None
    params: Mapping[str, Param]
    entries: list[Any]
    observers: WeakSet[Any]
    seeds: np.ndarray
    positions: np.ndarray

    @property
    def tokens(self) -> np.ndarray: ...

    @property
    def notes(self) -> np.ndarray: ...

    @property
    def offsets(self) -> np.ndarray: ...

    @property
    def lengths(self) -> np.ndarray: ...

    @property
    def prompt_lengths(self) -> np.ndarray: ...

    @property
    def epochs(self) -> np.ndarray: ...

    def given(self, slot: int) -> Mapping[str, Any]:
        """The parameters of a slot that are not neutral."""

    def column(self, name: str) -> np.ndarray:
        """The values of parameter `name` by slot, [capacity]; neutral where not given."""
