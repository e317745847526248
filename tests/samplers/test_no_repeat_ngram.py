import json

import numpy as np
import pytest

from engine_sampler.contract import ParameterError
from engine_sampler.params import SamplingParams
from engine_sampler.samplers.no_repeat_ngram import NoRepeatNgram
from engine_sampler.testing import apply_sampler
from tests.conftest import shared_data
from tests.drawing import examples, integers, lists


def run(n, logits, prompt, output=()):
    params = SamplingParams(no_repeat_ngram_size=n)
    return apply_sampler(NoRepeatNgram(), logits, params, prompts=[prompt], outputs=[output])


tokens = lists(integers(0, 2), 12)


@examples(1000, integers(1, 5), tokens, tokens)
def test_no_ngram_can_occur_twice(n, prompt, output):
    history = prompt + output
    ngrams = {tuple(history[i : i + n]) for i in range(len(history) - n + 1)}
    seen = [len(history) >= n - 1 and tuple([*history, t][-n:]) in ngrams for t in range(4)]
    row = run(n, np.zeros(4), prompt, output)
    assert (row == -np.inf).tolist() == seen


def test_a_row_that_would_be_empty_is_unchanged():
    assert run(1, [1.0, 2.0, -np.inf], [0, 1]).tolist() == [1.0, 2.0, -np.inf]


def test_transformers_cases():
    cases = json.loads(shared_data("logits_process_cases.json").read_text())["cases"]
    cases = [c for c in cases if c["sampler"] == "no_repeat_ngram"]
    assert len(cases) == 4
    for case in cases:
        n = case["params"]["no_repeat_ngram_size"]
        for i, (logits, history) in enumerate(zip(case["scores"], case["input_ids"], strict=True)):
            row = run(n, logits, history)
            mask = case["expect"].get("neg_inf_mask")
            expected = np.flatnonzero(mask[i]).tolist() if mask else case["expect"]["neg_inf_columns"]
            assert np.flatnonzero(row == -np.inf).tolist() == expected, case["id"]


def test_a_negative_size_is_refused():
    with pytest.raises(
        ParameterError, match="no_repeat_ngram_size=-2 is not allowed: an integer of at least 0"
    ):
        SamplingParams(no_repeat_ngram_size=-2)
