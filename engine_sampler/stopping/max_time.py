"""max_time: a limit on the time that a request may take."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..contract import Param, StoppingCriteria, StopVerdict, Vocabulary
from ..contract.stopping import flag_all


class MaxTimeCriteria(StoppingCriteria):
    """Ends a request at its first token that comes more than `max_time` seconds after it was added, with
    finish_reason "length". The state is the deadline on the monotonic clock.

    max_time           the criterion's own limit in seconds, in place of the request's.
    initial_timestamp  the start of the time limit, in terms of `time.time()`. The default is the moment a
                       request is added, or, if the criterion is called, the moment it was constructed.
    Source: transformers.
    """

    name = "max_time"
    is_limit = True
    waits_for_min_tokens = False
    params = (Param("max_time", float, None, low=0, doc="greatest number of seconds"),)
    examples = ({"max_time": 3600.0},)

    def __init__(self, max_time: float | None = None, initial_timestamp: float | None = None) -> None:
        self.max_time = self.params[0].check(max_time)
        self._given_timestamp = initial_timestamp
        self.initial_timestamp = time.time() if initial_timestamp is None else initial_timestamp

    def new_state(
        self, params: Mapping[str, Any], prompt_token_ids: np.ndarray, vocabulary: Vocabulary
    ) -> float:
        limit = params["max_time"] if self.max_time is None else self.max_time
        elapsed = 0.0 if self._given_timestamp is None else time.time() - self._given_timestamp
        return time.monotonic() + float(limit) - elapsed

    def check(self, state: float, token_ids: Sequence[int], text: str) -> StopVerdict | None:
        return StopVerdict("max_time", "length") if time.monotonic() > state else None

    def __call__(self, input_ids: Any, scores: Any, **kwargs: Any) -> Any:
        """bool [rows]: whether the time is up."""
        done = self.max_time is not None and time.time() - self.initial_timestamp > self.max_time
        return flag_all(input_ids, done)
