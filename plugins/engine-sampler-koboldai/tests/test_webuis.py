"""Requests to TabbyAPI, text-generation-webui and Aphrodite, read into parameters."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from engine_sampler_koboldai import from_request

from engine_sampler import ParameterError, Tokenizer, process_logits
from engine_sampler.for_bridges import build_chain

ON = {"repetition_penalty": 1.2, "dry_multiplier": 0.8, "temperature": 0.7, "top_k": 20, "top_p": 0.9,
      "min_p": 0.1, "tfs": 0.9, "typical_p": 0.9, "top_a": 0.1, "smoothing_factor": 0.2,
      "xtc_probability": 0.5}  # fmt: skip
"""Samplers that all three have."""

TABBY, WEBUI, APHRODITE = "tabbyapi", "text-generation-webui", "aphrodite"
PLAIN = from_request({}, system=WEBUI).order


def chain(system: str, **body: Any) -> tuple[str, ...]:
    return tuple(
        name for name in build_chain(from_request({**ON, **body}, system=system)).key if name != "dist"
    )


def test_tabbyapi_truncates_after_the_temperature_or_before() -> None:
    cuts = ("top_k", "top_p", "top_a", "min_p", "tfs", "typical_p")
    assert chain(TABBY) == ("penalties", "dry", "temperature", "smoothing", *cuts, "xtc")
    assert chain(TABBY, temperature_last=True) == (
        "penalties",
        "dry",
        *cuts,
        "temperature",
        "smoothing",
        "xtc",
    )


def test_aphrodites_temperature_comes_early_or_at_the_end() -> None:
    cuts = ("top_k", "top_p", "top_a", "min_p", "tfs", "typical_p", "smoothing", "xtc")
    assert chain(APHRODITE) == ("dry", "penalties", "temperature", *cuts)
    assert chain(APHRODITE, temperature_last=True) == ("dry", "penalties", *cuts, "temperature")


def test_text_generation_webui_runs_its_samplers_by_priority() -> None:
    cuts = ("top_k", "top_p", "typical_p", "tfs", "top_a", "min_p", "xtc")
    assert chain(WEBUI) == ("penalties", "dry", "temperature", "smoothing", *cuts)
    assert chain(WEBUI, temperature_last=True) == ("penalties", "dry", *cuts, "temperature", "smoothing")
    first = chain(WEBUI, sampler_priority=["min_p", "xtc"])
    assert first[-2:] == ("min_p", "xtc")
    assert first[:2] == ("penalties", "dry")
    assert chain(WEBUI, sampler_priority="min_p\nxtc, top_k")[-3:] == ("min_p", "xtc", "top_k")


def test_dynamic_temperature_has_its_own_place_in_the_priority() -> None:
    body = {"sampler_priority": ["temperature", "top_k", "dynamic_temperature", "top_p"],
            "dynatemp_low": 0.5, "dynatemp_high": 1.5}  # fmt: skip
    assert chain(WEBUI, **body)[-3:] == ("temperature", "top_k", "top_p")
    assert chain(WEBUI, **body, dynamic_temperature=True)[-3:] == ("top_k", "temperature", "top_p")


@pytest.mark.parametrize(
    ("system", "body", "expected"),
    [
        (TABBY, {"min_temp": 0.5, "max_temp": 1.5}, {"temperature": 1, "dynatemp_range": 0.5}),
        (TABBY, {"dynatemp_low": 0.5, "temp_exponent": 2}, {"temperature": 0.75, "dynatemp_exponent": 2}),
        (TABBY, {"dynamic_temperature": False, "max_temp": 2}, {"temperature": 1, "dynatemp_range": 0}),
        (WEBUI, {"dynatemp_low": 0, "dynatemp_high": 2}, {"temperature": 1, "dynatemp_range": 0}),
        (WEBUI, {"dynamic_temperature": True, "dynatemp_high": 2}, {"temperature": 1.5}),
        (APHRODITE, {"dynatemp_max": 2}, {"temperature": 1, "dynatemp_range": 1}),
        (APHRODITE, {"dynatemp_min": 2, "dynatemp_max": 2}, {"temperature": 2, "dynatemp_range": 0}),
        (TABBY, {"min_temp": 2, "max_temp": 2, "temperature": 0.5}, {"temperature": 0.5}),
        (WEBUI, {"do_sample": False, "temperature": 2}, {"temperature": 0}),
        (TABBY, {"temperature": 0, "xtc_probability": 1}, {"temperature": 0, "xtc_probability": 0}),
        (TABBY, {"penalty_range": -5}, {"penalty_last_n": -1, "penalty_scope": "all"}),
        (TABBY, {"rep_pen_range": 0, "dry_range": 0}, {"penalty_last_n": 0, "dry_penalty_last_n": -1}),
        (WEBUI, {}, {"penalty_last_n": 1024, "dry_penalty_last_n": 1024, "top_p": 0.95, "max_tokens": 512}),
        (WEBUI, {"repetition_penalty_range": 0}, {"penalty_last_n": -1, "dry_penalty_last_n": -1}),
        (WEBUI, {"epsilon_cutoff": 3, "eta_cutoff": 20}, {"epsilon_cutoff": 3e-4, "eta_cutoff": 2e-3}),
        (WEBUI, {"epsilon_cutoff": 0}, {"epsilon_cutoff": 0}),
        (APHRODITE, {"epsilon_cutoff": 0.25}, {"epsilon_cutoff": 0.25, "max_tokens": 16}),
        (TABBY, {"mirostat_mode": 2}, {"mirostat": 2, "mirostat_tau": 1.5, "mirostat_eta": 0.3}),
        (WEBUI, {"mirostat_mode": 1}, {"mirostat": 0}),
        (TABBY, {"adaptive_target": 1.0}, {"adaptive_target": -1}),
        (WEBUI, {"adaptive_target": 0}, {"adaptive_target": -1}),
        (WEBUI, {"adaptive_target": 0.3}, {"adaptive_target": 0.3}),
        (TABBY, {"custom_token_bans": "2, 3"}, {"logit_bias": ((2, -math.inf), (3, -math.inf))}),
        (TABBY, {"banned_tokens": [2], "logit_bias": {"4": 1}}, {"logit_bias": ((2, -math.inf), (4, 1))}),
        (TABBY, {"allowed_tokens": "1,2"}, {"allowed_token_ids": (1, 2)}),
        (TABBY, {"allowed_tokens": []}, {"allowed_token_ids": None}),
        (TABBY, {"stop": ["a", 7, ""]}, {"stop": ("a",), "stop_token_ids": (7,)}),
        (TABBY, {"max_tokens": 0, "logprobs": 0}, {"max_tokens": None, "logprobs": None}),
        (TABBY, {"json_schema": {}, "regex_pattern": ""}, {"json_schema": None, "regex": None}),
        (TABBY, {"regex_pattern": "[ab]", "max_length": 5}, {"regex": "[ab]", "max_tokens": 5}),
        (TABBY, {"response_format": {"type": "json_object"}}, {"json_object": True}),
        (WEBUI, {"dry_sequence_breakers": '"a", "b"'}, {"dry_sequence_breakers": ("a", "b")}),
        (WEBUI, {"typical": 0.5, "nsigma": 1}, {"typical_p": 0.5, "top_n_sigma": 1}),
        (WEBUI, {"min_length": 3, "max_new_tokens": 9}, {"min_tokens": 3, "max_tokens": 9}),
        (APHRODITE, {"guided_choice": ["a", "b"], "dry_sequence_breaker_ids": [3]}, {"choice": ("a", "b")}),
        (WEBUI, {"order": "vllm"}, {"order": "vllm"}),
        (TABBY, {"negative_prompt": "a", "guidance_scale": 1}, {"dry_multiplier": 0}),
        (TABBY, {"cfg_scale": 1.0, "generate_window": 512, "dry_base": 0.0}, {"dry_multiplier": 0}),
        (WEBUI, {"mode": "chat", "character": "Ada", "name1": "You", "continue_": True}, {"order": PLAIN}),
    ],
)  # fmt: skip
def test_a_value_means_what_it_means_there(
    system: str, body: dict[str, Any], expected: dict[str, Any]
) -> None:
    params = from_request(body, system=system)
    assert {name: params[name] for name in expected} == expected


def test_random_chains_give_the_logits_that_text_generation_webui_gives() -> None:
    """The cases are what its warpers, and transformers' beside them, gave for random bodies, in float32."""
    cases = json.loads(Path(__file__).with_name("webui_cases.json").read_text(encoding="utf-8"))
    assert len(cases) == 80
    for case in cases:
        params = from_request(case["body"], system=WEBUI)
        logits = np.array([case["logits"]], np.float32)
        result = process_logits(logits, params, prompt_token_ids=[case["prompt"]])[0]
        expected = np.array([-np.inf if value is None else value for value in case["expected"]])
        assert (result > -np.inf).tolist() == (expected > -np.inf).tolist(), case["body"]
        if np.isfinite(expected).sum() > 1:  # a token that is alone keeps its logit here
            np.testing.assert_allclose(result, expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({}, (0, 2048, 20)),
        ({"enable_deepconf": False, "deepconf_threshold": 5}, (0, 2048, 20)),
        ({"enable_deepconf": True}, (17, 2048, 20)),
        ({"enable_deepconf": True, "logprobs": 0}, (17, 2048, 20)),
        ({"enable_deepconf": True, "logprobs": 5, "deepconf_window_size": 50, "deepconf_threshold": 10},
         (10, 50, 5)),
    ],
)  # fmt: skip
def test_aphrodites_switch_turns_deepconf_on(body: dict[str, Any], expected: tuple[float, int, int]) -> None:
    params = from_request(body, system=APHRODITE)
    assert (params.deepconf_threshold, params.deepconf_window_size, params.deepconf_top_k) == expected


