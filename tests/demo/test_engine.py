"""Vocabulary and engine: learnt from text, deterministically."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("tokenizers")

from engine_sampler.demo.engine import END_ID, START_ID, Engine, learn_vocabulary, wrap

DOCUMENTS = [
    "The cat sat on the mat. The cat saw the rat.",
    "A rat ran over the mat — and the cat ran after it.",
    "naïve 猫 and 🐈 sat on the mat.",
]


@pytest.fixture(scope="module")
def engine() -> Engine:
    return Engine.learn(DOCUMENTS)


def test_the_special_tokens_come_first(engine):
    assert engine.tokenizer.token_bytes[END_ID] == b"<|endoftext|>"
    assert engine.tokenizer.eos_token_ids == (END_ID,)
    assert engine.tokenizer.special_token_ids == {END_ID, START_ID}


@pytest.mark.parametrize("text", ["The cat", "unseen wörds 犬", "  spaces\n\nand\tlines", ""])
def test_any_text_survives_encoding_and_decoding(engine, text):
    assert engine.tokenizer.decode(engine.tokenizer.encode(text)) == text


def test_frequent_words_become_one_token(engine):
    assert len(engine.tokenizer.encode(" cat")) == 1


def test_the_vocabulary_is_the_same_every_time():
    documents = DOCUMENTS * 3
    assert learn_vocabulary(documents).get_vocab() == learn_vocabulary(documents).get_vocab()


def test_the_vocabulary_has_at_most_the_requested_size():
    assert len(wrap(learn_vocabulary(DOCUMENTS, 270))) == 270


def test_the_engine_predicts_over_the_whole_vocabulary(engine):
    assert engine.model.logits([[]]).shape == (1, len(engine.tokenizer))


def test_the_engine_continues_a_text_that_it_has_learnt(engine):
    text = engine.tokenizer.encode("A rat ran over")
    logits = engine.model.logits([text])[0]
    assert engine.tokenizer.token_bytes[int(logits.argmax())] == b" the"


def test_the_engine_is_the_same_every_time(engine):
    again = Engine.learn(DOCUMENTS)
    contexts = [[], engine.tokenizer.encode("The cat")]
    np.testing.assert_array_equal(again.model.logits(contexts), engine.model.logits(contexts))


def test_the_engine_is_loaded_from_a_file(tmp_path, engine):
    file = tmp_path / "text"
    file.write_text("\n\n".join(DOCUMENTS), encoding="utf-8")
    assert Engine.load(file).tokenizer.token_bytes == engine.tokenizer.token_bytes
