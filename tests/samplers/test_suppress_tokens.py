import numpy as np

from engine_sampler.samplers.suppress_tokens import SuppressTokens
from engine_sampler.testing import apply_sampler


def removed(prompt=(), output=(), **params):
    row = apply_sampler(SuppressTokens(), np.zeros(6), params, prompts=[prompt], outputs=[output])
    return np.flatnonzero(row == -np.inf).tolist()


def test_suppressed_tokens_are_never_drawn():
    assert removed(suppress_tokens=[4, 1, 4]) == [1, 4]
    assert removed([1], [2, 3], suppress_tokens=[4, 1]) == [1, 4]


def test_those_of_the_beginning_may_come_later():
    assert removed([0, 0], begin_suppress_tokens=[2]) == [2]
    assert removed([0, 0], [1], begin_suppress_tokens=[2]) == []


def test_a_forced_first_token_shifts_the_beginning_by_one():
    given = {"begin_suppress_tokens": [2], "forced_bos_token_id": 5}
    assert removed([0], **given) == []
    assert removed([0], [5], **given) == [2]
    assert removed([0], [5, 1], **given) == []
    assert removed([0, 0], **given) == [2]
