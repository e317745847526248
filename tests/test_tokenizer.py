from types import SimpleNamespace

import pytest

from engine_sampler.tokenizer import Tokenizer

SMALL = Tokenizer([b"a", b"b", b"ab", b" ", b"\xc3", b"\xa9", b"a", b"</s>", b"<i>"], [7], [8])


def test_ends_are_special_tokens():
    assert SMALL.special_token_ids == {7, 8}
    assert Tokenizer([b"a", b"</s>", b"<eot>"], [1], eot_token_id=2).special_token_ids == {1, 2}


def test_the_end_of_turn_is_the_first_eos_unless_named():
    assert SMALL.eot_token_id == 7
    assert Tokenizer([b"a", b"b"], [1], eot_token_id=0).eot_token_id == 0
    assert Tokenizer([b"a"]).eot_token_id is None


@pytest.mark.parametrize("given", [{"eos_token_ids": [2]}, {"special_token_ids": [-1]}, {"eot_token_id": 2}])
def test_ids_outside_the_vocabulary_are_refused(given):
    with pytest.raises(ValueError, match=r"token id -?\d is outside 0\.\.1"):
        Tokenizer([b"a", b"b"], **given)


# --- text to tokens ------------------------------------------------------------------------------


def test_without_an_encoder_the_longest_token_is_taken():
    assert SMALL.encode("abba b") == [2, 1, 0, 3, 1]
    assert SMALL.encode("") == []


def test_special_tokens_never_come_from_text():
    with pytest.raises(ValueError, match="no token begins b'</s>'"):
        SMALL.encode("a</s>")


def test_the_models_own_encoder_is_used():
    assert Tokenizer([b"a"], encode=lambda text: [0] * len(text)).encode("xyz") == [0, 0, 0]


def test_bytes_that_are_text_go_through_the_encoder():
    tokenizer = Tokenizer([b"a", b"\xc3", b"\xa9"], encode=lambda text: [0])
    assert tokenizer.encode_bytes("é".encode()) == [0]


def test_broken_utf8_goes_by_the_longest_token():
    assert SMALL.encode_bytes(b"\xa9ab") == [5, 2]
    with pytest.raises(ValueError, match="no token begins"):
        SMALL.encode_bytes(b"\xff")


# --- tokens to text ------------------------------------------------------------------------------


def test_decoding_joins_bytes_before_it_reads_them():
    assert SMALL.decode([4, 5, 0]) == "éa"
    assert SMALL.decode([4, 0]) == "�a"


def test_eos_has_no_text_and_special_tokens_only_if_asked_for():
    assert SMALL.decode([0, 8, 7]) == "a"
    assert SMALL.decode([0, 8, 7], skip_special_tokens=False) == "a<i>"


def test_ids_beyond_the_vocabulary_have_no_text():
    assert SMALL.text_bytes(9) == SMALL.text_bytes(-1) == b""


def test_tokens_are_found_by_their_bytes():
    assert SMALL.ids_of(b"a") == (0, 6)
    assert SMALL.ids_of(b"</s>") == ()
    assert len(SMALL) == 9


# --- adapters ------------------------------------------------------------------------------------


@pytest.fixture
def library():
    return pytest.importorskip("tokenizers")


def byte_level(library):
    alphabet = library.pre_tokenizers.ByteLevel.alphabet()
    vocab = {char: i for i, char in enumerate(sorted(alphabet))}
    vocab["Ġa"] = 300  # a gap before it
    bpe = library.Tokenizer(library.models.BPE(vocab, [("Ġ", "a")]))
    bpe.pre_tokenizer = library.pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = library.decoders.ByteLevel()
    bpe.add_special_tokens(["<|end|>"])
    bpe.add_tokens(["\n\n€"])
    return bpe


TEXTS = ["a a", "é\n\x00", "日本 a", "  ", "x\n\n€y"]


def test_byte_level_bpe_keeps_every_byte(library):
    bpe = byte_level(library)
    tokenizer = Tokenizer.from_tokenizers(bpe, [bpe.token_to_id("<|end|>")])
    for text in TEXTS:
        ids = tokenizer.encode(text)
        assert ids == bpe.encode(text).ids
        assert tokenizer.decode(ids) == text
    assert tokenizer.token_bytes[300] == b" a"
    assert tokenizer.token_bytes[280] == b""
    assert sorted(b for b in tokenizer.token_bytes[:256]) == [bytes([b]) for b in range(256)]
    assert [tokenizer.token_bytes[i] for i in tokenizer.special_token_ids] == [b"<|end|>"]


def test_sentence_piece_tokens_are_read_as_text_and_bytes(library):
    vocab = {
        "<unk>": 0,
        "</s>": 1,
        **{f"<0x{b:02X}>": 2 + b for b in range(256)},
        "▁": 258,
        "a": 259,
        "▁a": 260,
    }
    bpe = library.Tokenizer(library.models.BPE(vocab, [("▁", "a")], unk_token="<unk>", byte_fallback=True))
    bpe.normalizer = library.normalizers.Replace(" ", "▁")
    bpe.decoder = library.decoders.Sequence(
        [library.decoders.Replace("▁", " "), library.decoders.ByteFallback(), library.decoders.Fuse()]
    )
    bpe.add_special_tokens(["<unk>", "</s>"])
    tokenizer = Tokenizer.from_tokenizers(bpe, [1])
    for text in TEXTS:
        assert tokenizer.decode(tokenizer.encode(text)) == text
    assert tokenizer.token_bytes[258:] == (b" ", b"a", b" a")
    assert tokenizer.special_token_ids == {0, 1}


def test_a_tokenizer_whose_tokens_have_no_bytes_is_refused(library):
    pieces = library.Tokenizer(library.models.WordPiece({"a": 0}, unk_token="a"))
    pieces.decoder = library.decoders.WordPiece()
    with pytest.raises(ValueError, match="the tokens of this tokenizer have no bytes of their own"):
        Tokenizer.from_tokenizers(pieces)


def test_transformers_tokenizers_bring_their_eos(library):
    bpe = byte_level(library)
    end = bpe.token_to_id("<|end|>")
    fast = SimpleNamespace(backend_tokenizer=bpe, eos_token_id=end)
    assert Tokenizer.from_transformers(fast).eos_token_ids == (end,)
    assert (
        Tokenizer.from_transformers(SimpleNamespace(backend_tokenizer=bpe, eos_token_id=None)).eos_token_ids
        == ()
    )
    with pytest.raises(TypeError, match="SimpleNamespace is no fast tokenizer"):
        Tokenizer.from_transformers(SimpleNamespace(eos_token_id=0))
