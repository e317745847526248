"""deepconf: end an output once the model has been uncertain for a while."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..contract import Param, StoppingCriteria, StopVerdict, TokenLogprob, Vocabulary

_UNIT = 2.0**32
"""Confidences are summed as integers of 1/_UNIT: sums of these are exact, so that undoing tokens leaves
nothing behind."""


class ConfidenceWindow:
    """The confidences of an output: their mean over the last `size` drawn tokens, and whether it is below
    `threshold`."""

    def __init__(self, size: int, threshold: float) -> None:
        self._size = size
        self._least = threshold * size * _UNIT
        self._sums = [0]
        """Of the confidences of the drawn tokens up to each of them."""
        self._drawn: list[int] = []
        """How many tokens up to each of the output were drawn."""

    def add(self, logprob: float) -> bool:
        """Add a token; returns whether it ends the output."""
        if not isinstance(logprob, TokenLogprob):
            self._drawn.append(len(self._sums) - 1)
            return False
        self._sums.append(self._sums[-1] + round(logprob.confidence * _UNIT))
        count = len(self._sums) - 1
        self._drawn.append(count)
        return count >= self._size and self._sums[-1] - self._sums[-1 - self._size] < self._least

    def drop(self, n: int) -> None:
        """Remove the last n tokens."""
        del self._drawn[len(self._drawn) - n :]
        del self._sums[1 + (self._drawn[-1] if self._drawn else 0) :]


class DeepConfCriteria(StoppingCriteria):
    """Ends a request when its model has been uncertain over a window of tokens. stop_reason is "deepconf".

    Formula: Σ c / deepconf_window_size < deepconf_threshold, over the last deepconf_window_size drawn tokens,
    where c = −Σ ln p / deepconf_top_k over the deepconf_top_k likeliest tokens of a row.

    The probabilities are those of softmax(logits) before any processing. A logprob below −1e9 counts as −1e9.
    An output with fewer drawn tokens goes on.

    Tokens that `Scheduler.accept` adds, and those that an output begins with, have no row: they do not count.
    The criterion follows a scheduler's steps, and cannot be called with scores. It cannot be combined with
    use_beam_search.

    deepconf_threshold, deepconf_window_size, deepconf_top_k  the criterion's own settings, in place of the
                        request's.
    Source: Fu et al. 2025, "Deep Think with Confidence" (arXiv:2508.15260); Aphrodite, from which two of the
    parameters have their names.
    """

    name = "deepconf"
    wants_logprobs = True
    params = (
        Param("deepconf_threshold", float, 0.0, low=0, high=100,
              doc="end when the mean confidence over a window is lower, such as 17; 0 is off"),
        Param("deepconf_window_size", int, 2048, low=1, high=65_536, switch=False,
              doc="how many tokens the mean is over"),
        Param("deepconf_top_k", int, 20, low=1, high=128, switch=False,
              doc="how many of the likeliest tokens make the confidence"),
    )  # fmt: skip
    examples = (
        {"deepconf_threshold": 17.0, "deepconf_window_size": 8},
        {"deepconf_threshold": 5.0, "deepconf_window_size": 3, "deepconf_top_k": 4},
    )

    def __init__(
        self,
        deepconf_threshold: float | None = None,
        deepconf_window_size: int = 2048,
        deepconf_top_k: int = 20,
    ) -> None:
        values = deepconf_threshold or 0.0, deepconf_window_size, deepconf_top_k
        self._own = {p.name: p.check(value) for p, value in zip(self.params, values, strict=True)}
        self._has_own = deepconf_threshold is not None

    def confidence_top_k(self, params: Mapping[str, Any]) -> int:
        return int(self._values(params)["deepconf_top_k"])

    def new_state(
        self, params: Mapping[str, Any], prompt_token_ids: np.ndarray, vocabulary: Vocabulary
    ) -> ConfidenceWindow:
        values = self._values(params)
        return ConfidenceWindow(values["deepconf_window_size"], values["deepconf_threshold"])

    def check(
        self,
        state: ConfidenceWindow,
        token_ids: Sequence[int],
        text: str,
        logprobs: Sequence[float] = (),
    ) -> StopVerdict | None:
        found = [state.add(logprob) for logprob in logprobs]
        return StopVerdict("deepconf") if any(found) else None

    def rollback(self, state: ConfidenceWindow, n: int) -> None:
        state.drop(n)

    def __call__(self, input_ids: Any, scores: Any, **kwargs: Any) -> Any:
        """Raises NotImplementedError: a call knows the scores of its own step alone."""
        raise NotImplementedError(f"{type(self).__name__} follows the steps of a Scheduler")

    def _values(self, params: Mapping[str, Any]) -> Mapping[str, Any]:
        return self._own if self._has_own else params
