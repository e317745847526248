"""ATB's operator in both modes, compared with plain float64 definitions and the C library's rand()."""

from __future__ import annotations

import ctypes
import doctest
import platform
import re
import sys
from collections.abc import Callable
from dataclasses import replace
from itertools import islice
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from engine_sampler_mindie import atb as atb
from engine_sampler_mindie.atb import (
    REMOVED,
    TopkToppLogprobsSamplingParam,
    TopkToppSampling,
    TopkToppSamplingParam,
)
from engine_sampler_mindie.atb.leading import leading_tokens
from engine_sampler_mindie.atb.numbers import RAND_MAX, glibc_rand
from engine_sampler_mindie.atb.observed import running_sums
from engine_sampler_mindie.atb.rows import half_float_table

from engine_sampler import ParameterError, SamplingParams, process_logits, sample
from tests.chi_square import assert_drawn_from
from tests.random_chains import ROUNDS

SINGLE, MULTINOMIAL, EXPONENTIAL, MULTINOMIAL_LOGPROBS, EXPONENTIAL_LOGPROBS = (
    atb.TopkToppLogprobsSamplingType(i) for i in range(5)
)
FOUR = (0.5, 0.3, 0.15, 0.05)
SLACK = 3e-6
"""The distance of a float64 sum to topp below which the mode's slack of 2^-20 may decide."""


def probabilities(random: np.random.Generator, rows: int, vocab: int, spread: float = 2.0) -> np.ndarray:
    """Softmax rows in float16."""
    weights = np.exp(random.normal(0, spread, (rows, vocab)))
    return (weights / weights.sum(axis=1, keepdims=True)).astype(np.float16)


def column(values: Any, dtype: Any) -> np.ndarray:
    return np.asarray(values, dtype).reshape(-1, 1)


def order(p: np.ndarray) -> np.ndarray:
    return np.lexsort((np.arange(len(p)), -p.astype(np.float64)))


def nucleus(p: np.ndarray, k: int, topp: float) -> np.ndarray:
    """The documented set in order: the fewest of the first k tokens whose float64 sum reaches topp."""
    ids = order(p)[:k]
    sums = p[ids].astype(np.float64).cumsum()
    ids = ids[: int((sums < topp).sum()) + 1] if topp < 1 else ids
    return ids[p[ids] > 0]


def is_clear(p: np.ndarray, k: int, topp: float) -> bool:
    """Whether no sum of the row is so near to topp that the slack decides."""
    return topp >= 1 or bool(np.abs(p[order(p)[:k]].astype(np.float64).cumsum() - topp).min() > SLACK)


def bfloat16_values(p: np.ndarray) -> np.ndarray:
    """`p` truncated to bfloat16, as float32."""
    return (p.astype(np.float32).view(np.uint32) & 0xFFFF0000).view(np.float32)


def test_the_examples_of_the_docstring_run() -> None:
    assert doctest.testmod(atb) == (0, 10)


# --- parameters -----------------------------------------------------------------------------------


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


# --- tensors --------------------------------------------------------------------------------------

VALID = {
    "probs": np.tile(np.float16(FOUR), (2, 1)),
    "topp": column([0.9, 0.9], np.float16),
    "topk": column([2, 2], np.int32),
    "exp": np.ones((2, 4), np.float16),
    "rand": column([0.5, 0.5], np.float32),
}
INPUTS = {
    SINGLE: ["probs", "topp"],
    MULTINOMIAL: ["probs", "topk", "topp"],
    EXPONENTIAL: ["probs", "topk", "topp", "exp"],
    MULTINOMIAL_LOGPROBS: ["probs", "topk", "topp", "rand"],
    EXPONENTIAL_LOGPROBS: ["probs", "topk", "topp", "exp"],
}


def operator_of(kind: Any, mode: str = "documented", **changes: Any) -> TopkToppSampling:
    settings = {"topk": 2, "randSeeds": [1, 2], "logProbsSize": 3, **changes}
    return TopkToppSampling(TopkToppLogprobsSamplingParam(kind, **settings), mode)


