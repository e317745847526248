import json
import math
from collections import Counter

import numpy as np
import pytest

from engine_sampler.arithmetic import FLT_MAX
from engine_sampler.contract import ParameterError
from engine_sampler.params import SamplingParams
from engine_sampler.samplers.penalties import CountedWindow, Penalties
from engine_sampler.testing import SamplerContract, apply_sampler
from engine_sampler.tokenizer import Tokenizer
from tests.conftest import shared_data
from tests.drawing import either, examples, integers, lists, one_of


@pytest.mark.quick_share(4)
class TestLawsWithOtherWindows(SamplerContract):
    sampler = Penalties()
    params = (
        {
            "repetition_penalty": 2.0,
            "repetition_penalty_slope": 3.0,
            "penalty_last_n": 5,
            "penalty_scope": "output",
        },
        {"frequency_penalty": 0.7, "presence_penalty": -0.3, "penalty_scope": "all", "penalty_last_n": 4},
        {"repetition_penalty": 1.1, "frequency_penalty": -0.2, "penalize_nl": False},
    )
    removes = False

    def tokenizer(self, vocab_size):
        return Tokenizer([b"\n", *(b"%d" % i for i in range(vocab_size - 1))])


def penalized(logits, prompt=(), output=(), tokenizer=None, **params):
    return apply_sampler(
        Penalties(), logits, SamplingParams(**params), prompts=[prompt], outputs=[output], tokenizer=tokenizer
    )


def last(history, n):
    return history if n < 0 else history[max(0, len(history) - n) :]


def reference(logits, prompt, output, p):
    """The definition, in float64, without slope."""
    out = np.array(logits, np.float64)
    reach = p.repetition_penalty_range
    repeated = output if p.penalty_scope == "output" else prompt + output
    counted = prompt + output if p.penalty_scope == "all" else output
    for token in set(last(repeated, p.penalty_last_n if reach is None else reach)):
        out[token] *= 1 / p.repetition_penalty if out[token] > 0 else p.repetition_penalty
    for token, count in Counter(last(counted, p.penalty_last_n)).items():
        out[token] -= count * p.frequency_penalty + p.presence_penalty
    return out


tokens = lists(integers(0, 4), 12)
windows = integers(-1, 8)


@examples(
    1000,
    tokens,
    tokens,
    one_of("default", "all", "output"),
    windows,
    either(one_of(None), windows),
    one_of(1.0, 0.5, 1.3),
    one_of(0.0, 0.7, -1.1),
    one_of(0.0, 0.3, -2.0),
)
def test_equals_the_definition_in_float64(prompt, output, scope, n, reach, repetition, frequency, presence):
    params = SamplingParams(
        repetition_penalty=repetition,
        repetition_penalty_range=reach,
        frequency_penalty=frequency,
        presence_penalty=presence,
        penalty_last_n=n,
        penalty_scope=scope,
    )
    logits = np.array([3.0, -2.0, 0.0, 0.1, -7.0, 5.0], np.float32)
    result = penalized(logits, prompt, output, **params.given)
    np.testing.assert_allclose(result, reference(logits, prompt, output, params), rtol=1e-6, atol=1e-6)
    if not Penalties().is_active(params):
        assert (result == logits).all()


# --- peers ---------------------------------------------------------------------------------------


def test_transformers_cases():
    cases = json.loads(shared_data("logits_process_cases.json").read_text())["cases"]
    names = ("repetition_penalty_2", "repetition_penalty_prompt_ignored", "repetition_penalty_after_prompt")
    for case in (c for c in cases if c["id"] in names):
        ignored = case["params"].get("prompt_ignore_length", 0)
        scope = "output" if ignored else "default"
        expected = np.array(case["scores"], np.float64)
        for row, column, value in case["expect"].get("at", ()):
            expected[row, column] = value
        for logits, history, right in zip(case["scores"], case["input_ids"], expected, strict=True):
            result = penalized(
                logits,
                history[:ignored],
                history[ignored:],
                repetition_penalty=case["params"]["penalty"],
                penalty_scope=scope,
            )
            np.testing.assert_allclose(result, right, rtol=1e-6)


def test_koboldai_cases():
    cases = json.loads(shared_data("kobold_cases.json").read_text())["cases"]
    cases = [c for c in cases if c["kind"] == "rep_pen"]
    assert len(cases) == 32
    for case in cases:
        result = penalized(
            case["logits"],
            case["token_ids"],
            repetition_penalty=case["rep_pen"],
            repetition_penalty_range=case["rep_pen_range"] or -1,
            repetition_penalty_slope=case["rep_pen_slope"],
        )
        np.testing.assert_allclose(result, case["expect"], rtol=1e-5)


def test_koboldai_slope_curves():
    cases = json.loads(shared_data("kobold_cases.json").read_text())["cases"]
    cases = [c for c in cases if c["kind"] == "rep_pen_slope_curve"]
    assert len(cases) == 6
    for case in cases:
        reach = case["rep_pen_range"]
        result = penalized(
            -np.ones(reach),
            range(reach),
            repetition_penalty=case["rep_pen"],
            repetition_penalty_range=reach,
            repetition_penalty_slope=case["rep_pen_slope"],
        )
        np.testing.assert_allclose(-result, case["penalty_oldest_to_newest"], rtol=1e-5)


