"""Checked arrays: the callers' fields are converted to them before any other use, for each row, for each
group of sequences, or as MindIE's generator keeps those of a batch; and the errors of those that are refused,
under MindIE's names."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from engine_sampler import ParameterError
from engine_sampler.for_bridges import to_numpy, why_unreadable


class ValidationError(ParameterError):
    """An input is not allowed; the message names it, its value and what is allowed."""


class InconsistencyError(ValidationError):
    """Inputs do not fit together: their shapes, their lengths, or their data for one request."""


class OutOfBoundsError(ValidationError):
    """A number is outside its range."""


class UnsupportedTypeError(ValidationError, TypeError):
    """An input has a type or a dtype that is not supported."""


MAX_ROWS = 819_200
"""The maximum batch size."""
MAX_LENGTH = 10**6
"""The maximum number of token ids in a row."""

NO_SEED = -1
"""In an array of seeds: none for this row."""

_INT64 = np.iinfo(np.int64)
_KINDS = {"float": "fiu", "int": "iu", "bool": "b"}
_DTYPES = {"float": np.float32, "int": np.int64, "bool": np.bool_}


@dataclass(frozen=True)
class Field:
    """One value per row: its kind ("float", "int" or "bool"), neutral value and inclusive bounds.

    low_open excludes `low` itself. Values of the kind "float" are float32, as in MindIE.
    """

    name: str
    kind: str
    neutral: Any
    low: float | None = None
    high: float | None = None
    low_open: bool = False

    def check(self, values: Any) -> np.ndarray | None:
        """A read-only copy [rows] of `values`; None for None.

        Raises UnsupportedTypeError, InconsistencyError or OutOfBoundsError.
        """
        if values is None:
            return None
        array = host_array(self.name, values, _KINDS[self.kind], self.kind)
        check_shape(self.name, array, 1)
        if self._is_any(array):
            return frozen(array.astype(self.dtype))
        with np.errstate(over="ignore", under="ignore"):
            converted = array.astype(self.dtype) if self.kind == "float" else array
        outside = np.flatnonzero(~self._inside(converted))
        if len(outside):
            row = int(outside[0])
            raise OutOfBoundsError(
                f"{self.name}={array[row].item()!r} in row {row} is not allowed: {self._allowed()}"
            )
        return frozen(converted if converted is not array else array.astype(self.dtype))

    @property
    def dtype(self) -> type:
        """The NumPy type of its checked values."""
        return _DTYPES[self.kind]

    def _is_any(self, array: np.ndarray) -> bool:
        """Whether every value of the array's dtype is allowed."""
        return array.dtype.kind in "ib" and self.low == _INT64.min and self.high == _INT64.max

    def _inside(self, values: np.ndarray) -> np.ndarray:
        """bool [rows], whether each value is allowed."""
        inside: np.ndarray = np.isfinite(values)
        if self.low is not None:
            inside &= values > self.low if self.low_open else values >= self.low
        if self.high is not None:
            inside &= values <= self.high
        return inside

    def _allowed(self) -> str:
        text = {"float": "a finite float32", "int": "an integer"}[self.kind]
        if self.low is not None:
            text += f" {'above' if self.low_open else 'of at least'} {self.low}"
        if self.high is not None:
            text += f"{' and' if self.low is not None else ' of'} at most {self.high}"
        return text


PARAMS: Mapping[str, Field] = {
    field.name: field
    for field in (
        Field("repetition_penalty", "float", 1.0, low=0, low_open=True),
        Field("frequency_penalty", "float", 0.0),
        Field("presence_penalty", "float", 0.0),
        Field("temperature", "float", 1.0, low=0, high=10**6),
        Field("top_k", "int", 0, low=0, high=2**31 - 1),
        Field("top_p", "float", 1.0, low=0, high=1),
        Field("seed", "int", None, low=NO_SEED, high=2**63 - 1),
        Field("do_sample", "bool", None),
    )
}
"""The fields of `SamplingParam` in the order of `from_numpy`'s arguments."""