@pytest.mark.parametrize("mode", ["documented", "observed"])
@pytest.mark.parametrize("kind", INPUTS)
def test_every_type_returns_its_outputs_in_their_shapes_and_dtypes(kind: Any, mode: str) -> None:
    operator = operator_of(kind, mode)
    inputs = {name: VALID[name] for name in INPUTS[kind]}
    results = operator(**inputs)
    shapes = [(r.shape, r.dtype) for r in results]
    logprobs = [((2, 3), np.float32)] if kind >= MULTINOMIAL_LOGPROBS else []
    assert shapes == [((2, 1), np.int32), ((2, 1), np.float16), *logprobs]
    np.testing.assert_array_equal(results[1], np.take_along_axis(VALID["probs"], results[0].astype(int), 1))
    for one, other in zip(results, operator.forward(list(inputs.values())), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    ("kind", "changes", "error"),
    [
        (SINGLE, {"topk": VALID["topk"]}, "takes probs, topp; given are probs, topk, topp"),
        (EXPONENTIAL, {"exp": None}, "takes probs, topk, topp, exp; given are probs, topk, topp"),
        (SINGLE, {"probs": VALID["probs"].astype(np.float32)}, "probs has dtype float32; allowed is float"),
        (SINGLE, {"probs": FOUR}, "probs has dtype tuple"),
        (SINGLE, {"probs": VALID["probs"][None]}, r"probs has shape \(1, 2, 4\)"),
        (SINGLE, {"probs": np.zeros((0, 4), np.float16)}, r"shape \(0, 4\)"),
        (SINGLE, {"topp": VALID["topp"].astype(np.float32)}, "topp has dtype float32; allowed is float16"),
        (SINGLE, {"topp": VALID["topp"][:, 0]}, r"topp has shape \(2,\); allowed is \(2, 1\)"),
        (MULTINOMIAL, {"topp": VALID["topp"][:1]}, r"topp has shape \(1, 1\); allowed is \(2, 1\)"),
        (MULTINOMIAL, {"topk": column([2, 2], np.int64)}, "topk has dtype int64; allowed is int32"),
        (MULTINOMIAL, {"topk": column([2] * 3, np.int32)}, r"topk has shape \(3, 1\)"),
        (EXPONENTIAL, {"exp": np.ones((2, 3), np.float16)}, r"exp has shape \(2, 3\)"),
        (EXPONENTIAL, {"exp": np.ones((2, 4), np.float32)}, "exp has dtype float32"),
        (MULTINOMIAL_LOGPROBS, {"rand": column([0.5, 0.5], np.float16)}, "rand has dtype float16"),
    ],
)  # fmt: skip
def test_bad_tensors_are_refused(kind: Any, changes: dict[str, Any], error: str) -> None:
    given = {name: VALID[name] for name in INPUTS[kind]} | changes
    with pytest.raises((TypeError, ValueError), match=error):
        operator_of(kind)(**given)


@pytest.mark.parametrize("mode", ["documented", "observed"])
@pytest.mark.parametrize(
    ("kind", "changes", "error"),
    [
        (SINGLE, {"probs": np.float16([FOUR, [0, 0, 0, 0]])}, "row 1 of probs is all 0"),
        (SINGLE, {"probs": np.float16([FOUR, [0, np.nan, 0, 1]])}, "row 1 of probs has nan"),
        (SINGLE, {"probs": np.float16([[0, 2, 0, 1], FOUR])}, r"row 0 of probs has 2\.0; allowed"),
        (SINGLE, {"probs": np.float16([[0, -0.5, 0, 1], FOUR])}, r"row 0 of probs has -0\.5"),
        (SINGLE, {"topp": column([0.9, 1.5], np.float16)}, r"topp has 1\.5; allowed are numbers from 0 to 1"),
        (SINGLE, {"topp": column([0.9, np.nan], np.float16)}, "topp has nan"),
        (MULTINOMIAL, {"topk": column([2, 5], np.int32)}, "topk has 5; allowed are numbers from 1 to 4"),
        (MULTINOMIAL, {"topk": column([2, -1], np.int32)}, "topk has -1"),
        (MULTINOMIAL, {"topk": column([2, 2.5], np.float16)}, "topk has a fraction"),
        (EXPONENTIAL, {"exp": np.float16([[1] * 4, [1, 1, -1, 1]])}, r"exp has -1\.0"),
        (EXPONENTIAL, {"exp": np.float16([[1, np.inf, 1, 1], [1] * 4])}, "exp has inf"),
        (MULTINOMIAL_LOGPROBS, {"rand": column([0.5, 1.5], np.float32)}, r"rand has 1\.5"),
        (MULTINOMIAL, {"topk": column([2, np.nan], np.float16)}, "topk has nan"),
    ],
)  # fmt: skip
def test_a_bad_row_costs_only_its_own_token(
    kind: Any, changes: dict[str, Any], error: str, mode: str, caplog: pytest.LogCaptureFixture
) -> None:
    given = {name: VALID[name] for name in INPUTS[kind]} | changes
    operator = operator_of(kind, mode)
    results = operator(**given)
    bad = next(i for i, text in enumerate(operator.errors) if text is not None)
    if mode == "documented" or "topk" not in changes:  # the other mode has its own limits of topk
        assert re.search(error, str(operator.errors[bad]))
        assert re.search(error, caplog.text)
    good = 1 - bad
    assert operator.errors[good] is None
    assert (results[0][bad, 0], results[1][bad, 0]) == (-1, 0)
    expected = operator_of(kind, mode)(**{name: VALID[name] for name in INPUTS[kind]})
    assert results[0][good] == expected[0][good]
    assert results[1][good] == VALID["probs"][good, results[0][good, 0]]
    for logprobs in results[2:]:
        assert (logprobs[bad] == REMOVED).all()
        assert (logprobs[good] > REMOVED).any()


def test_a_topk_of_0_is_no_documented_one() -> None:
    operator = operator_of(MULTINOMIAL)
    tokens = operator(VALID["probs"], VALID["topp"], column([2, 0], np.int32))[0]
    assert tokens[1, 0] == -1
    assert operator.errors == [None, "topk has 0; allowed are numbers from 1 to 4"]


def test_a_wrong_topp_for_all_rows_is_refused() -> None:
    with pytest.raises(ValueError, match=r"topp has 1\.5; allowed are numbers from 0 to 1"):
        operator_of(SINGLE)(VALID["probs"], column([1.5], np.float16))


