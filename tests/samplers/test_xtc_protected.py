import numpy as np
import pytest

from engine_sampler.samplers.xtc import Xtc
from engine_sampler.samplers.xtc_protected import XtcProtected
from engine_sampler.testing import apply_sampler
from tests.reference import kept, order, softmax


def left(logits, protected, threshold=0.05, **more):
    params = {"xtc_probability": 1.0, "xtc_threshold": threshold, "xtc_protected_ids": protected, **more}
    return kept(apply_sampler(XtcProtected(), logits, params))


@pytest.mark.parametrize("seed", range(20))
def test_protected_tokens_are_neither_dropped_nor_the_one_that_stays(seed):
    random = np.random.default_rng(seed)
    row, protected = random.normal(0, 2, 30), random.integers(0, 30, 12).tolist()
    above = [t for t in order(row).tolist() if softmax(row)[t] >= 0.05 and t not in protected]
    assert left(row, protected) == set(range(30)) - set(above[:-1])


def test_the_cases_of_exllamav3():
    row = [2.0, 1.0, 0.5, -1.0]
    assert left(row, [3], 0.1) == {2, 3}
    assert left(row, [2], 0.1) == {1, 2, 3}


def test_the_coin_is_that_of_xtc():
    rows, params = np.zeros((64, 4)), {"xtc_probability": 0.5, "xtc_protected_ids": [3]}
    few = apply_sampler(XtcProtected(), rows, params, seeds=range(64))
    plain = apply_sampler(Xtc(), rows, {"xtc_probability": 0.5}, seeds=range(64))
    assert (few[:, 0] == plain[:, 0]).all()
    assert 0 < (few[:, 0] == 0).sum() < 64