def test_mirostat_turns_all_else_off_in_aphrodite_alone() -> None:
    assert chain(APHRODITE, mirostat_mode=2) == ("mirostat_v2",)
    assert chain(TABBY, mirostat_mode=2) == ("penalties", "dry", "temperature", "mirostat_v2")


def test_fading_penalties_are_read() -> None:
    assert from_request({"repetition_decay": 0}, system=TABBY) == from_request({}, system=TABBY)
    params: Any = from_request({"repetition_decay": 9}, system=TABBY)
    assert params.penalty_decay_range == 9


def test_samplers_and_criteria_of_these_servers_are_used() -> None:
    tokenizer = Tokenizer([b"</s>", b"a", b"\n", b".\n", b"b"], [0])
    params: Any = from_request({"xtc_probability": 0.5}, tokenizer, system=TABBY)
    assert params.xtc_protected_ids == (0, 2, 3)
    assert (params.loop_detect_window, params.loop_detect_min_reps) == (800, 2)
    assert params.order.index("skew") > params.order.index("xtc")


@pytest.mark.parametrize(
    ("system", "body", "message"),
    [
        (TABBY, {"typical": "x"}, "typical='x' is not allowed: a finite number"),
        (TABBY, {"penalty_range": 1.5}, "penalty_range=1.5 is not allowed"),
        (TABBY, {"custom_token_bans": "a"}, "custom_token_bans names 'a'"),
        (TABBY, {"banned_strings": [5]}, r"banned_strings=\[5\] is not allowed: a text, or a list of texts"),
        (TABBY, {"sampler_priority": ["top_k"]}, "sampler_priority=.* is not supported: order places"),
        (WEBUI, {"sampler_priority": ["top_k", "topp"]}, "sampler_priority=.* is not allowed: a list"),
        (WEBUI, {"dynamic_temperature": True, "dynatemp_low": 2}, "dynatemp_low=2.0 is not allowed: at most"),
        (WEBUI, {"temperature_last": "yes"}, "temperature_last='yes' is not allowed: true or false"),
        (WEBUI, {"guidance_scale": 1.5}, "guidance_scale=1.5 is not supported: guidance compares"),
        (WEBUI, {"preset": "Yara"}, "preset='Yara' is not supported: presets are the server's"),
        (APHRODITE, {"nsigma": -math.inf}, "nsigma=-inf is not allowed"),
    ],
)  # fmt: skip
def test_what_is_refused_is_named_as_it_was_sent(system: str, body: dict[str, Any], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        from_request(body, system=system)
