"""A whole `generate()` of transformers on our scheduler."""

from __future__ import annotations

import json

import pytest
from engine_sampler_transformers.config import map_processors
from transformers_models import EOS, PAD, PROMPTS, byte_tokenizer, gpt2, llama, ours, padded, t5, theirs

from engine_sampler import ParameterError, SamplingParams, Tokenizer
from tests.chi_square import assert_drawn_from

torch = pytest.importorskip("torch")
GenerationConfig = pytest.importorskip("transformers").GenerationConfig

# --- greedy --------------------------------------------------------------------------------------


GREEDY = [
    {},
    {"repetition_penalty": 1.7, "use_cache": False},
    {"repetition_penalty": 1.3, "bad_words_ids": [[24], [39, 2], [9, 10]]},
    {"suppress_tokens": [24, 35], "repetition_penalty": 1.3},
    {"suppress_tokens": [24, 35], "begin_suppress_tokens": [7, 39, 2], "min_new_tokens": 3},
    {"sequence_bias": [[[24], -4.0]], "top_k": 3, "temperature": 0.5},
    {"sequence_bias": [[[24], -4.0], [[39, 2], -9.0], [[2, 7], 5.0]], "repetition_penalty": 1.2},
    {"forced_eos_token_id": [EOS], "repetition_penalty": 1.2},
    {"exponential_decay_length_penalty": (3, 1.4), "eos_token_id": [EOS, 5]},
]


@pytest.mark.parametrize("settings", GREEDY, ids=str)
@pytest.mark.parametrize("build", [llama, gpt2])
def test_greedy_rows_equal_those_of_its_own_generate(build, settings):
    expected = theirs(build(), max_new_tokens=16, **settings)
    assert torch.equal(ours(build(), max_new_tokens=16, **settings), expected)


@pytest.mark.parametrize("settings", GREEDY[1:], ids=str)
def test_what_transformers_prepares_for_them_becomes_parameters(settings):
    settings = {name: value for name, value in settings.items() if name != "use_cache"}
    config = GenerationConfig(max_length=20, **settings)
    model = llama()
    model._prepare_special_tokens(config)
    processors = model._get_logits_processor(config, 4, torch.tensor([[1, 2, 3, 4]]))
    assert map_processors(processors, 4).rest == []


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


@pytest.mark.parametrize(
    "settings",
    [
        {"max_length": 15},
        {"max_new_tokens": 20},
        {"max_new_tokens": 9, "forced_bos_token_id": 7, "forced_eos_token_id": 11},
        {"max_new_tokens": 9, "forced_bos_token_id": 7, "begin_suppress_tokens": [9, 7, 3, 30]},
    ],
    ids=str,
)
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


def test_a_missing_tokenizer_is_asked_for_by_its_name_here():
    tokenizer = byte_tokenizer()
    with pytest.raises(
        ParameterError, match=r"regex .* needs a tokenizer; it is given as sampling_tokenizer$"
    ):
        ours(
            llama(len(tokenizer), EOS), tokenizer(["a"], return_tensors="pt"),
            sampling_params=SamplingParams(regex="[a-z]+"), max_new_tokens=9,
        )  # fmt: skip
