import pytest

from engine_sampler.tokenizer.pieces import byte_level, byte_level_alphabet, byte_of_name, sentence_piece


def test_byte_level_pieces_have_one_character_per_byte():
    alphabet = byte_level_alphabet()
    assert len(set(alphabet.values())) == 256
    assert all(char.isprintable() and char != " " for char in alphabet.values())
    assert byte_level("".join(alphabet[byte] for byte in range(256))) == bytes(range(256))


@pytest.mark.parametrize("piece", ["a b", "日本", "a\xad", "Ġ\n", "ń☃", "\x7f"])
def test_a_piece_outside_the_alphabet_is_taken_literally(piece):
    assert byte_level(piece) == piece.encode()


def test_sentence_pieces_are_text_with_marked_spaces():
    assert sentence_piece("▁a▁") == b" a "
    assert sentence_piece("é") == "é".encode()


def test_a_byte_has_a_name():
    assert [sentence_piece(f"<0x{byte:02X}>") for byte in range(256)] == [bytes([b]) for b in range(256)]
    assert byte_of_name("<0x0a>") == b"\n"


@pytest.mark.parametrize("piece", ["<0x0A", "<0xZZ>", "<0x0A>>", "0x0A", "<0x-1>x", "a<0x0A>"])
def test_a_piece_that_only_resembles_a_byte_name_is_text(piece):
    assert byte_of_name(piece) is None
    assert sentence_piece(piece) == piece.encode()


def test_surrogates_represent_bytes_that_are_not_text():
    assert sentence_piece(b"\xff\xe2\x96".decode(errors="surrogateescape")) == b"\xff\xe2\x96"
