"""The grammar masks of a step: filled during the forward pass, or when the step needs them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..contract import bitmask_words
from ..grammar.engines.native import NativeMatcher, fill_rows
from .request import Request


class GrammarMasks:
    """One mask for each request of the last batch, int32 [requests, ceil(vocab / 32)]."""

    def __init__(self, vocab_size: int) -> None:
        self._words = bitmask_words(vocab_size)
        self._requests: list[Request] = []
        self._bitmask = np.zeros((0, self._words), np.int32)

    def fill(self, requests: list[Request], indices: Sequence[int]) -> np.ndarray:
        """The masks of requests[i] for each i of `indices`, in row i; other rows are not set.

        A mask that is filled already and still holds is left as it is. A grammar that fails ends its request.
        The array is reused by the next call.
        """
        if requests is not self._requests:
            self._requests = requests
            self._bitmask = np.zeros((len(requests), self._words), np.int32)
            for request in requests:
                if request.grammar is not None:
                    request.grammar.mask_ready = False
        missing = [i for i in indices if not _is_ready(requests[i])]
        if missing:
            self._fill_native(requests, missing)
        for i in missing:
            if not _is_ready(requests[i]):
                requests[i].fill_mask(self._bitmask, i)
        return self._bitmask

    def _fill_native(self, requests: list[Request], indices: list[int]) -> None:
        """Fill the rows of native matchers in one call, or none of them if one fails."""
        matchers = {i: grammar.matcher for i in indices if (grammar := requests[i].grammar) is not None}
        native = [i for i, matcher in matchers.items() if type(matcher) is NativeMatcher]
        if native and fill_rows([matchers[i] for i in native], self._bitmask, native):
            for i in native:
                requests[i].grammar.mask_ready = True  # type: ignore[union-attr]


def _is_ready(request: Request) -> bool:
    return request.grammar is None or request.grammar.mask_ready
