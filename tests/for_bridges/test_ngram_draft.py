"""Drafts from a text itself."""

from __future__ import annotations

import numpy as np
import pytest

from engine_sampler.for_bridges import ngram_draft


@pytest.mark.parametrize(
    ("text", "draft"),
    [
        ([1, 2, 3, 7, 2, 3, 9, 1, 2, 3], [7, 2, 3]),
        ([7, 2, 3, 8, 8, 2, 3], [8, 8, 2]),
        ([5, 5, 5, 5], [5]),
        ([1, 2, 3, 4], []),
        ([1], []),
        ([], []),
    ],
    ids=["longest", "short", "itself", "none", "one", "empty"],
)
def test_what_followed_the_longest_match_is_the_draft(text: list[int], draft: list[int]) -> None:
    assert ngram_draft(text, 3, 2, 4) == draft
    assert ngram_draft(np.array(text), 0, 2, 4) == []


def test_drafts_are_those_of_a_search_of_all_matches() -> None:
    random = np.random.default_rng(0)
    for _ in range(300):
        text = random.integers(0, 3, random.integers(1, 30)).tolist()
        assert ngram_draft(text, 4, 1, 5) == searched(text, 4, 1, 5)


def searched(text: list[int], count: int, shortest: int, longest: int) -> list[int]:
    for length in range(min(longest, len(text) - 1), shortest - 1, -1):
        for begin in range(len(text) - length):
            if text[begin : begin + length] == text[-length:]:
                return text[begin + length : begin + length + count]
    return []
