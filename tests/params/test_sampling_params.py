from __future__ import annotations

import copy
import inspect
import json
import math
import pickle
import pydoc
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from engine_sampler.contract import ParameterError
from engine_sampler.params import SamplingParams, build_chain
from engine_sampler.registry import default_registry
from engine_sampler.registry.core_params import LOGPROBS_MODES

INF, NAN = math.inf, math.nan
FLOATS = [INF, -INF, NAN, "1", True]
"""Refused by every parameter that is a number with a fraction."""

TABLE: dict[str, tuple[Any, list[Any], list[Any]]] = {
    # name: (neutral value, allowed values, other values)
    "temperature": (1.0, [0, 1e-5, 0.7, 1e6], [-0.1, 1.1e6, *FLOATS]),
    "dynatemp_range": (0.0, [0, 0.5], [-0.1, *FLOATS]),
    "dynatemp_exponent": (1.0, [-1, 0, 2.5], FLOATS),
    "smoothing_factor": (0.0, [0, 0.3], [-0.1, *FLOATS]),
    "smoothing_curve": (1.0, [1, 1.5], FLOATS),
    "top_k": (0, [-1, 0, 1, 40, 2**31 - 1, 40.0], [-2, 2**31, 1.5, "5", True, NAN, INF]),
    "top_p": (1.0, [0, 0.95, 1], [-0.01, 1.01, *FLOATS]),
    "typical_p": (1.0, [0, 0.95, 1], [-0.01, 1.01, *FLOATS]),
    "tfs": (1.0, [0, 0.95, 1], [-0.01, 1.01, *FLOATS]),
    "min_p": (0.0, [0, 0.05, 1], [-0.01, 1.01, *FLOATS]),
    "top_a": (0.0, [0, 0.2, 2], [-0.01, *FLOATS]),
    "top_n_sigma": (0.0, [-1, 0, 1.5], FLOATS),
    "epsilon_cutoff": (0.0, [0, 3e-4], [-1e-4, *FLOATS]),
    "eta_cutoff": (0.0, [0, 3e-4], [-1e-4, *FLOATS]),
    "top_h": (0.0, [0, 0.4], [-0.1, *FLOATS]),
    "xtc_probability": (0.0, [0, 0.5, 1], [-0.1, 1.1, *FLOATS]),
    "xtc_threshold": (0.1, [0, 0.1, 0.5], [-0.1, 1.1, *FLOATS]),
    "min_keep": (0, [0, 1, 100], [-1, 0.5, 2**31, "1", True]),
    "repetition_penalty": (1.0, [0.5, 1, 1.3], [0, -1, *FLOATS]),
    "repetition_penalty_range": (None, [None, -1, 0, 64], [-2, 0.5, True]),
    "repetition_penalty_slope": (0.0, [0, 0.7], FLOATS),
    "frequency_penalty": (0.0, [-2, 0, 2.5], FLOATS),
    "presence_penalty": (0.0, [-2, 0, 2.5], FLOATS),
    "penalty_last_n": (-1, [-1, 0, 64], [-2, 0.5, None]),
    "penalty_scope": ("default", ["default", "all", "output"], ["prompt", None, 1]),
    "penalize_nl": (True, [True, False], [1, 0, "no", None]),
    "dry_multiplier": (0.0, [0, 0.8], [-0.1, *FLOATS]),
    "dry_base": (1.75, [1.2, 1.75], FLOATS),
    "dry_allowed_length": (2, [1, 2, 5], [-1, 0.5, None]),
    "dry_penalty_last_n": (-1, [-1, 0, 512], [-2, 0.5, None]),
    "dry_sequence_breakers": (None, [None, ["\n", ":"], [5, [6, 7]]], [5, [2.5]]),
    "no_repeat_ngram_size": (0, [0, 3], [-1, 0.5]),
    "logit_bias": ((), [{}, {5: 1.5}], [{5: NAN}, {5: INF}, 5, {-1: 1.0}]),
    "allowed_token_ids": (None, [None, [1, 5]], [[-1], 5, [0.5]]),
    "bad_words": ((), [[], ["word", 5, [5, 6]]], [5, [0.5]]),
    "min_tokens": (0, [0, 10], [-1, 0.5, None]),
    "infill": (False, [True, False], [1, "yes", None]),
    "mirostat": (0, [0, 1, 2], [-1, 3, True, None]),
    "mirostat_tau": (5.0, [0, 3], [-1, *FLOATS]),
    "mirostat_eta": (0.1, [0, 0.5], [-0.1, *FLOATS]),
    "adaptive_target": (-1.0, [-1, -0.5, 0, 1], [-1.1, 1.1, *FLOATS]),
    "adaptive_decay": (0.9, [0, 0.99], [-0.1, 0.999, *FLOATS]),
    "top_p_cut": ("reach", ["reach", "exceed", "below"], ["above", None]),
    "tfs_cut": ("llama.cpp", ["llama.cpp", "koboldai"], ["vllm", None]),
    "seed": (None, [None, -1, 0, 7, 2**64 - 1, 7.0], [-2, 2**64, 0.5, "7", True, NAN, INF, [1]]),
    "n": (1, [1, 4], [0, -1, 1.5, None]),
    "best_of": (None, [None, 1, 4], [0, 1.5]),
    "logprobs": (None, [None, -1, 0, 5], [-2, 0.5, True]),
    "logprobs_mode": ("raw", [*LOGPROBS_MODES, ["raw", "processed"]], ["cooked", [], ["raw", 5], 5, None]),
    "prompt_logprobs": (None, [None, -1, 0, 5], [-2, 0.5]),
    "prompt_logprob_token_ids": (None, [None, [[1, 5], [2, -1], []]], [5, [5], [[0.5]], [[-2]], ["ab"]]),
    "prompt_logprob_start": (0, [0, 7], [-1, 0.5, None]),
    "logprob_token_ids": (None, [None, [1, 5]], [[-1], 5, [0.5]]),
    "return_sampling_mask": (0, [0, -1, 7], [-2, 0.5, "all", None]),
    "max_tokens": (None, [None, 1, 100], [-1, 0.5]),
    "max_time": (None, [None, 0.5, 10], [-1, INF, "1"]),
    "stop_token_ids": ((), [[], [5, 6]], [[0.5], 5]),
    "ignore_eos": (False, [True, False], [1, None]),
    "skip_special_tokens": (True, [True, False], [0, None]),
    "order": ("llama.cpp", ["vllm", "koboldai"], ["unknown", 5, None]),
}

