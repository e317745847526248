"""The calls that MindIE's generator makes of its sampler: prefill, decode, siblings, beams, other nodes."""

from types import SimpleNamespace

import numpy as np
import pytest
from engine_sampler_mindie.text_generator.samplers.sampler import Sampler
from engine_sampler_mindie.text_generator.utils.config import HandlingBackend, SamplerConfig
from engine_sampler_mindie.text_generator.utils.sampling_metadata import (
    SamplingData,
    SamplingMetadata,
    SamplingParam,
)
from engine_sampler_mindie.text_generator.utils.sampling_output import SamplingOutput
from mindie_generator import NEUTRAL, RECORD, VOCAB, Asked, Generator, logits_of

from engine_sampler import SamplingParams, Scheduler

SETTINGS = {"temperature": 1.5, "top_p": 0.9, "do_sample": 1.0}


def sampler(**options):
    config = SamplerConfig(backend_type="atb", npu_id=0, num_threads=8, rank=0, splitfuse_enabled=False)
    return Sampler(config, **options)


def expected(prompt, count, position=0, **parameters):
    """The tokens of a scheduler that draws the first of them at this position; None: after the prompt."""
    scheduler = Scheduler(VOCAB)
    request = scheduler.add(SamplingParams(order="mindie", **parameters), prompt, position=position)
    for _ in range(count):
        tokens = scheduler.record(request).token_ids
        scheduler.step(logits_of([*prompt, *tokens])[None])
    return scheduler.record(request).token_ids


@pytest.mark.parametrize("pad", [-1, 3, VOCAB], ids=["minus one", "a token", "the width"])
def test_prompts_that_are_prefilled_and_decoded_draw_as_alone(pad):
    generator = Generator(sampler(), pad)
    penalties = {"repetition_penalty": 1.5, "presence_penalty": 0.5}
    prompts = {7: [3, 1, 4, 1, 5], 8: [2], 9: [9, 9, 3]}
    generator.prefill(
        {7: Asked(prompts[7], SETTINGS | penalties, seed=11), 8: Asked(prompts[8], SETTINGS, 12)}
    )
    for _ in range(3):
        generator.decode()
    generator.prefill({9: Asked(prompts[9])})
    for _ in range(6):
        generator.decode()
    drawn = {i: generator.texts[i].tokens()[len(prompts[i]) :] for i in prompts}
    alike = {"temperature": 1.5, "top_p": float(np.float32(0.9))}
    assert drawn[7] == expected(prompts[7], 10, seed=11, **alike, **penalties)
    assert drawn[8] == expected(prompts[8], 10, seed=12, **alike)
    assert drawn[9] == expected(prompts[9], 7, temperature=0)


def test_counted_prompts_give_the_tokens_of_a_scheduler():
    generator = Generator(sampler(count_prompts=True), 3)
    prompts = {7: [3, 1, 4, 1, 5], 8: [2]}
    generator.prefill({i: Asked(prompt, SETTINGS, seed=i) for i, prompt in prompts.items()})
    for _ in range(6):
        generator.decode()
    for i, prompt in prompts.items():
        drawn = expected(prompt, 7, None, seed=i, temperature=1.5, top_p=float(np.float32(0.9)))
        assert generator.texts[i].tokens()[len(prompt) :] == drawn


def test_finished_sequences_leave_and_their_ids_may_begin_again():
    generator = Generator(sampler(), 0)
    generator.prefill({1: Asked([5, 6], SETTINGS, seed=1), 2: Asked([7], SETTINGS, seed=2)})
    generator.decode()
    generator.finish([1])
    generator.sampler.clear_cache(np.array([], np.int64))
    generator.decode()
    generator.prefill({1: Asked([5, 6], SETTINGS, seed=1)})
    generator.decode()
    alike = {"temperature": 1.5, "top_p": float(np.float32(0.9))}
    assert generator.texts[1].tokens()[2:] == expected([5, 6], 2, seed=1, **alike)
    assert generator.texts[2].tokens()[1:] == expected([7], 4, seed=2, **alike)


def test_siblings_are_forked_from_the_prompt_and_keep_their_seeds():
    generator = Generator(sampler(), 0)
    output = generator.prefill(
        {1: Asked([5, 6], SETTINGS, 21, best_of=3, reserved=[50, 51]), 2: Asked([7], SETTINGS, 22)}
    )
    assert output.sequence_ids.tolist() == [1, 50, 51, 2]
    assert output.parent_sequence_ids.tolist() == [1, 1, 1, 2]
    seeds = [int(seed) for seed in output.seeds]
    for _ in range(5):
        generator.decode()
    alike = {"temperature": 1.5, "top_p": float(np.float32(0.9))}
    for sequence, seed in zip((1, 50, 51), seeds, strict=False):
        assert generator.texts[sequence].tokens()[2:] == expected([5, 6], 6, seed=seed, **alike)
    assert len({tuple(generator.texts[sequence].tokens()) for sequence in (1, 50, 51)}) == 3


