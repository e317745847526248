"""The index finds the tokens that a look at every token finds."""

from __future__ import annotations

import numpy as np

from engine_sampler import Tokenizer
from engine_sampler.tokenizer.substrings import Substrings

from ..drawing import bytes_of, examples, integers, lists

BYTES = b"ab\x00\xff"


@examples(1000, lists(bytes_of(BYTES, 6), 12), lists(integers(0, 11), 12), bytes_of(BYTES, 6, 1))
def test_tokens_that_contain_or_end_with_some_bytes(
    pieces: list[bytes], excluded: list[int], data: bytes
) -> None:
    index = Substrings(pieces, set(excluded))
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
