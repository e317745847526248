"""The sampler beside vLLM's own, on batches that vLLM's tests build by hand; switching; signatures."""

from __future__ import annotations

import ast
import re
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import engine_sampler_vllm
import numpy as np
import pytest
from vllm_engine import (
    VOCAB,
    LogitsProcessors,
    RejectionSampler,
    SamplingMetadata,
    SamplingParams,
    VllmEngine,
    torch,
    verified,
    vllms,
)

from engine_sampler.for_bridges import PeerError

PLACES = pytest.importorskip("engine_sampler_vllm.places").PLACES
v1 = pytest.importorskip("engine_sampler_vllm.v1")
with_requests = pytest.importorskip("vllm_hand_made").with_requests


LOGITS = torch.tensor(np.random.default_rng(2).normal(0, 2, (6, VOCAB)).astype(np.float32))
MODES = ("raw_logprobs", "raw_logits", "processed_logprobs", "processed_logits")


@pytest.fixture(autouse=True)
def _argmax(monkeypatch: pytest.MonkeyPatch) -> None:
    """vLLM's own argmax for the CPU is in its build."""
    monkeypatch.setattr(vllms.Sampler, "greedy_sample", staticmethod(lambda logits: logits.argmax(dim=-1)))


def metadata(**changes: Any) -> SamplingMetadata:
    """A batch of six greedy rows with these changes."""
    ones = torch.ones(6)
    plain: dict[str, Any] = {
        "temperature": None, "all_greedy": True, "all_random": False, "top_p": None, "top_k": None,
        "generators": {}, "max_num_logprobs": None, "no_penalties": True, "prompt_token_ids": None,
        "frequency_penalties": ones * 0, "presence_penalties": ones * 0, "repetition_penalties": ones,
        "output_token_ids": [[] for _ in range(6)], "allowed_token_ids_mask": None,
        "bad_words_token_ids": {}, "logitsprocs": LogitsProcessors(),
    }  # fmt: skip
    return SamplingMetadata(**{**plain, **changes})


def warm(**changes: Any) -> SamplingMetadata:
    """The same with random draws."""
    return metadata(temperature=torch.full((6,), 0.9), all_greedy=False, all_random=True, **changes)


def sampler_in(runner: Any, *arguments: Any) -> Any:
    """Our sampler, for batches without a model runner."""
    return with_requests(runner.Sampler)(*arguments)


def masked_for_rows() -> Any:
    mask = torch.zeros(6, VOCAB, dtype=torch.bool)
    mask[::2, :40] = True
    return mask


HISTORY = {
    "prompt_token_ids": torch.tensor([[1, 2, VOCAB]] * 6),
    "output_token_ids": [[3, 4, 4], [5], [6, 6, 6], [], [7], [1]],
}

GREEDY = {
    "plain": {},
    "penalties": {
        "no_penalties": False, "frequency_penalties": torch.full((6,), 1.5),
        "presence_penalties": torch.full((6,), -1.0), "repetition_penalties": torch.full((6,), 1.4),
        **HISTORY,
    },
    "allowed": {"allowed_token_ids_mask": masked_for_rows()},
    "bad words": {"bad_words_token_ids": {0: [[3, 4], [4, 9]], 2: [[6]]}, **HISTORY},
}  # fmt: skip


@pytest.mark.parametrize("name", GREEDY)
@pytest.mark.parametrize("mode", MODES)
def test_greedy_tokens_and_logprobs_are_vllms(runner: Any, name: str, mode: str) -> None:
    batch = metadata(max_num_logprobs=5, **GREEDY[name])
    own = vllms.Sampler(mode)(LOGITS.clone(), batch)
    ours = sampler_in(runner, mode)(LOGITS.clone(), batch)
    assert torch.equal(ours.sampled_token_ids, own.sampled_token_ids)
    assert ours.sampled_token_ids.dtype == own.sampled_token_ids.dtype
    for one, other in zip(ours.logprobs_tensors[:3], own.logprobs_tensors[:3], strict=True):
        assert one.shape == other.shape
        torch.testing.assert_close(one.double(), other.double(), atol=1e-4, rtol=1e-5)