def test_batches_may_have_any_number_of_rows() -> None:
    rows = 1300
    probs, topp = np.tile(np.float16(FOUR), (rows, 1)), column([0.9] * rows, np.float16)
    operator = TopkToppSampling(TopkToppSamplingParam(topk=3, randSeed=4))
    tokens = operator(probs, topp)[0]
    assert tokens.shape == (rows, 1)
    assert tokens[:512].tolist() == operator(probs[:512], topp[:512])[0].tolist()
    assert operator_of(SINGLE)(np.float16([[-0.0, 1.0]] * 2), VALID["topp"])[0].tolist() == [[1], [1]]


def test_parameters_that_do_not_fit_the_tensors_are_refused() -> None:
    given = {name: VALID[name] for name in ("probs", "topk", "topp")}
    with pytest.raises(ParameterError, match="randSeeds has 3 seeds; allowed is one for each of 2 rows"):
        operator_of(MULTINOMIAL, randSeeds=[1, 2, 3])(**given)
    with pytest.raises(ParameterError, match="logProbsSize=5 is not allowed: at most the 4 tokens"):
        operator_of(MULTINOMIAL_LOGPROBS, logProbsSize=5)(**given, rand=VALID["rand"])
    for topk in (0, 5):
        with pytest.raises(ValueError, match=f"topk has {topk}; allowed are numbers from 1 to 4"):
            operator_of(SINGLE, topk=topk)(VALID["probs"], VALID["topp"])
    with pytest.raises(ValueError, match="3 tensors are given; SINGLE_TOPK_SAMPLING takes probs, topp"):
        operator_of(SINGLE).forward([VALID["probs"]] * 3)


def test_observed_topk_is_an_index_so_it_may_be_zero_but_not_the_vocabulary() -> None:
    inputs = {name: VALID[name] for name in ("probs", "topp")}
    tokens = operator_of(MULTINOMIAL, "observed")(**inputs, topk=column([0, 0], np.int32))[0]
    assert tokens.tolist() == [[0], [0]]
    operator = operator_of(MULTINOMIAL, "observed")
    assert operator(**inputs, topk=column([3, 4], np.int32))[0][1, 0] == -1
    assert operator.errors == [None, "topk has 4; allowed are numbers from 0 to 3"]
    assert operator_of(SINGLE, "observed", topk=0)(**inputs)[0].shape == (2, 1)


@pytest.mark.parametrize("mode", ["documented", "observed"])
def test_one_topp_may_apply_to_all_rows_and_topk_may_be_float16(mode: str) -> None:
    single = operator_of(SINGLE, mode)
    for one, other in zip(
        single(VALID["probs"], VALID["topp"]), single(VALID["probs"], VALID["topp"][:1]), strict=True
    ):
        np.testing.assert_array_equal(one, other)
    seeded, given = operator_of(MULTINOMIAL, mode), (VALID["probs"], VALID["topp"])
    np.testing.assert_array_equal(
        seeded(*given, VALID["topk"])[0], seeded(*given, VALID["topk"].astype(np.float16))[0]
    )


