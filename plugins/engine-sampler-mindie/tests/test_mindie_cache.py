"""How many requests MindIE's `Sampler` keeps, and what keeping them costs."""

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
from engine_sampler_mindie.cache import RequestCache
from engine_sampler_mindie.histories import Padding
from mindie_reference import padded
from mindie_requests import (
    IDS,
    PROMPTS,
    RNG,
    SETTINGS,
    SETTINGS_OF_PROMPTS,
    STEPS,
    VOCAB,
    all_ids,
    both,
    full_history,
    later,
    peak_memory,
    prompts,
    stateless_run,
)

from engine_sampler import SamplingParams, Scheduler


def kept(sampler):
    return len(sampler._cache)


def test_a_loop_that_never_clears_the_cache_keeps_a_bounded_number_of_requests():
    sampler, live, most = Sampler(idle_rounds=64), [], 0
    logits = np.zeros((14, VOCAB), np.float32)
    for step in range(300):
        live = live[2:] if len(live) == 14 else live
        new = [1000 + 2 * step, 1001 + 2 * step]
        sampler.sample(logits[:2], SamplingData([[1], [2]], request_ids=new))
        live += new
        sampler.sample(logits[: len(live)], SamplingData(request_ids=live, is_prefill=False))
        most = max(most, kept(sampler))
    assert most <= 14 + 2 * 66
    with pytest.raises(InconsistencyError, match="request 1000 was evicted"):
        sampler.sample(logits[:1], SamplingData(request_ids=[1000], is_prefill=False))


def test_requests_that_only_wait_for_their_turn_are_not_forgotten():
    sampler, rows = Sampler(), np.zeros((1, VOCAB), np.float32)
    settings = SamplingParam(do_sample=[True], seed=[4])
    first = {i: int(sampler.sample(rows, SamplingData(request_ids=[i]), settings)[0][0]) for i in range(300)}
    assert len(set(first.values())) == 1  # same seed and position
    second = {
        i: int(sampler.sample(rows, SamplingData(request_ids=[i], is_prefill=False))[0][0])
        for i in range(300)
    }
    assert len(set(second.values())) == 1
    assert kept(sampler) == 300


def test_a_request_that_pauses_goes_on_where_it_was():
    expected, sampler = stateless_run(), Sampler()
    sampler.sample(STEPS[0], prompts(), SETTINGS)
    sampler.sample(STEPS[1], later(), SETTINGS)
    for step in range(200):
        sampler.sample(STEPS[0][:1], SamplingData([[1]], None, not step, [7]), SamplingParam(seed=[1]))
    assert sampler.sample(STEPS[2], later(), SETTINGS)[0].tolist() == expected[2]


def test_prefills_alone_end_rounds():
    sampler, rows = Sampler(idle_rounds=8), np.zeros((1, VOCAB), np.float32)
    for i in range(100):
        sampler.sample(rows, SamplingData([[1]], request_ids=[i]))
        assert kept(sampler) <= 9


def test_prefills_alone_keep_no_more_than_the_bytes_allowed():
    sampler, rows = Sampler(cache_bytes=10**6), np.zeros((2, VOCAB), np.float32)
    prompt = np.ones((2, 2000), int)  # about 100 kB each
    for i in range(50):
        sampler.sample(rows, SamplingData(prompt, request_ids=[2 * i, 2 * i + 1]))
    assert 6 <= kept(sampler) <= 10
    many = SamplingData(np.ones((30, 2000), int), request_ids=range(30))
    sampler.sample(np.zeros((30, VOCAB), np.float32), many)
    assert kept(sampler) == 30  # those of one call always


def test_rows_without_ids_keep_no_more_than_the_bytes_allowed_when_they_are_fewer():
    sampler, logits = Sampler(cache_bytes=100_000), np.tile(STEPS[0], (10, 1))
    settings = SamplingParam(temperature=np.full(30, 2.0), seed=range(30))
    data = SamplingData(np.ones((30, 2000), int))
    first = sampler.sample(logits, data, settings)[0].tolist()
    assert len(sampler._rows) == 30
    sampler.sample(logits[:1], SamplingData([[1]]), SamplingParam(seed=[1]))
    assert len(sampler._rows) <= 2
    assert sampler.sample(logits, data, settings)[0].tolist() == first


