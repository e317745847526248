import numpy as np

from engine_sampler.params import SamplingParams
from engine_sampler.samplers.ignore_eos import IgnoreEos
from engine_sampler.testing import apply_sampler


def without_eos(logits, eos):
    return apply_sampler(IgnoreEos(), logits, SamplingParams(ignore_eos=True), eos_token_ids=eos).tolist()


def test_every_eos_token_is_removed():
    assert without_eos([1.0, 2.0, 3.0], (0, 2)) == [-np.inf, 2.0, -np.inf]


def test_a_row_of_eos_tokens_alone_is_unchanged():
    assert without_eos([1.0, -np.inf, 3.0], (0, 2)) == [1.0, -np.inf, 3.0]


def test_without_eos_tokens_nothing_changes():
    assert without_eos([1.0, -np.inf], ()) == [1.0, -np.inf]
