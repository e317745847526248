"""Ranking and cuts, compared with a plain stable sort."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine_sampler.arithmetic import distances, mass_reaching, ranking, weights

WIDTHS = [1, 7, 200, ranking.NARROW, ranking.NARROW + 1, 5000]


def some_rows(seed: int, m: int, *, ties: bool = False, removed: float = 0.0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(4, m)) * 4
    rows = (np.round(rows) if ties else rows).astype(np.float32)
    is_removed = rng.random((4, m)) < removed
    is_removed[:, m // 2] = False
    rows[is_removed] = -np.inf
    return rows


def plain_order(row: np.ndarray) -> list[int]:
    """Columns sorted by (logit descending, column ascending), by Python's sort."""
    return sorted(range(len(row)), key=lambda i: (-row[i], i))


def first(row: np.ndarray, k: int) -> np.ndarray:
    mask = np.zeros(len(row), bool)
    mask[plain_order(row)[:k]] = True
    return mask


# --- order ---------------------------------------------------------------------------------------


@given(
    st.lists(
        st.floats(width=32, allow_nan=False).map(lambda x: -np.inf if x == np.inf else x),
        min_size=1,
        max_size=60,
    )
)
def test_descending_is_a_stable_sort_for_any_floats(values: list[float]) -> None:
    row = np.array(values, np.float32)
    assert ranking.descending(row[None])[0].tolist() == plain_order(row)


def test_zeros_of_either_sign_tie() -> None:
    assert ranking.descending(np.array([[-0.0, 0.0, 1.0, -0.0]], np.float32)).tolist() == [[2, 0, 1, 3]]


@pytest.mark.parametrize("m", WIDTHS)
@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("removed", [0.0, 0.97])
def test_the_first_columns_are_those_of_a_full_sort(m: int, ties: bool, removed: float) -> None:
    rows = some_rows(m, m, ties=ties, removed=removed)
    for k in {1, 2, 5, 40, m // 3, m - 1, m} & set(range(1, m + 1)):
        expected = [plain_order(row)[:k] for row in rows]
        assert [ranking.top_columns(row, k).tolist() for row in rows] == expected
        assert ranking.first_columns(rows, k).tolist() == expected


def test_the_first_columns_of_a_row_of_ties_are_the_lowest() -> None:
    assert ranking.top_columns(np.zeros(5000, np.float32), 30).tolist() == list(range(30))


# --- cuts ----------------------------------------------------------------------------------------


def test_reorder_picks_columns_row_by_row() -> None:
    values = np.array([[10, 11, 12], [20, 21, 22]])
    assert ranking.reorder(values, np.array([[2, 0], [1, 1]])).tolist() == [[12, 10], [21, 21]]


@pytest.mark.parametrize("m", WIDTHS)
@pytest.mark.parametrize("share", [0.0, 0.3, 0.9, 0.999999, 1.0])
@pytest.mark.parametrize("removed", [0.0, 0.8])
def test_keep_prefix_is_the_same_for_narrow_and_wide_rows(m: int, share: float, removed: float) -> None:
    rows = some_rows(3, m, ties=True, removed=removed)
    y = distances(rows)
    w = weights(y)
    need = mass_reaching(np.full(len(rows), share), w.sum(axis=1))

    def count(which: slice, order: np.ndarray) -> np.ndarray:
        mass = np.take_along_axis(w[which], order, axis=1).cumsum(axis=1)
        return np.minimum((mass < need[which, None]).sum(axis=1) + 1, order.shape[1])

    for row, weight, least, mask in zip(rows, w, need, ranking.keep_prefix(rows, y, count), strict=True):
        order = plain_order(row)
        kept = int((weight[order].cumsum() < least).sum()) + 1
        assert np.array_equal(mask, first(row, kept))


def test_keep_heavy_ends_at_the_first_light_token_in_order() -> None:
    logits = np.array([[5, 4, 3, 2, 1]], np.float32)
    w = np.array([[100, 50, 60, 70, 10]])  # not monotone: 60 and 70 come after 50
    assert ranking.keep_heavy(logits, w, np.array([60])).tolist() == [[True, False, False, False, False]]
    assert ranking.keep_heavy(logits, w, np.array([50])).tolist() == [[True, True, True, True, False]]


def test_keep_heavy_keeps_the_best_token_whatever_the_need() -> None:
    logits = np.array([[1, 3, 3]], np.float32)
    assert ranking.keep_heavy(logits, np.array([[1, 2, 2]]), np.array([99])).tolist() == [
        [False, True, False]
    ]


def test_keep_above_best_keeps_all_if_none_fails() -> None:
    logits = np.array([[1, -np.inf, 3]], np.float32)
    assert ranking.keep_above_best(logits, np.zeros((1, 3), bool)).tolist() == [[True, False, True]]


def test_keep_above_best_drops_tokens_that_tie_with_a_failing_one() -> None:
    logits = np.array([[2, 1, 1, 3]], np.float32)
    failing = np.array([[False, False, True, False]])
    assert ranking.keep_above_best(logits, failing).tolist() == [[True, False, False, True]]


@given(st.integers(0, 2**32), st.integers(2, 60))
@settings(deadline=None)
def test_cuts_do_not_depend_on_removed_columns(seed: int, m: int) -> None:
    rows = some_rows(seed, m, ties=True, removed=0.5)[:1]
    alive = rows[0] > -np.inf
    few = rows[:, alive]
    failing = np.random.default_rng(seed).random((1, m)) < 0.3
    whole, part = (
        ranking.keep_above_best(rows, failing & alive),
        ranking.keep_above_best(few, failing[:, alive]),
    )
    assert np.array_equal(whole[:, alive], part)
