"""loop: end an output whose last tokens are one loop."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..arithmetic.repeats import ends_repeated
from ..contract import Param, ParameterError, StoppingCriteria, StopVerdict, Vocabulary


class LoopTracker:
    """The output so far, and the length at which its last `size` tokens may next be a loop.

    Each period's run of tokens that equal those one period before them grows by one token at a time. So
    nothing needs to be looked at until the longest one may fill the window: work per token does not depend on
    its size, apart from a pass over it now and then.
    """

    def __init__(self, size: int, most_period: int) -> None:
        self._size = size
        self._most_period = most_period
        self._tokens: list[int] = []
        self._due = size

    def add(self, token_id: int) -> bool:
        """Add a token; returns whether the window is a loop."""
        self._tokens.append(token_id)
        if len(self._tokens) < self._due:
            return False
        window = np.array(self._tokens[-self._size :], np.int64)
        periods, runs = ends_repeated(window, self._size, 0)
        missing = self._size - periods - runs
        least = int(missing[periods <= self._most_period].min())
        self._due = len(self._tokens) + least
        return least == 0

    def drop(self, n: int) -> None:
        """Remove the last n tokens."""
        del self._tokens[len(self._tokens) - n :]
        self._due = self._size


class LoopCriteria(StoppingCriteria):
    """Ends a request whose last tokens all repeat one pattern, with finish_reason "repetition" and
    stop_reason "loop_detected".

    Formula: each of the last loop_detect_window tokens equals the one p tokens before it, for a p of at most
    loop_detect_window // loop_detect_min_reps. A window of fewer tokens than repeats is refused, since it
    cannot hold them. `repetition_detection` looks for a number of repeats instead, however short.

    loop_detect_window, loop_detect_min_reps  the criterion's own settings, in place of the request's.
    Source: exllamav3 (stop_on_loop) and TabbyAPI, from which the parameter has its name.
    """

    name = "loop"
    is_limit = True
    params = (
        Param("loop_detect_window", int, 0, low=0, high=65_536,
              doc="end when this many newest tokens repeat one pattern; 0 is off"),
        Param("loop_detect_min_reps", int, 3, low=2, high=1024, switch=False,
              doc="how often they must repeat the pattern"),
    )  # fmt: skip
    examples = ({"loop_detect_window": 12}, {"loop_detect_window": 5, "loop_detect_min_reps": 2})

    def __init__(self, loop_detect_window: int = 0, loop_detect_min_reps: int = 3) -> None:
        self.loop_detect_window = self.params[0].check(loop_detect_window)
        self.loop_detect_min_reps = self.params[1].check(loop_detect_min_reps)
        self.check_params(vars(self))

    def check_params(self, params: Mapping[str, Any]) -> None:
        window, reps = params["loop_detect_window"], params["loop_detect_min_reps"]
        if 0 < window < reps:
            raise ParameterError(
                f"loop_detect_window={window} is not allowed: 0, or at least loop_detect_min_reps={reps}"
            )

    def new_state(
        self, params: Mapping[str, Any], prompt_token_ids: np.ndarray, vocabulary: Vocabulary
    ) -> LoopTracker:
        window, reps = self.loop_detect_window, self.loop_detect_min_reps
        if not window:
            window, reps = params["loop_detect_window"], params["loop_detect_min_reps"]
        return LoopTracker(window, window // reps)

    def check(self, state: LoopTracker, token_ids: Sequence[int], text: str) -> StopVerdict | None:
        found = [state.add(token_id) for token_id in token_ids]
        return StopVerdict("loop_detected", "repetition") if any(found) else None

    def rollback(self, state: LoopTracker, n: int) -> None:
        state.drop(n)
