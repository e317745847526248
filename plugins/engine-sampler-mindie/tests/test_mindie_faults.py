"""Known faults of MindIE's own sampler, each with a test that this one does not have it.

One is tested elsewhere: that the first stop string in the list wins, not the first in the text, concerns
stopping criteria.
"""

import re
import warnings

import numpy as np
import pytest
from engine_sampler_mindie import (
    InconsistencyError,
    OutOfBoundsError,
    Sampler,
    SamplingData,
    SamplingMetadata,
    SamplingParam,
    UnsupportedTypeError,
)
from mindie_reference import processed

from engine_sampler import ParameterError
from tests.chi_square import assert_drawn_from

VOCAB = 16
LOGITS = np.random.default_rng(3).normal(size=(6, VOCAB)).astype(np.float32)
FLAT = np.zeros((6, VOCAB), np.float32)


def test_top_k_of_greedy_rows_has_no_effect_whether_odd_or_even():
    top_k = np.array([1, 2, 3, 4, 5, 6])
    do_sample = np.array([False] * 5 + [True])
    sampler = Sampler(mode="observed")  # the document makes such rows sample
    tokens, _ = sampler.sample(LOGITS, None, SamplingParam(top_k=top_k, do_sample=do_sample))
    assert tokens[:5].tolist() == LOGITS[:5].argmax(axis=1).tolist()
    drawn = {
        int(
            Sampler().sample(
                FLAT, None, SamplingParam(top_k=top_k, do_sample=do_sample, seed=np.full(6, seed))
            )[0][5]
        )
        for seed in range(120)
    }
    assert drawn == set(range(6))  # the sampled row's own k applies


def test_a_temperature_of_0_causes_no_division_by_0():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        metadata = SamplingMetadata.from_numpy(
            [[1], [2]], temperature=np.array([0.0, 1.5]), seeds=np.array([1, 2])
        )
        output = Sampler().sample(LOGITS[:2], metadata)
        tokens, scores = Sampler().sample(LOGITS[:2], None, SamplingParam(temperature=np.array([0.0, 1.5])))
    assert output.token_ids[0] == tokens[0] == LOGITS[0].argmax()
    assert np.isfinite(scores).all()


@pytest.mark.parametrize("given", ["repetition_penalty", "frequency_penalty", "presence_penalty", None])
def test_each_penalty_may_be_omitted(given):
    param = SamplingParam(**({given: np.full(6, 1.5)} if given else {}))
    data = SamplingData(np.tile([1, 2, 3], (6, 1)), np.tile([3], (6, 1)))
    tokens, _ = Sampler().sample(LOGITS, data, param)
    assert (tokens >= 0).all()


def test_every_token_is_drawn_with_its_own_probability():
    count = 2000
    rows = np.repeat(LOGITS[:1], count, axis=0)
    tokens, _ = Sampler().sample(
        rows, None, SamplingParam(do_sample=np.full(count, True), seed=np.arange(count))
    )
    assert_drawn_from(processed(LOGITS[0], [], []), tokens)


def test_a_seed_gives_another_draw_at_every_step():
    sampler = Sampler()
    param = SamplingParam(do_sample=np.full(6, True), seed=np.full(6, 5))
    ids = np.arange(6)
    steps = [
        sampler.sample(FLAT, SamplingData(is_prefill=step == 0, request_ids=ids), param)[0].tolist()
        for step in range(400)
    ]
    assert_drawn_from(np.full(VOCAB, 1 / VOCAB), np.array(steps)[:, 0])
    assert all(len(set(step)) == 1 for step in steps)  # same seed and position, same token


def test_a_seed_is_refused_at_a_decode_step_whose_position_is_unknown():
    param = SamplingParam(do_sample=np.full(6, True), seed=np.full(6, 5))
    with pytest.raises(InconsistencyError, match="every step would draw the same number"):
        Sampler().sample(FLAT, SamplingData(is_prefill=False), param)


def test_all_63_bits_of_a_seed_matter():
    flat = np.zeros((64, VOCAB), np.float32)
    all_rows = np.full(64, True)
    low = SamplingParam(do_sample=all_rows, seed=np.arange(64))
    high = SamplingParam(do_sample=all_rows, seed=np.arange(64) + 2**31)
    assert Sampler().sample(flat, None, low)[0].tolist() != Sampler().sample(flat, None, high)[0].tolist()


