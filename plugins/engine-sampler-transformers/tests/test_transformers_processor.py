"""Our chains as transformers' logits processors."""

from __future__ import annotations

import json

import numpy as np
import pytest
from engine_sampler_transformers import NEUTRAL, ChainLogitsProcessor
from transformers_models import EOS, PAD, byte_tokenizer, llama

from engine_sampler import ParameterError, SamplingParams, process_logits
from tests.chi_square import assert_drawn_from

torch = pytest.importorskip("torch")
transformers = pytest.importorskip("transformers")

CHAIN = SamplingParams(repetition_penalty=1.5, dry_multiplier=0.8, top_k=9, top_p=0.8, temperature=1.3)


def scores(rows=2, width=40, seed=0, dtype=torch.float32):
    generator = torch.Generator().manual_seed(seed)
    return (torch.randn(rows, width, generator=generator) * 3).to(dtype)


def test_scores_are_those_of_the_chain_and_the_callers_are_not_modified():
    ids, given = torch.tensor([[5, 6, 7], [7, 7, 7]]), scores()
    before = given.clone()
    found = ChainLogitsProcessor(CHAIN)(ids, given)
    assert torch.equal(given, before)
    assert np.array_equal(found.numpy(), process_logits(before, CHAIN, prompt_token_ids=ids.tolist()))


def test_the_columns_of_the_first_call_are_the_prompt():
    params = SamplingParams(presence_penalty=1.0, min_tokens=2)
    processor = ChainLogitsProcessor(params, eos_token_ids=[EOS])
    ids = torch.tensor([[5, 6, 7]])
    for length in range(4):
        given = scores(1, seed=length)
        expected = given.clone()
        expected[0, ids[0, 3:].unique()] -= 1.0
        if length < 2:
            expected[0, EOS] = -torch.inf
        assert torch.equal(processor(ids, given), expected)
        ids = torch.cat([ids, torch.tensor([[9 + length % 2]])], 1)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_the_dtype_is_kept(dtype):
    given = scores(dtype=dtype)
    found = ChainLogitsProcessor(SamplingParams(top_k=4))(torch.tensor([[1], [2]]), given)
    assert found.dtype == dtype
    assert torch.equal(found[found > -torch.inf], given[found > -torch.inf])
    assert (found > -torch.inf).sum().item() == 8


@pytest.mark.parametrize("padding", [{"prompt_lengths": [2, 4]}, {"pad_token_id": PAD}], ids=str)
def test_padding_belongs_to_no_history(padding):
    ids, given = torch.tensor([[PAD, PAD, 7, 8], [5, 6, 7, 8]]), scores()
    params = SamplingParams(repetition_penalty=2.0, xtc_probability=0.5, xtc_threshold=0.01, seed=3)
    found = ChainLogitsProcessor(params, **padding)(ids, given)
    alone = ChainLogitsProcessor(params)(ids[:1, 2:], given[:1])
    assert torch.equal(found[:1], alone)


def test_rows_share_the_settings_of_their_prompt():
    all_params = [SamplingParams(top_k=1), SamplingParams(top_k=5)]
    found = ChainLogitsProcessor(all_params)(torch.full((6, 2), 3), scores(6))
    assert (found > -torch.inf).sum(1).tolist() == [1, 1, 1, 5, 5, 5]


def test_rows_that_are_swapped_keep_their_history():
    params = SamplingParams(frequency_penalty=1.0, no_repeat_ngram_size=2)
    processor = ChainLogitsProcessor(params)
    ids = torch.tensor([[5, 6], [5, 6], [9, 9], [9, 9]])
    processor(ids, scores(4))
    ids = torch.cat([ids, torch.tensor([[3], [4], [3], [4]])], 1)
    processor(ids, scores(4))
    ids = torch.cat([ids[[1, 0, 3, 3]], torch.tensor([[8], [9], [8], [7]])], 1)
    given = scores(4, seed=5)
    expected = process_logits(
        given, params, prompt_token_ids=ids[:, :2].tolist(), output_token_ids=ids[:, 2:].tolist()
    )
    assert np.array_equal(processor(ids, given).numpy(), expected)


def test_other_prompts_begin_a_new_generation():
    params = SamplingParams(presence_penalty=3.0)
    processor = ChainLogitsProcessor(params)
    processor(torch.tensor([[5, 6]]), scores(1))
    processor(torch.tensor([[5, 6, 7]]), scores(1))
    for ids in ([[4, 6, 7]], [[5, 6, 7, 8, 9]]):
        given = scores(1)
        assert torch.equal(processor(torch.tensor(ids), given), given)
    processor(torch.tensor([[5]]), scores(1))
    processor.reset()
    given = scores(1)
    assert torch.equal(processor(torch.tensor([[5, 6]]), given), given)


def test_its_generate_follows_the_chain():
    settings = {"logits_processor": [ChainLogitsProcessor(CHAIN)], "do_sample": True, **NEUTRAL}
    prompt = [5, 6, 7, 5, 6]
    with torch.no_grad():
        row = llama()(torch.tensor([prompt])).logits[:, -1]
    processed = process_logits(row, CHAIN, prompt_token_ids=[prompt])[0].astype(np.float64)
    weights = np.exp(processed - processed.max())
    torch.manual_seed(1)
    drawn = llama().generate(torch.tensor([prompt] * 1000), max_new_tokens=1, **settings)[:, -1]
    assert_drawn_from(weights / weights.sum(), drawn.numpy())


