"""Wrong observers."""

from __future__ import annotations

from typing import Any

import numpy as np

from .collection import ANY, breaks
from .right import Tokens


@breaks("it_handles_an_event", says="step_finished")
class HandlesNothing(Tokens):
    """Has an attribute in place of its method."""

    step_finished: Any = None


@breaks("its_methods_are_the_names_of_events", says="did you mean request_finished?")
class IsMisspelt(Tokens):
    """Handles an event that does not exist."""

    def request_finnished(self, record: Any) -> None: ...


@breaks("no_event_makes_it_fail", "what_it_is_shown_is_only_read", says="request_finished fails: KeyError")
class KnowsOneReason(Tokens):
    """Counts only requests that end by their length."""

    def __init__(self) -> None:
        self.ended = {"length": 0}

    def request_finished(self, record: Any) -> None:
        self.ended[record.finish_reason] += 1


@breaks("no_event_makes_it_fail", ANY, says="request_finished fails: KeyError")
class KnowsOneScheduler(Tokens):
    """Knows requests by their ids alone, which another scheduler has, too."""

    def __init__(self) -> None:
        self.live: dict[Any, Any] = {}

    def request_added(self, request_id: Any, params: Any) -> None:
        self.live[request_id] = params

    def request_finished(self, record: Any) -> None:
        del self.live[record.request_id]


@breaks("surroundings_do_not_matter", says="changes the state of np.random")
class DrawsFromNumPy(Tokens):
    """Draws the ids of its spans from a generator that others seed."""

    def step_finished(self, result: Any) -> None:
        np.random.random()  # noqa: NPY002


@breaks("what_it_is_shown_is_only_read", says="step_finished changes")
class TakesTheTokens(Tokens):
    """Replaces the tokens that it has counted."""

    def step_finished(self, result: Any) -> None:
        super().step_finished(result)
        result.token_ids[:] = -1