@pytest.mark.parametrize(
    ("mask", "error"),
    [
        (np.zeros((2, 2), np.int32), InconsistencyError),
        (np.zeros((3, 1), np.int32), InconsistencyError),
        (np.zeros((2, 1), np.int64), UnsupportedTypeError),
        (np.zeros((2, 1), np.float32), UnsupportedTypeError),
    ],
)
def test_a_grammar_mask_that_cannot_be_applied_is_an_error_and_never_ignored(mask, error):
    metadata = SamplingMetadata.from_numpy([[1], [2]])
    metadata.guided_bitmask = mask
    with pytest.raises(error, match="guided_bitmask"):
        Sampler().sample(LOGITS[:2], metadata)


def test_a_grammar_mask_that_allows_nothing_gives_no_token(caplog):
    metadata = SamplingMetadata.from_numpy([[1], [2]])
    metadata.guided_bitmask = np.array([[0], [1 << 3]], np.int32)
    output = Sampler().sample(LOGITS[:2], metadata)
    assert output.token_ids.tolist() == [-1, 3]
    assert output.is_structured_accepted.tolist() == [False, True]
    assert "row 0" in caplog.text


def test_changed_settings_take_effect_at_once():
    sampler = Sampler()
    metadata = SamplingMetadata.from_numpy([[1], [2]], temperature=np.full(2, 50.0), seeds=np.array([1, 2]))
    sampler.sample(FLAT[:2], metadata)
    metadata.temperature = np.zeros(2, np.float32)
    metadata.is_prefill = False
    assert sampler.sample(LOGITS[:2], metadata).token_ids.tolist() == LOGITS[:2].argmax(axis=1).tolist()


def test_the_fields_of_the_pair_cannot_change_after_construction():
    temperature = np.full(6, 50.0)
    param = SamplingParam(temperature=temperature)
    temperature[:] = 0
    assert param.temperature.tolist() == [50.0] * 6
    with pytest.raises(AttributeError):
        param.temperature = temperature
    with pytest.raises(ValueError, match="read-only"):
        param.temperature[0] = 0


def test_no_input_is_written_to():
    arrays = {
        "repetition_penalty": np.full(6, 1.5, np.float32),
        "frequency_penalty": np.full(6, 0.5, np.float32),
        "presence_penalty": np.full(6, 0.5, np.float32),
        "temperature": np.array([0, 1, 2, 0, 1, 2], np.float32),
        "top_k": np.array([0, 1, 2, 3, 4, 5]),
        "top_p": np.full(6, 0.9, np.float32),
        "seed": np.arange(6),
        "do_sample": np.array([True, True, False, False, True, True]),
    }
    ids = {"all_input_ids": np.tile([1, 2, VOCAB], (6, 1)), "output_ids": np.tile([2, VOCAB], (6, 1))}
    requests, logits, mask = np.arange(6), LOGITS.copy(), np.full((6, 1), -1, np.int32)
    inputs = [*arrays.values(), *ids.values(), requests, logits, mask]
    before = [array.copy() for array in inputs]
    Sampler().sample(
        logits, SamplingData.from_numpy(**ids, request_ids=requests), SamplingParam.from_numpy(**arrays)
    )
    seeds = arrays.pop("seed")
    metadata = SamplingMetadata.from_numpy(requests[:, None], **arrays, seeds=seeds)
    metadata.update_token_ids(ids["all_input_ids"], ids["output_ids"])
    metadata.guided_bitmask = mask
    Sampler().sample(logits, metadata)
    assert all(np.array_equal(a, b) for a, b in zip(inputs, before, strict=True))


def test_the_result_is_compared_with_the_formula_not_just_computed():
    all_ids, output = [1, 2, 9, 9], [9, 9]
    count = 1000
    settings = {"repetition_penalty": 1.3, "frequency_penalty": 0.2, "presence_penalty": 0.1,
                "temperature": 1.7, "top_k": 11, "top_p": 0.9}  # fmt: skip
    param = SamplingParam(
        **{name: np.full(count, value) for name, value in settings.items()}, seed=np.arange(count)
    )
    data = SamplingData(np.tile(all_ids, (count, 1)), np.tile(output, (count, 1)))
    tokens, logprobs = Sampler().sample(np.repeat(LOGITS[1:2], count, axis=0), data, param)
    golden = processed(LOGITS[1], all_ids, output, 1.3, 0.2, 0.1, 1.7, 11, 0.9)
    assert_drawn_from(golden, tokens)
    np.testing.assert_allclose(logprobs, np.log(golden[tokens]), atol=2e-5)


