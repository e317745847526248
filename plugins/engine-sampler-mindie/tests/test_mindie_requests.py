"""Requests that MindIE's `Sampler` caches: tokens, seeds, positions and settings from call to call."""

import numpy as np
import pytest
from engine_sampler_mindie import (
    InconsistencyError,
    OutOfBoundsError,
    Sampler,
    SamplingData,
    SamplingMetadata,
    SamplingParam,
)
from mindie_reference import padded
from mindie_requests import (
    IDS,
    PROMPTS,
    SETTINGS,
    SETTINGS_OF_PROMPTS,
    STEPS,
    VOCAB,
    all_ids,
    both,
    full_history,
    later,
    only_output_ids,
    prompts,
    stateless_run,
)

from engine_sampler import SamplingParams, Scheduler
from tests.chi_square import assert_drawn_from


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


def nothing(outputs):
    return {}


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


def test_a_changed_seed_takes_effect_at_once():
    sampler, outputs = Sampler(), np.array(stateless_run())[:2].T
    for step in range(2):
        sampler.sample(STEPS[step], prompts() if step == 0 else later(), SETTINGS)
    other = SamplingParam(temperature=np.full(3, 2.0), seed=[70, 8, 90])
    changed, _ = sampler.sample(STEPS[2], later(), other)
    data = SamplingData(full_history(outputs.tolist()), outputs)
    assert changed.tolist() == Sampler().sample(STEPS[2], data, other)[0].tolist()
    kept, _ = sampler.sample(STEPS[3], later(), SamplingParam(temperature=np.full(3, 2.0)))
    outputs = np.hstack([outputs, changed[:, None]])
    data = SamplingData(full_history(outputs.tolist()), outputs)
    assert kept.tolist() == Sampler().sample(STEPS[3], data, other)[0].tolist()


@pytest.mark.parametrize("settings", [SETTINGS, None])
@pytest.mark.parametrize("ends_with_padding", [False, True])
def test_a_prefill_that_repeats_prompt_and_output_continues(settings, ends_with_padding):
    expected = stateless_run()
    sampler = Sampler(pad_token_id=expected[4][0] if ends_with_padding else None)
    tokens = [sampler.sample(STEPS[0], prompts(), SETTINGS)[0].tolist()]
    tokens += [sampler.sample(logits, later())[0].tolist() for logits in STEPS[1:5]]
    again = SamplingData(full_history(np.array(tokens).T.tolist()), request_ids=IDS)
    tokens.append(sampler.sample(STEPS[5], again, settings)[0].tolist())
    tokens += [sampler.sample(logits, later())[0].tolist() for logits in STEPS[6:]]
    assert tokens == expected


def test_a_prefill_that_repeats_less_output_continues_there():
    sampler, expected = Sampler(), stateless_run()
    cached_run(sampler, nothing)
    again = SamplingData(full_history(np.array(expected[:4]).T.tolist()), request_ids=IDS)
    assert sampler.sample(STEPS[4], again)[0].tolist() == expected[4]


def test_calls_without_ids_or_tokens_draw_on():
    flat = np.zeros((2, VOCAB), np.float32)
    settings = SamplingParam(do_sample=[True, True], seed=[5, 6])
    sampler = Sampler()
    steps = [sampler.sample(flat, None, settings)[0].tolist() for _ in range(300)]
    assert_drawn_from(np.full(VOCAB, 1 / VOCAB), np.array(steps)[:, 0])
    assert steps[0] == Sampler().sample(flat, None, settings)[0].tolist()
    ids = SamplingData(request_ids=[1, 2])
    cached = Sampler()
    drawn = [cached.sample(flat, ids, settings)[0].tolist()]
    ids = SamplingData(request_ids=[1, 2], is_prefill=False)
    drawn += [cached.sample(flat, ids)[0].tolist() for _ in range(20)]
    assert steps[:21] == drawn


@pytest.mark.parametrize("with_output", [False, True])
@pytest.mark.parametrize("penalty", [1.0, 1.3])
def test_rows_without_ids_draw_alike_with_a_new_sampler_for_each_call_and_with_one(with_output, penalty):
    settings = SamplingParam(
        repetition_penalty=np.full(3, penalty),
        temperature=[0.9, 2.0, 0.0],
        top_k=[0, 8, 3],
        seed=[7, 8, 9],
    )
    one, outputs = Sampler(), [[], [], []]
    for step, logits in enumerate(STEPS):
        output = np.array(outputs, int).reshape(3, -1) if with_output else None
        data = SamplingData(full_history(outputs), output)
        for _ in range(1 + step % 3):  # repeated calls give the same draw
            tokens, scores = one.sample(logits, data, settings)
            expected, expected_scores = Sampler().sample(logits, data, settings)
            assert tokens.tolist() == expected.tolist()
            assert scores.tolist() == expected_scores.tolist()
        chosen = tokens.tolist() if step != 5 else [1, 2, 3]  # once the caller chooses
        for row, token in zip(outputs, chosen, strict=True):
            row.append(token)


