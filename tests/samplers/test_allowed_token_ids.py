import numpy as np
import pytest

from engine_sampler.contract import ParameterError
from engine_sampler.params import SamplingParams
from engine_sampler.samplers.allowed_token_ids import AllowedTokenIds
from engine_sampler.testing import apply_sampler


def test_every_other_token_is_removed():
    logits = np.arange(50, dtype=np.float32)
    result = apply_sampler(AllowedTokenIds(), logits, SamplingParams(allowed_token_ids=[7, 3, 40]))
    assert np.flatnonzero(result > -np.inf).tolist() == [3, 7, 40]
    assert result[[3, 7, 40]].tolist() == [3.0, 7.0, 40.0]


def test_a_mask_may_leave_no_token():
    result = apply_sampler(AllowedTokenIds(), [1.0, -np.inf], SamplingParams(allowed_token_ids=[1]))
    assert result.tolist() == [-np.inf, -np.inf]


def test_order_and_repetition_of_ids_do_not_matter():
    assert SamplingParams(allowed_token_ids=[2, 1, 2]) == SamplingParams(allowed_token_ids=np.array([1, 2]))


@pytest.mark.parametrize("value", [[], "12", [1.0], [-1], [True], 3, [[1]]])
def test_other_values_are_refused(value):
    with pytest.raises(
        ParameterError, match=r"allowed_token_ids=.* is not allowed: (a list of|at least one) token"
    ):
        SamplingParams(allowed_token_ids=value)


def test_an_id_outside_the_vocabulary_is_named_in_the_error():
    with pytest.raises(ParameterError, match="allowed_token_ids names token id 9, allowed are 0 to 1"):
        apply_sampler(AllowedTokenIds(), [1.0, 2.0], SamplingParams(allowed_token_ids=[0, 9]))
