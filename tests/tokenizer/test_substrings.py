"""The index finds the tokens that a look at every token finds."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from engine_sampler import Tokenizer
from engine_sampler.tokenizer.substrings import Substrings

some_bytes = st.lists(st.sampled_from(b"ab\x00\xff"), max_size=6).map(bytes)


@settings(max_examples=500, derandomize=True, deadline=None)
@given(st.lists(some_bytes, max_size=12), st.sets(st.integers(0, 11)), some_bytes.filter(bool))
def test_tokens_that_contain_or_end_with_some_bytes(
    pieces: list[bytes], excluded: set[int], data: bytes
) -> None:
    index = Substrings(pieces, excluded)
    left = {i: piece for i, piece in enumerate(pieces) if i not in excluded}
    assert index.containing(data).tolist() == [i for i, piece in left.items() if data in piece]
    assert sorted(index.ending_with(data).tolist()) == [
        i for i, piece in left.items() if piece.endswith(data)
    ]


def test_a_tokenizer_has_one_index_without_its_special_tokens() -> None:
    tokenizer = Tokenizer([b"ab", b"<b>", b"b"], special_token_ids=[1])
    assert tokenizer.substrings is tokenizer.substrings
    assert tokenizer.substrings.containing(b"b").tolist() == [0, 2]
    assert tokenizer.substrings.containing(b"b").dtype == np.int64
