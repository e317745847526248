"""The sampler in vLLM's V2 model runner: vLLM's own classes, whose kernels Triton interprets."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from engine_sampler_vllm import switch_off
from engine_sampler_vllm.places import PLACES
from vllm_engine import SamplingParams, params_of, torch, verified
from vllm_v2 import VOCAB, V2Engine, v2_modules

from engine_sampler import process_logits, sample
from engine_sampler.for_bridges import PeerError

SETTINGS: list[dict[str, Any]] = [
    {"temperature": 0.0},
    {"temperature": 0.8, "top_p": 0.9},
    {"temperature": 1.3, "top_k": 9, "min_p": 0.05},
    {"repetition_penalty": 1.3, "frequency_penalty": 0.5, "presence_penalty": -0.3},
    {"logit_bias": {3: 4.0, 5: -90.0}, "bad_words": []},
    {"allowed_token_ids": [1, 5, 7, 9]},
    {"extra_args": {"dry_multiplier": 0.8, "dry_allowed_length": 1}},
    {"temperature": 0.7, "extra_args": {"top_n_sigma": 1.0, "xtc_probability": 0.5, "unknown": 1}},
]


@pytest.fixture(scope="module")
def vllms() -> Iterator[Any]:
    with pytest.MonkeyPatch.context() as patch, v2_modules(patch) as found:
        yield found


@pytest.fixture
def modules(vllms: Any) -> Iterator[Any]:
    """vLLM's modules, switched on."""
    vllms.v2.put_in()
    yield vllms
    PLACES.put_back()


def alone(params: Any, tokens: list[int], prompt_length: int, row: np.ndarray) -> int:
    """What our functions draw for a request of vLLM's."""
    drawn = sample(
        row[None],
        params_of(params),
        prompt_token_ids=[tokens[:prompt_length]],
        output_token_ids=[tokens[prompt_length:]],
        backend="numpy",
    )
    return int(drawn.token_ids[0])


def noise(random: np.random.Generator, rows: int) -> np.ndarray:
    return random.normal(0, 3, (rows, VOCAB)).astype(np.float32)


def test_each_row_draws_what_its_request_alone_draws(modules: Any) -> None:
    """Requests arrive and leave, wait for some steps, and take the slots of others."""
    random, engine, params = np.random.default_rng(0), V2Engine(modules), {}
    for step in range(60):
        for name in [n for n in engine.names if random.random() < 0.1]:
            engine.remove(name)
        while len(engine.names) < 2 or (len(engine.names) < 7 and random.random() < 0.3):
            name, prompt = f"{step} {len(engine.names)}", random.integers(0, VOCAB, 4).tolist()
            settings = SETTINGS[int(random.integers(len(SETTINGS)))]
            params[name] = SamplingParams(**settings, seed=int(random.integers(2**31)), max_tokens=200)
            engine.add(name, params[name], prompt, random.integers(0, VOCAB, random.integers(4)).tolist())
        names = [name for name in engine.names if random.random() < 0.8] or engine.names[:1]
        logits = noise(random, len(names))
        before = [engine.tokens(name) for name in names]
        drawn = engine.step(names, logits).sampled_token_ids.flatten().tolist()
        assert drawn == [
            alone(params[name], tokens, 4, row)
            for name, tokens, row in zip(names, before, logits, strict=True)
        ]


def test_the_tokens_of_a_replayed_trace_are_its_history(modules: Any) -> None:
    """What the runner has for a request counts, not what was drawn."""
    engine, params = V2Engine(modules), SamplingParams(seed=3, frequency_penalty=2.0, max_tokens=50)
    engine.add("a", params, [1, 2], [])
    random = np.random.default_rng(1)
    for step in range(10):
        logits, before = noise(random, 1), engine.tokens("a")
        assert int(engine.step(["a"], logits).sampled_token_ids[0, 0]) == alone(params, before, 2, logits[0])
        engine.states.all_token_ids.gpu[:, len(before)] = step % 5


def test_a_preempted_request_goes_on_as_if_it_had_stayed(modules: Any) -> None:
    engine, params = V2Engine(modules), SamplingParams(seed=5, presence_penalty=1.5, max_tokens=50)
    engine.add("a", params, [1, 2, 3], [])
    random = np.random.default_rng(2)
    for _ in range(12):
        logits, before = noise(random, 1), engine.tokens("a")
        assert int(engine.step(["a"], logits).sampled_token_ids[0, 0]) == alone(params, before, 3, logits[0])
        if random.random() < 0.4:
            tokens = engine.tokens("a")
            engine.remove("a")
            engine.add("a", params, tokens[:3], tokens[3:])


