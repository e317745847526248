import pickle
import random

import pytest

from engine_sampler.tokenizer import Tokenizer
from tests.tokenizer.sentence_models import CORPUS, random_text, train

sentencepiece = pytest.importorskip("sentencepiece")


@pytest.fixture(scope="module", params=["bpe", "unigram"])
def model(request, tmp_path_factory):
    return train(tmp_path_factory.mktemp("model") / "small.model", model_type=request.param)


@pytest.fixture(scope="module")
def processor(model):
    return sentencepiece.SentencePieceProcessor(model_file=str(model))


def test_pieces_are_text_bytes_and_names(processor):
    tokenizer = Tokenizer.from_sentencepiece(processor)
    assert tokenizer.token_bytes[processor.piece_to_id("▁cat")] == b" cat"
    assert tokenizer.token_bytes[processor.piece_to_id("<0x0A>")] == b"\n"
    assert tokenizer.token_bytes[processor.piece_to_id("<|sep|>")] == b"<|sep|>"
    assert tokenizer.token_bytes[processor.piece_to_id("<tool>")] == b"<tool>"


def test_control_and_unknown_pieces_are_special(processor):
    tokenizer = Tokenizer.from_sentencepiece(processor)
    names = ["<unk>", "<s>", "</s>", "<|sep|>"]
    assert tokenizer.special_token_ids == {processor.piece_to_id(name) for name in names}
    assert tokenizer.eos_token_ids == (processor.eos_id(),)


def test_every_text_is_recovered_after_a_space(processor):
    tokenizer = Tokenizer.from_sentencepiece(processor)
    for seed in range(300):
        text = random_text(random.Random(seed))
        ids = tokenizer.encode(text)
        assert ids == processor.encode(text)
        assert tokenizer.decode(ids) == (f" {text}" if text else "")
        assert processor.decode(ids) == text


def test_a_path_is_loaded(model, processor):
    tokenizer = Tokenizer.from_sentencepiece(model)
    assert tokenizer.token_bytes == Tokenizer.from_sentencepiece(processor).token_bytes
    assert tokenizer.encode("the cat") == processor.encode("the cat")


def test_it_can_be_pickled(processor):
    copy = pickle.loads(pickle.dumps(Tokenizer.from_sentencepiece(processor)))
    assert copy.encode(CORPUS[0]) == processor.encode(CORPUS[0])


def test_a_model_may_have_no_eos(tmp_path):
    tokenizer = Tokenizer.from_sentencepiece(train(tmp_path / "a.model", eos_id=-1))
    assert tokenizer.eos_token_ids == ()
    assert tokenizer.eot_token_id is None
