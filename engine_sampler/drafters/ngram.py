"""ngram: draft what followed the last tokens where they stood before (prompt lookup)."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ..contract import DraftedText, Drafter, Param, ParameterError, Vocabulary

MAX_PLACES = 32
"""The most earlier places that are compared for one draft, the latest first."""

FEWEST_HEADS = 256


class Ngram(Drafter):
    """What followed the last tokens where prompt and output had them before: prompt lookup.

    The longest match counts, of prompt_lookup_min to prompt_lookup_max tokens, and of several the latest. At
    most 32 places are compared, the latest first. What follows the match is repeated if it reaches the
    end of the text, so that a loop is drafted as far as there is room.

    A new token costs the same, however long the text is. Source: Saxena 2023, prompt lookup decoding. vLLM
    and transformers take the first place in place of the latest.
    """

    name = "ngram"
    params = (
        Param("prompt_lookup_max", int, 8, low=1, high=64, switch=False,
              doc="most tokens that the drafter ngram matches"),
        Param("prompt_lookup_min", int, 2, low=1, high=64, switch=False, doc="fewest tokens that it matches"),
    )  # fmt: skip

    def check(self, params: Mapping[str, Any]) -> None:
        longest, least = params["prompt_lookup_max"], params["prompt_lookup_min"]
        if least > longest:
            allowed = f"at most prompt_lookup_max={longest}"
            raise ParameterError(f"prompt_lookup_min={least} is not allowed: {allowed}")

    def new_state(self, params: Mapping[str, Any], vocabulary: Vocabulary) -> _Places:
        return _Places(params["prompt_lookup_min"], params["prompt_lookup_max"])

    def accept(self, state: _Places, token_ids: Sequence[int]) -> None:
        state.append(token_ids)

    def rollback(self, state: _Places, n: int) -> None:
        state.drop(n)

    def fork(self, state: _Places) -> _Places:
        return state.copy()

    def draft(self, state: _Places, text: DraftedText, count: int) -> list[int]:
        return state.continued(count)


class _Places:
    """Where the last tokens of a text have stood before: chains of places with the same hash."""

    __slots__ = ("_before", "_heads", "_keys", "_least", "_longest", "_tokens")

    def __init__(self, least: int, longest: int) -> None:
        self._least, self._longest = least, longest
        self._tokens = array("i")
        self._keys = array("q")
        """For each place the hash of the tokens that end there, as many as must match."""
        self._before = array("i")
        """For each place an earlier one, which mostly has the same hash; −1 for none."""
        self._heads = array("i", [-1]) * FEWEST_HEADS
        """The last place of each remainder of hashes."""

    def append(self, token_ids: Sequence[int]) -> None:
        tokens, least = self._tokens, self._least
        for token_id in token_ids:
            if len(tokens) == len(self._heads):
                self._grow()
            heads, place = self._heads, len(tokens)
            tokens.append(token_id)
            key = hash(tuple(tokens[-least:]))
            self._keys.append(key)
            self._before.append(heads[key % len(heads)])
            heads[key % len(heads)] = place

    def drop(self, n: int) -> None:
        """Forget the last n tokens."""
        heads = self._heads
        for _ in range(n):
            self._tokens.pop()
            heads[self._keys.pop() % len(heads)] = self._before.pop()

    def copy(self) -> _Places:
        child = _Places(self._least, self._longest)
        child._tokens, child._keys, child._before = self._tokens[:], self._keys[:], self._before[:]
        child._heads = self._heads[:]
        return child

    def continued(self, count: int) -> list[int]:
        """The next tokens, as after the longest match; [] without one."""
        tokens, best, begin = self._tokens, self._least - 1, -1
        place = self._before[-1] if tokens else -1
        for _ in range(MAX_PLACES):
            if place < 0:
                break
            length = self._match(place)
            if length > best:
                best, begin = length, place + 1
            if length == self._longest:
                break
            place = self._before[place]
        if begin < 0:
            return []
        period = len(tokens) - begin
        return [tokens[begin + i % period] for i in range(count)]

    def _match(self, place: int) -> int:
        """How many of the tokens up to a place are the last ones, at most the longest match."""
        tokens, last = self._tokens, len(self._tokens) - 1
        for n in range(min(self._longest, place + 1)):
            if tokens[place - n] != tokens[last - n]:
                return n
        return min(self._longest, place + 1)

    def _grow(self) -> None:
        """Have twice as many chains. The old ones stay as they are, and go on in several of the new ones."""
        heads = np.full(2 * len(self._heads), -1, np.int32)
        heads[np.frombuffer(self._keys, np.int64) % len(heads)] = np.arange(len(self._keys))
        self._heads = array("i", heads.tobytes())
