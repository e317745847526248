"""ngram: the longest match, of several the latest, and the same work for every token."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from engine_sampler import ParameterError, SamplingParams
from engine_sampler.contract import DraftedText, Vocabulary, Work
from engine_sampler.drafters import ngram
from engine_sampler.drafters.ngram import FEWEST_HEADS, MAX_PLACES, Ngram

DRAFTER, VOCABULARY = Ngram(), Vocabulary(1000)


def state_of(tokens: Sequence[int], least: int = 2, longest: int = 4) -> Any:
    params = SamplingParams(prompt_lookup_min=least, prompt_lookup_max=longest)
    state = DRAFTER.new_state(params, VOCABULARY)
    DRAFTER.accept(state, tokens)
    return state


def drafted(tokens: Sequence[int], count: int = 3, least: int = 2, longest: int = 4) -> list[int]:
    return asked(state_of(tokens, least, longest), count)


def asked(state: Any, count: int = 3) -> list[int]:
    text = DraftedText(np.empty(0, np.int64), (), VOCABULARY, None, Work(0, 0))
    return DRAFTER.draft(state, text, count)


@pytest.mark.parametrize(
    ("tokens", "draft"),
    [
        ([], []),
        ([1], []),
        ([1, 2, 3, 4, 5, 1, 2], [3, 4, 5]),
        ([1, 2, 3, 9, 1, 2, 4, 9, 1, 2], [4, 9, 1]),  # the latest
        ([7, 1, 2, 3, 9, 1, 2, 4, 9, 7, 1, 2], [3, 9, 1]),  # the longest
        ([1, 2, 3, 4, 2], []),  # one token is no match
        ([5, 6, 5, 6], [5, 6, 5]),  # a loop goes on
        ([8, 8, 8], [8, 8, 8]),
    ],
)
def test_it_drafts_what_followed_the_longest_match(tokens: list[int], draft: list[int]) -> None:
    assert drafted(tokens) == draft


def searched(tokens: list[int], count: int, least: int, longest: int) -> list[int]:
    """The same by trying every length at every place."""
    for length in range(min(longest, len(tokens) - 1), least - 1, -1):
        for begin in range(len(tokens) - length - 1, -1, -1):
            if tokens[begin : begin + length] == tokens[len(tokens) - length :]:
                text = tokens[:]
                for at in range(count):
                    text.append(text[begin + length + at])
                return text[len(tokens) :]
    return []


def test_it_drafts_what_a_search_of_the_whole_text_finds() -> None:
    chance = random.Random(1)
    for _ in range(300):
        tokens = [chance.randrange(3) for _ in range(chance.randrange(MAX_PLACES))]
        least = chance.randint(1, 3)
        longest, count = chance.randint(least, 6), chance.randint(1, 9)
        assert drafted(tokens, count, least, longest) == searched(tokens, count, least, longest)


def test_texts_of_any_length_can_be_taken_back() -> None:
    chance = random.Random(2)
    tokens = [chance.randrange(40) for _ in range(5 * FEWEST_HEADS)]
    state = state_of(tokens)
    for _ in range(20):
        kept = chance.randrange(len(tokens))
        DRAFTER.rollback(state, len(tokens) - kept)
        more = [chance.randrange(40) for _ in range(len(tokens) - kept)]
        tokens = [*tokens[:kept], *more]
        DRAFTER.accept(state, more)
    assert asked(state, 8) == drafted(tokens, 8)
    DRAFTER.rollback(state, len(tokens))
    DRAFTER.accept(state, [1, 2, 3, 1, 2])
    assert asked(state) == [3, 1, 2]


def test_a_fork_goes_its_own_way() -> None:
    state = state_of([1, 2, 3, 1])
    child = DRAFTER.fork(state)
    DRAFTER.accept(child, [2])
    DRAFTER.accept(state, [9, 9, 9])
    assert (asked(child), asked(state)) == ([3, 1, 2], [9, 9, 9])


def test_few_places_are_compared_however_often_a_text_repeats_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    match = ngram._Places._match
    monkeypatch.setattr(
        ngram._Places, "_match", lambda self, place: (calls.append(place), match(self, place))[1]
    )
    state = state_of([t for _ in range(2000) for t in (1, 2, _ + 3)][:-1], longest=64)
    asked(state)
    assert len(calls) == MAX_PLACES


def test_the_fewest_tokens_are_not_more_than_the_most() -> None:
    with pytest.raises(ParameterError, match="min=5 is not allowed: at most prompt_lookup_max=4"):
        SamplingParams(prompt_lookup_min=5, prompt_lookup_max=4)
