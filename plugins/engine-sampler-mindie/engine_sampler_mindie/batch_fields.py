"""The arrays in which MindIE's generator keeps the settings of a batch, as arguments of `from_numpy`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from .errors import OutOfBoundsError, UnsupportedTypeError
from .fields import NO_SEED

SAMPLING_FIELDS = (
    "repetition_penalty", "frequency_penalty", "presence_penalty", "temperature", "top_k", "top_p",
    "do_sample", "top_logprobs",
)  # fmt: skip
"""The fields of the generator's record array, all float32."""

_DTYPES = {"top_k": np.int64, "do_sample": np.bool_, "top_logprobs": np.int64}

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
    return values.astype(_DTYPES.get(name, np.float32))


def _without_none(values: Any, default: Any) -> Any:
    """An array of objects as one of numbers or flags, with `default` for None; others as they are."""
    if not isinstance(values, np.ndarray) or values.dtype != np.object_ or default is None:
        return values
    return np.array([default if value is None else value for value in values.tolist()])
