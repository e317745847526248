"""The parameters of ATB's operator: their fields, defaults and limits, and how they change."""

from __future__ import annotations

import doctest
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from atb_operators import EXPONENTIAL, INPUTS, MULTINOMIAL, SINGLE, column, probabilities
from engine_sampler_mindie import atb as atb
from engine_sampler_mindie.atb import (
    TopkToppLogprobsSamplingParam,
    TopkToppSampling,
    TopkToppSamplingParam,
)

from engine_sampler import ParameterError


def test_the_examples_of_the_docstring_run() -> None:
    assert doctest.testmod(atb) == (0, 10)


DOCUMENTED_TYPES = {
    "SAMPLING_UNDEFINED": -1,
    "SINGLE_TOPK_SAMPLING": 0,
    "BATCH_TOPK_MULTINOMIAL_SAMPLING": 1,
    "BATCH_TOPK_EXPONENTIAL_SAMPLING": 2,
}


def test_the_nested_types_have_the_values_of_the_c_enumerations() -> None:
    documented = TopkToppSamplingParam.TopkToppSamplingType
    assert {kind.name: kind.value for kind in documented} == DOCUMENTED_TYPES | {"SAMPLING_MAX": 3}
    assert documented is atb.TopkToppSamplingType
    later = TopkToppLogprobsSamplingParam.TopkToppSamplingType
    assert {kind.name: kind.value for kind in later} == DOCUMENTED_TYPES | {
        "BATCH_TOPK_MULTINOMIAL_LOGPROBS_SAMPLING": 3,
        "BATCH_TOPK_EXPONENTIAL_LOGPROBS_SAMPLING": 4,
        "SAMPLING_MAX": 5,
    }


@pytest.mark.parametrize("struct", [TopkToppSamplingParam, TopkToppLogprobsSamplingParam])
def test_the_types_are_members_of_the_structures_as_unscoped_enumerators_are(struct: Any) -> None:
    for kind in struct.TopkToppSamplingType:
        assert getattr(struct, kind.name) is getattr(struct(), kind.name) is kind
    assert TopkToppSampling(struct(struct.SINGLE_TOPK_SAMPLING, topk=3)).param.topk == 3


def test_parameters_have_the_fields_and_defaults_of_the_c_structures() -> None:
    assert list(vars(TopkToppSamplingParam()).items()) == [
        ("topkToppSamplingType", SINGLE), ("randSeed", 0), ("topk", 100), ("randSeeds", []),
        ("rsv", (0,) * 16),
    ]  # fmt: skip
    assert list(vars(TopkToppLogprobsSamplingParam()).items()) == [
        ("topkToppSamplingType", SINGLE), ("randSeeds", []), ("randSeed", 0), ("topk", 100),
        ("logProbsSize", 0), ("rsv", (0,) * 12),
    ]  # fmt: skip


def test_each_revision_refuses_the_types_and_reserved_bytes_of_the_other() -> None:
    with pytest.raises(ParameterError, match=r"topkToppSamplingType=.*3.* is not allowed"):
        TopkToppSampling(TopkToppSamplingParam(TopkToppSamplingParam.TopkToppSamplingType.SAMPLING_MAX))
    with pytest.raises(ParameterError, match=r"rsv=.*16 zeros"):
        TopkToppSampling(TopkToppSamplingParam(rsv=[0] * 12))


