"""The bytes of all tokens, end to end."""

from __future__ import annotations

from engine_sampler import Tokenizer
from engine_sampler.grammar.engines.token_texts import DIGITS, TokensByText, texts_of

PIECES = [b"ab", b"", b" a", b"a", b"  ", b"\xc3", b" 12", b"12", b"a", b"\x00", b" \t12", b"<end>"]
TOKENIZER = Tokenizer(PIECES, [len(PIECES) - 1])
TEXTS = texts_of(TOKENIZER)
BLANKS = b" \t"


def test_tokens_begin_with_a_byte_unless_they_are_empty_or_end_the_text() -> None:
    for byte in range(256):
        found = TEXTS.begin_with(byte).tolist()
        assert found == [piece[:1] == bytes((byte,)) for piece in PIECES[:-1]] + [False]


def test_bytes_of_a_kind_are_counted_in_each_token() -> None:
    assert TEXTS.count(DIGITS).tolist() == [sum(byte in DIGITS for byte in piece) for piece in PIECES]


def test_tokens_go_on_behind_the_blanks_that_they_begin_with() -> None:
    starts, lengths = TEXTS.behind(BLANKS)
    for piece, start, length in zip(PIECES, starts.tolist(), lengths.tolist(), strict=True):
        assert TEXTS.data[start : start + length] == piece.lstrip(BLANKS)


def test_tokens_are_found_by_their_text_behind_blanks() -> None:
    starts, _ = TEXTS.behind(BLANKS)
    tokens = TokensByText(TEXTS, starts, TEXTS.usual)
    assert list(tokens.get(b"12")) == [6, 7, 10]
    assert list(tokens.get(b"a")) == [2, 3, 8]
    assert list(tokens.get(b"1")) == list(tokens.get(b"<end>")) == list(tokens.get(b"x")) == []
