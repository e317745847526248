import numpy as np
import pytest

from engine_sampler.arithmetic import MASS_SLACK, distances, weights
from engine_sampler.contract import ParameterError
from engine_sampler.params import SamplingParams
from engine_sampler.samplers.tfs import Tfs
from engine_sampler.testing import apply_sampler
from tests.reference import kept, order, softmax

from .truncation import assert_leaves_a_prefix, assert_the_same_on_any_subset, batches

CUTS = ("llama.cpp", "koboldai")
SETTINGS = [{"tfs": z, "tfs_cut": cut} for z in (0.0, 0.2, 0.5, 0.9, 0.99) for cut in CUTS]
WITH_MIN_KEEP = [{**given, "min_keep": n} for given in SETTINGS[2:6] for n in (3, 50)]
BEND_MARGIN = 1e-3
"""The bends of a dense row are differences of nearly equal logits, of which float32 leaves few digits."""


def left(logits, **params):
    return kept(apply_sampler(Tfs(), logits, params))


def cut_at(bends, reach, params, tokens):
    """How many of `tokens` stay if the cumulative bend may be up to `reach`, by a plain loop."""
    floor = max(1, params.get("min_keep", 0))
    koboldai = params["tfs_cut"] == "koboldai"
    total = 0
    for i, bend in enumerate(bends):
        total += bend
        if total > reach:
            if koboldai:
                return max(i + 1, floor)
            if i >= floor:
                return i
    return max(tokens - 1, floor) if koboldai else tokens


def curve(values, row, params):
    """The values that bend: of the remaining tokens, and 0 for each removed one under KoboldAI's cut."""
    removed = len(row) - len(values) if params["tfs_cut"] == "koboldai" else 0
    return [*values, *[0] * removed]


def by_integers(row, params):
    """The rule on integer weights, in Python's integers."""
    w = curve([int(x) for x in weights(distances(row[order(row)][None]))[0]], row, params)
    bends = [abs(a - 2 * b + c) for a, b, c in zip(w, w[1:], w[2:], strict=False)]
    if not any(bends):
        bends = [1] * len(bends)
    count = cut_at(bends, int((params["tfs"] + MASS_SLACK) * sum(bends)), params, len(w))
    return min(count, len(order(row)))


def by_float64(probabilities, params, row=()):
    p = curve(probabilities, row, params)
    bends = np.abs(np.diff(p, 2))
    bends = bends / bends.sum() if bends.sum() > 1e-12 else np.full(len(bends), 1 / max(1, len(bends)))
    reaches = (params["tfs"] + shift for shift in (-BEND_MARGIN, BEND_MARGIN))
    least, most = (min(cut_at(bends, z, params, len(p)), len(probabilities)) for z in reaches)
    return least, most


def test_equals_the_rule_in_exact_integers():
    for logits, params in batches(SETTINGS + WITH_MIN_KEEP):
        result = apply_sampler(Tfs(), logits, params)
        for row, given, kept_row in zip(logits, params, result, strict=True):
            assert kept(kept_row) == set(order(row)[: by_integers(row, given)].tolist())


def test_cuts_where_float64_probabilities_become_straight():
    by_cut = {cut: [settings for settings in SETTINGS if settings["tfs_cut"] == cut] for cut in CUTS}
    assert_leaves_a_prefix(Tfs(), by_cut["llama.cpp"], by_float64, exact=0.85)
    tight = []
    for logits, params in batches(by_cut["koboldai"]):
        result = apply_sampler(Tfs(), logits, params)
        for row, settings, kept_row in zip(logits, params, result, strict=True):
            least, most = by_float64(softmax(row[order(row)]), settings, row)
            assert least <= len(kept(kept_row)) <= most
            tight.append(least == most)
    assert np.mean(tight) >= 0.85


def test_the_result_does_not_depend_on_other_rows_or_removed_columns():
    assert_the_same_on_any_subset(Tfs(), SETTINGS + WITH_MIN_KEEP)


