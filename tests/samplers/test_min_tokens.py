import json

import numpy as np
import pytest

from engine_sampler.contract import ParameterError
from engine_sampler.params import SamplingParams
from engine_sampler.samplers.min_tokens import MinTokens
from engine_sampler.testing import apply_sampler
from tests.conftest import shared_data


def test_tokens_that_end_the_text_are_removed_until_the_output_is_long_enough():
    logits = np.zeros(5)
    params = SamplingParams(min_tokens=3, stop_token_ids=[4])
    for length in range(6):
        row = apply_sampler(
            MinTokens(), logits, params, prompts=[[1] * 9], outputs=[[1] * length], eos_token_ids=(2,)
        )
        assert np.flatnonzero(row == -np.inf).tolist() == ([2, 4] if length < 3 else [])


def test_a_row_of_such_tokens_alone_is_unchanged():
    params = SamplingParams(min_tokens=3, stop_token_ids=[1])
    row = apply_sampler(MinTokens(), [1.0, 2.0, -np.inf], params, eos_token_ids=(0,))
    assert row.tolist() == [1.0, 2.0, -np.inf]


def test_transformers_cases():
    cases = json.loads(shared_data("logits_process_cases.json").read_text())["cases"]
    cases = [c for c in cases if c["sampler"] in ("min_new_tokens", "min_length")]
    assert len(cases) == 14
    for case in cases:
        p = case["params"]
        prompt_length = p.get("prompt_length_to_skip", 0)
        least = p.get("min_new_tokens", p.get("min_length"))
        rows = apply_sampler(
            MinTokens(),
            case["scores"],
            [SamplingParams(min_tokens=least)] * len(case["scores"]),
            prompts=[ids[:prompt_length] for ids in case["input_ids"]],
            outputs=[ids[prompt_length:] for ids in case["input_ids"]],
            eos_token_ids=np.atleast_1d(p["eos_token_id"]).tolist(),
        )
        removed = {tuple(np.flatnonzero(row == -np.inf).tolist()) for row in rows}
        assert removed == {tuple(case["expect"].get("neg_inf_columns", ()))}, case["id"]


def test_a_stop_token_outside_the_vocabulary_is_named_in_the_error():
    params = SamplingParams(min_tokens=1, stop_token_ids=[2])
    with pytest.raises(ParameterError, match="stop_token_ids names token id 2, allowed are 0 to 1"):
        apply_sampler(MinTokens(), [0.0, 1.0], params)


def test_a_negative_number_is_refused():
    with pytest.raises(ParameterError, match="min_tokens=-1 is not allowed: an integer of at least 0"):
        SamplingParams(min_tokens=-1)
