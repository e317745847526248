"""Requests to KoboldAI's API, read into parameters, and their effect on a row."""

from __future__ import annotations

import copy
import doctest
import json
import math
from typing import Any

import engine_sampler_koboldai
import numpy as np
import pytest
from engine_sampler_koboldai import from_request, requests
from engine_sampler_koboldai.koboldai import FIELDS, RENAMED, SPECIAL, TRANSPORT

from engine_sampler import ParameterError, SamplingParams, Tokenizer, process_logits
from engine_sampler.for_bridges import build_chain
from tests.conftest import shared_data
from tests.reference import kept

CLIENT: dict[str, Any] = {
    "prompt": "Hello",
    "n": 1,
    "max_context_length": 2048,
    "max_length": 80,
    "rep_pen": 1.1,
    "rep_pen_range": 1024,
    "rep_pen_slope": 0.7,
    "temperature": 0.5,
    "tfs": 0.95,
    "top_a": 0.1,
    "top_k": 0,
    "top_p": 0.9,
    "typical": 0.98,
    "sampler_order": [6, 0, 1, 2, 3, 4, 5],
    "sampler_seed": 77,
    "sampler_full_determinism": True,
    "singleline": False,
    "frmttriminc": False,
    "frmtrmblln": False,
    "use_story": False,
    "use_default_badwordsids": False,
    "stop_sequence": ["\nYou:"],
    "quiet": True,
}

LITE: dict[str, Any] = {
    "prompt": "Hello",
    "n": 1,
    "max_context_length": 8192,
    "max_length": 240,
    "rep_pen": 1.07,
    "temperature": 0.75,
    "top_p": 0.92,
    "top_k": 100,
    "top_a": 0,
    "typical": 1,
    "tfs": 1,
    "rep_pen_range": 360,
    "rep_pen_slope": 1,
    "sampler_order": [6, 0, 1, 3, 4, 2, 5],
    "memory": "",
    "trim_stop": True,
    "genkey": "KCPP1234",
    "min_p": 0.05,
    "dynatemp_range": 0,
    "dynatemp_exponent": 1,
    "smoothing_factor": 0.2,
    "nsigma": 0,
    "banned_tokens": [],
    "render_special": False,
    "logprobs": False,
    "presence_penalty": 0.1,
    "logit_bias": {},
    "xtc_probability": 0.5,
    "dry_multiplier": 0.8,
    "dry_base": 1.75,
    "dry_allowed_length": 2,
    "dry_sequence_breakers": ["\n", ":"],
    "quiet": True,
    "stop_sequence": ["\n### Instruction:"],
    "use_default_badwordsids": False,
    "bypass_eos": False,
}


def cpp(**body: Any) -> SamplingParams:
    return from_request(body, system="koboldcpp")


def row_after(
    body: dict[str, Any], logits: Any, prompt: list[int] | None = None, **kwargs: Any
) -> np.ndarray:
    """A row after the chain of a request."""
    row = np.array([logits], np.float32)
    return process_logits(row, from_request(body, **kwargs), prompt_token_ids=[prompt or []])[0]


def cases(kind: str) -> list[dict[str, Any]]:
    all_cases = json.loads(shared_data("kobold_cases.json").read_text())["cases"]
    return [case for case in all_cases if case["kind"] == kind]


# --- cases computed with KoboldAI's and koboldcpp's rules -----------------------------------------


@pytest.mark.parametrize(
    ("kind", "key", "system", "expected", "count"),
    [
        ("top_a", "top_a", "koboldai", "kept", 48),
        ("tfs", "tfs", "koboldai", "kept_koboldai", 60),
        ("tfs", "tfs", "koboldcpp", "kept_koboldcpp", 60),
        ("typical_p", "typical", "koboldai", "kept_koboldai", 60),
        ("typical_p", "typical", "koboldcpp", "kept_llama_cpp", 60),
    ],
)
def test_a_request_keeps_the_tokens_that_its_system_keeps(
    kind: str, key: str, system: str, expected: str, count: int
) -> None:
    selected = cases(kind)
    assert len(selected) == count
    for case in selected:
        body = {key: case[kind], "top_k": 0, "top_p": 1, "temperature": 1}
        assert kept(row_after(body, case["logits"], system=system)) == set(case[expected])


