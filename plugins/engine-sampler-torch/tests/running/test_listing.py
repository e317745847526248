"""The lists of many rows at once are those of each row by itself."""

from __future__ import annotations

import numpy as np
import pytest
from engine_sampler_torch.running.listing import Lists


def test_rows_are_listed_as_one_by_one() -> None:
    random = np.random.default_rng(1)
    for rows in (1, 5, 40):
        windows = [[random.integers(0, 30, random.integers(0, 60)) for _ in range(rows)] for _ in range(2)]
        biases = []
        for _ in range(rows):
            ids = random.permutation(131_072)[: random.integers(0, 6)]
            biases.append((ids, random.normal(0, 1, len(ids)).astype(np.float32)))
        flat = [(np.concatenate(window), np.array([*map(len, window)])) for window in windows]
        lists = Lists.of(rows, flat, biases)
        tables = [lists.padded(some, -7, some.dtype, 99) for some in lists.entries]
        for row, (ids, values) in enumerate(biases):
            repeated, counted = (window[row].tolist() for window in windows)
            every = sorted({*repeated, *counted, *ids.tolist()})
            added = dict(zip(ids.tolist(), values.tolist(), strict=True))
            right = (
                every,
                [repeated.count(token) for token in every],
                [counted.count(token) for token in every],
                [added.get(token, 0.0) for token in every],
            )
            assert lists.lengths[row] == len(every)
            for table, expected in zip(tables, right, strict=True):
                assert table[row].tolist() == [*expected, *[-7] * (99 - len(every))]


@pytest.mark.parametrize(
    "windows", [[], [(np.zeros(0, np.int64), np.zeros(3, np.int64))] * 2], ids=["none", "empty"]
)
def test_rows_may_list_nothing(windows: list[tuple[np.ndarray, np.ndarray]]) -> None:
    lists = Lists.of(3, windows, [])
    assert lists.lengths.tolist() == [0, 0, 0]
    assert lists.padded(lists.entries[0], 9, np.dtype(np.int32), 2).tolist() == [[9, 9]] * 3
