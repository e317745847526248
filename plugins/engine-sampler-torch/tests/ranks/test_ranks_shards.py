"""Shards of the vocabulary: sizes, offsets, padding."""

from __future__ import annotations

import pytest
import torch
from engine_sampler_torch.ranks import VocabularyShards


def test_even_shards_end_in_padding() -> None:
    shards = VocabularyShards.even(100, 3, 16)
    assert shards.sizes == (48, 48, 4)
    assert shards.padding == (0, 0, 44)
    assert shards.offsets == (0, 48, 96)
    assert shards.vocab_size == 100


def test_there_may_be_more_shards_than_tokens() -> None:
    assert VocabularyShards.even(2, 4).sizes == (1, 1, 0, 0)


def test_the_columns_of_tokens_are_a_view() -> None:
    logits = torch.arange(12.0).view(2, 6)
    tokens = VocabularyShards([3, 4], [0, 2]).tokens_of(1, logits, 2)
    assert tokens.shape == (2, 4)
    assert tokens.data_ptr() == logits.data_ptr()


@pytest.mark.parametrize(
    ("sizes", "padding", "message"),
    [
        ([1, -1], [], "sizes=(1, -1) is not allowed: integers of at least 0"),
        ([1, 2.0], [], "sizes=(1, 2.0) is not allowed"),
        ([1, 2], [1], "padding=(1,) is not allowed: 2 numbers, as in sizes"),
        ([0, 0], [], "sizes=(0, 0) is not allowed: at least one token"),
    ],
)
def test_impossible_shards_are_refused(sizes: list[int], padding: list[int], message: str) -> None:
    with pytest.raises(ValueError) as raised:  # noqa: PT011
        VocabularyShards(sizes, padding)
    assert message in str(raised.value)


def test_even_shards_need_positive_numbers() -> None:
    with pytest.raises(ValueError, match="ranks=0 is not allowed: at least 1"):
        VocabularyShards.even(10, 0)
