"""The grammars' masks of a step: filled ahead, while the forward pass runs, or when they are needed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ..contract import bitmask_words
from ..grammar.engines.native import NativeMatcher, fill_rows

if TYPE_CHECKING:
    from .request import Request


class Masks:
    """A row for each of the requests that were asked for last, int32 [requests, ceil(vocab / 32)]."""

    def __init__(self, vocab_size: int) -> None:
        self._words = bitmask_words(vocab_size)
        self._requests: list[Request] = []
        self._array = np.zeros((0, self._words), np.int32)

    def fill(self, requests: list[Request], places: Sequence[int]) -> np.ndarray:
        """The masks of the requests at `places`, in the rows of these numbers; other rows are not set.

        What is filled already and still holds is left as it is. A grammar that fails ends its request.
        The array is used again by the next call.
        """
        if requests is not self._requests:
            self._requests = requests
            self._array = np.zeros((len(requests), self._words), np.int32)
            for request in requests:
                request.mask_ready = False
        waiting = [place for place in places if not requests[place].mask_ready]
        if waiting:
            self._fill_together(requests, waiting)
        for place in waiting:
            if not requests[place].mask_ready:
                requests[place].fill_mask(self._array, place)
        return self._array

    def _fill_together(self, requests: list[Request], waiting: list[int]) -> None:
        """Fill the rows of native matchers in one call, or none of them where one fails."""
        native = [place for place in waiting if type(requests[place].matcher) is NativeMatcher]
        if native and fill_rows([requests[place].matcher for place in native], self._array, native):
            for place in native:
                requests[place].mask_ready = True