def test_rows_without_ids_may_change_in_number_settings_and_width():
    random = np.random.default_rng(3)
    sampler = Sampler()
    for _ in range(60):
        rows, width = int(random.integers(1, 4)), int(random.choice([8, VOCAB]))
        logits = STEPS[int(random.integers(12)), :rows, :width]
        settings = SamplingParam(
            temperature=random.choice([0.0, 0.9, 3.0], rows), seed=random.integers(0, 3, rows)
        )
        data = SamplingData(random.integers(0, 8, (rows, int(random.integers(1, 4)))))
        assert sampler.sample(logits, data, settings)[0].tolist() == (
            Sampler().sample(logits, data, settings)[0].tolist()
        )


@pytest.mark.quick_share(4)
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("by_id", [True, False])
def test_whatever_a_caller_does_to_the_tokens_the_draw_is_that_of_a_new_sampler(seed, by_id):
    random = np.random.default_rng(seed)
    prompts, outputs = [[3, 1, 4], [2], [5, 6]], [[], [], []]
    settings = SamplingParam(
        repetition_penalty=[1.0, 1.3, 1.0], frequency_penalty=[0.0, 0.5, 0.0],
        temperature=[2.0, 2.0, 0.0], seed=[1, 2, 3],
    )  # fmt: skip
    sampler, pads = Sampler(pad_token_id=0), [-1, VOCAB]
    for step in range(60):
        for prompt, output in zip(prompts, outputs, strict=True):
            deed = random.integers(0, 14)
            if deed == 0 and output:
                output[random.integers(len(output))] = int(random.integers(1, VOCAB))
            elif deed == 1:
                del output[max(0, len(output) - 2) :]
            elif deed == 2:
                output.append(int(random.integers(1, VOCAB)))
            elif deed == 3 and not by_id:
                prompt[0] = int(random.integers(1, VOCAB))
        rows = [p + o for p, o in zip(prompts, outputs, strict=True)]
        width = max(map(len, rows)) + int(random.integers(0, 9) == 0)
        pad = int(random.choice(pads))
        all_ids = np.array([row + [pad] * (width - len(row)) for row in rows])
        output_ids = padded([[*o, pad] for o in outputs], pad)
        logits = STEPS[step % 12] - np.where(
            np.arange(VOCAB) == 0, np.float32(100), np.float32(0)
        )  # never draws the pad token
        data = SamplingData(all_ids, output_ids, not step, IDS if by_id else None)
        tokens = sampler.sample(logits, data, settings)[0].tolist()
        fresh = Sampler(pad_token_id=0).sample(logits, SamplingData(all_ids, output_ids), settings)
        assert tokens == fresh[0].tolist()
        requests = map(sampler._cache.request, IDS.tolist() if by_id else [])
        assert sampler._cache._tokens == sum(request.tokens for request in requests)
        for output, token in zip(outputs, tokens, strict=True):
            output.append(token)


def test_a_repeated_batch_is_recognised_with_its_tokens_and_without(monkeypatch):
    outputs, sampler = [[], [], []], Sampler()
    sampler.sample(STEPS[0], prompts(), SETTINGS)
    first = [r.output.tolist() for r in map(sampler._cache.request, IDS.tolist())]
    for given_tokens in (nothing, both, both, nothing, nothing, all_ids, all_ids):
        outputs = [r.output.tolist() for r in map(sampler._cache.request, IDS.tolist())]
        data = later(**given_tokens(outputs))
        sampler.sample(STEPS[len(outputs[0])], data, SETTINGS)
    assert outputs[0][:1] == first[0]
    joined = []
    monkeypatch.setattr(Sampler, "_join", lambda *args, **kwargs: joined.append(args))
    for given_tokens in (all_ids, nothing, nothing):
        outputs = [r.output.tolist() for r in map(sampler._cache.request, IDS.tolist())]
        sampler.sample(STEPS[len(outputs[0])], later(**given_tokens(outputs)), SETTINGS)
    assert not joined
    assert np.array(outputs).T.tolist() == stateless_run()[: len(outputs[0])]


def left_padded(rows, pad, more=0):
    width = max(map(len, rows)) + more
    return np.array([[pad] * (width - len(row)) + row for row in rows], int)


