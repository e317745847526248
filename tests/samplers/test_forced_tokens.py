import numpy as np
import pytest

from engine_sampler.contract import ParameterError
from engine_sampler.params import SamplingParams
from engine_sampler.samplers.forced_tokens import ForcedTokens
from engine_sampler.testing import apply_sampler

ROW = np.array([0.5, 2.0, -1.0, 3.0])


def left(prompt=(), output=(), **params):
    row = apply_sampler(ForcedTokens(), ROW, SamplingParams(**params), prompts=[prompt], outputs=[output])
    return {token: float(row[token]) for token in np.flatnonzero(row > -np.inf).tolist()}


UNCHANGED = dict(enumerate(ROW.tolist()))


def test_the_token_after_the_only_one_is_forced():
    assert left([3], forced_bos_token_id=2) == {2: 0.0}
    assert left([], [3], forced_bos_token_id=2) == {2: 0.0}
    assert left([3, 1], forced_bos_token_id=2) == UNCHANGED


def test_the_last_token_is_forced_whichever_limit_is_reached():
    assert left([1], [1, 1], forced_eos_token_id=3, max_tokens=3) == {3: 0.0}
    assert left([1], [1], forced_eos_token_id=3, max_tokens=3) == UNCHANGED
    assert left([1, 1], [1], forced_eos_token_id=[0, 3], max_length=4) == {0: 0.0, 3: 0.0}


def test_a_removed_token_is_not_brought_back():
    params = SamplingParams(forced_eos_token_id=[0, 1], max_tokens=1)
    assert apply_sampler(ForcedTokens(), [-np.inf, 2.0, 1.0], params).tolist() == [-np.inf, 0.0, -np.inf]
    assert apply_sampler(ForcedTokens(), [-np.inf, -np.inf, 1.0], params).tolist() == [-np.inf, -np.inf, 1.0]


def test_a_last_token_needs_a_limit():
    with pytest.raises(ParameterError, match=r"forced_eos_token_id=.* needs max_tokens or max_length"):
        SamplingParams(forced_eos_token_id=3)


def test_none_is_no_token():
    assert SamplingParams(forced_bos_token_id=None, forced_eos_token_id=None) == SamplingParams()
