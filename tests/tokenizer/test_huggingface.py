import pickle
import random
from types import SimpleNamespace

import numpy as np
import pytest

from engine_sampler.stopping import StopStringCriteria
from engine_sampler.tokenizer import Tokenizer
from tests.tokenizer.sentence_models import CORPUS, random_text, train

tokenizers = pytest.importorskip("tokenizers")
from tokenizers import decoders, models, normalizers, pre_tokenizers, trainers  # noqa: E402

BYTES = [f"<0x{byte:02X}>" for byte in range(256)]
TEXTS = [random_text(random.Random(seed)) for seed in range(200)]


def byte_level():
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    vocab = {char: i for i, char in enumerate(sorted(alphabet))}
    vocab["Ġa"] = 300  # a gap before it
    bpe = tokenizers.Tokenizer(models.BPE(vocab, [("Ġ", "a")]))
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    bpe.decoder = decoders.ByteLevel()
    bpe.add_special_tokens(["<|end|>"])
    bpe.add_tokens(["\n\n€", "日本", "  ", "a b"])
    return bpe


def sentence_bpe(decoder, prepends):
    vocab = {piece: i for i, piece in enumerate(["<unk>", "</s>", *BYTES, "▁", "a", "▁a", "▁▁"])}
    merges = [("▁", "a"), ("▁", "▁")]
    bpe = tokenizers.Tokenizer(models.BPE(vocab, merges, unk_token="<unk>", byte_fallback=True))
    spaces = normalizers.Replace(" ", "▁")
    bpe.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), spaces]) if prepends else spaces
    bpe.decoder = decoder
    bpe.add_special_tokens(["<unk>", "</s>"])
    bpe.add_tokens([tokenizers.AddedToken("▁▁", normalized=False), "<tool>"])
    return bpe


def in_steps(*last):
    return decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), *last])


def llama():
    return sentence_bpe(in_steps(decoders.Strip(" ", 1, 0)), prepends=True)


def gemma():
    return sentence_bpe(in_steps(), prepends=False)


def unigram():
    """A model of the same kind as T5 and XLM-R."""
    tokenizer = tokenizers.Tokenizer(models.Unigram())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    characters = [*sorted(set("".join(TEXTS)) - {" "}), "▁"]
    trainer = trainers.UnigramTrainer(
        vocab_size=120, special_tokens=["<unk>", "</s>"], unk_token="<unk>", initial_alphabet=characters,
        show_progress=False,
    )  # fmt: skip
    tokenizer.train_from_iterator(CORPUS, trainer)
    return tokenizer


def decoded_alone(source, ids):
    return source.decode(ids, skip_special_tokens=True)


@pytest.mark.parametrize(("make", "space"), [(byte_level, ""), (llama, " "), (gemma, "")])
def test_every_text_is_recovered(make, space):
    source = make()
    tokenizer = Tokenizer.from_tokenizers(source)
    for text in [*TEXTS, "é\n\x00", "x\n\n€y", "a a b   a"]:
        ids = tokenizer.encode(text)
        assert ids == source.encode(text, add_special_tokens=False).ids
        assert tokenizer.decode(ids).removeprefix(space) == text == decoded_alone(source, ids)


def test_concatenated_unigram_pieces_equal_what_the_library_decodes():
    source = unigram()
    tokenizer = Tokenizer.from_tokenizers(source, source.token_to_id("</s>"))
    for text in [*CORPUS, *TEXTS]:
        ids = tokenizer.encode(text)
        assert tokenizer.decode(ids).removeprefix(" ") == decoded_alone(source, ids)
    assert tokenizer.decode(tokenizer.encode(CORPUS[0])) == f" {CORPUS[0]}"


