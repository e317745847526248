"""Cases from other systems' own tests, and cases computed with KoboldAI's and koboldcpp's rules."""

import json

import numpy as np
import pytest

from engine_sampler.registry import default_registry
from engine_sampler.testing import apply_sampler
from tests.conftest import shared_data
from tests.reference import kept

SAMPLERS = default_registry().catalogue.samplers

TRANSFORMERS_CASES = {
    "temperature": 2,
    "top_k": 3,
    "top_p": 2,
    "min_p": 2,
    "typical_p": 3,
    "epsilon_cutoff": 2,
    "eta_cutoff": 2,
    "top_h": 4,
}
"""How many cases of transformers there are for each sampler."""

TRANSFORMERS_DIFFERS = {
    "top_k_ties_kept": "all that tie with the k-th token stay there, exactly k here",
    "top_k_min_tokens_to_keep": "min_tokens_to_keep raises k there, min_keep has no effect here",
    "typical_p_uniform": "all that tie with the crossing token stay there, the lower ids here",
    "epsilon_cutoff_0.05_min2": "min_tokens_to_keep counts there, min_keep has no effect here",
    "eta_cutoff_0.1_min2": "min_tokens_to_keep counts there, min_keep has no effect here",
}
"""Cases whose rule is another one by choice, and why."""


def as_floats(rows):
    return np.array([[float(value) for value in row] for row in rows], np.float32)


def transformers_cases(sampler):
    cases = json.loads(shared_data("logits_process_cases.json").read_text())["cases"]
    return [case for case in cases if case["sampler"] == sampler]


def matches_transformers(case):
    params = dict(case["params"])
    removed = params.pop("filter_value", -np.inf)
    if "min_tokens_to_keep" in params:
        params["min_keep"] = params.pop("min_tokens_to_keep")
    result = apply_sampler(SAMPLERS[case["sampler"]], as_floats(case["scores"]), params)
    result[result == -np.inf] = removed
    return np.allclose(result, as_floats(case["output"]), rtol=1e-6)


@pytest.mark.parametrize("sampler", TRANSFORMERS_CASES)
def test_transformers_cases_agree_except_the_listed_ones(sampler):
    cases = transformers_cases(sampler)
    assert len(cases) == TRANSFORMERS_CASES[sampler]
    differing = {case["id"] for case in cases if not matches_transformers(case)}
    assert differing == {name for name in TRANSFORMERS_DIFFERS if name in {case["id"] for case in cases}}


@pytest.mark.parametrize(
    ("kind", "params", "expected", "count"),
    [
        ("top_a", {}, "kept", 48),
        ("tfs", {"tfs_cut": "koboldai"}, "kept_koboldai", 60),
        ("tfs", {"tfs_cut": "llama.cpp"}, "kept_koboldcpp", 60),
        ("typical_p", {}, "kept_koboldai", 60),
        ("typical_p", {}, "kept_hf", 60),
        ("typical_p", {}, "kept_llama_cpp", 60),
    ],
)
def test_koboldai_and_koboldcpp_keep_the_same_tokens(kind, params, expected, count):
    cases = json.loads(shared_data("kobold_cases.json").read_text())["cases"]
    cases = [case for case in cases if case["kind"] == kind]
    assert len(cases) == count
    for case in cases:
        result = apply_sampler(SAMPLERS[kind], case["logits"], {**params, kind: case[kind]})
        assert kept(result) == set(case[expected])


def test_tail_free_sampling_follows_koboldais_worked_example():
    cases = json.loads(shared_data("kobold_cases.json").read_text())["cases"]
    (example,) = [case for case in cases if case["kind"] == "tfs_intermediate"]
    row = np.log(example["probs"])
    padded = np.array(example["padded"])
    for z in (0.2, 0.5, 0.9):
        result = apply_sampler(SAMPLERS["tfs"], row, {"tfs": z, "tfs_cut": "koboldai"})
        assert kept(result) == set(np.flatnonzero(padded <= z).tolist())