def reference_beams(prompt, width, steps, eos):
    """Live and finished texts (score, tokens), best first, in float64."""
    live, finished = [(0.0, tuple(prompt))], []
    for step in range(steps):
        extended = []
        for total, text in live:
            logits = logits_of(text).astype(np.float64)
            logprobs = logits - np.log(np.exp(logits).sum())
            likeliest = np.argsort(-logprobs, kind="stable")[: (len(eos) + 1) * width]
            extended += [(total + logprobs[token], (*text, int(token))) for token in likeliest]
        extended.sort(key=lambda entry: -entry[0])
        finished += [(total / (step + 1), text) for total, text in extended if text[-1] in eos]
        live = [entry for entry in extended if entry[1][-1] not in eos][:width]
    return live, finished


@pytest.mark.parametrize("width", [1, 3, 4])
@pytest.mark.parametrize("eos", [[], [2], [2, 17]], ids=["no end", "one end", "two ends"])
def test_beams_are_those_of_an_exhaustive_choice_in_each_step(width, eos):
    generator = Generator(sampler(), 0, eos)
    reserved = list(range(50, 50 + width - 1))
    generator.prefill({1: Asked([5, 6], best_of=width, beams=True, reserved=reserved)})
    for _ in range(11):
        generator.decode()
    live, finished = reference_beams([5, 6], width, 12, eos)
    assert {tuple(generator.texts[i].tokens()) for i in generator.groups[0]} == {text for _, text in live}
    assert len(generator.groups[0]) == width
    assert set(generator.groups[0]) == {1, *reserved}
    assert [text for _, text in generator.finished] == [list(text) for _, text in finished]
    assert [score for score, _ in generator.finished] == pytest.approx([s for s, _ in finished], abs=1e-4)
    totals = sorted((generator.texts[i].total for i in generator.groups[0]), reverse=True)
    assert totals == pytest.approx([total for total, _ in live], abs=1e-4)


def test_beams_and_sampled_rows_share_a_batch_in_the_order_of_their_groups():
    generator = Generator(sampler(), 0, [2])
    alike = {"temperature": 1.5, "top_p": float(np.float32(0.9))}
    generator.prefill(
        {
            1: Asked([5, 6], SETTINGS | {"top_logprobs": 2.0}, seed=31),
            2: Asked([7, 1], best_of=3, beams=True, reserved=[60, 61]),
            3: Asked([8], SETTINGS, seed=33),
        }
    )
    for _ in range(8):
        output = generator.decode()
    assert output.group_indices[0] == (0, 1)
    assert output.group_indices[-1] == (len(output.token_ids) - 1, len(output.token_ids))
    assert output.num_top_tokens.tolist()[0] == 2
    assert (output.top_token_ids[0, :2] >= 0).all()
    assert (output.top_token_ids[1:] == -1).all()
    assert output.repeating_indices.tolist()[0] == 0
    assert output.repeating_indices.tolist()[-1] == 4
    assert generator.texts[1].tokens()[2:] == expected([5, 6], 9, seed=31, **alike)
    assert generator.texts[3].tokens()[1:] == expected([8], 9, seed=33, **alike)
    live, _ = reference_beams([7, 1], 3, 9, [2])
    assert {tuple(generator.texts[i].tokens()) for i in (2, 60, 61)} == {text for _, text in live}


def test_penalties_and_masks_apply_to_beams():
    beam_sampler = sampler()
    beam_sampler.initialize("npu", 4)
    logits = np.array([[5.0, 4.0, 3.0, 2.0, 1.0]], np.float32)
    metadata = SamplingMetadata.from_numpy(
        [[1]], [[2]], use_beam_search=[True], n=[2], best_of=[2], repetition_penalty=[4.0], top_logprobs=[2],
        num_top_tokens=[0],
    )  # fmt: skip
    metadata.update_token_ids([[0, 0]], None)
    metadata.guided_bitmask = np.array([[0b01101]], np.int32)  # 0, 2 and 3
    output = beam_sampler(logits, metadata)
    assert output.token_ids.tolist() == [2, 3]
    shares = np.exp([5 / 4, 3.0, 2.0])
    assert output.logprobs == pytest.approx(np.log(shares[1:] / shares.sum()), abs=1e-5)
    assert output.cumulative_logprobs == pytest.approx(output.logprobs)
    assert output.top_token_ids.tolist() == [[2, 3]] * 2
    assert output.num_top_tokens.tolist() == [0, 0]
    assert output.is_structured_accepted.tolist() == [True, True]