def test_tokens_that_requests_draw_count_as_bytes():
    sampler, rows = Sampler(cache_bytes=30_000), np.zeros((1, VOCAB), np.float32)
    sampler.sample(rows, SamplingData(request_ids=[1]))
    sampler.sample(rows, SamplingData(request_ids=[2]))
    for _ in range(200):
        sampler.sample(rows, SamplingData(request_ids=[2], is_prefill=False))
    assert kept(sampler) == 2
    for _ in range(200):
        sampler.sample(rows, SamplingData(request_ids=[2], is_prefill=False))
    assert kept(sampler) == 1
    sampler.clear_cache([2])
    assert sampler._cache._tokens == 0


def test_the_error_for_an_evicted_request_says_so():
    sampler, rows = Sampler(cache_bytes=0), np.zeros((1, VOCAB), np.float32)
    settings = SamplingParam(do_sample=[True], seed=[4])
    for i in (1, 2):
        sampler.sample(rows, SamplingData([[3]], request_ids=[i]), settings)
    evicted = SamplingData(request_ids=[1], is_prefill=False)
    for given in (None, settings):
        with pytest.raises(InconsistencyError, match=r"request 1 was evicted .*`cache_bytes`"):
            sampler.sample(rows, evicted, given)
    metadata = SamplingMetadata.from_numpy([[1]], is_prefill=False, do_sample=[True], seeds=[4])
    with pytest.raises(InconsistencyError, match="request 1 was evicted"):
        sampler.sample(rows, metadata)
    with pytest.raises(InconsistencyError, match="request_ids has 9, which is not cached"):
        sampler.sample(rows, SamplingData(request_ids=[9], is_prefill=False))
    whole = SamplingData([[3, 5]], [[5]], request_ids=[1], is_prefill=False)
    sampler.sample(rows, whole, settings)  # its tokens and settings are enough
    sampler.sample(rows, SamplingData(request_ids=[1], is_prefill=False))


def test_prefills_alone_keep_no_more_than_the_limit(monkeypatch):
    monkeypatch.setattr("engine_sampler_mindie.sampler._MOST_REQUESTS", 50)
    sampler, rows = Sampler(idle_rounds=None), np.zeros((80, VOCAB), np.float32)
    for i in range(200):
        sampler.sample(rows[:1], SamplingData(request_ids=[i]))
    assert kept(sampler) == 50
    sampler.sample(rows, SamplingData(request_ids=range(1000, 1080)))
    assert kept(sampler) == 80
    sampler.sample(rows, SamplingData(request_ids=range(1000, 1080), is_prefill=False))
    for i in range(5):
        ids = np.arange(1000 + 10 * i, 1010 + 10 * i)
        sampler.configure(SamplingData(request_ids=ids), SamplingParam(top_k=np.full(10, 3)))
    assert len(sampler._configured) == 50
    sampler.configure(SamplingData(request_ids=[7]), SamplingParam(top_k=[3]))
    assert len(sampler._configured) == 50


@pytest.mark.parametrize("rounds", [0, -1])
def test_at_least_one_idle_round_is_needed(rounds):
    with pytest.raises(OutOfBoundsError, match=f"idle_rounds={rounds}"):
        Sampler(idle_rounds=rounds)
    with pytest.raises(OutOfBoundsError, match="cache_bytes=-1"):
        Sampler(cache_bytes=-1)


def test_a_step_does_not_touch_the_tokens_drawn_before():
    output = RNG.integers(0, VOCAB, (3, 60_000))
    data = SamplingData(np.hstack([[[1]] * 3, output]), output, request_ids=IDS)
    sampler = Sampler()
    sampler.sample(STEPS[0], data, SamplingParam(temperature=[0.5, 0.0, 0.7], seed=[1, 2, 3]))
    assert peak_memory(lambda: sampler.sample(STEPS[1], later())) < 200_000  # one row's tokens are 480,000


@pytest.mark.parametrize("by_id", [True, False])
@pytest.mark.parametrize("penalty", [1.0, 1.2])
def test_long_outputs_of_which_some_do_not_grow_are_not_added_anew(monkeypatch, by_id, penalty):
    prompt, outputs = [[3], [4, 5], [6]], RNG.integers(0, VOCAB, (3, 5000)).tolist()
    settings = SamplingParam(
        repetition_penalty=np.full(3, penalty), temperature=[2.0, 2.0, 0.0], seed=[1, 2, 3]
    )
    sampler, begin, begun = Sampler(), RequestCache.begin, []
    monkeypatch.setattr(
        RequestCache, "begin", lambda self, *a, **k: begun.append(self) or begin(self, *a, **k)
    )
    for step in range(6):
        all_ids = padded([p + o for p, o in zip(prompt, outputs, strict=True)], VOCAB)
        output_ids = padded(outputs, -1)
        data = SamplingData(all_ids, output_ids, not step, IDS if by_id else None)
        tokens = sampler.sample(STEPS[step], data, settings)[0].tolist()
        fresh = Sampler().sample(STEPS[step], SamplingData(all_ids, output_ids), settings)[0].tolist()
        assert tokens == fresh
        outputs[0].append(tokens[0])
        outputs[2].append(7)  # the caller's choice; and row 1 has ended
    own = sampler._cache if by_id else sampler._rows
    assert sum(cache is own for cache in begun) == 3


