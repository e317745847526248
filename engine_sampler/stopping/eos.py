"""eos: an end-of-text token ends the request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..contract import StoppingCriteria, StopVerdict, Vocabulary, Watch


class Eos(StoppingCriteria):
    """Ends a request at any of the vocabulary's EOS ids; stop_reason is None.

    With `ignore_eos` the ids are masked and never stop. `min_tokens` masks them too, so an EOS that
    comes all the same (a grammar left nothing else) does stop.
    """

    name = "eos"
    waits_for_min_tokens = False

    def is_active(self, params: Mapping[str, Any], vocabulary: Vocabulary) -> bool:
        return bool(vocabulary.eos_token_ids) and not params.get("ignore_eos", False)

    def new_state(
        self, params: Mapping[str, Any], prompt_token_ids: np.ndarray, vocabulary: Vocabulary
    ) -> frozenset[int]:
        return frozenset(vocabulary.eos_token_ids)

    def watch(self, params: Mapping[str, Any], prompt_token_ids: np.ndarray, vocabulary: Vocabulary) -> Watch:
        return Watch(vocabulary.eos_token_ids)

    def check(self, state: frozenset[int], token_ids: Sequence[int], text: str) -> StopVerdict | None:
        return StopVerdict(None) if any(t in state for t in token_ids) else None

    def fork(self, state: frozenset[int]) -> frozenset[int]:
        return state
