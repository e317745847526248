"""What MindIE's `sample` interface refuses, and the bounds of what it takes."""

import numpy as np
import pytest
from engine_sampler_mindie import (
    InconsistencyError,
    OutOfBoundsError,
    Sampler,
    SamplingData,
    SamplingParam,
    UnsupportedTypeError,
    ValidationError,
)
from mindie_reference import LOGITS, VOCAB, param, penalised

from engine_sampler import ParameterError


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("repetition_penalty", 0.0),
        ("repetition_penalty", -1),
        ("repetition_penalty", np.nan),
        ("frequency_penalty", np.inf),
        ("presence_penalty", np.nan),
        ("temperature", -0.1),
        ("temperature", 2e6),
        ("top_k", -1),
        ("top_k", 2**31),
        ("top_p", -0.1),
        ("top_p", 1.1),
        ("seed", -2),
        ("seed", 2**63),
    ],
)
def test_a_value_outside_its_range_is_refused_by_name(field, value):
    with pytest.raises(OutOfBoundsError, match=f"{field}=.*row 1"):
        SamplingParam.from_numpy(**{field: np.array([1, value], np.uint64 if value == 2**63 else None)})


def test_the_bounds_of_the_ranges_are_allowed():
    SamplingParam.from_numpy(
        repetition_penalty=np.array([1e-3]),
        frequency_penalty=np.array([-2.0]),
        presence_penalty=np.array([2.0]),
        temperature=np.array([0.0]),
        top_k=np.array([0]),
        top_p=np.array([0.0]),
        seed=np.array([2**63 - 1]),
        do_sample=np.array([True]),
    )


@pytest.mark.parametrize(
    ("build", "error", "message"),
    [
        (lambda: SamplingParam(top_k=np.array([1.5])), UnsupportedTypeError, "top_k has dtype float64"),
        (lambda: SamplingParam(do_sample=np.array([1])), UnsupportedTypeError, "do_sample has dtype int64"),
        (lambda: SamplingParam(temperature=np.array(["a"])), UnsupportedTypeError, "temperature has dtype"),
        (lambda: SamplingParam(temperature=np.ones((2, 1))), InconsistencyError, "temperature has shape"),
        (
            lambda: SamplingParam(temperature=np.ones(2), top_k=np.ones(3, int)),
            InconsistencyError,
            "top_k has 3",
        ),
        (lambda: SamplingParam(top_p=np.ones(0)), OutOfBoundsError, "top_p has 0 rows"),
        (lambda: SamplingParam(to_tensor=3), UnsupportedTypeError, "to_tensor=3"),
        (lambda: SamplingData(np.ones(3, int)), InconsistencyError, "all_input_ids has shape"),
        (lambda: SamplingData(np.ones((1, 3))), UnsupportedTypeError, "all_input_ids has dtype"),
        (lambda: SamplingData(np.ones((1, 10**6 + 1), np.int8)), OutOfBoundsError, "1000001 tokens"),
        (lambda: SamplingData([[1]], [[1], [2]]), InconsistencyError, "output_ids has 2 rows"),
        (lambda: SamplingData([[1]], request_ids=[1, 2]), InconsistencyError, "all_input_ids has 1"),
        (lambda: SamplingData(request_ids=[1, 1]), InconsistencyError, "request_ids.*twice"),
        (lambda: SamplingData(request_ids=[1.0]), UnsupportedTypeError, "request_ids has dtype"),
        (lambda: SamplingData(is_prefill=None), UnsupportedTypeError, "is_prefill=None"),
        (lambda: SamplingData(is_prefill=1), UnsupportedTypeError, "is_prefill=1"),
        (lambda: Sampler(mode="other"), OutOfBoundsError, "mode='other'"),
        (lambda: Sampler(pad_token_id=1.5), UnsupportedTypeError, "pad_token_id=1.5"),
        (lambda: Sampler(backend="none"), ValueError, "backend='none'"),
    ],
)
def test_invalid_inputs_are_refused_at_construction(build, error, message):
    with pytest.raises(error, match=message):
        build()


