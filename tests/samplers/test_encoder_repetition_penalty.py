import numpy as np
import pytest

from engine_sampler.samplers.encoder_repetition_penalty import EncoderRepetitionPenalty
from engine_sampler.samplers.penalties import Penalties
from engine_sampler.testing import apply_sampler

ROW = np.random.default_rng(4).normal(0, 3, 12)


@pytest.mark.parametrize("penalty", [1.2, 2.0, 0.5])
def test_it_is_the_inverse_repetition_penalty_on_the_prompt(penalty):
    given = {"encoder_repetition_penalty": penalty}
    result = apply_sampler(EncoderRepetitionPenalty(), ROW, given, prompts=[[3, 1, 3, 7]], outputs=[[2, 5]])
    inverse = {"repetition_penalty": 1 / penalty}
    np.testing.assert_array_equal(result, apply_sampler(Penalties(), ROW, inverse, prompts=[[3, 1, 7]]))
