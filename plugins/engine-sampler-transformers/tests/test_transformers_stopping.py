"""Our stopping criteria as one of transformers' stopping criteria."""

from __future__ import annotations

import pytest
from engine_sampler_transformers import stopping_criteria
from transformers_models import EOS, byte_tokenizer, llama

from engine_sampler import ParameterError, SamplingParams
from engine_sampler.contract import StoppingCriteria, StopVerdict
from engine_sampler.stopping import ConfidenceCriteria, DeepConfCriteria

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")


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


class Documented(transformers.StoppingCriteria):
    """The example of transformers' documentation."""

    def __init__(self, length):
        self.length = length

    def __call__(self, input_ids, scores, **kwargs):
        done = input_ids.shape[1] >= self.length
        return torch.full((input_ids.shape[0],), done, dtype=torch.bool, device=input_ids.device)


def test_criteria_that_are_only_called_are_asked_after_each_token():
    criterion = stopping_criteria(SamplingParams(), criteria=[Documented(5)])
    assert verdicts(criterion, [[7, 7, 7], [7, 7, 7]]) == [[False] * 2, [False] * 2, [True] * 2]


def test_their_answer_stays_and_counts_from_min_tokens_on():
    def ends_at_nine(input_ids, scores):
        return input_ids[:, -1] == 9

    all_params = [SamplingParams(), SamplingParams(min_tokens=2)]
    criterion = stopping_criteria(all_params, criteria=[ends_at_nine])
    for _ in range(2):
        assert verdicts(criterion, [[9, 7, 7], [9, 7, 9]]) == [[True, False], [True, False], [True, True]]


def test_they_get_the_scores():
    theirs = transformers.generation.ConfidenceCriteria(0.5)
    scores = torch.tensor([[0.0, 3.0, 0.0, 0.0]])
    criterion = stopping_criteria(SamplingParams(), criteria=[theirs])
    assert criterion(torch.tensor([[0, 1]]), (scores,)).tolist() == [False]
    assert criterion(torch.tensor([[0, 1, 2]]), (scores, scores)).tolist() == [True]


def test_an_unlikely_token_ends_its_row():
    logits = torch.log(torch.tensor([[0.7, 0.3], [0.2, 0.8]]))
    criterion = stopping_criteria(
        [SamplingParams(assistant_confidence_threshold=0.5), SamplingParams(max_tokens=2)]
    )
    assert criterion(torch.tensor([[0, 0], [0, 0]]), (logits,)).tolist() == [False, False]
    assert criterion(torch.tensor([[0, 0, 1], [0, 0, 0]]), (logits, logits)).tolist() == [True, True]
    assert criterion(torch.tensor([[5, 1], [5, 0]]), logits).tolist() == [True, False]


@pytest.mark.parametrize("criteria", [[], [ConfidenceCriteria(0.5)]], ids=["params", "criteria"])
def test_a_threshold_without_scores_says_how_to_get_them(criteria):
    params = SamplingParams(assistant_confidence_threshold=0.0 if criteria else 0.5)
    criterion = stopping_criteria(params, criteria=criteria)
    with pytest.raises(ValueError, match=r"assistant_confidence_threshold needs .* output_scores=True"):
        criterion(torch.tensor([[0, 1]]), None)


@pytest.mark.parametrize("criteria", [[], [DeepConfCriteria(3)]], ids=["params", "criteria"])
def test_confidences_of_rows_are_refused(criteria):
    params = SamplingParams(deepconf_threshold=0.0 if criteria else 3.0)
    with pytest.raises(ParameterError, match="deepconf is not allowed here"):
        stopping_criteria(params, criteria=criteria)


def test_its_generate_stops_at_an_unlikely_token():
    settings = {"max_new_tokens": 12, "return_dict_in_generate": True, "output_scores": True}
    prompt = torch.tensor([[5, 6]])
    plain = llama().generate(prompt, **settings)
    chosen = [float(torch.softmax(s[0], -1).max()) for s in plain.scores]
    end = next(i for i in range(2, 12) if chosen[i] < min(chosen[:i]))
    threshold = (chosen[end] + min(chosen[:end])) / 2
    criterion = stopping_criteria(SamplingParams(assistant_confidence_threshold=threshold))
    found = llama().generate(prompt, stopping_criteria=[criterion], **settings)
    assert torch.equal(found.sequences, plain.sequences[:, : 2 + end + 1])


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


def assisted(model, inputs, criterion, **settings):
    """The rows of an assisted generation, whose steps may add several tokens."""
    return model.generate(inputs, assistant_model=model, stopping_criteria=[criterion], **settings)


PROMPT = torch.tensor([[5, 6, 7]])


def test_a_limit_holds_in_assisted_generation():
    alone = llama().generate(PROMPT, max_new_tokens=30, do_sample=False)
    for limit in range(1, 12):
        criterion = stopping_criteria(SamplingParams(max_tokens=limit))
        rows = assisted(llama(), PROMPT, criterion, max_new_tokens=30, do_sample=False)
        new = rows.shape[1] - PROMPT.shape[1]
        assert limit <= new <= limit + 20, limit  # at most one draft more
        assert rows.tolist() == alone[:, : rows.shape[1]].tolist()
    assert rows.shape[1] < alone.shape[1]


def test_a_stop_token_in_the_middle_of_a_draft_ends_the_generation():
    alone = llama().generate(PROMPT, max_new_tokens=30, do_sample=False)[0, 3:].tolist()
    for token in dict.fromkeys(alone):
        criterion = stopping_criteria(SamplingParams(stop_token_ids=[token]))
        rows = assisted(llama(), PROMPT, criterion, max_new_tokens=30, do_sample=False)
        assert token in rows[0, 3:].tolist()
        assert rows.shape[1] - 3 <= alone.index(token) + 21
        lookup = llama().generate(
            PROMPT,
            prompt_lookup_num_tokens=3,
            stopping_criteria=[criterion],
            max_new_tokens=30,
            do_sample=False,
        )
        assert alone.index(token) + 1 <= lookup.shape[1] - 3 <= alone.index(token) + 4


def test_all_tokens_of_a_draft_have_logprobs_for_criteria_that_use_them():
    criterion = stopping_criteria(SamplingParams(assistant_confidence_threshold=1e-9), prompt_length=1)
    scores = tuple(torch.randn(1, 10) for _ in range(5))
    assert criterion(torch.tensor([[5, 6, 7]]), scores[:2]).tolist() == [False]
    assert criterion(torch.tensor([[5, 6, 7, 8, 9, 3]]), scores).tolist() == [False]
    with pytest.raises(ValueError, match=r"scores of 1 steps are not allowed: 3 tokens are new"):
        criterion(torch.tensor([[5, 6, 7, 8, 9, 3, 1, 2, 3]]), scores[:1])


def test_a_text_goes_on_in_another_generation():
    criterion = stopping_criteria(SamplingParams(max_tokens=4))
    text = PROMPT
    for length in (7, 11, 15):
        text = llama().generate(text, max_new_tokens=30, do_sample=False, stopping_criteria=[criterion])
        assert text.shape[1] == length


def test_long_rows_are_judged_by_their_last_tokens():
    criterion = stopping_criteria(SamplingParams(stop_token_ids=[9]))
    text = torch.randint(10, 40, (2, 1000))
    assert criterion(text, None).tolist() == [False, False]
    swapped = torch.cat((text.flip(0), torch.tensor([[9], [8]])), dim=1)
    assert criterion(swapped, None).tolist() == [True, False]