CATALOGUE = default_registry().catalogue


# --- names, values, bounds -----------------------------------------------------------------------


@pytest.mark.parametrize("name", TABLE)
class TestEachParameter:
    def test_it_is_neutral_if_it_is_not_given(self, name: str) -> None:
        neutral = TABLE[name][0]
        assert CATALOGUE.params[name].neutral == neutral
        assert getattr(SamplingParams(), name) == SamplingParams()[name] == neutral
        assert type(SamplingParams()[name]) is type(neutral)

    def test_allowed_values_are_accepted(self, name: str) -> None:
        for value in TABLE[name][1]:
            taken = SamplingParams(**{name: value})[name]
            if isinstance(value, (int, float, str)) and not (name == "seed" and value == -1):
                assert taken == value
            assert SamplingParams(**{name: taken})[name] == taken, "a value in normal form stays as it is"

    def test_other_values_are_refused_by_name_and_value(self, name: str) -> None:
        for value in TABLE[name][2]:
            with pytest.raises(ParameterError) as caught:
                SamplingParams(**{name: value})
            assert name in str(caught.value)
            assert len(str(caught.value)) > len(f"{name}={value!r} is not allowed: ")


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"top_p": 1.5}, "top_p=1.5 is not allowed: a finite number of at least 0 and at most 1"),
        ({"mirostat": 3}, "mirostat=3 is not allowed: one of 0, 1, 2"),
        (
            {"seed": -2},
            "seed=-2 is not allowed: an integer from 0 to 2^64 - 1, or None or -1 for a random seed",
        ),
        ({"repetition_penalty": 0}, "repetition_penalty=0 is not allowed: a finite number above 0"),
        (
            {"logprobs_mode": 5},
            "logprobs_mode=5 is not allowed: one of 'raw', 'penalized', 'processed', or a tuple",
        ),
        ({"best_of": 2, "n": 3}, "best_of=2 is not allowed: at least n=3"),
    ],
)
def test_the_error_states_what_is_allowed(given: dict[str, Any], text: str) -> None:
    with pytest.raises(ParameterError) as caught:
        SamplingParams(**given)
    assert str(caught.value).startswith(text)


