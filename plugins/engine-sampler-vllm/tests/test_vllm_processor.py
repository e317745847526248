"""vLLM: the keys of a request that are ours, and refusals."""

from __future__ import annotations

import doctest
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from engine_sampler_vllm import logits_processor as vllm
from engine_sampler_vllm.logits_processor import EngineSampler, settings_of
from vllm_protocol import Params

from engine_sampler import ParameterError, SamplingParams
from engine_sampler.registry import default_registry

PLUGIN = Path(__file__).resolve().parents[1]
"""Where a process of its own imports the package from."""


def settings(**extra: Any) -> SamplingParams | None:
    return settings_of(Params(extra))


def test_the_example_runs() -> None:
    assert doctest.testmod(vllm).attempted


def test_importing_it_loads_no_torch_where_vllm_is_absent() -> None:
    program = (
        "import sys; sys.modules['vllm'] = None; "
        "from engine_sampler_vllm.logits_processor import EngineSampler; "
        "EngineSampler(None, 'cpu', False); assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", program], cwd=PLUGIN, check=True)


def test_the_wheel_declares_no_processor_to_vllm() -> None:
    declared = (PLUGIN / "pyproject.toml").read_text(encoding="utf-8")
    assert re.findall(r'entry-points."(vllm\..*)"', declared) == ["vllm.general_plugins"]


def test_a_request_without_our_keys_has_no_settings() -> None:
    assert settings_of(Params(None)) is None
    assert settings_of(Params({})) is None
    assert settings(target_token=7, kv_transfer_params={}) is None
    assert settings(dry_multiplier=None) is None


def test_an_idle_chain_counts_as_none() -> None:
    assert settings(dry_base=2.0, xtc_threshold=0.2, top_n_sigma=0.0) is None


def test_the_seed_is_the_requests_own() -> None:
    params = settings_of(Params({"xtc_probability": 0.5}, seed=7))
    assert params is not None
    assert (params.seed, params.xtc_probability) == (7, 0.5)
    negative = settings_of(Params({"xtc_probability": 0.5}, seed=-2))
    assert negative is not None
    assert negative.seed == 2**64 - 2


def test_every_parameter_of_a_sampler_is_ours_or_vllms_own() -> None:
    refused = {"allowed_token_ids", "bad_words", "ignore_eos", "min_tokens", "logit_bias", "grammar_bias"}
    refused |= {"forced_bos_token_id", "forced_eos_token_id"}
    for sampler in default_registry().catalogue.samplers.values():
        for param in sampler.params:
            if param.name in refused:
                with pytest.raises(ParameterError, match=f"{param.name} is not allowed in extra_args"):
                    settings(**{param.name: 1})
            elif param.neutral is not None:
                settings(**{param.name: param.neutral})


@pytest.mark.parametrize(
    ("key", "near"),
    [("dry_multplier", "dry_multiplier"), ("xtc_treshold", "xtc_threshold"), ("tfs_cutt", "tfs_cut"),
     ("repetition_penalty_rnge", "repetition_penalty_range"), ("smoothing_factr", "smoothing_factor")],
)  # fmt: skip
def test_a_misspelt_key_is_refused_with_near_matches(key: str, near: str) -> None:
    with pytest.raises(ValueError, match=f"unknown parameter '{key}'; did you mean .*'{near}'"):
        EngineSampler.validate_params(Params({key: 0.5}))


def test_keys_of_other_processors_are_ignored() -> None:
    EngineSampler.validate_params(Params({"ngram_size": 30, "drying": 1, "topping": "x", "min_length": 3}))


@pytest.mark.parametrize(
    ("key", "value", "reason"),
    [
        ("mirostat", 2, "a selector, but vLLM draws"),
        ("adaptive_target", 0.5, "a selector, but vLLM draws"),
        ("logit_bias", {1: 2.0}, "vLLM has it itself"),
        ("min_tokens", 3, "vLLM has it itself"),
        ("seed", 1, "vLLM has it itself"),
        ("regex", "a*", "structured_outputs"),
        ("grammar_bias", 2.0, "structured_outputs"),
        ("stop_regex", "a*", "ends .* requests itself"),
    ],
)
def test_unsupported_parameters_are_refused_with_a_reason(key: str, value: Any, reason: str) -> None:
    with pytest.raises(ParameterError, match=f"^{key} is not allowed in extra_args: .*{reason}"):
        settings(**{key: value})


def test_values_outside_their_bounds_are_refused() -> None:
    with pytest.raises(ParameterError, match=r"xtc_probability=2 is not allowed: .* at most 1"):
        settings(xtc_probability=2)
    with pytest.raises(ParameterError, match="order names 'topk'"):
        settings(top_a=0.2, order=["topk"])


def test_bools_may_be_given_as_numbers() -> None:
    params = settings(repetition_penalty=1.2, penalize_nl=0)
    assert params is not None
    assert params.penalize_nl is False
    with pytest.raises(ParameterError, match="penalize_nl=2 is not allowed"):
        settings(penalize_nl=2)


@pytest.mark.parametrize(
    ("vllm_settings", "extra"),
    [
        ({"temperature": 0.8}, {"temperature": 0.7}),
        ({"temperature": 0.8}, {"dynatemp_range": 0.2}),
        ({"top_p": 0.9}, {"top_p": 0.8}),
        ({"top_p": 0.9}, {"top_p_cut": "below"}),
        ({"top_k": 40}, {"top_k": 20}),
        ({"min_p": 0.1}, {"min_p": 0.1}),
        ({"repetition_penalty": 1.1}, {"repetition_penalty_range": 64}),
        ({"presence_penalty": 0.5}, {"penalty_last_n": 64}),
    ],
)
def test_nothing_is_applied_twice(vllm_settings: dict[str, Any], extra: dict[str, Any]) -> None:
    (name,) = vllm_settings
    with pytest.raises(ParameterError, match=rf"{name}=.* with {next(iter(extra))} in extra_args"):
        settings_of(Params(extra, **vllm_settings))
    assert settings_of(Params({**extra, "top_a": 0.2})) is not None
    own = settings_of(Params({"top_a": 0.2}, **vllm_settings))
    assert own is not None
    assert own[name] != vllm_settings[name], "vLLM's own parameter stays vLLM's"


def test_different_penalties_may_be_given_on_different_sides() -> None:
    assert settings_of(Params({"repetition_penalty": 1.2}, presence_penalty=0.5)) is not None
    assert settings_of(Params({"temperature": 1.0, "dynatemp_range": 0, "top_a": 0.2}, temperature=0.8))


def test_top_k_of_minus_one_is_off() -> None:
    assert settings_of(Params({"top_k": 20}, top_k=-1)) is not None


def test_it_never_declares_itself_argmax_invariant() -> None:
    assert EngineSampler(None, "cpu", False).is_argmax_invariant() is False


def test_a_request_beyond_the_limits_is_refused_when_it_is_validated() -> None:
    extra = {"dry_multiplier": 0.8, "dry_sequence_breakers": ["x" * 300]}
    with pytest.raises(ParameterError, match=r"dry_sequence_breakers=.* this scheduler's limit is 256"):
        settings(**extra)
