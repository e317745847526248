"""`chain_parts`: what a chain may consist of."""

from __future__ import annotations

import pytest

from engine_sampler.contract import ParameterError
from engine_sampler.explain import chain_parts
from engine_sampler.registry import default_registry


def test_every_sampler_and_selector_is_a_part_once():
    catalogue = default_registry().catalogue
    samplers = [name for name, sampler in catalogue.samplers.items() if sampler.instead_of is None]
    assert sorted(part.name for part in chain_parts()) == sorted([*samplers, *catalogue.selectors])


def test_a_sampler_in_the_place_of_another_adds_its_parameters_there():
    xtc = next(part for part in chain_parts() if part.name == "xtc")
    assert [param.name for param in xtc.params] == ["xtc_probability", "xtc_threshold", "xtc_protected_ids"]


def test_parts_stand_in_the_order_of_a_system():
    names = [part.name for part in chain_parts("vllm")]
    assert names.index("temperature") < names.index("min_p") < names.index("top_k")


def test_a_list_is_its_own_order():
    warps = [part.name for part in chain_parts(["temperature", "top_k"]) if part.role == "warp"]
    assert warps == ["temperature", "top_k"]


def test_a_part_says_where_it_comes_from_and_what_it_does():
    part = next(part for part in chain_parts() if part.name == "min_p")
    assert part.origin.startswith("engine-sampler")
    assert part.summary.startswith("Keep tokens whose probability")
    assert part.doc.startswith(part.summary[:20])
    assert [param.name for param in part.params] == ["min_p"]


def test_an_unknown_order_is_refused():
    with pytest.raises(ParameterError, match="order"):
        chain_parts("alphabetical")
