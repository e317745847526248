"""Our stopping criteria as one of transformers' stopping criteria."""

from __future__ import annotations

import pytest

from engine_sampler import SamplingParams
from engine_sampler.adapters.transformers import stopping_criteria
from engine_sampler.contract import ParameterError, StoppingCriteria, StopVerdict

from .models import EOS, byte_tokenizer, llama

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")


def verdicts(criterion, outputs, prompt=(5, 6)):
    """The criterion's results after each token of `outputs`, a list of rows."""
    results = []
    for end in range(1, len(outputs[0]) + 1):
        ids = torch.tensor([[*prompt, *row[:end]] for row in outputs])
        done = criterion(ids, None)
        assert (done.dtype, done.device) == (torch.bool, ids.device)
        results.append(done.tolist())
    return results


def test_each_row_ends_at_its_own_limit_and_stays_ended():
    criterion = stopping_criteria([SamplingParams(max_tokens=n) for n in (1, 3)])
    assert verdicts(criterion, [[7, 7, 7], [8, 8, 8]]) == [[True, False], [True, False], [True, True]]


def test_a_stop_token_ends_its_row():
    criterion = stopping_criteria(SamplingParams(stop_token_ids=[9], top_k=3, logit_bias={3: 1.0}))
    assert verdicts(criterion, [[7, 9], [9, 7]]) == [[False, True], [True, True]]


def test_eos_ends_a_row_unless_it_is_ignored():
    all_params = [SamplingParams(), SamplingParams(ignore_eos=True)]
    criterion = stopping_criteria(all_params, eos_token_ids=[EOS])
    assert verdicts(criterion, [[7, EOS], [7, EOS]]) == [[False, False], [True, False]]


def test_time_ends_all_rows():
    criterion = stopping_criteria(SamplingParams(max_time=0.0))
    assert verdicts(criterion, [[7], [8]]) == [[True, True]]


def test_a_stop_string_ends_its_row_across_tokens():
    tokenizer = byte_tokenizer()
    outputs = [tokenizer(text)["input_ids"] for text in ("some end", "no stop ")]
    criterion = stopping_criteria(SamplingParams(stop=["e en"]), tokenizer)
    results = verdicts(criterion, outputs)
    assert [row[0] for row in results] == [False] * 6 + [True] * 2
    assert not any(row[1] for row in results)


def test_the_prompt_length_may_be_given_for_a_longer_first_call():
    criterion = stopping_criteria(SamplingParams(max_tokens=3), prompt_length=2)
    assert criterion(torch.tensor([[5, 6, 7, 8]]), None).tolist() == [False]
    assert criterion(torch.tensor([[5, 6, 7, 8, 9]]), None).tolist() == [True]


def test_rows_that_are_swapped_are_judged_by_their_tokens():
    criterion = stopping_criteria(SamplingParams(stop_token_ids=[9]))
    criterion(torch.tensor([[5, 6, 9], [5, 6, 7]]), None)
    assert criterion(torch.tensor([[5, 6, 7, 4], [5, 6, 7, 9]]), None).tolist() == [False, True]


def test_a_new_generation_starts_from_scratch():
    criterion = stopping_criteria(SamplingParams(max_tokens=2))
    for _ in range(2):
        assert verdicts(criterion, [[7, 8]]) == [[False], [True]]


class EveryOther(StoppingCriteria):
    """Ends a request at an even token."""

    name = "every_other"

    def check(self, state, token_ids, text):
        return StopVerdict("even") if any(t % 2 == 0 for t in token_ids) else None


def test_custom_criteria_are_called():
    criterion = stopping_criteria(SamplingParams(), criteria=[EveryOther()])
    assert verdicts(criterion, [[7, 7, 8]]) == [[False], [False], [True]]


def test_its_generate_stops_by_our_criteria():
    all_params = [SamplingParams(max_tokens=4), SamplingParams(max_tokens=7)]
    ids = llama().generate(
        torch.tensor([[5, 6], [7, 8]]), stopping_criteria=[stopping_criteria(all_params)], max_new_tokens=12,
        eos_token_id=99, pad_token_id=0,
    )  # fmt: skip
    assert ids.shape == (2, 9)
    assert ids[0, 6:].tolist() == [0, 0, 0]


def test_settings_that_do_not_fit_the_rows_are_refused_by_name():
    with pytest.raises(ParameterError, match="params has 3 entries"):
        stopping_criteria([SamplingParams()] * 3)(torch.tensor([[1], [2]]), None)
