"""confidence: end the request at a token that the model itself considers unlikely."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..contract import Param, StoppingCriteria, StopVerdict, Vocabulary, flags_like, token_rows
from ._scores import newest_logprobs


class ConfidenceCriteria(StoppingCriteria):
    """Ends a request at a token with a probability below a threshold; meant for draft models.

    The probability is that of softmax(logits) before any processing. stop_reason is "confidence".

    assistant_confidence_threshold  the criterion's own threshold, in place of the request's.
    Source: transformers, from which the parameter has its name.
    """

    name = "confidence"
    wants_logprobs = True
    params = (
        Param("assistant_confidence_threshold", float, 0.0, low=0, high=1,
              doc="end at a token with a lower raw probability"),
    )  # fmt: skip
    examples = ({"assistant_confidence_threshold": 0.3},)

    def __init__(self, assistant_confidence_threshold: float | None = None) -> None:
        threshold = assistant_confidence_threshold
        self.assistant_confidence_threshold = None if threshold is None else self.params[0].check(threshold)

    def new_state(
        self, params: Mapping[str, Any], prompt_token_ids: np.ndarray, vocabulary: Vocabulary
    ) -> float:
        own = self.assistant_confidence_threshold
        return float(params["assistant_confidence_threshold"] if own is None else own)

    def check(
        self, state: float, token_ids: Sequence[int], text: str, logprobs: Sequence[float] = ()
    ) -> StopVerdict | None:
        unlikely = any(math.exp(logprob) < state for logprob in logprobs)
        return StopVerdict("confidence") if unlikely else None

    def __call__(self, input_ids: Any, scores: Any, **kwargs: Any) -> Any:
        """bool [rows]: whether the last token of each row is unlikely under `scores` [rows, vocab].

        If `scores` is a tuple of the scores of all steps and there is one row, the result is a single bool,
        as in transformers. Raises ValueError without scores.
        """
        logprobs = newest_logprobs(type(self).__name__, token_rows(input_ids)[:, -1], scores)
        flags = np.exp(logprobs) < (self.assistant_confidence_threshold or 0.0)
        is_single = isinstance(scores, (tuple, list)) and len(flags) == 1
        return bool(flags[0]) if is_single else flags_like(input_ids, flags)