# --- slope ---------------------------------------------------------------------------------------


def test_a_window_of_one_token_gets_the_full_penalty():
    slope = {"repetition_penalty_range": 1, "repetition_penalty_slope": 0.4}
    assert penalized([4.0, 4.0], [0, 1], repetition_penalty=2.0, **slope).tolist() == [4.0, 2.0]


def test_the_last_occurrence_counts():
    slope = {"repetition_penalty_range": 3, "repetition_penalty_slope": 1.0}
    assert penalized([6.0, 6.0], [0, 1, 0], repetition_penalty=2.0, **slope).tolist() == [3.0, 4.0]


def test_without_a_range_the_slope_has_no_effect():
    flat = penalized([4.0, 4.0], [0, 1], repetition_penalty=2.0)
    sloped = penalized([4.0, 4.0], [0, 1], repetition_penalty=2.0, repetition_penalty_slope=0.5)
    assert flat.tolist() == sloped.tolist() == [2.0, 2.0]


@pytest.mark.parametrize("slope", [5e-324, 1e-300, 1e-17, 1.0, 1e17, 1e308])
@pytest.mark.parametrize("penalty", [5e-324, 0.5, 2.0, 1e308])
def test_the_curve_stays_between_one_and_the_penalty(slope, penalty):
    result = penalized(
        -np.ones(9),
        range(9),
        repetition_penalty=penalty,
        repetition_penalty_range=9,
        repetition_penalty_slope=slope,
    )
    low, high = sorted((np.float32(1), np.float32(min(penalty, float(FLT_MAX)))))
    assert ((low <= -result) & (-result <= high)).all()
    assert (np.diff(-result) * (1 if penalty > 1 else -1) >= 0).all()


# --- fading --------------------------------------------------------------------------------------


def faded(history, sustain, decay):
    """What exllamav3's penalties of each token are multiplied by: {token: (newest, sum)} in float64."""
    shares = {}
    for distance, token in enumerate(reversed(history), 1):
        share = min(1.0, max(0.0, 1.0 - (distance - sustain) / decay))
        newest, every = shares.get(token, (0.0, 0.0))
        if share:
            shares[token] = max(newest, share), every + share
    return shares


@examples(
    1000,
    tokens,
    tokens,
    one_of("default", "all", "output"),
    integers(0, 8),
    either(one_of(None), integers(0, 8)),
    integers(1, 9),
    one_of(1.0, 0.5, 1.3),
    one_of(0.0, 0.7, -1.1),
    one_of(0.0, 0.3, -2.0),
)
def test_fading_equals_exllamav3s_kernels(
    prompt, output, scope, n, reach, decay, repetition, frequency, presence
):
    """The full penalty over the newest n ids, a linear share of it over the next `decay`, in float64."""
    logits = np.array([3.0, -2.0, 0.0, 0.1, -7.0, 5.0], np.float32)
    expected = logits.astype(np.float64)
    repeated = output if scope == "output" else prompt + output
    for token, (newest, _) in faded(repeated, n if reach is None else reach, decay).items():
        x = expected[token]
        expected[token] = (1 - newest) * x + newest * (x / repetition if x > 0 else x * repetition)
    for token, (newest, every) in faded(prompt + output if scope == "all" else output, n, decay).items():
        expected[token] -= every * frequency + newest * presence
    result = penalized(
        logits,
        prompt,
        output,
        repetition_penalty=repetition,
        repetition_penalty_range=reach,
        frequency_penalty=frequency,
        presence_penalty=presence,
        penalty_last_n=n,
        penalty_scope=scope,
        penalty_decay_range=decay,
    )
    np.testing.assert_allclose(result, expected, rtol=1e-6, atol=1e-6)


def test_within_the_range_of_full_penalties_fading_changes_no_bit():
    params = {
        "repetition_penalty": 1.3,
        "frequency_penalty": 0.1,
        "presence_penalty": 0.7,
        "penalty_scope": "all",
        "penalty_last_n": 5,
    }
    for penalty in (1.3, 1e300, 5e-324):
        given = params | {"repetition_penalty": penalty}
        right = penalized([3.0, -2.0, 0.1], [2, 0, 1, 1, 0], **given)
        assert penalized([3.0, -2.0, 0.1], [2, 0, 1, 1, 0], penalty_decay_range=7, **given).tolist() == (
            right.tolist()
        )


def test_behind_a_window_without_an_end_or_with_a_slope_nothing_fades():
    history = [0, 1, 0, 2]
    for params in (
        {"repetition_penalty": 2.0, "presence_penalty": 1.0, "penalty_scope": "all"},
        {"repetition_penalty": 2.0, "repetition_penalty_range": 3, "repetition_penalty_slope": 0.7},
    ):
        right = penalized([4.0, 4.0, 4.0], history, **params)
        assert penalized([4.0, 4.0, 4.0], history, penalty_decay_range=5, **params).tolist() == right.tolist()


