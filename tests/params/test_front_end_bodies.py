"""The default bodies of SillyTavern for its backends, with the stop string of a chat: each is read without
a switch, and is the chain that its backend runs.

`front_end_bodies.json` has what its server sends on: 61 keys for koboldcpp, 65 for llama.cpp, 64 for
TabbyAPI, 71 for text-generation-webui, 56 for Aphrodite, 17 for vLLM, 20 for KoboldAI, and 15 options for
Ollama.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import engine_sampler_koboldai as koboldai
import engine_sampler_llama_cpp as llama_cpp
import pytest

from engine_sampler import ParameterError, SamplingParams
from engine_sampler.for_bridges import build_chain

BODIES = json.loads(Path(__file__).with_name("front_end_bodies.json").read_text(encoding="utf-8"))

PLAIN = {"temperature": 0.7, "top_k": 40, "top_p": 0.5, "max_tokens": 200, "stop": ("\nYou:",)}
PENALTY = {**PLAIN, "repetition_penalty": 1.2}

EXPECTED: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "koboldcpp": (
        {**PENALTY, "penalty_last_n": 1, "top_p_cut": "reach", "include_stop_str_in_output": False},
        ("penalties", "top_k", "top_p", "temperature", "dist"),
    ),
    "llama.cpp": (
        {**PENALTY, "penalty_last_n": 0, "dry_penalty_last_n": 0},
        ("top_k", "top_p", "temperature", "dist"),
    ),
    "tabbyapi": (
        {**PENALTY, "penalty_last_n": 0, "top_p_cut": "below", "adaptive_target": -1},
        ("top_k", "top_p", "temperature", "dist"),
    ),
    "text-generation-webui": (
        {**PENALTY, "penalty_last_n": -1, "penalty_scope": "all", "top_p_cut": "reach"},
        ("penalties", "top_k", "top_p", "temperature", "dist"),
    ),
    "vllm": (
        {**PENALTY, "penalty_scope": "default"},
        ("penalties", "temperature", "top_k", "top_p", "dist"),
    ),
    "aphrodite": (
        {**PENALTY, "penalty_scope": "default"},
        ("penalties", "top_k", "top_p", "temperature", "dist"),
    ),
    "ollama": ({**PENALTY, "penalty_last_n": 0}, ("top_k", "top_p", "temperature", "dist")),
    "koboldai": ({"top_a": 1, "max_tokens": 200, "include_stop_str_in_output": True}, ("top_a", "dist")),
}
"""What the parameters are, and the chain."""


def read(system: str, body: Any) -> SamplingParams:
    if system == "vllm":
        return SamplingParams.from_dict(body)
    if system in ("llama.cpp", "ollama"):
        return llama_cpp.from_request(body.get("options", body))
    return koboldai.from_request(body, system=system)


@pytest.mark.parametrize("system", EXPECTED)
def test_the_default_body_is_the_chain_of_its_backend(system: str) -> None:
    expected, chain = EXPECTED[system]
    params = read(system, BODIES[system])
    assert {name: params[name] for name in expected} == expected
    assert build_chain(params).key == chain


@pytest.mark.parametrize("system", EXPECTED)
def test_a_body_of_a_front_end_with_a_misspelt_key_is_still_refused(system: str) -> None:
    with pytest.raises(ParameterError, match="unknown parameter 'top_pp'; did you mean 'top_p'"):
        read(system, {**BODIES[system].get("options", BODIES[system]), "top_pp": 0.5})


def test_two_names_of_one_parameter_have_to_agree() -> None:
    for system in ("koboldcpp", "llama.cpp", "tabbyapi", "text-generation-webui"):
        with pytest.raises(ParameterError, match=r"=300 is not allowed: \w+ says 200"):
            read(system, {**BODIES[system], "num_predict": 300})