def test_a_beam_search_whose_logits_are_faulty_keeps_its_texts():
    beam_sampler = sampler()
    logits = np.zeros((2, 5), np.float32)
    logits[0] = np.nan
    metadata = SamplingMetadata.from_numpy([[1], [2]], use_beam_search=[True, True], n=[1, 1])
    output = beam_sampler(logits, metadata)
    assert output.token_ids.tolist() == [-1, 0]
    assert output.num_new_tokens.tolist() == [0, 1]
    assert output.sequence_ids.tolist() == [1, 2]
    assert "greatest logit is nan" in beam_sampler.errors[0]


def test_a_node_that_only_decodes_goes_on_where_another_has_prefilled():
    """`configure` with the metadata of the prompt, then decode steps whose metadata has no seed of it."""
    requests = {
        1: Asked([5, 6], SETTINGS | {"repetition_penalty": 1.5}, 41),
        2: Asked([7, 8, 9], SETTINGS, 42, best_of=2, reserved=[52]),
    }
    whole, prefilling, decoding = (Generator(sampler(), 3) for _ in range(3))
    whole.prefill(requests)
    prefilling.prefill(requests)
    metadata = decoding.metadata_of(requests)
    decoding.sampler.configure(metadata)
    decoding.texts = {i: prefilling.copied(text) for i, text in prefilling.texts.items()}
    decoding.groups = prefilling.groups
    for text in decoding.texts.values():
        text.seed = 0
    for _ in range(6):
        whole.decode()
        decoding.decode()
    for sequence in (1, 2, 52):
        assert decoding.texts[sequence].tokens() == whole.texts[sequence].tokens()


def test_rows_of_no_sequence_are_greedy():
    logits = np.stack([logits_of([1]), logits_of([2])])
    output = sampler()(logits, None)
    assert isinstance(output, SamplingOutput)
    assert output.token_ids.tolist() == logits.argmax(axis=1).tolist()
    assert output.sequence_ids is output.parent_sequence_ids is output.num_top_tokens is None
    assert output.group_indices == [(0, 1), (1, 2)]
    assert output.repeating_indices.tolist() == [0, 1]
    assert output.logprobs.tolist() == [-9999.0] * 2
    assert output.top_token_ids.shape == (2, 0)


def test_the_deprecated_pair_becomes_metadata():
    logits = np.stack([logits_of([1]), logits_of([2])])
    param = SamplingParam.from_numpy(
        repetition_penalty=np.array([1.0, 2.0]), temperature=np.array([1.5, 1.0]), seed=np.array([5, 6]),
        do_sample=np.array([True, False]),
    )  # fmt: skip
    data = SamplingData.from_numpy(np.array([[1, 3], [2, 4]]), request_ids=np.array([8, 9]))
    metadata = SamplingMetadata.from_deprecated(data, param)
    assert metadata.all_sequence_ids.tolist() == [8, 9]
    tokens, _ = Sampler(mode="observed").sample(logits, data, param)
    output = sampler()(logits, metadata)
    assert output.token_ids.tolist() == tokens.tolist()
    assert output.to_deprecated()[1] is output.logprobs
    nameless = SamplingMetadata.from_deprecated(SamplingData.from_numpy(np.array([[1, 3], [2, 4]])), param)
    assert nameless.all_sequence_ids.tolist() == [0, 1]


def test_tokens_after_the_first_end_are_cut():
    output = sampler()(np.zeros((3, 5), np.float32), None)
    output.token_ids = np.array([[4, 2, 3, 2], [2, 1, 1, 1], [1, 1, 1, 2]])
    output.num_new_tokens = np.array([4, 4, 3])
    output.truncate_after_eos(2)
    assert output.token_ids.tolist() == [[4, 2, 0, 0], [2, 0, 0, 0], [1, 1, 1, 2]]
    assert output.num_new_tokens.tolist() == [2, 1, 3]