def test_the_cuts_differ_by_one_token_and_the_last():
    row = np.log([0.4, 0.3, 0.15, 0.1, 0.05])  # cumulative bends 1/3, 1, 1
    assert left(row, tfs=0.5) == {0}
    assert left(row, tfs=0.5, tfs_cut="koboldai") == {0, 1}
    assert left(row, tfs=1.0) == {0, 1, 2, 3, 4}
    assert left(row, tfs=1.0, tfs_cut="koboldai") == {0, 1, 2, 3}


@pytest.mark.parametrize("cut", CUTS)
def test_the_only_token_stays(cut):
    for row in ([3.0], [-np.inf, 3.0], [-np.inf, 3.0, -np.inf, -np.inf]):
        assert left(row, tfs=0.0, tfs_cut=cut) == kept(row)


def test_two_tokens_are_cut_only_by_koboldai():
    for row in ([3.0, -5.0], [-np.inf, 3.0, -np.inf, -5.0]):
        assert left(row, tfs=0.0) == kept(row)
        assert left(row, tfs=0.0, tfs_cut="koboldai") == {int(np.argmax(row))}


def test_removed_tokens_are_the_end_of_koboldais_tail():
    row = [3.0, 2.5, 2.0, 1.5, 1.0]
    assert left(row, tfs=0.95, tfs_cut="koboldai") == {0, 1, 2}
    assert left([*row, -np.inf], tfs=0.95, tfs_cut="koboldai") == {0, 1, 2, 3}
    for removed in (2, 30_000):
        assert left(row + [-np.inf] * removed, tfs=0.95, tfs_cut="koboldai") == {0, 1, 2, 3, 4}
        assert left(row + [-np.inf] * removed, tfs=0.95) == left(row, tfs=0.95) == {0, 1}


def test_of_koboldais_vocabulary_the_last_token_goes_but_not_the_last_that_remains():
    row = [3.0, 2.5, 2.0, 1.5, 1.0]
    assert left(row, tfs=1.0, tfs_cut="koboldai") == {0, 1, 2, 3}
    assert left([*row, -np.inf], tfs=1.0, tfs_cut="koboldai") == {0, 1, 2, 3, 4}


def test_three_tokens_are_cut_only_by_koboldai():
    assert left([3.0, 1.0, 0.0], tfs=0.0) == {0, 1, 2}
    assert left([3.0, 1.0, 0.0], tfs=0.0, tfs_cut="koboldai") == {0}


@pytest.mark.parametrize("size", [12, 4002])
def test_a_row_without_bend_counts_as_evenly_bent(size):
    half = (size - 2) // 2
    assert left(np.ones(size), tfs=0.5) == set(range(half))
    assert left(np.ones(size), tfs=0.5, tfs_cut="koboldai") == set(range(half + 1))


@pytest.mark.parametrize("size", [9, 2000])
def test_tokens_with_weight_zero_stay_unless_the_row_is_cut(size):
    row = np.full(size, -60.0)
    row[:4] = 3.0, 2.0, 1.0, 0.0
    assert left(row, tfs=0.99) == {0, 1, 2}
    assert left(row, tfs=1.0) == set(range(size))
    assert left(row, tfs=1.0, tfs_cut="koboldai") == set(range(size - 1))


def test_uses_the_softmax_and_not_the_logits():
    row = np.array([2.0, 1.0, 0.0, -1.0, -2.0, -3.0])  # as logits without a bend, which would leave three
    assert by_float64(softmax(row), {"tfs": 0.92, "tfs_cut": "llama.cpp"}) == (2, 2)
    assert left(row, tfs=0.92) == {0, 1}


def test_values_out_of_bounds_are_refused():
    with pytest.raises(ParameterError, match=r"tfs=2.0 is not allowed: a finite number"):
        SamplingParams(tfs=2.0)
    with pytest.raises(ParameterError, match=r"tfs_cut='old' is not allowed: one of 'llama.cpp', 'koboldai'"):
        SamplingParams(tfs_cut="old")
