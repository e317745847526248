"""Requests that MindIE's `Sampler` caches: tokens, seeds, positions and settings from call to call."""

import numpy as np
import pytest

from engine_sampler import SamplingParams, Scheduler
from engine_sampler.adapters.mindie import (
    InconsistencyError,
    OutOfBoundsError,
    Sampler,
    SamplingData,
    SamplingParam,
)
from tests.adapters.mindie_reference import padded

VOCAB = 20
RNG = np.random.default_rng(9)
STEPS = RNG.normal(size=(12, 3, VOCAB)).astype(np.float32)
PROMPTS = [[1, 2, 3], [4], [5, 5, 6, 7]]
IDS = np.array([30, 10, 20])
SETTINGS = SamplingParam.from_numpy(
    repetition_penalty=np.array([1.2, 1.5, 1.0]),
    frequency_penalty=np.array([0.3, 0.0, 0.7]),
    presence_penalty=np.array([0.0, 0.4, 0.1]),
    temperature=np.array([0.9, 2.0, 0.0]),
    top_k=np.array([0, 8, 3]),
    top_p=np.array([0.95, 1.0, 0.5]),
    seed=np.array([7, 8, 9]),
)


def prompts():
    return SamplingData.from_numpy(padded(PROMPTS, VOCAB), request_ids=IDS)


def later(**tokens):
    return SamplingData.from_numpy(is_prefill=False, request_ids=IDS, **tokens)


def cached_run(sampler, given_tokens):
    """Tokens [steps, rows]; `given_tokens(outputs)` are the tokens that the call of a step passes."""
    outputs = [[], [], []]
    tokens = []
    for step, logits in enumerate(STEPS):
        data = later(**given_tokens(outputs)) if step else prompts()
        drawn, _ = sampler.sample(logits, data, SETTINGS)
        tokens.append(drawn.tolist())
        for output, token in zip(outputs, tokens[-1], strict=True):
            output.append(token)
    return tokens


def full_history(outputs):
    return padded([[*p, *o] for p, o in zip(PROMPTS, outputs, strict=True)], VOCAB)


def nothing(outputs):
    return {}


def all_ids(outputs):
    return {"all_input_ids": full_history(outputs)}


def only_output_ids(outputs):
    return {"output_ids": padded(outputs, VOCAB)}


def both(outputs):
    return all_ids(outputs) | only_output_ids(outputs)


def stateless_run():
    """The same tokens from calls without cached state."""
    outputs = [[], [], []]
    tokens = []
    for logits in STEPS:
        data = SamplingData(full_history(outputs), np.array(outputs, int).reshape(3, -1))
        tokens.append(Sampler().sample(logits, data, SETTINGS)[0].tolist())
        for output, token in zip(outputs, tokens[-1], strict=True):
            output.append(token)
    return tokens


@pytest.mark.parametrize("given_tokens", [nothing, all_ids, only_output_ids, both])
def test_the_tokens_equal_those_of_a_stateless_run_whatever_a_decode_step_repeats(given_tokens):
    assert cached_run(Sampler(), given_tokens) == stateless_run()


def test_the_tokens_equal_those_of_the_librarys_scheduler():
    scheduler = Scheduler(VOCAB)
    for row, prompt in enumerate(PROMPTS):
        names = (
            "repetition_penalty",
            "frequency_penalty",
            "presence_penalty",
            "temperature",
            "top_k",
            "top_p",
            "seed",
        )
        values = {name: getattr(SETTINGS, name)[row].item() for name in names}
        scheduler.add(SamplingParams(order="mindie", **values), prompt, position=0)
    expected = [scheduler.step(logits).token_ids.tolist() for logits in STEPS]
    assert cached_run(Sampler(), nothing) == expected


def test_requests_may_come_in_any_order_and_combination():
    expected = np.array(stateless_run())
    sampler = Sampler()
    sampler.sample(STEPS[0], prompts(), SETTINGS)
    order = [2, 0, 1]
    tokens, _ = sampler.sample(STEPS[1][order], SamplingData(is_prefill=False, request_ids=IDS[order]))
    assert tokens.tolist() == expected[1, order].tolist()
    tokens, _ = sampler.sample(STEPS[2][[1]], SamplingData(is_prefill=False, request_ids=IDS[[1]]))
    assert tokens.tolist() == expected[2, [1]].tolist()
    tokens, _ = sampler.sample(STEPS[2][[0, 2]], SamplingData(is_prefill=False, request_ids=IDS[[0, 2]]))
    assert tokens.tolist() == expected[2, [0, 2]].tolist()


