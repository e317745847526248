"""The matcher before whose text a start marker may stand, against one that keeps all tokens."""

from __future__ import annotations

import random
import tracemalloc
from typing import Any

import numpy as np

from engine_sampler.base.copying import ForkedByCopy
from engine_sampler.requests.phases.opening import OpeningMatcher

VOCAB = 8
MARKERS = [(1, 2, 3), (1, 4), (0, 0, 5)]


class Even(ForkedByCopy):
    """A matcher of even tokens."""

    def __init__(self, count: int = 0) -> None:
        self.count = count

    def fill_bitmask(self, bitmask: Any, row: int = 0) -> None:
        bitmask[row] = 0b01010101

    def accept(self, token_id: int) -> bool:
        self.count += token_id % 2 == 0
        return token_id % 2 == 0

    def rollback(self, n: int) -> None:
        self.count -= n

    def is_accepting(self) -> bool:
        return self.count % 3 == 0

    def is_terminated(self) -> bool:
        return self.count > 9

    def fork(self) -> Even:
        return Even(self.count)


def allowed(tokens: list[int], is_open: bool) -> set[int]:
    """What may follow, as read from all tokens."""
    found = {0, 2, 4, 6} if all(token % 2 == 0 for token in tokens) else set()
    begun = [m for m in MARKERS if is_open and len(m) > len(tokens) and list(m[: len(tokens)]) == tokens]
    return found | {marker[len(tokens)] for marker in begun}


def mask_of(matcher: OpeningMatcher) -> set[int]:
    bitmask = np.zeros((1, 1), np.int32)
    matcher.fill_bitmask(bitmask)
    return {token for token in range(VOCAB) if bitmask[0, 0] >> token & 1}


def test_it_is_as_if_it_kept_all_tokens() -> None:
    ways = random.Random(1)
    for _ in range(300):
        matcher, tokens = OpeningMatcher(Even(), MARKERS), []
        for _ in range(25):
            matcher.is_open = ways.random() < 0.8
            assert mask_of(matcher) == allowed(tokens, matcher.is_open)
            is_text = all(token % 2 == 0 for token in tokens)
            assert matcher.is_accepting() == (is_text and len(tokens) % 3 == 0)
            token = ways.choice([0, 0, 1, 2, 3, 4, 5])
            fork = matcher.fork()
            takes = token in allowed(tokens, matcher.is_open)
            assert fork.accept(token) == takes
            if takes and ways.random() < 0.8:
                matcher = fork
                tokens.append(token)
            elif tokens and ways.random() < 0.3:
                back = ways.randint(1, len(tokens))
                matcher.rollback(back)
                del tokens[-back:]


def test_a_token_of_a_long_text_costs_what_the_first_one_does() -> None:
    matcher = OpeningMatcher(Even(), MARKERS)
    for _ in range(20_000):
        matcher.accept(2)
    tracemalloc.start()
    try:
        matcher.accept(2)
        matcher.fork().accept(2)
        assert tracemalloc.get_traced_memory()[1] < 10_000
    finally:
        tracemalloc.stop()
