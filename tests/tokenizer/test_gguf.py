import importlib.util
import pickle
import random
from contextlib import closing

import pytest

from engine_sampler.tokenizer import Tokenizer
from engine_sampler.tokenizer.gguf_splits import SPLITTING_OF
from tests.tokenizer.gguf_files import (
    BYTE,
    NORMAL,
    byte_level_keys,
    character_keys,
    sentence_piece_keys,
    word_keys,
    write_gguf,
)

PARTS = ["the", " the", " thing", "thing", "ab", " a", "th", "ing", "123", "1234", "'s", "'S", " ", "  "]
PARTS += ["    ", "\n", "\n\n", "\r\n", "\t", "é", " é", "日 本▁", "日本", "!!", "!", " !", "☃", "x▁y"]
PARTS += ["<tool_call>", "</s>", "e", "b", "\u0301", "²", "٣", "_", "-", "<|im_end|>"]


def text(seed):
    rng = random.Random(seed)
    return "".join(rng.choice(PARTS) for _ in range(rng.randrange(12)))


@pytest.fixture
def read(tmp_path):
    return lambda keys: Tokenizer.from_gguf(write_gguf(tmp_path / "small.gguf", keys))


def bytes_of(read, model, pieces, types=None):
    return read({"model": model, "tokens": pieces, "token_type": types or [NORMAL] * len(pieces)}).token_bytes


# --- tokens --------------------------------------------------------------------------------------


def test_byte_level_pieces_become_bytes(read):
    tokenizer = read(byte_level_keys())
    assert tokenizer.token_bytes[:256] == tuple(bytes([byte]) for byte in range(256))
    assert tokenizer.ids_of(b" the")
    assert tokenizer.ids_of(" é".encode())


def test_user_defined_tokens_are_literal_text(read):
    assert read(byte_level_keys()).ids_of("日 本▁".encode())
    assert read(sentence_piece_keys()).ids_of("x▁y".encode())


def test_user_defined_tokens_are_those_that_were_added(read):
    tokenizer = read(byte_level_keys())
    assert set(tokenizer.ids_of("日 本▁".encode())) <= tokenizer.added_token_ids
    assert not tokenizer.added_token_ids & tokenizer.special_token_ids


def test_sentence_pieces_become_text_and_bytes(read):
    tokenizer = read(sentence_piece_keys())
    assert tokenizer.token_bytes[3:259] == tuple(bytes([byte]) for byte in range(256))
    assert tokenizer.ids_of(b" the")
    assert tokenizer.token_bytes[:3] == (b"<unk>", b"<s>", b"</s>")


@pytest.mark.parametrize(
    ("keys", "names"),
    [
        (byte_level_keys(), "</s> <|im_end|> <|x|> <unused0>"),
        (sentence_piece_keys(), "<unk> <s> </s> <|eot_id|> <unused0>"),
    ],
)
def test_control_unknown_and_unused_tokens_are_special(read, keys, names):
    tokenizer = read(keys)
    special = {tokenizer.token_bytes[i].decode() for i in tokenizer.special_token_ids}
    assert special == set(names.split())


@pytest.mark.parametrize(
    ("model", "pieces", "expected"),
    [
        ("t5", ["▁the", "a"], [b" the", b"a"]),
        ("bert", ["▁the", "ing"], [b" the", b"ing"]),
        ("gemma4", ["▁the", "<0x0A>"], [b" the", b"\n"]),
        ("plamo2", ["<0xFF>", " ▁a"], [b"\xff", " ▁a".encode()]),
        ("rwkv", [r"\x00", r"a\n\t\r", r"\\x41", r"\xe6\x97"], [b"\0", b"a\n\t\r", b"\\x41", b"\xe6\x97"]),
        ("rwkv", [r"é\'", "\\", r"\x4"], ["é'".encode(), b"\\", b"x4"]),
    ],
)  # fmt: skip
def test_every_kind_has_its_own_notation_for_bytes(read, model, pieces, expected):
    assert bytes_of(read, model, pieces) == tuple(expected)


def test_without_types_every_token_is_text(read):
    tokenizer = read({"model": "llama", "tokens": ["▁a", "<0x0A>", "b"]})
    assert tokenizer.token_bytes == (b" a", b"\n", b"b")
    assert tokenizer.special_token_ids == set()


def test_bytes_that_are_not_text_are_unchanged(read):
    assert bytes_of(read, "llama", [b"\xe2\x96", b"a"], [NORMAL, BYTE]) == (b"\xe2\x96", b"a")


def test_a_file_without_a_known_vocabulary_is_refused(tmp_path):
    path = tmp_path / "a.gguf"
    with pytest.raises(ValueError, match=r"a\.gguf has no vocabulary \(tokenizer\.ggml\.tokens\)"):
        Tokenizer.from_gguf(write_gguf(path, {"model": "llama"}))
    with pytest.raises(
        ValueError, match=r"tokenizer\.ggml\.model='none' of .*a\.gguf is not supported: \['bert'"
    ):
        Tokenizer.from_gguf(write_gguf(path, {"model": "none", "tokens": ["a"]}))