def test_tokens_that_a_caller_takes_back_are_drawn_again():
    sampler = Sampler()
    tokens = cached_run(sampler, nothing)
    outputs = np.array(tokens).T[:, :5]
    again = [sampler.sample(STEPS[5], later(output_ids=outputs))[0].tolist()]
    again += [sampler.sample(logits, later())[0].tolist() for logits in STEPS[6:]]
    assert again == tokens[5:]


def test_tokens_that_the_caller_chose_count_and_advance_the_position():
    sampler = Sampler()
    sampler.sample(STEPS[0], prompts(), SETTINGS)
    chosen = [[3, 3], [4, 11], [9, 9]]
    tokens, _ = sampler.sample(STEPS[4], later(output_ids=np.array(chosen)))
    expected, _ = Sampler().sample(STEPS[4], SamplingData(full_history(chosen), np.array(chosen)), SETTINGS)
    assert tokens.tolist() == expected.tolist()


def test_a_prefill_restarts_a_request():
    sampler = Sampler()
    first = cached_run(sampler, nothing)
    assert cached_run(sampler, nothing) == first


def test_a_prefill_with_output_continues_after_it():
    tokens = np.array(stateless_run())
    outputs = tokens[:4].T
    data = SamplingData(full_history(outputs.tolist()), outputs, request_ids=IDS)
    assert Sampler().sample(STEPS[4], data, SETTINGS)[0].tolist() == tokens[4].tolist()


def test_omitted_settings_are_taken_from_the_cache_and_given_ones_take_effect():
    sampler = Sampler()
    sampler.sample(STEPS[0], prompts(), SETTINGS)
    greedy = SamplingParam.from_numpy(temperature=np.zeros(3))
    tokens, scores = sampler.sample(STEPS[1], later(), greedy)
    assert tokens.tolist() == STEPS[1].argmax(axis=1).tolist()
    assert scores is None
    assert sampler.sample(STEPS[2], later())[0].tolist() == STEPS[2].argmax(axis=1).tolist()


def test_a_request_keeps_its_seed_and_position_through_a_change_of_settings():
    high_temperature = SamplingParam(temperature=np.full(3, 2.0))
    tokens = np.array(stateless_run())
    outputs = tokens[:2].T
    sampler = Sampler()
    for step in range(2):
        sampler.sample(STEPS[step], prompts() if step == 0 else later(), SETTINGS)
    changed, _ = sampler.sample(STEPS[2], later(), high_temperature)
    seeded = SamplingParam(temperature=np.full(3, 2.0), seed=SETTINGS.seed)
    expected, _ = Sampler().sample(STEPS[2], SamplingData(full_history(outputs.tolist()), outputs), seeded)
    assert changed.tolist() == expected.tolist()


def test_a_random_seed_stays_with_its_request():
    sampler = Sampler()
    flat = np.zeros((3, VOCAB), np.float32)
    unseeded = SamplingParam(do_sample=np.full(3, True))
    first = sampler.sample(flat, prompts(), unseeded)[0]
    second = sampler.sample(flat, later(), unseeded)[0]
    taken_back = later(output_ids=np.zeros((3, 0), int))
    assert sampler.sample(flat, taken_back, unseeded)[0].tolist() == first.tolist()
    assert (
        sampler.sample(flat, later(), SamplingParam(top_k=np.full(3, 0), do_sample=np.full(3, True)))[
            0
        ].tolist()
        == second.tolist()
    )


def test_clear_cache_forgets_the_named_requests_only():
    sampler = Sampler()
    sampler.sample(STEPS[0], prompts(), SETTINGS)
    sampler.clear_cache(np.array([10, 99]))
    sampler.clear_cache([])
    with pytest.raises(InconsistencyError, match="request_ids has 10, which is not cached"):
        sampler.sample(STEPS[1], later())
    kept = SamplingData(is_prefill=False, request_ids=IDS[[0, 2]])
    expected = np.array(stateless_run())[1, [0, 2]]
    assert sampler.sample(STEPS[1][[0, 2]], kept)[0].tolist() == expected.tolist()


