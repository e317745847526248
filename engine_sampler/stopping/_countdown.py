"""The base class of limits on the number of tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..contract import StoppingCriteria, StopVerdict, Vocabulary, Watch


@dataclass
class Countdown:
    """The number of tokens that may still follow."""

    left: int


class CountdownCriteria(StoppingCriteria):
    """Ends a request after a number of output tokens that is known from the start, with finish_reason
    "length"."""

    is_limit = True
    waits_for_min_tokens = False

    def output_length(self, params: Mapping[str, Any], prompt_token_ids: np.ndarray) -> int:
        """How many output tokens a request may have."""
        raise NotImplementedError

    def new_state(
        self, params: Mapping[str, Any], prompt_token_ids: np.ndarray, vocabulary: Vocabulary
    ) -> Countdown:
        return Countdown(self.output_length(params, prompt_token_ids))

    def watch(self, params: Mapping[str, Any], prompt_token_ids: np.ndarray, vocabulary: Vocabulary) -> Watch:
        return Watch(output_length=self.output_length(params, prompt_token_ids))

    def check(self, state: Countdown, token_ids: Sequence[int], text: str) -> StopVerdict | None:
        state.left -= len(token_ids)
        return StopVerdict(self.name, "length") if state.left <= 0 else None

    def rollback(self, state: Countdown, n: int) -> None:
        state.left += n
