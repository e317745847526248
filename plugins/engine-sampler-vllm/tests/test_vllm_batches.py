"""Requests in vLLM's own persistent batch draw what each would alone."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import pytest
from vllm_engine import VOCAB, SamplingParams, SpecDecodeMetadata, VllmEngine, params_of, torch

from engine_sampler import sample

ROUNDS = int(os.environ.get("ENGINE_SAMPLER_TEST_ROUNDS", "1"))

SETTINGS: list[dict[str, Any]] = [
    {"temperature": 0.0},
    {"temperature": 0.8, "top_p": 0.9},
    {"temperature": 1.3, "top_k": 9, "min_p": 0.05},
    {"repetition_penalty": 1.3, "frequency_penalty": 0.5, "presence_penalty": -0.3},
    {"logit_bias": {3: 4.0, 5: -90.0}, "min_tokens": 8, "stop_token_ids": [1, 2]},
    {"allowed_token_ids": [1, 5, 7, 9]},
    {"extra_args": {"dry_multiplier": 0.8, "dry_allowed_length": 1}},
    {"temperature": 0.7, "extra_args": {"top_n_sigma": 1.0, "xtc_probability": 0.5, "unknown": 1}},
]


def alone(params: Any, prompt: list[int], output: list[int], row: np.ndarray) -> int:
    """What our functions draw for a request of vLLM's."""
    drawn = sample(
        row[None], params_of(params), prompt_token_ids=[prompt], output_token_ids=[output], backend="numpy"
    )
    return int(drawn.token_ids[0])


def test_each_row_draws_what_its_request_alone_draws(runner: Any) -> None:
    """Requests arrive, leave and move as vLLM condenses its batch. 180 rounds are 10^5 rows."""
    random, engine, count, rows = np.random.default_rng(ROUNDS), VllmEngine(runner), 0, 0
    for _ in range(120 * ROUNDS):
        for name in [n for n in engine.requests if random.random() < 0.1]:
            engine.remove(name)
        while len(engine.requests) < 2 or (len(engine.requests) < 12 and random.random() < 0.3):
            settings = SETTINGS[int(random.integers(len(SETTINGS)))]
            params = SamplingParams(**settings, seed=int(random.integers(2**31)), max_tokens=200)
            prompt = random.integers(0, VOCAB, random.integers(1, 9)).tolist()
            engine.add(str(count), params, prompt, random.integers(0, VOCAB, random.integers(4)).tolist())
            count += 1
        names = engine.refresh()
        logits = random.normal(0, 3, (len(names), VOCAB)).astype(np.float32)
        known = [engine.requests[name] for name in names]
        expected = [
            alone(r.sampling_params, r.prompt_token_ids, r.output_token_ids, row)
            for r, row in zip(known, logits, strict=True)
        ]
        assert engine.step(logits) == expected
        rows += len(names)
        for name in [n for n in engine.requests if random.random() < 0.05]:
            del engine.requests[name].output_token_ids[-1:]  # vLLM discards a token
    assert rows >= 500 * ROUNDS


