import json

import numpy as np
import pytest

from engine_sampler.contract import ParameterError
from engine_sampler.params import SamplingParams
from engine_sampler.samplers.bad_words import BadWords
from engine_sampler.testing import apply_sampler
from engine_sampler.tokenizer import Tokenizer
from tests.conftest import shared_data
from tests.drawing import examples, integers, lists


def banned(bad_words, history=(), vocab_size=6, **known):
    row = apply_sampler(
        BadWords(), np.zeros(vocab_size), SamplingParams(bad_words=bad_words), prompts=[history], **known
    )
    return np.flatnonzero(row == -np.inf).tolist()


LETTERS = Tokenizer([b"a", b"b", b" a", b"ab", b" ab", b" ", b"</s>"], eos_token_ids=[6])

tokens = integers(0, 2)


@examples(600, lists(lists(tokens, 4, 1), 5, 1), lists(tokens, 6), lists(tokens, 6))
def test_the_token_that_would_complete_a_sequence_is_removed(sequences, prompt, output):
    row = apply_sampler(
        BadWords(), np.zeros(3), SamplingParams(bad_words=sequences), prompts=[prompt], outputs=[output]
    )
    history = prompt + output
    for token in range(3):
        finished = any([*history, token][-len(s) :] == s for s in sequences)
        assert (row[token] == -np.inf) == finished


@pytest.mark.parametrize("name", ["bad_words", "bad_words_only_eos"])
def test_transformers_cases(name):
    cases = json.loads(shared_data("logits_process_cases.json").read_text())["cases"]
    case = next(c for c in cases if c["id"] == name)
    params = SamplingParams(bad_words=case["params"]["bad_words_ids"])
    eos = (case["params"]["eos_token_id"],)
    scores, prompts = case["scores"], case["input_ids"]
    result = apply_sampler(BadWords(), scores, [params] * 2, prompts=prompts, eos_token_ids=eos)
    expected = case["expect"].get("neg_inf_mask", np.zeros_like(scores))
    assert ((result == -np.inf) == np.array(expected, bool)).all()


def test_only_a_sequence_of_eos_alone_is_ignored():
    assert banned([[5, 0]], history=[5], eos_token_ids=(5,)) == [0]
    assert banned([[0, 5], [5]], history=[0], eos_token_ids=(5,)) == [5]
    assert banned([[5]], history=[0], eos_token_ids=(5,)) == []


def test_a_text_counts_without_and_with_a_space():
    assert banned(["ab"], tokenizer=LETTERS, vocab_size=7) == [3, 4]
    assert banned([" ab"], tokenizer=LETTERS, vocab_size=7) == [3, 4]


def test_spellings_of_several_tokens_need_their_beginning_first():
    assert banned(["ba"], tokenizer=LETTERS, vocab_size=7) == []
    assert banned(["ba"], history=[1], tokenizer=LETTERS, vocab_size=7) == [0]


def test_a_text_of_spaces_is_taken_literally():
    assert banned([" "], tokenizer=LETTERS, vocab_size=7) == [5]


def test_a_spelling_that_no_tokens_form_is_left_out():
    no_space = Tokenizer([b"a", b"b"])
    assert banned(["b"], tokenizer=no_space, vocab_size=2) == [1]


def test_a_text_that_no_tokens_form_is_refused():
    with pytest.raises(
        ParameterError, match="bad_words names 'x', which the vocabulary's tokens cannot spell"
    ):
        banned(["x"], tokenizer=LETTERS)


def test_a_text_needs_a_tokenizer():
    with pytest.raises(ParameterError, match="bad_words is given as text, which needs a tokenizer"):
        banned(["x"])


def test_ids_outside_the_vocabulary_are_named_in_the_error():
    with pytest.raises(ParameterError, match="bad_words names token id 6, allowed are 0 to 5"):
        banned([[0, 6]])
    with pytest.raises(ParameterError, match="bad_words names token id 3, allowed are 0 to 2"):
        banned(["ab"], tokenizer=LETTERS, vocab_size=3)


def test_a_single_id_and_a_list_of_one_id_are_equivalent():
    assert SamplingParams(bad_words=[3, "x"]) == SamplingParams(bad_words=((3,), "x", [3]))


def test_a_text_without_bytes_is_refused():
    with pytest.raises(ParameterError, match=r"bad_words=.* is not allowed: .*surrogates not allowed"):
        SamplingParams(bad_words=["\ud800"])


@pytest.mark.parametrize("value", ["word", [""], [[]], [1.5], [[1, "a"]], [None], [-1], [True], 5])
def test_other_values_are_refused(value):
    with pytest.raises(ParameterError, match=r"bad_words=.* is not allowed: a list whose entries are texts"):
        SamplingParams(bad_words=value)