def test_configure_gives_settings_ahead_of_the_first_row():
    sampler = Sampler()
    sampler.configure(prompts(), SETTINGS)
    assert sampler.sample(STEPS[0], prompts())[0].tolist() == stateless_run()[0]
    with pytest.raises(InconsistencyError, match="configure needs"):
        sampler.configure(SamplingData(), SETTINGS)
    with pytest.raises(InconsistencyError, match="temperature has 2"):
        sampler.configure(prompts(), SamplingParam(temperature=np.ones(2)))


def test_a_request_may_join_at_a_decode_step_with_its_full_history():
    tokens = np.array(stateless_run())
    outputs = tokens[:3].T
    data = later(all_input_ids=full_history(outputs.tolist()), output_ids=outputs)
    sampler = Sampler()
    assert sampler.sample(STEPS[3], data, SETTINGS)[0].tolist() == tokens[3].tolist()
    assert sampler.sample(STEPS[4], later())[0].tolist() == tokens[4].tolist()


def test_padding_that_equals_the_last_token_takes_nothing_back():
    sampler = Sampler(pad_token_id=2)
    flat = np.zeros((1, VOCAB), np.float32)
    flat[0, 2] = 5.0
    only = {"request_ids": [1], "is_prefill": False}
    sampler.sample(flat, SamplingData([[9]], request_ids=[1]), SamplingParam(frequency_penalty=[3.0]))
    tokens, _ = sampler.sample(flat, SamplingData([[9, 2]], [[2]], **only))  # 2 was drawn, so it counts
    assert tokens.tolist() == [2]
    tokens, _ = sampler.sample(flat, SamplingData([[9, 2, 2]], [[2, 2]], **only))
    assert tokens.tolist() == [0]


def test_nothing_changes_if_a_call_is_refused():
    sampler = Sampler()
    sampler.sample(STEPS[0], prompts(), SETTINGS)
    with pytest.raises(OutOfBoundsError):
        sampler.sample(STEPS[1], later(output_ids=np.array([[1], [1], [77]])))
    with pytest.raises(InconsistencyError, match="neither begin"):
        sampler.sample(STEPS[1], later(all_input_ids=np.array([[18], [18], [18]])))
    with pytest.raises(InconsistencyError, match="request 30 began with 20"):
        sampler.sample(np.zeros((3, 8), np.float32), later())
    assert sampler.sample(STEPS[1], later())[0].tolist() == stateless_run()[1]


def test_requests_with_another_vocabulary_size_may_coexist():
    sampler = Sampler()
    sampler.sample(STEPS[0], prompts(), SETTINGS)
    narrow = SamplingData([[1]], request_ids=[1])
    assert sampler.sample(STEPS[0][:1, :5], narrow)[0].tolist() == [STEPS[0][0, :5].argmax()]
    assert sampler.sample(STEPS[1], later())[0].tolist() == stateless_run()[1]


def test_a_request_continues_after_a_faulty_row():
    sampler = Sampler()
    sampler.sample(STEPS[0], prompts(), SETTINGS)
    broken = STEPS[1].copy()
    broken[1] = np.nan
    tokens, _ = sampler.sample(broken, later())
    expected = stateless_run()
    assert tokens.tolist() == [expected[1][0], -1, expected[1][2]]
    again, _ = sampler.sample(STEPS[1][[1]], SamplingData(is_prefill=False, request_ids=IDS[[1]]))
    assert again.tolist() == [expected[1][1]]


def test_a_penalty_needs_a_known_prompt():
    sampler = Sampler()
    ids = {"request_ids": [1]}
    sampler.sample(STEPS[0][:1], SamplingData(**ids))
    penalty = SamplingParam(repetition_penalty=[1.5])
    with pytest.raises(InconsistencyError, match="needs all_input_ids"):
        sampler.sample(STEPS[1][:1], SamplingData(is_prefill=False, **ids), penalty)
    data = SamplingData([[3, 3, int(STEPS[0][0].argmax())]], is_prefill=False, **ids)
    tokens, _ = sampler.sample(STEPS[1][:1], data, penalty)
    assert tokens.shape == (1,)
