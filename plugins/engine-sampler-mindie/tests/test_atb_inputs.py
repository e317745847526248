"""The tensors of ATB's operator: their shapes, types and libraries, what is refused, and wrong rows."""

from __future__ import annotations

import re
import sys
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from atb_operators import (
    EXPONENTIAL,
    FOUR,
    INPUTS,
    MULTINOMIAL,
    MULTINOMIAL_LOGPROBS,
    SINGLE,
    bfloat16_values,
    column,
    probabilities,
)
from engine_sampler_mindie import atb as atb
from engine_sampler_mindie.atb import (
    REMOVED,
    TopkToppLogprobsSamplingParam,
    TopkToppSampling,
    TopkToppSamplingParam,
)

from engine_sampler import ParameterError

VALID = {
    "probs": np.tile(np.float16(FOUR), (2, 1)),
    "topp": column([0.9, 0.9], np.float16),
    "topk": column([2, 2], np.int32),
    "exp": np.ones((2, 4), np.float16),
    "rand": column([0.5, 0.5], np.float32),
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
