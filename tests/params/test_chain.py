from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from engine_sampler.contract import Chain, Param, Sampler, hookimpl
from engine_sampler.params import SamplingParams, build_chain, takes_grammar, without_takers
from engine_sampler.params.chain import EDITS
from engine_sampler.registry import CORE_PARAMS, Registry, default_registry

from ..engines import registered
from ..random_chains import BUILT_IN, ORDERED, by_examples

EDITS_THEN = (*EDITS, *sorted(name for name, s in BUILT_IN.items() if s.role == "edit" and name not in EDITS))
PENALTIES = [name for name in ORDERED if BUILT_IN[name].role == "penalty"]
EVERYTHING: dict[str, Any] = {
    **{name: value for one in (*EDITS_THEN, *ORDERED) for name, value in by_examples(one)[0].items()},
    "max_tokens": 9,
    "allowed_token_ids": [1, 2, 3],
    "bad_words": [[1, 2]],
    "ignore_eos": True,
    "min_tokens": 2,
    "logit_bias": {1: 0.5},
    "grammar_bias": 2.0,
    "regex": "a+",
    "logits_processors": [print],
    "repetition_penalty": 1.1,
    "no_repeat_ngram_size": 3,
    "dry_multiplier": 0.8,
    "top_n_sigma": 1.0,
    "top_k": 40,
    "top_a": 0.1,
    "tfs": 0.9,
    "typical_p": 0.9,
    "top_p": 0.9,
    "min_p": 0.05,
    "min_k": True,
    "p_less": True,
    "epsilon_cutoff": 1e-4,
    "eta_cutoff": 1e-4,
    "top_h": 0.5,
    "xtc_probability": 0.5,
    "smoothing_factor": 0.2,
    "temperature": 0.8,
    "infill": True,
}


def key(**params: Any) -> tuple[str, ...]:
    return build_chain(SamplingParams(**params)).key


def test_neutral_parameters_leave_only_the_selector() -> None:
    assert key() == ("dist",)
    assert key(top_p=1.0, temperature=1, seed=4, logprobs=3) == ("dist",)


def test_everything_is_in_the_default_order_after_the_edits() -> None:
    assert key(**EVERYTHING) == (*EDITS_THEN, *ORDERED, "dist")


def test_the_key_does_not_depend_on_values() -> None:
    assert key(temperature=0.7, top_k=5) == key(temperature=0.9, top_k=50) == ("top_k", "temperature", "dist")


def test_edits_come_first_in_every_order() -> None:
    warm = {"temperature": 0.8, "logit_bias": {1: 1.0}, "repetition_penalty": 1.2}
    assert key(**warm, order=["temperature", "penalties"]) == (
        "logit_bias",
        "temperature",
        "penalties",
        "dist",
    )


@pytest.mark.parametrize(
    ("order", "expected"),
    [
        ("llama.cpp", ("top_k", "min_p", "temperature")),
        ("vllm", ("temperature", "min_p", "top_k")),
        ("transformers", ("temperature", "top_k", "min_p")),
        (["min_p", "temperature", "top_k"], ("min_p", "temperature", "top_k")),
    ],
)
def test_the_order_determines_the_rest(order: Any, expected: tuple[str, ...]) -> None:
    assert key(top_k=5, min_p=0.1, temperature=0.5, order=order) == (*expected, "dist")


# --- selectors -----------------------------------------------------------------------------------


@pytest.mark.parametrize("temperature", [0, 9.9e-5])
def test_a_temperature_of_zero_is_greedy_and_nothing_after_it_is_kept(temperature: float) -> None:
    chain = key(temperature=temperature, top_k=5, repetition_penalty=1.2, order="vllm")
    assert chain == ("penalties", "temperature", "greedy")
    assert key(temperature=temperature, mirostat=2) == ("temperature", "greedy")


def test_the_lowest_temperature_that_samples_is_one_ten_thousandth() -> None:
    assert key(temperature=1e-4, top_k=5, order="vllm") == ("temperature", "top_k", "dist")


@pytest.mark.parametrize(
    ("params", "name"),
    [
        ({"mirostat": 1}, "mirostat"),
        ({"mirostat": 2}, "mirostat_v2"),
        ({"adaptive_target": 0.2}, "adaptive_p"),
    ],
)
def test_parameters_select_their_selector(params: dict[str, Any], name: str) -> None:
    assert key(**params) == (name,)


@pytest.mark.parametrize("version", [1, 2])
def test_mirostat_keeps_only_edits_penalties_and_temperature(version: int) -> None:
    chain = key(**EVERYTHING, mirostat=version)
    assert chain[:-1] == (*EDITS, *PENALTIES, "temperature")


def test_adaptive_p_keeps_all_samplers() -> None:
    assert key(**EVERYTHING, adaptive_target=0.3)[:-1] == (*EDITS_THEN, *ORDERED)


# --- parts of a chain ----------------------------------------------------------------------------