def test_byte_level_bpe_keeps_every_byte():
    bpe = byte_level()
    tokenizer = Tokenizer.from_tokenizers(bpe, [bpe.token_to_id("<|end|>")])
    assert tokenizer.token_bytes[300] == b" a"
    assert tokenizer.token_bytes[280] == b""
    assert sorted(tokenizer.token_bytes[:256]) == [bytes([b]) for b in range(256)]
    assert [tokenizer.token_bytes[i] for i in tokenizer.special_token_ids] == [b"<|end|>"]


def test_tokens_added_to_byte_level_bpe_are_text_whatever_their_characters():
    bpe = byte_level()
    bpe.add_tokens(["é", "Ġx"])  # characters of the alphabet, but not the two bytes that these represent
    tokenizer = Tokenizer.from_tokenizers(bpe)
    assert tokenizer.token_bytes[bpe.token_to_id("é")] == "é".encode()
    assert tokenizer.decode(tokenizer.encode("éĠx")) == "éĠx"


def test_tokens_that_were_added_as_text_are_markers_unless_the_caller_says_otherwise():
    bpe = byte_level()
    bpe.add_tokens([tokenizers.AddedToken("<tool_call>", special=False)])
    call, end = bpe.token_to_id("<tool_call>"), bpe.token_to_id("<|end|>")
    tokenizer = Tokenizer.from_tokenizers(bpe)
    assert call in tokenizer.added_token_ids
    assert end not in tokenizer.added_token_ids
    assert (tokenizer.markers["<tool_call>"], tokenizer.markers["<|end|>"]) == ((call,), (end,))
    assert {call, end} <= tokenizer.marker_ids
    as_text = Tokenizer.from_tokenizers(bpe, added_token_ids=())
    assert as_text.marker_ids == as_text.special_token_ids
    assert pickle.loads(pickle.dumps(tokenizer)).markers == tokenizer.markers


def test_an_added_token_is_matched_in_the_normalised_text():
    source = llama()
    tokenizer = Tokenizer.from_tokenizers(source)
    assert tokenizer.token_bytes[source.token_to_id("<tool>")] == b" <tool>"
    assert tokenizer.decode(tokenizer.encode("a <tool>")) == " a <tool>"


def test_sentence_piece_tokens_are_read_as_text_and_bytes():
    tokenizer = Tokenizer.from_tokenizers(llama(), 1)
    assert tokenizer.token_bytes[258:262] == (b" ", b"a", b" a", b"  ")
    assert tokenizer.token_bytes[2:258] == tuple(bytes([byte]) for byte in range(256))
    assert tokenizer.special_token_ids == {0, 1}


def test_word_pieces_have_a_space_before_each_word():
    vocab = {"[UNK]": 0, "a": 1, "##b": 2, "b": 3, "[SEP]": 4, "☃": 5}
    pieces = tokenizers.Tokenizer(models.WordPiece(vocab, unk_token="[UNK]"))
    pieces.pre_tokenizer = pre_tokenizers.Whitespace()
    pieces.decoder = decoders.WordPiece(cleanup=False)
    pieces.add_special_tokens(["[UNK]", "[SEP]"])
    tokenizer = Tokenizer.from_tokenizers(pieces, eos_token_ids=4)
    assert tokenizer.token_bytes == (b"[UNK]", b" a", b"b", b" b", b"[SEP]", " ☃".encode())
    ids = tokenizer.encode("ab b ☃ abb")
    assert tokenizer.decode(ids) == f" {pieces.decode(ids)}" == " ab b ☃ abb"


MARKS = [
    ".",
    "?",
    "!",
    ",",
    "'",
    "-",
    ";",
    "n't",
    "'s",
    "'m",
    "'ve",
    "'re",
    "'ll",
    "##.",
    "do not",
    "a ' b",
    "a",
]