@functools.cache
def ids_field(name: str) -> Field:
    """The field for one request id or sequence id per row."""
    return Field(name, "int", None, low=_INT64.min, high=_INT64.max)


def token_rows(name: str, values: Any) -> np.ndarray | None:
    """Token ids [rows, length] on the host, read-only, of any type of integers; None for None.

    They are not copied: a row may be a million tokens long, of which a call reads a few.
    """
    if values is None:
        return None
    array = host_array(name, values, "iu", "int")
    check_shape(name, array, 2)
    if array.shape[1] > MAX_LENGTH:
        raise OutOfBoundsError(f"{name} is {array.shape[1]} tokens long, allowed are {MAX_LENGTH}")
    return frozen(array.view())


def host_array(name: str, values: Any, kinds: str, allowed: str) -> np.ndarray:
    """`values` on the host, without a copy if possible; `kinds` are the allowed dtype kinds' letters."""
    check_unmasked(name, values)
    try:
        array = to_numpy(values)
    except (TypeError, ValueError, RuntimeError) as error:  # tensors without data or with unknown layouts
        raise UnsupportedTypeError(why_unreadable(name, values, error)) from error
    if array.dtype.kind not in kinds and array.size:
        raise UnsupportedTypeError(f"{name} has dtype {array.dtype}, allowed is {allowed}")
    return array


def check_unmasked(name: str, values: Any) -> None:
    """Raise for a masked array, whose mask NumPy would drop in silence."""
    if isinstance(values, np.ma.MaskedArray):
        raise UnsupportedTypeError(f"{name} is a masked array, which is not allowed: fill it first")


def check_shape(name: str, array: np.ndarray, dimensions: int) -> None:
    """Raise for a wrong number of dimensions, and for an array with too many rows or none."""
    if array.ndim != dimensions:
        allowed = "[rows]" if dimensions == 1 else "[rows, length]"
        raise InconsistencyError(f"{name} has shape {array.shape}, allowed is {allowed}")
    if not 1 <= len(array) <= MAX_ROWS:
        raise OutOfBoundsError(f"{name} has {len(array)} rows, allowed are 1 to {MAX_ROWS}")


def check_flag(name: str, value: Any) -> None:
    """Raise for a value that is not a bool."""
    if not isinstance(value, (bool, np.bool_)):
        raise UnsupportedTypeError(f"{name}={value!r} is not allowed: True or False")


def check_callable(name: str, value: Any) -> None:
    """Raise for a value that is neither callable nor None."""
    if value is not None and not callable(value):
        raise UnsupportedTypeError(f"{name}={value!r} is not allowed: a function of an array, or None")


def check_lengths(rows: int | None, arrays: Mapping[str, np.ndarray | None], reference: str = "") -> None:
    """Raise unless all arrays have `rows` rows; if it is None, as many rows as the first array."""
    for name, array in arrays.items():
        if array is None:
            continue
        if rows is None:
            rows, reference = len(array), name
        if len(array) != rows:
            raise InconsistencyError(f"{name} has {len(array)} rows, {reference} has {rows}")


def check_different(name: str, ids: np.ndarray | None) -> None:
    """Raise for a repeated id."""
    if ids is not None and len(set(ids.tolist())) < len(ids):
        raise InconsistencyError(f"{name}={ids.tolist()} names an id twice")


def frozen(array: np.ndarray) -> np.ndarray:
    """The same array, made read-only."""
    array.flags.writeable = False
    return array


def spans_of(sizes: Iterable[int]) -> list[tuple[int, int]]:
    """(start, end) of consecutive parts with these sizes."""
    ends = np.cumsum(list(sizes)).tolist()
    return list(zip([0, *ends[:-1]], ends, strict=True))


def row_values(field: Field, values: Any, sizes: Sequence[int]) -> np.ndarray | None:
    """The checked values of a field for each row of groups with these sizes; None for None."""
    checked = field.check(values)
    return None if checked is None else for_each_row(field, checked, sizes)


