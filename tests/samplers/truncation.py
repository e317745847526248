"""Shared helpers of the tests of truncation samplers: rows of many kinds, and float64 definitions.

A definition is given as bounds, the smallest and greatest number of tokens that it may leave, with its
threshold shifted down and up by a margin. Integer weights and float64 probabilities may disagree within
the margin but nowhere else, and for most rows both bounds are equal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from engine_sampler.base.arrays import padded
from engine_sampler.contract import Truncation
from engine_sampler.testing import apply_sampler, make_rows
from tests.reference import order, softmax

MARGIN = 1e-5
"""How far, as a share of the probability or relative to a threshold, a cut may be from float64's."""

ONE_UNIT = 2.0**-30
"""The smallest weight above 0, relative to that of the likeliest token."""

WIDTHS = (1, 2, 3, 7, 40, 300, 1024, 1025, 5000)

Params = Mapping[str, Any]
Bounds = Callable[[np.ndarray, Params], tuple[int, int]]


def rows_of_every_kind(width: int) -> np.ndarray:
    """float32 [9, width]; every row has a token left."""
    random = np.random.default_rng(width)
    plain = random.normal(0, 2, width)
    peaked = np.where(random.random(width) < 4 / width, plain + 10, plain)
    half_removed = np.where(random.random(width) < 0.5, -np.inf, plain)
    half_removed[random.integers(width)] = 1.0
    few_left = np.full(width, -np.inf)
    some = random.integers(0, width, 6)
    few_left[some] = plain[some]
    single = np.full(width, -np.inf)
    single[random.integers(width)] = -4.0
    kinds = (
        plain,
        peaked,
        np.full(width, 0.7),
        np.round(plain),
        half_removed,
        few_left,
        single,
        random.uniform(-200, 50, width),
        random.normal(-1000, 0.01, width),
    )
    return np.stack(kinds).astype(np.float32)


def flat_wide_row() -> np.ndarray:
    """float32 [1, 32000], so flat that none of its heads holds most of the probability."""
    return np.random.default_rng(0).normal(0, 0.5, (1, 32_000)).astype(np.float32)


def batches(settings: Sequence[Params]) -> Iterator[tuple[np.ndarray, list[Params]]]:
    """Rows of every kind and width for each of `settings`, each with its own seed."""
    for rows in (*map(rows_of_every_kind, WIDTHS), flat_wide_row()):
        logits = np.repeat(rows, len(settings), axis=0)
        yield logits, [{**given, "seed": i} for i, given in enumerate(list(settings) * len(rows))]


def assert_the_same_on_any_subset(sampler: Truncation, settings: Sequence[Params]) -> None:
    """A batch, its rows alone, and its surviving columns alone or with some others give equal bits."""
    random = np.random.default_rng(1)
    for logits, params in batches(settings):
        together = apply_sampler(sampler, logits, params)
        alone = [apply_sampler(sampler, row, given) for row, given in zip(logits, params, strict=True)]
        np.testing.assert_array_equal(together, alone)
        alive = logits > -np.inf
        for shown in (alive, alive | (random.random(logits.shape) < 0.3)):
            np.testing.assert_array_equal(together, _on_columns(sampler, logits, params, shown))


def _on_columns(
    sampler: Truncation, logits: np.ndarray, params: list[Params], shown: np.ndarray
) -> np.ndarray:
    """The result of `sampler` on the columns `shown` [n, vocab], put back into whole rows."""
    n, size = logits.shape
    ids = padded([np.flatnonzero(row) for row in shown], size, np.int64)
    by_id = np.full((n, size + 1), -np.inf, np.float32)
    by_id[:, :size] = logits
    part = np.take_along_axis(by_id, ids, axis=1)
    with np.errstate(all="ignore"):
        sampler.apply(part, make_rows(sampler, params, size).take(slice(None), ids).bind(sampler))
    by_id[:] = -np.inf
    np.put_along_axis(by_id, ids, part, axis=1)
    return by_id[:, :size]


def assert_leaves_a_prefix(
    sampler: Truncation, settings: Sequence[Params], bounds: Bounds, *, exact: float = 0.95
) -> None:
    """The survivors are a prefix in (logit desc, id asc) order, of a length that `bounds` allows.

    bounds(probabilities, params) receives the softmax of a row's tokens in that order. For at least
    the share `exact` of the rows, it must allow only one length.
    """
    tight = []
    for logits, params in batches(settings):
        result = apply_sampler(sampler, logits, params)
        for row, given, left in zip(logits, params, result, strict=True):
            ids = order(row)
            least, most = bounds(softmax(row[ids]), given)
            count = np.count_nonzero(left > -np.inf)
            assert least <= count <= most, f"{count} of {len(ids)} stay for {given}"
            expected = np.full_like(row, -np.inf)
            expected[ids[:count]] = row[ids[:count]]
            np.testing.assert_array_equal(left, expected)
            tight.append(least == most)
    assert np.mean(tight) >= exact


def at_threshold(probabilities: np.ndarray, threshold: float) -> tuple[int, int]:
    """Bounds for "a token stays if its probability is at least `threshold`; the first one always stays"."""
    room = threshold * MARGIN + probabilities[0] * ONE_UNIT
    least, most = (max(1, int((probabilities >= x).sum())) for x in (threshold + room, threshold - room))
    return least, most