@pytest.mark.parametrize("mode", ["raw_logprobs", "raw_logits", "processed_logprobs", "processed_logits"])
def test_logprobs_are_vllms(modules: Any, mode: str) -> None:
    """vLLM's kernels take them from the logits that it has, or from ours after the chain."""
    engine = V2Engine(modules, mode=mode)
    params = SamplingParams(temperature=0.7, top_k=9, seed=1, logprobs=4, max_tokens=50)
    engine.add("a", params, [1, 2], [3])
    logits = noise(np.random.default_rng(3), 1)
    output = engine.step(["a"], logits)
    shown = torch.tensor(logits)
    if mode.startswith("processed"):
        shown = torch.tensor(process_logits(logits, params_of(params), output_token_ids=[[3]]))
    if mode.endswith("logprobs"):
        shown = shown.log_softmax(-1)
    ids, values = output.logprobs_tensors[:2]
    assert int(ids[0, 0]) == int(output.sampled_token_ids[0, 0])
    torch.testing.assert_close(values[0], shown[0, ids[0].long()], atol=1e-4, rtol=1e-5)
    assert ids[0, 1:].tolist() == shown[0].topk(4).indices.tolist()


@pytest.mark.parametrize(
    "settings",
    [{}, *SETTINGS[3:6], {"min_tokens": 5, "stop_token_ids": [7, 9]}],
    ids=["plain", "penalties", "bias", "allowed", "min_tokens"],
)
def test_greedy_tokens_are_vllms(modules: Any, settings: dict[str, Any]) -> None:
    """Its own kernels process the logits, in front of a greedy choice."""
    engine, random = V2Engine(modules), np.random.default_rng(4)
    engine.add("a", SamplingParams(**{**settings, "temperature": 0.0, "max_tokens": 90}), [1, 2, 2], [4, 4])
    for _ in range(8):
        logits, batch = noise(random, 1), engine.batch(["a"], [[]])
        rows = torch.tensor(logits)
        own = engine.sampler.apply_sampling_params(
            rows,
            batch.expanded_idx_mapping,
            batch.idx_mapping,
            batch.idx_mapping_np,
            batch.positions,
            batch.input_ids,
            batch.expanded_local_pos,
            batch.seq_lens_cpu_upper_bound.numpy(),
        )
        assert int(engine.step(["a"], logits).sampled_token_ids[0, 0]) == int(own[0].argmax())
        counts = engine.sampler.penalties_state.output_bin_counts  # the runner counts what was drawn
        counts[:, engine.tokens("a")[-1]] += 1


def test_processors_of_others_come_first(modules: Any) -> None:
    class Only(modules.processors.LogitsProcessor):
        def apply(self, logits: Any, context: Any) -> Any:
            logits[:, 5:] = -torch.inf
            return logits

    engine = V2Engine(modules, custom_logits_processors=[Only(None, None)])
    engine.add("a", SamplingParams(seed=1, max_tokens=50), [1], [])
    for step in range(5):
        logits = noise(np.random.default_rng(step), 1)
        assert int(engine.step(["a"], logits).sampled_token_ids[0, 0]) < 5


def test_a_faulty_row_gets_a_token_and_is_logged(modules: Any, caplog: pytest.LogCaptureFixture) -> None:
    engine, logits = V2Engine(modules), np.zeros((2, VOCAB), np.float32)
    logits[0, :5], logits[0, 9], logits[1, 4] = np.nan, 3.0, 5.0
    for name in "ab":
        engine.add(name, SamplingParams(temperature=0.0, max_tokens=9), [1], [])
    for _ in range(3):
        assert engine.step(["a", "b"], logits).sampled_token_ids.flatten().tolist() == [9, 4]
    assert "row 0" in caplog.text


# --- drafts ---------------------------------------------------------------------------------------


