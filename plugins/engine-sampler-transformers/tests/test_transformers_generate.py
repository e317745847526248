"""A whole `generate()` of transformers on our scheduler."""

from __future__ import annotations

import json

import numpy as np
import pytest
from engine_sampler_transformers import custom_generate
from transformers_models import EOS, PAD, byte_tokenizer, gpt2, llama, t5

from engine_sampler import ParameterError, SamplingParams, Tokenizer
from tests.chi_square import assert_drawn_from

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

PROMPTS = [[5, 6, 7, 8], [9, 10, 11, 12], [30, 4]]


def padded(prompts=PROMPTS):
    """(input_ids, attention_mask), padded on the left."""
    width = max(map(len, prompts))
    ids = [[PAD] * (width - len(p)) + p for p in prompts]
    mask = [[0] * (width - len(p)) + [1] * len(p) for p in prompts]
    return {"input_ids": torch.tensor(ids), "attention_mask": torch.tensor(mask)}


def ours(model, inputs=None, **settings):
    return model.generate(**(inputs or padded()), custom_generate=custom_generate, **settings)


def theirs(model, inputs=None, **settings):
    return model.generate(**(inputs or padded()), **settings)


# --- greedy --------------------------------------------------------------------------------------

GREEDY = [
    {},
    {"repetition_penalty": 1.7, "use_cache": False},
    {"repetition_penalty": 1.3, "bad_words_ids": [[24], [39, 2], [9, 10]]},
    {"suppress_tokens": [24, 35], "repetition_penalty": 1.3},
    {"sequence_bias": [[[24], -4.0]], "top_k": 3, "temperature": 0.5},
]


@pytest.mark.parametrize("settings", GREEDY, ids=str)
@pytest.mark.parametrize("build", [llama, gpt2])
def test_greedy_rows_equal_those_of_its_own_generate(build, settings):
    expected = theirs(build(), max_new_tokens=16, **settings)
    assert torch.equal(ours(build(), max_new_tokens=16, **settings), expected)


def test_no_repeat_ngram_size_without_padding_gives_the_rows_of_its_own_generate():
    settings = {"no_repeat_ngram_size": 2, "repetition_penalty": 1.1, "max_new_tokens": 24}
    inputs = padded(PROMPTS[:2])
    assert torch.equal(ours(llama(), inputs, **settings), theirs(llama(), inputs, **settings))


def test_padding_is_part_of_no_ngram():
    settings = {"no_repeat_ngram_size": 2, "max_new_tokens": 24}
    alone = theirs(llama(), padded(PROMPTS[2:]), **settings)
    assert torch.equal(ours(llama(), **settings)[2:, 2:], alone)


@pytest.mark.parametrize("settings", [{}, {"min_new_tokens": 9}, {"min_length": 11}], ids=str)
def test_rows_that_end_early_are_padded_while_others_continue(settings):
    model = llama()
    plain = theirs(model, max_new_tokens=24)
    ends = [int(plain[0, 7]), int(plain[1, 14])]
    expected = theirs(model, max_new_tokens=24, eos_token_id=ends, **settings)
    found = ours(model, max_new_tokens=24, eos_token_id=ends, **settings)
    assert torch.equal(found, expected)
    assert (found[:, 4:] == PAD).any()


@pytest.mark.parametrize("settings", [{"max_length": 15}, {"max_new_tokens": 20}], ids=str)
def test_an_encoder_decoder_is_supported(settings):
    assert torch.equal(ours(t5(), **settings), theirs(t5(), **settings))


def test_a_prompt_continues_from_the_cache_of_another_call():
    model = llama()
    first = padded(PROMPTS[:1])
    started = ours(model, first, max_new_tokens=6, return_dict_in_generate=True)
    extended = {"input_ids": started.sequences, "attention_mask": torch.ones_like(started.sequences)}
    expected = theirs(model, first, max_new_tokens=16)
    found = ours(model, extended, past_key_values=started.past_key_values, max_new_tokens=10)
    assert torch.equal(found, expected)


@pytest.mark.parametrize(
    "settings",
    [{"cache_implementation": "static", "disable_compile": True}, {"prefill_chunk_size": 2}],
    ids=str,
)
def test_other_caches_and_prefills_are_supported(settings):
    inputs = padded(PROMPTS[:2])
    expected = theirs(llama(), inputs, max_new_tokens=12, **settings)
    assert torch.equal(ours(llama(), inputs, max_new_tokens=12, **settings), expected)