# --- texts ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("keys", [byte_level_keys(), byte_level_keys("llama-bpe"), sentence_piece_keys()])
def test_every_text_is_recovered(read, keys):
    pytest.importorskip("tokenizers")
    tokenizer = read(keys)
    for seed in range(200):
        expected = text(seed)
        ids = tokenizer.encode(expected)
        assert not tokenizer.special_token_ids.intersection(ids)
        if keys["model"] == "gpt2":
            assert tokenizer.decode(ids) == expected
        elif "▁" not in expected and "<tool_call>" not in expected:  # spaces before text and after the token
            assert tokenizer.decode(ids).removeprefix(" ") == expected


def test_merges_split_a_text(read):
    pytest.importorskip("tokenizers")
    tokenizer = read(byte_level_keys())
    assert [tokenizer.token_bytes[i] for i in tokenizer.encode("the thing")] == [b"the", b" ", b"th", b"ing"]


def test_scores_split_a_text(read):
    pytest.importorskip("tokenizers")
    tokenizer = read(sentence_piece_keys())
    pieces = [tokenizer.token_bytes[i] for i in tokenizer.encode("the abé")]
    assert pieces == [b" the", b" ab", b"\xc3", b"\xa9"]
    assert tokenizer.decode(read(sentence_piece_keys(add_space_prefix=False)).encode("the")) == "the"


def test_merges_of_characters_split_a_text(read):
    pytest.importorskip("tokenizers")
    tokenizer = read(character_keys())
    pieces = [tokenizer.token_bytes[i] for i in tokenizer.encode("the a b\n\n\né")]
    assert pieces == [b"the", b" a", b" ", b"b", b"\n\n", b"\n", b"\xc3", b"\xa9"]


def test_words_are_split_into_the_longest_pieces(read):
    pytest.importorskip("tokenizers")
    tokenizer = read(word_keys())
    names = [tokenizer.token_bytes[i] for i in tokenizer.encode("Thé things, abb!")]
    assert names == [b" the", b" thing", b"s", b"[UNK]", b" ab", b"b", b" !"]
    assert tokenizer.encode("a" + "b" * 100) == [1]
    cased = read(word_keys(**{"normalizer.lowercase": False}))
    assert [cased.token_bytes[i] for i in cased.encode("The the")] == [b"[UNK]", b" the"]


def test_a_merge_may_give_a_token_that_ends_a_text(read):  # as in Qwen2's vocabulary
    pytest.importorskip("tokenizers")
    keys, merges = byte_level_keys(), ["< /", "</ s", "</s >"]
    keys |= {"tokens": [*keys["tokens"], "</", "</s"], "token_type": [*keys["token_type"], NORMAL, NORMAL]}
    tokenizer = read({**keys, "merges": [*keys["merges"], *merges]})
    assert [tokenizer.token_bytes[i] for i in tokenizer.encode("a</s>")] == [b"a", b"</", b"s", b">"]


def longest(tokenizer, reason):
    with pytest.warns(
        UserWarning, match=f"encode may give other ids than the model's own tokenizer: {reason}"
    ):
        ids = tokenizer.encode("a thing")
    assert [tokenizer.token_bytes[i] for i in ids] == [b"a", b" thing"]
    assert tokenizer.encode("a thing") == ids  # without another warning


def test_without_tokenizers_and_for_other_kinds_the_longest_token_is_taken_with_a_warning(read, monkeypatch):
    longest(
        read(byte_level_keys("some-other")), r"tokenizer\.ggml\.pre='some-other' is encoded by the longest"
    )
    tokens = ["a", "▁thing", "▁", "t", "hing"]
    longest(
        read({"model": "t5", "tokens": tokens}),
        r"tokenizer\.ggml\.model='t5' is encoded by the longest match",
    )
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    longest(read(byte_level_keys()), "the package tokenizers is not installed")


def test_the_longest_match_of_rwkv_is_its_own_rule(read):
    assert read({"model": "rwkv", "tokens": ["a", "ab", "b"]}).encode("abb") == [1, 2]


@pytest.mark.parametrize("keys", [byte_level_keys(), sentence_piece_keys()])
@pytest.mark.parametrize("used", [False, True])
def test_it_can_be_pickled_before_and_after_its_first_text(read, keys, used):
    pytest.importorskip("tokenizers")
    tokenizer = read(keys)
    if used:
        tokenizer.encode("the")
    copy = pickle.loads(pickle.dumps(tokenizer))
    assert copy.token_bytes == tokenizer.token_bytes
    assert copy.encode("the ab") == tokenizer.encode("the ab")


# --- llama.cpp itself ----------------------------------------------------------------------------