@pytest.mark.parametrize("value", [np.float32(0.5), np.float64(0.5), np.float16(0.5)])
def test_numpy_numbers_are_converted_to_python_numbers(value: Any) -> None:
    assert type(SamplingParams(top_p=value).top_p) is float
    assert type(SamplingParams(top_k=np.int32(5)).top_k) is int
    assert type(SamplingParams(seed=np.uint64(2**63)).seed) is int
    assert type(SamplingParams(penalize_nl=np.False_).penalize_nl) is bool


def test_unknown_names_are_refused_with_similar_names() -> None:
    with pytest.raises(ParameterError, match=r"unknown parameter 'repitition_penalty'.*'repetition_penalty'"):
        SamplingParams(repitition_penalty=1.1)
    with pytest.raises(ParameterError, match=r"^unknown parameter 'qqqqqq'$"):
        SamplingParams(qqqqqq=1)
    with pytest.raises(AttributeError, match="no parameter 'top_q'"):
        _ = SamplingParams().top_q


def test_a_seed_of_minus_one_is_random() -> None:
    assert SamplingParams(seed=-1).seed is None


def test_several_logprobs_modes_are_kept_in_order_without_duplicates() -> None:
    assert SamplingParams(logprobs_mode=["processed", "raw", "processed"]).logprobs_mode == (
        "processed",
        "raw",
    )


# --- the object ----------------------------------------------------------------------------------

SOME: dict[str, Any] = {
    "temperature": 0.8,
    "top_k": 40,
    "seed": 2**63,
    "logit_bias": {5: 1.0},
    "bad_words": [[1, 2]],
}


def test_only_non_neutral_values_are_given() -> None:
    assert dict(SamplingParams(temperature=0.8, top_p=1.0, n=1, seed=None).given) == {"temperature": 0.8}


def test_it_is_a_mapping_of_every_parameter() -> None:
    params = SamplingParams(**SOME)
    assert set(params) == set(CATALOGUE.params)
    assert len(params) == len(CATALOGUE.params)
    assert dict(params)["top_k"] == 40


def test_it_cannot_be_changed() -> None:
    params = SamplingParams(**SOME)
    with pytest.raises(AttributeError, match=r"immutable; use replace\(\)"):
        params.top_k = 5  # type: ignore[misc]
    with pytest.raises(TypeError):
        params["top_k"] = 5  # type: ignore[index]
    with pytest.raises(TypeError):
        params.given["top_k"] = 5  # type: ignore[index]
    assert params.top_k == 40


def test_later_changes_to_the_arguments_have_no_effect() -> None:
    bias, words, order = {5: 1.0}, [[1, 2]], ["penalties", "top_k"]
    params = SamplingParams(logit_bias=bias, bad_words=words, order=order)
    before = pickle.dumps(params)
    bias[6] = 2.0
    words[0].append(3)
    order.append("top_p")
    assert pickle.dumps(params) == before


def test_equal_values_give_equal_objects_with_equal_hashes() -> None:
    params = SamplingParams(**SOME)
    same = SamplingParams(**SOME, top_p=1.0)
    assert params == same
    assert hash(params) == hash(same)
    assert params != SamplingParams(**{**SOME, "top_k": 41})
    assert params != dict(params)
    assert len({params, same, SamplingParams()}) == 2


def test_replace_changes_some_values_and_checks_them() -> None:
    params = SamplingParams(**SOME)
    assert params.replace(top_k=5) == SamplingParams(**{**SOME, "top_k": 5})
    assert params.replace(top_k=0, seed=None) == SamplingParams(
        **{k: v for k, v in SOME.items() if k not in ("top_k", "seed")}
    )
    with pytest.raises(ParameterError, match="top_k=-5"):
        params.replace(top_k=-5)


