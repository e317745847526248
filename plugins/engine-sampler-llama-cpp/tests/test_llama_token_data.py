from __future__ import annotations

import numpy as np
import pytest
from engine_sampler_llama_cpp import candidates

from tests.reference import NEG_INF, order, softmax

ROW = np.array([0.5, NEG_INF, 2.0, -1.0, 2.0, NEG_INF], np.float32)


def test_removed_tokens_are_not_candidates() -> None:
    found = candidates(ROW)
    assert found.ids.tolist() == [0, 2, 3, 4]
    assert found.logits.tolist() == [0.5, 2.0, -1.0, 2.0]
    assert (found.ids.dtype, found.logits.dtype, found.p.dtype) == (np.int32, np.float32, np.float32)
    assert (len(found), found.sorted, found.selected) == (4, False, -1)


def test_sorted_candidates_are_in_order() -> None:
    found = candidates(ROW, sort=True)
    assert found.sorted
    assert found.ids.tolist() == [2, 4, 0, 3] == order(ROW).tolist()
    assert found.logits.tolist() == [2.0, 2.0, 0.5, -1.0]


@pytest.mark.parametrize("sort", [False, True])
def test_probabilities_are_the_softmax_rounded_once(sort: bool) -> None:
    row = (np.random.default_rng(0).normal(size=500) * 6).astype(np.float32)
    row[::3] = NEG_INF
    found = candidates(row, sort=sort)
    assert np.array_equal(found.p, softmax(row)[found.ids].astype(np.float32))


def test_probabilities_of_extreme_logits_do_not_overflow() -> None:
    assert candidates(np.array([3e38, -3e38, 3e38], np.float32)).p.tolist() == [0.5, 0.0, 0.5]


@pytest.mark.parametrize(("sort", "index"), [(False, 3), (True, 1)])
def test_the_selected_token_is_given_by_its_index(sort: bool, index: int) -> None:
    found = candidates(ROW, selected_token_id=4, sort=sort)
    assert found.selected == index
    assert found.ids[index] == 4


@pytest.mark.parametrize("token_id", [1, 6, -1])
def test_a_token_that_did_not_survive_cannot_be_selected(token_id: int) -> None:
    with pytest.raises(
        ValueError, match=f"selected_token_id={token_id} is not allowed: one of the 4 survivors"
    ):
        candidates(ROW, selected_token_id=token_id)


def test_a_row_without_tokens_has_no_candidates() -> None:
    found = candidates(np.full(4, NEG_INF), sort=True)
    assert (len(found), found.p.dtype) == (0, np.float32)


@pytest.mark.parametrize("row", [np.array([1.0, np.nan]), np.array([np.inf]), np.zeros((2, 2))])
def test_faulty_rows_are_refused(row: np.ndarray) -> None:
    with pytest.raises(ValueError, match="is not allowed: one row without NaN"):
        candidates(row)


def test_the_row_is_not_modified() -> None:
    row = ROW.copy()
    row.flags.writeable = False
    found = candidates(row)
    assert not np.shares_memory(found.logits, row)