KEYS = {pre: byte_level_keys(pre) for pre in SPLITTING_OF}
KEYS |= {"none": {k: v for k, v in byte_level_keys().items() if k != "pre"}, "gemma4": character_keys()}
KEYS |= {"llama": sentence_piece_keys(), "llama-alone": sentence_piece_keys(add_space_prefix=False)}


@pytest.fixture(params=KEYS.values(), ids=KEYS)
def both(request, tmp_path):
    """A file and llama.cpp's own reading of it."""
    llama_cpp = pytest.importorskip("llama_cpp")
    path = write_gguf(tmp_path / "small.gguf", request.param)
    with closing(llama_cpp.Llama(str(path), vocab_only=True, verbose=False)) as model:
        yield path, model


def test_llama_cpp_agrees_on_tokens_texts_and_ends(both):
    import llama_cpp

    path, model = both
    tokenizer = Tokenizer.from_gguf(path)
    vocab = model._model.vocab
    ids = range(len(tokenizer))
    assert set(tokenizer.eos_token_ids) == {i for i in ids if llama_cpp.llama_vocab_is_eog(vocab, i)}
    assert tokenizer.eot_token_id == llama_cpp.llama_vocab_eot(vocab)
    for i in set(ids) - tokenizer.special_token_ids:
        assert model.detokenize([i]) == tokenizer.text_bytes(i)
    for seed in range(150):
        expected = model.tokenize(text(seed).encode(), add_bos=False, special=False)
        assert tokenizer.encode(text(seed)) == expected


def test_a_loaded_model_splits_texts_itself(tmp_path):
    llama_cpp = pytest.importorskip("llama_cpp")
    path = write_gguf(tmp_path / "small.gguf", byte_level_keys("tekken"))
    model = llama_cpp.Llama(str(path), vocab_only=True, verbose=False)
    tokenizer = Tokenizer.from_gguf(model)
    assert tokenizer.token_bytes == Tokenizer.from_gguf(path).token_bytes
    for seed in range(50):
        ids = tokenizer.encode(text(seed))
        assert ids == model.tokenize(text(seed).encode(), add_bos=False, special=False)
        assert tokenizer.decode(ids) == text(seed)


# --- faults --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("tokens", 3),
        ("tokens", [1, 2]),
        ("model", 5),
        ("model", ["gpt2"]),
        ("token_type", "x"),
        ("token_type", ["a"]),
        ("token_type", [1]),
        ("eos_token_id", "2"),
        ("fim_pad_token_id", [1]),
    ],
)
def test_an_entry_of_another_type_or_length_is_refused(tmp_path, key, value):
    path = write_gguf(tmp_path / "a.gguf", {**byte_level_keys(), key: value})
    with pytest.raises(ValueError, match=rf"tokenizer\.ggml\.{key}"):
        Tokenizer.from_gguf(path)


@pytest.mark.parametrize(
    ("keys", "key", "value"),
    [
        (byte_level_keys(), "merges", [1]),
        (byte_level_keys(), "merges", "a b"),
        (byte_level_keys(), "pre", 1),
        (byte_level_keys(), "pre", ["gpt-2"]),
        (sentence_piece_keys(), "scores", ["a"]),
        (sentence_piece_keys(), "scores", [1.0]),
        (sentence_piece_keys(), "add_space_prefix", 1),
        (word_keys(), "unknown_token_id", 99),
        (word_keys(), "normalizer.lowercase", "no"),
    ],
)
def test_a_wrong_entry_that_only_encode_needs_fails_no_file(read, keys, key, value):
    tokenizer = read({**keys, key: value})
    assert tokenizer.token_bytes == read(keys).token_bytes
    with pytest.warns(
        UserWarning, match=rf"tokenizer\.ggml\.{key} is missing, or has a wrong type or length"
    ):
        assert tokenizer.decode(tokenizer.encode(" the thing")) == " the thing"


@pytest.mark.parametrize("merge", ["Ġ nothing", "a", "", "no such", "t h e"])
def test_a_merge_of_what_is_no_token_is_left_out_with_a_warning(read, merge):
    pytest.importorskip("tokenizers")
    keys = byte_level_keys()
    tokenizer = read({**keys, "merges": [*keys["merges"], merge]})
    with pytest.warns(UserWarning, match=r"1 entries of tokenizer\.ggml\.merges name no tokens"):
        ids = tokenizer.encode("the thing")
    assert ids == read(keys).encode("the thing")


@pytest.mark.parametrize("keys", [byte_level_keys(), sentence_piece_keys()])
def test_tokens_that_are_not_utf_8_are_no_part_of_a_text(read, keys):
    pytest.importorskip("tokenizers")
    broken = {**keys, "tokens": [*keys["tokens"], b"\xff"], "token_type": [*keys["token_type"], NORMAL]}
    if "scores" in keys:
        broken["scores"] = [*keys["scores"], 0.0]
    broken["tokens"] = [t if isinstance(t, bytes) else t.encode() for t in broken["tokens"]]
    assert read(broken).encode("the thing") == read(keys).encode("the thing")
