"""Repeats, n-grams and breakers in a history: right, and with work in proportion to its length."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from engine_sampler.arithmetic import repeats
from engine_sampler.arithmetic.repeats import ends_repeated, repeat_lengths
from engine_sampler.samplers import dry
from engine_sampler.samplers._sequences import Sequences
from engine_sampler.samplers.no_repeat_ngram import completions

from ..drawing import examples, integers, lists

histories = lists(integers(0, 2), 60)


def lengths_by_definition(tokens: list[int], limit: int) -> list[int]:
    lengths = [0] * len(tokens)
    for i in range(1, len(tokens)):
        while i + lengths[i] < len(tokens) and tokens[i + lengths[i]] == tokens[lengths[i]]:
            lengths[i] += 1
    return [min(n, limit) for n in lengths]


@pytest.mark.parametrize("work", [0, 1, 64, 10**9], ids="after {} comparisons each".format)
@examples(150, histories, integers(0, 70))
def test_repeats_have_their_lengths_whichever_way_they_are_found(
    work: int, tokens: list[int], limit: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(repeats, "_WORK", work)
        found = repeat_lengths(np.array(tokens, np.int64), limit)
    assert found.tolist() == lengths_by_definition(tokens, limit)


@pytest.mark.parametrize("library", [repeats._library, lambda: None], ids=["fastest", "numpy"])
@examples(150, histories, integers(0, 70), integers(0, 4))
def test_the_ends_of_repeats_are_found_in_c_and_in_numpy(
    library: Callable[[], Any], tokens: list[int], limit: int, least: int
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(repeats, "_library", library)
        places, lengths = ends_repeated(np.array(tokens, np.int64), limit, least)
    right = enumerate(lengths_by_definition(tokens[::-1], limit))
    expected = [(i, length) for i, length in right if i and length >= least]
    assert list(zip(places.tolist(), lengths.tolist(), strict=True)) == expected


@examples(300, histories, lists(lists(integers(0, 2), 4, 1), 5), lists(integers(0, 59), 60))
def test_the_last_sequence_is_found_and_the_longest_that_begins_there(
    window: list[int], sequences: list[list[int]], some: list[int]
) -> None:
    places = sorted({place for place in some if place < len(window)})
    joined = np.array([token for sequence in sequences for token in sequence], np.int64)
    ends = np.cumsum([len(sequence) for sequence in sequences], dtype=np.int64)
    found = Sequences(joined, ends).last_in(np.array(window, np.int64), np.array(places, np.int64))
    beginning = [(p, len(s)) for p in places for s in sequences if window[p : p + len(s)] == s]
    assert found == max(beginning, default=(-1, 0))


@examples(150, histories, lists(lists(integers(0, 2), 4, 1), 4, 1), integers(0, 20))
def test_breakers_further_back_than_matters_are_not_looked_for(
    window: list[int], sequences: list[list[int]], most: int
) -> None:
    breakers = dry._breakers(tuple(map(tuple, sequences)), None, 3)
    history = np.array(window, np.int64)
    assert min(breakers.unbroken(history, most), most) == min(breakers.unbroken(history), most)


# --- work ----------------------------------------------------------------------------------------

LENGTH = 3000


class Counted(np.ndarray):
    """An array that counts the entries that are read from it."""

    read = 0

    def __getitem__(self, index: Any) -> Any:
        found = np.asarray(super().__getitem__(index))
        Counted.read += found.size
        return found


def entries_read(work: Callable[[np.ndarray], Any], history: list[int]) -> int:
    Counted.read = 0
    work(np.array(history, np.int64).view(Counted))
    return Counted.read


EQUAL, ALTERNATING = [7] * LENGTH, [7, 8] * (LENGTH // 2)
COPIED = [*range(LENGTH // 2)] * 2


@pytest.mark.parametrize("history", [EQUAL, ALTERNATING, COPIED], ids=["equal", "alternating", "copied"])
@pytest.mark.parametrize(
    "work",
    [lambda h: completions(h, LENGTH // 3), lambda h: dry._extending(h, 1, LENGTH)],
    ids=["no_repeat_ngram", "dry"],
)
def test_a_history_that_repeats_itself_is_read_a_bounded_number_of_times(
    work: Callable[[np.ndarray], Any], history: list[int]
) -> None:
    assert entries_read(work, history) <= 2 * repeats._WORK * LENGTH


@pytest.mark.parametrize(
    "breakers",
    [
        tuple((7, token) for token in range(100, 228)),
        tuple((7, 7, 7, token) for token in range(100, 164)),
        ((7,) * 255 + (8,),),
    ],
    ids=["pairs", "fours", "one of 256"],
)
def test_breakers_that_nearly_match_everywhere_are_compared_a_bounded_number_of_times(
    breakers: tuple[tuple[int, ...], ...],
) -> None:
    unbroken = dry._breakers(breakers, None, 300).unbroken
    assert unbroken(np.array([*EQUAL, 8, 7], np.int64)) in (2 + LENGTH, 1)
    assert entries_read(unbroken, EQUAL) <= 4 * LENGTH
