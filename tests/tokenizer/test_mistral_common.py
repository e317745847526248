import base64
import json
import pickle
from pathlib import Path
from types import SimpleNamespace

import pytest

from engine_sampler.tokenizer import Tokenizer
from tests.tokenizer.sentence_models import train

mistral_common = pytest.importorskip("mistral_common")

SPECIAL = "<unk> <s> </s> [INST] [/INST] [AVAILABLE_TOOLS] [/AVAILABLE_TOOLS] [TOOL_RESULTS] [/TOOL_RESULTS]"
SPECIAL = f"{SPECIAL} [TOOL_CALLS] [IMG] <pad> [IMG_BREAK] [IMG_END] [PREFIX] [MIDDLE] [SUFFIX]".split()
SPECIAL += "[SYSTEM_PROMPT] [/SYSTEM_PROMPT] [TOOL_CONTENT] [ARGS] [CALL_ID]".split()
SPECIALS = len(SPECIAL) + 3
WORDS = [b" a", b"ab", "é".encode(), b"\n\n"]


@pytest.fixture(scope="module")
def tekken(tmp_path_factory):
    """The path of a small Tekken file: special tokens, three of them nameless, and 260 text tokens."""
    vocab = [bytes([byte]) for byte in range(256)] + WORDS
    written = {
        "config": {
            "pattern": r" ?\w+|\s+|[^\s\w]+",
            "num_vocab_tokens": len(vocab),
            "default_vocab_size": len(vocab) + SPECIALS,
            "default_num_special_tokens": SPECIALS,
            "version": "v11",
        },
        "vocab": [
            {"rank": i, "token_bytes": base64.b64encode(data).decode(), "token_str": None}
            for i, data in enumerate(vocab)
        ],
        "special_tokens": [
            {"rank": i, "token_str": name, "is_control": True} for i, name in enumerate(SPECIAL)
        ],
    }
    path = tmp_path_factory.mktemp("tekken") / "tekken.json"
    path.write_text(json.dumps(written))
    return path


def test_special_tokens_precede_the_ranks(tekken):
    tokenizer = Tokenizer.from_mistral_common(tekken)
    assert tokenizer.special_token_ids == set(range(SPECIALS))
    assert tokenizer.token_bytes[: len(SPECIAL)] == tuple(name.encode() for name in SPECIAL)
    assert tokenizer.token_bytes[SPECIALS:] == (*(bytes([byte]) for byte in range(256)), *WORDS)
    assert tokenizer.eos_token_ids == (2,)


def test_every_text_is_recovered(tekken):
    tokenizer = Tokenizer.from_mistral_common(tekken)
    assert tokenizer.encode(" ab a") == [SPECIALS + i for i in (256, ord("b"), 256)]
    for text in ["", "é\n\n☃", "</s>", " ab [INST]  \x00"]:
        assert tokenizer.decode(tokenizer.encode(text)) == text


def test_a_chat_tokenizer_contains_the_text_tokenizer(tekken):
    from mistral_common.tokens.tokenizers.mistral import MistralTokenizer

    chats = MistralTokenizer.from_file(str(tekken))
    alone = Tokenizer.from_mistral_common(tekken)
    for source in (chats, chats.instruct_tokenizer, chats.instruct_tokenizer.tokenizer):
        tokenizer = Tokenizer.from_mistral_common(source)
        assert tokenizer.token_bytes == alone.token_bytes
        assert tokenizer.encode("é ab") == alone.encode("é ab")
    in_transformers = SimpleNamespace(tokenizer=chats, eos_token_id=2)
    assert Tokenizer.from_transformers(in_transformers).token_bytes == alone.token_bytes


def test_it_can_be_pickled(tekken):
    copy = pickle.loads(pickle.dumps(Tokenizer.from_mistral_common(tekken)))
    assert copy.encode(" ab") == Tokenizer.from_mistral_common(tekken).encode(" ab")


def test_older_files_are_read_by_sentencepiece(tmp_path):
    pytest.importorskip("sentencepiece")
    path = train(tmp_path / "tokenizer.model.v3")
    tokenizer = Tokenizer.from_mistral_common(path)
    assert tokenizer.decode(tokenizer.encode("the cat")) == " the cat"
    assert tokenizer.eos_token_ids == (2,)


def test_a_published_sentencepiece_model_is_read():
    pytest.importorskip("sentencepiece")
    path = Path(mistral_common.__file__).parent / "data" / "mistral_instruct_tokenizer_241114.model.v7"
    tokenizer = Tokenizer.from_mistral_common(path)
    assert len(tokenizer) == 32768
    assert tokenizer.ids_of(b"\n")
    assert tokenizer.ids_of(b" the")
    assert {b"<unk>", b"[INST]"} <= {tokenizer.token_bytes[i] for i in tokenizer.special_token_ids}


def test_a_missing_file_is_named_in_the_error(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"none\.json"):
        Tokenizer.from_mistral_common(tmp_path / "none.json")
