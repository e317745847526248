"""eos: end the request at an end-of-text token."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..contract import Param, StoppingCriteria, StopVerdict, Vocabulary, Watch, flags_like
from ..contract.stopping import flag_all, newest_tokens
from ..contract.values import unique_token_ids

_OWN_IDS = Param("eos_token_id", tuple, (), convert=unique_token_ids)


class EosTokenCriteria(StoppingCriteria):
    """Ends a request at any of the vocabulary's EOS ids; stop_reason is None.

    With `ignore_eos` the ids are masked and never end the request. `min_tokens` masks them too, but an
    EOS that is drawn nevertheless (because a grammar allows nothing else) does end it.

    eos_token_id  the criterion's own ids, in place of the vocabulary's: one, several or a tensor; −1: none.
    """

    name = "eos"
    examples = ({},)
    waits_for_min_tokens = False

    def __init__(self, eos_token_id: Any = None) -> None:
        own = eos_token_id.tolist() if hasattr(eos_token_id, "tolist") else eos_token_id
        self.eos_token_id = (
            None if own is None else _OWN_IDS.check(_without_none(np.atleast_1d(own)).tolist())
        )

    def is_active(self, params: Mapping[str, Any], vocabulary: Vocabulary) -> bool:
        return bool(vocabulary.eos_token_ids) and not params.get("ignore_eos", False)

    def new_state(
        self, params: Mapping[str, Any], prompt_token_ids: np.ndarray, vocabulary: Vocabulary
    ) -> frozenset[int]:
        return frozenset(self._ids(vocabulary))

    def watch(self, params: Mapping[str, Any], prompt_token_ids: np.ndarray, vocabulary: Vocabulary) -> Watch:
        return Watch(self._ids(vocabulary))

    def check(self, state: frozenset[int], token_ids: Sequence[int], text: str) -> StopVerdict | None:
        return StopVerdict(None) if any(t in state for t in token_ids) else None

    def fork(self, state: frozenset[int]) -> frozenset[int]:
        return state

    def __call__(self, input_ids: Any, scores: Any, new_token_length: int = 1, **kwargs: Any) -> Any:
        """bool [rows]: whether EOS is among the last `new_token_length` tokens. Source: transformers."""
        if hasattr(input_ids, "new_full") and input_ids.ndim == 2:  # on its device, which is not waited for
            newest, done = input_ids[:, -new_token_length:], flag_all(input_ids, False)
            for token_id in self.eos_token_id or ():
                done = done | (newest == token_id).any(-1)
            return done
        newest = newest_tokens(input_ids, new_token_length)
        return flags_like(input_ids, np.isin(newest, self.eos_token_id or ()).any(axis=1))

    def _ids(self, vocabulary: Vocabulary) -> tuple[int, ...]:
        return vocabulary.eos_token_ids if self.eos_token_id is None else self.eos_token_id


def _without_none(token_ids: np.ndarray) -> np.ndarray:
    return token_ids[token_ids != -1] if token_ids.dtype.kind in "iu" else token_ids
