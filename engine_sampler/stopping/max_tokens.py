"""max_tokens: a limit on the length of the output."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..contract import Param
from ._countdown import CountdownCriteria


class MaxTokensCriteria(CountdownCriteria):
    """Ends a request after `max_tokens` output tokens, with finish_reason "length".

    max_tokens  the criterion's own limit, in place of the request's.
    """

    name = "max_tokens"
    params = (Param("max_tokens", int, None, low=1, doc="greatest number of output tokens"),)
    examples = ({"max_tokens": 9},)

    def __init__(self, max_tokens: int | None = None) -> None:
        self.max_tokens = self.params[0].check(max_tokens)

    def output_length(self, params: Mapping[str, Any], prompt_token_ids: np.ndarray) -> int:
        limit: int = params["max_tokens"] if self.max_tokens is None else self.max_tokens
        return limit