class Unreadable:
    """A tensor without data, as torch's on the device "meta"."""

    dtype, layout, device = "float32", "strided", "meta"

    def __array__(self, dtype=None, copy=None):
        raise NotImplementedError("Cannot copy out of meta tensor; no data!\nmore")


UNREADABLE = (
    r"Unreadable \(dtype float32, layout strided, device meta\) is not an array: Cannot copy .* data!$"
)


@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("temperature", lambda values: SamplingParam(temperature=values)),
        ("all_input_ids", lambda values: SamplingData(values)),
        ("seeds", lambda values: SamplingMetadata.from_numpy([[1]], seeds=values)),
        ("sequence_ids", lambda values: Sampler().clear_cache(values)),
        ("batch_sequence_ids", lambda values: SamplingMetadata.from_numpy([values])),
    ],
)
def test_arrays_that_cannot_be_read_or_are_masked_are_refused_by_name(name, call):
    with pytest.raises(UnsupportedTypeError, match=f"{name} of type .*{UNREADABLE}"):
        call(Unreadable())
    with pytest.raises(UnsupportedTypeError, match=f"{name} is a masked array, which is not allowed"):
        call(np.ma.array([[1, 2]], mask=[[True, False]]))


def test_logits_without_values_are_refused():
    with pytest.raises(UnsupportedTypeError, match="logits are on the device meta"):
        Sampler().sample(Unreadable())
    with pytest.raises(UnsupportedTypeError, match="logits is a masked array"):
        Sampler().sample(np.ma.array(LOGITS, mask=LOGITS > 0))


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64, np.int8, np.int64])
@pytest.mark.parametrize("field", ["temperature", "repetition_penalty", "frequency_penalty", "top_p"])
def test_floats_of_any_width_are_converted_without_warnings(field, dtype):
    converted = getattr(SamplingParam(**{field: np.array([1, 1], dtype)}), field)
    assert converted.dtype == np.float32
    assert converted.tolist() == [1.0, 1.0]


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(
    ("field", "value"),
    [("repetition_penalty", 1e300), ("repetition_penalty", 1e-300), ("frequency_penalty", -1e300)],
)
def test_floats_that_are_no_float32_are_refused(field, value):
    with pytest.raises(
        OutOfBoundsError, match=re.escape(f"{field}={value!r} in row 1 is not allowed: a finite")
    ):
        SamplingParam(**{field: np.array([1.0, value])})


def test_bounds_are_written_out():
    with pytest.raises(OutOfBoundsError, match=f"at least -{2**63} and at most {2**63 - 1}$"):
        SamplingData(request_ids=np.array([2**64 - 1], np.uint64))


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ({"num_threads": "a"}, UnsupportedTypeError, "num_threads='a' is not allowed: an integer"),
        ({"num_threads": 0}, OutOfBoundsError, "num_threads=0 is not allowed"),
        ({"eos_token_ids": 5}, ParameterError, "eos_token_ids=5 is not allowed: a list of token ids"),
        ({"eos_token_ids": [3, -1]}, OutOfBoundsError, "eos_token_ids=-1 is not allowed: token ids from 0"),
        ({"cache_bytes": "1 MB"}, UnsupportedTypeError, "cache_bytes='1 MB' is not allowed: a number of"),
    ],
)
def test_wrong_options_of_a_sampler_are_named_when_it_is_made(arguments, error, message):
    with pytest.raises(error, match=message):
        Sampler(**arguments)


@pytest.mark.parametrize("groups", [None, 5])
def test_sequence_ids_without_groups_are_refused(groups):
    with pytest.raises(UnsupportedTypeError, match=f"batch_sequence_ids={groups} is not allowed: a list"):
        SamplingMetadata.from_numpy(groups)
    with pytest.raises(UnsupportedTypeError, match="reserved_sequence_ids=5 is not allowed: a list"):
        SamplingMetadata.from_numpy([[1]], 5)
