"""max_length: a limit on the combined length of prompt and output."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

import numpy as np

from ..contract import Param
from ..contract.stopping import flag_all, rows_and_length
from ._countdown import CountdownCriteria

logger = logging.getLogger("engine_sampler")


class MaxLengthCriteria(CountdownCriteria):
    """Ends a request when prompt and output together have `max_length` tokens, with finish_reason "length".

    If the prompt alone is that long, the request still gets one token.

    max_length               the criterion's own limit, in place of the request's.
    max_position_embeddings  the number of tokens that the model supports: when called with more, the
                             criterion logs one warning.
    Source: transformers.
    """

    name = "max_length"
    params = (Param("max_length", int, None, low=1, doc="greatest number of prompt and output tokens"),)
    examples = ({"max_length": 7},)

    def __init__(self, max_length: int | None = None, max_position_embeddings: int | None = None) -> None:
        self.max_length = self.params[0].check(max_length)
        self.max_position_embeddings = max_position_embeddings
        self._warned = False

    def output_length(self, params: Mapping[str, Any], prompt_token_ids: np.ndarray) -> int:
        length = params["max_length"] if self.max_length is None else self.max_length
        return max(1, length - len(prompt_token_ids))

    def __call__(self, input_ids: Any, scores: Any, **kwargs: Any) -> Any:
        """bool [rows]: whether the rows have at least `max_length` tokens."""
        _, length = rows_and_length(input_ids)
        done = self.max_length is not None and length >= self.max_length
        supported = self.max_position_embeddings
        if supported is not None and length > supported and not done and not self._warned:
            self._warned = True
            logger.warning("the text has %d tokens; the model supports %d", length, supported)
        return flag_all(input_ids, done)