@pytest.mark.parametrize("by_id", [True, False])
@pytest.mark.parametrize("pad", [-1, 0, VOCAB])
def test_rows_that_are_padded_on_the_left_grow_without_being_read_anew(monkeypatch, by_id, pad):
    sampler, original, joined = Sampler(pad_token_id=0), Sampler._joined, []
    monkeypatch.setattr(Sampler, "_joined", lambda self, *a: joined.append(self) or original(self, *a))
    outputs = [[], [], []]
    for step, logits in enumerate(STEPS - np.float32(100) * (np.arange(VOCAB, dtype=np.float32) == 0)):
        rows = [[*p, *o] for p, o in zip(PROMPTS, outputs, strict=True)]
        output_ids = np.array(outputs, int).reshape(3, -1)
        ids = IDS if by_id else None
        data = SamplingData(left_padded(rows, pad, more=2), output_ids, not step, ids)
        tokens = sampler.sample(logits, data, SETTINGS)[0].tolist()
        fresh = Sampler().sample(logits, SamplingData(full_history(outputs), output_ids), SETTINGS)
        assert tokens == fresh[0].tolist()
        for output, token in zip(outputs, tokens, strict=True):
            output.append(token)
    assert joined.count(sampler) == 1


@pytest.mark.parametrize("seed", range(4))
def test_left_padding_that_changes_does_not_change_the_draws(seed):
    random = np.random.default_rng(seed)
    sampler, outputs = Sampler(pad_token_id=0), [[], [], []]
    for step in range(40):
        rows = [[*p, *o] for p, o in zip(PROMPTS, outputs, strict=True)]
        if random.integers(6) == 0:
            rows[0][0] = int(random.integers(VOCAB))
        pad, more = int(random.choice([0, 0, -1, VOCAB])), int(random.integers(5) == 0)
        all_ids = left_padded(rows, pad, more)
        if random.integers(6) == 0:
            all_ids[1, -1] = -1  # a token is taken back
        tokens = sampler.sample(STEPS[step % 12], SamplingData(all_ids), SETTINGS_OF_PROMPTS)[0].tolist()
        fresh = Sampler(pad_token_id=0).sample(STEPS[step % 12], SamplingData(all_ids), SETTINGS_OF_PROMPTS)
        assert tokens == fresh[0].tolist()
        for output, token in zip(outputs, tokens, strict=True):
            output.append(token)


def test_unseeded_rows_without_ids_draw_anew_at_every_call():
    flat, data = np.zeros((1, VOCAB), np.float32), SamplingData([[4, 5]])
    sampler, settings = Sampler(), SamplingParam(do_sample=[True])
    tokens = [int(sampler.sample(flat, data, settings)[0][0]) for _ in range(600)]
    assert_drawn_from(np.full(VOCAB, 1 / VOCAB), np.array(tokens))


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


# --- seeds ----------------------------------------------------------------------------------------


def test_a_seed_of_minus_one_leaves_its_row_greedy_and_other_rows_their_seeds():
    mixed = SamplingParam(top_k=[0, 5, 0], seed=[-1, 4, -1])
    data = SamplingData(full_history([[], [], []]), padded([[]] * 3, VOCAB))
    tokens, scores = Sampler().sample(STEPS[0], data, mixed)
    assert tokens[[0, 2]].tolist() == STEPS[0].argmax(axis=1)[[0, 2]].tolist()
    assert scores[0] == STEPS[0, 0].max()
    alone, _ = Sampler().sample(STEPS[0], data, SamplingParam(top_k=[0, 5, 0], seed=[9, 4, 9]))
    assert tokens[1] == alone[1]


def test_a_sampled_row_with_a_seed_of_minus_one_gets_a_random_seed():
    flat = np.zeros((1, VOCAB), np.float32)
    settings = SamplingParam(do_sample=[True], seed=[-1])
    tokens = [int(Sampler().sample(flat, SamplingData(request_ids=[1]), settings)[0][0]) for _ in range(300)]
    assert_drawn_from(np.full(VOCAB, 1 / VOCAB), np.array(tokens))
    metadata = SamplingMetadata.from_numpy([[1], [2]], do_sample=[True, True], seeds=[-1, 3])
    seeds = {tuple(Sampler().sample(STEPS[0][:2], metadata).seeds.tolist()) for _ in range(3)}
    assert len(seeds) == 3
    assert {seed for _, seed in seeds} == {3}
    with pytest.raises(OutOfBoundsError, match="seed=-2 in row 0 is not allowed: an integer of at least -1"):
        SamplingParam(seed=[-2])


def test_a_seed_of_minus_one_keeps_the_seed_of_a_cached_request():
    expected, sampler = stateless_run(), Sampler()
    sampler.sample(STEPS[0], prompts(), SETTINGS)
    columns = ("repetition_penalty", "frequency_penalty", "presence_penalty", "temperature", "top_k", "top_p")
    rest = SamplingParam(**{name: getattr(SETTINGS, name) for name in columns}, seed=[-1] * 3)
    assert sampler.sample(STEPS[1], later(), rest)[0].tolist() == expected[1]
