import numpy as np
import pytest

from engine_sampler import SamplingParams
from engine_sampler.params import build_chain
from engine_sampler.samplers.repetition_ngram import RepetitionNgram
from engine_sampler.testing import apply_sampler
from tests.drawing import examples, integers, lists

EOS = 3


def left(n, threshold, output, row=(1.0, 2.0, 3.0, -4.0), eos=(EOS,)):
    params = {"repetition_ngram_size": n, "repetition_ngram_threshold": threshold}
    result = apply_sampler(RepetitionNgram(), row, params, outputs=[output], eos_token_ids=eos)
    return np.flatnonzero(result > -np.inf).tolist()


@examples(600, integers(1, 4), integers(1, 4), lists(integers(0, 2), 16))
def test_only_eos_is_left_once_the_last_tokens_have_occurred_often_enough(n, threshold, output):
    found = sum(output[i : i + n] == output[-n:] for i in range(len(output) - n + 1))
    ends = len(output) >= n and found >= threshold
    assert left(n, threshold, output) == ([EOS] if ends else [0, 1, 2, 3])


def test_the_prompt_and_what_is_far_back_do_not_count():
    assert left(2, 2, [0, 1, *[2] * 1021, 0, 1]) == [0, 1, 2, 3]
    assert left(2, 2, [0, 1, *[2] * 1020, 0, 1]) == [EOS]


@pytest.mark.parametrize(("row", "eos"), [((1.0, 2.0, 3.0, -np.inf), (EOS,)), ((1.0, 2.0, 3.0, 1.0), ())])
def test_without_an_eos_nothing_changes(row, eos):
    assert left(1, 1, [0, 0], row, eos) == np.flatnonzero(np.array(row) > -np.inf).tolist()


def test_one_of_the_two_alone_is_off():
    assert left(1, 0, [0, 0, 0]) == [0, 1, 2, 3]
    assert str(build_chain(SamplingParams(repetition_ngram_threshold=3))) == "dist"
