"""The sampler beside SGLang's own, on the same batches; switching; signatures."""

from __future__ import annotations

import dataclasses
import pkgutil
import re
import sys
from typing import Any

import numpy as np
import pytest
from sglang_engine import (
    VOCAB,
    Batch,
    SamplingBatchInfo,
    SamplingParams,
    new_request,
    new_sampler,
    output_of,
    runtime_context,
    sglangs,
    torch,
)

from engine_sampler import process_logits
from engine_sampler.for_bridges import PeerError

places = pytest.importorskip("engine_sampler_sglang.places")

LOGITS = torch.tensor(np.random.default_rng(2).normal(0, 2, (6, VOCAB)).astype(np.float32))


def batch_of(count: int = 6, **settings: Any) -> Batch:
    requests = [new_request(f"request {i}", [1, 2], **settings) for i in range(count)]
    return Batch(requests)


def drawn(batch: Batch, backend: str, *arguments: Any) -> tuple[Any, Any]:
    """Tokens, and what has been written beside the logits."""
    output = output_of(LOGITS[: len(batch.reqs)])
    with runtime_context.get_exec().kernel.override(sampling_backend=backend):
        tokens = new_sampler(backend)(output, batch.info.copy_for_forward(), *arguments)
    return tokens, output


@pytest.mark.parametrize(
    "settings",
    [{"temperature": 0.0}, {"temperature": 0.6, "top_k": 1}, {"temperature": 0.6, "top_p": 1e-6}],
    ids=["greedy", "top_k", "top_p"],
)
def test_tokens_and_logprobs_are_sglangs_where_one_token_is_left(settings: dict[str, Any]) -> None:
    asked = [2, 0, 3, 1, 0, 5], [None, [4, 5], None, [1], None, None]
    own, own_output = drawn(batch_of(**settings), "pytorch", True, *asked, torch.arange(6))
    ours, output = drawn(batch_of(**settings), "engine_sampler", True, *asked, torch.arange(6))
    assert ours.tolist() == own.tolist()
    for field in dataclasses.fields(output):
        one, other = getattr(output, field.name), getattr(own_output, field.name)
        if field.name.startswith("next_token") and "logprobs" in field.name:
            _assert_close(one, other)


def _assert_close(left: Any, right: Any) -> None:
    if isinstance(left, list):
        assert len(left) == len(right)
        for a, b in zip(left, right, strict=True):
            _assert_close(a, b)
    elif left is None or isinstance(left, int):
        assert left == right
    else:
        torch.testing.assert_close(torch.as_tensor(left), torch.as_tensor(right), atol=1e-4, rtol=1e-5)


def test_the_tokens_that_are_kept_are_sglangs() -> None:
    """SGLang cuts jointly; 64 combinations of values."""
    settings_of = pytest.importorskip("engine_sampler_sglang.settings")
    random = np.random.default_rng(7)
    for _ in range(64):
        settings = {
            "temperature": float(random.choice([0.3, 0.8, 1.0, 1.7])),
            "top_p": float(random.choice([0.2, 0.5, 0.9, 1.0])),
            "top_k": int(random.choice([1, 3, 20, -1])),
            "min_p": float(random.choice([0.0, 0.02, 0.3])),
        }
        info = batch_of(**settings).info
        probabilities = torch.softmax(LOGITS / info.temperatures, dim=-1)
        _, weights, ids, _ = sglangs.top_k_top_p_min_p_sampling_from_probs_torch(
            probabilities, info.top_ks, info.top_ps, info.min_ps, True, None, None, return_filtered_probs=True
        )
        own = torch.zeros_like(weights, dtype=torch.bool).scatter_(1, ids.long(), weights > 0)
        params = settings_of.params_of(SamplingParams(**settings))
        assert np.array_equal(process_logits(LOGITS.numpy(), params) > -np.inf, own.numpy()), settings


def test_sampling_masks_are_sglangs() -> None:
    def masked() -> Batch:
        requests = [new_request(f"request {i}", [1], top_k=4, top_p=0.8, temperature=0.9) for i in range(6)]
        for request in requests[::2]:
            request.return_sampling_mask, request.sampling_logprobs_mode = True, "support"
        return Batch(requests)

    _, own = drawn(masked(), "pytorch", False, None, None, torch.arange(6))
    _, ours = drawn(masked(), "engine_sampler", False, None, None, torch.arange(6))
    one, other = ours.sampling_mask_output, own.sampling_mask_output
    assert one.lengths.tolist() == other.lengths.tolist()
    assert one.statuses.tolist() == other.statuses.tolist() == [0, 0, 0]
    for i, length in enumerate(one.lengths.tolist()):
        assert one.token_ids[i, :length].tolist() == other.token_ids[i, :length].tolist()
        _assert_close(one.support_logprobs[i, :length], other.support_logprobs[i, :length])


