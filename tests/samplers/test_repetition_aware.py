import numpy as np
import pytest

from engine_sampler.samplers.dist import Dist
from engine_sampler.samplers.repetition_aware import RepetitionAware
from engine_sampler.testing import select
from tests.reference import softmax

from .drawing import by_seed

ROW = np.array([2.0, 1.5, 1.0, 0.5, 0.0, -1.0])
N = 3000


def drawn(output, **params):
    logits = np.tile(ROW.astype(np.float32), (N, 1))
    given = {"ras_win_len": 4, "ras_win_max_num_repeat": 2, **params}
    return select(RepetitionAware(), logits, given, seeds=range(1, N + 1), outputs=[output] * N).columns


def shares(columns):
    return np.bincount(columns, minlength=len(ROW)) / len(columns)


def test_without_repeats_it_draws_as_the_truncated_distribution_does():
    cut = ROW.copy()
    cut[3:] = -np.inf
    expected = by_seed(Dist(), cut, {}, N)
    np.testing.assert_array_equal(drawn([5, 4, 3, 0], top_k=3)[:2], by_seed_at(cut, [5, 4, 3, 0])[:2])
    assert abs(shares(drawn([], top_k=3)) - shares(expected)).max() < 0.04


def by_seed_at(row, output):
    logits = np.tile(row.astype(np.float32), (N, 1))
    return select(Dist(), logits, {}, seeds=range(1, N + 1), outputs=[output] * N).columns


def test_a_token_that_recurs_is_drawn_again_from_the_whole_distribution():
    cut, whole = ROW.copy(), softmax(ROW)
    cut[3:] = -np.inf
    first, output = softmax(cut), [0, 0, 5, 5]
    expected = np.where([False, True, True, False, False, False], first, 0.0) + first[0] * whole
    assert abs(shares(drawn(output, top_k=3)) - expected).max() < 0.04
    kept = by_seed_at(cut, output)
    assert (drawn(output, top_k=3)[kept != 0] == kept[kept != 0]).all()


def test_only_the_window_of_the_output_counts():
    assert set(drawn([0, 0, 5, 5, 5], top_k=1)) == {0}
    assert len(set(drawn([5, 0, 0, 5, 5], top_k=1))) == 6


@pytest.mark.parametrize(
    ("params", "left"),
    [({"top_p": 0.5}, {0, 1}), ({"min_p": 0.5}, {0, 1}), ({"top_p": 0.5, "top_k": 1}, {0})],
)
def test_each_cut_reads_the_whole_distribution(params, left):
    assert set(drawn([], **params)) == left