@pytest.mark.parametrize("mode", ["documented", "observed"])
def test_both_revisions_draw_alike(mode: str) -> None:
    random = np.random.default_rng(8)
    probs, topp = probabilities(random, 20, 300, 0.5), column([0.9] * 20, np.float16)
    topk, seeds = column(random.integers(1, 200, 20), np.int32), random.integers(2**32, size=20).tolist()
    inputs = {"probs": probs, "topp": topp, "topk": topk, "exp": np.ones_like(probs)}
    for kind in (SINGLE, MULTINOMIAL, EXPONENTIAL):
        params = (
            TopkToppSamplingParam(int(kind), 7, 50, seeds),
            TopkToppLogprobsSamplingParam(kind, seeds, 7, 50),
        )
        named = {name: inputs[name] for name in INPUTS[kind]}
        one, other = (TopkToppSampling(param, mode)(**named)[0].tolist() for param in params)
        assert one == other


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"topkToppSamplingType": -1}, "topkToppSamplingType=-1 is not allowed: one of SINGLE_TOPK"),
        ({"topkToppSamplingType": atb.TopkToppSamplingType.SAMPLING_UNDEFINED}, "SAMPLING_UNDEFINED"),
        ({"topkToppSamplingType": atb.TopkToppLogprobsSamplingType.SAMPLING_MAX}, "SAMPLING_MAX"),
        ({"topkToppSamplingType": [0]}, "topkToppSamplingType"),
        ({"rsv": [0] * 11 + [1]}, "rsv=.*12 zeros"),
        ({"rsv": [0] * 16}, "rsv=.*12 zeros"),
        ({"rsv": 0}, "rsv=0 is not allowed: a list of integers"),
        ({"randSeed": 2**32}, "randSeed=4294967296 is not allowed"),
        ({"randSeed": -1}, "randSeed=-1 is not allowed"),
        ({"randSeeds": [1, -2]}, "randSeeds=-2 is not allowed"),
        ({"randSeeds": 3}, "randSeeds=3 is not allowed: a list"),
        ({"topk": -1}, "topk=-1 is not allowed"),
        ({"logProbsSize": 16385}, "logProbsSize=16385 is not allowed"),
        ({"logProbsSize": -1}, "logProbsSize=-1 is not allowed"),
    ],
)
def test_bad_parameters_are_refused_and_the_old_ones_stay(changes: dict[str, Any], error: str) -> None:
    operator = TopkToppSampling(TopkToppLogprobsSamplingParam(topk=7))
    with pytest.raises(ParameterError, match=error):
        operator.param = TopkToppLogprobsSamplingParam(**changes)
    assert operator.param.topk == 7
    with pytest.raises(ParameterError, match=error):
        TopkToppSampling(TopkToppLogprobsSamplingParam(**changes))


def test_an_operator_keeps_the_parameters_it_was_given() -> None:
    param = TopkToppSamplingParam(topk=7, randSeeds=[1, 2])
    operator = TopkToppSampling(param)
    param.topk = 9
    param.randSeeds.append(3)  # type: ignore[attr-defined]
    assert (operator.param.topk, operator.param.randSeeds) == (7, [1, 2])
    with pytest.raises(TypeError, match="param is dict"):
        operator.param = {"topk": 3}  # type: ignore[assignment]
    with pytest.raises(ParameterError, match="mode='real' is not allowed: one of 'documented', 'observed'"):
        TopkToppSampling(param, mode="real")


@pytest.mark.parametrize("mode", ["documented", "observed"])
def test_fields_of_an_operators_parameters_may_be_changed_in_place(mode: str) -> None:
    random = np.random.default_rng(1)
    probs = probabilities(random, 8, 500, 0.1)
    topp, topk = column([1] * 8, np.float16), column([400] * 8, np.int32)
    operator = TopkToppSampling(TopkToppSamplingParam(MULTINOMIAL, randSeeds=range(8)), mode)
    operator.param.randSeeds = [*range(10, 18)]
    operator.param.randSeeds[3] = 99
    fresh = TopkToppSampling(
        TopkToppSamplingParam(MULTINOMIAL, randSeeds=[10, 11, 12, 99, 14, 15, 16, 17]), mode
    )
    assert operator(probs, topp, topk)[0].tolist() == fresh(probs, topp, topk)[0].tolist()
    operator.param.randSeeds[3] = -1
    with pytest.raises(ParameterError, match="randSeeds=-1 is not allowed"):
        operator(probs, topp, topk)


@pytest.mark.parametrize("mode", ["documented", "observed"])
def test_new_seeds_take_effect_at_once(mode: str) -> None:
    random = np.random.default_rng(0)
    probs, topp, topk = (
        probabilities(random, 8, 500, 0.1),
        column([1] * 8, np.float16),
        column([400] * 8, np.int32),
    )
    operator = TopkToppSampling(TopkToppLogprobsSamplingParam(MULTINOMIAL, randSeeds=range(8)), mode)
    first = operator(probs, topp, topk)[0].tolist()
    operator.param = replace(operator.param, randSeeds=range(10, 18))
    assert operator(probs, topp, topk)[0].tolist() != first
    operator.param = replace(operator.param, randSeeds=range(8))
    assert operator(probs, topp, topk)[0].tolist() == first