@pytest.mark.parametrize("mode", MODES)
def test_all_logprobs_are_vllms(runner: Any, mode: str) -> None:
    batch = metadata(max_num_logprobs=-1)
    own, ours = vllms.Sampler(mode)(LOGITS.clone(), batch), sampler_in(runner, mode)(LOGITS.clone(), batch)
    torch.testing.assert_close(ours.logprobs_tensors[1], own.logprobs_tensors[1], atol=1e-4, rtol=1e-5)


def test_logprobs_of_given_tokens_are_vllms(runner: Any) -> None:
    batch = metadata(logprob_token_ids={0: [4, 5], 3: [9]})
    own, ours = vllms.Sampler()(LOGITS.clone(), batch), sampler_in(runner)(LOGITS.clone(), batch)
    for one, other in zip(ours.logprobs_tensors[:3], own.logprobs_tensors[:3], strict=True):
        torch.testing.assert_close(one.double(), other.double(), atol=1e-4, rtol=1e-5)


@pytest.mark.parametrize(
    "settings",
    [
        {"top_k": torch.full((6,), 3, dtype=torch.int32)},
        {"top_p": torch.full((6,), 0.6)},
        {"top_k": torch.full((6,), 20, dtype=torch.int32), "top_p": torch.full((6,), 0.8)},
    ],
    ids=["top_k", "top_p", "both"],
)
def test_the_tokens_that_are_kept_are_vllms(runner: Any, settings: dict[str, Any]) -> None:
    batch = warm(max_num_logprobs=-1, **settings)
    own = vllms.Sampler("processed_logits")(LOGITS.clone(), batch).logprobs_tensors[1]
    ours = sampler_in(runner, "processed_logits")(LOGITS.clone(), batch).logprobs_tensors[1]
    assert torch.equal(ours > -torch.inf, own > -torch.inf)
    torch.testing.assert_close(ours, own, atol=1e-5, rtol=1e-5)


def test_seeded_rows_draw_the_same_again_and_others_do_not(runner: Any) -> None:
    def draw() -> list[int]:
        seeded = {0: torch.Generator().manual_seed(7), 3: torch.Generator().manual_seed(8)}
        drawn = sampler_in(runner)(torch.zeros(6, VOCAB), warm(generators=seeded))
        tokens: list[int] = drawn.sampled_token_ids.flatten().tolist()
        return tokens

    all_draws = [draw() for _ in range(8)]
    assert len({tokens[0] for tokens in all_draws}) == len({tokens[3] for tokens in all_draws}) == 1
    assert len({tokens[1] for tokens in all_draws}) > 1


def test_the_logits_of_the_engine_stay_as_they_are(runner: Any) -> None:
    logits = LOGITS.clone()
    sampler_in(runner)(logits, metadata(allowed_token_ids_mask=masked_for_rows(), max_num_logprobs=2))
    assert torch.equal(logits, LOGITS)


class Doubling(vllms.Sampler):
    """Stands for a processor of others: it prefers token 11."""

    def apply(self, logits: Any) -> Any:
        logits[:, 11] = 99.0
        return logits


def test_processors_of_others_come_first(runner: Any) -> None:
    batch = metadata()
    batch.logitsprocs.non_argmax_invariant.append(Doubling())
    assert sampler_in(runner)(LOGITS, batch).sampled_token_ids.flatten().tolist() == [11] * 6


