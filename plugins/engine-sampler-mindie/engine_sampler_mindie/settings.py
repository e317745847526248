"""Converts columns of settings to `SamplingParams`, one per row."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from engine_sampler import SamplingParams
from engine_sampler.arithmetic import GREEDY_BELOW

from .fields import NO_SEED, PARAMS, check_lengths

MODES = ("documented", "observed")

CUTS = {"documented": "reach", "observed": "exceed"}
"""Where top_p cuts in each mode: the document keeps tokens until their sum reaches p, the kernel until it
exceeds p."""

_CHOICE = ("temperature", "top_k", "top_p")
"""The settings of the choice among the tokens."""

Columns = Mapping[str, np.ndarray | None]


def pair_settings(columns: Columns, rows: int, mode: str, logprobs: bool) -> list[SamplingParams]:
    """The settings of each of `rows` rows of a `SamplingParam`.

    columns   the fields of `fields.PARAMS`; None and missing ones are neutral.
    logprobs  whether sampled rows get the logprob of their token; greedy ones get none.

    In the mode "documented" a row with a sampling setting samples even if its `do_sample` is False, as
    MindIE's document says; a seed is one. Raises InconsistencyError for another number of rows, and
    `ParameterError`.
    """
    check_lengths(rows, columns, "the batch")
    may_sample = columns.get("do_sample")
    if may_sample is None:
        may_sample = np.zeros(rows, np.bool_)
    if mode == "documented":
        may_sample = may_sample | _has_sampling_setting(columns, rows) | _has_seed(columns, rows)
    sampled = (may_sample & _not_greedy(columns, rows)).tolist()
    return _row_settings(columns, sampled, [0 if s and logprobs else None for s in sampled], mode)


@functools.lru_cache(maxsize=4)
def default_settings(mode: str, logprobs: bool) -> SamplingParams:
    """The settings of a row without any."""
    return pair_settings({}, 1, mode, logprobs)[0]


def group_settings(
    columns: Columns,
    mode: str,
    logprobs: bool,
    top_logprobs: np.ndarray,
    always_sampled: np.ndarray,
    cached: Sequence[SamplingParams | None],
) -> list[SamplingParams]:
    """The settings of each row of a `SamplingMetadata`.

    logprobs        whether sampled rows get the logprob of their token without asking for top logprobs.
    top_logprobs    int [rows], the number of likeliest tokens to list; a greedy row with 0 gets no logprob.
    always_sampled  bool [rows], rows that sample regardless of `do_sample`.
    cached          the settings of the request that each row continues; None for rows that begin.

    Without `do_sample`, in the mode "documented", rows with a temperature, top_k or top_p sample. Without
    it, a request that has sampled goes on sampling unless its temperature is 0; if all of temperature,
    top_k and top_p are omitted too, it keeps its own.
    """
    rows = len(top_logprobs)
    may_sample = columns.get("do_sample")
    if may_sample is None:
        documented = mode == "documented"
        may_sample = _has_sampling_setting(columns, rows) if documented else np.zeros(rows, np.bool_)
        has_sampled = [params is not None and not is_greedy(params) for params in cached]
        may_sample = may_sample | np.array(has_sampled, np.bool_)
        if all(columns.get(name) is None for name in _CHOICE):
            columns = {**columns, **_kept_choice(cached, has_sampled)}
    sampled = ((may_sample | always_sampled) & _not_greedy(columns, rows)).tolist()
    counts = [
        n if n or (is_sampled and logprobs) else None
        for is_sampled, n in zip(sampled, top_logprobs.tolist(), strict=True)
    ]
    return _row_settings(columns, sampled, counts, mode)


def is_greedy(settings: SamplingParams) -> bool:
    """Whether the row chooses its best token."""
    return bool(settings.temperature < GREEDY_BELOW)


def has_penalty(settings: SamplingParams) -> bool:
    """Whether the row's logits depend on its tokens."""
    neutral = (settings.repetition_penalty, settings.frequency_penalty, settings.presence_penalty)
    return neutral != (1.0, 0.0, 0.0)


def _has_sampling_setting(columns: Columns, rows: int) -> np.ndarray:
    """bool [rows], whether a row's temperature, top_k or top_p is not neutral."""
    found = np.zeros(rows, np.bool_)
    for name in _CHOICE:
        if (column := columns.get(name)) is not None:
            found |= column != PARAMS[name].neutral
    return found


def _has_seed(columns: Columns, rows: int) -> np.ndarray:
    """bool [rows], whether a row has a seed."""
    column = columns.get("seed")
    return np.zeros(rows, np.bool_) if column is None else column != NO_SEED


def _kept_choice(
    cached: Sequence[SamplingParams | None], has_sampled: Sequence[bool]
) -> dict[str, np.ndarray | None]:
    """The columns of temperature, top_k and top_p from the requests that have sampled."""
    if not any(has_sampled):
        return {}
    return {
        name: np.array(
            [
                params[name] if params is not None and sampled else PARAMS[name].neutral
                for params, sampled in zip(cached, has_sampled, strict=True)
            ]
        )
        for name in _CHOICE
    }


def _not_greedy(columns: Columns, rows: int) -> np.ndarray:
    column = columns.get("temperature")
    return np.ones(rows, np.bool_) if column is None else column >= GREEDY_BELOW


def _row_settings(
    columns: Columns, sampled: Sequence[bool], counts: Sequence[int | None], mode: str
) -> list[SamplingParams]:
    cut = CUTS[mode]
    values = [_values(columns, name, len(sampled)) for name in PARAMS if name not in ("seed", "do_sample")]
    values.append([None if seed == NO_SEED else seed for seed in _values(columns, "seed", len(sampled))])
    return [
        _settings(cut, is_sampled, count, *row)
        for is_sampled, count, row in zip(sampled, counts, zip(*values, strict=True), strict=True)
    ]


def _values(columns: Columns, name: str, rows: int) -> list[Any]:
    column = columns.get(name)
    return [PARAMS[name].neutral] * rows if column is None else column.tolist()


@functools.lru_cache(maxsize=1024)
def _settings(
    top_p_cut: str,
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
        choice = {
            "temperature": temperature,
            "top_k": top_k,
            "top_p": top_p,
            "top_p_cut": top_p_cut,
            "logprobs_mode": "processed",
        }
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
