"""repetition_detection: an output that goes in circles ends."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..contract import Param, StoppingCriteria, StopVerdict, Vocabulary

LARGEST = 1024
"""Tokens of a pattern at most, and how often it may be asked to repeat."""


class Repetition(NamedTuple):
    """What counts as going in circles: the output ends with a pattern of min_pattern_size to max_pattern_size
    tokens, `min_count` times in a row."""

    max_pattern_size: int
    min_pattern_size: int = 1
    min_count: int = 2


def _repetition(value: Any) -> Repetition:
    allowed = (
        f"an object with max_pattern_size (1 to {LARGEST}), min_pattern_size (1 to max_pattern_size, "
        f"default 1) and min_count (2 to {LARGEST}, default 2)"
    )
    if isinstance(value, Mapping):
        try:
            value = Repetition(**value)
        except TypeError:
            raise ValueError(allowed) from None
    if not isinstance(value, tuple) or len(value) != 3:
        raise TypeError(allowed)
    if not all(isinstance(n, (int, np.integer)) and not isinstance(n, bool) for n in value):
        raise TypeError(allowed)
    found = Repetition(*map(int, value))
    if (
        not 1 <= found.min_pattern_size <= found.max_pattern_size <= LARGEST
        or not 2 <= found.min_count <= LARGEST
    ):
        raise ValueError(allowed)
    return found


class Circles:
    """The output so far, and for each size of pattern where it last did not go in a circle of that size."""

    def __init__(self, asked: Repetition) -> None:
        self._sizes = np.arange(asked.min_pattern_size, asked.max_pattern_size + 1)
        self._wanted = self._sizes * (asked.min_count - 1)
        """So many tokens in a row must equal those that stand a pattern before them."""
        self._tokens = np.empty(64, np.int64)
        self._length = 0
        self._broken = np.full(len(self._sizes), -1)
        """The last place whose token differs from the one that stands a pattern before it, if there is
        one."""

    def add(self, token_id: int) -> bool:
        """Add a token; whether the output now ends with a pattern often enough."""
        at = self._length
        if at == len(self._tokens):
            self._tokens = np.concatenate([self._tokens, np.empty_like(self._tokens)])
        self._tokens[at] = token_id
        self._length += 1
        self._broken[self._differs(at)] = at
        return bool((at - self._broken >= self._wanted).any())

    def drop(self, n: int) -> None:
        """Take the last n tokens back."""
        self._length -= n
        for i in np.flatnonzero(self._broken >= self._length).tolist():
            self._broken[i] = self._last_difference(int(self._sizes[i]), int(self._wanted[i]))

    def _last_difference(self, size: int, wanted: int) -> int:
        """The last place that differs from the one `size` before, or has none, as far as `wanted` back."""
        end, first = self._length, max(size, self._length - wanted)
        if first >= end:
            return end - 1
        differing = np.flatnonzero(self._tokens[first:end] != self._tokens[first - size : end - size])
        return first + int(differing[-1]) if len(differing) else first - 1

    def _differs(self, at: int) -> np.ndarray:
        """bool [sizes]: whether the token at `at` differs from that so many places before, or there is
        none."""
        differs = self._sizes > at
        before = at - self._sizes[~differs]
        differs[~differs] = self._tokens[before] != self._tokens[at]
        return differs


class RepetitionCriteria(StoppingCriteria):
    """Ends a request whose output goes in circles, with finish_reason "repetition" and stop_reason
    "repetition_detected": it ends with any pattern of min_pattern_size to max_pattern_size tokens,
    `min_count` times in a row.

    repetition_detection  the criterion's own setting, in place of the request's.
    Source: vLLM's parameter of that name. Work per token depends on max_pattern_size alone.
    """

    name = "repetition"
    is_limit = True
    params = (
        Param("repetition_detection", tuple, None, convert=_repetition,
              doc="end when a pattern of tokens repeats: max_pattern_size, min_pattern_size, min_count"),
    )  # fmt: skip

    def __init__(self, repetition_detection: Any = None) -> None:
        self.repetition_detection = self.params[0].check(repetition_detection)

    def new_state(
        self, params: Mapping[str, Any], prompt_token_ids: np.ndarray, vocabulary: Vocabulary
    ) -> Circles:
        own = self.repetition_detection
        return Circles(params["repetition_detection"] if own is None else own)

    def check(self, state: Circles, token_ids: Sequence[int], text: str) -> StopVerdict | None:
        found = [state.add(token_id) for token_id in token_ids]
        return StopVerdict("repetition_detected", "repetition") if any(found) else None

    def rollback(self, state: Circles, n: int) -> None:
        state.drop(n)
