"""What callers give transformers' `generate` beside settings, what they get back, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
from transformers_models import PAD, PROMPTS, llama, ours, padded, t5, theirs

from engine_sampler import ParameterError, SamplingParams
from tests.chi_square import assert_drawn_from

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")


class Forbid(transformers.LogitsProcessor):
    """Removes one token."""

    def __init__(self, token):
        self.token = token

    def __call__(self, input_ids, scores):
        scores = scores.clone()
        scores[:, self.token] = -torch.inf
        return scores


class StopAt(transformers.StoppingCriteria):
    """Ends row i at length lengths[i]."""

    def __init__(self, lengths):
        self.lengths = torch.tensor(lengths)

    def __call__(self, input_ids, scores, **kwargs):
        return self.lengths <= input_ids.shape[1]


@pytest.mark.parametrize("params", [None, SamplingParams(temperature=0)], ids=["configured", "params"])
def test_a_processor_of_the_caller_runs(params):
    model = llama()
    token = int(theirs(model, max_new_tokens=1)[0, -1])
    settings = {"logits_processor": [Forbid(token)], "max_new_tokens": 12}
    found = ours(model, sampling_params=params, **settings)
    assert torch.equal(found, theirs(model, **settings))
    assert token not in found[:, 4:]


def test_processors_of_the_caller_keep_their_order_among_the_others():
    settings = {
        "do_sample": True,
        "repetition_penalty": 1.8,
        "temperature": 0.7,
        "top_k": 5,
        "max_new_tokens": 1,
    }
    settings["logits_processor"] = [Forbid(3), transformers.MinPLogitsWarper(0.2)]
    model, prompt = llama(), padded(PROMPTS[:1])
    scores = theirs(model, prompt, **settings, output_scores=True, return_dict_in_generate=True).scores[0]
    drawn = ours(model, prompt, **settings, num_return_sequences=1000, sampling_seed=2)[:, -1]
    assert_drawn_from(torch.softmax(scores[0].double(), -1).numpy(), drawn.numpy())


def test_a_criterion_of_the_caller_ends_rows():
    output = ours(
        llama(), stopping_criteria=[StopAt([7, 9, 30])], max_new_tokens=10, return_dict_in_generate=True
    )
    assert [len(r.token_ids) for r in output.records] == [3, 5, 10]
    assert output.records[0].stop_reason == "stopping_criteria"
    assert output.sequences[0, 7:].tolist() == [PAD] * 7


def test_allowed_tokens_by_prefix_are_respected():
    settings = {"prefix_allowed_tokens_fn": lambda row, ids: [4, 5, 6 + row], "max_new_tokens": 9}
    assert torch.equal(ours(llama(), **settings), theirs(llama(), **settings))


class Streamer(transformers.generation.BaseStreamer):
    """Records what it gets."""

    def __init__(self):
        self.received = []

    def put(self, value):
        self.received += value.flatten().tolist()

    def end(self):
        self.received.append("end")


@pytest.mark.parametrize("keyword", ["streamer", "sampling_streamer"])
def test_a_streamer_gets_the_tokens_that_its_own_generate_streams(keyword):
    streamers = Streamer(), Streamer()
    ours(llama(), padded(PROMPTS[:1]), max_new_tokens=6, **{keyword: streamers[0]})
    theirs(llama(), padded(PROMPTS[:1]), max_new_tokens=6, streamer=streamers[1])
    assert streamers[0].received == streamers[1].received
    assert streamers[0].received[-1] == "end"


def test_the_output_object_has_the_requested_parts():
    settings = {"max_new_tokens": 5, "return_dict_in_generate": True, "output_logits": True}
    settings |= {"output_hidden_states": True, "output_scores": True, "eos_token_id": 24}
    expected = theirs(llama(), **settings)
    output = ours(llama(), **settings)
    assert type(output) is type(expected)
    assert len(output.scores) == len(output.logits) == len(output.hidden_states) == len(expected.scores)
    for mine, their in zip(output.logits, expected.logits, strict=True):
        assert torch.allclose(mine, their, atol=1e-5)
    best = torch.stack([row.argmax(-1) for row in output.scores], 1)
    assert torch.equal(best[2], output.sequences[2, 4:])
    assert output.steps[0].request_ids == [0, 1, 2]


def test_scores_are_those_after_the_chain():
    params = SamplingParams(top_k=3, temperature=0.5, seed=1, order="transformers")
    output = ours(
        llama(), sampling_params=params, max_new_tokens=3, return_dict_in_generate=True, output_scores=True
    )
    for step in output.scores:
        assert ((step > -torch.inf).sum(-1) == 3).all()


@pytest.mark.parametrize("params", [None, SamplingParams(temperature=0)], ids=["configured", "params"])
def test_scores_of_greedy_rows_are_those_before_the_choice(params):
    settings = {"max_new_tokens": 6, "return_dict_in_generate": True, "output_scores": True}
    penalty = {} if params else {"repetition_penalty": 1.4}
    model = llama()
    expected = theirs(model, **settings, **penalty)
    output = ours(model, sampling_params=params, **settings, **penalty)
    for mine, their in zip(output.scores, expected.scores, strict=True):
        assert torch.allclose(mine, their, atol=1e-5)
    transitions = [
        model.compute_transition_scores(o.sequences, o.scores, normalize_logits=True)
        for o in (output, expected)
    ]
    assert torch.allclose(*transitions, atol=1e-5)
    assert (transitions[0] < 0).all()


def test_its_own_criteria_read_the_scores_of_greedy_rows():
    settings = {"max_new_tokens": 12, "return_dict_in_generate": True, "output_scores": True}
    inputs, model = padded(PROMPTS[:1]), llama()
    plain = theirs(model, inputs, **settings)
    chosen = [float(torch.softmax(scores[0], -1).max()) for scores in plain.scores]
    criterion = transformers.generation.ConfidenceCriteria(sorted(chosen)[4])
    expected = theirs(model, inputs, stopping_criteria=[criterion], **settings)
    assert 0 < expected.sequences.shape[1] - 4 < 12
    found = ours(model, inputs, stopping_criteria=[criterion], **settings)
    assert torch.equal(found.sequences, expected.sequences)


def test_an_encoder_decoder_gets_its_own_output_class():
    settings = {"max_new_tokens": 4, "return_dict_in_generate": True, "output_attentions": True}
    expected, output = theirs(t5(), **settings), ours(t5(), **settings)
    assert type(output) is type(expected)
    assert len(output.cross_attentions) == len(expected.cross_attentions)
    assert len(output.encoder_attentions) == len(expected.encoder_attentions)


def test_logprobs_are_in_the_steps():
    params = SamplingParams(temperature=0, logprobs=2)
    output = ours(llama(), sampling_params=params, max_new_tokens=2, return_dict_in_generate=True)
    assert output.steps[0].logprobs.token_ids.shape == (3, 3)
    assert np.array_equal(output.steps[1].logprobs.token_ids[:, 0], output.sequences[:, -1])


class Spoil(transformers.LogitsProcessor):
    """Makes row 1 faulty at its third token."""

    def __call__(self, input_ids, scores):
        if input_ids.shape[1] < 6:
            return scores
        scores = scores.clone()
        scores[1] = torch.nan
        return scores


def test_a_faulty_row_ends_with_a_warning_and_the_others_continue():
    with pytest.warns(UserWarning, match="row 1 ended with an error"):
        output = ours(llama(), logits_processor=[Spoil()], max_new_tokens=7, return_dict_in_generate=True)
    unconstrained = theirs(llama(), max_new_tokens=7)
    assert output.records[1].finish_reason == "error"
    assert torch.equal(output.sequences[[0, 2]], unconstrained[[0, 2]])
    assert output.sequences[1, 6:].tolist() == [PAD] * 5


@pytest.mark.parametrize(
    "settings",
    [
        {"num_beams": 3},
        {"num_beams": 2, "do_sample": True},
        {"penalty_alpha": 0.6, "top_k": 4},
        {"prompt_lookup_num_tokens": 2},
    ],
    ids=str,
)
def test_another_generation_mode_is_refused_by_name(settings):
    with pytest.raises(ParameterError, match=f"^{next(iter(settings))}="):
        ours(llama(), max_new_tokens=3, **settings)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (lambda: {"assistant_model": llama()}, "^assistant_model=<LlamaForCausalLM> is not allowed"),
        (lambda: {"synced_gpus": True}, "^synced_gpus=True is not allowed"),
        (
            lambda: {"streamer": Streamer(), "sampling_streamer": Streamer()},
            "sampling_streamer is not allowed",
        ),
    ],
    ids=["assistant_model", "synced_gpus", "streamers"],
)
def test_arguments_that_would_have_no_effect_are_refused(settings, message):
    with pytest.raises(ParameterError, match=message):
        ours(llama(), padded(PROMPTS[:1]), max_new_tokens=3, **settings())


def test_a_fixed_cache_that_is_too_small_is_refused():
    settings = {"cache_implementation": "static", "disable_compile": True, "max_new_tokens": 4}
    with pytest.raises(ParameterError, match=r"max_tokens=9 is not allowed: .* max_new_tokens=4"):
        ours(llama(), sampling_params=SamplingParams(max_tokens=9), **settings)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"sampling_params": [SamplingParams()] * 2}, "params has 2 entries, .* 3 rows"),
        ({"sampling_params": "greedy"}, "params='greedy' is not allowed"),
        ({"sampling_params": SamplingParams(n=2)}, "n=2.*num_return_sequences"),
        ({"sampling_params": SamplingParams(), "sampling_seed": 3}, "sampling_seed=3 is not allowed"),
        ({"sampling_params": SamplingParams(logit_bias={99: 1.0})}, "logit_bias"),
        ({"sampling_params": SamplingParams(regex="a")}, "tokenizer"),
        ({"sampling_grammar": ["start: \"a\""] * 2}, "grammar has 2 entries"),
        ({"sampling_seed": -5}, "seed=-5 is not allowed"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)  # fmt: skip
def test_bad_settings_are_refused_before_the_model_runs(settings, message):
    calls = []
    hook = llama().register_forward_pre_hook(lambda *_: calls.append(1))
    try:
        with pytest.raises(ParameterError, match=message):
            ours(llama(), max_new_tokens=3, **settings)
    finally:
        hook.remove()
    assert not calls
