"""stop_token_ids: end the request at any of its own stop tokens."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from ..contract import Param, StoppingCriteria, StopVerdict, Vocabulary, Watch
from ..contract.values import unique_token_ids


class _Stops(NamedTuple):
    """The ids, and a function for the number of bytes by which a stop token's text is cut."""

    token_ids: frozenset[int]
    cut: Callable[[int], int]


class StopTokenIdsCriteria(StoppingCriteria):
    """Ends a request at one of `stop_token_ids`; stop_reason is the token's id.

    The token stays in token_ids; its text is left out unless `include_stop_str_in_output` is given.
    `min_tokens` masks these ids, but one that is drawn nevertheless does end the request. Semantics: vLLM.

    stop_token_ids  the criterion's own ids, in place of the request's.
    """

    name = "stop_token_ids"
    params = (
        Param("stop_token_ids", tuple, (), convert=unique_token_ids, limit=8192,
              doc="token ids that end a request"),
    )  # fmt: skip
    examples = ({"stop_token_ids": [0, 14]},)
    waits_for_min_tokens = False

    def __init__(self, stop_token_ids: Any = None) -> None:
        self.stop_token_ids = None if stop_token_ids is None else self.params[0].check(stop_token_ids)

    def new_state(
        self, params: Mapping[str, Any], prompt_token_ids: np.ndarray, vocabulary: Vocabulary
    ) -> _Stops:
        token_ids = self._ids(params)
        vocabulary.check_ids("stop_token_ids", token_ids)
        tokenizer, skip_special = vocabulary.tokenizer, bool(params.get("skip_special_tokens", True))
        if tokenizer is None or params.get("include_stop_str_in_output", False):
            return _Stops(frozenset(token_ids), lambda token_id: 0)
        text_bytes = tokenizer.text_bytes
        return _Stops(frozenset(token_ids), lambda token_id: len(text_bytes(token_id, skip_special)))

    def watch(self, params: Mapping[str, Any], prompt_token_ids: np.ndarray, vocabulary: Vocabulary) -> Watch:
        return Watch(self._ids(params))

    def check(self, state: _Stops, token_ids: Sequence[int], text: str) -> StopVerdict | None:
        found = next((t for t in token_ids if t in state.token_ids), None)
        return None if found is None else StopVerdict(found, cut=state.cut(token_ids[-1]))

    def fork(self, state: _Stops) -> _Stops:
        return state

    def _ids(self, params: Mapping[str, Any]) -> tuple[int, ...]:
        return params["stop_token_ids"] if self.stop_token_ids is None else self.stop_token_ids
