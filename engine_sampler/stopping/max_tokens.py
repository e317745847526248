"""max_tokens: a limit on the length of the output."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..contract import Param, StoppingCriteria, StopVerdict, Vocabulary, Watch


@dataclass
class Countdown:
    """Tokens that may still come."""

    left: int


class MaxTokens(StoppingCriteria):
    """Ends a request after `max_tokens` output tokens, with finish_reason "length"."""

    name = "max_tokens"
    is_limit = True
    waits_for_min_tokens = False
    params = (Param("max_tokens", int, None, low=1, doc="output tokens at most"),)

    def new_state(
        self, params: Mapping[str, Any], prompt_token_ids: np.ndarray, vocabulary: Vocabulary
    ) -> Countdown:
        return Countdown(params["max_tokens"])

    def watch(self, params: Mapping[str, Any], prompt_token_ids: np.ndarray, vocabulary: Vocabulary) -> Watch:
        return Watch(output_length=params["max_tokens"])

    def check(self, state: Countdown, token_ids: Sequence[int], text: str) -> StopVerdict | None:
        state.left -= len(token_ids)
        return StopVerdict("max_tokens", "length") if state.left <= 0 else None

    def rollback(self, state: Countdown, n: int) -> None:
        state.left += n
