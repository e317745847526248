"""Records that do not fit, and parameters that cannot be replayed, give one clear error."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from engine_sampler_torch import ReplayRecord, replay

from engine_sampler import ParameterError, SamplingMask, SamplingParams

MASK = SamplingMask.of(
    [np.array([1, 4]), np.array([2]), np.array([], int)],
    {"is_inverted": [False, True, True], "is_capped": [False] * 3},
    [-0.5, -1.0, -2.0],
    6,
)
RECORD = ReplayRecord(SamplingParams(), [0, 1], [4, 3, 5], MASK)
LOGITS = torch.zeros(3, 6)


def masked(
    listed: list[list[int]], is_inverted: list[bool], is_capped: list[bool] | None = None
) -> SamplingMask:
    flags = {"is_inverted": is_inverted, "is_capped": is_capped or [False] * len(listed)}
    return SamplingMask.of([np.array(ids, int) for ids in listed], flags, [0.0] * len(listed), 6)


WRONG: Mapping[str, tuple[dict[str, Any], str]] = {
    "an id outside": (
        {"output_token_ids": [4, 3, 6]},
        r"record\[0\].output_token_ids has the id 6; allowed are 0 to 5",
    ),
    "a negative id": ({"prompt_token_ids": [-1]}, r"record\[0\].prompt_token_ids has the id -1"),
    "ids that are none": ({"prompt_token_ids": "text"}, "a list of token ids"),
    "too few rows": (
        {"output_token_ids": [4, 3]},
        r"record\[0\].sampling_mask has 3 rows for 2 output_token_ids",
    ),
    "no mask": ({"sampling_mask": None}, r"record\[0\].sampling_mask=None is not allowed: a SamplingMask"),
    "a drawn token that did not survive": (
        {"output_token_ids": [4, 2, 5]},
        r"record\[0\].sampling_mask, row 1, does not keep the drawn token 2",
    ),
    "a row without a draw": (
        {"sampling_mask": masked([[], [2], []], [False, True, True])},
        r"record\[0\].sampling_mask, row 0, is not of a draw: what survived is not known",
    ),
    "a capped row": (
        {"sampling_mask": masked([[], [2], []], [False, True, True], [True, False, False])},
        r"row 0, is capped: what survived is not known; record with return_sampling_mask=-1, or",
    ),
    "ids that do not ascend": (
        {"sampling_mask": masked([[4, 4], [2], []], [False, True, True])},
        r"row 0, has the id 4: ids ascend in the vocabulary",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("changes", "message"), WRONG.values(), ids=WRONG)
def test_a_record_that_does_not_fit_is_named(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replay(LOGITS, replace(RECORD, **changes))


def test_rows_of_which_nothing_is_known_may_be_left_out() -> None:
    mask = masked([[], [2], []], [False, True, False], [True, False, False])
    logits = LOGITS.clone().requires_grad_()
    found = replay(logits, replace(RECORD, sampling_mask=mask), unknown="nan")
    assert found.isnan().tolist() == [True, False, True]
    found[1].backward()
    assert logits.grad is not None
    assert logits.grad.any(1).tolist() == [False, True, False]


@pytest.mark.parametrize(
    ("logits", "message"),
    [
        (torch.zeros(2, 6), r"logits have the shape \(2, 6\); the record needs \[3, at least 6\]"),
        (torch.zeros(3, 5), r"logits have the shape \(3, 5\)"),
        (torch.zeros(3, 6, 1), "the record needs"),
        (torch.zeros(3, 6, dtype=torch.float64), "a float32, float16 or bfloat16 tensor"),
        (np.zeros((3, 6), np.float32), "a float32, float16 or bfloat16 tensor"),
    ],
)
def test_logits_that_do_not_fit_are_refused(logits: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        replay(logits, RECORD)


def test_other_arguments_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="a ReplayRecord, or a list of one or more"):
        replay(LOGITS, [])
    with pytest.raises(ValueError, match=r"record\[1\]=3 is not allowed: a ReplayRecord"):
        replay(LOGITS, [RECORD, 3])  # type: ignore[list-item]
    with pytest.raises(ValueError, match="unknown='skip' is not allowed: 'error' or 'nan'"):
        replay(LOGITS, RECORD, unknown="skip")
    with pytest.raises(ValueError, match="chunk_size=0 is not allowed: an integer of at least 1"):
        replay(LOGITS, RECORD, chunk_size=0)


def _raise_the_last(token_ids: np.ndarray, logits: np.ndarray) -> None:
    logits[token_ids[-1:]] += np.float32(1.5)


ALONE: Mapping[str, tuple[Callable[[], SamplingParams], str]] = {
    "samplers in Python": (
        lambda: SamplingParams(logits_processors=_raise_the_last),
        "logits_processors cannot be replayed: it runs in Python, without gradients",
    ),
    "a grammar under a figure of whole rows": (
        lambda: SamplingParams(regex="a*", smoothing_factor=0.5, top_k=3, order=["smoothing", "top_k"]),
        r"record\[0\] cannot be replayed: a grammar is not",
    ),
    "xtc without a seed before a figure of whole rows": (
        lambda: SamplingParams(
            xtc_probability=0.5, smoothing_factor=0.5, top_k=3, order=["xtc", "smoothing", "top_k"]
        ),
        r"record\[0\] cannot be replayed: xtc .* needs the seed",
    ),
}


@pytest.mark.parametrize(("make", "message"), ALONE.values(), ids=ALONE)
def test_parameters_that_cannot_be_replayed_are_named(
    make: Callable[[], SamplingParams], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        replay(LOGITS, replace(RECORD, params=make()))


def test_parameters_that_need_a_tokenizer_say_so() -> None:
    with pytest.raises(ParameterError, match="needs a tokenizer"):
        replay(LOGITS, replace(RECORD, params={"repetition_penalty": 2.0, "penalize_nl": False}))


def test_parameters_of_other_kinds_are_refused() -> None:
    with pytest.raises(ParameterError, match="temperature_ "):
        replay(LOGITS, replace(RECORD, params={"temperature_ ": 1.0}))


def test_an_output_that_its_phases_do_not_allow_is_refused() -> None:
    params = SamplingParams(phases=[{"tokens": 1, "force": [2]}, {}])
    with pytest.raises(ValueError, match=r"record\[0\] cannot be replayed: .* force another token"):
        replay(LOGITS, replace(RECORD, params=params))