@pytest.mark.parametrize(
    ("data", "settings", "error", "message"),
    [
        (None, param(temperature=[1.0]), InconsistencyError, "temperature has 1 rows"),
        (SamplingData([[1]]), None, InconsistencyError, "all_input_ids has 1 rows, logits has 4"),
        (SamplingData(request_ids=[1, 2]), None, InconsistencyError, "request_ids has 2 rows"),
        (SamplingData([[1], [2], [99], [3]]), None, OutOfBoundsError, "token id 99 in row 2"),
        (
            SamplingData([[1, 2]] * 4, [[1]] * 4),
            param(frequency_penalty=[1.0] * 4),
            InconsistencyError,
            "not the end of all_input_ids",
        ),
        (
            SamplingData([[1, 2]] * 4, [[1]] * 4),
            param(top_k=[3] * 4),
            InconsistencyError,
            "not the end of all_input_ids",
        ),
        (None, param(repetition_penalty=[2.0] * 4), InconsistencyError, "needs all_input_ids"),
        (
            SamplingData([[1]] * 4, is_prefill=False),
            param(frequency_penalty=[1.0] * 4),
            InconsistencyError,
            "frequency_penalty in row 0 needs output_ids",
        ),
        ({}, None, UnsupportedTypeError, "sampling_data of type dict"),
        (None, {}, UnsupportedTypeError, "sampling_param of type dict"),
    ],
)
def test_inputs_that_do_not_fit_the_batch_are_refused(data, settings, error, message):
    with pytest.raises(error, match=message):
        Sampler().sample(LOGITS, data, settings)


def test_greedy_rows_without_penalties_do_not_need_consistent_ids():
    sampler, best = Sampler(), LOGITS.argmax(axis=1).tolist()
    for ids in (None, [1, 2, 3, 4]):
        for step in range(2):
            data = SamplingData([[1, 2 + step]] * 4, [[1]] * 4, is_prefill=not step, request_ids=ids)
            assert sampler.sample(LOGITS, data)[0].tolist() == best
    data = SamplingData([[9, 8]] * 4, is_prefill=False, request_ids=[1, 2, 3, 4])
    assert sampler.sample(LOGITS, data)[0].tolist() == best
    data = SamplingData([[9, 8]] * 4, [[8]] * 4, is_prefill=False, request_ids=[1, 2, 3, 4])
    tokens, _ = sampler.sample(LOGITS, data, param(frequency_penalty=[1.0] * 4))
    assert tokens.tolist() == [penalised(row, [9, 8], [8], 1.0, 1.0).argmax() for row in LOGITS]


@pytest.mark.parametrize("pad", [-7, -2])
def test_a_pad_token_below_its_range_is_refused(pad):
    with pytest.raises(OutOfBoundsError, match=f"pad_token_id={pad} is not allowed: a token id from -1"):
        Sampler(pad_token_id=pad)


@pytest.mark.parametrize("pad", [VOCAB + 1, 10**9])
def test_a_pad_token_beyond_the_vocabulary_is_refused(pad):
    with pytest.raises(OutOfBoundsError, match=f"pad_token_id={pad} is not allowed: -1 to {VOCAB}"):
        Sampler(pad_token_id=pad).sample(LOGITS, SamplingData([[1]] * 4))


def test_a_pad_token_that_is_eos_is_a_token_wherever_it_stands():
    row = np.zeros((1, VOCAB), np.float32)
    row[0, 2], row[0, 5] = 3.0, 2.9
    ends_with_eos = SamplingData([[6, 2]], [[2]])
    settings = param(frequency_penalty=[1.0])
    assert Sampler(pad_token_id=2).sample(row, ends_with_eos, settings)[0] == 2
    assert Sampler(pad_token_id=2, eos_token_ids=[2]).sample(row, ends_with_eos, settings)[0] == 5
    for padding in (-1, VOCAB):
        padded_row = SamplingData([[6, 2, padding]], [[2, padding]])
        assert Sampler(pad_token_id=2, eos_token_ids=[2]).sample(row, padded_row, settings)[0] == 5


def test_wrong_logits_are_refused():
    with pytest.raises(TypeError, match="int64"):
        Sampler().sample(np.ones((2, 3), int))
    with pytest.raises(ValueError, match="shape"):
        Sampler().sample(np.ones(3, np.float32))
    with pytest.raises(OutOfBoundsError, match="0 rows"):
        Sampler().sample(np.ones((0, 3), np.float32))


def test_errors_have_the_base_classes_that_callers_of_either_side_expect():
    for error in (InconsistencyError, OutOfBoundsError, UnsupportedTypeError):
        assert issubclass(error, ValidationError)
        assert issubclass(error, ParameterError)
    assert issubclass(UnsupportedTypeError, TypeError)