# --- sampling ------------------------------------------------------------------------------------

SAMPLED = [
    {},
    {"temperature": 0.6},
    {"temperature": 1.5, "top_k": 7},
    {"top_p": 0.7},
    {"min_p": 0.1, "temperature": 1.3},
    {"typical_p": 0.6},
    {"epsilon_cutoff": 0.02},
    {"eta_cutoff": 0.05},
    {"top_h": 0.4},
    {"repetition_penalty": 1.5, "top_p": 0.9, "no_repeat_ngram_size": 2, "bad_words_ids": [[3]]},
    {"renormalize_logits": True, "top_k": 9, "top_p": 0.8},
]


@pytest.mark.parametrize("settings", SAMPLED, ids=str)
def test_sampled_tokens_follow_the_distribution_of_its_own_generate(settings):
    settings = {"do_sample": True, "top_k": 0, "max_new_tokens": 1, **settings}
    model, prompt = llama(), padded([[5, 6, 7, 5, 6]])
    scores = theirs(model, prompt, **settings, output_scores=True, return_dict_in_generate=True).scores[0]
    probabilities = torch.softmax(scores[0].double(), -1).numpy()
    drawn = ours(model, prompt, **settings, num_return_sequences=800, sampling_seed=11)[:, -1]
    assert_drawn_from(probabilities, drawn.numpy())


def test_two_tokens_follow_their_joint_distribution():
    model = llama(12)
    prompt = [5, 6, 7]
    with torch.no_grad():
        first = torch.softmax(model(torch.tensor([prompt])).logits[0, -1].double() / 0.8, -1)
        pairs = torch.tensor([[*prompt, token] for token in range(12)])
        second = torch.softmax(model(pairs).logits[:, -1].double() / 0.8, -1)
    params = [SamplingParams(temperature=0.8, seed=seed) for seed in range(2000)]
    drawn = ours(model, padded([prompt] * 2000), sampling_params=params, max_new_tokens=2)[:, -2:]
    assert_drawn_from((first[:, None] * second).flatten().numpy(), (drawn[:, 0] * 12 + drawn[:, 1]).numpy())


def test_its_defaults_for_sampling_apply():
    settings = {"do_sample": True, "max_new_tokens": 1, "num_return_sequences": 800}
    drawn = ours(llama(200), padded(PROMPTS[:1]), **settings, sampling_seed=1)[:, -1]
    with torch.no_grad():
        best = llama(200)(torch.tensor(PROMPTS[:1])).logits[0, -1].topk(50).indices
    assert set(drawn.tolist()) <= set(best.tolist())


def test_a_seed_repeats_itself_and_siblings_differ():
    settings = {"do_sample": True, "max_new_tokens": 12, "num_return_sequences": 4}
    first, second = (ours(llama(), **settings, sampling_seed=5) for _ in range(2))
    assert torch.equal(first, second)
    assert len({tuple(row) for row in first[:4].tolist()}) == 4


SIBLINGS = {"do_sample": True, "num_return_sequences": 5}


def test_siblings_draw_as_siblings_of_a_group():
    from engine_sampler import Scheduler

    params = SamplingParams(seed=8, temperature=1.4)
    prompt = padded(PROMPTS[:1])
    drawn = ours(llama(), prompt, sampling_params=params, max_new_tokens=1, **SIBLINGS)[:, -1]
    scheduler = Scheduler(40)
    scheduler.add_group(params.replace(n=5), PROMPTS[0])
    with torch.no_grad():
        row = llama()(**prompt).logits[:, -1]
    assert scheduler.step(row.expand(5, -1)).token_ids.tolist() == drawn.tolist()


# --- our settings --------------------------------------------------------------------------------


def test_every_row_has_its_own_settings_and_none_depends_on_the_others():
    model = llama()
    all_params = [
        SamplingParams(temperature=0, max_tokens=4),
        SamplingParams(top_p=0.9, dry_multiplier=0.8, seed=3, max_tokens=9),
        SamplingParams(mirostat=2, seed=4, logit_bias={7: 2.0}),
    ]
    together = ours(model, sampling_params=all_params, max_new_tokens=12, return_dict_in_generate=True)
    assert [len(r.token_ids) for r in together.records] == [4, 9, 12]
    assert [r.stop_reason for r in together.records] == ["max_tokens"] * 3
    for i, params in enumerate(all_params):
        alone = ours(model, padded([PROMPTS[i]]), sampling_params=params, max_new_tokens=12)[0].tolist()
        assert alone == PROMPTS[i] + together.records[i].token_ids
    assert together.sequences[0, 8:].tolist() == [PAD] * 8