def test_repetition_penalties_match_koboldais() -> None:
    selected = cases("rep_pen")
    assert len(selected) == 32
    for case in selected:
        body = {key: case[key] for key in ("rep_pen", "rep_pen_range", "rep_pen_slope")}
        result = row_after(body, case["logits"], case["token_ids"])
        np.testing.assert_allclose(result, case["expect"], rtol=1e-5)


def test_slopes_match_koboldais() -> None:
    selected = cases("rep_pen_slope_curve")
    assert len(selected) == 6
    for case in selected:
        body = {key: case[key] for key in ("rep_pen", "rep_pen_range", "rep_pen_slope")}
        window = case["rep_pen_range"]
        result = row_after(body, -np.ones(window), list(range(window)))
        np.testing.assert_allclose(-result, case["penalty_oldest_to_newest"], rtol=1e-5)


def test_top_p_drops_the_token_that_crosses_the_threshold_in_koboldai_only() -> None:
    logits = [3.0, 2.0, 1.0, 0.0]
    assert kept(row_after({"top_p": 0.8}, logits)) == {0}
    assert kept(row_after({"top_p": 0.8, "temperature": 1}, logits, system="koboldcpp")) == {0, 1}


# --- whole bodies --------------------------------------------------------------------------------


def test_an_empty_request_changes_nothing_in_koboldai() -> None:
    assert build_chain(from_request({})).key == ("dist",)
    assert from_request({}).order == "koboldai"


def test_koboldais_body_becomes_parameters() -> None:
    assert from_request(CLIENT) == SamplingParams(
        max_tokens=80,
        repetition_penalty=1.1,
        penalty_last_n=1024,
        penalty_scope="all",
        repetition_penalty_slope=0.7,
        temperature=0.5,
        tfs=0.95,
        top_a=0.1,
        top_p=0.9,
        typical_p=0.98,
        seed=77,
        stop=["\nYou:"],
        include_stop_str_in_output=True,
        order=[6, 0, 1, 2, 3, 4, 5],
        dry_penalty_last_n=320,
        dry_sequence_breakers=(),
        xtc_threshold=0.2,
    )
    assert build_chain(from_request(CLIENT)).key == (
        "penalties", "top_a", "top_p", "tfs", "typical_p", "temperature", "dist",
    )  # fmt: skip


def test_koboldcpps_body_becomes_parameters() -> None:
    params = from_request(LITE, system="koboldcpp")
    assert build_chain(params).key == (
        "dry", "penalties", "top_k", "top_p", "min_p", "temperature", "smoothing", "xtc", "dist",
    )  # fmt: skip
    assert (
        params.given.items()
        >= {
            "penalty_last_n": 360,
            "penalty_scope": "all",
            "repetition_penalty": 1.07,
            "presence_penalty": 0.1,
            "xtc_threshold": 0.2,
            "stop": ("\n### Instruction:",),
        }.items()
    )
    assert not params.include_stop_str_in_output
    assert (params.top_p_cut, params.tfs_cut) == ("reach", "llama.cpp")


def test_an_empty_request_has_koboldcpps_defaults() -> None:
    params = cpp()
    assert (params.temperature, params.top_k, params.top_p) == (0.75, 100, 0.92)
    assert build_chain(params).key == ("top_k", "top_p", "temperature", "dist")


@pytest.mark.parametrize("system", ["koboldai", "koboldcpp"])
def test_null_means_the_default_and_transport_keys_are_left_out(system: str) -> None:
    nulls = dict.fromkeys([*FIELDS, *RENAMED, *SPECIAL])
    assert from_request(nulls, system=system) == from_request({}, system=system)
    assert from_request(dict.fromkeys(TRANSPORT, "x"), system=system) == from_request({}, system=system)
    assert not TRANSPORT & {*SamplingParams(), *FIELDS, *RENAMED, *SPECIAL}


