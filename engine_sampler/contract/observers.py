"""What observers are told beyond requests and results: how long things took, and where rows ran."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple


class StepMeasures(NamedTuple):
    """What one step did, for `step_measured`. Times are wall-clock seconds.

    backend        the name of the backend.
    seconds        of the call, without its observers.
    mask_seconds   spent on grammar masks, and by samplers that prepare: in this step, and in calls of
                   `Scheduler.prepare` since the last one.
    rows           rows of logits that were read.
    tokens         tokens that were drawn.
    postponed      requests that got none because they need more work than one step may do.
    faults         requests that ended with `error`.
    drafted        how many requests had a draft at each position, the first draft being position 0.
    accepted       how many of these drafts were accepted.
    copied_bytes   bytes of logits that were copied from another device to the host.
    certain        draws and cuts that bounds of the weights decided, so that the row was read once: in this
                   step, and in whatever the backend did since the last one that was measured.
    weighed        those that the bounds left open, so that the whole row was weighed, at about twice the
                   cost: many if many tokens share the probability. Rows that another truncation cuts first
                   are in neither.
    """

    backend: str
    seconds: float
    mask_seconds: float
    rows: int
    tokens: int
    postponed: int
    faults: int
    drafted: tuple[int, ...] = ()
    accepted: tuple[int, ...] = ()
    copied_bytes: int = 0
    certain: int = 0
    weighed: int = 0


@dataclass(frozen=True)
class GrammarMeasures:
    """How a request got its grammar, for `grammar_compiled`.

    seconds  from the request to the compiled grammar, by the wall clock.
    cached   whether it had been compiled before.
    error    why there is none, else None.
    """

    seconds: float
    cached: bool
    error: str | None = None
