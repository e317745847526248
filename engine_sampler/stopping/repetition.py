"""repetition_detection: end an output that repeats a pattern of tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..contract import Param, StoppingCriteria, StopVerdict, Vocabulary

MAX_SIZE = 1024
"""The greatest pattern size and the greatest number of repeats that a request may set."""


class Repetition(NamedTuple):
    """The repetition to detect: the output ends with a pattern of min_pattern_size to max_pattern_size
    tokens, `min_count` times in a row."""

    max_pattern_size: int
    min_pattern_size: int = 1
    min_count: int = 2


def _repetition(value: Any) -> Repetition | None:
    allowed = (
        f"an object with max_pattern_size (1 to {MAX_SIZE}), min_pattern_size (1 to max_pattern_size, "
        f"default 1) and min_count (2 to {MAX_SIZE}, default 2)"
    )
    if isinstance(value, Mapping):
        try:
            value = Repetition(**{"max_pattern_size": 0, **value})
        except TypeError:
            raise ValueError(allowed) from None
        if type(value.max_pattern_size) is int and value.max_pattern_size == 0:
            return None  # off, as in vLLM
    if not isinstance(value, (tuple, list)) or len(value) != 3:
        raise TypeError(allowed)
    if not all(isinstance(n, (int, np.integer)) and not isinstance(n, bool) for n in value):
        raise TypeError(allowed)
    repetition = Repetition(*map(int, value))
    if (
        not 1 <= repetition.min_pattern_size <= repetition.max_pattern_size <= MAX_SIZE
        or not 2 <= repetition.min_count <= MAX_SIZE
    ):
        raise ValueError(allowed)
    return repetition


class PeriodTracker:
    """The output so far, and for each pattern size the last position that breaks a period of that size."""

    def __init__(self, repetition: Repetition) -> None:
        self._sizes = np.arange(repetition.min_pattern_size, repetition.max_pattern_size + 1)
        self._required = self._sizes * (repetition.min_count - 1)
        """This many tokens in a row must equal the tokens one pattern size before them."""
        self._tokens = np.empty(64, np.int64)
        self._length = 0
        self._broken = np.full(len(self._sizes), -1)
        """The last position whose token differs from the token one pattern size before it, or that has no
        such token; −1 at the start."""

    def add(self, token_id: int) -> bool:
        """Add a token; returns whether the output now ends with enough repeats of a pattern."""
        position = self._length
        if position == len(self._tokens):
            self._tokens = np.concatenate([self._tokens, np.empty_like(self._tokens)])
        self._tokens[position] = token_id
        self._length += 1
        self._broken[self._differs(position)] = position
        return bool((position - self._broken >= self._required).any())

    def drop(self, n: int) -> None:
        """Remove the last n tokens."""
        self._length -= n
        for i in np.flatnonzero(self._broken >= self._length).tolist():
            self._broken[i] = self._last_difference(int(self._sizes[i]), int(self._required[i]))

    def _last_difference(self, size: int, required: int) -> int:
        """The last position whose token differs from the one `size` before it, or that has no such token;
        only the last `required` positions are searched."""
        end, first = self._length, max(size, self._length - required)
        if first >= end:
            return end - 1
        differing = np.flatnonzero(self._tokens[first:end] != self._tokens[first - size : end - size])
        return first + int(differing[-1]) if len(differing) else first - 1

    def _differs(self, position: int) -> np.ndarray:
        """bool [sizes]: whether the token at `position` differs from the one that many tokens before it, or
        there is no such token."""
        differs = self._sizes > position
        before = position - self._sizes[~differs]
        differs[~differs] = self._tokens[before] != self._tokens[position]
        return differs


class RepetitionCriteria(StoppingCriteria):
    """Ends a request whose output repeats itself, with finish_reason "repetition" and stop_reason
    "repetition_detected": the output ends with any pattern of min_pattern_size to max_pattern_size tokens,
    `min_count` times in a row.

    repetition_detection  the criterion's own setting, in place of the request's.
    Source: vLLM's parameter of that name. The work per token depends only on max_pattern_size.
    """

    name = "repetition"
    is_limit = True
    params = (
        Param("repetition_detection", tuple, None, convert=_repetition,
              doc="end when a pattern of tokens repeats: max_pattern_size, min_pattern_size, min_count"),
    )  # fmt: skip
    examples = ({"repetition_detection": {"max_pattern_size": 3}},)

    def __init__(self, repetition_detection: Any = None) -> None:
        self.repetition_detection = self.params[0].check(repetition_detection)

    def new_state(
        self, params: Mapping[str, Any], prompt_token_ids: np.ndarray, vocabulary: Vocabulary
    ) -> PeriodTracker:
        own = self.repetition_detection
        return PeriodTracker(params["repetition_detection"] if own is None else own)

    def check(self, state: PeriodTracker, token_ids: Sequence[int], text: str) -> StopVerdict | None:
        found = [state.add(token_id) for token_id in token_ids]
        return StopVerdict("repetition_detected", "repetition") if any(found) else None

    def rollback(self, state: PeriodTracker, n: int) -> None:
        state.drop(n)
