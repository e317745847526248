"""`SamplingMask`: rows of ids, taken apart, put together, and packed."""

from __future__ import annotations

import json
import pickle
from typing import Any

import numpy as np
import pytest

from engine_sampler import ParameterError, SamplingMask

ARRAYS = {
    "token_ids": np.int32,
    "offsets": np.int64,
    "is_inverted": np.bool_,
    "is_capped": np.bool_,
    "logprobs": np.float32,
}


def random_mask(random: np.random.Generator, vocab_size: int, rows: int) -> SamplingMask:
    """Rows from none to all of the ids, near and far from each other."""
    counts = random.choice([0, 1, min(5, vocab_size), vocab_size // 9, vocab_size // 2, vocab_size], rows)
    listed = [np.sort(random.choice(vocab_size, count, replace=False)) for count in counts]
    flags = {"is_inverted": random.random(rows) < 0.5, "is_capped": random.random(rows) < 0.1}
    logprobs = np.where(random.random(rows) < 0.2, np.nan, -random.random(rows))
    return SamplingMask.of(listed, flags, logprobs, vocab_size)


def expect_equal(mask: SamplingMask, other: SamplingMask) -> None:
    assert mask.vocab_size == other.vocab_size
    for name, dtype in ARRAYS.items():
        one, another = getattr(mask, name), getattr(other, name)
        assert one.dtype == another.dtype == dtype, name
        assert one.tobytes() == another.tobytes(), name


@pytest.mark.parametrize("vocab_size", [1, 7, 8, 129, 1000, 131_072])
@pytest.mark.parametrize("rows", [0, 1, 17])
def test_it_comes_back_from_json_and_pickles_with_the_same_bits(vocab_size: int, rows: int) -> None:
    mask = random_mask(np.random.default_rng(rows), vocab_size, rows)
    expect_equal(SamplingMask.from_dict(json.loads(json.dumps(mask.to_dict()))), mask)
    expect_equal(pickle.loads(pickle.dumps(mask)), mask)


def test_rows_are_taken_and_put_together() -> None:
    mask = random_mask(np.random.default_rng(1), 60, 12)
    expect_equal(
        SamplingMask.concatenate([mask.rows(range(5)), mask.rows([]), mask.rows(range(5, 12))]), mask
    )
    which = np.arange(12) % 3 == 0
    expect_equal(mask.rows(which), mask.rows([0, 3, 6, 9]))
    expect_equal(mask.rows([-1, 2]), mask.rows([11, 2]))
    assert len(mask.rows(which)) == 4


def test_a_row_is_what_survived_however_it_is_listed() -> None:
    flags = {"is_inverted": [False, True, True, False], "is_capped": [False, False, False, True]}
    ids = [np.array([2, 4]), np.array([0, 3]), np.array([], np.int64), np.array([], np.int64)]
    mask = SamplingMask.of(ids, flags, np.zeros(4), 5)
    rows = [mask.row(row) for row in range(4)]
    assert [row if row is None else row.tolist() for row in rows] == [
        [2, 4],
        [1, 2, 4],
        [0, 1, 2, 3, 4],
        None,
    ]
    assert mask.is_whole.tolist() == [False, False, True, False]


def test_masks_of_different_vocabularies_are_not_put_together() -> None:
    masks = [random_mask(np.random.default_rng(1), size, 2) for size in (5, 6)]
    for wrong in (masks, []):
        with pytest.raises(ParameterError, match="masks of the vocabulary sizes"):
            SamplingMask.concatenate(wrong)


@pytest.mark.parametrize(("survivors", "most"), [(1, 15), (8, 40), (20, 80)])
def test_a_peaked_row_takes_few_bytes(survivors: int, most: int) -> None:
    random = np.random.default_rng(2)
    listed = [np.sort(random.choice(131_072, survivors, replace=False)) for _ in range(500)]
    flags = {"is_inverted": np.zeros(500, bool), "is_capped": np.zeros(500, bool)}
    mask = SamplingMask.of(listed, flags, -random.random(500), 131_072)
    assert len(json.dumps(mask.to_dict())) <= most * 500


def test_a_row_of_half_the_vocabulary_takes_a_bit_for_each_token() -> None:
    half = np.flatnonzero(np.random.default_rng(3).random(131_072) < 0.5)
    mask = SamplingMask.of([half], {"is_inverted": [False], "is_capped": [False]}, [-1.0], 131_072)
    assert len(json.dumps(mask.to_dict())) < 131_072 / 8 * 4 / 3 + 200


WRONG: list[Any] = [
    None,
    {},
    {"version": 2},
    {"rows": 99},
    {"rows": -1},
    {"rows": "2"},
    {"vocab_size": 3},
    {"vocab_size": 2**40},
    {"gaps": "AAAA"},
    {"gaps": "gICAgICAgIAB"},
    {"counts": ""},
    {"counts": "//8D/w=="},
    {"bits": "AAAA"},
    {"flags": ""},
    {"logprobs": "AAAA"},
    {"logprobs": 5},
    {"token_ids": None, "gaps": None},
]


@pytest.mark.parametrize("changes", WRONG)
def test_anything_else_is_refused(changes: Any) -> None:
    mask = random_mask(np.random.default_rng(5), 129, 2)
    state = changes if not changes else {**mask.to_dict(), **changes}
    with pytest.raises(ParameterError, match=r"is not allowed: what SamplingMask\.to_dict has given"):
        SamplingMask.from_dict(state)


def test_a_row_of_bits_has_as_many_as_it_counts() -> None:
    flags = {"is_inverted": [False], "is_capped": [False]}
    state = SamplingMask.of([np.arange(4)], flags, [-1.0], 16).to_dict()
    with pytest.raises(ParameterError, match="1 bits for 4 ids"):
        SamplingMask.from_dict({**state, "bits": "AAE="})


def test_random_changes_of_a_state_are_refused_or_read_as_a_mask() -> None:
    random = np.random.default_rng(6)
    state = random_mask(random, 300, 6).to_dict()
    for _ in range(500):
        name = str(random.choice(["counts", "gaps", "bits", "flags", "logprobs"]))
        text = state[name]
        place = int(random.integers(0, len(text) or 1))
        changed = text[:place] + str(random.choice([*"AB/9=", ""])) + text[place + 1 :]
        try:
            mask = SamplingMask.from_dict({**state, name: changed})
        except ParameterError:
            continue
        for row in range(6):
            assert (np.diff(mask.listed(row)) > 0).all()
