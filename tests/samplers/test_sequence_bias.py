import json

import numpy as np
import pytest

from engine_sampler.contract import ParameterError
from engine_sampler.params import SamplingParams
from engine_sampler.samplers.sequence_bias import SequenceBias
from engine_sampler.testing import apply_sampler
from tests.drawing import examples, integers, lists

tokens = integers(0, 2)
BIASES = (0.5, -3.0, 2.25)


@examples(400, lists(lists(tokens, 4, 1), 6, 1), lists(tokens, 6), lists(tokens, 6))
def test_every_sequence_that_a_token_completes_adds_its_bias(sequences, prompt, output):
    biases = {tuple(s): BIASES[len(s) % 3] for s in sequences}
    row = np.array([0.5, -1.0, 4.0])
    result = apply_sampler(
        SequenceBias(), row, SamplingParams(sequence_bias=biases), prompts=[prompt], outputs=[output]
    )
    history = [*prompt, *output]
    for token in range(3):
        completed = [b for ids, b in biases.items() if (*history, token)[-len(ids) :] == ids]
        assert result[token] == row[token] + sum(completed)


def test_minus_infinity_removes_a_token_and_nothing_brings_one_back():
    given = {"sequence_bias": [[[0], float("-inf")], [[1], 100.0], [[2, 0], 5.0]]}
    result = apply_sampler(SequenceBias(), [1.0, -np.inf, 2.0], given, prompts=[[2]])
    assert result.tolist() == [-np.inf, -np.inf, 2.0]


def test_both_forms_mean_the_same_and_survive_json():
    params = SamplingParams(sequence_bias={(3, 1): 2, (0,): -1.5})
    assert params == SamplingParams(sequence_bias=[[[3, 1], 2.0], [[0], -1.5]])
    assert SamplingParams.from_dict(json.loads(json.dumps(params.to_dict()))) == params


@pytest.mark.parametrize(
    "wrong", [[[[], 1.0]], [[[1], float("nan")]], [[[1], 1.0], [[1], 2.0]], [[[1.5], 1.0]], [[1, 2.0]], 5]
)
def test_other_biases_are_refused(wrong):
    with pytest.raises(ParameterError, match=r"sequence_bias=.* is not allowed: .*token ids, bias"):
        SamplingParams(sequence_bias=wrong)