def test_beams_of_its_own_generate_run_through_the_chain():
    params = SamplingParams(no_repeat_ngram_size=2, order="transformers")
    settings = {"num_beams": 3, "max_new_tokens": 20, "pad_token_id": PAD}
    ids = torch.tensor([[5, 6, 7], [8, 9, 8]])
    found = llama().generate(ids, logits_processor=[ChainLogitsProcessor(params)], **settings)
    assert torch.equal(found, llama().generate(ids, no_repeat_ngram_size=2, **settings))


def test_limits_and_stops_are_left_to_the_loop():
    params = SamplingParams(top_k=2, max_tokens=3, max_time=0.0, stop_token_ids=list(range(20)))
    settings = {"logits_processor": [ChainLogitsProcessor(params)], "output_scores": True, **NEUTRAL}
    output = llama().generate(
        torch.tensor([[5, 6]]), max_new_tokens=12, do_sample=True, return_dict_in_generate=True, **settings
    )
    assert [(step > -torch.inf).sum().item() for step in output.scores] == [2] * 12


def test_rows_are_constrained_by_a_schema_and_then_get_only_eos():
    tokenizer = byte_tokenizer()
    params = [SamplingParams(json_schema={"enum": [[1, 2], {"a": True}]}), SamplingParams()]
    processor = ChainLogitsProcessor(params, tokenizer=tokenizer, pad_token_id=PAD)
    torch.manual_seed(4)
    inputs = tokenizer(["one", "seven"], return_tensors="pt", padding=True)
    ids = llama(len(tokenizer), None).generate(
        **inputs, logits_processor=[processor], do_sample=True, max_new_tokens=80, **NEUTRAL
    )
    text = tokenizer.decode(ids[0, inputs["input_ids"].shape[1] :], skip_special_tokens=True)
    assert json.loads(text) in ([1, 2], {"a": True})
    assert ids[0, -1] == EOS


def test_a_row_that_violates_its_grammar_gets_only_eos():
    tokenizer = byte_tokenizer()
    processor = ChainLogitsProcessor(SamplingParams(regex="aaaa"), tokenizer=tokenizer)
    a, b = tokenizer("ab")["input_ids"]
    ids = torch.tensor([[a]])
    for token in (a, b):
        processor(ids, scores(1, len(tokenizer)))
        ids = torch.cat([ids, torch.tensor([[token]])], 1)
    found = processor(ids, scores(1, len(tokenizer)))
    assert torch.isfinite(found).nonzero().tolist() == [[0, EOS]]


def test_columns_beyond_the_vocabulary_are_removed():
    tokenizer = byte_tokenizer()
    given = scores(1, len(tokenizer) + 6)
    found = ChainLogitsProcessor(SamplingParams(), tokenizer=tokenizer)(torch.tensor([[5]]), given)
    assert torch.equal(found[:, :-6], given[:, :-6])
    assert torch.isinf(found[:, -6:]).all()


def test_a_row_without_tokens_is_reported_by_index():
    given = scores()
    given[1] = -torch.inf
    with pytest.raises(ValueError, match="row 1 has no token"):
        ChainLogitsProcessor(CHAIN)(torch.tensor([[1], [2]]), given)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"params": [SamplingParams()] * 3}, "params has 3 entries"),
        ({"params": SamplingParams(), "prompt_lengths": [9]}, "prompt_lengths has 9, allowed are 0 to 1"),
        ({"params": SamplingParams(logit_bias={77: 1.0})}, "logit_bias"),
        ({"params": SamplingParams(), "grammar": 5}, "grammar=5 is not allowed"),
    ],
    ids=["params", "lengths", "ids", "grammar"],
)
def test_settings_that_do_not_fit_are_refused_by_name(arguments, message):
    processor = ChainLogitsProcessor(arguments.pop("params"), **arguments)
    with pytest.raises(ParameterError, match=message):
        processor(torch.tensor([[1], [2]]), scores())


def test_a_grammar_needs_an_eos_id():
    from engine_sampler import Tokenizer

    tokenizer = Tokenizer([b"a", b"b"])
    processor = ChainLogitsProcessor(SamplingParams(regex="a"), tokenizer=tokenizer)
    with pytest.raises(ParameterError, match="eos_token_ids is empty; row 0 has a grammar"):
        processor(torch.tensor([[1]]), scores(1, 2))


def test_a_text_goes_on_in_another_generation():
    processor = ChainLogitsProcessor(
        SamplingParams(regex="[a-d]{3}", temperature=0.0), tokenizer=byte_tokenizer(), eos_token_ids=[EOS]
    )
    model = llama(258, EOS)
    text = torch.tensor([[100, 101]])
    for length in (6, 10):
        text = model.generate(text, logits_processor=[processor], do_sample=False, max_new_tokens=10)
        assert text.shape[1] == length
        assert text[0, -1] == EOS


def test_generate_tells_which_columns_are_padding():
    params = SamplingParams(presence_penalty=3.0, penalty_scope="all", temperature=1.0)
    inputs = {"input_ids": torch.tensor([[5, 6, 7, 8], [PAD, PAD, 30, 4]])}
    inputs["attention_mask"] = (inputs["input_ids"] != PAD).long()
    settings = {
        "do_sample": False,
        "max_new_tokens": 3,
        "output_scores": True,
        "return_dict_in_generate": True,
    }
    told, untold = ChainLogitsProcessor(params, prompt_lengths=[4, 2]), ChainLogitsProcessor(params)
    expected = llama().generate(**inputs, logits_processor=[told], **settings).scores
    found = llama().generate(**inputs, logits_processor=[untold], **settings).scores
    assert all(torch.equal(*steps) for steps in zip(found, expected, strict=True))
