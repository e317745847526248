"""max_tokens: a limit on the length of the output."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..contract import Param, StoppingCriteria, StopVerdict, Vocabulary, Watch
from ._countdown import Countdown


class MaxTokensCriteria(StoppingCriteria):
    """Ends a request after `max_tokens` output tokens, with finish_reason "length".

    max_tokens  the criterion's own limit, in place of the request's.
    """

    name = "max_tokens"
    is_limit = True
    waits_for_min_tokens = False
    params = (Param("max_tokens", int, None, low=1, doc="output tokens at most"),)

    def __init__(self, max_tokens: int | None = None) -> None:
        self.max_tokens = self.params[0].check(max_tokens)

    def new_state(
        self, params: Mapping[str, Any], prompt_token_ids: np.ndarray, vocabulary: Vocabulary
    ) -> Countdown:
        return Countdown(self._limit(params))

    def watch(self, params: Mapping[str, Any], prompt_token_ids: np.ndarray, vocabulary: Vocabulary) -> Watch:
        return Watch(output_length=self._limit(params))

    def check(self, state: Countdown, token_ids: Sequence[int], text: str) -> StopVerdict | None:
        return StopVerdict("max_tokens", "length") if state.spend(len(token_ids)) else None

    def rollback(self, state: Countdown, n: int) -> None:
        state.left += n

    def _limit(self, params: Mapping[str, Any]) -> int:
        limit: int = params["max_tokens"] if self.max_tokens is None else self.max_tokens
        return limit
