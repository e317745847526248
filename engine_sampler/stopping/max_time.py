"""max_time: a limit on the time a request may take."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..contract import Param, StoppingCriteria, StopVerdict, Vocabulary


class MaxTime(StoppingCriteria):
    """Ends a request at its first token more than `max_time` seconds after it was added, with
    finish_reason "length". The state is the deadline on the monotonic clock."""

    name = "max_time"
    is_limit = True
    waits_for_min_tokens = False
    params = (Param("max_time", float, None, low=0, doc="seconds at most"),)

    def new_state(
        self, params: Mapping[str, Any], prompt_token_ids: np.ndarray, vocabulary: Vocabulary
    ) -> float:
        return time.monotonic() + float(params["max_time"])

    def check(self, state: float, token_ids: Sequence[int], text: str) -> StopVerdict | None:
        return StopVerdict("max_time", "length") if time.monotonic() > state else None