def test_drafts_are_accepted_as_long_as_they_are_what_is_drawn(modules: Any) -> None:
    engine, random, params = V2Engine(modules, drafts=3), np.random.default_rng(5), {}
    for i, settings in enumerate(SETTINGS[:6]):
        params[str(i)] = SamplingParams(**settings, seed=i, logprobs=2, max_tokens=100)
        engine.add(str(i), params[str(i)], [1, 2, i], [])
    engine.step(engine.names, noise(random, len(engine.names)))  # there are no drafts before the first token
    for _ in range(12):
        drafts, rows, expected = [], [], []
        for name in engine.names:
            tokens, new = engine.tokens(name), []
            draft = random.integers(0, VOCAB, 3).tolist()
            noises = noise(random, 4)
            for i, row in enumerate(noises):
                new.append(alone(params[name], tokens + new, 3, row))
                if i < 3 and random.random() < 0.7:
                    draft[i] = new[-1]
                elif i < 3 and random.random() < 0.3:
                    draft[i] = -1  # stands for none
                if i < 3 and draft[i] != new[-1]:
                    break
            drafts.append(draft), rows.extend(noises), expected.append(new)
        output = engine.step(engine.names, np.stack(rows), drafts)
        assert output.num_sampled.tolist() == [len(new) for new in expected]
        got = [row[:n] for row, n in zip(output.sampled_token_ids.tolist(), output.num_sampled, strict=True)]
        assert got == expected


@pytest.mark.parametrize(
    "special", [{"fly_window_size": 3}, {"use_block_verification": True}, {"watermark_key": 3}], ids=str
)
def test_other_ways_to_verify_drafts_are_vllms(
    modules: Any, special: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = V2Engine(modules, drafts=2)
    engine.add("a", SamplingParams(max_tokens=9), [1], [])
    vars(engine.rejection_sampler).update(special)
    asked = []
    monkeypatch.setattr(modules.rejection.RejectionSampler, "_verify", lambda *arguments: asked.append(1))
    with pytest.raises(TypeError):  # the stand-in verifies nothing
        engine.step(["a"], np.zeros((3, VOCAB), np.float32), [[1, 2]])
    assert asked == [1]


# --- the switch -----------------------------------------------------------------------------------


def test_switching_it_off_restores_the_runner(modules: Any) -> None:
    from vllm.exceptions import VLLMValidationError

    assert type(V2Engine(modules).sampler) is modules.v2.SlotSampler
    wrong = SamplingParams(extra_args={"dry_multiplier": -1.0})
    with pytest.raises(VLLMValidationError, match="dry_multiplier"):
        verified(wrong)
    modules.v2.put_in()  # a second time
    switch_off()
    engine = V2Engine(modules, drafts=1)
    assert type(engine.sampler) is modules.Sampler
    assert type(engine.rejection_sampler) is modules.rejection.RejectionSampler
    verified(wrong)


def test_a_sampler_that_watermarks_stays(modules: Any) -> None:
    class Watermarks(modules.Sampler):
        pass

    state = SimpleNamespace(vllm_config=SimpleNamespace(speculative_config=None), device="cpu")
    assert modules.interface.ModelState.custom_sampler(state, object.__new__(Watermarks)) is None


def test_rows_that_warm_the_device_up_are_vllms(modules: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    engine = V2Engine(modules)
    engine.states.add_request("dummy", 1, [1], 0, 3)
    engine.states.apply_staged_writes()
    own = torch.tensor([11]), torch.zeros(1, VOCAB)
    monkeypatch.setattr(modules.Sampler, "sample", lambda *arguments, **keywords: own)
    assert engine.step(["dummy"], np.zeros((1, VOCAB), np.float32)).sampled_token_ids.tolist() == [[11]]


@pytest.mark.parametrize(
    ("holder", "name"),
    [("sampler", "sample"), ("model_state", "custom_sampler"), ("rejection", "_verify")],
)
def test_a_changed_signature_fails_by_name(vllms: Any, holder: str, name: str) -> None:
    at = {
        "sampler": vllms.Sampler,
        "model_state": vllms.interface.ModelState,
        "rejection": vllms.rejection.RejectionSampler,
    }[holder]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(at, name, lambda self, other: None)
        with pytest.raises(PeerError, match=f"{at.__name__}.{name}"):
            vllms.v2.put_in()
        patch.delattr(at, name)
        with pytest.raises(PeerError, match=f"{at.__name__}.{name}"):
            vllms.v2.put_in()