def test_the_body_itself_is_not_changed() -> None:
    before = copy.deepcopy((CLIENT, LITE))
    from_request(CLIENT)
    from_request(LITE, system="koboldcpp")
    assert before == (CLIENT, LITE)


def test_the_examples_of_the_docstrings_hold() -> None:
    for module in (engine_sampler_koboldai, requests):
        assert doctest.testmod(module).attempted


# --- single keys ---------------------------------------------------------------------------------

REMOVED_2_3 = ((2, -math.inf), (3, -math.inf))
TOKENIZER = Tokenizer([b"</s>", b"a", b"[", b" ]x", b"b"], [0])


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"rep_pen_range": 0}, {"penalty_last_n": -1}),
        ({"rep_pen_range": 5}, {"penalty_last_n": 5}),
        ({"repetition_penalty": 1.5}, {"repetition_penalty": 1.5}),
        ({"temperature": 0}, {"temperature": 0.0}),
        ({"min_p": -1}, {"min_p": 0.0}),
        ({"mirostat": 3}, {"mirostat": 0}),
        ({"mirostat_mode": 2}, {"mirostat": 2}),
        ({"nsigma": 1}, {"top_n_sigma": 1.0}),
        ({"dry_penalty_last_n": 0}, {"dry_penalty_last_n": -1}),
        ({"dry_sequence_breakers": '["x"]'}, {"dry_sequence_breakers": ("x",)}),
        ({"adaptive_target": 0}, {"adaptive_target": -1.0}),
        ({"adaptive_decay": 2}, {"adaptive_decay": 0.99}),
        ({"sampler_seed": 0}, {"seed": 0}),
        ({"ban_eos_token": True}, {"ignore_eos": True}),
        ({"use_default_badwordsids": True}, {"ignore_eos": True, "logit_bias": REMOVED_2_3}),
        ({"use_default_badwordsids": True, "ban_eos_token": False}, {"ignore_eos": False}),
        ({"badwordsids": [[4, 1], [1]]}, {"bad_words": ((4, 1), (1,))}),
        ({"banned_strings": ["ab"]}, {"bad_words": ("ab",)}),
        ({"banned_strings": [], "banned_tokens": ["ab"]}, {"bad_words": ("ab",)}),
        ({"banned_strings": ["c"], "banned_tokens": ["ab"]}, {"bad_words": ("ab", "c")}),
        ({"custom_token_bans": "1, 3,"}, {"logit_bias": ((1, -math.inf), (3, -math.inf))}),
        ({"logit_bias": {"1": 2}, "custom_token_bans": "1"}, {"logit_bias": ((1, -math.inf),)}),
        ({"stop_sequence": ["x", ""]}, {"stop": ("x",), "include_stop_str_in_output": True}),
        ({"stop_sequence": ["x"], "trim_stop": True}, {"stop": ("x",), "include_stop_str_in_output": False}),
        ({"singleline": True}, {"stop": ("\n",), "include_stop_str_in_output": False}),
        ({"singleline": True, "stop_sequence": ["x"], "trim_stop": True}, {"stop": ("x", "\n")}),
        ({"render_special": True}, {"skip_special_tokens": False}),
        ({"grammar": ""}, {"grammar": None}),
        (
            {"json_schema": "", "regex": "", "choice": []},
            {"json_schema": None, "regex": None, "choice": None},
        ),
        ({"grammar": '{"type": "object"}'}, {"json_schema": '{"type": "object"}'}),
        ({"logprobs": True}, {"logprobs": 5}),
        ({"logprobs": 3}, {"logprobs": 3}),
        ({"top_h": 0.4, "epsilon_cutoff": 0.1}, {"top_h": 0.4, "epsilon_cutoff": 0.1}),
    ],
)
def test_a_value_is_read_as_koboldai_reads_it(body: dict[str, Any], expected: dict[str, Any]) -> None:
    params = from_request(body, TOKENIZER)
    assert {name: params[name] for name in expected} == expected


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ({"rep_pen_range": 0}, {"penalty_last_n": 1}),
        ({"rep_pen_slope": 0.7}, {"repetition_penalty_slope": 0.0}),
        ({"rep_pen_slope": 3, "rep_pen": 1.2}, {"repetition_penalty_slope": 0.0}),
        ({"sampler_seed": 0}, {"seed": None}),
        ({"use_default_badwordsids": True}, {"ignore_eos": True, "bad_words": ()}),
        ({"temperature": -1}, {"temperature": 0.0}),
        ({"mirostat": 2, "dynatemp_range": 0.3}, {"mirostat": 2, "dynatemp_range": 0.0, "temperature": 0.75}),
        ({"temperature": 0, "dynatemp_range": 0.5}, {"temperature": 0.25, "dynatemp_range": 0.25}),
        ({"temperature": -1, "dynatemp_range": 0}, {"temperature": 0.0, "dynatemp_range": 0.0}),
        ({"custom_token_bans": [2, 3]}, {"logit_bias": REMOVED_2_3}),
        ({"max_new_tokens": 7, "stopping_strings": ["x"]}, {"max_tokens": 7, "stop": ("x",)}),
        ({"repetition_penalty_range": 9}, {"penalty_last_n": 9, "repetition_penalty_range": None}),
        ({"stop_sequence": ["x"]}, {"include_stop_str_in_output": False}),
        (
            {"banned_tokens": ["AB", ""], "banned_strings": ["c"]},
            {"banned_strings": ("AB", "c"), "bad_words": ()},
        ),
    ],
)
def test_a_value_is_read_as_koboldcpp_reads_it(body: dict[str, Any], expected: dict[str, Any]) -> None:
    params = from_request(body, system="koboldcpp")
    assert {name: params[name] for name in expected} == expected


