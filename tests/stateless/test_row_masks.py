"""`apply_bitmask` and `fill_bitmasks`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from engine_sampler import Grammar, RowSampler
from engine_sampler.contract import allocate_bitmask, unpack_bitmask
from engine_sampler.stateless import apply_bitmask, fill_bitmasks
from tests.engines import TOKENIZER, VOCAB
from tests.stateless.row_worlds import bits_of

RANDOM = np.random.default_rng(3)
LOGITS = RANDOM.normal(0, 3, (5, 70)).astype(np.float32)
MASK = RANDOM.random((5, 70)) < 0.5


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("as_bits", [True, False])
def test_tokens_that_are_not_allowed_become_minus_infinity(dtype: Any, as_bits: bool) -> None:
    logits = LOGITS.astype(dtype)
    apply_bitmask(logits, bits_of(MASK) if as_bits else MASK)
    np.testing.assert_array_equal(logits, np.where(MASK, LOGITS.astype(dtype), -np.inf))


def test_columns_beyond_the_mask_are_removed() -> None:
    logits = LOGITS.copy()
    apply_bitmask(logits, MASK[:, :60])
    assert (logits[:, 60:] == -np.inf).all()
    apply_bitmask(logits, allocate_bitmask(5, 32))
    assert (logits[:, 32:] == -np.inf).all()


def test_masks_may_be_those_of_some_rows() -> None:
    logits = LOGITS.copy()
    apply_bitmask(logits, bits_of(MASK[:2]), rows=[4, 1])
    np.testing.assert_array_equal(logits[[0, 2, 3]], LOGITS[[0, 2, 3]])
    np.testing.assert_array_equal(logits[[4, 1]], np.where(MASK[:2], LOGITS[[4, 1]], -np.inf))


def test_rows_may_have_any_stride() -> None:
    wide = np.zeros((10, 80), np.float32)
    wide[::-2, :70] = LOGITS
    apply_bitmask(wide[::-2, :70], MASK)
    np.testing.assert_array_equal(wide[::-2, :70], np.where(MASK, LOGITS, -np.inf))
    assert (wide[::2] == 0).all()


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_tensors_are_changed_in_place(dtype: str) -> None:
    torch = pytest.importorskip("torch")
    logits = torch.tensor(LOGITS).to(getattr(torch, dtype))
    expected = logits.masked_fill(torch.tensor(~MASK), -torch.inf)
    apply_bitmask(logits, torch.tensor(bits_of(MASK)))
    assert torch.equal(logits, expected)


@pytest.mark.parametrize(
    ("logits", "mask", "rows"),
    [
        (LOGITS, MASK.astype(np.int64), None),
        (LOGITS, MASK[0], None),
        (LOGITS, MASK[:4], [0, 1, 2]),
        (LOGITS, MASK[:1], [5]),
        (LOGITS, MASK[:1], [-1]),
        (LOGITS[:4], MASK, None),
        (LOGITS[0], MASK, None),
        (LOGITS.astype(np.float64), MASK, None),
        (LOGITS.tolist(), MASK, None),
        (np.broadcast_to(LOGITS[0], LOGITS.shape), MASK, None),
    ],
)
def test_other_arrays_are_refused(logits: Any, mask: Any, rows: Any) -> None:
    before = np.array(logits)
    with pytest.raises((ValueError, TypeError)):
        apply_bitmask(logits, mask, rows)
    np.testing.assert_array_equal(np.array(logits), before)


# --- filling --------------------------------------------------------------------------------------


class Failing:
    """A matcher that fails."""

    def fill_bitmask(self, bitmask: Any, row: int = 0) -> None:
        bitmask[row] = -1
        raise RuntimeError("no mask")


def test_many_matchers_fill_their_rows_in_one_call() -> None:
    texts = ["ab", "b+", "[ab]*", " c"]
    matchers = [Grammar.from_regex(text).compile(TOKENIZER).matcher() for text in texts]
    bitmask, alone = allocate_bitmask(7, VOCAB), allocate_bitmask(7, VOCAB)
    rows = [5, 0, 3, 6]
    for matcher, row in zip(matchers, rows, strict=True):
        matcher.fill_bitmask(alone, row)
    assert fill_bitmasks(matchers, bitmask, rows) == {}
    np.testing.assert_array_equal(bitmask, alone)
    assert fill_bitmasks(matchers, bitmask) == {}
    np.testing.assert_array_equal(bitmask[:4], alone[rows])


def test_a_matcher_that_fails_leaves_nothing_and_is_named() -> None:
    matcher = Grammar.from_regex("ab").compile(TOKENIZER).matcher()
    bitmask = allocate_bitmask(3, VOCAB)
    assert fill_bitmasks([Failing(), matcher], bitmask, [2, 1]) == {2: "no mask"}
    assert not unpack_bitmask(bitmask[2], VOCAB).any()
    assert unpack_bitmask(bitmask[1], VOCAB).any()
    assert unpack_bitmask(bitmask[0], VOCAB).all()


@pytest.mark.parametrize("rows", [[0, 0], [3, 1], [-1, 0], [0], ["a", "b"]])
def test_wrong_rows_are_refused(rows: Any) -> None:
    matcher = Grammar.from_regex("ab").compile(TOKENIZER).matcher()
    bitmask = allocate_bitmask(3, VOCAB)
    with pytest.raises(ValueError, match="rows"):
        fill_bitmasks([matcher, matcher], bitmask, rows)
    assert (bitmask == -1).all()
    with pytest.raises(TypeError, match="bitmask"):
        fill_bitmasks([matcher], bitmask.astype(np.int64))


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_rows_take_tensors_for_everything(dtype: str) -> None:
    torch = pytest.importorskip("torch")
    logits = torch.tensor(LOGITS).to(getattr(torch, dtype))
    columns = {"temperature": [0.5, 0.0, 1.0, 2.0, 0.7], "top_k": [0, 3, 5, 2, 9]}
    tensors = {name: torch.tensor(column) for name, column in columns.items()}
    drawn = RowSampler(70, seed=1).step(logits, range(5), tensors, mask=torch.tensor(MASK), logprobs=2)
    expected = RowSampler(70, seed=1).step(
        logits.float().numpy(),
        range(5),
        {"temperature": np.array(columns["temperature"], np.float32), "top_k": columns["top_k"]},
        mask=bits_of(MASK),
        logprobs=2,
    )
    np.testing.assert_array_equal(drawn.token_ids, expected.token_ids)
    assert drawn.logprobs is not None
    assert expected.logprobs is not None
    np.testing.assert_array_equal(drawn.logprobs.logprobs, expected.logprobs.logprobs)