def test_word_pieces_are_cleaned_up_as_by_their_decoder():
    vocab = {piece: i for i, piece in enumerate(["[UNK]", *MARKS, "##b", "it"])}
    pieces = tokenizers.Tokenizer(models.WordPiece(vocab, unk_token="[UNK]"))
    pieces.decoder = decoders.WordPiece(cleanup=True)
    tokenizer = Tokenizer.from_tokenizers(pieces)
    rng = random.Random(0)
    for _ in range(300):
        ids = [vocab["it"], *(rng.randrange(1, len(vocab)) for _ in range(rng.randrange(9)))]
        assert tokenizer.decode(ids) == f" {pieces.decode(ids)}"


def test_word_ends_are_spaces_after_words():
    bpe = tokenizers.Tokenizer(models.BPE({"a": 0, "b</w>": 1, "a</w>": 2}, [], end_of_word_suffix="</w>"))
    bpe.pre_tokenizer = pre_tokenizers.Whitespace()
    bpe.decoder = decoders.BPEDecoder()
    tokenizer = Tokenizer.from_tokenizers(bpe)
    assert tokenizer.decode(tokenizer.encode("ab a")) == "ab a "


@pytest.mark.parametrize(
    "decoder",
    [
        None,
        decoders.CTC(),
        decoders.Replace(tokenizers.Regex("a+"), "b"),
        decoders.Sequence([decoders.Strip(" ", 1, 0), decoders.Fuse()]),
    ],
)
def test_a_tokenizer_whose_tokens_have_no_bytes_is_refused(decoder):
    words = tokenizers.Tokenizer(models.WordLevel({"a": 0}, unk_token="a"))
    if decoder:
        words.decoder = decoder
    with pytest.raises(ValueError, match="the tokens of this tokenizer have no bytes of their own"):
        Tokenizer.from_tokenizers(words)


def test_without_a_decoder_the_pre_tokenizer_decides():
    bpe = tokenizers.Tokenizer(models.BPE({"Ġ": 0, "Ċ": 1}, []))
    bpe.pre_tokenizer = pre_tokenizers.ByteLevel()
    assert Tokenizer.from_tokenizers(bpe).token_bytes == (b" ", b"\n")


@pytest.mark.parametrize("make", [byte_level, llama, unigram])
def test_it_can_be_pickled(make):
    tokenizer = Tokenizer.from_tokenizers(make())
    copy = pickle.loads(pickle.dumps(tokenizer))
    assert copy.token_bytes == tokenizer.token_bytes
    assert copy.encode("a the cat") == tokenizer.encode("a the cat")


# --- transformers --------------------------------------------------------------------------------


def test_transformers_tokenizers_provide_their_eos():
    bpe = byte_level()
    end = bpe.token_to_id("<|end|>")
    fast = SimpleNamespace(backend_tokenizer=bpe, eos_token_id=end)
    assert Tokenizer.from_transformers(fast).eos_token_ids == (end,)
    assert Tokenizer.from_transformers(fast, [end, 300]).eos_token_ids == (end, 300)
    none = SimpleNamespace(backend_tokenizer=bpe, eos_token_id=None)
    assert Tokenizer.from_transformers(none).eos_token_ids == ()


def test_a_tokenizer_of_an_unsupported_kind_is_named_in_the_error():
    with pytest.raises(TypeError, match="the tokens of SimpleNamespace have no bytes of their own"):
        Tokenizer.from_transformers(SimpleNamespace(eos_token_id=0))


@pytest.fixture
def transformers():
    return pytest.importorskip("transformers")


def decode(source, ids):
    return source.decode(ids, skip_special_tokens=True, clean_up_tokenization_spaces=False)


@pytest.mark.parametrize(("make", "eos"), [(byte_level, "<|end|>"), (llama, "</s>"), (gemma, "</s>")])
def test_fast_tokenizers_decode_as_transformers_does(transformers, make, eos):
    source = transformers.PreTrainedTokenizerFast(
        tokenizer_object=make(), eos_token=eos, additional_special_tokens=["<turn>"]
    )
    tokenizer = Tokenizer.from_transformers(source)
    assert tokenizer.special_token_ids >= {*source.all_special_ids, source.eos_token_id}
    assert source.convert_tokens_to_ids("<turn>") in tokenizer.special_token_ids
    assert len(tokenizer) >= len(source)
    space = " " if make is llama else ""
    for text in TEXTS:
        ids = tokenizer.encode(text)
        assert tokenizer.decode(ids).removeprefix(space) == text == decode(source, ids)