@pytest.mark.parametrize("pad", [-1, VOCAB, 0, None])
def test_padding_is_found_wherever_it_is(pad):
    rows = np.array([[pad or 0, 5, 6, pad or 0], [5, 6, 7, 8], [pad or 0] * 4, [5, pad or 0, 6, 7]])
    padding = Padding(VOCAB, pad)
    tokens = [padding.read("all_input_ids", rows).tokens(row).tolist() for row in range(4)]
    inner = [5, 6, 7] if pad in (-1, VOCAB) else [5, 0, 6, 7]
    if pad is None:
        assert tokens == rows.tolist()
    else:
        assert tokens == [[5, 6], [5, 6, 7, 8], [], inner]
        spans = [padding.span(row) for row in rows]
        assert spans == [(1, 3), (0, 4), (0, 0), (0, 4) if pad == 0 else None]


def test_a_token_that_the_caller_chose_does_not_copy_those_before_it():
    output = RNG.integers(0, VOCAB, (3, 60_000))
    settings = SamplingParam(temperature=[0.5, 0.0, 0.7], seed=[1, 2, 3])
    sampler = Sampler()
    sampler.sample(STEPS[0], SamplingData(None, output, request_ids=IDS), settings)
    calls = [later(output_ids=np.hstack([output, np.full((3, 1), token)])) for token in (3, 4)]
    assert peak_memory(lambda: sampler.sample(STEPS[1], calls.pop(0))) < 400_000


def test_greedy_values_do_not_take_whole_rows():
    logits = RNG.normal(size=(8, 100_000)).astype(np.float32)
    settings = SamplingParam(temperature=[0.0] * 7 + [1.0], top_k=[0] * 7 + [3], presence_penalty=[1.0] * 8)
    data = SamplingData([[1]] * 8, [[1]] * 8)
    sampler = Sampler()
    assert peak_memory(lambda: sampler.sample(logits, data, settings)) < 1_000_000  # they have 2,800,000


def scheduled_run():
    """The tokens that a scheduler draws, [steps, rows], whose positions count the prompts."""
    scheduler = Scheduler(VOCAB)
    settings = zip([1.2, 1.5, 1.0], [0.9, 2.0, 2.0], [7, 8, 9], PROMPTS, strict=True)
    for penalty, temperature, seed, prompt in settings:
        q, t = float(np.float32(penalty)), float(np.float32(temperature))
        params = SamplingParams(order="mindie", repetition_penalty=q, temperature=t, seed=seed)
        scheduler.add(params, prompt)
    return [scheduler.step(logits).token_ids.tolist() for logits in STEPS]


@pytest.mark.parametrize("with_ids", [True, False], ids=["cached", "without ids"])
@pytest.mark.parametrize("given", [all_ids, both], ids=lambda given: given.__name__)
def test_counted_prompts_give_a_schedulers_tokens(given, with_ids):
    sampler, outputs, tokens = Sampler(count_prompts=True), [[], [], []], []
    for step, logits in enumerate(STEPS):
        ids = {"is_prefill": step == 0} | ({"request_ids": IDS} if with_ids else {})
        history = given(outputs) if step else {"all_input_ids": full_history(outputs)}
        drawn, _ = sampler.sample(logits, SamplingData(**history, **ids), SETTINGS_OF_PROMPTS)
        tokens.append(drawn.tolist())
        for output, token in zip(outputs, tokens[-1], strict=True):
            output.append(token)
    assert tokens == scheduled_run()


def test_counted_prompts_must_be_given_to_rows_that_sample_with_a_seed():
    sampler = Sampler(count_prompts=True)
    with pytest.raises(InconsistencyError, match="seed=7 in row 0 needs all_input_ids: with count_prompts"):
        sampler.sample(STEPS[0][:1], SamplingData(request_ids=[1]), SamplingParam(seed=[7]))
    sampler.sample(STEPS[0][:1], SamplingData(request_ids=[1]), SamplingParam(temperature=[2.0]))
    assert sampler.sample(STEPS[0][:1], SamplingData(request_ids=[1]))[1] is None
