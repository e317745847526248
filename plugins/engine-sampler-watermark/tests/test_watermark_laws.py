"""The marks keep the laws of samplers and selectors."""

from __future__ import annotations

import numpy as np
import pytest
from engine_sampler_watermark.green_list import GreenList
from engine_sampler_watermark.gumbel import Gumbel
from engine_sampler_watermark.synthid import SynthID

import engine_sampler
from engine_sampler import ParameterError, SamplingParams, Scheduler
from engine_sampler.testing import SamplerContract, SelectorContract, registered

KEYS = (654, 400, 836, 123, 340)


@pytest.mark.quick_share(4)
class TestGumbel(SelectorContract):
    selector = Gumbel()
    params = [
        {"watermark_gumbel_key": 2**64 - 1},
        {"watermark_gumbel_key": "0xfe", "watermark_gumbel_width": 7, "watermark_gumbel_scheme": "sglang"},
    ]


@pytest.mark.quick_share(4)
class TestGreenList(SamplerContract):
    sampler = GreenList()
    params = [
        {"watermark_green_bias": 2.0},
        {"watermark_green_bias": -1.5, "watermark_green_ratio": 0.5, "watermark_green_key": 7},
    ]
    removes = False
    apply_at_neutral = False  # −0 + 0 is 0


@pytest.mark.quick_share(4)
class TestSynthID(SamplerContract):
    sampler = SynthID()
    params = [
        {"watermark_synthid_keys": KEYS},
        {"watermark_synthid_keys": KEYS, "watermark_synthid_ngram_len": 2},
    ]
    removes = False
    apply_at_neutral = False  # ln p without any layer: the same distribution, but different logits


MARKS = [
    {"watermark_gumbel_key": 11},
    {"watermark_gumbel_key": 11, "watermark_gumbel_scheme": "sglang", "top_k": 9},
    {"watermark_green_bias": 2.0, "top_p": 0.9},
    {"watermark_synthid_keys": KEYS, "min_p": 0.02},
]


@pytest.fixture(autouse=True)
def _plugin() -> object:
    import engine_sampler_watermark

    with registered(engine_sampler_watermark):
        yield


@pytest.mark.parametrize("mark", MARKS)
def test_marked_requests_draw_the_same_on_both_backends_and_with_drafts(mark: dict[str, object]) -> None:
    rng, vocab_size = np.random.default_rng(5), 300
    params = SamplingParams(seed=3, max_tokens=24, **mark)
    runs = [Scheduler(vocab_size, backend="numpy"), Scheduler(vocab_size), Scheduler(vocab_size)]
    ids = [scheduler.add(params, [1, 2, 3]) for scheduler in runs]
    while runs[0].request_ids:
        rows = rng.normal(0, 2, (3, vocab_size)).astype(np.float32)
        rows[1:] = rows[0]
        first = runs[0].step(rows[:1]).tokens(0)
        assert runs[1].step(rows[:1]).tokens(0) == first
        drafted = runs[2].step(rows[:2], draft_token_ids=[[first[0] if rng.random() < 0.7 else 0]])
        for extra in drafted.tokens(0)[1:]:
            for scheduler, request_id in zip(runs[:2], ids[:2], strict=True):
                if request_id in scheduler.request_ids:
                    assert scheduler.step(rows[:1]).tokens(0) == [extra]
        assert drafted.tokens(0)[0] == first[0]
    records = [scheduler.record(request_id) for scheduler, request_id in zip(runs, ids, strict=True)]
    assert list(records[0].token_ids) == list(records[1].token_ids) == list(records[2].token_ids)


@pytest.mark.quick_share(3)
@pytest.mark.parametrize("mark", ["gumbel", "gumbel of sglang", "synthid"])
def test_a_marked_token_has_the_probability_of_its_softmax_over_the_keys(mark: str) -> None:
    logits, count = np.array([[1.0, 0.0, -1.0, 2.0]], np.float32), 2000
    keys = np.random.default_rng(4).integers(0, 2**62, (count, 3))
    marks = {
        "gumbel": lambda key: {"watermark_gumbel_key": key[0]},
        "gumbel of sglang": lambda key: {"watermark_gumbel_key": key[0], "watermark_gumbel_scheme": "sglang"},
        "synthid": lambda key: {"watermark_synthid_keys": key, "seed": key[0]},
    }
    params = [SamplingParams(**marks[mark](key)) for key in keys.tolist()]
    drawn = engine_sampler.sample(np.repeat(logits, count, 0), params, prompt_token_ids=[[3]] * count)
    shares = np.bincount(drawn.token_ids, minlength=4) / count
    expected = np.exp(logits[0]) / np.exp(logits[0]).sum()
    assert np.abs(shares - expected).max() < 0.05


def test_a_context_that_comes_again_is_drawn_by_the_seed() -> None:
    params = [
        SamplingParams(watermark_gumbel_key=1, watermark_gumbel_width=1, seed=seed) for seed in range(60)
    ]
    logits = np.zeros((60, 50), np.float32)

    def drawn(output: list[int]) -> set[int]:
        result = engine_sampler.sample(
            logits, params, prompt_token_ids=[[]] * 60, output_token_ids=[output] * 60
        )
        return set(result.token_ids.tolist())

    assert len(drawn([4, 9])) == 1
    assert len(drawn([4, 9, 4])) > 20


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("watermark_gumbel_key", 2**64),
        ("watermark_gumbel_key", "0x"),
        ("watermark_gumbel_width", 65),
        ("watermark_gumbel_scheme", "mine"),
        ("watermark_green_ratio", 0.0),
        ("watermark_synthid_keys", [1, 1]),
        ("watermark_synthid_keys", "123"),
        ("watermark_synthid_ngram_len", 1),
    ],
)
def test_a_value_that_is_not_allowed_is_named(name: str, value: object) -> None:
    with pytest.raises(ParameterError, match=name):
        SamplingParams(**{name: value})