@pytest.mark.parametrize("cleans_up", [None, False])
def test_word_pieces_decode_as_transformers_does(transformers, cleans_up):
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "it", *MARKS]
    source = transformers.BertTokenizer(vocab={piece: i for i, piece in enumerate(pieces)})
    tokenizer = Tokenizer.from_transformers(source)
    rng = random.Random(1)
    for _ in range(100):
        ids = [5, *(rng.randrange(5, len(pieces)) for _ in range(rng.randrange(9)))]
        assert tokenizer.decode(ids) == f" {source.decode(ids, clean_up_tokenization_spaces=cleans_up)}"
    its = [5, pieces.index("'"), pieces.index("a")]  # what only a whole text tells is left out
    assert source.decode(its, clean_up_tokenization_spaces=True) == "it'a"
    assert tokenizer.decode(its) == " it ' a"


@pytest.mark.parametrize("model_type", ["bpe", "unigram"])
def test_slow_tokenizers_based_on_sentencepiece_are_read(transformers, tmp_path, model_type):
    pytest.importorskip("sentencepiece")
    from transformers.models.bert_generation import BertGenerationTokenizer

    path = train(tmp_path / "spiece.model", model_type=model_type)
    source = BertGenerationTokenizer(str(path), unk_token="<unk>", pad_token="<|sep|>")
    source.add_tokens(["<new>", "a new one"])
    tokenizer = Tokenizer.from_transformers(source)
    assert tokenizer.eos_token_ids == (source.eos_token_id,)
    assert tokenizer.special_token_ids == set(source.all_special_ids)
    assert tokenizer.token_bytes[-2:] == (b"<new>", b"a new one")
    for text in CORPUS:
        ids = tokenizer.encode(text)
        assert ids == source.encode(text, add_special_tokens=False)
        assert tokenizer.decode(ids) == f" {text}"
        assert decode(source, ids) == text
    copy = pickle.loads(pickle.dumps(tokenizer))
    assert copy.encode(CORPUS[0]) == tokenizer.encode(CORPUS[0])


def test_the_tokens_of_byt5_are_bytes(transformers):
    source = transformers.ByT5Tokenizer()
    tokenizer = Tokenizer.from_transformers(source)
    assert tokenizer.eos_token_ids == (1,)
    assert tokenizer.token_bytes[3:259] == tuple(bytes([byte]) for byte in range(256))
    assert tokenizer.token_bytes[:3] == (b"<pad>", b"</s>", b"<unk>")
    for text in TEXTS:
        assert tokenizer.decode(tokenizer.encode(text)) == text


def test_slow_tokenizers_without_bytes_are_refused(transformers, tmp_path):
    (tmp_path / "vocab.json").write_text('{"<unk>": 0, "a</w>": 1}')
    (tmp_path / "merges.txt").write_text("#version: 0.2\n")
    source = transformers.CTRLTokenizer(str(tmp_path / "vocab.json"), str(tmp_path / "merges.txt"))
    with pytest.raises(TypeError, match="the tokens of CTRLTokenizer have no bytes of their own"):
        Tokenizer.from_transformers(source)


def test_a_tokenizer_in_python_serves_criteria_that_are_called() -> None:
    transformers = pytest.importorskip("transformers")
    tokenizer = transformers.ByT5Tokenizer()
    criterion = StopStringCriteria(tokenizer, ["b c"])
    rows = [tokenizer(text, add_special_tokens=False)["input_ids"] for text in ("ab c", "ab d")]
    assert criterion(np.array(rows), None).tolist() == [True, False]
