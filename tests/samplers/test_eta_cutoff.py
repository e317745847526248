import numpy as np
import pytest

from engine_sampler.contract import ParameterError
from engine_sampler.params import SamplingParams
from engine_sampler.samplers.eta_cutoff import EtaCutoff
from engine_sampler.testing import apply_sampler
from tests.reference import kept

from .truncation import assert_leaves_a_prefix, assert_the_same_on_any_subset, at_threshold

SETTINGS = [{"eta_cutoff": x} for x in (1e-7, 3e-4, 0.01, 0.3, 1.0)]


def left(logits, **params):
    return kept(apply_sampler(EtaCutoff(), logits, params))


def threshold(probabilities, eta):
    positive = probabilities[probabilities > 0]
    nats = -(positive * np.log(positive)).sum()
    return min(eta, np.sqrt(eta) * np.exp(-nats))


def test_keeps_probabilities_of_at_least_eta():
    assert_leaves_a_prefix(
        EtaCutoff(), SETTINGS, lambda p, params: at_threshold(p, threshold(p, params["eta_cutoff"]))
    )


def test_the_result_does_not_depend_on_other_rows_or_removed_columns():
    assert_the_same_on_any_subset(EtaCutoff(), SETTINGS)


def test_the_threshold_falls_with_the_entropy():
    # The threshold of 16 equal tokens is sqrt(0.09)/16 = 0.019, that of a peaked row 0.09.
    flat = np.zeros(17)
    flat[16] = np.log(0.5)
    assert left(flat, eta_cutoff=0.09) == set(range(17))
    sure = np.log([0.92, 0.08])
    assert left(sure, eta_cutoff=0.09) == {0}


@pytest.mark.parametrize("size", [4, 64, 2048])
def test_equal_tokens_exactly_at_the_threshold_stay(size):
    assert left(np.zeros(size), eta_cutoff=1.0) == set(range(size))


def test_min_keep_has_no_effect():
    assert left([5.0, 0.0, 0.0], eta_cutoff=0.9, min_keep=3) == {0}


def test_values_out_of_bounds_are_refused():
    with pytest.raises(ParameterError, match=r"eta_cutoff=3 is not allowed: a finite number"):
        SamplingParams(eta_cutoff=3)
