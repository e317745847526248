"""Logits in every form that an engine may provide."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from engine_sampler.arithmetic import LogitRows

VALUES = np.random.default_rng(0).normal(0, 3, (6, 10)).astype(np.float32)
VALUES[0, :4] = [np.inf, -np.inf, np.nan, -0.0]


def rows_of(logits: Any, vocab_size: int = 10) -> np.ndarray:
    """All rows as the chain sees them."""
    rows = LogitRows(logits, vocab_size)
    return np.stack([rows.row(i) for i in range(len(rows))])


def expect_bits(logits: Any, expected: np.ndarray, vocab_size: int = 10) -> None:
    given = rows_of(logits, vocab_size)
    assert given.dtype == np.float32
    np.testing.assert_array_equal(given.view(np.int32), np.ascontiguousarray(expected).view(np.int32))


# --- NumPy ----------------------------------------------------------------------------------------


def test_float32_rows_are_views_of_the_callers_memory() -> None:
    expect_bits(VALUES, VALUES)
    assert np.shares_memory(LogitRows(VALUES, 10).row(2), VALUES)


def test_float16_rows_are_widened_exactly() -> None:
    half = VALUES.astype(np.float16)
    expect_bits(half, half.astype(np.float32))


def test_padding_of_the_head_is_left_out() -> None:
    expect_bits(VALUES, VALUES[:, :7], vocab_size=7)
    assert LogitRows(VALUES, 7).width == 10


STRIDES = {
    "every other row": lambda values: np.repeat(values, 2, axis=0)[::2],
    "rows backwards": lambda values: values[::-1],
    "one row many times": lambda values: np.broadcast_to(values[1], values.shape),
    "overlapping rows": lambda values: np.lib.stride_tricks.sliding_window_view(values.ravel(), 10)[::3],
    "part of a wider array": lambda values: np.pad(values, ((0, 0), (3, 5)))[:, 3:13],
}


@pytest.mark.parametrize("kind", STRIDES)
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_any_row_stride_is_read_without_a_copy(kind: str, dtype: Any) -> None:
    logits = STRIDES[kind](VALUES.astype(dtype))
    assert logits.strides[1] == logits.itemsize
    expect_bits(logits, logits.astype(np.float32))
    if dtype == np.float32:
        assert np.shares_memory(LogitRows(logits, 10).row(1), logits)


COLUMNS = {
    "column major": np.asfortranarray,
    "columns backwards": lambda values: values[:, ::-1],
    "every other column": lambda values: np.repeat(values, 2, axis=1)[:, ::2],
    "one column many times": lambda values: np.broadcast_to(values[:, 1:2], values.shape),
}


@pytest.mark.parametrize("kind", COLUMNS)
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_columns_that_are_not_contiguous_are_copied(kind: str, dtype: Any) -> None:
    logits = COLUMNS[kind](VALUES.astype(dtype))
    expect_bits(logits, logits.astype(np.float32))
    assert LogitRows(logits, 10).row(0).flags.c_contiguous


def test_read_only_arrays_are_allowed() -> None:
    logits = VALUES.copy()
    logits.flags.writeable = False
    expect_bits(logits, VALUES)


def test_a_single_column_and_zero_rows_are_allowed() -> None:
    expect_bits(VALUES[:, :1], VALUES[:, :1], vocab_size=1)
    assert len(LogitRows(VALUES[:0], 10)) == 0


def test_subclasses_of_arrays_are_read_as_plain_arrays() -> None:
    with pytest.warns(PendingDeprecationWarning):
        matrix = np.matrix(VALUES)
    assert LogitRows(matrix, 10).row(1).shape == (10,)
    expect_bits(matrix, VALUES)


# --- other forms ----------------------------------------------------------------------------------


class WithArray:
    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return self.array


class WithDLPack:
    """A stand-in for a tensor of another library."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array

    def __dlpack__(self, **keywords: Any) -> Any:
        return self.array.__dlpack__(**keywords)

    def __dlpack_device__(self) -> Any:
        return self.array.__dlpack_device__()


class WithUnsupportedDLPack(WithDLPack, WithArray):
    """A tensor with a dtype for which NumPy has no DLPack, such as bfloat16."""

    def __dlpack__(self, **keywords: Any) -> Any:
        raise BufferError("no such dtype")


FORMS = {
    "memoryview": memoryview,
    "array interface": WithArray,
    "dlpack": WithDLPack,
    "array interface and a dlpack that fails": WithUnsupportedDLPack,
}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_logits_may_have_any_form(form: str, dtype: Any) -> None:
    array = VALUES.astype(dtype)
    logits = FORMS[form](array)
    expect_bits(logits, array.astype(np.float32))
    if dtype == np.float32:
        assert np.shares_memory(LogitRows(logits, 10).row(0), array)


