"""The bytes of all tokens, end to end."""

from __future__ import annotations

from itertools import pairwise

import pytest

from engine_sampler import Tokenizer
from engine_sampler.grammar.engines.token_texts import texts_of

PIECES = [b"ab", b"", b" a", b"a", b"  ", b"\xc3", b" 12", b"12", b"a", b"\x00", b" \t12", b"<end>"]
TEXTS = texts_of(Tokenizer(PIECES, [len(PIECES) - 1]))


def test_tokens_lie_end_to_end() -> None:
    ends = TEXTS.offsets.tolist()
    assert [TEXTS.data[begin:end] for begin, end in pairwise(ends)] == PIECES
    assert TEXTS.usual.tolist() == [bool(piece) for piece in PIECES[:-1]] + [False]


@pytest.mark.parametrize("some", [b"a", b" \t", b"\x00\xc3", b"<", b"x"])
def test_tokens_with_one_of_some_bytes_are_found_unless_they_end_the_text(some: bytes) -> None:
    wanted = [i for i, piece in enumerate(PIECES[:-1]) if set(some) & set(piece)]
    assert TEXTS.with_byte(some).tolist() == wanted