@pytest.mark.parametrize(
    ("body", "system", "message"),
    [
        ({"rep_penn": 1}, "koboldai", "unknown parameter 'rep_penn'; did you mean 'rep_pen'"),
        ({"rep_pen": 0}, "koboldai", "rep_pen=0 is not allowed: at least 1"),
        ({"top_p": 1.5}, "koboldai", "top_p=1.5 is not allowed: 0 to 1"),
        ({"top_k": -1}, "koboldai", "top_k=-1 is not allowed: at least 0"),
        ({"json_schema": "{"}, "koboldcpp", "json_schema='{' is not JSON"),
        (
            {"rep_pen": 1.1, "repeat_penalty": 1.2},
            "koboldai",
            "repeat_penalty=1.2 is not allowed: rep_pen says",
        ),
        ({"temperature": -1}, "koboldai", "temperature=-1 is not allowed: a finite number of at least 0"),
        ({"logit_bias": {"-1": 2}}, "koboldai", "logit_bias=.* is not allowed"),
        ({"typical": "x"}, "koboldai", "typical='x' is not allowed: a finite number"),
        ({"max_length": 0}, "koboldai", "max_length=0 is not allowed"),
        (
            {"sampler_order": [0, 1, 2]},
            "koboldai",
            r"sampler_order=\[0, 1, 2\] is not allowed: each of 0 to 6",
        ),
        ({"sampler_order": [6, 0, 1, 2, 3, 4, 7]}, "koboldai", "sampler_order=.* is not allowed"),
        ({"sampler_order": "6"}, "koboldai", "sampler_order='6' is not allowed: a list of sampler ids"),
        (
            {"sampler_order": [6, 6]},
            "koboldcpp",
            "sampler_order=.* is not allowed: ids 0 to 6, each at most once",
        ),
        ({"sampler_order": [7]}, "koboldcpp", "sampler_order=.* is not allowed: ids 0 to 6"),
        (
            {"rep_pen": 1.1, "rep_pen_slope": 0.7},
            "koboldcpp",
            "rep_pen_slope=0.7 is not supported for koboldcpp",
        ),
        (
            {"mirostat": 1, "smoothing_factor": 0.3},
            "koboldcpp",
            "smoothing_factor=0.3 is not allowed with mirostat",
        ),
        (
            {"bypass_eos": True},
            "koboldcpp",
            "bypass_eos=True is not supported: EOS .*; it may be False or left out",
        ),
        ({"guidance_scale": 2}, "koboldcpp", "guidance_scale=2 is not supported"),
        ({"frmttriminc": True}, "koboldai", "frmttriminc=True is not supported"),
        (
            {"singleline": True, "stop_sequence": ["x"]},
            "koboldai",
            "singleline=True is not allowed with stop",
        ),
        ({"use_default_badwordsids": True}, "koboldai", "use_default_badwordsids=True .* needs a tokenizer"),
        ({"custom_token_bans": "a"}, "koboldcpp", "custom_token_bans names 'a'"),
        (
            {"dry_sequence_breakers": "x"},
            "koboldcpp",
            "dry_sequence_breakers='x' is not allowed: a list of texts, or",
        ),
        ({"bad_words": "x"}, "koboldai", "bad_words='x' is not allowed: a list"),
        ({"mirostat": "x"}, "koboldcpp", "mirostat='x' is not allowed"),
        ({"order": "vllm"}, "koboldai", "^order='vllm' is not allowed"),
        ({"typical_p": "x"}, "koboldcpp", "^typical_p='x' is not allowed: a finite number"),
        ({"banned_tokens": "x"}, "koboldcpp", "banned_tokens='x' is not allowed: a list"),
        ({"grammar": "{"}, "koboldcpp", "grammar='{' is not allowed: JSON"),
        ({}, "kobold", "system='kobold' is not allowed: one of 'koboldai', 'koboldcpp', 'tabbyapi'"),
    ],
)
def test_unreadable_values_are_refused_by_name(body: dict[str, Any], system: str, message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        from_request(body, system=system)


# --- orders --------------------------------------------------------------------------------------

ON = {"rep_pen": 1.2, "top_k": 20, "top_a": 0.1, "top_p": 0.9, "tfs": 0.9, "typical": 0.9, "temperature": 0.7}


def test_the_ids_give_koboldais_order() -> None:
    order = [6, 5, 4, 3, 2, 1, 0]
    assert build_chain(from_request({**ON, "sampler_order": order})).key == (
        "penalties", "temperature", "typical_p", "tfs", "top_p", "top_a", "top_k", "dist",
    )  # fmt: skip


def test_six_ids_put_the_penalties_first_in_koboldai() -> None:
    short, long = [5, 0, 1, 2, 3, 4], [6, 5, 0, 1, 2, 3, 4]
    by_short = build_chain(from_request({**ON, "sampler_order": short})).key
    assert by_short == build_chain(from_request({**ON, "sampler_order": long})).key
    assert by_short[0] == "penalties"


def test_koboldcpp_runs_only_the_listed_ids() -> None:
    params = cpp(**ON, sampler_order=[5, 2], min_p=0.1, smoothing_factor=0.3, nsigma=1, xtc_probability=1)
    assert build_chain(params).key == (
        "temperature",
        "smoothing",
        "top_n_sigma",
        "top_p",
        "min_p",
        "xtc",
        "dist",
    )
    assert build_chain(cpp(**ON, sampler_order=[])).key == ("dist",)


def test_special_tokens_with_brackets_are_banned_by_default_but_not_eos() -> None:
    tokenizer = Tokenizer(
        [b"[EOS]", b"a", b"[PAD]", b"x]", b"<s>"], eos_token_ids=[0], special_token_ids=[2, 4]
    )
    params = from_request({"use_default_badwordsids": True, "ban_eos_token": False}, tokenizer)
    assert params.logit_bias == REMOVED_2_3
