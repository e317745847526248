"""`SlotTable`: everything that a backend may use about the live requests; `es_table` in the C header is its
counterpart.

Every live request has a slot, its row number in these arrays, until it leaves.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol
from weakref import WeakSet

import numpy as np

from .params import Param
from .vocabulary import Vocabulary


class TokenHistory(Protocol):
    """Prompt and output of one request; the arrays are views that must not be written to."""

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
    """One live request as seen by its samplers and its selector.

    chain     its `Chain`.
    resolved  the result of each sampler's `resolve`, by sampler name.
    row_states  what `Sampler.row_state` returned for each sampler that has a C function, by sampler name.
    """

    chain: Any
    resolved: dict[str, Any]
    row_states: dict[str, int]

    @property
    def history(self) -> TokenHistory:
        """The tokens of the request so far."""

    def state(self, name: str) -> Any:
        """The state of one sampler or of the selector, up to date with the tokens. Any exception that the
        plugin raises while accepting them propagates."""


class LookAhead(NamedTuple):
    """What a table with tokens to come is made from: its slot i is slot `numbers`[i] of `base`, with
    `leads`[i] more tokens, int64 [slots] each."""

    base: SlotTable
    numbers: np.ndarray
    leads: np.ndarray


class SlotTable(Protocol):
    """All live requests of a scheduler, as arrays indexed by slot number.

    vocabulary   the tokens.
    num_threads  the number of threads that a backend may use; None leaves the choice to the backend.
    params       every known parameter by name.
    entries      the `SlotEntry` of each slot, None if the slot is free.
    observers    objects whose `filled(slot)` is called after a slot has been assigned to a request.
    seeds        uint64 [capacity].
    positions    int64 [capacity], the index of the token being drawn, for the random numbers.
    tokens       int64 [pool]; a request's tokens are tokens[offset : offset + length], the prompt first.
    notes        float64 [pool], parallel to `tokens`: the selector's note on the token it drew, else NaN.
    offsets, lengths, prompt_lengths  int64 [capacity].
    epochs       uint64 [capacity]: as long as a slot's value is unchanged, its tokens and notes only grow.
    ahead        what this is made from, if drafts follow the tokens of its requests; None for the live ones.

    A request's parameters do not change while it occupies the slot. Arrays are replaced when they grow;
    whenever one is replaced, so is `offsets`.
    """

    vocabulary: Vocabulary
    num_threads: int | None
    params: Mapping[str, Param]
    entries: list[Any]
    observers: WeakSet[Any]
    seeds: np.ndarray

    @property
    def ahead(self) -> LookAhead | None: ...

    @property
    def positions(self) -> np.ndarray: ...

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
        """The non-neutral parameters of a slot."""

    def column(self, name: str) -> np.ndarray:
        """The values of parameter `name` by slot, [capacity]; the neutral value where it is not given."""