def test_penalties_of_a_window_of_size_zero_fade_from_the_newest_token_on():
    params = {"presence_penalty": 1.0, "penalty_last_n": 0, "penalty_scope": "all"}
    assert penalized([0.0, 0.0, 0.0], [2, 0, 1], penalty_decay_range=4, **params).tolist() == [
        -0.5,
        -0.75,
        -0.25,
    ]
    assert not Penalties().is_active(SamplingParams(penalty_decay_range=1, **params))
    assert Penalties().is_active(SamplingParams(penalty_decay_range=2, **params))


def test_windows_longer_than_any_history_do_not_overflow():
    params = {"repetition_penalty": 2.0, "penalty_last_n": 2**63 - 1, "penalty_decay_range": 2**31 - 1}
    assert penalized([4.0, 4.0], [0, 1], **params).tolist() == [2.0, 2.0]


# --- newlines ------------------------------------------------------------------------------------


def test_newlines_can_be_exempt():
    newline = Tokenizer([b"\n", b"a", b"\n\n", b"\n"])
    result = penalized(
        [2.0] * 4,
        [0, 1, 2, 3],
        [0, 1, 2, 3],
        repetition_penalty=2.0,
        presence_penalty=0.5,
        penalize_nl=False,
        tokenizer=newline,
    )
    assert result.tolist() == [2.0, 0.5, 0.5, 2.0]


def test_exempting_newlines_needs_a_tokenizer():
    with pytest.raises(ParameterError, match="penalize_nl=False needs a tokenizer"):
        penalized([1.0], repetition_penalty=2.0, penalize_nl=False)


# --- edges ---------------------------------------------------------------------------------------


def test_windows_of_size_zero_turn_it_off():
    assert not Penalties().is_active(SamplingParams(repetition_penalty=2.0, repetition_penalty_range=0))
    assert not Penalties().is_active(SamplingParams(presence_penalty=2.0, penalty_last_n=0))
    assert Penalties().is_active(
        SamplingParams(repetition_penalty=2.0, repetition_penalty_range=5, penalty_last_n=0)
    )


def test_no_penalty_overflows_or_removes():
    result = penalized(
        [FLT_MAX, -FLT_MAX, 0.0, 1.0],
        output=[0, 1, 2, 3],
        repetition_penalty=1e300,
        frequency_penalty=1e300,
        presence_penalty=1e300,
    )
    assert result.tolist() == [-FLT_MAX] * 4
    result = penalized([1.0, -1.0], output=[0, 1], repetition_penalty=5e-324, presence_penalty=-1e300)
    assert result.tolist() == [FLT_MAX, FLT_MAX]


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("repetition_penalty", 0, "a finite number above 0"),
        ("repetition_penalty", math.inf, "a finite number above 0"),
        ("repetition_penalty_range", -2, "an integer of at least -1, or None"),
        ("repetition_penalty_slope", -0.1, "a finite number of at least 0"),
        ("frequency_penalty", math.nan, "a finite number"),
        ("presence_penalty", "1", "a finite number"),
        ("penalty_last_n", 1.5, "an integer of at least -1"),
        ("penalty_decay_range", -1, "an integer of at least 0"),
        ("penalty_decay_range", 2**31, "an integer of at least 0 and at most"),
        ("penalty_scope", "prompt", "one of 'default', 'all', 'output'"),
        ("penalize_nl", 0, "True or False"),
    ],
)
def test_values_out_of_bounds_are_refused(name, value, allowed):
    with pytest.raises(ParameterError, match=f"{name}=.* is not allowed: {allowed}"):
        SamplingParams(**{name: value})


# --- counting ------------------------------------------------------------------------------------


def table(window):
    return dict(zip(window.ids.tolist(), window.counts.tolist(), strict=True))


changes = lists(either(integers(0, 9), lists(integers(0, 5), 6)), 8)


@examples(1000, lists(integers(0, 5), 10), integers(-1, 7), changes)
def test_counts_are_updated_by_every_accept_and_rollback(prompt, size, changes):
    window, tokens = CountedWindow(np.array(prompt, np.int64), size), list(prompt)
    for change in changes:
        if isinstance(change, list):
            window.extend(change)
            tokens += change
        else:
            n = min(change, len(tokens) - len(prompt))
            window.retract(n)
            del tokens[len(tokens) - n :]
        assert table(window) == Counter(last(tokens, size))
        assert (np.diff(window.ids) > 0).all()


@examples(400, tokens, integers(-1, 5), tokens, tokens)
def test_a_copy_is_independent(prompt, size, ours, theirs):
    parent = CountedWindow(np.array(prompt, np.int64), size)
    child = parent.copy()
    parent.extend(ours)
    child.extend(theirs)
    assert table(parent) == Counter(last(prompt + ours, size))
    assert table(child) == Counter(last(prompt + theirs, size))