class Doubling:
    """Stands for a processor of others: it prefers token 11."""

    def __call__(self, logits: Any, custom_params: Any) -> Any:
        logits[:, 11] = 99.0
        return logits


def test_processors_of_others_come_first(monkeypatch: pytest.MonkeyPatch) -> None:
    from sglang.srt.sampling import sampling_batch_info

    loader = type("Loader", (), {"from_str": staticmethod(lambda _: Doubling())})
    monkeypatch.setattr(sampling_batch_info, "CustomLogitProcessor", loader)
    requests = [new_request(str(i), [1], temperature=0.0) for i in range(6)]
    for request in requests[::2]:
        request.custom_logit_processor = "doubling"
    with runtime_context.get_exec().features.override(enable_custom_logit_processor=True):
        batch = Batch(requests)
    tokens, _ = drawn(batch, "engine_sampler", False, None, None, None)
    own = LOGITS.argmax(1).tolist()
    assert tokens.tolist() == [11, own[1], 11, own[3], 11, own[5]]


# --- the switch -----------------------------------------------------------------------------------


def test_both_names_may_be_chosen_on_the_command_line() -> None:
    import argparse

    from sglang.srt.server_args import ServerArgs

    parser = argparse.ArgumentParser()
    ServerArgs.add_cli_args(parser)
    line = ["--model", "m", "--sampling-backend", "engine_sampler", "--grammar-backend", "engine_sampler"]
    chosen = parser.parse_args(line)
    assert (chosen.sampling_backend, chosen.grammar_backend) == ("engine_sampler", "engine_sampler")


def test_unregistering_restores_the_engine(registered: Any) -> None:
    registered.register()  # a second time
    registered.unregister()
    before = {name: getattr(SamplingBatchInfo, name) for name in places.FOLLOWING}
    verify = SamplingParams.verify
    registered.register()
    assert all(getattr(SamplingBatchInfo, name) is not before[name] for name in before)
    registered.unregister()
    registered.unregister()
    assert all(getattr(SamplingBatchInfo, name) is before[name] for name in before)
    assert SamplingParams.verify is verify
    with pytest.raises(ValueError, match="Unknown sampling backend"):
        new_sampler("engine_sampler")
    assert type(new_sampler("pytorch")) is sglangs.Sampler
    assert "engine_sampler" not in places.choices.GRAMMAR_BACKEND_CHOICES


@pytest.mark.parametrize(
    "custom",
    [{"dry_multiplier": -1.0}, {"temperature": 2.0}, {"seed": 3}, {"regex": "a"}, {"order": "none"}],
    ids=["value", "sglangs", "seed", "grammar", "order"],
)
def test_wrong_custom_params_are_refused_when_the_request_arrives(
    registered: Any, custom: dict[str, Any]
) -> None:
    request = SamplingParams(custom_params=custom)
    with pytest.raises(ValueError, match=next(iter(custom))):
        request.verify(VOCAB)
    SamplingParams(custom_params={"top_n_sigma": 1.0, "others": 3}).verify(VOCAB)
    with runtime_context.get_exec().kernel.override(sampling_backend="pytorch"):
        request.verify(VOCAB)
    registered.unregister()
    request.verify(VOCAB)


def test_an_older_release_is_refused_by_name(registered: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """That keeps the names of backends elsewhere, as 0.5.18 does."""
    registered.unregister()
    monkeypatch.delitem(sys.modules, "engine_sampler_sglang.places")
    monkeypatch.setitem(sys.modules, "sglang.srt.arg_groups.choices", None)
    monkeypatch.delattr(sys.modules["sglang.srt.arg_groups"], "choices")
    refused = "engine-sampler-sglang cannot be used beside SGLang.*choices"
    with pytest.raises(PeerError, match=refused):
        registered.register()
    monkeypatch.undo()


@pytest.mark.parametrize(
    ("module", "name"), [(module, name) for module, names in places.SIGNATURES.items() for name in names]
)
def test_a_changed_signature_fails_by_name(
    registered: Any, module: str, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    registered.unregister()
    outer, _, attribute = name.rpartition(".")
    owner = pkgutil.resolve_name(f"sglang.srt.{module}:{outer}" if outer else f"sglang.srt.{module}")
    monkeypatch.setattr(owner, attribute, lambda other: None)
    with pytest.raises(PeerError, match=re.escape(name)):
        places.put_in()
    monkeypatch.delattr(owner, attribute)
    with pytest.raises(PeerError, match=re.escape(name)):
        places.put_in()
    assert "engine_sampler" not in places.choices.GRAMMAR_BACKEND_CHOICES