def for_each_row(field: Field, values: np.ndarray, sizes: Sequence[int]) -> np.ndarray:
    """`values` for each row, given for each row or for each group."""
    if len(values) == len(sizes):
        values = frozen(np.repeat(values, sizes))
    check_lengths(sum(sizes), {field.name: values}, "the batch")
    return values


def ids_of_groups(name: str, values: Any) -> list[np.ndarray]:
    """The ids of each group."""
    check_unmasked(name, values)
    try:
        groups = list(values)
    except TypeError as error:
        raise UnsupportedTypeError(
            f"{name}={values!r} is not allowed: a list with an array of ids per group"
        ) from error
    return [ids_in(name, ids) for ids in groups]


def ids_in(name: str, values: Any) -> np.ndarray:
    """int64 [n], checked ids of sequences."""
    array = host_array(name, values, "iu", "int")
    if not array.size:
        return np.zeros(0, np.int64)
    checked = ids_field(name).check(array)
    assert checked is not None
    return checked


SAMPLING_FIELDS = (
    "repetition_penalty", "frequency_penalty", "presence_penalty", "temperature", "top_k", "top_p",
    "do_sample", "top_logprobs",
)  # fmt: skip
"""The fields of the generator's record array, all float32."""

_BATCH_DTYPES = {"top_k": np.int64, "do_sample": np.bool_, "top_logprobs": np.int64}

_ARGUMENTS: Mapping[str, tuple[str, Any]] = {
    "batch_seeds": ("seeds", NO_SEED),
    "batch_best_of": ("best_of", 1),
    "batch_n": ("n", 1),
    "batch_use_beam_search": ("use_beam_search", False),
    "batch_output_lengths": ("output_lengths", 0),
    "batch_cumulative_logprobs": ("cumulative_logprobs", 0.0),
    "is_seq_prefill": ("is_seq_prefill", False),
    "is_mix": ("is_mix", None),
    "cache_ids": ("cache_ids", None),
    "random_number_generators": ("random_number_generators", None),
}
"""What `from_batch` takes by name: the argument of `from_numpy`, and what None stands for in its array."""


def batch_columns(records: np.ndarray, arguments: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of `from_numpy` for the fields of `records` and for the given `arguments`.

    Raises UnsupportedTypeError for other records and names, OutOfBoundsError for numbers that are not finite.
    """
    names = getattr(getattr(records, "dtype", None), "names", None) or ()
    if missing := [name for name in SAMPLING_FIELDS if name not in names]:
        raise UnsupportedTypeError(
            f"batch_sampling_params has no field {missing[0]}: a record array has all of "
            + ", ".join(SAMPLING_FIELDS)
        )
    if unknown := sorted(set(arguments) - set(_ARGUMENTS)):
        raise UnsupportedTypeError(f"{unknown[0]} is not allowed: one of {', '.join(_ARGUMENTS)}")
    columns: dict[str, Any] = {name: _numbers(name, records[name]) for name in SAMPLING_FIELDS}
    for name, value in arguments.items():
        argument, default = _ARGUMENTS[name]
        columns[argument] = _without_none(value, default)
    if columns.get("is_seq_prefill") is not None:
        columns["is_seq_prefill"] = np.asarray(columns["is_seq_prefill"]).astype(np.bool_)
    return columns


def _numbers(name: str, values: np.ndarray) -> np.ndarray:
    """A field of the records in the type of its argument."""
    wrong = np.flatnonzero(~np.isfinite(values))
    if len(wrong):
        row = int(wrong[0])
        raise OutOfBoundsError(f"{name}={values[row].item()!r} in row {row} is not allowed: a finite number")
    return values.astype(_BATCH_DTYPES.get(name, np.float32))


def _without_none(values: Any, default: Any) -> Any:
    """An array of objects as one of numbers or flags, with `default` for None; others as they are."""
    if not isinstance(values, np.ndarray) or values.dtype != np.object_ or default is None:
        return values
    return np.array([default if value is None else value for value in values.tolist()])