def test_padding_belongs_to_no_history():
    params = SamplingParams(temperature=0, presence_penalty=2.0, penalty_scope="all", repetition_penalty=1.4)
    alone = ours(llama(), padded(PROMPTS[2:]), sampling_params=params, max_new_tokens=10)
    assert torch.equal(ours(llama(), sampling_params=params, max_new_tokens=10)[2:, 2:], alone)


def test_settings_in_params_take_precedence_over_the_configured_ones():
    settings = {"do_sample": True, "temperature": 9.0, "top_k": 1, "repetition_penalty": 3.0}
    found = ours(llama(), sampling_params=SamplingParams(temperature=0), max_new_tokens=8, **settings)
    assert torch.equal(found, theirs(llama(), max_new_tokens=8))


def test_a_limit_in_params_takes_precedence_over_the_configured_one():
    found = ours(llama(), sampling_params=SamplingParams(temperature=0, max_tokens=30), max_new_tokens=3)
    assert torch.equal(found, theirs(llama(), max_new_tokens=30))


def test_a_row_ends_at_its_own_stop_token():
    unconstrained = theirs(llama(), max_new_tokens=8)
    params = [SamplingParams(temperature=0, stop_token_ids=[int(unconstrained[i, 6])]) for i in range(3)]
    output = ours(llama(), sampling_params=params, max_new_tokens=8, return_dict_in_generate=True)
    assert [r.stop_reason for r in output.records] == [int(unconstrained[i, 6]) for i in range(3)]
    assert all(len(r.token_ids) <= 3 for r in output.records)


def test_a_row_ends_at_its_own_stop_string():
    tokenizer = byte_tokenizer()
    inputs = tokenizer(["one", "two"], return_tensors="pt")
    letters = SamplingParams(seed=3, allowed_token_ids=tokenizer("abcdefgh")["input_ids"], max_tokens=12)
    settings = {"sampling_tokenizer": tokenizer, "max_new_tokens": 12, "return_dict_in_generate": True}
    unconstrained = ours(llama(len(tokenizer)), inputs, sampling_params=letters, **settings).records
    params = [letters.replace(stop=[unconstrained[0].text[4:6]]), letters]
    first, second = ours(llama(len(tokenizer)), inputs, sampling_params=params, **settings).records
    assert first.stop_reason == unconstrained[0].text[4:6]
    assert len(first.token_ids) <= 6
    assert second.token_ids == unconstrained[1].token_ids


def test_a_row_is_constrained_by_its_schema_while_another_is_not():
    tokenizer = byte_tokenizer()
    params = [
        SamplingParams(json_schema={"enum": [[1, {"a": None}]]}, seed=2, max_tokens=60),
        SamplingParams(seed=2, temperature=0.5),
        SamplingParams(regex="[ab]{3}", seed=5),
    ]
    output = ours(
        llama(len(tokenizer), EOS), tokenizer(["one", "two", "{"], return_tensors="pt", padding=True),
        sampling_params=params, sampling_tokenizer=tokenizer, max_new_tokens=60, return_dict_in_generate=True,
    )  # fmt: skip
    texts = [record.text for record in output.records]
    assert json.loads(texts[0]) == [1, {"a": None}]
    assert set(texts[2]) <= set("ab")
    assert len(texts[2]) == 3


def test_a_compiled_grammar_may_be_given_for_one_of_the_prompts():
    from engine_sampler import Grammar

    tokenizer = Tokenizer.from_transformers(byte_tokenizer())
    grammar = Grammar.from_choices(["left", "right"]).compile(tokenizer)
    output = ours(
        llama(len(tokenizer), EOS), byte_tokenizer()(["a", "b"], return_tensors="pt"),
        sampling_params=SamplingParams(seed=1), sampling_tokenizer=tokenizer,
        sampling_grammar=[grammar, None], do_sample=True, num_return_sequences=3,
        max_new_tokens=9, return_dict_in_generate=True,
    )  # fmt: skip
    assert {record.text for record in output.records[:3]} <= {"left", "right"}
    assert not {record.text for record in output.records[3:]} & {"left", "right"}


# --- arguments of generate's callers -------------------------------------------------------------


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


# --- errors --------------------------------------------------------------------------------------


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
