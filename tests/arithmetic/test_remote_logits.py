"""Logits on another device stay there until they are read, and each is copied once."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from engine_sampler.arithmetic import LogitRows

from ..far_away import FarAway

VALUES = np.random.default_rng(7).normal(0, 3, (6, 10)).astype(np.float32)
ROW = VALUES[0].nbytes


def test_reading_shape_and_device_copies_nothing() -> None:
    far = FarAway(VALUES)
    rows = LogitRows(far, 9)
    assert (len(rows), rows.width, rows.device, rows.shape) == (6, 10, "far:0", (6, 10))
    assert rows.source is far
    assert far.copies == []


def test_a_row_is_copied_alone_and_once() -> None:
    far = FarAway(VALUES)
    rows = LogitRows(far, 9)
    for _ in range(2):
        np.testing.assert_array_equal(rows.row(3), VALUES[3, :9])
    assert far.copies == [(1, 10)]
    assert rows.copied_bytes == ROW


@pytest.mark.parametrize(("wanted", "shape"), [([1, 2, 3], (3, 10)), ([5, 0, 5], (2, 10)), (None, (6, 10))])
def test_rows_that_are_fetched_together_are_one_copy(wanted: Any, shape: tuple[int, int]) -> None:
    far = FarAway(VALUES)
    rows = LogitRows(far, 10)
    rows.fetch(wanted)
    for i in range(6) if wanted is None else wanted:
        np.testing.assert_array_equal(rows.row(i), VALUES[i])
    assert far.copies == [shape]


def test_only_missing_rows_are_fetched() -> None:
    far = FarAway(VALUES)
    rows = LogitRows(far, 10)
    rows.fetch([2])
    rows.fetch([1, 2, 4])
    rows.fetch([4])
    assert far.copies == [(1, 10), (2, 10)]
    np.testing.assert_array_equal(rows.row(4), VALUES[4])


def test_the_array_is_one_copy_of_everything() -> None:
    far = FarAway(VALUES)
    rows = LogitRows(far, 10)
    assert rows.array is rows.array
    np.testing.assert_array_equal(rows.array, VALUES)
    rows.fetch([1])
    assert rows.row(2).base is not None
    assert far.copies == [(6, 10)]
    assert rows.copied_bytes == VALUES.nbytes


def test_rows_made_of_rows_share_their_copies() -> None:
    far = FarAway(VALUES)
    first = LogitRows(far, 1)
    second = LogitRows(first, 10)
    second.fetch([0])
    np.testing.assert_array_equal(first.row(0), VALUES[0, :1])
    assert far.copies == [(1, 10)]
    assert first.copied_bytes == second.copied_bytes == ROW
    assert second.source is far


def test_halves_are_widened_after_the_copy() -> None:
    far = FarAway(VALUES.astype(np.float16))
    rows = LogitRows(far, 10)
    np.testing.assert_array_equal(rows.row(1), VALUES.astype(np.float16)[1].astype(np.float32))
    assert rows.copied_bytes == ROW // 2


def test_some_rows_can_be_taken_as_rows() -> None:
    rows = LogitRows(FarAway(VALUES), 9).take([4, 1])
    np.testing.assert_array_equal(rows.row(0), VALUES[4, :9])
    assert (len(rows), rows.remote) == (2, None)


@pytest.mark.parametrize(
    ("values", "error", "match"),
    [
        (VALUES.astype(np.float64), TypeError, "logits have dtype float64; allowed are float32"),
        (VALUES[0], ValueError, r"logits have shape \(10,\); allowed is \[rows, vocab\]"),
        (VALUES[:, :5], ValueError, "logits are 5 wide; the vocabulary has 9 tokens"),
    ],
    ids=["dtype", "shape", "width"],
)
def test_wrong_logits_are_refused_without_copying(values: np.ndarray, error: type, match: str) -> None:
    far = FarAway(values)
    with pytest.raises(error, match=match):
        LogitRows(far, 9)
    assert far.copies == []
