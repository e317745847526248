"""stop_token_ids: any of the request's own stop tokens ends it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..contract import Param, StoppingCriteria, StopVerdict, Vocabulary, Watch
from ..samplers._phrases import token_ids


def _token_ids(value: Any) -> tuple[int, ...]:
    """`value` as token ids, each once."""
    return tuple(dict.fromkeys(token_ids(value)))


class StopTokenIds(StoppingCriteria):
    """Ends a request at one of `stop_token_ids`; stop_reason is the token's id.

    `min_tokens` masks these ids, so one that comes all the same does stop.
    """

    name = "stop_token_ids"
    params = (Param("stop_token_ids", tuple, (), convert=_token_ids, doc="token ids that end a request"),)
    waits_for_min_tokens = False

    def new_state(
        self, params: Mapping[str, Any], prompt_token_ids: np.ndarray, vocabulary: Vocabulary
    ) -> frozenset[int]:
        vocabulary.check_ids("stop_token_ids", params["stop_token_ids"])
        return frozenset(params["stop_token_ids"])

    def watch(self, params: Mapping[str, Any], prompt_token_ids: np.ndarray, vocabulary: Vocabulary) -> Watch:
        return Watch(params["stop_token_ids"])

    def check(self, state: frozenset[int], token_ids: Sequence[int], text: str) -> StopVerdict | None:
        return next((StopVerdict(t) for t in token_ids if t in state), None)

    def fork(self, state: frozenset[int]) -> frozenset[int]:
        return state
