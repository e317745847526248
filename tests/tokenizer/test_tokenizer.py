import pickle
import subprocess
import sys

import pytest

from engine_sampler.tokenizer import Tokenizer, tiktoken
from engine_sampler.tokenizer.table import TokenTable

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


def test_text_is_never_encoded_as_special_tokens():
    with pytest.raises(ValueError, match="no token matches the start of b'</s>'"):
        SMALL.encode("a</s>")


def test_the_models_own_encoder_is_used():
    assert Tokenizer([b"a"], encode=lambda text: [0] * len(text)).encode("xyz") == [0, 0, 0]


def test_bytes_within_a_text_are_split_without_the_encoders_dummy_prefix():
    prefixed = Tokenizer([b" ", b"a", b"aa"], encode=lambda text: [0, *(1 for _ in text)])
    assert prefixed.split_bytes(b"aaa") == [2, 1]
    assert Tokenizer([b"a", b"aa"], encode=lambda text: [0 for _ in text]).split_bytes(b"aa") == [0, 0]
    with pytest.raises(ValueError, match="no token matches"):
        prefixed.split_bytes(b"b")


def test_bytes_that_are_text_are_encoded_by_the_encoder():
    tokenizer = Tokenizer([b"a", b"\xc3", b"\xa9"], encode=lambda text: [0])
    assert tokenizer.encode_bytes("é".encode()) == [0]


def test_invalid_utf8_is_split_by_the_longest_token():
    assert SMALL.encode_bytes(b"\xa9ab") == [5, 2]
    with pytest.raises(ValueError, match="no token matches the start of"):
        SMALL.encode_bytes(b"\xff")


# --- tokens to text ------------------------------------------------------------------------------


def test_decoding_joins_bytes_before_decoding_utf8():
    assert SMALL.decode([4, 5, 0]) == "éa"
    assert SMALL.decode([4, 0]) == "�a"


def test_eos_has_no_text_and_special_tokens_only_if_requested():
    assert SMALL.decode([0, 8, 7]) == "a"
    assert SMALL.decode([0, 8, 7], skip_special_tokens=False) == "a<i>"


def test_ids_beyond_the_vocabulary_have_no_text():
    assert SMALL.text_bytes(9) == SMALL.text_bytes(-1) == b""


def test_tokens_are_found_by_their_bytes():
    assert SMALL.ids_of(b"a") == (0, 6)
    assert SMALL.ids_of(b"</s>") == ()
    assert len(SMALL) == 9


# --- made from a table ----------------------------------------------------------------------------


def small_table(source):
    return TokenTable([b"a", b"b", b"</s>", b"<eot>"], (2,), (2,), 3, encode=ord_of_each)


def ord_of_each(text):
    return [ord(char) - ord("a") for char in text]


@pytest.fixture
def from_source(monkeypatch):
    monkeypatch.setattr(tiktoken, "read", small_table)
    return lambda **given: Tokenizer.from_tiktoken(None, **given)


def test_a_source_declares_which_tokens_end_a_text(from_source):
    tokenizer = from_source()
    assert (tokenizer.eos_token_ids, tokenizer.eot_token_id) == ((2,), 3)
    assert tokenizer.special_token_ids == {2, 3}
    assert tokenizer.encode("ba") == [1, 0]


def test_the_callers_values_override_it(from_source):
    assert from_source(eos_token_ids=1).eos_token_ids == (1,)
    assert from_source(eos_token_ids=[0, 1]).eos_token_ids == (0, 1)
    assert from_source(eos_token_ids=()).eos_token_ids == ()
    assert from_source(special_token_ids=[0]).special_token_ids == {0, 2, 3}
    assert from_source(eot_token_id=2).eot_token_id == 2


def test_ids_from_the_caller_are_checked_too(from_source):
    with pytest.raises(ValueError, match=r"token id 4 is outside 0\.\.3"):
        from_source(eos_token_ids=[4])


def test_a_tokenizer_is_pickled_with_its_encoder(from_source):
    tokenizer = from_source()
    tokenizer.ids_of(b"a")
    copy = pickle.loads(pickle.dumps(tokenizer))
    assert vars(copy) == vars(tokenizer)
    assert copy.encode("ab") == [0, 1]


def test_a_subclass_returns_its_own_objects(monkeypatch):
    class Own(Tokenizer):
        pass

    monkeypatch.setattr(tiktoken, "read", small_table)
    assert type(Own.from_tiktoken(None)) is Own


LIBRARIES = "tokenizers transformers tiktoken sentencepiece mistral_common llama_cpp gguf torch".split()


def test_no_library_is_imported_before_it_is_needed():
    modules = "huggingface tiktoken sentencepiece mistral_common gguf".split()
    program = "import sys, engine_sampler.tokenizer;" + "".join(
        f"import engine_sampler.tokenizer.{name};" for name in modules
    )
    run = subprocess.run(
        [sys.executable, "-c", f"{program} print(*sys.modules)"], capture_output=True, text=True, check=True
    )
    assert not set(LIBRARIES).intersection(run.stdout.split())