def test_drafts_with_probabilities_are_left_to_vllm(runner: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr(RejectionSampler, "forward", lambda self, *arguments: asked.append(arguments))
    runner.RejectionSampler(sampler_in(runner))(None, torch.ones(1, VOCAB), LOGITS, metadata())
    assert len(asked) == 1


# --- the switch -----------------------------------------------------------------------------------


def test_switching_it_off_restores_the_engine(runner: Any) -> None:
    assert runner.Sampler is not vllms.Sampler
    v1.put_in(runner)  # a second time
    engine_sampler_vllm.switch_off()
    engine_sampler_vllm.switch_off()
    assert runner.Sampler is vllms.Sampler
    assert runner.RejectionSampler is RejectionSampler
    engine = VllmEngine(runner)
    engine.add("a", SamplingParams(temperature=0.0), [1], [])
    engine.refresh()
    assert engine.step(LOGITS[:1].numpy()) == [int(LOGITS[0].argmax())]
    assert type(engine.sampler) is vllms.Sampler


@pytest.mark.parametrize(
    "extra",
    [
        {"dry_multiplier": -1.0},
        {"temperature": 2.0},
        {"regex": "a"},
        {"order": "none"},
        {"thinking": "qwen3"},
    ],
    ids=["value", "vllms", "grammar", "order", "phases"],
)
def test_wrong_extra_args_are_refused_when_the_request_arrives(runner: Any, extra: dict[str, Any]) -> None:
    from vllm.exceptions import VLLMValidationError

    request = SamplingParams(extra_args=extra)
    with pytest.raises(VLLMValidationError, match=next(iter(extra))):
        verified(request)
    verified(SamplingParams(extra_args={"top_n_sigma": 1.0, "others": 3}))
    PLACES.put_back()
    verified(request)


@pytest.mark.parametrize(
    ("value", "parts"),
    [
        ("", None),
        ("0", None),
        ("1", ()),
        ("grammars", ("grammars",)),
        ("sampler,grammars", ("sampler", "grammars")),
    ],
)
def test_the_environment_switches_it_on(
    value: str, parts: tuple[str, ...] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    switched = []
    monkeypatch.setattr(engine_sampler_vllm, "switch_on", lambda *names: switched.append(names))
    monkeypatch.setenv("ENGINE_SAMPLER_VLLM", value)
    engine_sampler_vllm.register()
    assert switched == ([] if parts is None else [parts])


def test_an_unknown_part_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="ENGINE_SAMPLER_VLLM='logits' is not allowed"):
        engine_sampler_vllm.switch_on("logits")


def test_an_older_release_is_refused_by_name_and_stays_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """That lacks the interface of processors of the V2 runner, as 0.28 and 0.30 do."""
    lost = "vllm.v1.worker.gpu.sample.logits_processor"
    for name in [*sys.modules]:
        if name.startswith((lost, "engine_sampler_vllm.v2")):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, lost, None)
    with pytest.raises(
        PeerError, match=rf"engine-sampler-vllm cannot be used beside vLLM.*{re.escape(lost)}"
    ):
        engine_sampler_vllm.switch_on("grammars", "sampler")
    from vllm.v1 import structured_output

    assert not PLACES.is_replaced(structured_output, "GuidanceBackend")


@pytest.mark.parametrize("name", ["Sampler", "RejectionSampler", "build_logitsprocs", "SamplingMetadata"])
def test_a_changed_signature_fails_by_name(runner: Any, name: str) -> None:
    PLACES.put_back()
    setattr(runner, name, lambda self: None)
    with pytest.raises(PeerError, match=name):
        v1.put_in(runner)
    delattr(runner, name)
    with pytest.raises(PeerError, match=name):
        v1.put_in(runner)


def test_the_places_are_those_of_the_model_runner() -> None:
    """Without its imports: the module itself needs a GPU's libraries."""
    spec = find_spec("vllm.v1.worker.gpu_model_runner")
    assert spec is not None
    assert spec.origin is not None
    tree = ast.parse(Path(spec.origin).read_text(encoding="utf-8"))
    imported = {alias.name for node in tree.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert {"Sampler", "RejectionSampler", "SamplingMetadata", "build_logitsprocs"} <= imported
    called = {ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    assert {"Sampler", "RejectionSampler", "build_logitsprocs"} <= called