def test_the_device_is_that_of_the_logits() -> None:
    class OnGpu(WithArray):
        device = "cuda:1"

    assert LogitRows(VALUES, 10).device == "cpu"
    assert LogitRows(memoryview(VALUES), 10).device == "cpu"
    assert LogitRows(OnGpu(VALUES), 10).device == "cuda:1"


def as_bfloat16(values: np.ndarray) -> np.ndarray:
    """`values` truncated to bfloat16, as float32."""
    return (values.view(np.uint32) & 0xFFFF0000).view(np.float32)


def test_bfloat16_arrays_are_widened_exactly() -> None:
    ml_dtypes = pytest.importorskip("ml_dtypes", reason="NumPy has bfloat16 only with ml_dtypes")
    cut = as_bfloat16(VALUES)
    for form in (lambda array: array, WithArray, STRIDES["rows backwards"], COLUMNS["columns backwards"]):
        logits = form(cut.astype(ml_dtypes.bfloat16))
        expect_bits(logits, np.asarray(logits).astype(np.float32))


# --- torch ----------------------------------------------------------------------------------------


@pytest.fixture
def torch() -> Any:
    return pytest.importorskip("torch")


def test_torch_tensors_are_read_in_place(torch: Any) -> None:
    tensor = torch.from_numpy(VALUES.copy())
    expect_bits(tensor, VALUES)
    assert np.shares_memory(LogitRows(tensor, 10).row(0), tensor.numpy())
    assert LogitRows(tensor, 10).device == "cpu"


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
@pytest.mark.parametrize(
    "view",
    [
        pytest.param(lambda t: t, id="whole"),
        pytest.param(lambda t: t[1:2].expand(4, -1), id="one row many times"),
        pytest.param(lambda t: t[::2], id="every other row"),
        pytest.param(lambda t: t.t().contiguous().t(), id="column major"),
        pytest.param(lambda t: t.unfold(1, 10, 1)[:, 0], id="unfolded"),
        pytest.param(lambda t: t.clone().requires_grad_(), id="with a gradient"),
    ],
)
def test_torch_tensors_of_any_dtype_and_stride(torch: Any, dtype: str, view: Any) -> None:
    tensor = view(torch.from_numpy(VALUES.copy()).to(getattr(torch, dtype)))
    before = tensor.detach().clone()
    expect_bits(tensor, tensor.detach().float().numpy())
    np.testing.assert_array_equal(before.float().numpy(), tensor.detach().float().numpy())


def test_torch_tensors_of_other_dtypes_are_refused(torch: Any) -> None:
    with pytest.raises(TypeError, match="logits have dtype float64; allowed are float32, float16, bfloat16"):
        LogitRows(torch.zeros(2, 3, dtype=torch.float64), 3)


def test_tokens_from_torch_equal_those_from_numpy(torch: Any) -> None:
    from engine_sampler import SamplingParams, sample

    params = [SamplingParams(seed=i, top_p=0.9) for i in range(5)]
    tensor = torch.from_numpy(VALUES[1:].copy())
    np.testing.assert_array_equal(sample(tensor, params).token_ids, sample(VALUES[1:], params).token_ids)
    cut = tensor.to(torch.bfloat16)
    np.testing.assert_array_equal(
        sample(cut, params).token_ids, sample(cut.float().numpy(), params).token_ids
    )


# --- refusals -------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float64", "int32", "uint16", "complex64", "bool", ">f4", "object"])
def test_other_dtypes_are_refused(dtype: str) -> None:
    with pytest.raises(TypeError, match=r"logits have dtype .*; allowed are float32, float16, bfloat16"):
        LogitRows(np.zeros((2, 3), dtype), 3)


@pytest.mark.parametrize("value", [[[1.0, 2.0]], "abc", b"abcd", None, {}, 3.5])
def test_other_objects_are_refused(value: Any) -> None:
    with pytest.raises(TypeError, match="logits"):
        LogitRows(value, 1)


def test_an_unreadable_object_is_refused_by_its_type() -> None:
    class Unreadable:
        def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
            raise RuntimeError("on another device")

    with pytest.raises(TypeError, match="logits of type Unreadable cannot be read as an array"):
        LogitRows(Unreadable(), 1)


@pytest.mark.parametrize("shape", [(), (3,), (2, 3, 4)])
def test_other_shapes_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"logits have shape \(.*\); allowed is \[rows, vocab\]"):
        LogitRows(np.zeros(shape, np.float32), 3)


def test_rows_narrower_than_the_vocabulary_are_refused() -> None:
    with pytest.raises(ValueError, match="logits are 10 wide; the vocabulary has 11 tokens"):
        LogitRows(VALUES, 11)
