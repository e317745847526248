import numpy as np
import pytest

from engine_sampler.contract import ParameterError
from engine_sampler.params import SamplingParams
from engine_sampler.samplers.top_p import TopP
from engine_sampler.samplers.top_p_decay import TopPDecay
from engine_sampler.testing import apply_sampler
from tests.drawing import examples, integers, lists

ROW = np.random.default_rng(3).normal(0, 2, 200)


def share_after(output, first, decay, least=1e-6, resets=()):
    p = first
    for token in output:
        p = first if token in resets else max(p * decay, least)
    return p


@examples(60, lists(integers(0, 5), 12))
def test_the_cut_is_that_of_top_p_with_the_decayed_share(output):
    given = {"top_p": 0.95, "top_p_decay": 0.7, "top_p_min": 0.05, "top_p_reset_ids": [0, 3]}
    p = share_after(output, 0.95, 0.7, 0.05, (0, 3))
    expected = apply_sampler(TopP(), ROW, {"top_p": p})
    np.testing.assert_array_equal(apply_sampler(TopPDecay(), ROW, given, outputs=[output]), expected)


def test_the_prompt_neither_lowers_the_share_nor_resets_it():
    given = {"top_p": 0.9, "top_p_decay": 0.5, "top_p_reset_ids": [1]}
    expected = apply_sampler(TopP(), ROW, {"top_p": 0.45})
    result = apply_sampler(TopPDecay(), ROW, given, prompts=[[5, 5, 1, 5]], outputs=[[2]])
    np.testing.assert_array_equal(result, expected)


@pytest.mark.parametrize(("given", "normal"), [(-1, ()), (7, (7,)), ([7, 8, 7], (7, 8))])
def test_reset_ids_are_several_or_one_or_none(given, normal):
    assert SamplingParams(top_p_reset_ids=given).top_p_reset_ids == normal


@pytest.mark.parametrize("wrong", [True, -2, "1", [1.5]])
def test_other_reset_ids_are_refused(wrong):
    with pytest.raises(ParameterError, match="top_p_reset_ids="):
        SamplingParams(top_p_reset_ids=wrong)
