"""Converts columns of settings to `SamplingParams`, one per row."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ...arithmetic import GREEDY_BELOW
from ...params import SamplingParams
from .fields import PARAMS, check_lengths

MODES = ("documented", "observed")

Columns = Mapping[str, np.ndarray | None]


def row_settings(
    columns: Columns,
    rows: int,
    mode: str,
    top_logprobs: Sequence[int] | None = None,
    always_sampled: np.ndarray | None = None,
) -> list[SamplingParams]:
    """The settings of each of `rows` rows.

    columns         the fields of `fields.PARAMS`; None and missing ones are neutral.
    top_logprobs    number of likeliest tokens to list for each row; a greedy row with 0 gets no logprob
                    at all.
    always_sampled  bool [rows], rows that sample regardless of `do_sample`.

    Raises InconsistencyError for another number of rows, and `ParameterError`.
    """
    check_lengths(rows, columns, "the batch")
    sampled = _sampled(columns, rows, mode, always_sampled)
    requested = [0] * rows if top_logprobs is None else top_logprobs
    counts = [n if is_sampled or n else None for is_sampled, n in zip(sampled, requested, strict=True)]
    values = [_values(columns, name, rows) for name in PARAMS if name != "do_sample"]
    return [
        _settings(is_sampled, count, *row)
        for is_sampled, count, row in zip(sampled, counts, zip(*values, strict=True), strict=True)
    ]


def is_greedy(settings: SamplingParams) -> bool:
    """Whether the row chooses its best token."""
    return bool(settings.temperature < GREEDY_BELOW)


def _sampled(columns: Columns, rows: int, mode: str, always_sampled: np.ndarray | None) -> list[bool]:
    """Which rows sample. Without do_sample, in the mode "documented", rows with a warper sample."""
    not_greedy = np.array(_values(columns, "temperature", rows)) >= GREEDY_BELOW
    may_sample = columns.get("do_sample")
    if may_sample is None:
        may_sample = np.zeros(rows, np.bool_)
        if mode == "documented":
            for name in ("temperature", "top_k", "top_p"):
                may_sample |= np.array(_values(columns, name, rows)) != PARAMS[name].neutral
    if always_sampled is not None:
        may_sample = may_sample | always_sampled
    sampled: list[bool] = (may_sample & not_greedy).tolist()
    return sampled


def _values(columns: Columns, name: str, rows: int) -> list[Any]:
    column = columns.get(name)
    return [PARAMS[name].neutral] * rows if column is None else column.tolist()


@functools.lru_cache(maxsize=1024)
def _settings(
    sampled: bool,
    top_logprobs: int | None,
    repetition_penalty: float,
    frequency_penalty: float,
    presence_penalty: float,
    temperature: float,
    top_k: int,
    top_p: float,
    seed: int | None,
) -> SamplingParams:
    """One row's settings, cached: batches repeat a few settings, and an equal object costs no new request."""
    choice: dict[str, Any] = {"temperature": 0.0, "logprobs_mode": "penalized"}
    if sampled:
        choice = {"temperature": temperature, "top_k": top_k, "top_p": top_p, "logprobs_mode": "processed"}
    return SamplingParams(
        order="mindie",
        repetition_penalty=repetition_penalty,
        frequency_penalty=frequency_penalty,
        presence_penalty=presence_penalty,
        logprobs=top_logprobs,
        seed=seed,
        **choice,
    )


@functools.lru_cache(maxsize=1024)
def with_seed(settings: SamplingParams, seed: int) -> SamplingParams:
    """`settings` with another seed."""
    return settings.replace(seed=seed)