def test_prompts_in_parts_draw_their_first_token_with_the_last_part():
    """A splitfuse batch: some rows are prefilled in parts while others decode."""
    generator = Generator(sampler(), 3)
    generator.prefill({1: Asked([5, 6], SETTINGS, 51)})
    prompt, text = [7, 8, 9, 1], generator.texts[1]
    for end in (2, 4):
        metadata = SamplingMetadata.from_numpy(
            [[1], [2]], is_mix=True, is_seq_prefill=np.array([False, True]), temperature=[1.5, 1.5],
            top_p=np.float32([0.9, 0.9]), do_sample=[True, True], seeds=[51, 52],
        )  # fmt: skip
        ids = np.full((2, 4), 3)
        ids[0, : text.length], ids[1, :end] = text.tokens()[:4], prompt[:end]
        metadata.prompt_lengths = np.array([2, end])
        metadata.update_token_ids(ids, np.array([text.output_ids[:2], [3, 3]]))
        metadata.update_beam_search(np.zeros(2), np.array([text.outputs, 0]))
        output = generator.sampler(np.stack([logits_of(text.tokens()), logits_of(prompt[:end])]), metadata)
        text.all_ids[text.length] = text.output_ids[text.outputs] = output.token_ids[0]
        text.length, text.outputs = text.length + 1, text.outputs + 1
    alike = {"temperature": 1.5, "top_p": float(np.float32(0.9))}
    assert text.tokens()[2:] == expected([5, 6], 3, seed=51, **alike)
    assert output.token_ids.tolist()[1:] == expected(prompt, 1, seed=52, **alike)


def test_a_config_has_the_names_and_the_order_of_mindies():
    config = SamplerConfig("torch", 1, 2, 3, True, False, {"top_k": HandlingBackend.PTA})
    assert (config.backend_type, config.npu_id, config.num_threads, config.rank) == ("torch", 1, 2, 3)
    assert config.handling_policy["top_k"] == "pta"
    assert config.enable_guided_decoding is True
    with pytest.raises(TypeError, match="sampler_config of type dict is not allowed: SamplerConfig"):
        Sampler({})
    with pytest.raises(ValueError, match="num_threads=0 is not allowed"):
        Sampler(SamplerConfig(num_threads=0))


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (
            {"use_beam_search": [True, False], "n": [3, 1]},
            "use_beam_search and n=3 in row 0 needs 2 reserved",
        ),
        ({"use_beam_search": [True, False], "n": [0, 1]}, "n=0 in row 0"),
        ({"output_lengths": [-1, 0]}, "output_lengths=-1 in row 0"),
        ({"num_top_tokens": [-1, 0]}, "num_top_tokens=-1 in row 0"),
        ({"is_mix": 3}, "is_mix=3"),
    ],
)
def test_what_beams_cannot_begin_with_is_refused(fields, message):
    with pytest.raises(ValueError, match=message):
        SamplingMetadata.from_numpy([[1], [2]], **fields)


def test_a_group_is_a_beam_search_as_a_whole():
    with pytest.raises(ValueError, match="use_beam_search differs within the group of row 0"):
        SamplingMetadata.from_numpy([[1, 2]], is_prefill=False, use_beam_search=[True, False])


def test_lengths_beyond_the_tokens_are_refused_and_change_nothing():
    metadata = SamplingMetadata.from_numpy([[1]], is_prefill=False)
    metadata.update_token_ids([[1, 2, 3]], [[2, 3]])
    with pytest.raises(ValueError, match="output_lengths=3 is not allowed: output_token_ids are 2 long"):
        metadata.update_beam_search(np.array([-1.0]), np.array([3]))
    assert metadata.cumulative_logprobs.tolist() == [0.0]
    with pytest.raises(ValueError, match="output_lengths has 2 rows"):
        metadata.update_beam_search(None, np.array([1, 1]))


def test_records_and_names_that_the_generator_has_not_are_refused():
    generator = Generator(sampler(), 0)
    requests = {1: Asked([5], {"top_k": float("nan")})}
    with pytest.raises(ValueError, match="top_k=nan in row 0 is not allowed: a finite number"):
        generator.metadata_of(requests)
    ids = SimpleNamespace(batch_sequence_ids=[[1]], reserved_sequence_ids=[[]], is_prefill=True)
    with pytest.raises(TypeError, match="batch_sampling_params has no field repetition_penalty"):
        SamplingMetadata.from_batch(ids, np.zeros(1), None, None)
    with pytest.raises(TypeError, match="batch_of is not allowed: one of batch_seeds, "):
        SamplingMetadata.from_batch(ids, np.array([NEUTRAL], RECORD), None, None, batch_of=3)
    with pytest.raises(
        ValueError, match="input_metadata=3 is not allowed: an object with batch_sequence_ids"
    ):
        SamplingMetadata.from_batch(3, np.array([NEUTRAL], RECORD), None, None)
