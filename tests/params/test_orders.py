from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from engine_sampler import process_logits
from engine_sampler.contract import Param, ParameterError, Sampler
from engine_sampler.params import SamplingParams, build_chain
from engine_sampler.params.orders import DEFAULT, NAMED, RULES, full_order, orderable
from engine_sampler.registry import default_registry

from ..random_chains import BUILT_IN

SAMPLERS = default_registry().catalogue.samplers
LISTED = {name: s for name, s in SAMPLERS.items() if name in DEFAULT or s.role == "edit" or s.instead_of}
"""Those that have a place in the default list, or none at all."""


def plugin(name: str, after: str | None = None, role: str = "warp") -> Sampler:
    """A sampler that is not registered."""
    sampler_type = type(
        name, (Sampler,), {"name": name, "after": after, "role": role, "params": (Param(name, float, 0.0),)}
    )
    return sampler_type()


def order_with(order: str | Sequence[Any], *plugins: Sampler) -> list[str]:
    samplers: Mapping[str, Sampler] = {**LISTED, **{p.name: p for p in plugins}}
    return list(full_order(order, samplers))


# --- named orders --------------------------------------------------------------------------------


def test_a_built_in_sampler_is_in_the_default_list_or_says_what_it_follows() -> None:
    assert [s.name for s in BUILT_IN.values() if s.name not in LISTED and s.after is None] == []


@pytest.mark.parametrize("name", NAMED)
def test_a_named_order_contains_every_sampler_once(name: str) -> None:
    assert sorted(full_order(name, SAMPLERS)) == sorted(orderable(SAMPLERS))


@pytest.mark.parametrize("name", NAMED)
def test_a_named_order_keeps_its_own_sequence(name: str) -> None:
    assert [n for n in order_with(name) if n in NAMED[name]] == list(NAMED[name])


@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        ("llama.cpp", "xtc", "temperature"),
        ("llama.cpp", "top_p", "min_p"),
        ("vllm", "temperature", "min_p"),
        ("vllm", "min_p", "top_k"),
        ("transformers", "temperature", "top_k"),
        ("mindie", "temperature", "top_k"),
        ("mlx", "xtc", "top_k"),
        ("sglang", "temperature", "top_p"),
        ("sglang", "min_p", "top_k"),
        ("koboldai", "typical_p", "temperature"),
    ],
)
def test_named_orders_follow_their_systems(name: str, before: str, after: str) -> None:
    order = order_with(name)
    assert order.index(before) < order.index(after)


def test_samplers_that_a_named_order_does_not_mention_follow_the_default_list() -> None:
    order = order_with("vllm")
    assert order[:3] == ["logits_processors", "encoder_repetition_penalty", "normalize"]
    assert order[3:8] == ["penalties", "no_repeat_ngram", "dry", "top_n_sigma", "temperature"]
    assert order[-6:] == ["epsilon_cutoff", "eta_cutoff", "top_h", "xtc", "smoothing", "infill"]
    assert order.index("top_k") < order.index("top_a") < order.index("tfs") < order.index("top_p")


def test_an_unknown_order_is_refused_with_a_list_of_the_known_ones() -> None:
    with pytest.raises(ParameterError, match=r"order='llama' is not allowed: one of llama\.cpp, koboldai"):
        SamplingParams(order="llama")


# --- KoboldAI's ids ------------------------------------------------------------------------------


def test_koboldai_ids_are_converted_to_names() -> None:
    assert order_with([6, 0, 1, 2, 3, 4, 5]) == order_with("koboldai")
    mentioned = [n for n in order_with([6, 5, 4, 3, 2, 1, 0]) if n in NAMED["koboldai"]]
    assert mentioned == ["penalties", "temperature", "typical_p", "tfs", "top_p", "top_a", "top_k"]


def test_a_short_list_of_koboldai_ids_starts_with_the_penalties() -> None:
    mentioned = [n for n in order_with([0, 5]) if n in ("temperature", "top_k", "penalties")]
    assert mentioned == ["penalties", "top_k", "temperature"]


def test_a_short_list_of_koboldai_ids_that_omits_an_active_sampler_is_refused() -> None:
    assert SamplingParams(order=[0, 5], top_k=3, repetition_penalty=1.2).order == (0, 5)
    with pytest.raises(ParameterError, match="omits top_a, which the parameters turn on"):
        SamplingParams(order=[6, 0, 5], top_a=0.2)