@pytest.mark.parametrize("mode", ["documented", "observed"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("kind", INPUTS)
def test_torch_tensors_come_back_as_torch_tensors(kind: Any, dtype: str, mode: str) -> None:
    torch = pytest.importorskip("torch")
    half = getattr(torch, dtype)
    given = {name: torch.tensor(VALID[name]) for name in INPUTS[kind]}
    given |= {name: given[name].to(half) for name in ("probs", "topp", "exp") if name in given}
    tokens, chosen, *logprobs = operator_of(kind, mode)(**given)
    assert (tokens.dtype, chosen.dtype) == (torch.int32, half)
    assert [entry.dtype for entry in logprobs] == [torch.float32] * len(logprobs)
    assert torch.equal(chosen, given["probs"].gather(1, tokens.long()))


@pytest.mark.parametrize("mode", ["documented", "observed"])
def test_a_float16_topk_of_a_large_vocabulary_is_read_without_an_overflow(mode: str) -> None:
    probs, topp = np.full((2, 70_000), 2**-16, np.float16), VALID["topp"]
    operator = operator_of(MULTINOMIAL, mode)
    tokens = [operator(probs, topp, column([9, 60_000], dtype))[0].tolist() for dtype in ("f2", "i4")]
    assert tokens[0] == tokens[1]
    assert operator.errors == [None, None]


def test_a_float16_topk_that_may_have_been_rounded_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    probs, operator = np.full((2, 5000), 2**-12, np.float16), operator_of(MULTINOMIAL)
    operator(probs, VALID["topp"], column([1, 2048], np.float16))
    operator(probs, VALID["topp"], column([1, 2049], np.int32))
    assert not caplog.records
    for _ in range(2):
        operator(probs, VALID["topp"], column([1, 2050], np.float16))
    assert [record.getMessage() for record in caplog.records] == [
        "topk is above 2048 in float16, which rounds it: int32 is exact"
    ]


class MindSporeDtype:
    """A dtype that is spelled as MindSpore spells it."""

    def __init__(self, spelling: str) -> None:
        self.spelling = spelling

    def __str__(self) -> str:
        return self.spelling


class MindSporeTensor:
    """As much of MindSpore's tensor as is used. bfloat16 is held as float32."""

    def __init__(self, values: Any, dtype: MindSporeDtype | None = None) -> None:
        self.values = np.asarray(values)
        self.dtype = dtype or getattr(mindspore, self.values.dtype.name)

    def astype(self, dtype: MindSporeDtype) -> MindSporeTensor:
        name = str(dtype).lower()
        values = self.values.astype(np.float32 if name == "bfloat16" else name)
        return MindSporeTensor(bfloat16_values(values) if name == "bfloat16" else values, dtype)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        assert str(self.dtype) != "BFloat16"  # NumPy has none
        return self.values


mindspore = ModuleType("mindspore")
mindspore.Tensor = MindSporeTensor  # type: ignore[attr-defined]
for spelling in ("Float16", "BFloat16", "Float32", "Int32"):
    setattr(mindspore, spelling.lower(), MindSporeDtype(spelling))


@pytest.mark.parametrize("mode", ["documented", "observed"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("kind", INPUTS)
def test_tensors_of_mindspore_come_back_as_such(
    kind: Any, dtype: str, mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "mindspore", mindspore)
    half = getattr(mindspore, dtype)
    inputs = {name: MindSporeTensor(VALID[name]) for name in INPUTS[kind]}
    inputs |= {name: inputs[name].astype(half) for name in ("probs", "topp", "exp") if name in inputs}
    tokens, chosen, *logprobs = operator_of(kind, mode)(**inputs)
    assert (str(tokens.dtype), chosen.dtype) == ("Int32", half)
    assert [str(entry.dtype) for entry in logprobs] == ["Float32"] * len(logprobs)
    expected = np.take_along_axis(inputs["probs"].values, tokens.values.astype(np.int64), 1)
    np.testing.assert_array_equal(chosen.values, expected)
    if dtype == "float16":
        assert tokens.values.tolist() == operator_of(kind, mode)(**{n: VALID[n] for n in inputs})[0].tolist()


def test_rows_may_be_strided_and_are_not_written_to() -> None:
    random = np.random.default_rng(4)
    wide = probabilities(random, 16, 80)
    wide.flags.writeable = False
    operator, topp = (
        TopkToppSampling(TopkToppLogprobsSamplingParam(topk=9, randSeed=1)),
        column([0.9] * 8, np.float16),
    )
    np.testing.assert_array_equal(
        operator(wide[::-2, 3:60], topp)[0], operator(np.ascontiguousarray(wide[::-2, 3:60]), topp)[0]
    )


# --- the documented mode --------------------------------------------------------------------------

Draw = Callable[[np.ndarray, np.ndarray, np.ndarray, np.random.Generator], tuple[Any, ...]]


def by_seed(probs: np.ndarray, topk: np.ndarray, topp: np.ndarray, random: np.random.Generator) -> Any:
    param = TopkToppLogprobsSamplingParam(
        MULTINOMIAL, randSeeds=random.integers(2**32, size=len(probs)).tolist()
    )
    return TopkToppSampling(param)(probs, topp, topk)


def by_one_seed(probs: np.ndarray, topk: np.ndarray, topp: np.ndarray, random: np.random.Generator) -> Any:
    param = TopkToppLogprobsSamplingParam(topk=int(topk[0, 0]), randSeed=int(random.integers(2**32)))
    return TopkToppSampling(param)(probs, topp)


def by_given_number(
    probs: np.ndarray, topk: np.ndarray, topp: np.ndarray, random: np.random.Generator
) -> Any:
    rand = random.random((len(probs), 1), np.float32)
    return TopkToppSampling(TopkToppLogprobsSamplingParam(MULTINOMIAL_LOGPROBS))(probs, topp, topk, rand=rand)


def by_race(probs: np.ndarray, topk: np.ndarray, topp: np.ndarray, random: np.random.Generator) -> Any:
    exp = random.exponential(size=probs.shape).astype(np.float16)
    return TopkToppSampling(TopkToppLogprobsSamplingParam(EXPONENTIAL))(probs, topp, topk, exp=exp)


@pytest.mark.parametrize("draw", [by_seed, by_one_seed, by_given_number, by_race])
@pytest.mark.parametrize(
    ("p", "k", "topp"),
    [
        (FOUR, 4, 0.81),
        (FOUR, 3, 1.0),
        ((0.25, 0.25, 0.25, 0.125, 0.125), 4, 0.74),
    ],
)
def test_every_way_of_drawing_follows_the_documented_distribution(
    draw: Draw, p: tuple[float, ...], k: int, topp: float
) -> None:
    random, rows = np.random.default_rng(7), 512
    probs = np.tile(np.float16(p), (rows, 1))
    kept = nucleus(probs[0], k, float(np.float16(topp)))
    shares = np.zeros(len(p))
    shares[kept] = probs[0, kept].astype(np.float64)
    tokens = draw(probs, column([k] * rows, np.int32), column([topp] * rows, np.float16), random)[0]
    assert_drawn_from(shares / shares.sum(), tokens.ravel())


@pytest.mark.parametrize("topp", [0.0, 0.3, 0.75, 0.9, 1.0])
def test_a_sum_that_equals_topp_is_enough_and_ties_go_to_the_lower_id(topp: float) -> None:
    probs = np.float16([[0.125, 0.25, 0.25, 0.25, 0.125]])
    kept = nucleus(probs[0], 5, float(np.float16(topp)))
    operator = TopkToppSampling(TopkToppLogprobsSamplingParam(MULTINOMIAL_LOGPROBS, logProbsSize=5))
    given = (column([topp], np.float16), column([5], np.int32))
    points = (np.arange(16) + 0.5) / 16
    tokens = {int(operator(probs, *given, rand=column([u], np.float32))[0][0, 0]) for u in points}
    assert tokens == set(kept.tolist())
    logprobs = operator(probs, *given, rand=column([0], np.float32))[2][0]
    assert (logprobs > REMOVED).sum() == len(kept)


def test_a_given_number_is_a_point_in_the_sorted_cumulative_distribution() -> None:
    probs = np.float16([[0.125, 0.5, 0.25, 0.125]])
    operator = TopkToppSampling(TopkToppLogprobsSamplingParam(MULTINOMIAL_LOGPROBS))
    points = {0: 1, 0.49: 1, 0.5: 2, 0.74: 2, 0.75: 0, 0.87: 0, 0.875: 3, 1: 3}
    for u, token in points.items():
        given = column([1.0], np.float16), column([4], np.int32)
        assert operator(probs, *given, rand=column([u], np.float32))[0].tolist() == [[token]]


def test_exponential_noise_is_indexed_by_token_id() -> None:
    probs, exp = np.float16([[0.125, 0.5, 0.375]]), np.float16([[0.0625, 4, 1]])
    operator = TopkToppSampling(TopkToppLogprobsSamplingParam(EXPONENTIAL))
    given = column([1.0], np.float16)
    assert operator(probs, given, column([3], np.int32), exp)[0].tolist() == [[0]]
    assert operator(probs, given, column([2], np.int32), exp)[0].tolist() == [[2]]
    exp[0, 1] = 0
    assert operator(probs, given, column([3], np.int32), exp)[0].tolist() == [[1]]


def test_logprobs_are_those_of_the_kept_tokens_and_add_up_to_one() -> None:
    random = np.random.default_rng(3)
    probs = probabilities(random, 6, 50)
    topk, topp = column([50, 10, 10, 3, 1, 20], np.int32), column([0.6, 1, 0.8, 0.9, 0.9, 0.97], np.float16)
    operator = TopkToppSampling(TopkToppLogprobsSamplingParam(EXPONENTIAL_LOGPROBS, logProbsSize=20))
    logprobs = operator(probs, topp, topk, random.exponential(size=probs.shape).astype(np.float16))[2]
    for i, row in enumerate(logprobs):
        kept = nucleus(probs[i], int(topk[i, 0]), float(topp[i, 0]))[:20]
        shares = probs[i, kept].astype(np.float64)
        np.testing.assert_allclose(row[: len(kept)], np.log(shares / shares.sum()), rtol=1e-5)
        assert (row[len(kept) :] == REMOVED).all()


def test_a_row_with_its_own_seed_draws_the_same_in_any_batch() -> None:
    random = np.random.default_rng(9)
    probs, seeds = probabilities(random, 12, 300, 0.5), random.integers(2**32, size=12).tolist()
    topk, topp = column([200] * 12, np.int32), column([1] * 12, np.float16)

    def tokens(rows: list[int]) -> list[int]:
        param = TopkToppLogprobsSamplingParam(MULTINOMIAL, randSeeds=[seeds[i] for i in rows])
        return TopkToppSampling(param)(probs[rows], topp[rows], topk[rows])[0].ravel().tolist()

    together = tokens(list(range(12)))
    assert [tokens([i])[0] for i in range(12)] == together
    assert tokens(list(range(11, -1, -1))) == together[::-1]


@pytest.mark.parametrize("topk", [1, 40, 3000])
def test_seeded_draws_are_those_of_the_library(topk: int) -> None:
    random = np.random.default_rng(topk)
    probs, seeds = probabilities(random, 40, 3000, 1.5), random.integers(2**32, size=40).tolist()
    logits = half_float_table(False).logits[probs.view(np.uint16)]
    params = [SamplingParams(top_k=topk, seed=seed) for seed in seeds]
    operator = TopkToppSampling(TopkToppSamplingParam(MULTINOMIAL, randSeeds=seeds))
    tokens = operator(probs, column([1] * 40, np.float16), column([topk] * 40, np.int32))[0]
    assert tokens.ravel().tolist() == sample(logits, params, positions=[0] * 40).token_ids.tolist()
    operator.param = TopkToppSamplingParam(randSeed=7, topk=topk)
    params = [SamplingParams(top_k=topk, seed=7)] * 40
    tokens = operator(probs, column([1], np.float16))[0]
    assert tokens.ravel().tolist() == sample(logits, params, positions=range(40)).token_ids.tolist()


@pytest.mark.parametrize(("k", "topp"), [(2, 0.66), (3, 0.66), (3, 0.97), (1, 0.9), (4, 1.0), (40, 0.8)])
def test_top_p_before_top_k_keeps_the_same_tokens(k: int, topp: float) -> None:
    random = np.random.default_rng(k)
    shares = np.round(random.dirichlet(np.ones(60), 20) * 1024) / 1024
    shares[:, 0] += 1 - shares.sum(axis=1)  # exact in float16, and in sum
    probs = np.vstack([np.pad([0.5, 0.25, 0.125, 0.125], (0, 56)), np.abs(shares)]).astype(np.float16)
    params = SamplingParams(top_k=k, top_p=float(np.float16(topp)), order=("top_p", "top_k"))
    logits = half_float_table(False).logits[probs.view(np.uint16)]
    kept = np.isfinite(process_logits(logits, params))
    for row, mask in zip(probs, kept, strict=True):
        if is_clear(row, k, float(np.float16(topp))):
            expected = nucleus(row, k, float(np.float16(topp)))
            assert sorted(expected.tolist()) == np.flatnonzero(mask).tolist()
    assert k != 2 or np.flatnonzero(kept[0]).tolist() == [0, 1]


def test_topp_refers_to_the_probabilities_as_given() -> None:
    short = np.float16([[0.25, 0.125, 0.0625, 0.0625]])  # they add up to one half
    operator = TopkToppSampling(TopkToppLogprobsSamplingParam(EXPONENTIAL_LOGPROBS, logProbsSize=4))
    for topp, count in ((0.25, 1), (0.3, 2), (0.5, 4), (0.9, 4)):
        logprobs = operator(short, column([topp], np.float16), column([4], np.int32), np.ones_like(short))[2]
        assert (logprobs > REMOVED).sum() == count


# --- the observed mode ----------------------------------------------------------------------------


def libc() -> Any:
    if platform.libc_ver()[0] != "glibc":
        pytest.skip("rand() of glibc is not available")
    return ctypes.CDLL(None)


@pytest.mark.parametrize("seed", [0, 1, 2, 12345, 127773, 2**31 - 1, 2**31, 2**31 + 5, 2**32 - 1])
def test_rand_returns_the_numbers_of_glibc(seed: int) -> None:
    library = libc()
    library.srand(ctypes.c_uint(seed))
    assert list(islice(glibc_rand(seed), 400)) == [library.rand() for _ in range(400)]


def test_the_first_number_after_the_seeds_0_and_1_is_the_known_one() -> None:
    assert f"{next(glibc_rand(1)) / RAND_MAX:.6f}" == "0.840188"
    assert list(islice(glibc_rand(0), 9)) == list(islice(glibc_rand(1), 9))


def observed_reference(
    p: np.ndarray, k: int, topp: float, u: float | None, exp: np.ndarray | None, exactly_k: bool
) -> int:
    """The token, computed step by step over the whole zero-filled row with float16 scalars."""
    ids = order(p)
    values = p[ids].copy()
    if exactly_k:
        values[k:] = 0
    else:
        values[values < values[k]] = 0
    sums, total = [], np.float16(0)
    for value in values:
        total = np.float16(total + value)
        sums.append(float(total))
    if u is None:
        best, token = 0.0, int(ids[0])
        for rank, value in enumerate(values):
            if sums[rank] <= topp and float(value) / float(exp[rank]) > best:
                best, token = float(value) / float(exp[rank]), int(ids[rank])
        return token
    below = sum(s < topp for s in sums)
    cut = np.float32(sums[max(below - 1, 0)]) * np.float32(u)
    return int(ids[sum(s <= cut for s in sums)])


@pytest.mark.parametrize("vocab", [1, 2, 7, 300])
def test_observed_tokens_match_the_scalar_model(vocab: int) -> None:
    random, rows = np.random.default_rng(vocab), 24
    probs = probabilities(random, rows, vocab)
    probs[::3] = np.round(probs[::3].astype(np.float32) * 64) / 64 + np.float16(1 / 512)  # ties
    probs = np.minimum(probs, np.float16(1))
    topp = column(random.uniform(0, 1, rows), np.float16)
    topk = column(random.integers(0, vocab, rows), np.int32)
    exp = random.exponential(size=probs.shape).astype(np.float16) + np.float16(0.01)
    rand = column(random.random(rows), np.float32)
    seeds = random.integers(2**32, size=rows).tolist()
    numbers = glibc_rand(seeds[0])
    shares = {
        SINGLE: [next(numbers) / RAND_MAX for _ in range(rows)],
        MULTINOMIAL: [next(glibc_rand(seed)) / RAND_MAX for seed in seeds],
        MULTINOMIAL_LOGPROBS: rand[:, 0].tolist(),
    }
    for kind, names in INPUTS.items():
        param = TopkToppLogprobsSamplingParam(kind, seeds, seeds[0], topk=(vocab + 1) // 2)
        all_given = {"probs": probs, "topk": topk, "topp": topp, "exp": exp, "rand": rand}
        tokens = TopkToppSampling(param, "observed")(**{name: all_given[name] for name in names})[0]
        for i, token in enumerate(tokens.ravel().tolist()):
            k = param.topk if kind == SINGLE else int(topk[i, 0])
            u = shares[kind][i] if kind in shares else None
            assert token == observed_reference(probs[i], k, float(topp[i, 0]), u, exp[i], kind == SINGLE)


def test_observed_draws_match_the_known_examples() -> None:
    rows = 128
    probs = np.tile(np.float16(FOUR), (rows, 1))

    def drawn(kind: Any, mode: str, topp: float, topk: int) -> set[int]:
        given = {"topp": column([topp] * rows, np.float16), "topk": column([topk] * rows, np.int32)}
        if kind == EXPONENTIAL:
            exp = np.random.default_rng(1).exponential(size=probs.shape).astype(np.float16)
            given["exp"] = np.maximum(exp, np.float16(0.001))
        operator = TopkToppSampling(TopkToppLogprobsSamplingParam(kind, randSeeds=range(rows)), mode)
        return set(operator(probs, **given)[0].ravel().tolist())

    assert drawn(MULTINOMIAL, "observed", 0.81, 3) == {0, 1}
    assert drawn(MULTINOMIAL, "documented", 0.81, 3) == {0, 1, 2}
    assert drawn(MULTINOMIAL, "observed", 1.0, 1) == {0, 1}
    assert drawn(MULTINOMIAL, "documented", 1.0, 1) == {0}
    assert drawn(EXPONENTIAL, "observed", 0.79, 3) == {0}
    assert drawn(EXPONENTIAL, "documented", 0.79, 3) == {0, 1}


def test_observed_seeds_0_and_1_draw_alike() -> None:
    random = np.random.default_rng(2)
    probs, topp = probabilities(random, 64, 900, 0.3), column([1] * 64, np.float16)
    tokens = [
        TopkToppSampling(TopkToppLogprobsSamplingParam(topk=800, randSeed=seed), "observed")(probs, topp)[
            0
        ].tolist()
        for seed in (0, 1, 2)
    ]
    assert tokens[0] == tokens[1] != tokens[2]


def test_observed_multinomial_draws_follow_the_head_below_topp() -> None:
    """rand() is not a strong generator, but good enough for this many numbers of one stream."""
    probs, topp = np.tile(np.float16(FOUR), (512, 1)), column([0.96] * 512, np.float16)
    operator = TopkToppSampling(TopkToppLogprobsSamplingParam(topk=4, randSeed=5), "observed")
    p = probs[0, :3].astype(np.float64)
    assert_drawn_from(np.append(p / p.sum(), 0), operator(probs, topp)[0].ravel())


def test_observed_logprobs_are_divided_by_the_rounded_sum_of_the_head() -> None:
    probs = np.float16([FOUR])
    operator = TopkToppSampling(
        TopkToppLogprobsSamplingParam(MULTINOMIAL_LOGPROBS, logProbsSize=4), "observed"
    )
    given = column([0.96], np.float16), column([3], np.int32)
    logprobs = operator(probs, *given, rand=column([0.3], np.float32))[2][0]
    p = probs[0].astype(np.float64)
    base = float(np.float16(np.float16(probs[0, 0] + probs[0, 1]) + probs[0, 2]))
    np.testing.assert_allclose(logprobs, [*np.log(p[:3] / base), REMOVED], rtol=1e-6)
    alone = operator(probs, column([0.1], np.float16), given[1], rand=column([0.3], np.float32))[2][0]
    np.testing.assert_allclose(alone, [0, REMOVED, REMOVED, REMOVED])


def test_observed_sums_stop_growing_in_a_long_tail() -> None:
    tail = np.full(60_000, 1 / 60_000, np.float16)
    assert running_sums(tail.astype(np.float32)[None], bfloat16=False)[0, -1] < 0.1
    random = np.random.default_rng(6)
    values = bfloat16_values(np.sort(probabilities(random, 1, 400)[0])[::-1])
    total, expected = np.float32(0), []
    for value in values:
        low, high = bfloat16_values(np.float32([total + value]))[0], None
        high = (np.float32([low]).view(np.uint32) + np.uint32(0x10000)).view(np.float32)[0]
        exact, middle = float(total) + float(value), (float(low) + float(high)) / 2
        even = np.float32([low]).view(np.uint32)[0] >> 16 & 1 == 0
        total = low if exact < middle or (exact == middle and even) else high
        expected.append(float(total))
    assert running_sums(values[None], bfloat16=True)[0].tolist() == expected


# --- the likeliest tokens -------------------------------------------------------------------------


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize(("vocab", "levels"), [(1, 3), (50, 4), (9000, 30), (9000, 60_000), (40_000, 5000)])
def test_leading_tokens_are_those_of_a_full_sort(vocab: int, levels: int, ties: bool) -> None:
    random = np.random.default_rng(levels)
    counts = random.integers(1, min(vocab, 300) + 1, 12)
    bits = random.integers(0, levels, (12, vocab)).astype(np.uint16)
    bits[:, 0] = np.maximum(bits[:, 0], 1)
    bits[3, 5:] = 0
    leading = leading_tokens(bits, counts, ties)
    for row, count in enumerate(counts.tolist()):
        expected = np.lexsort((np.arange(vocab), -bits[row].astype(int)))
        expected = expected[bits[row, expected] > 0]
        if ties and count <= len(expected):
            last = bits[row, expected[count - 1]]
            count = int((bits[row] >= last).sum())
        size = int(leading.counts[row])
        assert leading.ids[row, :size].tolist() == expected[:count].tolist()
        assert leading.bits[row, :size].tolist() == bits[row, expected[:count]].tolist()
        assert not leading.bits[row, size:].any()
        in_order = leading.by_id()
        assert in_order.ids[row, :size].tolist() == sorted(expected[:count].tolist())


@pytest.mark.parametrize(("topp", "kept"), [(0.5, 1), (0.75, 2), (0.875, 3), (1.0, 4)])
def test_a_sum_that_is_exactly_topp_ends_the_head(topp: float, kept: int) -> None:
    probs = np.float16([[0.5, 0.25, 0.125, 0.125]])
    operator = TopkToppSampling(TopkToppLogprobsSamplingParam(EXPONENTIAL_LOGPROBS, logProbsSize=4))
    logprobs = operator(probs, column([topp], np.float16), column([4], np.int32), np.ones_like(probs))[2]
    assert (logprobs > REMOVED).sum() == kept


# --- the vendor's own sizes -----------------------------------------------------------------------

EXAMPLES = [
    (SINGLE, 8, 1024, 100), (SINGLE, 8, 1024, 200), (SINGLE, 1, 100, 1), (SINGLE, 1, 1000, 100),
    (EXPONENTIAL, 1, 100, 50), (MULTINOMIAL, 512, 1000, 661), (MULTINOMIAL, 512, 1000, 150),
    (MULTINOMIAL_LOGPROBS, 64, 1024, 500), (EXPONENTIAL_LOGPROBS, 1, 512, 511),
]  # fmt: skip
WIDE = [
    (kind, vocab)
    for kind in (SINGLE, MULTINOMIAL, EXPONENTIAL)
    for vocab in (32_000, 65_024, 92_367, 100_352, 128_000, 158_464, 182_744, 254_208)
]


def check_documented(kind: Any, probs: np.ndarray, k: int, topp: float, size: int = 0) -> None:
    """Every token is in the reference's set; the race's winner and logprobs equal the reference's."""
    probs = np.stack([p for p in probs if is_clear(p, k, float(np.float16(topp)))])
    rows, random = len(probs), np.random.default_rng(k)
    exp = np.maximum(random.exponential(size=probs.shape), 1e-3).astype(np.float16)
    rand = random.random((rows, 1), np.float32)
    given = {
        "probs": probs, "topk": column([k] * rows, np.int32), "topp": column([topp] * rows, np.float16),
        "exp": exp, "rand": rand,
    }  # fmt: skip
    param = TopkToppLogprobsSamplingParam(kind, range(rows), 3, k, size)
    tokens, chosen, *logprobs = TopkToppSampling(param)(**{name: given[name] for name in INPUTS[kind]})
    np.testing.assert_array_equal(chosen, np.take_along_axis(probs, tokens.astype(np.int64), 1))
    for i in range(rows):
        kept = np.sort(nucleus(probs[i], k, float(np.float16(topp))))
        assert tokens[i, 0] in kept
        if "exp" in INPUTS[kind]:
            ratios = probs[i, kept].astype(np.float64) / exp[i, kept].astype(np.float64)
            assert tokens[i, 0] == kept[ratios.argmax()]
        if logprobs:
            shares = np.sort(probs[i, kept].astype(np.float64))[::-1]
            row = logprobs[0][i]
            np.testing.assert_allclose(row[: len(kept)], np.log(shares / shares.sum())[:size], rtol=1e-3)
            assert (row[len(kept) :] == REMOVED).all()


@pytest.mark.parametrize(("kind", "rows", "vocab", "k"), EXAMPLES)
def test_the_vendors_examples_agree_with_a_plain_reference(kind: Any, rows: int, vocab: int, k: int) -> None:
    topp = 0.2 if k == 1 else 0.9
    probs = probabilities(np.random.default_rng(vocab + k), rows, vocab)
    check_documented(kind, probs, k, topp, {64: 500, 1: 512}[rows] if kind >= MULTINOMIAL_LOGPROBS else 0)


@pytest.mark.parametrize(("kind", "vocab"), WIDE)
def test_wide_vocabularies_agree_with_a_plain_reference(kind: Any, vocab: int) -> None:
    probs = probabilities(np.random.default_rng(vocab), ROUNDS, vocab, 3.0)
    check_documented(kind, probs, 1000, 0.5)


@pytest.mark.parametrize("vocab", [512, 32_000, 128_000])
def test_bfloat16_rows_agree_with_a_plain_reference(vocab: int) -> None:
    torch = pytest.importorskip("torch")
    random = np.random.default_rng(vocab)
    probs = bfloat16_values(probabilities(random, 6, vocab, 3.0))
    exp = bfloat16_values(np.maximum(random.exponential(size=probs.shape), 1e-3).astype(np.float32))
    topp = np.float32(0.59765625)  # a bfloat16
    operator = TopkToppSampling(TopkToppLogprobsSamplingParam(EXPONENTIAL))
    tokens, chosen = operator(
        *(torch.tensor(array).bfloat16() for array in (probs, column([topp] * 6, np.float32))),
        torch.full((6, 1), 500, dtype=torch.int32),
        torch.tensor(exp).bfloat16(),
    )
    assert sum(is_clear(p, 500, float(topp)) for p in probs) >= 4
    for i, p in enumerate(probs):
        if is_clear(p, 500, float(topp)):
            kept = np.sort(nucleus(p, 500, float(topp)))
            token = kept[(p[kept].astype(np.float64) / exp[i, kept]).argmax()]
            assert (int(tokens[i, 0]), float(chosen[i, 0])) == (token, p[token])


@pytest.mark.parametrize("mode", ["documented", "observed"])
@pytest.mark.parametrize(
    ("vocab", "size"), [(16384, 0), (16384, 7), (16384, 16384), (65536, 100), (92367, 9)]
)
def test_logprobs_come_in_any_size_up_to_the_limit(vocab: int, size: int, mode: str) -> None:
    probs = probabilities(np.random.default_rng(size), 2, vocab)
    operator = TopkToppSampling(TopkToppLogprobsSamplingParam(MULTINOMIAL_LOGPROBS, logProbsSize=size), mode)
    given = {"topp": column([0.9] * 2, np.float16), "topk": column([vocab - 1] * 2, np.int32)}
    logprobs = operator(probs, **given, rand=column([0.1, 0.9], np.float32))[2]
    assert logprobs.shape == (2, size)
    kept = logprobs[0][logprobs[0] > REMOVED]
    assert (np.diff(kept) <= 0).all()