def test_requests_without_a_seed_draw_the_same_on_all_ranks(runner: Any) -> None:
    ranks = [VllmEngine(runner), VllmEngine(runner)]
    for step in range(20):
        logits = np.random.default_rng(step).normal(0, 1, (step // 4 + 1, VOCAB)).astype(np.float32)
        for engine in ranks:
            if step % 4 == 0:
                engine.add(str(step), SamplingParams(), [1, 2], [])
            engine.refresh()
        assert ranks[0].step(logits) == ranks[1].step(logits)


def test_placeholders_of_tokens_on_their_way_stand_for_what_was_drawn(runner: Any) -> None:
    late, prompt_one = VllmEngine(runner), VllmEngine(runner)
    for engine in (late, prompt_one):
        engine.add("a", SamplingParams(seed=3, frequency_penalty=1.5), [1], [])
    for step in range(12):
        logits = np.random.default_rng(step).normal(0, 1, (1, VOCAB)).astype(np.float32)
        late.refresh(), prompt_one.refresh()
        assert late.step(logits) == prompt_one.step(logits)
        late.requests["a"].output_token_ids[-1] = -1


@pytest.mark.parametrize(
    "extra", [{"dry_multiplier": -1.0}, {"temperature": 2.0}, {"mirostat": 7}, {"regex": "a"}]
)
def test_wrong_extra_args_are_left_out_and_logged(
    runner: Any, extra: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    engine, logits = VllmEngine(runner), np.arange(VOCAB, dtype=np.float32)[None]
    engine.add("a", SamplingParams(temperature=0.0, extra_args=extra), [1], [])
    engine.refresh()
    assert engine.step(logits) == [VOCAB - 1]
    assert next(iter(extra)) in caplog.text


def test_a_faulty_row_gets_a_token_and_is_logged(runner: Any, caplog: pytest.LogCaptureFixture) -> None:
    engine, logits = VllmEngine(runner), np.zeros((2, VOCAB), np.float32)
    logits[0, :5], logits[0, 9], logits[1, 4] = np.nan, 3.0, 5.0
    for name in "ab":
        engine.add(name, SamplingParams(temperature=0.0), [1], [])
    engine.refresh()
    for _ in range(3):
        assert engine.step(logits) == [9, 4]
    assert "row 0" in caplog.text


# --- drafts ---------------------------------------------------------------------------------------


def spec_metadata(drafts: list[list[int]]) -> Any:
    metadata = SpecDecodeMetadata.make_dummy(drafts, torch.device("cpu"))
    ends = np.cumsum([len(draft) + 1 for draft in drafts])
    metadata.bonus_logits_indices = torch.tensor(ends - 1)
    rows = np.arange(ends[-1])
    metadata.target_logits_indices = torch.tensor(np.setdiff1d(rows, ends - 1))
    return metadata


def test_drafts_are_accepted_as_long_as_they_are_what_is_drawn(runner: Any) -> None:
    import torch

    random, engine = np.random.default_rng(4), VllmEngine(runner)
    for i, settings in enumerate(SETTINGS):
        engine.add(str(i), SamplingParams(**settings, seed=i, logprobs=2), [1, 2, i], [])
    names = engine.refresh()
    for _ in range(15 * ROUNDS):
        drafts, rows, expected = [], [], []
        for name in names:
            request, tokens = engine.requests[name], []
            output = list(request.output_token_ids)
            draft = random.integers(0, VOCAB, random.integers(0, 4)).tolist()
            for i in range(len(draft) + 1):
                row = random.normal(0, 3, VOCAB).astype(np.float32)
                rows.append(row)
                if len(tokens) < i:
                    continue
                tokens.append(alone(request.sampling_params, request.prompt_token_ids, output + tokens, row))
                if i < len(draft) and random.random() < 0.7:
                    draft[i] = tokens[i]
                elif i < len(draft) and random.random() < 0.3:
                    draft[i] = -1  # stands for none
                if i < len(draft) and draft[i] != tokens[i]:
                    tokens.append(-1)
                    break
            rows += [random.normal(0, 3, VOCAB).astype(np.float32) for _ in range(len(draft) + 1 - i - 1)]
            drafts.append(draft)
            expected.append([t for t in tokens if t >= 0])
        if not any(drafts):
            continue
        drawn = engine.rejection_sampler(
            spec_metadata(drafts), None, torch.tensor(np.stack(rows)), engine.batch.sampling_metadata
        )
        outputs, logprobs = engine.rejection_sampler.parse_output(
            drawn.sampled_token_ids, VOCAB, logprobs_tensors=drawn.logprobs_tensors
        )
        assert outputs == expected
        assert logprobs is not None
        assert logprobs.logprob_token_ids[:, 0].tolist() == [t for tokens in outputs for t in tokens]
        for name, tokens in zip(names, outputs, strict=True):
            engine.requests[name].output_token_ids.extend(tokens)