def test_samplers_without_a_koboldai_id_are_not_omitted() -> None:
    assert SamplingParams(order=[6, 0, 1, 2, 3, 4, 5], min_p=0.1).min_p == 0.1


@pytest.mark.parametrize("ids", [[7], [0, 100], [-1, 0]])
def test_unknown_koboldai_ids_are_refused(ids: list[int]) -> None:
    with pytest.raises(ParameterError, match="KoboldAI's ids are 0 to 6"):
        SamplingParams(order=ids)


# --- explicit lists ------------------------------------------------------------------------------


def test_an_explicit_list_is_used_as_it_is() -> None:
    assert order_with(["temperature", "top_k"]) == ["temperature", "top_k"]


def test_an_explicit_list_needs_none_of_the_edits_which_always_come_first() -> None:
    edits = {"logit_bias": {1: 2.0}, "bad_words": [[3]], "allowed_token_ids": [1, 2], "min_tokens": 2}
    assert SamplingParams(order=["top_k"], top_k=5, **edits).order == ("top_k",)
    assert SamplingParams(order=[6, 0, 5], top_k=5, **edits).order == (6, 0, 5)


def test_an_explicit_list_that_omits_an_active_sampler_is_refused() -> None:
    assert SamplingParams(order=["top_k"], top_k=5).order == ("top_k",)
    with pytest.raises(ParameterError, match=r"order=\('top_k',\) omits min_p, which the parameters turn on"):
        SamplingParams(order=["top_k"], top_k=5, min_p=0.1)


def test_edits_need_not_be_listed() -> None:
    assert SamplingParams(order=["top_k"], min_tokens=3).min_tokens == 3
    with pytest.raises(ParameterError, match="'min_tokens', which is not a sampler that can be ordered"):
        SamplingParams(order=["min_tokens"])


def test_an_unknown_sampler_is_refused_with_similar_names() -> None:
    message = r"'typical', which is not a sampler .* did you mean 'typical_p'"
    with pytest.raises(ParameterError, match=message):
        SamplingParams(order=["typical"])


@pytest.mark.parametrize(
    ("theirs", "ours"),
    [
        *(("temp", "temperature"), ("temp-ext", "temperature"), ("top-k", "top_k"), ("typ_p", "typical_p")),
        *(("tfs_z", "tfs"), ("rep_pen", "penalties"), ("dry_base", "dry"), ("Top_P", "top_p")),
    ],
)
def test_a_sampler_is_found_by_its_names_elsewhere_and_by_its_parameters(theirs: str, ours: str) -> None:
    with pytest.raises(ParameterError, match=rf"order names '{theirs}', .* did you mean '{ours}'\?$"):
        SamplingParams(order=[theirs])


@pytest.mark.parametrize("name", ["dist", "logit_bias", "zzz"])
def test_a_name_that_is_like_no_other_is_refused_with_all_that_can_be_ordered(name: str) -> None:
    message = (
        f"'{name}', which is not a sampler .* allowed are dry, .*, xtc: masks and biases come before them"
    )
    with pytest.raises(ParameterError, match=message):
        SamplingParams(order=[name])


def test_a_sampler_that_is_named_twice_runs_twice() -> None:
    params = SamplingParams(order=["top_p", "temperature", "top_p"], top_p=0.6, temperature=0.5)
    assert build_chain(params).key == ("top_p", "temperature", "top_p", "dist")
    row = np.log(np.array([[0.4, 0.3, 0.2, 0.1]], np.float32))
    # 0.4 and 0.3 reach 0.6; squared and normalized 0.64 and 0.36, of which the first suffices.
    assert process_logits(row, params)[0].tolist() == [2 * row[0, 0], -np.inf, -np.inf, -np.inf]
    once = params.replace(order=["top_p", "temperature"])
    assert (process_logits(row, once) > -np.inf).sum() == 2


def test_a_number_of_koboldais_may_be_listed_only_once() -> None:
    with pytest.raises(ParameterError, match="each sampler once"):
        SamplingParams(order=[0, 0])