@pytest.mark.parametrize(
    "params",
    [
        {},
        SOME,
        {"order": "koboldai"},
        {"order": "koboldai", "top_p_cut": "reach"},
        {"order": [6, 0, 1, 2, 3, 4, 5], "tfs_cut": "llama.cpp"},
        {"order": "mindie", "top_p_cut": "exceed"},
    ],
)
def test_copies_pickles_and_the_repr_are_equal(params: dict[str, Any]) -> None:
    original = SamplingParams(**params)
    again = [
        pickle.loads(pickle.dumps(original)),
        copy.copy(original),
        copy.deepcopy(original),
        original.replace(),
    ]
    for other in (*again, eval(repr(original))):
        assert other == original
        assert dict(other) == dict(original)


def test_another_order_sets_its_own_cut_rules_unless_the_request_gave_them() -> None:
    assert SamplingParams(order="koboldai").replace(order="mindie").top_p_cut == "exceed"
    own = SamplingParams(order="koboldai", top_p_cut="reach")
    assert own.top_p_cut == own.replace(order="mindie").top_p_cut == "reach"
    assert own != SamplingParams(order="koboldai")


def test_the_repr_shows_what_was_chosen() -> None:
    assert repr(SamplingParams(top_k=5, temperature=0.5, order="koboldai")) in (
        "SamplingParams(order='koboldai', top_k=5, temperature=0.5)",
        "SamplingParams(order='koboldai', temperature=0.5, top_k=5)",
    )


# --- cost ----------------------------------------------------------------------------------------


def calls_of(work: Callable[[], Any]) -> int:
    """How many Python functions `work` calls."""
    calls = 0

    def count(frame: Any, event: str, argument: Any) -> None:
        nonlocal calls
        calls += event == "call"

    before = sys.getprofile()
    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(before)
    return calls


def test_settings_cost_what_is_given_and_not_what_exists() -> None:
    settings = {"top_k": 40, "top_p": 0.95, "min_p": 0.05, "temperature": 0.8, "seed": 1}
    params = SamplingParams(**settings)
    build_chain(params)  # once for all requests
    assert calls_of(lambda: SamplingParams(**settings)) < 60
    assert calls_of(lambda: params.replace(seed=2)) < 60
    assert calls_of(lambda: build_chain(params)) < 8  # it is kept


def test_a_copy_of_what_cannot_change_is_the_object_itself() -> None:
    params = SamplingParams(**SOME)
    assert copy.copy(params) is params
    assert copy.deepcopy({"a": params})["a"] is params


# --- what tools see ------------------------------------------------------------------------------


def test_the_parameters_are_listed_with_types_neutral_values_and_meanings() -> None:
    listed = SamplingParams.parameters()
    assert list(listed) == list(SamplingParams())
    assert (listed["top_k"].type, listed["top_k"].neutral, bool(listed["top_k"].doc)) == (int, 0, True)
    with pytest.raises(TypeError):
        listed["top_k"] = listed["top_p"]  # type: ignore[index]


def test_signature_help_and_dir_show_the_parameters() -> None:
    signature = inspect.signature(SamplingParams)
    assert list(signature.parameters) == list(SamplingParams())
    assert signature.parameters["temperature"].default == 1.0
    assert signature.parameters["max_tokens"].annotation == int | None
    assert "temperature: float = 1.0" in pydoc.render_doc(SamplingParams, renderer=pydoc.plaintext)
    assert {"top_p", "stop", "replace"} <= set(dir(SamplingParams()))


def test_a_parameter_may_have_any_name_in_a_call() -> None:
    with pytest.raises(ParameterError, match="unknown parameter 'self'"):
        SamplingParams(self=1)
    with pytest.raises(ParameterError, match="unknown parameter 'cls'"):
        SamplingParams.from_dict({"cls": 1})


def test_parameters_survive_json() -> None:
    params = SamplingParams(
        repetition_detection={"max_pattern_size": 5, "min_count": 3}, logit_bias={3: -1.0}, stop=["a"],
        bad_words=[[1, 2], "x"], dry_sequence_breakers=[4, "b"], allowed_token_ids=[3, 1], stop_token_ids=[9],
        order=["temperature", "penalties"], logprobs=2, logprobs_mode=("raw", "processed"), seed=2**64 - 1,
        stop_regex=["a+"], choice=["x", "y"], early_stopping="never", max_time=1.5,
    )  # fmt: skip
    assert SamplingParams(**json.loads(json.dumps(dict(params.given)))) == params
