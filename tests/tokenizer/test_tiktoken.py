import pickle
import random

import pytest

from engine_sampler.tokenizer import Tokenizer

tiktoken = pytest.importorskip("tiktoken")

MERGES = [b" a", b"ab", b" ab", b"\n\n", "é".encode(), b"12", b"  "]


def encoding(specials=("<|endoftext|>", "<|im_end|>")):
    ranks = {bytes([byte]): byte for byte in range(256)} | {data: 256 + i for i, data in enumerate(MERGES)}
    return tiktoken.Encoding(
        "small",
        pat_str=r" ?\w+|\s+|[^\s\w]+",
        mergeable_ranks=ranks,
        special_tokens={name: 300 + 5 * i for i, name in enumerate(specials)},
    )


def test_tokens_are_their_bytes_and_gaps_have_none():
    tokenizer = Tokenizer.from_tiktoken(encoding())
    assert tokenizer.token_bytes[:256] == tuple(bytes([byte]) for byte in range(256))
    assert tokenizer.token_bytes[256:263] == tuple(MERGES)
    assert set(tokenizer.token_bytes[263:300]) == {b""}
    assert len(tokenizer) == 306


def test_special_tokens_are_their_names_and_one_ends_a_text():
    tokenizer = Tokenizer.from_tiktoken(encoding())
    assert tokenizer.special_token_ids == {300, 305}
    assert tokenizer.eos_token_ids == (300,)
    assert tokenizer.decode([97, 305, 300], skip_special_tokens=False) == "a<|im_end|>"


def test_without_a_known_end_there_is_no_eos():
    tokenizer = Tokenizer.from_tiktoken(encoding(["<|stop|>"]))
    assert (tokenizer.eos_token_ids, tokenizer.special_token_ids) == ((), {300})
    assert Tokenizer.from_tiktoken(encoding(["<|stop|>"]), eos_token_ids=300).eos_token_ids == (300,)
    assert Tokenizer.from_tiktoken(encoding([])).special_token_ids == set()


def test_every_text_is_recovered():
    source = encoding()
    tokenizer = Tokenizer.from_tiktoken(source)
    rng = random.Random(0)
    for _ in range(300):
        text = "".join(rng.choice(["a", "ab", " ", "é", "☃", "\n", "12", "<|endoftext|>"]) for _ in range(9))
        ids = tokenizer.encode(text)
        assert ids == source.encode_ordinary(text)
        assert not tokenizer.special_token_ids.intersection(ids)
        assert tokenizer.decode(ids) == source.decode(ids) == text


def test_it_can_be_pickled():
    copy = pickle.loads(pickle.dumps(Tokenizer.from_tiktoken(encoding())))
    assert copy.encode(" ab") == [258]


def test_a_name_is_looked_up(monkeypatch):
    source = encoding()
    monkeypatch.setattr(tiktoken, "get_encoding", {"small": source}.__getitem__)
    assert Tokenizer.from_tiktoken("small").token_bytes == Tokenizer.from_tiktoken(source).token_bytes