def test_a_greedy_choice_ends_after_the_last_sampler_that_can_change_the_best_token() -> None:
    params = SamplingParams(temperature=0, logit_bias={1: 2.0}, top_k=40, top_p=0.9)
    assert build_chain(params).for_choice().key == ("logit_bias", "greedy")
    assert build_chain(SamplingParams(temperature=0, top_k=40)).for_choice().key == ("greedy",)


def test_a_greedy_choice_keeps_the_samplers_before_such_a_sampler() -> None:
    params = SamplingParams(temperature=0, top_k=40, xtc_probability=1.0, min_p=0.1)
    assert build_chain(params).for_choice().key == ("top_k", "min_p", "xtc", "greedy")


def test_other_selectors_need_the_whole_chain() -> None:
    chain = build_chain(SamplingParams(top_k=40, temperature=0.8))
    assert chain.for_choice() is chain


def test_penalized_logits_come_from_edits_and_penalties() -> None:
    chain = build_chain(SamplingParams(**EVERYTHING)).edits_only()
    assert chain.key == (*EDITS, *PENALTIES, "dist")


def test_a_chain_is_printed_as_its_steps() -> None:
    assert str(build_chain(SamplingParams(top_k=5, temperature=0.5))) == "top_k → temperature → dist"


def test_the_fixed_edits_are_the_built_in_samplers_of_that_role() -> None:
    samplers = default_registry().catalogue.samplers.values()
    assert sorted(EDITS) == sorted(s.name for s in samplers if s.role == "edit")


def test_chains_of_equal_parts_are_equal() -> None:
    first, second = (build_chain(SamplingParams(top_k=k)) for k in (3, 4))
    assert first == second
    assert first != Chain((Sampler(),), first.selector)


class Hotter(Sampler):
    """Decides by the parameter of another sampler whether it is active."""

    name = "hotter"
    params = (Param("hotter_by", float, 0.0, switch=False),)

    def is_active(self, params: Any) -> bool:
        return bool(params["temperature"] > 2)

    def apply(self, logits: Any, rows: Any) -> None:
        """Nothing."""


class Switched(Hotter):
    """Leaves the decision to its switch; its other parameter alone does not turn it on."""

    name = "switched"
    params = (Param("switch", float, 0.0), Param("threshold", float, 0.5, switch=False))
    is_active = Sampler.is_active


def test_a_sampler_that_decides_in_its_own_way_is_asked_whatever_is_given() -> None:
    with registered(Hotter()):
        assert key(temperature=2.5) == ("temperature", "hotter", "dist")
        assert key(hotter_by=1.0) == ("dist",)


def test_the_chain_of_settings_follows_the_samplers_that_are_registered() -> None:
    params = SamplingParams(temperature=2.5)
    before = build_chain(params)
    with registered(Hotter()):
        assert build_chain(params).key == ("temperature", "hotter", "dist")
    assert build_chain(params) == before


def test_other_samplers_are_on_if_one_of_their_switches_is_given() -> None:
    with registered(Switched()):
        assert key(switch=1.0) == ("switched", "dist")
        assert key(threshold=0.1, switch=0.0) == ("dist",)
        assert build_chain(dict(SamplingParams(switch=2.0))).key == ("switched", "dist")
    assert key(temperature=2.5) == ("temperature", "dist")


def test_the_edits_of_plugins_follow_in_alphabetical_order() -> None:
    class Edit(Sampler):
        role = "edit"

        def __init__(self, name: str) -> None:
            self.name = name  # type: ignore[misc]

        def is_active(self, params: Any) -> bool:
            return bool(params["ignore_eos"])

        def apply(self, logits: np.ndarray, rows: Any) -> None:
            """Nothing."""

    class Plugin:
        @hookimpl
        def register_samplers(self, register: Any) -> None:
            register(Edit("zz"))
            register(Edit("aa"))

    registry = Registry(CORE_PARAMS)
    registry.register(Plugin())
    chain = build_chain(SamplingParams(ignore_eos=True, logit_bias={0: 1.0}), registry)
    assert chain.key == ("ignore_eos", "logit_bias", "aa", "zz", "dist")


# --- samplers that take the grammar ---------------------------------------------------------------


class Taker(Sampler):
    """Takes the grammar of its request."""

    name = "taker"
    role = "edit"
    params = (Param("taken", bool, neutral=False),)
    takes_grammar = True

    def apply(self, logits: np.ndarray, rows: Any) -> None:
        pass


def test_a_grammar_is_taken_by_a_sampler_of_the_chain() -> None:
    with registered(Taker()):
        assert takes_grammar(SamplingParams(regex="a", taken=True))
        assert not takes_grammar(SamplingParams(regex="a"))
        assert not takes_grammar(SamplingParams(taken=True))
        assert takes_grammar(SamplingParams(regex="a", taken=True, temperature=0))


def test_without_its_takers_a_chain_needs_no_grammar() -> None:
    with registered(Taker()):
        params = SamplingParams(regex="a", taken=True, grammar_bias=2, top_k=3)
        assert without_takers(params) == SamplingParams(regex="a", top_k=3)
        plain = SamplingParams(regex="a", top_k=3)
        assert without_takers(plain) is plain
