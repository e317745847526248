"""`Backend`: runs whole chains, for all rows of a step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from .samplers import PLUGIN_API, Sampler, Selection, Selector

if TYPE_CHECKING:
    from .chains import Chain
    from .rows import Rows


@dataclass
class Group:
    """Rows of one step that share a plan.

    plan      what `Backend.compile` returned for the chain of these rows.
    index     int64 [n], their rows in `Batch.logits`.
    rows      parameters, states and histories of these rows.
    masked    whether `Batch.bitmask` holds a grammar's mask for these rows.
    want_processed  whether `Batch.survivors` must be filled for these rows.
    """

    plan: Any
    index: np.ndarray
    rows: Rows
    masked: bool = False
    want_processed: bool = False


@dataclass
class Batch:
    """One step for a backend: inputs, and outputs that `Backend.run` fills in.

    logits     a `arrays.LogitRows`: row i as float32 [vocab] on demand, never written.
    bitmask    int32 [rows, ceil(vocab / 32)] or None: bit 1 = token allowed by the grammar.
    token_ids  int64 [rows], −1 where a row gave nothing.
    notes      float64 [rows], the selector's notes, NaN where there are none.
    errors     a text for every row that failed, else None.
    survivors  (ids int64 [m], logits float32 [m]) after the whole chain, where wanted.
    cache      lives as long as these groups and their rows' places are unchanged; a backend may keep
               what it prepared for them.
    """

    logits: Any
    groups: list[Group]
    token_ids: np.ndarray
    notes: np.ndarray
    errors: list[str | None]
    bitmask: np.ndarray | None = None
    survivors: dict[int, tuple[np.ndarray, np.ndarray]] = field(default_factory=dict)
    cache: dict[Any, Any] = field(default_factory=dict)


class Backend:
    """Runs chains. `exact` backends return the same tokens as the NumPy reference, by equality.

    A chain compiles once to a plan; `run` then takes all rows of a step, each group with its plan.
    """

    api: ClassVar[int] = PLUGIN_API
    name: ClassVar[str]
    exact: ClassVar[bool] = True
    reason: str = ""
    """Why this backend cannot be used on this machine, in words; empty if it can."""

    def score(self, device: str) -> float:
        """How good this backend is for logits on `device` ("cpu", "cuda:0", …); 0 = unusable."""
        return 0.0

    def supports(self, sampler: Sampler | Selector) -> bool:
        """Whether this backend runs `sampler` itself; others run on the host, row-exactly."""
        return True

    def compile(self, chain: Chain) -> Any:
        """A plan for `chain`; called once per configuration."""
        raise NotImplementedError

    def apply(self, plan: Any, logits: np.ndarray, rows: Rows) -> None:
        """Run the plan's samplers, without the selector, on float32 `logits` [n, vocab] in place."""
        raise NotImplementedError

    def select(self, plan: Any, logits: np.ndarray, rows: Rows) -> Selection:
        """Run the plan's selector on rows that went through `apply`."""
        raise NotImplementedError

    def run(self, batch: Batch) -> None:
        """The fused path: fill `batch` for all its groups. A fault stays within its row."""
        raise NotImplementedError

    def log_sums(self, logits: Any, rows: Sequence[int]) -> Sequence[float] | None:
        """ln Σ exp(l) of some rows of a `arrays.LogitRows`, for logprobs, within 1e-5; None: work it out
        yourself. Rows that gave a token only."""
        return None