@pytest.mark.parametrize("order", [5, None, [True], [1.5], [("top_k",)], {"top_k": 1, 2.5: 0}])
def test_other_values_are_refused(order: Any) -> None:
    with pytest.raises(ParameterError, match="a named order, or a list of sampler names"):
        SamplingParams(order=order)


# --- cut rules -----------------------------------------------------------------------------------


def test_named_orders_set_their_systems_cut_rules() -> None:
    assert SamplingParams().top_p_cut == "reach"
    assert SamplingParams(order="mindie").top_p_cut == "exceed"
    assert SamplingParams(order="sglang").top_p_cut == "exceed"
    kobold = SamplingParams(order="koboldai")
    assert (kobold.top_p_cut, kobold.tfs_cut) == ("below", "koboldai")
    assert SamplingParams(order=[6, 0, 1, 2, 3, 4, 5]).tfs_cut == "koboldai"


def test_a_request_may_override_the_cut_rule() -> None:
    mixed = SamplingParams(order="koboldai", top_p_cut="exceed")
    assert (mixed.top_p_cut, mixed.tfs_cut) == ("exceed", "koboldai")
    assert SamplingParams(order="mindie", top_p_cut="reach").top_p_cut == "reach"


def test_every_cut_rule_is_a_parameter() -> None:
    params = default_registry().catalogue.params
    for rules in RULES.values():
        for name, rule in rules.items():
            assert params[name].check(rule) == rule


# --- plugins -------------------------------------------------------------------------------------


def test_a_plugin_follows_the_sampler_that_it_names() -> None:
    order = order_with("llama.cpp", plugin("robust_z", after="min_p"))
    assert order.index("robust_z") == order.index("min_p") + 1


def test_a_plugin_may_follow_another_plugin() -> None:
    order = order_with("vllm", plugin("second", after="first"), plugin("first", after="xtc"))
    index = order.index("xtc")
    assert order[index : index + 3] == ["xtc", "first", "second"]


def test_a_plugin_that_names_no_sampler_comes_last() -> None:
    assert order_with("llama.cpp", plugin("robust_z"))[-1] == "robust_z"


def test_no_order_names_a_sampler_that_stands_in_the_place_of_another() -> None:
    assert "xtc_protected" not in order_with("llama.cpp", SAMPLERS["xtc_protected"])
    with pytest.raises(ParameterError, match="order names 'xtc_protected', which is not a sampler"):
        SamplingParams(order=["xtc_protected"])


@pytest.mark.parametrize("order", ["mlx", ["xtc", "top_k", "xtc"]], ids=str)
def test_it_runs_wherever_the_order_has_that_one(order: Any) -> None:
    given = {"xtc_probability": 0.5, "top_k": 9, "order": order}
    plain = str(build_chain(SamplingParams(**given)))
    protected = str(build_chain(SamplingParams(**given, xtc_protected_ids=[1])))
    assert "xtc" in plain
    assert protected == plain.replace("xtc", "xtc_protected")


@pytest.mark.parametrize("order", [*NAMED, (5, 0, 6)])
def test_a_penalty_that_names_no_sampler_follows_the_penalties(order: Any) -> None:
    placed = order_with(order, plugin("fade", role="penalty"))
    assert placed[placed.index("dry") + 1] == "fade"
    if order in NAMED:
        assert placed.index("fade") < min(placed.index(name) for name in ("temperature", "top_k", "min_p"))


@pytest.mark.parametrize(
    "plugins",
    [
        [("aa", None), ("bb", "aa")],
        [("aa", "min_p"), ("bb", "min_p"), ("cc", "aa")],
        [("aa", "cc"), ("bb", None), ("cc", None)],
    ],
)
def test_the_order_does_not_depend_on_that_of_registration(plugins: list[tuple[str, str | None]]) -> None:
    expected = {
        ("aa", "bb"): ["aa", "bb"],
        ("aa", "bb", "cc"): ["aa", "cc", "bb"] if plugins[0][1] == "min_p" else ["bb", "cc", "aa"],
    }[tuple(name for name, _ in plugins)]
    for order in itertools.permutations(plugins):
        placed = order_with("llama.cpp", *(plugin(name, after=after) for name, after in order))
        assert [name for name in placed if name in expected] == expected


def test_a_plugin_edit_is_not_ordered() -> None:
    assert "mask" not in order_with("llama.cpp", plugin("mask", role="edit"))
